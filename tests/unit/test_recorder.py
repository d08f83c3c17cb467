from __future__ import annotations

import inspect
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seqrt.errors import WireError
from seqrt.timeline import events as ev
from seqrt.timeline.outcome import Fold, fold
from seqrt.timeline.recorder import MAGIC, Recorder, append, read

KINDS: tuple[type[Any], ...] = get_args(ev.Event)

# Of each type a field may have: one value, and any value.
VALUES: dict[Any, tuple[Any, st.SearchStrategy[Any]]] = {
    float: (0.25, st.floats(0, 1e6)),
    int: (7, st.integers(0, 10**6)),
    bool: (True, st.booleans()),
    str: ("text", st.text(max_size=5) | st.sampled_from(["played", "starved", "waiting", "paused"])),
    list[float]: ([0.5, -1.0], st.lists(st.floats(-1, 1), max_size=3)),
    tuple[int, ...]: ((0, 2), st.lists(st.integers(0, 9), max_size=3).map(tuple)),
}


def of_field(entry: Any) -> Any:
    """The type of a field, None put aside."""
    return next(t for t in (entry.type, *get_args(entry.type)) if t in VALUES)


def blank(kind: type[Any], *, full: bool) -> Any:
    """One event of ``kind``: with a value in each field, or (not full) only in those that are required."""
    fields = [entry for entry in msgspec.structs.fields(kind) if full or entry.required]
    return kind(**{entry.name: VALUES[of_field(entry)][0] for entry in fields})


def any_of(kind: type[Any]) -> st.SearchStrategy[Any]:
    fields = msgspec.structs.fields(kind)
    strategies = {entry.name: VALUES[of_field(entry)][1] for entry in fields}
    if kind is ev.RunStarted:
        strategies["hz"] = st.sampled_from([3.0, 15.0, 50.0])
    return st.builds(kind, **strategies)


def recorded(*events: ev.Event) -> bytes:
    recorder = Recorder()
    for event in events:
        recorder.add(event)
    return recorder.take()


def test_every_event_is_in_the_union_and_has_a_tag_of_its_own():
    declared = {
        kind for _, kind in inspect.getmembers(ev, inspect.isclass) if issubclass(kind, ev._Event) and kind != ev._Event
    }
    assert declared == set(KINDS)
    assert len({kind.__struct_config__.tag for kind in KINDS}) == len(KINDS)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("full", [True, False])
def test_every_event_comes_back_as_it_was(kind, full, tmp_path):
    event = blank(kind, full=full)
    append(tmp_path / "run", recorded(event), fresh=True)
    assert list(read(tmp_path / "run")) == [event]


def test_events_come_back_in_order_however_often_the_blocks_were_taken(tmp_path):
    events = [blank(kind, full=True) for kind in KINDS * 3]
    recorder, path = Recorder(), tmp_path / "run"
    for number, event in enumerate(events):
        recorder.add(event)
        if number % 7 == 0:
            append(path, recorder.take())
    append(path, recorder.take())
    append(path, recorder.take())  # nothing has gathered
    assert list(read(path)) == events


def test_a_fresh_recording_replaces_the_one_that_was_there(tmp_path):
    path = tmp_path / "run"
    append(path, recorded(blank(ev.RunEnded, full=True)), fresh=True)
    append(path, recorded(blank(ev.Held, full=True)), fresh=True)
    assert list(read(path)) == [blank(ev.Held, full=True)]


def test_a_tail_that_a_crash_cut_is_left_out_wherever_it_was_cut(tmp_path):
    events = [blank(kind, full=True) for kind in KINDS[:3]]
    whole = recorded(*events)
    ends = [len(recorded(*events[:n])) for n in range(4)]
    for cut in range(len(MAGIC), len(whole) + 1):
        path = tmp_path / "run"
        append(path, whole[:cut], fresh=True)
        assert list(read(path)) == events[: sum(end <= cut for end in ends) - 1]


@pytest.mark.parametrize("body", [b"", b"{}", b"seqrt-timeline/2\n", MAGIC[:-1]])
def test_a_file_that_is_no_timeline_is_said_to_be_none(body, tmp_path):
    append(tmp_path / "other", body, fresh=True)
    with pytest.raises(WireError, match="is not a seqrt timeline") as refused:
        list(read(tmp_path / "other"))
    assert refused.value.reason == "magic"


@pytest.mark.parametrize("body", [b"\xc1", msgspec.msgpack.encode({"event": "moon.landed", "at_s": 1.0}), b"\x80"])
def test_an_event_that_is_none_of_ours_is_an_error_with_its_place(body, tmp_path):
    first = recorded(blank(ev.Held, full=True))
    append(tmp_path / "run", first + len(body).to_bytes(4, "little") + body, fresh=True)
    events = read(tmp_path / "run")
    assert next(events) == blank(ev.Held, full=True)
    with pytest.raises(WireError) as refused:
        next(events)
    assert refused.value.where == f"byte {len(first)}"


@given(st.lists(st.one_of([any_of(kind) for kind in KINDS]), max_size=30))
@settings(max_examples=40, deadline=None)
def test_folding_a_recording_gives_the_outcome_the_run_gave(tmp_path_factory, events):
    path = tmp_path_factory.mktemp("runs") / "run"
    folded = Fold()
    for event in events:
        folded.add(event)
    append(path, recorded(*events), fresh=True)
    assert fold(read(path)) == folded.outcome()
