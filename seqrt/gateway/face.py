"""One ``POST /v1/act``, as it comes and as it is answered. Pure; the worker does the robot-arm contract's work itself.

In: a body's tree. Out: the act a worker is asked for, and of its answer the body `sequence-ai` 0.1.0 reads. A body is
read in two steps with the model looked up in between: `read_body` holds its shape, `check_pictures` its pictures.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

import msgspec
import numpy as np
from msgspec import Meta

from seqrt.errors import WireError, remote_error
from seqrt.observation.codecs import UNDECLARED_PIXELS
from seqrt.observation.heads import Head, read_head, read_head_of_text
from seqrt.wire.codec import as_message
from seqrt.wire.legacy import act_of
from seqrt.wire.limits import RETRY_S
from seqrt.wire.messages import ActRequest, ActResponse

IMAGES: Final = 256
"""Most pictures of one act."""

READINGS: Final = 2**15
"""Most names and numbers of one act's proprioception and state. Each one costs the gateway and the worker some
microseconds, during which they serve nobody else; what is more than that are pictures."""

OPTIONS: Final = ("action_horizon", "seed", "robot", "return_world_prediction")
"""What a body may say beside the model and the observation."""

_Floats = list[float]
_View = Annotated[str, Meta(min_length=1, max_length=128)]


class _Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """A part of a body: what is null was not given."""


class Picture(_Part, frozen=True):
    """One picture: base64 of a PNG or JPEG in JSON, bytes in msgpack."""

    view: _View
    data: Any
    timestamp_ms: float | None = None
    kind: Literal["rgb", "depth"] | None = None


class Proprioception(_Part, frozen=True):
    """The robot's own readings."""

    joint_positions: _Floats | None = None
    joint_velocities: _Floats | None = None
    end_effector_pose: Annotated[_Floats, Meta(min_length=7, max_length=7)] | None = None
    gripper: _Floats | float | None = None


class Observed(_Part, frozen=True):
    """One observation."""

    images: Annotated[list[Picture], Meta(min_length=1, max_length=IMAGES)]
    proprioception: Proprioception
    instruction: str
    state: dict[str, _Floats] | None = None


class ActBody(_Part, frozen=True):
    """The body of ``POST /v1/act``."""

    model: Annotated[str, Meta(min_length=1, max_length=256)]
    observation: Observed
    action_horizon: Annotated[int, Meta(ge=1)] | None = None
    seed: int | None = None
    robot: str | None = None
    return_world_prediction: bool | None = None


def read_body(tree: Any) -> ActBody:
    """The body a tree is, held to its shape.

    Raises:
        WireError: It is none; names the field, an unknown one too.
    """
    if not isinstance(tree, Mapping):
        raise WireError(f"a body is a map of model, observation and options, not {type(tree).__name__}", reason="field")
    unknown = [key for key in tree if key not in ActBody.__struct_fields__]
    if unknown:
        raise WireError(
            f"unknown option {str(unknown[0])[:80]!r}; there are {', '.join(OPTIONS)}",
            where=str(unknown[0])[:80],
            reason="field",
        )
    body = as_message(_with_lists(tree), ActBody)
    _check_data(body.observation)
    _check_readings(body.observation)
    return body


def check_pictures(body: ActBody, declared: Mapping[str, Any]) -> None:
    """Hold the pictures' headers: each a PNG or JPEG, of the kind it says it is, and no larger than is read.

    Views that the policy declares are held to their sizes by the worker.

    Args:
        body: The act.
        declared: The views the policy declares, by name.

    Raises:
        InvalidRequest: One is not; names its place and view.
    """
    for place, picture in enumerate(body.observation.images):
        try:
            head = _head(picture.data)
        except WireError as wrong:
            raise _bad_picture(place, picture, wrong.what) from wrong
        if picture.kind == "depth" and not head.is_depth:
            what = f"{head.channels} channels of {head.bits} bits; depth is a PNG of one channel of 16"
            raise _bad_picture(place, picture, what)
        if picture.kind == "rgb" and head.is_depth:
            raise _bad_picture(place, picture, 'one channel of 16 bits, as depth has; say kind: "depth"')
        if picture.view not in declared and head.width * head.height > UNDECLARED_PIXELS:
            what = f"{head.width}×{head.height} pixels; views the policy does not declare are read up to 4 megapixels"
            raise _bad_picture(place, picture, what)


