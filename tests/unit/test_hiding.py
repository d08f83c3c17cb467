from __future__ import annotations

import pytest

from seqrt.errors import remote_error
from seqrt.worker.hiding import hidden


def told(text: str, values: tuple[str, ...] = ()) -> str:
    error = remote_error(
        "policy_error", text, details={"message": text, "traceback": text, "exception": {"message": text}}
    )
    safe = hidden(error, values)
    assert safe.details["message"] == safe.details["traceback"] == safe.detail
    assert safe.details["exception"] == {"message": safe.detail}
    return safe.detail


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        ('  File "/home/ada/my lab/policies/grasp.py", line 12, in infer', '  File "grasp.py", line 12, in infer'),
        ("No such file: '/srv/secret/weights v2/model.bin'", "No such file: 'model.bin'"),
        ("cannot open /srv/secret/model.bin now", "cannot open model.bin now"),
        ("at ~/models/pi0 and ./local/x.pt", "at pi0 and x.pt"),
        (r"File 'C:\Users\ada\grasp.py'", "File 'grasp.py'"),
        (r"C:\Users\ada\grasp.py is missing", "grasp.py is missing"),
        ("/data/", "data"),
        ("3 rad/s and/or 1/2 of [H/A], http://gpu:8080/act", "3 rad/s and/or 1/2 of [H/A], http://gpu:8080/act"),
        ("shapes (8,) and (7,) differ", "shapes (8,) and (7,) differ"),
    ],
)
def test_paths_are_told_by_their_last_name_alone(text: str, safe: str) -> None:
    assert told(text) == safe


def test_environment_values_are_hidden_wherever_they_stand_and_short_ones_are_words() -> None:
    assert told("token sk-123456789 in env", ("sk-123456789", "in", "")) == "token [hidden] in env"


def test_other_errors_are_told_as_they_are() -> None:
    error = remote_error("invalid_request", "no route /act/x")
    assert hidden(error, ()) is error
