from __future__ import annotations

import itertools

import pytest

from seqrt.action.machine import TRANSITIONS, Signal, State, move

# One line a state, one column a signal, in the order the enum has them:
#            BEGIN      ROW      STARVE    PAUSE   RESUME    STOP      HELD    END
TABLE = """
IDLE       STARTING   .        .         .       .         .         .       ENDED
STARTING   .          PLAYING  STARTING  PAUSED  .         STOPPING  .       .
PLAYING    .          PLAYING  STARVED   PAUSED  .         STOPPING  .       .
STARVED    .          PLAYING  STARVED   PAUSED  .         STOPPING  .       .
PAUSED     .          .        .         PAUSED  STARTING  STOPPING  .       .
STOPPING   .          .        .         .       .         STOPPING  HELD    .
HELD       .          .        .         .       .         HELD      .       ENDED
ENDED      .          .        .         .       .         .         .       .
"""
CELLS = {
    (State[line.split()[0]], signal): cell
    for line in TABLE.strip().splitlines()
    for signal, cell in zip(Signal, line.split()[1:], strict=True)
}


def test_the_table_speaks_of_every_pair():
    assert set(CELLS) == set(itertools.product(State, Signal))
    assert set(TRANSITIONS) == {pair for pair, cell in CELLS.items() if cell != "."}


@pytest.mark.parametrize(("state", "signal"), CELLS, ids=lambda x: x.value)
def test_each_signal_in_each_state(state, signal):
    cell = CELLS[state, signal]
    if cell == ".":
        with pytest.raises(RuntimeError, match=f"{state.value} cannot take '{signal.value}'"):
            move(state, signal)
    else:
        assert move(state, signal) is State[cell]


def reachable(start: State, without: Signal | None = None) -> set[State]:
    seen, todo = {start}, [start]
    while todo:
        state = todo.pop()
        for (source, signal), target in TRANSITIONS.items():
            if source is state and signal is not without and target not in seen:
                seen.add(target)
                todo.append(target)
    return seen


@pytest.mark.parametrize("moving", [State.STARTING, State.PLAYING, State.STARVED, State.PAUSED, State.STOPPING])
def test_no_way_from_motion_to_the_end_goes_past_the_hold(moving):
    assert State.ENDED in reachable(moving)
    assert State.ENDED not in reachable(moving, without=Signal.HELD)
    assert State.HELD not in reachable(moving, without=Signal.HELD)


def test_from_a_stop_no_act_follows():
    acting = {State.STARTING, State.PLAYING, State.STARVED, State.PAUSED}
    assert not reachable(State.STOPPING) & acting
    assert not [pair for pair in TRANSITIONS if pair[0] in reachable(State.STOPPING) and pair[1] is Signal.ROW]


def test_while_paused_neither_a_row_nor_a_starved_tick_is_taken():
    taken = {signal for state, signal in TRANSITIONS if state is State.PAUSED}
    assert taken == {Signal.PAUSE, Signal.RESUME, Signal.STOP}


def test_every_state_is_reached_and_only_the_end_is_final():
    assert reachable(State.IDLE) == set(State)
    assert {state for state in State if not any(source is state for source, _ in TRANSITIONS)} == {State.ENDED}
