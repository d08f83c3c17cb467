"""How many acts a key may make a minute: a token bucket. Pure; the time is an argument."""

from __future__ import annotations

from typing import NamedTuple


class Bucket(NamedTuple):
    """What a key may do now.

    Attributes:
        acts: Acts it may make at once, a fraction too.
        at: When that was so, in seconds.
    """

    acts: float
    at: float


def filled(bucket: Bucket | None, per_minute: int, now: float) -> Bucket:
    """The bucket as it is at ``now``: a new one is full, and none holds more than a minute's acts."""
    if bucket is None:
        return Bucket(float(per_minute), now)
    gained = max(0.0, now - bucket.at) * per_minute / 60.0
    return Bucket(min(float(per_minute), bucket.acts + gained), max(now, bucket.at))


def spend(bucket: Bucket, per_minute: int) -> tuple[Bucket, float]:
    """Take one act out.

    Returns:
        The bucket afterwards, and 0; where there is less than an act in it the same bucket, and the seconds until
        there is one. Asking too early costs nothing, so that one who asks again and again is let in all the same.
    """
    if bucket.acts >= 1.0:
        return bucket._replace(acts=bucket.acts - 1.0), 0.0
    return bucket, (1.0 - bucket.acts) * 60.0 / per_minute
