"""Who goes first up one connection. `Rate` is tested apart, and with the whole runtime below."""

from __future__ import annotations

from dataclasses import dataclass, field

import anyio
import anyio.abc
import numpy as np
import pytest
from driven import drive

from seqrt import Observations, Stream
from seqrt.link.border import Unwanted, Urgency
from seqrt.link.sender import Post, Sender
from seqrt.testing.connected import connected
from seqrt.testing.policies import Scripted
from seqrt.testing.robots import FakeArm
from seqrt.timeline import events as ev

pytestmark = pytest.mark.anyio

RATE = 1e6
PIECE = 4096


@dataclass
class Road:
    """Posts of ten pieces over a way of a megabyte a second, and the order their pieces went in."""

    sender: Sender = field(default_factory=lambda: Sender(RATE))
    went: list[int] = field(default_factory=list)
    needed: set[int] = field(default_factory=set)

    async def post(self, number: int, pieces: int = 10) -> None:
        post = Post(pieces * PIECE, number, Urgency(lambda: number in self.needed))
        try:
            while post.left:
                await self.sender.turn(post)
                self.went.append(number)
        except BaseException:
            self.sender.lost(post)
            raise

    async def start(self, tasks: anyio.abc.TaskGroup, *numbers: int) -> None:
        """In this order; the first one is under way then."""
        for number in numbers:
            tasks.start_soon(self.post, number)
            await anyio.sleep(0.0003)
        await anyio.sleep(0.0153)

    @property
    def order(self) -> list[int]:
        """The posts, without a piece's repetition by the next one of the same."""
        return [n for i, n in enumerate(self.went) if i == 0 or self.went[i - 1] != n]


async def test_the_oldest_goes_first_and_whole_before_the_next() -> None:
    road = Road()
    async with anyio.create_task_group() as tasks:
        await road.start(tasks, 7, 3, 5)
    assert road.order == [7, 3, 5]
    assert len(road.went) < 30  # now and then some go at once, to see what the way carries


async def test_pieces_are_paced_and_an_act_goes_at_once() -> None:
    road, begun_s = Road(), anyio.current_time()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(road.post, 0, 50)
        await anyio.sleep(0.0203)
        before = anyio.current_time()
        road.sender.control(400)
        assert anyio.current_time() == before
    took_s = anyio.current_time() - begun_s
    assert took_s == pytest.approx(50 * PIECE / (0.95 * RATE), abs=0.02)


async def test_what_an_act_needs_goes_before_what_was_begun_which_then_goes_on() -> None:
    road = Road()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(road.post, 0)
        await anyio.sleep(0.0153)
        road.needed.add(1)
        tasks.start_soon(road.post, 1)
    assert road.order == [0, 1, 0]


async def test_a_post_that_waits_is_promoted_when_an_act_goes_out_that_needs_it() -> None:
    road = Road()
    async with anyio.create_task_group() as tasks:
        await road.start(tasks, 0, 1, 2)
        road.needed.add(2)
        road.sender.control(400)
    assert road.order == [0, 2, 0, 1]


async def test_of_what_acts_need_the_newest_goes_first() -> None:
    road = Road()
    async with anyio.create_task_group() as tasks:
        await road.start(tasks, 0, 1, 2, 3)
        road.needed |= {1, 3}
        road.sender.control(400)
    assert road.order == [0, 3, 1, 0, 2]


async def test_a_post_given_up_while_it_waits_stands_in_nobodys_way() -> None:
    road = Road()
    async with anyio.create_task_group() as tasks, anyio.create_task_group() as given_up:
        given_up.start_soon(road.post, 0)
        await anyio.sleep(0.0003)
        tasks.start_soon(road.post, 1)
        await anyio.sleep(0.0153)
        given_up.cancel_scope.cancel()
    assert road.order == [0, 1]
    assert road.went.count(1) > 5


async def test_where_nothing_has_shown_a_limit_a_body_goes_whole() -> None:
    road = Road(Sender())
    await road.post(0, 100)
    assert road.went == [0]
    assert road.sender.statistics().pieces == 1


