"""The load: robots that post two pictures at 15 Hz and act once a second, all in this process, pinned to a core.

``python -m bench.fleet.robots --url 127.0.0.1:4711 --robots 32 --seconds 10``; prints a line of JSON when it begins to
count and one when it ends. Each robot has a connection of its own and a phase of its own. An act is timed from the
moment it was due to its answer whole, so that a load that is late counts against the worker; how late is said too.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, cast

import msgspec

from bench.fleet.pictures import VIEWS, pictures
from bench.fleet.policies import HZ
from bench.fleet.wire import Answer, Broken, Wire

ACT_EVERY = HZ
LOST_AFTER_S = 5.0
AGAIN_S = 1.0
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder().decode


@dataclass
class Found:
    """What was seen while it counted.

    Attributes:
        acts: What each act answered took, in seconds.
        posts: The same of posts.
        refused: What each refusal of an act took.
        late: How late each step was begun.
        codes: Refusals by code, of acts (``act.busy``) and posts.
        missing: Frames an act was not handed.
        asked: Acts due.
        turned_away: What each refusal to begin took: the robot asks again a second later.
    """

    acts: list[float] = field(default_factory=list)
    posts: list[float] = field(default_factory=list)
    refused: list[float] = field(default_factory=list)
    late: list[float] = field(default_factory=list)
    codes: Counter[str] = field(default_factory=Counter)
    missing: int = 0
    asked: int = 0
    turned_away: list[float] = field(default_factory=list)


class Fleet:
    """What the robots share: when it counts, what was found."""

    def __init__(self, seen: list[bytes]) -> None:
        self.seen = seen
        self.found = Found()
        self.counts = False


class Robot(asyncio.Protocol):
    """One robot.

    Args:
        fleet: Of which.
        name: Its episode's id.
        wire: Its connection's bytes.
        phase: Which of the steps of a second it acts at.
    """

    def __init__(self, fleet: Fleet, name: str, wire: Wire, phase: int) -> None:
        self.fleet, self.name, self.wire, self.phase = fleet, name, wire, phase
        self.step = 0
        self.previous = -1
        self.begun = False
        self.let_in = False
        self.lost = False
        self.stopped = False
        self.waits = False
        self.asked: dict[int, tuple[str, float, int, bool]] = {}
        self._loop = asyncio.get_running_loop()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)  # uvloop has one of its own
        transport.write(self.wire.opening())

    def connection_lost(self, error: Exception | None) -> None:
        self.lost = True
        if not self.stopped:
            self.fleet.found.codes["connection.lost"] += 1

    async def opened(self) -> None:
        """Until the server has said how much it takes."""
        while not (self.wire.ready or self.lost):  # noqa: ASYNC110  # a few times, before anything counts
            await asyncio.sleep(0.005)

    def begin(self, at: float) -> None:
        """Take the first step at that time of the loop's."""
        self._due = at
        self._loop.call_at(at, self._tick)

    def end(self) -> None:
        """Take no more steps, and tell the server."""
        self.stopped = True
        if not self.lost:
            self._send("/act/episode_end", {"episode_id": self.name}, self._loop.time(), 0)

    def break_off(self) -> None:
        """Go in the middle of a post."""
        if not self.lost:
            self.transport.write(self.wire.request("/observe", bytes(20_000), "r-0000000000000000")[1][:9000])
            self.transport.abort()

    def _tick(self) -> None:
        if self.lost or self.stopped or self.waits:
            return
        due, found = self._due, self.fleet.found
        if self.fleet.counts:
            found.late.append(self._loop.time() - due)
        seen = self.fleet.seen
        inputs = {view: seen[(self.step + at) % len(seen)] for at, view in enumerate(VIEWS)}
        post: dict[str, Any] = {"episode_id": self.name, "frames": [{"seq": self.step, "inputs": inputs}]}
        self._send("/observe", post | ({"begun": True} if self.begun else {}), due, self.step)
        if self.step % ACT_EVERY == self.phase:
            self._act(due)
        self.step += 1
        self._due += 1 / HZ
        self._loop.call_at(self._due, self._tick)

    def _act(self, due: float) -> None:
        plan: dict[str, Any] = {"hz": float(HZ), "dry_in_s": 1.0, "epoch": 1}
        if self.begun:
            plan |= {"begun": True, "previous": self.previous}
        asked = {"call": "act", "seq": self.step + 1, "episode_id": self.name, "plan": plan}
        self.fleet.found.asked += self.fleet.counts
        self._send("/act", asked, due, self.step)

    def _send(self, path: str, message: dict[str, Any], due: float, step: int) -> None:
        try:
            stream, data = self.wire.request(path, _encode(message), f"r-{random.getrandbits(64):016x}")
        except Broken:
            self.fleet.found.codes[path + ".no_room"] += 1
            return
        self.asked[stream] = (path, due, step, self.fleet.counts)
        self.transport.write(data)

    def data_received(self, data: bytes) -> None:
        try:
            answers = self.wire.take(data)
        except Broken:
            self.transport.close()
            return
        if self.wire.owed:
            self.transport.write(self.wire.owed)
            self.wire.owed = b""
        for each in answers:
            self._answered(each)

    def _answered(self, answer: Answer) -> None:
        path, due, step, counts = self.asked.pop(answer.stream)
        took, found = self._loop.time() - due, self.fleet.found
        if not answer.ok and not self.let_in and not self.stopped:
            self._turned_away(answer, took, counts)
            return
        self.let_in = True
        if not answer.ok:
            if counts:
                found.codes[f"{path[1:]}.{_code(answer.body)}"] += 1
                if path == "/act":
                    found.refused.append(took)
            return
        if path == "/act":
            self._served(answer.body, step, counts)
        if counts and path != "/act/episode_end":
            (found.acts if path == "/act" else found.posts).append(took)

    def _turned_away(self, answer: Answer, took: float, counts: bool) -> None:
        if counts:
            self.fleet.found.turned_away.append(took)
            self.fleet.found.codes[f"turned away: {_code(answer.body)}"] += 1
        if self.waits:
            return  # told so already: of what was sent together
        self.waits = True
        self._loop.call_later(AGAIN_S, self._anew)

    def _anew(self) -> None:
        """Try to begin again, from the first observation on."""
        self.waits, self.step = False, 0
        self.begin(self._loop.time())

    def _served(self, body: bytes, step: int, counts: bool) -> None:
        frames = _decode(body)["outputs"]["frames"]
        if counts and self.begun:
            self.fleet.found.missing += max(0, step - self.previous - frames)
        self.previous, self.begun = max(step, self.previous), True


