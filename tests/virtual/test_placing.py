"""Which of a few workers a robot gets, in virtual time: real workers behind scripted networks."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace

import anyio
import httpx
import pytest

from seqrt.errors import AuthError, Gone, LinkLost, NotFound, RemoteError, Unavailable
from seqrt.gateway.fixedworkers import FixedWorkers
from seqrt.gateway.placing import Robot
from seqrt.gateway.seats import OnFull, Seats
from seqrt.gateway.sites import RemoteSite
from seqrt.link.http import HttpLink
from seqrt.policies.host import Host
from seqrt.policies.limits import HostLimits
from seqrt.testing.connected import served
from seqrt.testing.offload import inline
from seqrt.testing.outages import Kind
from seqrt.testing.policies import Scripted
from seqrt.testing.transport import LinkTransport
from seqrt.wire.leases import LeaseRequest
from seqrt.wire.messages import ActRequest, Frame, ObserveRequest
from seqrt.worker.app import app

pytestmark = pytest.mark.anyio

ROOT = "of-the-worker"


@dataclass
class Behind:
    """A worker behind a network, as a gateway has it."""

    host: Host
    link: LinkTransport
    site: RemoteSite

    async def restart(self) -> None:
        self.host = served(Scripted())
        await self.host.start()
        self.link.app = app(self.host, secret=ROOT)


@asynccontextmanager
async def workers(*names: str, seats: int | None = None, started: bool = True) -> AsyncIterator[list[Behind]]:
    async with AsyncExitStack() as stack:
        behind = []
        for name in names:
            limits = HostLimits() if seats is None else HostLimits(episodes=seats)
            host = served(Scripted(), limits=limits)
            if started:
                await host.start()
            link = await stack.enter_async_context(LinkTransport(app(host, secret=ROOT), up_s=0.0101, down_s=0.0101))
            http = _link(link, name)
            stack.push_async_callback(http.aclose)
            behind.append(Behind(host, link, RemoteSite(http, url=f"http://{name}.test")))
        yield behind


def _link(link: LinkTransport, name: str, secret: str = ROOT) -> HttpLink:
    def new_client() -> httpx.AsyncClient:
        headers = {"authorization": f"Bearer {secret}"}
        return httpx.AsyncClient(transport=link, base_url=f"http://{name}.test", headers=headers, timeout=None)

    return HttpLink(new_client, host=f"{name}.test:80", timeout_s=5.0, offload=inline())


def place(behind: list[Behind], on_full: OnFull = "queue", queue_timeout_s: float = 120.0) -> FixedWorkers:
    seats = Seats(len(behind), on_full=on_full, queue_timeout_s=queue_timeout_s)
    return FixedWorkers([worker.site for worker in behind], seats=seats)


def robots(count: int) -> list[Robot]:
    return [Robot("lab", f"robot-{number}") for number in range(count)]


async def began(worker: Behind, robot: Robot) -> None:
    """An act under the robot's lease, which begins an episode there."""
    await worker.host.act(
        ActRequest(inputs={"x": 1.0}, seq=0, episode_id="e"), request_id="r-00000001", owner=robot.lease
    )


async def test_robots_are_spread_over_the_workers_and_each_stays_where_it_is() -> None:
    async with workers("a", "b") as behind:
        there = place(behind)
        first = [(await there.place(robot)).url for robot in robots(4)]
        again = [(await there.place(robot)).url for robot in robots(4)]
    assert first == ["http://a.test", "http://b.test"] * 2
    assert again == first


async def test_robots_that_come_at_once_are_spread_too() -> None:
    async with workers("a", "b") as behind, anyio.create_task_group() as tasks:
        there, urls = place(behind), list[str]()

        async def come(robot: Robot) -> None:
            urls.append((await there.place(robot)).url)

        for robot in robots(6):
            tasks.start_soon(come, robot)
    assert sorted(urls) == ["http://a.test"] * 3 + ["http://b.test"] * 3


