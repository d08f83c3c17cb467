"""The sockets of a link: how they are set, whom they reach, what the kernel says of them."""

from __future__ import annotations

import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.abc
import httpcore
import pytest
from echoing import HANG_S

from seqrt.link.http import HttpLink, clients
from seqrt.link.network import Network
from seqrt.link.pause import measure_pause
from seqrt.link.tcp import is_over, tcp_info
from seqrt.testing.offload import inline
from seqrt.worker import serving

pytestmark = pytest.mark.anyio
on_linux = pytest.mark.skipif(sys.platform != "linux", reason="what Linux knows")


class Nothing:
    def infer(self, obs: Any) -> Any:
        return [0.0]


@asynccontextmanager
async def echoing(host: str = "127.0.0.1", port: int = 0) -> AsyncIterator[int]:
    async def echo(stream: anyio.abc.SocketStream) -> None:
        async with stream:
            async for data in stream:
                await stream.send(data)

    listener = await anyio.create_tcp_listener(local_host=host, local_port=port)
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, echo)
        yield listener.extra(anyio.abc.SocketAttribute.local_port)
        tasks.cancel_scope.cancel()


class Names:
    """Resolves one name to what it is told, and counts how often it is asked."""

    def __init__(self, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.address = address
        self.asked = 0
        self._known = socket.getaddrinfo
        monkeypatch.setattr(socket, "getaddrinfo", self._resolve)

    def _resolve(self, host: Any, port: Any, *rest: Any, **more: Any) -> Any:
        flags = more.get("flags", rest[3] if len(rest) > 3 else 0)  # trio asks first whether the name is a number
        if host in ("worker.test", b"worker.test") and not flags & socket.AI_NUMERICHOST:
            self.asked += 1
            host = self.address
        return self._known(host, port, *rest, **more)


@on_linux
async def test_a_socket_sends_at_once_and_the_kernel_finds_out_that_a_peer_is_gone() -> None:
    async with echoing() as port:
        stream = await Network().connect_tcp("127.0.0.1", port)
        raw = stream.get_extra_info("socket")
        found = {
            name: raw.getsockopt(socket.IPPROTO_TCP, getattr(socket, name))
            for name in ("TCP_NODELAY", "TCP_KEEPIDLE", "TCP_KEEPINTVL", "TCP_KEEPCNT", "TCP_USER_TIMEOUT")
        }
        assert found == {
            "TCP_NODELAY": 1,
            "TCP_KEEPIDLE": 10,
            "TCP_KEEPINTVL": 5,
            "TCP_KEEPCNT": 4,
            "TCP_USER_TIMEOUT": 30_000,
        }
        assert raw.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        await stream.aclose()


@on_linux
async def test_the_kernel_says_how_a_connection_fares_as_long_as_it_is_open() -> None:
    async with echoing() as port:
        stream = await Network().connect_tcp("127.0.0.1", port)
        await stream.write(b"x" * 1000)
        assert await stream.read(1000)
        known = tcp_info(stream.get_extra_info("socket"))
        assert known is not None
        assert known.rtt_s > 0
        assert known.cwnd >= 10
        assert (known.mss_bytes > 0, known.retransmits) == (True, 0)
        await stream.aclose()
        assert tcp_info(stream.get_extra_info("socket")) is None
    assert tcp_info(None) is None


async def test_a_connection_is_over_once_the_other_end_has_closed_it() -> None:
    async def close(stream: anyio.abc.SocketStream) -> None:
        await asked.wait()
        await stream.aclose()
        closed.set()

    asked, closed = anyio.Event(), anyio.Event()
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=0)
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, close)
        port = listener.extra(anyio.abc.SocketAttribute.local_port)
        stream = await Network().connect_tcp("127.0.0.1", port)
        assert not is_over(stream.get_extra_info("socket"))
        asked.set()
        await closed.wait()
        with anyio.fail_after(HANG_S):
            while not is_over(stream.get_extra_info("socket")):
                await anyio.lowlevel.checkpoint()
        await stream.aclose()
        tasks.cancel_scope.cancel()


@on_linux
async def test_a_name_is_looked_up_once_and_again_when_nobody_is_at_its_address_any_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names, network = Names("127.0.0.1", monkeypatch), Network()
    async with echoing("127.0.0.1") as port:
        for _ in range(3):
            await (await network.connect_tcp("worker.test", port)).aclose()
        assert names.asked == 1
    names.address = "127.0.0.2"
    async with echoing("127.0.0.2", port):
        for _ in range(2):
            stream = await network.connect_tcp("worker.test", port)
            assert stream.get_extra_info("server_addr")[0] == "127.0.0.2"
            await stream.aclose()
        assert names.asked == 2
    with pytest.raises(httpcore.ConnectError, match="refused"):
        await network.connect_tcp("worker.test", port)


async def test_a_name_nobody_knows_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: Any, **__: Any) -> Any:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with pytest.raises(httpcore.ConnectError, match=r"no address is known for the name nobody\.test"):
        await Network().connect_tcp("nobody.test", 443)


async def test_a_pause_is_measured_on_the_connection_itself() -> None:
    async with serving(Nothing(), secret="key") as server:
        new = clients(server.url, timeout_s=HANG_S, key=lambda: "key")
        link = HttpLink(new, host="worker", timeout_s=HANG_S, offload=inline())
        try:
            await link.info()
            cost = await measure_pause(link, pauses_s=(0.0, 0.0101), body_bytes=30_000)
        finally:
            await link.aclose()
    assert [pause.pause_s for pause in cost.pauses] == [0.0, 0.0101]
    assert all(pause.took_s > 0 and pause.round_trips > 0 for pause in cost.pauses)
    if sys.platform == "linux":
        assert all((pause.cwnd_before or 0) >= 10 and (pause.cwnd_after or 0) >= 10 for pause in cost.pauses)
