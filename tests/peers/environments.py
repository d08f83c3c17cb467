"""Virtual environments of published clients, one each: made once, kept in the checkout, shared by test processes."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

KEPT_IN = Path(__file__).parents[2] / ".venv-peers"
_MADE = "made.txt"
_MAKE_S = 240.0


class Unreachable(Exception):
    """The environment could not be made, usually since there is no way to a package index."""


def python_of(requirements: str, *, session: str, kept_in: Path = KEPT_IN) -> Path:
    """The Python of an environment that ``requirements`` are installed in, made where there is none yet.

    Args:
        requirements: What pip is given, e.g. "sequence-ai==0.1.0"; several with blanks between.
        session: Names this run of the tests: an environment that could not be made is not tried again within one.
        kept_in: The folder of all environments.

    Raises:
        Unreachable: With what pip said last.
    """
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    place = kept_in / f"{re.sub(r'[^A-Za-z0-9.]+', '-', requirements)}-py{version}"
    python = place / ("Scripts" if os.name == "nt" else "bin") / "python"
    with _alone(place):
        if not (place / _MADE).is_file() or not _runs(python):
            _make(place, python, requirements, session)
    return python


@contextmanager
def _alone(place: Path) -> Iterator[None]:
    """One process at a time: whoever holds it is bounded by `_MAKE_S`, and a process that dies lets go of it."""
    place.parent.mkdir(exist_ok=True)
    with place.with_name(f"{place.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _make(place: Path, python: Path, requirements: str, session: str) -> None:
    failed = place.with_name(f"{place.name}.failed")
    if failed.is_file():
        when, _, why = failed.read_text().partition("\n")
        if when == session:
            raise Unreachable(why)
    shutil.rmtree(place, ignore_errors=True)
    try:
        # The pip beside these tests (22.3 or newer) installs: giving each its own takes longer than all the rest.
        _run(sys.executable, "-m", "venv", "--without-pip", str(place))
        pip = (sys.executable, "-m", "pip", "--python", str(python))
        _run(*pip, "install", "--quiet", "--retries", "1", "--timeout", "15", *requirements.split())
        frozen = _run(*pip, "freeze")
    except Unreachable as unreachable:
        failed.write_text(f"{session}\n{unreachable}")
        raise
    failed.unlink(missing_ok=True)
    (place / _MADE).write_text(frozen)  # last: an environment without it was left half made


def _runs(python: Path) -> bool:
    """Whether the Python it was made with is still there."""
    try:
        return subprocess.run([str(python), "-c", ""], check=False, timeout=60).returncode == 0
    except (OSError, subprocess.SubprocessError):
        return False


def _run(*command: str) -> str:
    told = {**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INPUT": "1"}
    told.pop("PYTHONPATH", None)
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_MAKE_S, env=told, check=False)
    except (OSError, subprocess.SubprocessError) as failed:
        raise Unreachable(str(failed)) from failed
    if done.returncode != 0:
        last = (done.stderr.strip() or done.stdout.strip() or f"exit code {done.returncode}").splitlines()[-1]
        raise Unreachable(last)
    return done.stdout