async def test_a_renewal_keeps_the_secret_and_a_release_frees_the_seat() -> None:
    async with workers("a", seats=1) as behind:
        there, (one, other) = place(behind, on_full="reject"), robots(2)
        placed = await there.place(one)
        kept = await there.keep(one)
        assert kept is not None
        assert (kept.secret, kept.epoch) == (placed.secret, placed.epoch)
        with pytest.raises(Unavailable) as full:
            await there.place(other)
        await there.release(one)
        assert (await there.place(other)).secret != placed.secret
        assert await there.keep(one) is None
    assert (full.value.code, full.value.details["reason"]) == ("busy", "full")


async def test_a_seat_whose_robot_is_silent_is_free_when_its_lease_is_over() -> None:
    async with workers("a", seats=1) as behind:
        there, (one, other) = place(behind, on_full="reject"), robots(2)
        placed = await there.place(one)
        await began(behind[0], one)
        await anyio.sleep(placed.ttl_s + 0.1)
        await there.place(other)
        assert behind[0].host.episodes_of(one.lease) == 0


async def test_a_draining_worker_gets_no_new_robots_and_keeps_those_whose_episode_is_live() -> None:
    async with workers("a", "b") as behind:
        there, (live, idle, new) = place(behind), robots(3)
        assert (await there.place(live)).url == "http://a.test"
        await there.place(Robot("lab", "on b"))
        assert (await there.place(idle)).url == "http://a.test"
        await began(behind[0], live)
        behind[0].host.drain()
        assert [(await there.place(robot)).url for robot in (live, idle, new)] == [
            "http://a.test", "http://b.test", "http://b.test",
        ]  # fmt: skip


async def test_a_dead_worker_is_passed_over_and_its_robots_go_to_the_other(caplog: pytest.LogCaptureFixture) -> None:
    async with workers("a", "b") as behind:
        there, (one, new) = place(behind), robots(2)
        assert (await there.place(one)).url == "http://a.test"
        behind[0].link.begin_outage("refused")
        with pytest.raises(Unavailable):
            await there.keep(one)  # it may be the gateway alone that does not get there
        assert (await there.place(new)).url == "http://b.test"
        assert (await there.place(one)).url == "http://b.test"
        lost = "seq ev=worker.lost rid=- worker=http://a.test | cannot connect: "
        assert [record.message[: len(lost)] for record in caplog.records] == [lost]  # once


async def test_a_worker_that_is_back_is_said_to_be(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "seqrt.gateway.fixedworkers")
    async with workers("a") as behind:
        there, (robot,) = place(behind), robots(1)
        behind[0].link.begin_outage("refused")
        with pytest.raises(Unavailable):
            await there.place(robot)
        behind[0].link.end_outage()
        await there.place(robot)
        await there.place(robot)
    said = [record.message.split(" |")[0] for record in caplog.records]
    assert said == [f"seq ev=worker.{what} rid=- worker=http://a.test" for what in ("lost", "found")]


async def test_a_robot_that_has_lost_its_worker_loses_its_seat_where_nobody_listens_any_more() -> None:
    async with workers("a", "b") as behind:
        there, (one,) = place(behind), robots(1)
        await there.place(one)
        behind[0].link.begin_outage("refused")
        assert await there.keep(one, lost=True) is None
        assert (await there.place(one)).url == "http://b.test"


@pytest.mark.parametrize("kind", ["reset", "closed", "silent", "stalled"])
async def test_a_robot_that_has_lost_a_worker_that_may_live_keeps_its_seat(kind: Kind) -> None:
    async with workers("a", "b") as behind:
        there, (one,) = place(behind), robots(1)
        had = await there.place(one)
        behind[0].link.begin_outage(kind)
        with pytest.raises(Unavailable):
            await there.keep(one, lost=True)
        behind[0].link.end_outage()
        kept = await there.keep(one, lost=True)
        assert kept is not None
        assert (kept.url, kept.secret, kept.epoch) == (had.url, had.secret, had.epoch)


async def test_a_silent_worker_costs_a_second_and_is_asked_last_for_a_while() -> None:
    async with workers("a", "b") as behind:
        there, began_at = place(behind), anyio.current_time()
        behind[0].link.begin_outage("silent")
        for robot in robots(3):
            assert (await there.place(robot)).url == "http://b.test"
        assert anyio.current_time() - began_at < 2 * 1.0 + 1  # asked after a lease of before, and for a new one


