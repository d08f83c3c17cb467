"""Where features meet that each have tests of their own: several acts out, delays, limits, lags, prefixes, seams."""

from __future__ import annotations

from typing import Any

import anyio
import numpy as np
import pytest
from driven import drive, pause, reversals

from seqrt import Actions, Crossfade, Lag, Limits, Nearest, Play
from seqrt.testing.connected import connected
from seqrt.testing.delayed import Delayed
from seqrt.testing.policies import Scripted
from seqrt.timeline import events as ev

pytestmark = pytest.mark.anyio

PERIOD_S = 0.05


# A limit of age and several out


async def test_what_was_sent_before_the_first_late_answer_came_is_one_stall() -> None:
    """Two are out when the first answer comes too late, and so are those behind them: two stalls are no end."""
    async with connected(Scripted(rows=50, infer_s=0.0303), in_order=False) as there:
        there.link.app = Delayed(there.link.app, after_s=[1.5, 1.4, *[1.0] * 7, 0.0])
        driven = await drive(there.policy, max_actions=30, limits=Limits(max_age_s=0.8))
    assert driven.error is None, driven.error
    assert driven.outcome is not None
    assert driven.outcome.actions == 30
    assert driven.outcome.refused_chunks > 3


async def test_an_answer_that_was_overtaken_is_dropped_however_late_and_is_no_refusal() -> None:
    async with connected(Scripted(rows=50, infer_s=0.0303), in_order=False) as there:
        there.link.app = Delayed(there.link.app, after_s=[0.0, 0.0, 0.0, 1.1, 0.0, 0.0, 1.1, 0.0])
        driven = await drive(there.policy, max_actions=70, limits=Limits(max_age_s=0.8))
    assert driven.error is None
    assert driven.of(ev.ChunkRefused) == []
    assert [event.why for event in driven.of(ev.AnswerDropped)] == ["older", "older"]


# The end of a run


@pytest.mark.parametrize("actions", [60, 61])
async def test_no_act_is_sent_whose_answer_would_come_after_the_last_row(actions: int) -> None:
    policy = Scripted(rows=15, hz=15, infer_s=0.0303)
    async with connected(policy, up_s=0.3312, down_s=0.3312) as there:
        driven = await drive(there.policy, max_actions=actions)
    assert driven.outcome is not None
    assert (driven.outcome.actions, driven.outcome.starved_ticks) == (actions, 0)
    ended = driven.of(ev.RunEnded)[0].at_s
    answered = {event.request_id for event in driven.of(ev.Answered)}
    late = [event.at_s for event in driven.of(ev.Asked) if event.request_id not in answered]
    assert late == [], (late, ended)


# A horizon that changes


@pytest.mark.parametrize("in_order", [True, False])
async def test_a_horizon_that_changes_with_several_out_misplaces_no_row(in_order: bool) -> None:
    policy = Scripted(rows=[40] * 5 + [16] * 10 + [40] * 40, hz=20, infer_s=0.0303, by="state")
    async with connected(policy, up_s=0.2012, down_s=0.2012, in_order=in_order) as there:
        driven = await drive(there.policy, max_actions=150)
    assert driven.error is None
    assert driven.outcome is not None
    lengths = [event.rows for event in driven.of(ev.Answered)]
    assert {40, 16} == set(lengths)
    assert driven.played == [driven.played[0] + i for i in range(150)]
    assert driven.outcome.starved_ticks <= 10, "at the change alone"
    shrunk = next(event.at_s for event in driven.of(ev.Answered) if event.rows == 16)
    starved = [tick.at_s for tick in driven.of(ev.Ticked) if tick.kind == "starved"]
    assert all(at_s < shrunk + 1.0 for at_s in starved)
    spacings = [event.s for event in driven.of(ev.Asked) if event.s is not None]
    assert max(spacings[-3:]) > 10, "and asked for as rarely again"


# Delays


async def test_where_the_robot_will_be_counts_the_rows_whose_effect_was_not_to_be_seen() -> None:
    async def ahead(**play: float) -> set[float]:
        policy = Scripted(rows=20, infer_s=0.0703, takes_prefix=True)
        async with connected(policy) as there:
            await drive(there.policy, max_actions=90, play=Play(continuity=None, **play))  # type: ignore[arg-type]
        return {
            float(np.asarray(call.predicted_state)[0]) - call.t
            for call in policy.calls[3:]
            if call.predicted_state is not None
        }

    (without,) = await ahead()
    (with_it,) = await ahead(sensor_delay_s=0.06, actuator_delay_s=0.06)
    assert (without, with_it) == (2.0, 5.0), "the row due before the one the answer begins with"


async def test_what_was_sent_before_a_pause_passes_no_row_after_it() -> None:
    async with connected(Scripted(rows=20, infer_s=0.0303)) as there, anyio.create_task_group() as tasks:
        tasks.start_soon(pause, there.policy, 2.0123, 0.07)
        driven = await drive(there.policy, max_actions=80, play=Play(actuator_delay_s=0.4))
    resumed = driven.of(ev.PauseEnded)[0].at_s
    first = next(event for event in driven.of(ev.Spliced) if event.at_s > resumed)
    assert (first.row, first.dropped) == (0, 0)


# A lag


async def test_nearest_adds_its_own_to_no_lag() -> None:
    """The arm is behind the clock by the lag already: the nearest row is found there, and not once more behind it."""
    policy = Scripted(rows=8, hz=15, infer_s=0.128)
    async with connected(policy, up_s=0.3312, down_s=0.3312) as there:
        aligned = await drive(there.policy, max_actions=60, play=Play(late=Lag(1.0)))
        nearest = await drive(there.policy, max_actions=60, play=Play(late=Lag(1.0), splice=Nearest()))
    assert reversals(nearest.values) == reversals(aligned.values) == 0
    assert nearest.outcome is not None
    assert aligned.outcome is not None
    assert nearest.outcome.lag_ticks == aligned.outcome.lag_ticks


