from __future__ import annotations

import pytest
from hypothesis import settings

# The same examples on every machine and no deadline: a slow machine is no failure.
settings.register_profile("seqrt", derandomize=True, deadline=None, max_examples=60)
settings.load_profile("seqrt")

REAL = frozenset({"loopback", "peers"})
"""The rungs of tests that run on the machine's own clock."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What runs on the machine's own clock and sockets is run once more where it fails, and the summary tells it.

    A shared machine stands still at times, which is nobody's fault; nothing else is ever run again.
    """
    for item in items:
        if config.pluginmanager.hasplugin("rerunfailures") and REAL.intersection(item.path.parts):
            item.add_marker(pytest.mark.flaky(reruns=1))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What failed and was run again, with what it said: a fault to look at."""
    for report in terminalreporter.getreports("rerun"):
        terminalreporter.section(f"run again: {report.nodeid}", sep="_")
        terminalreporter.line(report.longreprtext)