async def test_a_robot_that_cannot_go_on_where_it_is_gets_another_one_if_there_is_one() -> None:
    async with workers("a", "b") as behind:
        both, alone, (robot,) = place(behind), place(behind[:1]), robots(1)
        first = await both.place(robot)
        moved = await both.place(robot, move=True)
        assert [first.url, moved.url] == ["http://a.test", "http://b.test"]
        assert (await alone.place(robot)).url == (await alone.place(robot, move=True)).url == "http://a.test"


async def test_what_was_left_is_given_back_once_the_robot_says_where_it_is() -> None:
    async with workers("a", "b") as behind:
        there, (robot,) = place(behind), robots(1)
        first = await there.place(robot)
        moved = await there.place(robot, move=True)
        await began(behind[0], robot)
        kept = await there.keep(robot, moved.epoch)
        assert kept is not None
        assert kept.url == "http://b.test"
        assert behind[0].host.episodes_of(robot.lease) == 0
        assert await there.keep(robot, first.epoch) is None


async def test_a_robot_that_went_back_keeps_what_it_has_there() -> None:
    async with workers("a", "b") as behind:
        there, (robot,) = place(behind), robots(1)
        first = await there.place(robot)
        await there.place(robot, move=True)
        await began(behind[0], robot)
        kept = await there.keep(robot, first.epoch)
        assert kept is not None
        assert kept.url == "http://a.test"
        assert behind[0].host.episodes_of(robot.lease) == 1


async def test_a_worker_that_was_started_anew_has_another_epoch_and_another_secret() -> None:
    async with workers("a") as behind:
        there, (robot,) = place(behind), robots(1)
        placed = await there.place(robot)
        await behind[0].restart()
        assert await there.keep(robot) is None
        again = await there.place(robot)
        assert again.epoch != placed.epoch
        assert again.secret != placed.secret


async def test_a_gateway_started_anew_finds_the_robots_where_they_are() -> None:
    async with workers("a", "b") as behind:
        before, robot = place(behind), robots(2)[1]
        await before.place(robots(1)[0])
        placed = await before.place(robot)
        await began(behind[1], robot)
        after = place(behind)
        kept = await after.keep(robot, placed.epoch)
        assert replace(kept, expires_at=placed.expires_at) == placed  # of the machine's own clock
        assert (await place(behind).place(robot)).secret == placed.secret


@pytest.mark.parametrize("kind", ["refused", "reset", "silent"])
async def test_a_gateway_started_anew_that_cannot_ask_a_worker_does_not_take_its_robots_leases_away(kind: Kind) -> None:
    """The robot's own connection is well, and with it what its policy remembers."""
    async with workers("a", "b") as behind:
        (one,) = robots(1)
        had = await place(behind).place(one)
        again = place(behind)
        behind[0].link.begin_outage(kind)
        for _ in range(2):  # the second time it is known to be down
            with pytest.raises(Unavailable):
                await again.keep(one, had.epoch)
        behind[0].link.end_outage()
        await anyio.sleep(2.1)
        kept = await again.keep(one, had.epoch)
        assert kept is not None
        assert (kept.url, kept.epoch) == (had.url, had.epoch)


async def test_a_gateway_started_anew_knows_that_a_worker_where_nobody_listens_has_no_lease() -> None:
    async with workers("a", "b") as behind:
        (one,) = robots(1)
        had = await place(behind).place(one)
        again = place(behind)
        behind[0].link.begin_outage("refused")
        for _ in range(2):
            assert await again.keep(one, had.epoch, lost=True) is None
        assert (await again.place(one)).url == "http://b.test"


async def test_of_two_gateways_each_renews_what_the_other_granted_however_long_it_has_run() -> None:
    async with workers("a", "b") as behind:
        first, second, (one,) = place(behind), place(behind), robots(1)
        assert await second.keep(one) is None  # it has begun to count
        await anyio.sleep(1000.0)
        had = await first.place(one)
        kept = await second.keep(one, had.epoch)
        assert kept is not None
        assert (kept.url, kept.secret, kept.epoch) == (had.url, had.secret, had.epoch)
        await place(behind).release(one)
        assert await first.keep(one, had.epoch) is None
        assert await second.keep(one, had.epoch) is None


