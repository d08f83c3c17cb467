"""The environments that published clients are installed in."""

from __future__ import annotations

from pathlib import Path

import pytest
from environments import Unreachable, python_of


def test_an_environment_that_cannot_be_made_says_why_and_is_not_tried_again_in_the_same_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")  # what pip says is what it says where no index answers
    with pytest.raises(Unreachable, match="No matching distribution found"):
        python_of("sequence-ai==0.1.0", session="one", kept_in=tmp_path)
    (left,) = tmp_path.glob("*.failed")
    left.write_text(left.read_text().replace("No matching", "As before: no"))
    with pytest.raises(Unreachable, match="As before"):
        python_of("sequence-ai==0.1.0", session="one", kept_in=tmp_path)
