from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from pathlib import Path

import environments
import pytest
from conversing import Client
from places import Places, places

FIRST = "sequence-ai==0.1.0"
NEWEST = os.environ.get("SEQRT_PEER_NEWEST", "sequence-ai==0.51.5")
"""The newest that was driven; `SEQRT_PEER_NEWEST=sequence-ai` asks the index for a newer one."""


@pytest.fixture(scope="session")
def python_of(request: pytest.FixtureRequest) -> Callable[[str], Path]:
    """Gives the Python of an environment that requirements are installed in; skips where it cannot be made."""
    session = getattr(request.config, "workerinput", {}).get("testrunuid", str(os.getpid()))

    def of(requirements: str) -> Path:
        try:
            return environments.python_of(requirements, session=session)
        except environments.Unreachable as unreachable:
            pytest.skip(f"{requirements} cannot be installed here: {unreachable}")

    return of


@pytest.fixture(scope="session")
def first_python(python_of: Callable[[str], Path]) -> Path:
    return python_of(FIRST)


@pytest.fixture(scope="session")
def newest_python(python_of: Callable[[str], Path]) -> Path:
    return python_of(NEWEST)


@pytest.fixture(scope="session")
def newest_python_with_numpy(python_of: Callable[[str], Path]) -> Path:
    return python_of(f"{NEWEST} numpy")


@pytest.fixture
def first(first_python: Path, tmp_path: Path) -> Iterator[Client]:
    """A process with the first published client."""
    with Client(first_python, "first.py", tmp_path) as client:
        yield client


@pytest.fixture
def robots(newest_python: Path, tmp_path: Path) -> Iterator[Callable[[], Client]]:
    """Starts processes with the newest client."""
    with ExitStack() as open_:
        yield lambda: open_.enter_context(Client(newest_python, "newest.py", tmp_path))


@pytest.fixture
def serve(tmp_path: Path) -> Callable[..., AbstractContextManager[Places]]:
    """Opens `places` for a policy."""
    return partial(places, folder=tmp_path)
