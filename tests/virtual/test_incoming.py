"""Bodies that arrive slowly, or not at all: whom they keep out."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from seqrt.errors import Unavailable
from seqrt.worker.incoming import AHEAD_BYTES, Incoming, Inflow

pytestmark = pytest.mark.anyio

MOST = 64 * AHEAD_BYTES


def body(*chunks: bytes, announced: int, ends: bool = True) -> Incoming:
    """A body of these chunks; where it does not end, nothing comes behind them."""
    left = list(chunks)

    async def receive() -> dict[str, Any]:
        if not left:
            await anyio.sleep_forever()
        return {"type": "http.request", "body": left.pop(0), "more_body": bool(left) or not ends}

    return Incoming(receive, str(announced), http_1=True)


async def read(incoming: Incoming, inflow: Inflow) -> bytes:
    return await incoming.read(MOST, inflow, lambda: None)


async def test_those_who_announce_much_and_send_nothing_keep_nobody_out() -> None:
    inflow = Inflow(MOST)
    async with anyio.create_task_group() as slow:
        for _ in range(20):
            slow.start_soon(read, body(b"x", announced=MOST, ends=False), inflow)
        await anyio.sleep(0.1)
        whole = b"y" * (32 * AHEAD_BYTES)
        assert await read(body(whole, announced=len(whole)), inflow) == whole
        slow.cancel_scope.cancel()
    inflow.take(MOST)  # all the room is there again


async def test_what_has_arrived_takes_room_and_what_finds_none_is_told_to_come_again() -> None:
    inflow, half = Inflow(MOST), b"x" * (MOST // 2)
    async with anyio.create_task_group() as slow:
        slow.start_soon(read, body(half, announced=MOST, ends=False), inflow)
        await anyio.sleep(0.1)
        with pytest.raises(Unavailable) as refused:
            await read(body(half, b"y", announced=len(half) + 1), inflow)
        assert refused.value.code == "busy"
        slow.cancel_scope.cancel()
    inflow.take(MOST)
