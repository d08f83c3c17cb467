"""Arrays to tensors and back, with the real torch where there is one."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from seqrt.errors import DeclarationError
from seqrt.policies.tensors import Conversion, arrays, device_of
from seqrt.policies.terms import Tensors

HAS_TORCH = importlib.util.find_spec("torch") is not None
needs_torch = pytest.mark.skipif(not HAS_TORCH, reason='torch is not installed: pip install "seqrt[torch]"')


@pytest.mark.skipif(HAS_TORCH, reason="torch is installed")
def test_without_torch_a_policy_that_declares_tensors_says_what_to_install() -> None:
    with pytest.raises(DeclarationError, match=r"seqrt\[torch\]"):
        Conversion(object(), Tensors())


def test_what_holds_no_tensor_goes_back_as_it_is() -> None:
    outputs = {"actions": np.zeros((2, 3)), "text": ["a", 1.5, None]}
    assert arrays(outputs)["actions"] is outputs["actions"]
    assert arrays(outputs)["text"] == ["a", 1.5, None]


def test_importing_seqrt_never_loads_torch() -> None:
    probe = "import sys, seqrt, seqrt.policies.tensors; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", probe], check=False, timeout=60).returncode == 0


@needs_torch
@pytest.mark.parametrize("batch", [True, False])
@pytest.mark.parametrize(
    ("dtype", "became"),
    [
        ("float64", "float32"),
        ("float32", "float32"),
        ("float16", "float16"),
        ("uint8", "uint8"),
        ("int64", "int64"),
        (">f8", "float32"),
        (">i4", "int32"),
        ("bool", "bool"),
    ],
)
def test_numeric_arrays_become_tensors(dtype: str, became: str, batch: bool) -> None:
    import torch

    array = np.arange(6).reshape(2, 3).astype(dtype)
    array.flags.writeable = False
    tensor = Conversion(object(), Tensors(batch=batch)).handed(array)
    assert tensor.dtype == getattr(torch, became)
    assert tensor.shape == ((1, 2, 3) if batch else (2, 3))
    assert tensor.numpy().reshape(-1).tolist() == array.reshape(-1).tolist()
    tensor.zero_()
    assert array.reshape(-1)[-1] == (1 if dtype == "bool" else 5)


@needs_torch
def test_text_and_plain_numbers_stay_and_everything_is_looked_into() -> None:
    import torch

    given = {
        "observations": [{"x": np.zeros((2, 0)), "text": "go", "names": np.array(["a"]), "n": np.float32(2), "t": 3}],
        "steps": [4, 5],
        "pair": (np.asfortranarray(np.ones((2, 3))), None),
    }
    handed = Conversion(object(), Tensors()).handed(given)
    entry = handed["observations"][0]
    assert entry["x"].shape == (1, 2, 0)
    assert entry["names"] is given["observations"][0]["names"]
    assert (entry["text"], entry["t"], handed["steps"]) == ("go", 3, [4, 5])
    assert isinstance(entry["n"], np.float32)
    assert isinstance(handed["pair"], tuple)
    assert handed["pair"][0].is_contiguous()
    assert torch.equal(handed["pair"][0], torch.ones(1, 2, 3))


@needs_torch
def test_tensors_answered_go_back_as_arrays() -> None:
    import torch

    outputs = {
        "actions": torch.ones(2, 3, requires_grad=True) * 2,
        "half": [torch.ones(2, dtype=torch.bfloat16)],
        "kept": np.ones(1),
        "scalar": torch.tensor(3),
        "conj": torch.tensor([1j]).conj(),
    }
    back: dict[str, Any] = arrays(outputs)
    assert back["actions"].tolist() == [[2.0] * 3] * 2
    assert back["half"][0].dtype == np.float32
    assert back["kept"] is outputs["kept"]
    assert (back["scalar"].shape, back["conj"].tolist()) == ((), [-1j])


@needs_torch
def test_the_policys_device_is_its_own_word_else_its_parameters() -> None:
    import torch

    class Says:
        device = "meta"

    class Holds:
        def __init__(self) -> None:
            self.model = torch.nn.Linear(2, 2, device="meta")

    assert device_of(Says()) == "meta"
    assert device_of(Holds()).type == "meta"
    assert device_of(torch.nn.Linear(2, 2)).type == "cpu"
    assert device_of(object()) is None
    assert Conversion(Holds(), Tensors()).handed(np.zeros(3)).device.type == "meta"
