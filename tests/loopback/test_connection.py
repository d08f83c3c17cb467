"""One HTTP/2 connection shared by requests in flight: an answer is there as soon as it has been read."""

from __future__ import annotations

import anyio
import anyio.abc
import h2.config
import h2.connection
import h2.events
import httpx
import pytest
from echoing import HANG_S

from seqrt.link.network import Network
from seqrt.link.opening import OneConnection

pytestmark = pytest.mark.anyio

IN_FLIGHT, ROUNDS = 4, 12


class Answering:
    """A server that has `IN_FLIGHT` requests wait, makes whoever reads look up, and answers the first of them.

    It waits until the next request is there, which comes when that answer has been taken, and so on. In which order
    requests come to wait for their turn to read is for the loop to say, and trio draws lots: one answer may be lucky.
    """

    async def __call__(self, stream: anyio.abc.SocketStream) -> None:
        connection = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False))
        connection.initiate_connection()
        asked: list[int] = []
        async with stream:
            for answered in range(ROUNDS):
                while len(asked) < IN_FLIGHT + answered:
                    await stream.send(connection.data_to_send())
                    events = connection.receive_data(await stream.receive())
                    asked += [event.stream_id for event in events if isinstance(event, h2.events.StreamEnded)]
                # Nobody's answer: whoever reads for all gives way to the next in line.
                connection.ping(b"anything")
                await stream.send(connection.data_to_send())
                while not any(isinstance(event, h2.events.PingAckReceived) for event in events):
                    events = connection.receive_data(await stream.receive())
                self._answer(connection, asked[answered])
                await stream.send(connection.data_to_send())
            await anyio.sleep_forever()

    @staticmethod
    def _answer(connection: h2.connection.H2Connection, stream_id: int) -> None:
        connection.send_headers(stream_id, [(":status", "204")], end_stream=True)


async def test_an_answer_does_not_wait_for_the_next_one_that_somebody_else_waits_for() -> None:
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=0)
    all_answered, answered = anyio.Event(), 0
    address = f"http://127.0.0.1:{listener.extra(anyio.abc.SocketAttribute.local_port)}"
    transport = OneConnection(Network(http2=True), http1=False)

    async with listener, httpx.AsyncClient(transport=transport, base_url=address, timeout=None) as client:

        async def ask_on() -> None:
            nonlocal answered
            while True:
                assert (await client.get("/")).status_code == 204
                answered += 1
                if answered == ROUNDS:
                    all_answered.set()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(listener.serve, Answering())
            for _ in range(IN_FLIGHT):
                tasks.start_soon(ask_on)
            with anyio.move_on_after(HANG_S):
                await all_answered.wait()
            tasks.cancel_scope.cancel()
    assert answered == ROUNDS