def _code(body: bytes) -> str:
    if not body:
        return "reset"
    try:
        return str(msgspec.json.decode(body)["code"])
    except (msgspec.MsgspecError, KeyError, TypeError):
        return body[:40].decode("latin-1")


async def load(options: argparse.Namespace) -> dict[str, Any]:
    """Run it; what was found."""
    loop, fleet, rng = asyncio.get_running_loop(), Fleet(pictures()), random.Random(options.seed)
    robots = []
    for n in range(options.robots):
        host, _, port = options.url[n % len(options.url)].rpartition(":")
        made = Robot(fleet, f"robot-{os.getpid()}-{n}", Wire(f"{host}:{port}", options.key), rng.randrange(ACT_EVERY))
        await loop.create_connection(lambda made=made: made, host, int(port))  # type: ignore[misc]
        await made.opened()
        robots.append(made)
        made.begin(loop.time() + rng.uniform(0.05, 1.05))
        await asyncio.sleep(options.ramp / max(1, options.robots))
    await asyncio.sleep(options.warm)
    fleet.counts, began, spent = True, time.monotonic(), time.process_time()
    tell({"counts": True})
    await asyncio.sleep(options.seconds)
    fleet.counts, took, cpu = False, time.monotonic() - began, time.process_time() - spent
    tell({"counts": False})
    await _answers(robots)
    for robot in robots:
        robot.end()
    await _answers(robots)
    return figures(fleet.found, took, cpu, robots)


async def _answers(robots: list[Robot]) -> None:
    """Until all that counts is answered, or lost."""
    until = time.monotonic() + LOST_AFTER_S
    while time.monotonic() < until and any(counts for r in robots for *_, counts in r.asked.values()):  # noqa: ASYNC110
        await asyncio.sleep(0.05)


def figures(found: Found, took: float, cpu: float, robots: list[Robot]) -> dict[str, Any]:
    unanswered = Counter(path for r in robots for path, *_, counts in r.asked.values() if counts)
    return {
        "acts": sorted(found.acts),
        "asked": found.asked,
        "posts": quantiles(found.posts),
        "posts_count": len(found.posts),
        "refused": quantiles(found.refused),
        "turned_away": quantiles(found.turned_away),
        "let_in": sum(robot.let_in for robot in robots),
        "late": quantiles(found.late),
        "codes": {**found.codes, **{f"{path[1:]}.unanswered": n for path, n in unanswered.items()}},
        "missing": found.missing,
        "load_cores": cpu / took,
        "seconds": took,
    }


def quantiles(values: list[float]) -> dict[str, float] | None:
    """p50, p99 and the most; None of nothing."""
    if not values:
        return None
    ordered = sorted(values)
    return {"p50": ordered[len(ordered) // 2], "p99": ordered[int(0.99 * len(ordered))], "max": ordered[-1]}


def tell(what: dict[str, Any]) -> None:
    """A line for whoever started this."""
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def options_of(arguments: list[str] | None = None) -> argparse.Namespace:
    """What the command says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", nargs="+", required=True, metavar="HOST:PORT", help="in turn, a robot each")
    parser.add_argument("--robots", type=int, required=True)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--warm", type=float, default=3.0)
    parser.add_argument("--ramp", type=float, default=1.0, help="seconds over which they connect")
    parser.add_argument("--key", default="")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--core", type=int)
    return parser.parse_args(arguments)


def main() -> None:
    """The command."""
    options = options_of()
    if options.core is not None:
        os.sched_setaffinity(0, {options.core})
    import uvloop

    tell(uvloop.run(load(options)))


if __name__ == "__main__":
    main()
