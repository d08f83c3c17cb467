"""The handle of the blocking face: one policy, and the calls that make a robot follow it, from one thread.

Each call runs in the session's loop while the caller's thread serves the robot's functions in its lane.
"""

from __future__ import annotations

import time
import warnings
import weakref
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

from seqrt.action.guard import Row
from seqrt.action.splice import Splice
from seqrt.blocking.calls import Crossing, Function, Given, given_of
from seqrt.blocking.driving import Driving
from seqrt.blocking.lane import Lane
from seqrt.blocking.options import check_whole, limits_of, params_of, play_of
from seqrt.blocking.session import Session
from seqrt.blocking.types import Prediction, Served, inputs_of, served_by
from seqrt.blocking.warming import warmed_up
from seqrt.errors import AlreadyDriven, ChunkExhausted, SeqrtError
from seqrt.runtime.chunk import ActionChunk
from seqrt.runtime.control import Cause
from seqrt.runtime.ending import attach
from seqrt.runtime.options import Limits, Play
from seqrt.runtime.policy import Policy as AsyncPolicy
from seqrt.runtime.policy import Statistics
from seqrt.runtime.telling import Record
from seqrt.timeline.outcome import RunOutcome
from seqrt.wire.messages import PolicyInfo


class Policy:
    """A policy to drive a robot with, from one thread at a time. Made by `seqrt.blocking.connect`, one a control loop.

    A context manager; without one, `close` ends it, as does its end as an object and that of the program.
    """

    def __init__(
        self, session: Session, *, model: str | None, control_hz: float | None, embodiment: str | None
    ) -> None:
        self._session = session
        self._model, self._control_hz, self._embodiment = model, control_hz, embodiment
        self._driving = Driving()
        self._finalizer = weakref.finalize(self, Session.abandon, session)

    # Driving.

    def run(
        self,
        observe: Any = None,
        act: Function | None = None,
        *,
        max_actions: int,
        validate: Function | None = None,
        hold: Function | None = None,
        on_chunk: Callable[[Prediction], Any] | None = None,
        on_underrun: Function | None = None,
        prefetch: bool = True,
        startup_timeout_s: float = 0.0,
        smooth_seam: int = 0,
        splice: Splice | None = None,
        max_seconds: float | None = None,
        until: Callable[[Any], Any] | None = None,
        play: Play | None = None,
        limits: Limits | None = None,
        record: Record = None,
        params: dict[str, Any] | None = None,
        seed: int | None = None,
        action_horizon: int | None = None,
        return_world_prediction: bool | None = None,
        robot: Any = None,
    ) -> RunOutcome:
        """Drive the robot for at most ``max_actions`` rows, and say what was done.

        All functions are called in this thread, one at a time; ``record=`` alone is the runtime's thread's. While one
        blocks, the connection goes on beside it, and rows that fall due wait for it: what ``observe`` takes is the
        least a period can be. A Ctrl-C lets the function that runs come to its end (0.1 s, then it is cut short),
        holds, and comes out as KeyboardInterrupt; a further one does not skip the hold.

        Args:
            observe: Returns one observation (a dict, or an `Observation`), None for nothing new; or a robot object.
            act: Is handed one row, float64 `[A]`, its own to change. None: a dry run.
            max_actions: End, cleanly, after so many rows; 1 or more.
            validate: Looks at each row before it is sent; a falsy answer ends the run, and the row is not sent.
            hold: Makes the robot stand still safely, on every end that is not a clean one; must bear a second call.
            on_chunk: Handed each `Prediction` that is played.
            on_underrun: Called at each tick without a row, with the seconds starved if it needs an argument.
            prefetch: Ask for the next chunk while this one plays.
            startup_timeout_s: How long to wait out a worker that warms up, before the first action.
            smooth_seam: Rows of each later chunk that ramp out of the row executed last, in absolute spaces.
            splice: Where a new chunk lies: None goes on where the arm is; ``Sequential()`` plays every row.
            max_seconds: End, cleanly, after so many seconds.
            until: Handed each observation; a true answer ends the run cleanly.
            play: All of how chunks are asked for and played.
            limits: All of when to stop.
            record: A path to write the run's events to, or a callable that is handed each.
            params: Values for the policy's declared parameters.
            seed: Goes with every act.
            action_horizon: The parameter of that name.
            return_world_prediction: The parameter of that name.
            robot: An object with ``observe``, ``act``, ``hold`` and perhaps ``names``, in place of the functions.

        Returns:
            The outcome; ``reason`` says how it ended.

        Raises:
            ValueError: An argument that means nothing, or one that is said twice.
            AlreadyDriven: Another thread drives this handle, or this one does, from inside a callback.
            SeqrtError: What ended the run, with its ``outcome``; a function's own exception comes through as itself.
        """
        check_whole(max_actions)
        given = given_of(
            robot, observe, act, hold=hold, validate=validate, on_chunk=on_chunk, on_underrun=on_underrun, until=until
        )
        play = play_of(play, prefetch=prefetch, smooth_seam=smooth_seam, splice=splice, seed=seed)
        limits = limits_of(limits, startup_timeout_s=startup_timeout_s)
        values = params_of(params, action_horizon=action_horizon, return_world_prediction=return_world_prediction)
        if validate is None and given.act is not None:
            warnings.warn(
                "run() without validate=: what a model answers is not a safe robot command by itself",
                UserWarning,
                stacklevel=2,
            )
        wanted = {
            "max_actions": max_actions, "max_seconds": max_seconds, "play": play, "record": record, "params": values,
        }  # fmt: skip
        with self._driving.begin("run"):
            return self._ran(given, limits, wanted)

    def predict(
        self,
        observation: Any,
        *,
        seed: int | None = None,
        params: dict[str, Any] | None = None,
        action_horizon: int | None = None,
        return_world_prediction: bool | None = None,
    ) -> Prediction:
        """Send one observation and get the whole chunk for it; it replaces the rows left for `next_action`."""
        values = params_of(params, action_horizon=action_horizon, return_world_prediction=return_world_prediction)

        async def job(handle: AsyncPolicy) -> ActionChunk:
            return await handle.predict(inputs_of(observation), seed=seed, params=values)

        return Prediction(self._asked("predict", job), self._served())

    def next_action(
        self,
        observation: Any = None,
        *,
        seed: int | None = None,
        params: dict[str, Any] | None = None,
        action_horizon: int | None = None,
        return_world_prediction: bool | None = None,
    ) -> Row:
        """The next row, float64 `[A]`; asks about ``observation`` when no row is left.

        Raises:
            ChunkExhausted: No row is left and no observation was given.
        """
        values = params_of(params, action_horizon=action_horizon, return_world_prediction=return_world_prediction)
        if observation is None and self._session.handle is None and not self._session.closed:
            raise ChunkExhausted("no row is left: call next_action(observation) to get the next chunk")

        async def job(handle: AsyncPolicy) -> Row:
            return await handle.next_action(inputs_of(observation), seed=seed, params=values)

        row: Row = self._asked("next_action", job)
        return row

    def observe(self, observation: Any) -> int:
        """Send one observation ahead of `next_chunk`; returns its number."""
        number: int = self._asked("observe", lambda handle: handle.observe(inputs_of(observation)))
        return number

    def next_chunk(self, *, seed: int | None = None, params: dict[str, Any] | None = None) -> Prediction:
        """The chunk for the newest observation sent by `observe`."""
        chunk = self._asked("next_chunk", lambda handle: handle.next_chunk(seed=seed, params=params))
        return Prediction(chunk, self._served())

    @contextmanager
    def episode(self) -> Iterator[str]:
        """One episode for all that is called inside: numbers and the policy's state go on, the plan never does.

        Yields:
            The episode's id.
        """

        async def enter(handle: AsyncPolicy) -> Any:
            entered = handle.episode()
            return entered, await entered.__aenter__()

        entered, name = self._asked("episode", enter)
        try:
            yield name
        finally:
            if not self._session.closed:
                self._asked("episode", lambda handle: entered.__aexit__(None, None, None))

    # From any thread.

    def pause(self) -> None:
        """Hold, drop the plan, and leave the robot to the caller; observing goes on. From any thread or handler."""
        if (handle := self._session.handle) is not None:
            handle.pause()

    def resume(self) -> None:
        """Go on from new observations after `pause`. From any thread or signal handler."""
        if (handle := self._session.handle) is not None:
            handle.resume()

    def interrupt(self) -> None:
        """End the run with hold; `run` returns with reason "interrupted". From any thread or signal handler."""
        handle = self._session.handle
        if handle is not None and handle.control is not None:
            handle.interrupt()
        elif self._driving.under_way:
            self._driving.interrupted = True
            self._session.give_up()

    def statistics(self) -> Statistics:
        """A snapshot of what the handle is doing, from any thread."""
        handle = self._session.handle
        if handle is None:
            return Statistics("idle", 0, 0, None)
        return self._session.ask(handle.statistics)

    @property
    def last_outcome(self) -> RunOutcome | None:
        """Outcome of the last run, however it ended; None before the first."""
        handle = self._session.handle
        return None if handle is None else handle.last_outcome

    @property
    def buffered(self) -> int:
        """Rows that `next_action` hands out before it asks again."""
        return self.statistics().rows_left

    @property
    def model(self) -> str | None:
        """The model that was asked for; None takes what is served."""
        return self._model

    @property
    def info(self) -> PolicyInfo:
        """What the policy declares and the worker grants; connects, where nothing has yet."""
        handle = self._session.handle
        if handle is not None:
            return handle.info

        async def job(connected: AsyncPolicy) -> PolicyInfo:
            return connected.info

        info: PolicyInfo = self._asked("info", job)
        return info

    def close(self) -> None:
        """End what is open at the worker and let go of the connection. A run in another thread ends with hold.

        Raises:
            AlreadyDriven: Called inside a callback of this handle's own run.
        """
        if self._driving.is_here:
            raise AlreadyDriven("close() was called inside a callback of a run it would wait for: interrupt() ends it")
        self._finalizer.detach()
        self._session.close()

    def __enter__(self) -> Policy:
        """The handle itself; nothing is sent."""
        return self

    def __exit__(self, *exception: object) -> None:
        """`close`."""
        self.close()

    # Inside.

    def _ran(self, given: Given, limits: Limits, wanted: dict[str, Any]) -> RunOutcome:
        before, begun = self.last_outcome, time.monotonic()

        async def job(lane: Lane) -> RunOutcome:
            if self._driving.interrupted:
                return RunOutcome(0, 0, time.monotonic() - begun, "interrupted")
            handle, spent_s = await warmed_up(self._session.connected, limits.startup_timeout_s)
            left = replace(limits, startup_timeout_s=max(0.0, limits.startup_timeout_s - spent_s))
            crossing = Crossing(lane, self._session.post, lambda: handle.control, self._served())
            return await handle.run(**crossing.arguments(given), **wanted, limits=left)

        try:
            outcome: RunOutcome = self._in_loop(job)
        except BaseException as error:
            if self._driving.interrupted and isinstance(error, SeqrtError) and error.outcome is None:
                return RunOutcome(0, 0, time.monotonic() - begun, "interrupted")
            if getattr(error, "outcome", None) is None and self.last_outcome is not before:
                attach(error, self.last_outcome)
            raise
        return outcome

    def _asked(self, what: str, job: Callable[[AsyncPolicy], Awaitable[Any]]) -> Any:
        """The answer to one call that takes no functions of the robot."""

        async def connected(lane: Lane) -> Any:
            return await job(await self._session.connected())

        with self._driving.begin(what):
            return self._in_loop(connected)

    def _in_loop(self, job: Callable[[Lane], Awaitable[Any]]) -> Any:
        """Run ``job`` in the loop and serve this thread's lane until it is over."""
        self._session.start()
        lane = Lane(self._cut)
        with lane.sigint_taken():
            self._session.submit(partial(job, lane), lane)
            lane.serve()
        return lane.outcome()

    def _cut(self, lane: Lane, error: BaseException) -> None:
        """A Ctrl-C, or its like, in the caller's thread: maybe in a signal handler."""
        handle = self._session.handle
        if handle is not None and handle.control is not None:
            handle.control.stop_soon(Cause(f"raised:{type(error).__name__}", error))
        else:
            self._session.give_up()
        self._session.hurry_soon(lane)

    def _served(self) -> Served:
        handle = self._session.handle
        assert handle is not None
        return served_by(handle.info, model=self._model, embodiment=self._embodiment, hz=self._control_hz)
