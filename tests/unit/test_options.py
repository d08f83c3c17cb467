"""Options refuse, by name and when they are written, what is no number or cannot be had together."""

from typing import Any

import numpy as np
import pytest

import seqrt
from seqrt import Crossfade, Decay, Lag, Limits, Play, Sequential, Stretch

SECONDS: dict[str, Any] = {
    "max_age_s": lambda value: Limits(max_age_s=value),
    "max_stall_s": lambda value: Limits(max_stall_s=value),
    "frozen_s": lambda value: Limits(frozen_s=value),
    "startup_timeout_s": lambda value: Limits(startup_timeout_s=value),
    "fresh_s": lambda value: Play(fresh_s=value),
    "sensor_delay_s": lambda value: Play(sensor_delay_s=value),
    "actuator_delay_s": lambda value: Play(actuator_delay_s=value),
    "max_s": lambda value: Lag(value),
    "stop_s": lambda value: Decay(value),
    "gate": lambda value: Crossfade(gate=value),
    "switch_interval_s": lambda value: seqrt.realtime(switch_interval_s=value),
}


@pytest.mark.parametrize("value", ["1", True, [1.0], b"1", 1j])
@pytest.mark.parametrize("name", SECONDS)
def test_what_is_no_number_is_refused_by_the_options_name(name: str, value: object) -> None:
    with pytest.raises(TypeError, match=rf"{name}.* must be a finite number"):
        SECONDS[name](value)


@pytest.mark.parametrize("value", [0.5, 1, np.float32(0.5), np.int64(1)])
@pytest.mark.parametrize("name", SECONDS)
def test_what_numpy_calls_a_number_is_one(name: str, value: object) -> None:
    SECONDS[name](value)


@pytest.mark.parametrize(
    ("made", "says"),
    [
        (lambda: Play(in_flight=2.5), "in_flight must be a whole number, from 1 to 8, not 2.5"),  # type: ignore[arg-type]
        (lambda: Play(in_flight="2"), "in_flight must be a whole number"),  # type: ignore[arg-type]
        (lambda: Play(in_flight=True), "in_flight must be a whole number"),
        (lambda: Play(seed="a"), "seed must be a whole number"),  # type: ignore[arg-type]
        (lambda: Play(prefetch="no"), "prefetch= takes True or False"),  # type: ignore[arg-type]
        (lambda: Limits(act_errors=1.5), "act_errors must be a whole number, 0 or more, not 1.5"),  # type: ignore[arg-type]
        (lambda: Limits(observe_errors=None), "observe_errors must be a whole number"),  # type: ignore[arg-type]
        (lambda: Limits(first_step={1: 0.1}), "first_step= takes"),  # type: ignore[dict-item]
        (lambda: seqrt.realtime(cpus=0), r"cpus= takes the numbers of CPUs, e.g. \[0\]"),  # type: ignore[arg-type]
    ],
)
def test_a_value_of_another_type_is_refused_with_the_one_to_write(made: Any, says: str) -> None:
    with pytest.raises(TypeError, match=says):
        made()


@pytest.mark.parametrize(
    ("made", "says"),
    [
        (lambda: Play(in_flight=9), "in_flight must be a whole number, from 1 to 8, not 9"),
        (lambda: Play(seed=2**63), "seed must be a whole number"),
        (lambda: Limits(first_step={"state": True}), "first_step"),
        (lambda: Play(late=Stretch(), prefetch=False), "prefetch=False asks for at its end: leave one of the two out"),
        (lambda: Play(late=Lag(0.5), prefetch=False), "prefetch=False"),
        (lambda: Play(late=Lag(0.5), splice=Sequential()), "leave late out"),
    ],
)
def test_what_does_not_travel_or_means_nothing_is_refused(made: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        made()


def test_ages_that_cannot_be_had_together_are_refused() -> None:
    with pytest.raises(ValueError, match=r"fresh_s=1\) aims at an age .* aim lower"):
        Limits(max_age_s=0.5).check(Play(fresh_s=1.0))
    with pytest.raises(ValueError, match=r"0\.5 s old when it is taken.* allow more"):
        Limits(max_age_s=0.5).check(Play(sensor_delay_s={"wrist": 0.5, "state": 0.0}))


def test_ages_that_can_be_had_together_are_not_refused() -> None:
    Limits(max_age_s=0.5).check(Play(fresh_s=0.5, sensor_delay_s=0.4))
    Limits().check(Play(fresh_s=5.0, sensor_delay_s=5.0))


def test_what_to_write_instead_is_a_sentence_of_its_own() -> None:
    for said in ("there is no rate", "there is no rate."):
        assert str(seqrt.DeclarationError(said, fix="Declare it.")) == "there is no rate. Declare it."
    assert str(seqrt.DeclarationError("there is no rate")) == "there is no rate"


def test_what_was_granted_prints_as_what_was_asked_for() -> None:
    granted = seqrt.realtime(gc=None, switch_interval_s=0.001)
    assert repr(granted) == "Realtime(switch_interval_s=0.001)"


@pytest.mark.parametrize("delay", [{"actuator_delay_s": 0.1}, {"sensor_delay_s": {"wrist": 0.06}}])
def test_an_arm_seen_slowing_down_late_is_asked_about_one_act_at_a_time(delay: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="in_flight=1"):
        Play(underrun=Decay(0.2), **delay)
    Play(underrun=Decay(0.2), in_flight=1, **delay)
    Play(underrun=Decay(0.2))