def request_of(body: ActBody) -> ActRequest:
    """The act as a worker is asked for it.

    What is null is left out, ``gripper`` is a list, pictures are base64 text whatever they came as. Options become what
    `seqrt.wire.legacy` makes of them, so that a policy that does not know one says so.
    """
    observation = _given(body.observation)
    observation["images"] = [_with_text(_given(picture)) for picture in body.observation.images]
    observation["proprioception"] = proprioception = _given(body.observation.proprioception)
    if isinstance(proprioception.get("gripper"), float):
        proprioception["gripper"] = [proprioception["gripper"]]
    return act_of({**_given(body), "observation": observation})


def answer_of(
    response: ActResponse, body: ActBody, *, model: str, created: int, elapsed_s: float, acts_left: int | None
) -> dict[str, Any]:
    """The body an act is answered with.

    Args:
        response: What the worker answered.
        body: The act.
        model: The policy's full id.
        created: Seconds since 1970.
        elapsed_s: From the request's arrival until now.
        acts_left: What is left of the key's budget; None where it has none.

    Raises:
        Unavailable: The worker answered no chunk of the robot-arm contract (502).
    """
    chunk = response.action_chunk
    if chunk is None or not chunk.get("steps"):
        raise remote_error("upstream_error", f"the worker of {model} answered no chunk", retry_after_s=RETRY_S)
    usage: dict[str, Any] = {"frames_received": len(body.observation.images), **(response.usage or {})}
    if acts_left is not None:
        usage["acts_left"] = acts_left
    return {
        "id": f"act-{(response.request_id or '').removeprefix('r-')}",
        "created": created,
        "model": model,
        "object": "act.response",
        "warnings": response.warnings,
        "action_chunk": chunk,
        "usage": usage,
        "perf": {**(response.perf or {}), "ttfa_ms": elapsed_s * 1e3},
    }


def _given(part: _Part) -> dict[str, Any]:
    """The fields that are not null."""
    fields = ((name, getattr(part, name)) for name in part.__struct_fields__)
    return {name: value for name, value in fields if value is not None}


def _with_text(picture: dict[str, Any]) -> dict[str, Any]:
    if isinstance(picture["data"], bytes):
        picture["data"] = base64.b64encode(picture["data"]).decode("ascii")
    return picture


def _head(data: str | bytes) -> Head:
    return read_head_of_text(data) if isinstance(data, str) else read_head(data)


def _bad_picture(place: int, picture: Picture, what: str) -> Exception:
    return remote_error(
        "invalid_request",
        f"observation.images[{place}] (view {picture.view!r}): {what}",
        details={"where": f"observation.images[{place}]", "view": picture.view},
    )


def _with_lists(tree: Mapping[str, Any]) -> Mapping[str, Any]:
    """The tree with the vectors of msgpack bodies, which may be arrays, as lists."""
    observation = tree.get("observation")
    if not isinstance(observation, Mapping):
        return tree
    vectors = {name: _listed(observation[name]) for name in ("proprioception", "state") if name in observation}
    return {**tree, "observation": {**observation, **vectors}}


def _listed(vectors: Any) -> Any:
    if not isinstance(vectors, Mapping):
        return vectors
    return {name: _plain(value) for name, value in vectors.items()}


def _plain(value: Any) -> Any:
    is_vector = isinstance(value, np.ndarray | np.generic) and value.ndim <= 1 and value.dtype.kind in "iuf"
    return value.tolist() if is_vector else value


def _check_data(observed: Observed) -> None:
    for place, picture in enumerate(observed.images):
        if not isinstance(picture.data, str | bytes):
            what = f"base64 text of a PNG or JPEG, or its bytes; this is {type(picture.data).__name__}"
            raise WireError(what, where=f"observation.images[{place}].data", reason="field")


def _check_readings(observed: Observed) -> None:
    readings = {f"proprioception.{name}": value for name, value in _given(observed.proprioception).items()}
    readings |= {f"state.{name}": value for name, value in (observed.state or {}).items()}
    left = READINGS
    for where, value in readings.items():
        numbers = value if isinstance(value, list) else [value]
        left -= 1 + len(numbers)
        if left < 0:
            what = f"more than {READINGS} names and numbers in proprioception and state"
            raise WireError(what, where=f"observation.{where}"[:200], reason="field")
        if not all(map(math.isfinite, numbers)):
            raise WireError("a number that is not finite", where=f"observation.{where}"[:200], reason="field")
