from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest
from driven import drive

from seqrt import Play
from seqrt.testing.connected import connected
from seqrt.testing.policies import Scripted
from seqrt.timeline import events as ev

pytestmark = pytest.mark.anyio

_PATH = Path(__file__).parents[2] / "bench" / "refill.py"


def _bench() -> ModuleType:
    spec = importlib.util.spec_from_file_location("bench_refill", _PATH)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


bench = _bench()

MOVING = {  # upstream's own figures for the loop without prefetch are 73, 56, 45 and 39 %
    (32, 15.0, True): 1.0,
    (15, 15.0, True): 15 / 24,
    (32, 50.0, True): 32 / 71,
    (25, 50.0, True): 25 / 64,
    (32, 15.0, False): 32 / 44,
    (15, 15.0, False): 15 / 27,
    (32, 50.0, False): 32 / 71,
    (25, 50.0, False): 25 / 64,
}


@pytest.mark.parametrize("by", ["clock", "state"])
@pytest.mark.parametrize(("rows", "hz", "prefetch"), MOVING)
async def test_the_arm_moves_as_much_as_one_request_at_a_time_allows(
    rows: int, hz: float, prefetch: bool, by: str
) -> None:
    line = await bench.refill(rows, hz, prefetch=prefetch, by=by, chunks=4)
    assert line.moving == pytest.approx(MOVING[rows, hz, prefetch], abs=1e-9)
    assert line.theory == pytest.approx(line.moving)
    assert line.reversals == 0


def test_the_table_has_a_line_for_each_case() -> None:
    line = bench.Refill(32, 15.0, True, "clock", 1.0, 1.0, 0, 1.45, 0.74)
    assert bench.text([line]).splitlines()[1].split() == (
        ["2.13", "s", "32", "15", "Hz", "on", "clock", "100.0%", "100.0%", "0", "1.45", "s", "0.74"]
    )


async def test_with_prefetch_an_86_ms_inference_never_stops_a_20_hz_arm() -> None:
    async with connected(Scripted(rows=10, hz=20, infer_s=0.0662, by="state")) as there:  # 86 ms
        driven = await drive(there.policy, max_actions=200)
    assert driven.outcome is not None
    assert (driven.outcome.actions, driven.outcome.underruns, driven.outcome.starved_ticks) == (200, 0, 0)
    assert driven.played == [float(row) for row in range(1, 201)]


async def test_without_prefetch_there_is_exactly_one_stall_a_chunk_boundary() -> None:
    async with connected(Scripted(rows=10, hz=20, infer_s=0.0662)) as there:
        driven = await drive(there.policy, max_actions=200, play=Play(prefetch=False))
    assert driven.outcome is not None
    assert (driven.outcome.actions, driven.outcome.chunks) == (200, 20)
    assert driven.outcome.underruns == 19
    seams = [i for i, tick in enumerate(driven.of(ev.Ticked)) if tick.seam_jump is not None]
    assert len(seams) == 19
    assert all(driven.kinds[seam - 1] == "starved" for seam in seams)
