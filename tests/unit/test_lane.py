"""The caller's thread as a lane: what is handed over, in which order, what a Ctrl-C does to it. No loop, no thread."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import anyio
import pytest

from seqrt.blocking.lane import Cut, Lane


def at_once(function: Callable[[], object]) -> None:
    function()


class Handed:
    """A lane, and what it told."""

    def __init__(self) -> None:
        self.cuts: list[BaseException] = []
        self.lane = Lane(lambda lane, error: self.cuts.append(error))
        self.log: list[str] = []

    def hand(self, function: Callable[..., Any], *args: Any, **how: bool) -> Any:
        return self.lane.call(at_once, function, *args, **how)

    def says(self, word: str) -> Callable[[], None]:
        return lambda: self.log.append(word)

    def serve(self) -> None:
        self.lane.end()
        self.lane.serve()


@pytest.fixture
def handed() -> Handed:
    return Handed()


@pytest.mark.anyio
async def test_calls_are_served_in_order_and_a_row_before_what_waits(handed: Handed) -> None:
    waiting = [
        handed.hand(handed.says("observe")),
        handed.hand(handed.says("chunk")),
        handed.hand(handed.says("act"), first=True),
    ]
    handed.serve()
    assert handed.log == ["act", "observe", "chunk"]
    for each in waiting:
        await each


@pytest.mark.anyio
async def test_what_a_function_returns_or_raises_comes_out_of_its_call(handed: Handed) -> None:
    error = ValueError("the driver's own")

    def fails() -> None:
        raise error

    good, bad = handed.hand(lambda x: x + 1, 2), handed.hand(fails)
    handed.serve()
    assert await good == 3
    with pytest.raises(ValueError, match="the driver's own") as caught:
        await bad
    assert caught.value is error
    assert handed.cuts == []


@pytest.mark.anyio
@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, StopIteration, GeneratorExit])
async def test_what_no_coroutine_may_raise_is_told_and_comes_out_at_the_end(
    handed: Handed, kind: type[BaseException]
) -> None:
    error = kind()

    def ends() -> None:
        raise error

    waiting = handed.hand(ends)
    handed.serve()
    with pytest.raises(Cut):
        await waiting
    assert handed.cuts == [error]
    with pytest.raises(kind) as caught:
        handed.lane.outcome()
    assert caught.value is error
    assert caught.traceback[-1].name == "ends"


@pytest.mark.anyio
async def test_a_hold_that_a_ctrl_c_cuts_short_is_called_again(handed: Handed) -> None:
    def hold() -> None:
        handed.log.append("hold")
        if len(handed.log) < 3:
            raise KeyboardInterrupt
        handed.log.append("held")

    waiting = handed.hand(hold, certain=True)
    handed.serve()
    await waiting
    assert handed.log == ["hold", "hold", "hold", "held"]
    assert len(handed.cuts) == 1


@pytest.mark.anyio
async def test_a_call_nobody_waits_for_any_more_is_dropped_but_never_the_hold(handed: Handed) -> None:
    act, hold = handed.hand(handed.says("act")), handed.hand(handed.says("hold"), certain=True)
    async with anyio.create_task_group() as tasks:
        for waiting in (act, hold):
            tasks.start_soon(awaited, waiting)
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()
    handed.serve()
    assert handed.log == ["hold"]


async def awaited(waiting: Coroutine[Any, Any, Any]) -> None:
    await waiting


@pytest.mark.anyio
async def test_what_a_signal_handler_raises_between_two_calls_loses_none_of_them(handed: Handed) -> None:
    error = RuntimeError("a handler of the program's own")
    waiting = handed.hand(handed.says("act")), handed.hand(handed.says("hold"), certain=True)
    taken = handed.lane._work

    def interrupted() -> None:
        handed.lane._work = taken  # type: ignore[method-assign]
        raise error

    handed.lane._work = interrupted  # type: ignore[method-assign]
    handed.serve()
    assert handed.log == ["act", "hold"]
    assert handed.cuts == [error]
    for each in waiting:
        await each


@pytest.mark.anyio
async def test_a_call_that_was_cut_short_on_its_way_is_not_made_twice(handed: Handed) -> None:
    """Whether it has reached the motors nobody knows: the run is told that it failed, and holds."""
    act, hold = handed.hand(handed.says("act")), handed.hand(handed.says("hold"), certain=True)
    for call in (handed.lane._then[0], handed.lane._then[1]):
        call._state = "begun"
    handed.serve()
    assert handed.log == ["hold"]
    with pytest.raises(Cut):
        await act
    await hold


def test_the_first_ctrl_c_lets_a_function_come_to_its_end_and_a_further_one_does_not(handed: Handed) -> None:
    def slow() -> None:
        handed.lane._on_sigint(2, None)
        handed.log.append("goes on")
        handed.lane._on_sigint(2, None)

    handed.hand(slow).close()
    handed.lane._then[0]._state = "queued"
    handed.serve()
    assert handed.log == ["goes on"]
    with pytest.raises(KeyboardInterrupt):
        handed.lane.outcome()


def test_no_ctrl_c_cuts_the_hold_within_its_bound_and_one_does_beyond(handed: Handed) -> None:
    def hold() -> None:
        for _ in range(3):
            handed.lane._on_sigint(2, None)
        handed.log.append("held")
        handed.lane._then[0].abandoned = True  # the loop gave it up: it hangs
        handed.lane._on_sigint(2, None)
        handed.log.append("never said")

    handed.hand(hold, certain=True).close()
    handed.serve()
    assert handed.log == ["held"]


def test_without_a_cut_the_outcome_is_what_the_loop_says(handed: Handed) -> None:
    handed.lane.end(value=4)
    handed.lane.serve()
    assert handed.lane.outcome() == 4
    handed.lane.end(error=ValueError("of the loop"))
    with pytest.raises(ValueError, match="of the loop"):
        handed.lane.outcome()
