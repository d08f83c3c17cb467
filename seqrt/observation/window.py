"""Which steps an act reads: pure arithmetic on the declaration, the same on the robot and on the worker.

In: a declaration in steps (`seqrt.observation.grid.in_steps`) and a step. Out: the entries of the window, the steps an
act needs, how long a frame is kept. The robot asks it what to upload and keep, the worker's session what to wait for
and hand to ``infer``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from seqrt.observation.declaration import Observations, Stream


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a window.

    Attributes:
        step: The step it is read from, ≥ 0.
        keys: The keys read there; None is the whole observation.
    """

    step: int
    keys: frozenset[str] | None


def resolve(
    observations: Observations | None, step: int, previous: int = -1, *, among: Iterable[int] | None = None
) -> list[Entry]:
    """The window of the act at ``step``, oldest entry first.

    Steps before 0 are padded as declared: "repeat_first" reads step 0, one entry for each asked (``at=[-6, -3, 0]``
    at step 3 gives steps 0, 0, 3), "drop" leaves them out (0, 3). A fed key reads ``step``, ``step - every`` … down
    to ``previous``, which is left out.

    Args:
        observations: The declaration; None for an undeclared policy.
        step: The act's step, ≥ 0.
        previous: The step of the act before it; -1 before the first.
        among: Of fed steps only these: what is held, where a window may span more steps than anybody should list.

    Returns:
        At least one entry, one of them at ``step`` - but for a fed policy that is asked again about the step of the
        act before (then what is fed is none), or restricted by ``among``.
    """
    if observations is None or not is_windowed(observations):
        return [Entry(step, None)]
    among = None if among is None else list(among)
    if observations.every is not None:
        return [Entry(at, None) for at in _among(_fed(step, previous, observations.every), among)]
    asked: dict[int, set[str]] = {}
    for key, stream in (observations.streams or {}).items():
        for at in _read_at(stream, step, previous, among):
            asked.setdefault(at, set()).add(key)
    return [
        Entry(max(0, at), frozenset(asked[at])) for at in sorted(asked) if at >= 0 or observations.pad == "repeat_first"
    ]


def is_windowed(observations: Observations | None) -> bool:
    """True when an act needs only the steps its window names; else it needs every number up to its own."""
    return observations is not None and (observations.streams is not None or observations.every is not None)


def is_fed(observations: Observations | None) -> bool:
    """True when an act reads what was seen since the act before: acts then have an order, and none may be left out."""
    return bool(_everies(observations))


def fed_keys(observations: Observations | None) -> frozenset[str]:
    """The keys that are fed; none where the whole observation is."""
    streams = (observations.streams if observations is not None else None) or {}
    return frozenset(key for key, stream in streams.items() if stream.every is not None)


def fed_steps(observations: Observations | None, step: int, previous: int = -1) -> list[range]:
    """The steps at which the act at ``step`` is fed, one range for each ``every`` declared; ascending."""
    return [_fed(step, previous, every) for every in sorted(_everies(observations))]


def needed_steps(observations: Observations | None, step: int, previous: int = -1) -> Sequence[int]:
    """The steps that must be held, or told skipped, before the act at ``step`` can be served; ascending, each once."""
    if not is_windowed(observations):
        return range(step + 1)
    return sorted({entry.step for entry in resolve(observations, step, previous)})


def lookback(observations: Observations | None) -> int:
    """How many steps back the farthest ``at`` reads: minus the least offset, ≥ 0."""
    streams = (observations.streams if observations is not None else None) or {}
    return -min((_whole(stream.at[0]) for stream in streams.values() if stream.at is not None), default=0)


def keep_from(observations: Observations | None, step: int) -> int:
    """The keep rule: once the act at ``step`` is served, no number below the returned one is read again.

    A fed key needs nothing at or before ``step``.
    """
    return max(0, step + 1 - lookback(observations))


def keys_read(observations: Observations | None, offset: int) -> frozenset[str] | None:
    """The keys read at ``offset`` (≤ 0) steps from an act that is the first; None is the whole observation."""
    if observations is None or observations.streams is None:
        every = observations.every if observations is not None else None
        return None if offset == 0 or (every is not None and offset % _whole(every) == 0) else frozenset()
    return frozenset(key for key, stream in observations.streams.items() if _reads(stream, offset))


def _reads(stream: Stream, offset: int) -> bool:
    return offset % _whole(stream.every or 1) == 0 if stream.at is None else offset in stream.at


def _read_at(stream: Stream, step: int, previous: int, among: list[int] | None) -> Iterable[int]:
    if stream.at is not None:
        return [step + _whole(offset) for offset in stream.at]
    return _among(_fed(step, previous, stream.every or 1), among)


def _fed(step: int, previous: int, every: float) -> range:
    """Counted back from ``step``, ``previous`` left out: ascending."""
    apart, every = step - max(previous, -1), _whole(every)
    return range(step - (apart - 1) // every * every, step + 1, every) if apart > 0 else range(0)


def _among(steps: range, among: list[int] | None) -> Iterable[int]:
    return steps if among is None else [at for at in among if at in steps]


def _everies(observations: Observations | None) -> set[float]:
    if observations is None:
        return set()
    fed = [observations.every, *(stream.every for stream in (observations.streams or {}).values())]
    return {every for every in fed if every is not None}


def _whole(value: float) -> int:
    """An offset in steps. Reading a float here would make windows of steps that no observation has."""
    if not isinstance(value, int):
        raise ValueError(f"{value!r} is in seconds; resolve the declaration with in_steps(observations, hz) first")
    return value
