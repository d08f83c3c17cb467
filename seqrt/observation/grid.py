"""Declarations in seconds, counted in steps: on the robot at its grid's rate, on the worker at the act's."""

from __future__ import annotations

import math

from seqrt.errors import DeclarationError
from seqrt.observation.declaration import Observations, Stream

MOST_HZ = 1000.0
"""The highest rate of a grid."""


def in_steps(observations: Observations | None, hz: float | None) -> Observations | None:
    """The declaration with every offset in steps of a grid of ``hz``.

    An offset of x seconds is the whole number nearest to x · hz, halves going to the even one; offsets that become
    equal are one, and ``every`` is at least one step. One in steps already comes back as it is.

    Args:
        observations: The declaration.
        hz: Steps a second, in (0, 1000].

    Raises:
        DeclarationError: It is in seconds and ``hz`` is None or no rate.
    """
    if observations is None or observations.unit == "steps":
        return observations
    if isinstance(hz, bool) or not isinstance(hz, int | float) or not math.isfinite(hz) or not 0 < hz <= MOST_HZ:
        raise DeclarationError(
            f"the policy's offsets are in seconds, and {'no rate is known' if hz is None else f'{hz!r} is no rate'}.",
            field="observations.unit",
            fix=f"Declare actions.hz, say connect(control_hz=…), or send the act's plan.hz, up to {MOST_HZ:g}.",
        )
    streams = observations.streams
    return observations.model_copy(
        update={
            "streams": None if streams is None else {key: _stream(stream, hz) for key, stream in streams.items()},
            "every": _every(observations.every, hz),
            "unit": "steps",
        }
    )


def _stream(stream: Stream, hz: float) -> Stream:
    at = None if stream.at is None else tuple(sorted({round(offset * hz) for offset in stream.at}))
    return stream.model_copy(update={"at": at, "every": _every(stream.every, hz)})


def _every(every: float | None, hz: float) -> int | None:
    return None if every is None else max(1, round(every * hz))
