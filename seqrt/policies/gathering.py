"""Whether a call that could begin waits for more acts to join it. Numbers in, a time out.

It waits only where the worker gets more done by it (acts a second of its time), nobody who waits runs dry by it, and
whoever is waited for would have found the worker busy otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from seqrt.policies.durations import CallDurations


def begin_at(
    now: float,
    *,
    since: float,
    dry_at: float,
    count: int,
    most: int,
    expected: Iterable[float],
    durations: CallDurations,
) -> float:
    """When to begin: ``now``, or when those worth waiting for will have come.

    Args:
        now: The time.
        since: When it could have begun at the earliest.
        dry_at: When the first robot of those that wait runs dry.
        count: Acts it would have now.
        most: Acts a call can have.
        expected: By when the next acts of others will have come, soonest first.
        durations: What calls take.
    """
    alone_s = durations.of(count)
    if not alone_s or count >= most or now + 2 * alone_s > dry_at:
        return now
    # Who comes later than this loses nothing by finding it at work.
    latest, best_at, best = since + alone_s, now, count / alone_s
    for more, at in enumerate(islice(expected, most - count), start=1):
        together_s = durations.of(count + more)
        # As long again is kept in hand: an act that is slower than usual, and the way back.
        if together_s is None or at > latest or at + 2 * together_s > dry_at:
            break
        acts_per_s = (count + more) / (at - now + together_s)
        if acts_per_s > best:
            best_at, best = at, acts_per_s
    return best_at