async def test_a_loading_worker_is_warming_and_takes_no_place_in_line() -> None:
    async with workers("a", started=False) as behind:
        there, (robot,) = place(behind), robots(1)
        with pytest.raises(Unavailable) as cold:
            await there.place(robot)
        assert await there.position(robot) is None
    assert cold.value.warming
    assert cold.value.retry_after_s


async def test_a_full_house_has_a_line_and_its_front_gets_the_seat() -> None:
    async with workers("a", seats=1) as behind:
        there, (one, second, third) = place(behind), robots(3)
        await there.place(one)
        positions = []
        for robot in (second, third, second):
            with pytest.raises(Unavailable) as waits:
                await there.place(robot)
            positions.append(waits.value.details["queue_position"])
        await there.release(one)
        with pytest.raises(Unavailable):
            await there.place(third)
        assert await there.place(second)
        assert await there.position(third) == 1
    assert positions == [1, 2, 1]
    assert waits.value.details.keys() >= {"reason", "queue_position", "queued_s", "queue_timeout_s"}


async def test_who_has_stood_in_line_too_long_is_told_so() -> None:
    async with workers("a", seats=1) as behind:
        there, (one, other) = place(behind, queue_timeout_s=3.0), robots(2)
        await there.place(one)
        for _ in range(4):
            with pytest.raises(RemoteError) as refused:
                await there.place(other)
            await anyio.sleep(1.0)
    assert (refused.value.code, refused.value.details["reason"]) == ("timeout", "queue_timeout")


async def test_a_gateway_with_the_wrong_key_does_not_blame_the_robot() -> None:
    async with workers("a") as behind:
        site = RemoteSite(_link(behind[0].link, "a", secret="another"), url="http://a.test")
        with pytest.raises(Unavailable) as refused:
            await FixedWorkers([site]).place(robots(1)[0])
    assert "grants no lease" in str(refused.value)


async def test_only_the_root_key_grants_leases() -> None:
    async with workers("a") as behind:
        placed = await place(behind).place(robots(1)[0])
        leased = RemoteSite(_link(behind[0].link, "a", secret=placed.secret), url="")
        with pytest.raises(RemoteError) as refused:
            await leased.end(placed.lease)
    assert refused.value.code == "forbidden"


async def test_an_episode_belongs_to_the_lease_that_began_it() -> None:
    async with workers("a") as behind:
        there, (one, other) = place(behind), robots(2)
        links = [_link(behind[0].link, "a", (await there.place(robot)).secret) for robot in (one, other)]
        root = _link(behind[0].link, "a")
        post = await links[0].prepare(ObserveRequest(episode_id="e", frames=[Frame(seq=0, inputs={"x": 1.0})]))
        await links[0].observe(post)
        for stranger in (links[1], root):
            with pytest.raises(NotFound):
                await stranger.observe(post)
            with pytest.raises(NotFound):
                await stranger.end("e")
        assert behind[0].host.episodes_of(one.lease) == 1
        for link in (*links, root):
            await link.aclose()


async def test_a_secret_whose_lease_is_over_is_401_and_says_so() -> None:
    async with workers("a") as behind:
        there, (robot,) = place(behind), robots(1)
        link = _link(behind[0].link, "a", (await there.place(robot)).secret)
        await link.info()
        await there.release(robot)
        with pytest.raises(AuthError) as refused:
            await link.info()
        await link.aclose()
    assert refused.value.details == {"reason": "lease"}
    assert behind[0].link.statistics().requests_to["/policy"] == 2  # no second try with the same secret


async def test_an_unknown_lease_is_not_renewed() -> None:
    async with workers("a") as behind:
        with pytest.raises(Gone):
            await behind[0].site.grant(LeaseRequest(lease="l-1", renew=True))


async def test_a_link_that_was_closed_asks_nothing_any_more() -> None:
    """Nobody would close the connection that it opens."""
    async with workers("a") as behind:
        link = _link(behind[0].link, "a")
        await link.info()
        await link.aclose()
        await link.aclose()
        with pytest.raises(LinkLost):
            await link.info()
        assert behind[0].link.statistics().requests == 1
