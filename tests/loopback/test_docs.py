"""README.md and docs/*.md hold what they say: their Python runs, their links lead somewhere, their tests exist.

A file's ``python`` fences run in order, in one namespace, with ``await`` allowed at the top level. What is called
``test_…`` in them then runs in virtual time, on asyncio and on trio. ``http://gpu:8080`` is a worker of this test, and
``robot`` an arm with the names that the README uses.
"""

from __future__ import annotations

import ast
import inspect
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import anyio.from_thread
import numpy as np
import pytest

from seqrt.policies import Host, in_thread
from seqrt.testing import FakeArm, Scripted, virtual
from seqrt.worker.server import serving

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)

pytestmark = pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)


class DocumentedRobot(FakeArm):
    """The robot of the README."""

    def __init__(self) -> None:
        super().__init__(3, clock=time.monotonic)  # the blocking face calls it outside of any loop
        self.read_observation, self.apply_action, self.hold_position = self.observe, self.act, self.hold

    def is_safe(self, row: Any) -> bool:
        return bool(np.abs(row).max() < 10)


@pytest.fixture(scope="module")
def worker_url() -> Iterator[str]:
    async def serve() -> Any:
        quick = Scripted(rows=50, dims=3, hz=100.0, by="state", step_size=0.001)  # 250 actions in 2.5 s
        return serving(Host(quick, offload=in_thread(), model="pi05-droid"))

    with (
        anyio.from_thread.start_blocking_portal() as portal,
        portal.wrap_async_context_manager(portal.call(serve)) as server,
    ):
        yield server.url


def python_of(document: Path) -> Iterator[tuple[int, str]]:
    """Each ``python`` fence with the line it begins at."""
    text = document.read_text(encoding="utf-8")
    for fence in FENCE.finditer(text):
        if fence[1] == "python":
            yield text.count("\n", 0, fence.start(2)), fence[2]


def run_fence(document: Path, line: int, source: str, names: dict[str, Any]) -> None:
    code = compile("\n" * line + source, str(document), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    if not code.co_flags & inspect.CO_COROUTINE:
        exec(code, names)
        return

    async def run() -> None:
        await eval(code, names)

    anyio.run(run)


def test_its_python_runs(document: Path, worker_url: str) -> None:
    names: dict[str, Any] = {"__name__": "document", "robot": DocumentedRobot()}
    for line, source in python_of(document):
        run_fence(document, line, source.replace("http://gpu:8080", worker_url), names)
    for name, test in names.items():
        if name.startswith("test_"):
            for backend in virtual.backends():
                virtual.run(test, backend=backend)


def test_its_fences_say_what_they_are(document: Path) -> None:
    languages = {fence[1] for fence in FENCE.finditer(document.read_text(encoding="utf-8"))}
    assert languages <= {"python", "text", "console"}


def test_its_links_lead_somewhere(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)#]+)", text)
    missing = [link for link in links if "://" not in link and not (document.parent / link).exists()]
    assert not missing


def test_the_tests_it_names_exist(document: Path) -> None:
    named = set(re.findall(r"`(test_\w+)`", document.read_text(encoding="utf-8")))
    source = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    assert not {name for name in named if f"def {name}(" not in source}
