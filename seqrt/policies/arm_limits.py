"""The older robot-arm contract, held: observations before inference, answers to bounds and steps after it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from seqrt.action.rows import rows_of
from seqrt.errors import ActionError, ObservationError, WireError, remote_error
from seqrt.observation.heads import read_head, read_head_of_text
from seqrt.observation.pictures import array_of, check_sizes
from seqrt.policies.failures import observation_refused
from seqrt.policies.robot_arm import ActionContract, Embodiment, ObservationContract

Rows = npt.NDArray[np.float64]


@dataclass
class Held:
    """One act under the contract, or under none.

    Attributes:
        embodiment: The robot it is for.
        warnings: What was clipped, in sentences.
        chunk: The answer as version 1 names it; None without a contract.
    """

    embodiment: Embodiment | None = None
    warnings: list[str] = field(default_factory=list)
    chunk: dict[str, Any] | None = None


def hold_observation(held: Held, inputs: Any) -> Any:
    """What ``infer`` is handed: ``inputs`` with its pictures in order, or as it is where nothing is declared.

    Raises:
        InvalidRequest: A view, a reading or the instruction is not as declared; names it and both sides. All pictures
            of another size are in ``details.sizes``.
    """
    declared = held.embodiment.observation if held.embodiment is not None else None
    if declared is None:
        return inputs
    if not isinstance(inputs, Mapping):
        raise _refused("inputs", "a mapping of images, proprioception, instruction", type(inputs).__name__)
    instruction = inputs.get("instruction")
    if declared.instruction and not (isinstance(instruction, str) and instruction.strip()):
        raise _refused("instruction", "a text that is not empty", instruction)
    _hold_vectors("proprioception", inputs.get("proprioception"), declared.proprio)
    _hold_vectors("state", inputs.get("state"), declared.state)
    images = _ordered(inputs.get("images") or [])
    _hold_views(images, declared)
    return {**inputs, "images": images} if images else inputs


def clipped(held: Held, outputs: Any) -> Any:
    """The rows ``[H, A]`` of an answer, clipped to the contract; ``outputs`` as they are where there is none.

    Raises:
        ActionError: No rows, or not ``action_dim`` columns.
    """
    if held.embodiment is None:
        return outputs
    contract = held.embodiment.action
    rows = np.array(rows_of(_rows_in(outputs), None))
    if rows.shape[1] != contract.action_dim:
        raise ActionError(f"the answer has {rows.shape[1]} columns; the contract says action_dim {contract.action_dim}")
    rows = _within_steps(held, _within_bounds(held, rows, contract), contract)
    held.chunk = _chunk(rows, contract)
    return rows


def _rows_in(outputs: Any) -> Any:
    if not isinstance(outputs, Mapping):
        return outputs
    if "steps" in outputs:
        return [step["values"] if isinstance(step, Mapping) else step for step in outputs["steps"]]
    return outputs.get("actions", outputs)


def _within_bounds(held: Held, rows: Rows, contract: ActionContract) -> Rows:
    if contract.bounds is None:
        return rows
    low, high = np.array(contract.bounds, dtype=np.float64).T
    kept: Rows = np.clip(rows, low, high)
    _warn(held, rows, kept, "bounds")
    return kept


def _within_steps(held: Held, rows: Rows, contract: ActionContract) -> Rows:
    if contract.max_delta is None:
        return rows
    most = np.broadcast_to(np.asarray(contract.max_delta, dtype=np.float64), rows.shape[1:])
    kept: Rows = rows.copy()
    if contract.space == "delta":
        np.clip(rows, -most, most, out=kept)
    else:
        for row in range(1, len(rows)):
            kept[row] = np.clip(rows[row], kept[row - 1] - most, kept[row - 1] + most)
    _warn(held, rows, kept, "max_delta")
    return kept


def _warn(held: Held, rows: Rows, kept: Rows, limit: str) -> None:
    changed = ~((rows == kept) | np.isnan(rows))
    if changed.any():
        row, column = (int(place) for place in np.argwhere(changed)[0])
        held.warnings.append(
            f"{int(changed.sum())} values clipped to {limit}, first row {row} column {column}: "
            f"{rows[row, column]:.6g} became {kept[row, column]:.6g}"
        )


def _chunk(rows: Rows, contract: ActionContract) -> dict[str, Any]:
    return {
        "steps": [{"index": index, "values": row.tolist()} for index, row in enumerate(rows)],
        "robot": contract.robot,
        "action_space": contract.action_space,
        "action_dim": contract.action_dim,
        "control_frequency_hz": contract.control_frequency_hz,
        "covers_seconds": len(rows) / contract.control_frequency_hz,
    }


def _ordered(images: Any) -> list[Any]:
    """Pictures of one view in order of time where each of them says when it was taken, else as they stand."""
    if not isinstance(images, Sequence) or not all(
        isinstance(i, Mapping) and isinstance(i.get("view"), str) for i in images
    ):
        raise _refused("images", "a list of {view, data}", type(images).__name__)
    times: dict[Any, list[Any]] = {}
    for image in images:
        times.setdefault(image["view"], []).append(image.get("timestamp_ms"))
    if any(len(of_view) > 1 and None in of_view for of_view in times.values()):
        return list(images)
    return sorted(images, key=lambda image: image.get("timestamp_ms") or 0)


def _hold_views(images: list[Any], declared: ObservationContract) -> None:
    found = Counter(image["view"] for image in images)
    for view in declared.cameras:
        if found[view] != declared.history:
            raise _refused(f"images {view!r}", f"{declared.history} of that view", f"{found[view]} ({_views(found)})")
    sizes: dict[str, tuple[int, int]] = {}
    for image in images:
        camera = declared.cameras.get(image["view"])
        if camera is not None and sizes.get(image["view"]) in (None, (camera.width, camera.height)):
            sizes[image["view"]] = _size_of(image)
    try:
        check_sizes(sizes, declared.cameras)
    except ObservationError as wrong:
        raise observation_refused(wrong) from wrong


def _size_of(image: Mapping[str, Any]) -> tuple[int, int]:
    """Width and height of a picture: an array's by its shape, of PNG and JPEG (bytes, or base64) by their headers."""
    view, data = image["view"], image.get("data")
    try:
        if isinstance(data, bytes | bytearray | memoryview | str):
            head = read_head_of_text(data) if isinstance(data, str) else read_head(bytes(data))
            return head.width, head.height
        shape = array_of(data, str(view)).shape
    except WireError as wrong:
        raise _refused(f"images {view!r}", "a PNG or JPEG", wrong.what) from wrong
    except ObservationError as wrong:
        raise observation_refused(wrong) from wrong
    height, width = [*shape, 0, 0][:2]
    return width, height


def _views(found: Counter[Any]) -> str:
    return "the views are " + ", ".join(map(repr, found)) if found else "there are none"


def _hold_vectors(where: str, given: Any, declared: Mapping[Any, int]) -> None:
    for name, length in declared.items():
        value = given.get(name) if isinstance(given, Mapping) else None
        found = None if value is None else int(np.size(value))
        if found != length:
            raise _refused(f"{where}.{name}", f"{length} numbers", "nothing" if found is None else f"{found}")


def _refused(where: str, expected: str, found: Any) -> Exception:
    return remote_error(
        "invalid_request",
        f"{where}: the policy's contract asks for {expected}; this observation has {found!r:.200}",
        details={"key": where, "expected": expected},
    )
