"""What being watched costs an act: its passage, its counts, its spans; at the worker's app without a network.

The same act is put through the app again and again, in turn: not watched at all (a passage that does nothing),
watched as every worker is, and with a tracer provider of opentelemetry-sdk in the program, where it is installed.
CPU time of the process. Then the robot's side by itself. `python bench/watching.py`.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import anyio
import numpy as np

from seqrt.policies import Host
from seqrt.testing.offload import inline
from seqrt.watching.counts import Counts
from seqrt.watching.passage import Passage, Watch
from seqrt.watching.spans import NOWHERE, carried, robot_act
from seqrt.wire.codec import encode
from seqrt.wire.messages import ActRequest
from seqrt.worker.app import app

ROUNDS, ACTS, CALLS = 40, 250, 20_000


class Blind(Passage):
    """A passage that sees nothing."""

    __slots__ = ()

    def enter(self, phase: Any) -> None:
        return None

    def enter_at(self, phase: Any, now: float) -> None:
        return None

    def over(self) -> None:
        return None


class Unwatched(Watch):
    """Watches nothing."""

    @contextmanager
    def act(self, request_id: str, headers: Mapping[str, str] | None = None) -> Iterator[Passage]:
        yield Blind(request_id, self.counts, float, NOWHERE)

    @contextmanager
    def call(self, passages: Sequence[Passage]) -> Iterator[None]:
        yield


def answers(obs: Any) -> Any:
    return {"actions": np.zeros((50, 14), np.float32)}


async def served(*, watched: bool) -> Callable[[int], Any]:
    """A worker's app; what is returned puts one act through it."""
    host = Host(answers, offload=inline())
    if not watched:
        host.watch = host._inference._watch = Unwatched(lambda: float)
    await host.start()
    asgi = app(host)
    body = encode(ActRequest(inputs={"state": np.zeros(8, np.float32), "image": b"x" * 10_000}))
    headers = [(b"accept", b"application/x-seq-msgpack"), (b"content-type", b"application/x-seq-msgpack")]

    async def act(number: int) -> None:
        async def receive() -> Any:
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: Any) -> None:
            assert message.get("status", 200) == 200

        identified = [*headers, (b"x-seq-request-id", b"r-%016x" % number)]
        scope = {
            "type": "http", "method": "POST", "path": "/act", "query_string": b"", "headers": identified,
            "client": ("127.0.0.1", 1), "http_version": "2",
        }  # fmt: skip
        await asgi(scope, receive, send)

    return act


async def block(act: Callable[[int], Any], first: int) -> float:
    """CPU seconds an act, over one block of them."""
    began = time.process_time()
    for number in range(first, first + ACTS):
        await act(number)
    return (time.process_time() - began) / ACTS


async def in_turn(ways: dict[str, tuple[Callable[[int], Any], Callable[[], None]]]) -> dict[str, list[float]]:
    took: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(ROUNDS):
        for name, (act, prepare) in ways.items():
            prepare()
            took[name].append(await block(act, turn * ACTS))
    return took


def with_sdk() -> Callable[[bool], None] | None:
    """What sets a provider and takes it away again; None where the SDK is not installed."""
    try:
        from opentelemetry import trace
        from opentelemetry.sdk.trace import TracerProvider
    except ImportError:
        return None
    module, provider = sys.modules["opentelemetry.trace"], TracerProvider()

    def put(on: bool) -> None:
        trace._TRACER_PROVIDER = provider if on else None
        if on:
            sys.modules["opentelemetry.trace"] = module
        else:
            sys.modules.pop("opentelemetry.trace", None)  # as in a program that has never imported it

    return put


def per_call(work: Callable[[], object]) -> float:
    began = time.process_time()
    for _ in range(CALLS):
        work()
    return (time.process_time() - began) / CALLS


def robots_side() -> float:
    def act() -> None:
        with robot_act("r-0123456789abcdef"):
            carried()

    return per_call(act)


def passage_alone() -> float:
    def act() -> None:
        passage = Passage("r-0123456789abcdef", counts, time.perf_counter, NOWHERE)
        for phase in ("read", "frames", "queue", "infer", "answer"):
            passage.enter(phase)  # type: ignore[arg-type]
        passage.over()

    counts = Counts()
    return per_call(act)


async def main() -> None:
    put = with_sdk() or (lambda on: None)
    watched = await served(watched=True)
    ways = {
        "not watched": (await served(watched=False), lambda: put(False)),
        "watched": (watched, lambda: put(False)),
    }
    if with_sdk() is not None:
        ways["watched, with opentelemetry-sdk"] = (watched, lambda: put(True))
    took = await in_turn(ways)
    nothing = statistics.median(took["not watched"])
    print(f"{ROUNDS} × {ACTS} acts a line in turn, CPU of the whole app, no network\n")
    print("| an act | µs, median of blocks | more, µs | ratio |\n|---|---|---|---|")
    for name, blocks in took.items():
        median = statistics.median(blocks)
        print(f"| {name} | {median * 1e6:.1f} | {(median - nothing) * 1e6:.1f} | {median / nothing:.3f} |")
    for on in (False, True) if with_sdk() is not None else (False,):
        put(on)
        print(f"\nthe robot's side, {'with' if on else 'without'} opentelemetry: {robots_side() * 1e6:.2f} µs an act")
    put(False)
    print(f"a passage by itself: {passage_alone() * 1e6:.2f} µs")


if __name__ == "__main__":
    anyio.run(main)
