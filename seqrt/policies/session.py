"""One episode as the policy's side sees it: frames by number → the window of an act. No HTTP, no waiting but `news`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import anyio
from msgspec import UNSET

from seqrt.errors import DeclarationError, ObservationError, RemoteError, remote_error
from seqrt.observation.cameras import decoding_bytes, hold_cameras
from seqrt.observation.check import check_value
from seqrt.observation.declaration import Observations
from seqrt.observation.frames import Frames
from seqrt.observation.grid import in_steps
from seqrt.observation.ranges import runs
from seqrt.observation.reading import Window, read
from seqrt.observation.window import fed_steps, is_fed, is_windowed, keep_from, needed_steps, resolve
from seqrt.policies.code import Code
from seqrt.policies.episode import Episode
from seqrt.policies.failures import observation_refused
from seqrt.policies.holding import owned
from seqrt.policies.limits import HostLimits
from seqrt.wire.limits import size_of
from seqrt.wire.messages import ActRequest, Frame

MOST_NUMBER = 2**53
"""Numbers stay where every JSON reader is exact."""


class Session:
    """Frames, and how far the episode got.

    Args:
        episode_id: The robot's id for it.
        owner: The key that began it.
        observations: The policy's declaration.
        limits: What may be held.
        now: The time, in the host's clock.

    Attributes:
        begun: Number 0 was named: nothing from before this session is missing.
        rebuilt: The robot has seen answers of it from a worker that is no more; it sends what is still needed.
        lost: The robot has not been told so yet; until then nothing an act lacks is waited for.
        in_parts: The robot has seen an answer of it: it may send steps in parts, and has every declared key.
        ended: No request of it is served any more.
        fresh: Nothing was inferred in it yet.
        last_step: Step of the newest act served; -1 before the first.
        taken: Step of the newest act served or being served; likewise.
        acts: Acts of it waiting or running.
        began_at: When it was begun here.
        used_at: When a request of it was last served.
        counted_bytes: What the worker's total holds for it.
        episode: What the policy is handed of it; None before the first act.
        copy: The copy of the policy that serves it; None before the first act.
        observed: Number of the newest observation the policy's ``observe`` was handed; -1 before the first.
    """

    def __init__(
        self, episode_id: str, owner: str, observations: Observations | None, limits: HostLimits, now: float
    ) -> None:
        self.id = episode_id
        self.owner = owner
        self.frames = Frames(self._charge)
        self.begun = False
        self.rebuilt = False
        self.lost = False
        self.in_parts = False
        self.ended = False
        self.fresh = True
        self.last_step = -1
        self.taken = -1
        self.acts = 0
        self.began_at = self.used_at = now
        self.counted_bytes = 0
        self.episode: Episode | None = None
        self.copy: Code | None = None
        self.observed = -1
        self._observations = observations
        self._grid = observations  # in steps, from the first act on
        self._hz: float | None = None
        self._limits = limits
        self._news = anyio.Event()

    async def news(self) -> None:
        """Wait until something arrives, or the episode ends. The caller bounds it."""
        await self._news.wait()

    def let_go(self) -> None:
        """No request of it is served any more: its observations are not held for whoever still holds it."""
        self.ended = True
        self.frames = Frames()

    def tell(self) -> None:
        """Wake whoever waits for news."""
        self._news.set()
        self._news = anyio.Event()

    def step_of(self, request: ActRequest) -> int:
        """The step an act is about: its own number, or one before the count it names."""
        if request.inputs is not UNSET:
            if request.seq is not None:
                return request.seq
            return max(self.frames.newest, self.frames.through, self.last_step) + 1
        assert request.seq is not None  # a data-less act without a count is refused before
        return request.seq - 1

    def keep(self, frames: Iterable[Frame], skipped: Iterable[int], spare_bytes: int) -> None:
        """Keep a post: all of it, or nothing.

        Pictures stay encoded, their headers alone are read: most are read once or never, and a post is not kept
        waiting for a thread that may be busy inferring. What they take once decoded is charged at once.

        Args:
            frames: Its observations.
            skipped: Numbers that will never come.
            spare_bytes: What the worker still has room for.

        Raises:
            InvalidRequest: Over the limits (413, ``details.reason`` "frames_over_limit": those frames are never to be
                sent again), or not what the policy declared.
        """
        posted = [(frame.seq, self._declared(frame.seq, frame.inputs)) for frame in frames]
        ranges = runs(skipped)
        if ranges and not (ranges[0][0] >= 0 and ranges[-1][1] <= MOST_NUMBER):
            raise _bad_number(ranges[0][0] if ranges[0][0] < 0 else ranges[-1][1] - 1)
        self._admit(posted, len(ranges), spare_bytes)
        for number, inputs in posted:
            self.frames.add(number, owned(inputs))
        self.frames.skip_runs(ranges)
        self.tell()

    def on_grid(self, hz: float | None) -> None:
        """Count the policy's offsets at the rate an act names; one declared in steps needs none.

        Raises:
            InvalidRequest: It is declared in seconds, and the act names no rate.
        """
        if hz is not None and hz == self._hz:
            return
        try:
            self._grid, self._hz = in_steps(self._observations, hz), hz
        except DeclarationError as unknown:
            raise remote_error("invalid_request", str(unknown), details={"reason": "rate", "hz": hz}) from unknown

    def missing(self, step: int, previous: int) -> int | None:
        """The first observation the act at ``step`` still waits for; None when it can be served."""
        if not (self.begun or self.rebuilt):
            return 0
        if not is_windowed(self._grid):
            return self.frames.missing(needed_steps(self._grid, step, previous))
        since = self._since(previous)
        gaps = [self.frames.missing(steps) for steps in fed_steps(self._grid, step, since)]
        entries = resolve(self._grid, step, since, among=self.frames)
        gaps.append(self.frames.lacking(entries, strict=self.in_parts))
        return min((gap for gap in gaps if gap is not None), default=None)

    def _since(self, previous: int) -> int:
        """The step of the act before. One whose answer the robot never saw has been served all the same."""
        return max(previous, self.last_step) if is_fed(self._grid) else previous

    def rebuild(self, previous: int | None) -> None:
        """Before an act of a session that was served elsewhere too: the robot no longer has what was served there.

        Nor does it have, of an episode begun anew in mid-run, what was of the one before.
        """
        if is_windowed(self._observations):
            return
        oldest = self.frames.oldest
        if previous is not None and previous > self.last_step:
            self.frames.forget_below(previous + 1)
        elif self.fresh and self.rebuilt and not self.lost and previous is None and oldest > 0:
            self.frames.forget_below(oldest)

    def is_passed(self, step: int, previous: int) -> bool:
        """Whether a newer act was served, so that what the act at ``step`` reads is no longer held.

        A fed act has nothing to read either when every step since the act before was told skipped.
        """
        if is_fed(self._grid):
            entries = resolve(self._grid, step, self._since(previous), among=self.frames)
            return step < self.last_step or (not entries and self.missing(step, previous) is None)
        if step >= self.last_step:
            return False
        entries = resolve(self._grid, step, previous)
        return any(entry.step < self.frames.floor and entry.step not in self.frames for entry in entries)

    def window(self, step: int, previous: int) -> Window:
        """What ``infer`` is handed for the act at ``step``, held against the declaration.

        Raises:
            InvalidRequest: A value is not what the policy declared.
            Conflict: Nothing is held that it could read.
        """
        window = read(self.frames, self._grid, step, self._since(previous))
        if not window.steps:
            raise frames_missing(step)
        streams = (self._observations.streams if self._observations is not None else None) or {}
        for inputs in window.observations:
            for key in streams.keys() & inputs.keys() if streams else ():
                if streams[key].camera is not None:
                    continue  # held against it when it arrived
                try:
                    inputs[key] = check_value(key, inputs[key], streams[key])
                except ObservationError as wrong:
                    raise observation_refused(wrong) from wrong
        return window

    def unobserved(self, step: int) -> list[Any]:
        """The observations held, up to ``step``, that the policy's ``observe`` has not been handed; oldest first."""
        return [self.frames.get(number) for number in self.frames if self.observed < number <= step]

    def take(self, step: int) -> None:
        """The act at ``step`` is being served: whoever waits for the observations of an older one is told."""
        self.taken = max(self.taken, step)
        self.tell()

    def served(self, step: int) -> None:
        """The act at ``step`` was inferred: what no later act reads is freed.

        One step more than the keep rule names is held, so that the newest observation can be acted on again.
        """
        self.fresh = False
        self.last_step = max(self.last_step, step)
        self.frames.forget_below(keep_from(self._grid, self.last_step) - 1)

    def _declared(self, number: int, inputs: Any) -> Any:
        """Only the declared keys: nothing else may be sent, so nothing else is held."""
        if not 0 <= number < MOST_NUMBER:
            raise _bad_number(number)
        streams = self._observations.streams if self._observations is not None else None
        if streams is None:
            return inputs
        if not isinstance(inputs, Mapping):
            raise remote_error(
                "invalid_request",
                f"observation {number} is a {type(inputs).__name__}; this policy reads the keys {sorted(streams)}",
                details={"seq": number, "keys": sorted(streams)},
            )
        declared = {key: value for key, value in inputs.items() if key in streams}
        try:
            return hold_cameras(declared, self._observations)
        except ObservationError as wrong:
            raise observation_refused(wrong) from wrong

    def _charge(self, inputs: Any) -> int:
        """What an observation costs while it is held: itself, and its pictures once they are decoded."""
        return size_of(inputs) + decoding_bytes(inputs, self._observations)

    def _admit(self, posted: list[tuple[int, Any]], ranges: int, spare_bytes: int) -> None:
        if not self._fits(posted, ranges, spare_bytes):
            # The step held for a second look at the newest observation is the first to go.
            self.frames.forget_below(keep_from(self._grid, self.last_step) if self.last_step >= 0 else 0)
            if not self._fits(posted, ranges, spare_bytes):
                raise self._over(posted)

    def _fits(self, posted: list[tuple[int, Any]], ranges: int, spare_bytes: int) -> bool:
        costs = [self.frames.cost(number, inputs) for number, inputs in posted]
        count, size = sum(cost[0] for cost in costs), sum(cost[1] for cost in costs)
        return (
            len(self.frames) + count <= self._limits.frames
            and self.frames.bytes + size <= self._limits.episode_bytes
            and size <= spare_bytes
            and self.frames.ranges + count + ranges <= self._limits.ranges
        ) or (count == 0 and size == 0 and ranges == 0)

    def _over(self, posted: list[tuple[int, Any]]) -> RemoteError:
        size = sum(self.frames.cost(number, inputs)[1] for number, inputs in posted)
        return remote_error(
            "payload_too_large",
            f"{len(posted)} observations of {size} bytes are more than this episode may hold beside the "
            f"{len(self.frames)} ({self.frames.bytes} bytes) it holds",
            hint="send smaller or fewer observations, or act more often: served ones are freed",
            details={
                "reason": "frames_over_limit",
                "frames": self._limits.frames,
                "episode_bytes": self._limits.episode_bytes,
                "held_frames": len(self.frames),
                "held_bytes": self.frames.bytes,
            },
        )


def frames_missing(number: int) -> RemoteError:
    """The 409 of an act that lacks observations, from ``number`` on."""
    return remote_error(
        "conflict",
        f"observation {number} has not arrived",
        hint="post it again from there, then send this act again under the same request id",
        details={"reason": "frames_missing", "from": number},
    )


def _bad_number(number: int) -> RemoteError:
    return remote_error("invalid_request", f"{number} is no observation's number; they run from 0 to 2^53")
