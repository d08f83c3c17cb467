"""When a scripted network fails, and how: lists of times that `LinkTransport` and `Relay` are handed."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Sequence
from typing import Literal, get_args

from seqrt.testing.durations import Durations, drawn

Kind = Literal["refused", "reset", "closed", "silent", "half-open", "stalled"]
"""How a connection fails.

- "refused": the server is down. Requests under way end with ``httpx.ReadError``, its handlers are cancelled, new
  requests get ``httpx.ConnectError`` after one round trip.
- "reset": requests under way, and new ones after one round trip, end with ``httpx.ReadError``; handlers go on.
- "closed": the same with ``httpx.RemoteProtocolError``, as when a proxy closes the connection.
- "silent": what would arrive meanwhile, at either end, never does, and nobody is told.
- "half-open": the same of the connections there are when it begins, and for good; new ones are well.
- "stalled": what would arrive meanwhile arrives at the end of it, in order.
"""

Direction = Literal["up", "down"]
"""Up: to the server."""

Stalls = Sequence[tuple[float, float]]
"""``(at_s, for_s)``, one after the other: nothing gets through from ``at_s`` on, and all of it ``for_s`` later."""


def stalls_at_random(
    *, every_s: float, for_s: Durations = 0.5, until_s: float = 600.0, seed: int = 0
) -> list[tuple[float, float]]:
    """Stalls at random moments, for ``stalls=`` of `LinkTransport`, `connected` and `Relay`.

    A Poisson process: from the end of a stall to the next one it takes ``every_s`` on the average, whatever came
    before.

    Args:
        every_s: Mean time between stalls, above zero.
        for_s: How long they last: a number, a sequence or a function, e.g. of `jittered`.
        until_s: The last one begins before this.
        seed: Of the moments.

    Raises:
        ValueError: An ``every_s`` that is not finite and above zero, an ``until_s`` that is not finite, durations
            that make no sense.
    """
    if not (math.isfinite(every_s) and every_s > 0 and math.isfinite(until_s)):
        raise ValueError(f"stalls every {every_s!r} s until {until_s!r} s: both finite, and the first above zero")
    rng, draw = random.Random(seed), drawn(for_s)
    stalls: list[tuple[float, float]] = []
    at_s = rng.expovariate(1 / every_s)
    while at_s < until_s:
        stalls.append((at_s, draw()))
        at_s += stalls[-1][1] + rng.expovariate(1 / every_s)
    return stalls


def checked_spans(spans: Stalls, name: str = "stall") -> list[tuple[float, float]]:
    """Stalls, refusals and the like, ``(at_s, for_s)`` each, in order of time; ``name`` is what an error calls one.

    Raises:
        ValueError: Times that are negative or not finite, or spans that overlap.
    """
    ordered = sorted(spans)
    for at_s, for_s in ordered:
        if not (math.isfinite(at_s) and math.isfinite(for_s) and at_s >= 0 and for_s >= 0):
            raise ValueError(f"a {name} at {at_s!r} for {for_s!r} s: both have to be finite and not negative")
    for (at_s, for_s), (next_s, _) in itertools.pairwise(ordered):
        if at_s + for_s > next_s:
            raise ValueError(
                f"{name}s go one after the other: one at {next_s} s within the one at {at_s} s for {for_s} s"
            )
    return ordered


def checked_outages(
    outages: Sequence[tuple[float, float, Kind]], stalls: Stalls = ()
) -> list[tuple[float, float, Kind]]:
    """``outages`` and ``stalls`` as one list of ``(start_s, end_s, kind)``, in order of time.

    Raises:
        ValueError: No such kind; times that overlap or run backwards.
    """
    before_s = 0.0
    stalled: list[tuple[float, float, Kind]] = [
        (at_s, at_s + for_s, "stalled") for at_s, for_s in checked_spans(stalls)
    ]
    merged = sorted([*outages, *stalled], key=lambda outage: outage[0]) if stalled else list(outages)
    for start_s, end_s, kind in merged:
        if kind not in get_args(Kind):
            raise ValueError(f"an outage of kind {kind!r}: one of {', '.join(get_args(Kind))}")
        if not before_s <= start_s <= end_s:
            raise ValueError(f"outages go one after the other: ({start_s}, {end_s}) after {before_s}")
        before_s = end_s
    return merged
