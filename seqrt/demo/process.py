"""The demo's worker, in a process of its own: started, waited for, stopped."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import anyio
from anyio.abc import ByteReceiveStream, Process
from anyio.streams.text import TextReceiveStream

from seqrt.errors import SeqrtError

STARTS_WITHIN_S = 60.0
STOPS_WITHIN_S = 5.0
LINES_KEPT = 30

_URL = re.compile(r"https?://[\w.\-\[\]:]+")
_ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
"""The planner's matrices are small: more threads only take the robot's core."""


class WorkerFailed(SeqrtError):
    """The worker's process ended, or never said where it listens.

    Attributes:
        said: What it printed last.
    """

    def __init__(self, what: str, said: str) -> None:
        super().__init__(f"{what}; it said:\n{said}" if said else what)
        self.said = said


@dataclass(frozen=True)
class WorkerProcess:
    """A worker that listens.

    Attributes:
        url: Where.
        port: The port of that.
        pid: Of its process.
    """

    url: str
    port: int
    pid: int


@asynccontextmanager
async def worker_process(target: str) -> AsyncIterator[WorkerProcess]:
    """Serve a policy from a new process, at a free port of the loopback, until the block is left.

    Args:
        target: "module:Policy".

    Raises:
        WorkerFailed: It did not come up within a minute.
    """
    command = [sys.executable, "-m", "seqrt.cli", "serve", target, "--host", "127.0.0.1", "--port", "0"]
    process = await anyio.open_process(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, **_ONE_THREAD, "PYTHONUNBUFFERED": "1"},
        # Ctrl-C is for the run, which ends its episode with the worker still there.
        start_new_session=True,
    )
    said: deque[str] = deque(maxlen=LINES_KEPT)
    try:
        assert process.stdout is not None
        url = await _url(process.stdout, said)
        async with beside(partial(_drain, process.stdout)):
            yield WorkerProcess(url, int(url.rsplit(":", 1)[1]), process.pid)
    finally:
        with anyio.CancelScope(shield=True):
            await _stop(process)


@asynccontextmanager
async def beside(task: Callable[[], Coroutine[Any, Any, None]]) -> AsyncIterator[None]:
    """Run a task until the block is left. What the block raises comes out as it is, in no group."""
    failure: Exception | None = None
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(task)
        try:
            yield
        except Exception as raised:
            failure = raised
        tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure


async def _url(output: ByteReceiveStream, said: deque[str]) -> str:
    """Read lines until one holds an address."""
    rest = ""
    with anyio.move_on_after(STARTS_WITHIN_S):
        async for text in TextReceiveStream(output, errors="replace"):
            *lines, rest = (rest + text).split("\n")
            for line in lines:
                said.append(line)
                found = _URL.search(line)
                if found:
                    return found.group()
        raise WorkerFailed("the worker ended before it listened", "\n".join([*said, rest]))
    raise WorkerFailed(f"the worker did not listen within {STARTS_WITHIN_S:.0f} s", "\n".join([*said, rest]))


async def _drain(output: ByteReceiveStream) -> None:
    """Keep reading: a process whose pipe is full stands still."""
    async for _ in output:
        pass


async def _stop(process: Process) -> None:
    if process.returncode is None:
        process.terminate()
        with anyio.move_on_after(STOPS_WITHIN_S):
            await process.wait()
    if process.returncode is None:
        process.kill()
        await process.wait()
    await process.aclose()
