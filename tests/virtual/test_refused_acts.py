"""A worker that has too much to do, and the robots it refuses: the arm plays on, and what is asked next is fresh."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from answering import HZ, Answering, acts, by_state, refusal
from driven import drive

import seqrt
from seqrt.link.border import Outgoing
from seqrt.testing.connected import connected
from seqrt.timeline import events as ev
from seqrt.wire.codec import decode
from seqrt.wire.messages import ActRequest

pytestmark = pytest.mark.anyio


async def test_an_act_refused_for_longer_than_a_chunk_lasts_is_followed_by_one_about_what_is_seen_then() -> None:
    async with connected(by_state(rows=12)) as there:
        there.link.app = Answering(there.link.app, acts({3}, refusal(429, "busy", 1.0)))
        driven = await drive(there.policy, max_actions=80, play=seqrt.Play(in_flight=1))
    assert driven.error is None
    failed_at = driven.of(ev.ActFailed)[0].at_s
    after = next(event for event in driven.of(ev.Spliced) if event.at_s > failed_at + 0.5)
    taken = next(event for event in driven.of(ev.Observed) if event.step == after.observed)
    assert after.at_s - taken.at_s < 0.3


async def test_an_act_that_is_tried_again_says_how_near_to_dry_the_robot_is_by_then() -> None:
    told: list[float | None] = []
    async with connected(by_state()) as there:
        there.link.app = Answering(there.link.app, acts({2}, refusal(429, "busy", 0.4)))
        link = there.policy._link
        act = link.act

        async def heard(ask: Outgoing[ActRequest], request_id: str, deadline_s: float) -> Any:
            plan = decode(ask.body, ActRequest).plan
            told.append(plan.dry_in_s if plan is not None else None)
            return await act(ask, request_id, deadline_s)

        link.act = heard  # type: ignore[method-assign]
        driven = await drive(there.policy, max_actions=80)
    assert driven.error is None
    assert driven.outcome is not None
    assert driven.outcome.underruns == 0
    first, again = told[2], told[3]
    assert first is not None
    assert again is not None
    assert again == pytest.approx(first - 0.4, abs=2 / HZ)


async def test_what_the_robot_says_of_the_network_is_what_the_worker_had_no_part_in() -> None:
    told: list[float | None] = []
    async with connected(by_state(infer_s=0.2003)) as there:
        there.link.app = Telling(there.link.app, told)
        await drive(there.policy, max_actions=120)
    assert told[0] is None  # before the first answer
    assert told[-1] is not None
    assert 20.0 < told[-1] < 100.0  # two ways of 10.1 ms, and what waits for a tick


class Telling:
    """Notes what acts say of the network, and passes them on."""

    def __init__(self, app: Any, told: list[float | None]) -> None:
        self._app, self._told = app, told

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["path"] != "/act":
            await self._app(scope, receive, send)
            return
        body = bytearray()

        async def kept() -> Any:
            message = await receive()
            body.extend(message.get("body", b""))
            return message

        await self._app(scope, kept, send)
        plan = decode(bytes(body), ActRequest).plan
        self._told.append(plan.net_p95_ms if plan is not None else None)
        await anyio.lowlevel.checkpoint()
