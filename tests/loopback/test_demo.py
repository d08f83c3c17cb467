"""The demo, both processes of it."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

if any(find_spec(name) is None for name in ("gym_pusht", "matplotlib", "rich", "PIL", "hypercorn")):
    pytest.skip("needs the extra demo: pip install 'seqrt[demo]'", allow_module_level=True)

from rich.console import Console

from seqrt.cli import main
from seqrt.demo.main import Options, demo, play
from seqrt.demo.process import WorkerFailed, worker_process
from seqrt.timeline.outcome import fold
from seqrt.timeline.recorder import read


def _names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.mark.anyio
async def test_the_demo_plays_writes_its_pictures_and_a_recording_that_folds_to_the_outcome(tmp_path: Path) -> None:
    with (tmp_path / "said.txt").open("w") as said:
        code = await demo(Options(seed=1, actions=12, latency_ms=30.0, directory=tmp_path), Console(file=said))
    assert code == 0
    assert _names(tmp_path) == ["pusht-1-30ms.gif", "pusht-1-30ms.png", "pusht-1-30ms.seqrt", "said.txt"]
    recorded = fold(read(tmp_path / "pusht-1-30ms.seqrt"))
    assert recorded.actions == 12
    assert str(recorded) in (tmp_path / "said.txt").read_text()


@pytest.mark.anyio
async def test_without_prefetch_the_arm_waits_for_each_chunk() -> None:
    played = await play(Options(seed=1, actions=20, latency_ms=150.0, prefetch=False))
    assert played.outcome.actions == 20
    assert played.outcome.underruns == 1
    assert not any(request.committed for request in played.episode.requests.values())


@pytest.mark.anyio
async def test_a_worker_that_cannot_start_is_told_with_what_it_said() -> None:
    with pytest.raises(WorkerFailed, match="no_such_module"):
        async with worker_process("no_such_module:Policy"):
            pass


def test_a_folder_that_cannot_be_made_is_told_before_anything_is_played(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "taken").write_text("")
    assert main(["demo", "--quiet", "--out", str(tmp_path / "taken" / "below")]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert "cannot write to" in err
    assert "--out" in err
