"""A bench's processes, each in a session of its own: Ctrl-C is the bench's to answer, and it ends them."""

from __future__ import annotations

import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import anyio.abc


@asynccontextmanager
async def alone(command: list[str], *, cwd: Path, env: dict[str, str]) -> AsyncIterator[anyio.abc.Process]:
    """The process of ``command``, killed when the bench is stopped before it has ended; errors go where ours go."""
    async with await anyio.open_process(
        command, cwd=cwd, env=env, stdin=subprocess.PIPE, stderr=None, start_new_session=True
    ) as process:
        try:
            yield process
        except BaseException:
            process.kill()  # before its pipes are closed, of which it would complain
            raise
