"""Asks for the next chunk when `seqrt.action.asking` says so, and brings the answer into the plan.

In comes each observation taken; out go acts, and rows into the plan. It decides at most once a tick, when that tick's
observation is in hand, and never waits inside a decision: each request lives in a task of its own.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable
from typing import Literal

import anyio
from anyio.abc import TaskGroup

from seqrt.action import asking
from seqrt.action.lagging import Stretch
from seqrt.action.latency import Latencies
from seqrt.action.plan import Plan
from seqrt.action.rows import Rows
from seqrt.action.staleness import rows_behind
from seqrt.observation.window import is_windowed
from seqrt.runtime.asked import Asking, Out, in_ms
from seqrt.runtime.control import Control
from seqrt.runtime.declared import Declared
from seqrt.runtime.episode import Episode
from seqrt.runtime.foresight import NOTHING, keys_foreseen, next_ask
from seqrt.runtime.moments import Moment
from seqrt.runtime.options import Play
from seqrt.runtime.pacing import Pacing
from seqrt.runtime.receiver import Receiver
from seqrt.runtime.serving import Serving
from seqrt.runtime.telling import Telling
from seqrt.runtime.uplink import Uplink
from seqrt.wire.headers import request_id
from seqrt.wire.messages import ActRequest, AskPlan

logger = logging.getLogger(__name__)


class Requester:
    """One run's asking.

    Attributes:
        ready: Set once it can ask.

    Args:
        serving: Gets one act served, whatever the link does meanwhile.
        receiver: Takes answers into the plan.
        hz: The grid's rate, as acts name it.
        rows_wanted: Rows the run will still play at the most, None for no end.
        session: The run's id.
        episode: Whose observations acts are about.
        out: The requests that are out.
        seed: Goes with every act.
        params: Values for the policy's declared parameters.
    """

    def __init__(
        self,
        *,
        serving: Serving,
        receiver: Receiver,
        episode: Episode,
        plan: Plan,
        declared: Declared,
        control: Control,
        telling: Telling,
        latencies: Latencies,
        play: Play,
        hz: float,
        session: str,
        rows_wanted: Callable[[], int | None],
        out: Out,
        seed: int | None = None,
        params: dict[str, object] | None = None,
    ) -> None:
        self._serving, self._receiver, self._episode, self._plan = serving, receiver, episode, plan
        self._declared, self._control, self._telling, self._latencies = declared, control, telling, latencies
        self._play, self._hz, self._period_s, self._session = play, hz, 1 / hz, session
        self._rows_wanted, self._seed, self._params = rows_wanted, seed, params
        self._out = out
        # Rows that the sensors' and the motors' delays have passed when an observation is taken: no chunk plays them.
        self._behind = rows_behind(play.moved_behind_s, self._period_s)
        self._pacing = Pacing(
            receiver=receiver, declared=declared, telling=telling, latencies=latencies, play=play, period_s=1 / hz,
            behind=self._behind,
        )  # fmt: skip
        self._last_sent: int | None = None
        self._tasks: TaskGroup | None = None
        self._anew = False
        self.ready = anyio.Event()

    @property
    def rate(self) -> float:
        """Rows to play a tick, see `Pacing.rate`."""
        return self._pacing.rate

    def begin_anew(self) -> None:
        """A new episode begins: it is asked at once, however fresh the plan of the one before is."""
        self._anew = True

    async def run(self) -> None:
        """Hold the requests' tasks, until cancelled."""
        async with anyio.create_task_group() as self._tasks:
            self.ready.set()
            await anyio.sleep_forever()

    def consider(self, moment: Moment, tick: int) -> None:
        """Decide at ``tick`` whether to ask about ``moment``, the newest observation (of an earlier tick, maybe)."""
        if self._control.paused:
            self._episode.uplink.rest()
            return
        if self._control.cause is not None or self._tasks is None:
            return
        spaced = self._pacing.spacing()
        standing = self._standing(moment, tick, spaced)
        if moment.step <= max(self._plan.newest, *(asked.moment.step for asked in self._out.of(moment.epoch)), -1):
            return  # asked about already, and no newer one is to be had
        if self._due(standing, spaced) or self._due_anew(standing):
            self._last_sent = tick
            self._ask(moment, spaced)
        elif is_windowed(self._declared.observations):
            by_spacing = self._play.prefetch and not self._pacing.appends
            ask = next_ask(standing, spaced, by_spacing=by_spacing)
            keys = keys_foreseen(self._declared.observations, moment.step, ask)
            if keys != NOTHING:
                self._episode.uplink.feed(moment.step, keys)

    def _standing(self, moment: Moment, tick: int, spaced: asking.Spacing | None) -> asking.Standing:
        out = self._out.of(moment.epoch)
        return asking.Standing.of(
            [asked.flight for asked in out],
            tick=tick,
            last_sent=self._last_sent,
            planned=self._plan.newest,
            position=self._plan.position,
            rows_left=self._plan.rows_left,
            reach=self._reach(spaced),
            rows_wanted=self._rows_wanted(),
            # No answer may replace a committed row: a conditioned act is alone, and waits until it is.
            one_by_one=self._depth(spaced) == 1 or any(asked.committed for asked in out),
        )

    def _reach(self, spaced: asking.Spacing | None) -> int | None:
        """Rows from its observation on that an answer can still play, at the most."""
        if spaced is None:
            return None
        return spaced.horizon + self._behind + max(self._receiver.lag.own, self._receiver.lag.of_next())

    def _depth(self, spaced: asking.Spacing | None) -> int:
        return spaced.in_flight if spaced is not None else self._pacing.most

    def _due(self, standing: asking.Standing, spaced: asking.Spacing | None) -> bool:
        if spaced is None or not self._pacing.appends:
            if self._is_alone and standing.in_flight:
                return False
            stretched = isinstance(self._play.late, Stretch)
            return asking.due(
                standing, spaced or self._pacing.stagger(), prefetch=self._play.prefetch, stretched=stretched
            )
        planned = standing.rows_wanted is not None and standing.rows_left >= standing.rows_wanted
        refill_s = self._latencies.refill_s() or 0.0
        return (
            not planned
            and standing.in_flight == 0
            and asking.refill_due(standing.rows_left, refill_s, period_s=self._period_s)
        )

    def _due_anew(self, standing: asking.Standing) -> bool:
        """Whether a new episode has to be asked for the first time, though the plan of the one before is fresh."""
        more = standing.rows_wanted is None or standing.rows_left < standing.rows_wanted
        return self._anew and self._play.prefetch and more

    @property
    def _is_alone(self) -> bool:
        """Whether what is out now must stay alone: a conditioned act, or one that waits for a worker to be had."""
        return self._serving.waiting or any(asked.committed for asked in self._out.all.values())

    def _ask(self, moment: Moment, spaced: asking.Spacing | None) -> None:
        assert self._tasks is not None
        prefix, space = self._prefix(moment, spaced)
        d = None if spaced is None else spaced.d + self._behind
        committed = d if d is not None and prefix is not None else 0
        asked = Asking(
            request_id=request_id(secrets.token_bytes(8)),
            moment=moment,
            sent_at=anyio.current_time(),
            spacing_ticks=spaced.s if spaced is not None else None,
            committed=committed,
            known=min(committed, max(0, self._plan.end - moment.position)),
            behind=any(other.moment.epoch != moment.epoch for other in self._out.all.values()),
            spare=1 if spaced is None else spaced.spare,
        )
        uplink = self._episode.uplink
        uplink.send_for(moment.step)
        message = ActRequest(
            call="act",
            seq=moment.step + 1,
            seed=self._seed,
            episode_id=uplink.episode_id,
            params=self._params,
            embodiment=self._declared.embodiment,
            plan=AskPlan(
                session=self._session,
                steps_left=self._plan.rows_left,
                hz=self._hz,
                net_p95_ms=in_ms(self._latencies.network_s()),
                previous=uplink.previous,
                dry_in_s=self._plan.rows_left * self._period_s / self._pacing.rate,
                begun=uplink.begun or None,
                prefix=prefix,
                prefix_space=space,
                d=d,
                s=spaced.s if spaced is not None else None,
                predicted_state=self._predicted(moment, spaced),
                want_rows_model=True if self._pacing.may_take_prefix else None,
                epoch=moment.epoch,
            ),
        )
        self._out.all[asked.request_id] = asked
        self._anew = False
        self._tasks.start_soon(self._perform, asked, message, uplink)

    async def _perform(self, asked: Asking, message: ActRequest, uplink: Uplink) -> None:
        try:
            served = await self._serving.serve(asked, message, uplink)
        finally:
            del self._out.all[asked.request_id]
            uplink.close(asked.moment.step)
        if served is None:
            return
        if served.answer.plan is None or not served.answer.plan.stale:
            uplink.serve_to(asked.moment.step)
        await self._receiver.receive(asked, served)

    def _prefix(
        self, moment: Moment, spaced: asking.Spacing | None
    ) -> tuple[Rows | None, Literal["action", "model"] | None]:
        """The committed rows `[n, A]` that go along and the space they are in; None where none do."""
        if spaced is None or self._pacing.mode != "prefix" or spaced.d + self._behind == 0:
            return None, None
        d = spaced.d + self._behind
        model = self._plan.ahead_model(moment.position, d)
        if model is not None:
            return model, "model"
        rows = self._plan.ahead(moment.position, d)
        return rows, None if rows is None else "action"

    def _predicted(self, moment: Moment, spaced: asking.Spacing | None) -> object:
        """Where the robot will be when the answer arrives `[A]`; None where rows are no places, or none is due."""
        if spaced is None or not self._declared.takes_predicted or self._declared.space != "absolute":
            return None
        d = spaced.d + self._behind
        if d == 0:
            return self._plan.last
        rows = self._plan.ahead(moment.position, d)
        return rows[d - 1] if rows is not None else None
