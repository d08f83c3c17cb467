"""Policies whose answers say where they came from, after latencies that a script gives.

From the rows that reached ``act`` a test reads which row of which chunk was played, and when. Serve one with
``Host(policy, offload=policy.offload)`` in virtual time; over real threads say ``sleeps=True``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import anyio
import anyio.lowlevel
import numpy as np
import numpy.typing as npt

from seqrt.action.declaration import Actions, Space
from seqrt.observation.declaration import Observations
from seqrt.policies.declaration import Declaration, Timeouts
from seqrt.policies.offload import Offload
from seqrt.testing.durations import Durations, drawn

T = TypeVar("T")
Rows = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Call:
    """One call of ``infer``: what it was handed and what it answered.

    Attributes:
        number: 0 for the first.
        steps: Numbers of the observations it was handed, oldest first; empty for an undeclared policy.
        observation: The newest observation.
        prefix: Committed rows `[n, A]`, None where none came or the policy does not take them.
        delay: d, in ticks.
        spacing: s, in ticks.
        seed: The act's.
        predicted_state: Where the robot says it will be, as it was sent; None where it did not.
        infer_s: How long it was scripted to take.
        rows: What it answered, float64 `[H, A]`; None where it raised.
    """

    number: int
    steps: tuple[int, ...]
    observation: Mapping[str, Any]
    prefix: Rows | None
    delay: int | None
    spacing: int | None
    seed: int | None
    infer_s: float
    rows: Rows | None
    predicted_state: Any = None

    @property
    def t(self) -> int:
        """Number of the newest observation it was handed; -1 for an undeclared policy."""
        return self.steps[-1] if self.steps else -1


class Scripted:
    """A policy that answers by a script.

    By the clock, row i of an answer to observation t holds ``step_size · (t + 1 + i)`` in every column: the step it
    is due at. Successive plans agree, and a run without fault plays 1, 2, 3 …. By the state, row i is
    ``state + step_size · (i + 1)``: every plan starts where the arm was seen, and one played late throws it back.

    Args:
        rows: H, rows of an answer; a sequence gives one answer after another its length (the last again and again).
        dims: A, columns.
        hz: Rate of the rows as declared; None declares none.
        infer_s: How long ``infer`` takes: a number, a sequence (the last again and again) or a function.
        by: "clock" or "state".
        step_size: What a row adds to the one before.
        state_key: Key of the state `[A]` in the observation; read by the state only.
        tagged: Columns 1 and 2 hold t and i instead, so that a row tells its chunk and its place in it.
        space: As declared.
        takes_prefix: ``infer`` asks for all that is sent for continuity, and its first ``delay`` rows (all rows sent,
            where no delay came) are the prefix's; by the state it goes on from there.
        model_scale: Its rows in the model's own space are this many times smaller: they stand under "rows_model" in
            its answer, and it takes prefixes in that space.
        raise_on: Which calls raise, counted from 0.
        error: What they raise.
        bad_values: ``{call: (row, column, value)}``: an answer with a NaN, an infinity or a leap in it.
        observations: What it reads; the whole observation of its step if not given.
        actions: What it declares in the place of key, hz and space above.
        timeouts: As declared.
        declared: False: it declares nothing, is handed observations bare, and answers bare rows; by the state only.
        sleeps: ``infer`` itself sleeps for its duration: for a policy that real threads call.

    Attributes:
        calls: Every call of ``infer``, in order.
        began_s: The loop's times at which the calls made by `offload` began.

    Raises:
        ValueError: By the clock without a declaration, tags without the columns for them, a duration that is none.
    """

    def __init__(
        self,
        rows: int | Sequence[int] = 50,
        dims: int = 3,
        *,
        hz: float | None = 20.0,
        infer_s: Durations = 0.0,
        by: Literal["clock", "state"] = "clock",
        step_size: float = 1.0,
        state_key: str = "state",
        tagged: bool = False,
        space: Space | None = "absolute",
        takes_prefix: bool = False,
        model_scale: float | None = None,
        raise_on: Collection[int] = (),
        error: Exception | None = None,
        bad_values: Mapping[int, tuple[int, int, float]] | None = None,
        observations: Observations | None = None,
        actions: Actions | None = None,
        timeouts: Timeouts | None = None,
        declared: bool = True,
        sleeps: bool = False,
    ) -> None:
        if by == "clock" and not declared:
            raise ValueError("a policy that declares nothing is not told its step: say by='state'")
        if tagged and dims < 3:
            raise ValueError(f"tags need three columns, not {dims}")
        self.calls: list[Call] = []
        self.began_s: list[float] = []
        self._rows, self._dims, self._by, self._tagged = _lengths(rows), dims, by, tagged
        self._step_size, self._state_key, self._declared, self._sleeps = step_size, state_key, declared, sleeps
        self._draw = drawn(infer_s)
        self._raise_on = raise_on
        self._error = error if error is not None else RuntimeError("CUDA error: an illegal memory access")
        self._bad_values = dict(bad_values or {})
        self._model_scale = model_scale
        self._key = actions.key if actions is not None else "actions"
        own_key = "rows_model" if model_scale is not None else None
        self.__seqrt_declared__ = Declaration(
            observations=(observations or Observations()) if declared else None,
            actions=(actions or Actions(key="actions", model_key=own_key, hz=hz, space=space)) if declared else None,
            timeouts=timeouts or Timeouts(),
            infer="infer_with_prefix" if takes_prefix else "infer",
            name="scripted",
        )

    def infer(self, obs: Any) -> Any:
        """The answer to ``obs``; see the class."""
        return self._answer(obs)

    def infer_with_prefix(
        self,
        obs: Any,
        *,
        prefix: Rows | None = None,
        delay: int | None = None,
        spacing: int | None = None,
        seed: int | None = None,
        predicted_state: Any = None,
    ) -> Any:
        """The answer to ``obs`` that begins with the committed rows; see the class."""
        return self._answer(obs, prefix, delay, spacing, seed, predicted_state)

    @property
    def offload(self) -> Offload:
        """Calls in the loop, each ``infer`` taking its scripted duration of the loop's time.

        What else a host calls by it (``load``, ``warmup``) takes none.
        """
        return self._offload

    async def _offload(self, call: Callable[[], T], /) -> T:
        await anyio.lowlevel.checkpoint()
        before = len(self.calls)
        began_s = anyio.current_time()
        try:
            return call()
        finally:
            # The answer is made first, from what infer was handed; it is out when the duration is over.
            for made in self.calls[before:]:
                self.began_s.append(began_s)
                with anyio.CancelScope(shield=True):
                    await anyio.sleep(made.infer_s)

    def _answer(
        self,
        obs: Any,
        prefix: Rows | None = None,
        delay: int | None = None,
        spacing: int | None = None,
        seed: int | None = None,
        predicted_state: Any = None,
    ) -> Any:
        number = len(self.calls)
        steps = tuple(int(step) for step in obs["steps"]) if self._declared else ()
        observation = obs["observations"][-1] if self._declared else obs
        raises = number in self._raise_on
        played = prefix if prefix is None or self._model_scale is None else np.asarray(prefix) * self._model_scale
        rows = None if raises else self._script(number, steps, observation, _committed(played, delay))
        infer_s = self._draw()
        self.calls.append(
            Call(number, steps, observation, prefix, delay, spacing, seed, infer_s, rows, predicted_state)
        )
        if self._sleeps:
            time.sleep(infer_s)
        if rows is None:
            raise self._error
        answer = rows.copy()
        if not self._declared or self._key is None:
            return answer
        own = {} if self._model_scale is None else {"rows_model": rows / self._model_scale}
        return {self._key: answer, **own}

    def _script(
        self, number: int, steps: tuple[int, ...], observation: Mapping[str, Any], committed: Rows | None
    ) -> Rows:
        rows: Rows
        index = np.arange(self._rows(number), dtype=np.float64)[:, np.newaxis]
        if self._by == "clock":
            rows = np.broadcast_to(self._step_size * (steps[-1] + 1 + index), (len(index), self._dims)).copy()
        else:
            rows = np.asarray(observation[self._state_key], dtype=np.float64) + self._step_size * (index + 1)
        if self._tagged:
            rows[:, 1], rows[:, 2] = steps[-1] if steps else -1, index[:, 0]
        if committed is not None and len(committed):
            kept = min(len(committed), len(rows))
            if self._by == "state":
                rows = committed[-1] + self._step_size * (index + 1 - kept)
            rows[:kept] = committed[:kept]
        if number in self._bad_values:
            row, column, value = self._bad_values[number]
            rows[row, column] = value
        return rows


def _committed(prefix: Rows | None, delay: int | None) -> Rows | None:
    """The rows of the answer that are already promised, `[d, A]`."""
    return None if prefix is None else np.asarray(prefix, dtype=np.float64)[:delay]


def _lengths(rows: int | Sequence[int]) -> Callable[[int], int]:
    lengths = [rows] if isinstance(rows, int) else list(rows)
    return lambda number: lengths[min(number, len(lengths) - 1)]