async def test_statistics_say_what_waits() -> None:
    road = Road()
    async with anyio.create_task_group() as tasks:
        await road.start(tasks, 0, 1, 2)
        road.needed.add(2)
        there = road.sender.statistics()
        assert (there.bytes_per_s, there.needed, there.waiting) == (RATE, 1, 2)
        assert 20 * PIECE < there.waiting_bytes < 30 * PIECE
    assert road.sender.statistics().waiting_bytes == 0
    assert road.sender.statistics().held_s > 0.05


# The whole runtime.

FRAME = 10_000


class Camera(FakeArm):
    """Sees noise, which nothing makes smaller."""

    def __init__(self) -> None:
        super().__init__(3)
        self._noise = np.random.default_rng(0)

    def observe(self) -> dict[str, object]:
        return {**super().observe(), "camera": self._noise.integers(0, 255, FRAME, dtype=np.uint8)}


def watched(when_behind: str = "wait") -> Observations:
    """Every frame since the last act is read."""
    streams = {"state": Stream(shape=[3], dtype="float32"), "camera": Stream(every=1)}
    return Observations(streams=streams, when_behind=when_behind)


async def test_a_stream_that_fits_goes_whole_and_unheld() -> None:
    policy = Scripted(rows=24, hz=15, infer_s=0.0803, observations=watched())
    async with connected(policy) as there:
        driven = await drive(there.policy, Camera(), max_actions=45)
        link = there.policy.statistics().link
    assert link.bytes_per_s is None
    assert link.held_s == 0
    assert link.pieces == len([event for event in driven.of(ev.Posted) if event.frames])


async def test_nothing_is_lost_on_a_link_that_is_too_narrow_and_acts_wait() -> None:
    policy = Scripted(rows=24, hz=15, infer_s=0.0803, observations=watched())
    async with connected(policy, up_bytes_per_s=100e3) as there:  # of 150
        driven = await drive(there.policy, Camera(), max_actions=40)
        link = there.policy.statistics().link
    assert driven.error is None
    assert driven.outcome is not None
    assert driven.outcome.actions == 40
    assert driven.of(ev.ActFailed) == []
    read = [step for call in policy.calls for step in call.steps]
    assert read == list(range(len(read)))  # each frame once, in order, up to the last act
    assert link.bytes_per_s == pytest.approx(100e3, rel=0.1)


async def test_drop_oldest_bounds_the_age_of_what_is_served_on_a_link_that_is_too_narrow() -> None:
    policy = Scripted(rows=24, hz=15, infer_s=0.0803, observations=watched("drop_oldest"))
    async with connected(policy, up_bytes_per_s=50e3) as there:  # of 150
        driven = await drive(there.policy, Camera(), max_seconds=14.0)
    answered = [answer for answer in driven.of(ev.Answered) if answer.observed > 5 * 15]  # the rate is known by then
    assert len(answered) > 1
    # Eight frames that wait, two that stand ready, one begun, and the act's own.
    assert max(answer.latency_s for answer in answered) < 0.0202 + 0.0803 + 12 * (FRAME + 500) / 47e3


async def test_a_run_says_once_that_its_observations_need_more_than_the_link_carries() -> None:
    policy = Scripted(rows=24, hz=15, infer_s=0.0803, observations=watched("drop_oldest"))
    async with connected(policy, up_bytes_per_s=75e3) as there:  # of 150
        driven = await drive(there.policy, Camera(), max_seconds=6.0)
    (bound,) = driven.of(ev.UploadBound)
    assert bound.bytes_per_s == pytest.approx(75e3, rel=0.1)
    assert bound.needed_bytes_per_s == pytest.approx(150e3, rel=0.15)
    assert driven.outcome is not None
    assert driven.outcome.upload_bound is not None
    assert driven.outcome.frames_dropped > 10


async def test_nobody_sends_what_nobody_reads_any_more() -> None:
    road, read = Road(), True
    post = Post(PIECE, 1, Urgency(unwanted=lambda: not read))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(road.post, 0)
        await anyio.sleep(0.0003)
        read = False
        with pytest.raises(Unwanted):
            await road.sender.turn(post)
    assert post.left == PIECE