# A crossfade at depth 1


@pytest.mark.parametrize(("seam", "blends"), [(Crossfade(), True), (None, False)])
async def test_a_crossfade_with_one_act_out_finds_rows_of_the_old_plan(seam: Any, blends: bool) -> None:
    policy = Scripted(rows=30, hz=20, infer_s=0.1303)
    async with connected(policy) as there:
        driven = await drive(there.policy, max_actions=150, play=Play(seam=seam, in_flight=1))
    assert driven.outcome is not None
    assert driven.outcome.starved_ticks == 0
    later = [event.blended for event in driven.of(ev.Spliced)[4:]]
    assert later
    assert (min(later) >= 8) is blends
    spacings = {event.s for event in driven.of(ev.Asked)[4:]}
    assert spacings == ({13} if blends else {27}), "half of what the chunk covers beyond the delay"


async def test_where_committed_rows_go_along_no_row_is_blended_and_none_is_spared_for_it() -> None:
    async def spacings(seam: Any) -> list[int | None]:
        policy = Scripted(rows=30, hz=20, infer_s=0.1303, takes_prefix=True)
        async with connected(policy) as there:
            driven = await drive(there.policy, max_actions=120, play=Play(seam=seam))
        return [event.s for event in driven.of(ev.Asked)]

    assert await spacings(Crossfade()) == await spacings(None)


# A prefix


async def test_one_slow_answer_among_the_first_ten_freezes_no_more_rows() -> None:
    policy = Scripted(rows=30, hz=20, infer_s=[0.1303, 0.1303, 0.4303, 0.1303], takes_prefix=True)
    async with connected(policy) as there:
        driven = await drive(there.policy, max_actions=150)
    assert {event.d for event in driven.of(ev.Asked)[2:]} == {3}
    assert [event.mode for event in driven.of(ev.ContinuityChosen)] == ["prefix"]


class _Behind(Scripted):
    """Answers as many rows as ever behind the committed ones, as a policy of few steps does."""

    def __init__(self, rows: int, horizon: int, **options: Any) -> None:
        actions = Actions(key="actions", hz=20, space="absolute", open_loop_horizon=horizon)
        super().__init__(rows=rows, takes_prefix=True, actions=actions, **options)
        self._own, self._committed = rows, True

    def _script(self, number: int, steps: Any, observation: Any, committed: Any) -> Any:
        more = 0 if committed is None or not self._committed else len(committed)
        self._rows = lambda _: self._own + more
        return super()._script(number, steps, observation, committed)


async def test_a_prefix_is_tried_where_only_the_declared_horizon_has_room_and_then_the_rows_answered_decide() -> None:
    """600 ms at 20 Hz are d = 12, of 16 rows; behind twelve committed rows sixteen more are answered."""
    policy = _Behind(16, 32, infer_s=0.5803, by="state")
    async with connected(policy) as there:
        driven = await drive(there.policy, max_actions=150)
    assert driven.error is None
    assert [event.mode for event in driven.of(ev.ContinuityChosen)] == ["prefix"]
    asked = driven.of(ev.Asked)
    assert {(event.d, event.s) for event in asked[2:]} == {(12, 16)}
    assert all(event.prefix for event in asked[2:])
    assert driven.played == [float(n) for n in range(1, 151)]
    assert "starved" not in driven.kinds


async def test_committed_rows_beyond_the_plans_end_are_not_stood_through_a_second_time() -> None:
    """The delay grows from 6 rows to 12: a prefix so long is tried while fewer rows than that are left."""
    policy = _Behind(16, 32, infer_s=[0.3003] * 4 + [0.5803], by="state")
    async with connected(policy) as there:
        driven = await drive(there.policy, max_actions=200)
    assert driven.error is None
    conditioned = [event for event in driven.of(ev.Asked) if event.prefix]
    assert [event.d for event in conditioned] == sorted(event.d or 0 for event in conditioned)
    assert any(event.rows_left < event.prefix == event.d for event in conditioned), "the rest is padding"
    assert driven.played == [float(n) for n in range(1, 201)]


async def test_where_the_rows_answered_leave_no_room_a_prefix_is_tried_once() -> None:
    policy = _Behind(16, 32, infer_s=0.1003)
    policy._committed = False
    async with connected(policy, up_s=0.2501, down_s=0.2501) as there:
        driven = await drive(there.policy, max_actions=150)
    assert [event.mode for event in driven.of(ev.ContinuityChosen)] == ["prefix", "pipelined"]
    assert sum(event.prefix > 0 for event in driven.of(ev.Asked)) == 1
    assert driven.of(ev.LatencyExceedsChunk) == []
    assert driven.kinds[-60:].count("starved") == 0


@pytest.mark.parametrize("infer_s", [0.8303, 0.3303])
async def test_a_prefix_is_not_tried_where_no_row_is_left_to_commit_or_none_is_needed(infer_s: float) -> None:
    policy = _Behind(16, 60 if infer_s > 0.5 else 16, infer_s=infer_s)
    async with connected(policy) as there:
        driven = await drive(there.policy, max_actions=100)
    modes = [event.mode for event in driven.of(ev.ContinuityChosen)]
    assert modes == (["pipelined"] if infer_s > 0.5 else ["prefix"])
