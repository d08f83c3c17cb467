"""Bodies of an act as older clients and plain HTTP callers send them, translated to `ActRequest`.

Everything that is not the present form of an act is known here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from seqrt.wire.codec import as_message, read_body
from seqrt.wire.headers import FRAMES, JSON, MSGPACK, media_type
from seqrt.wire.incoming import Body
from seqrt.wire.messages import ActRequest

_FIELDS: Final = frozenset(ActRequest.__struct_fields__)
_NEVER_OLD: Final = frozenset({"call", "seq", "params", "embodiment", "plan"})
"""Fields version 1 did not have: a body with one of them is in the present form, and held to it, ``model`` aside."""

_KEPT: Final = frozenset({"seed", "episode_id"})
_OPTIONS: Final = frozenset({"action_horizon", "return_world_prediction"})


def read_act(body: Body, content_type: str | None) -> ActRequest:
    """The act in any body a worker accepts: the present form, version 1, or a policy's own bytes.

    Args:
        body: The whole body.
        content_type: A body of a type not read here is the policy's own input, untouched, as bytes.

    Raises:
        WireError: It is none of these. Whether it has ``inputs`` or ``call`` is
            `seqrt.wire.codec.require_one_of`'s question.
    """
    media = media_type(content_type)
    if media not in (MSGPACK, FRAMES, JSON, ""):
        return ActRequest(inputs=bytes(body))
    return act_of(read_body(body, content_type))


def act_of(tree: Any) -> ActRequest:
    """The act in a body's tree.

    Raises:
        WireError: It is none; the field is named.
    """
    return as_message(translate(tree), ActRequest)


def translate(tree: Any) -> Any:
    """A version-1 body in the present form; a body in the present form as it is.

    Version 1 is what has a field the present form has not, and none that only the present form has. Its inputs are
    ``inputs``, else ``observation``, else the body itself without the options. ``robot`` is `ActRequest.embodiment`;
    the other options that are given become parameters, so that a policy that knows none of them says so.

    ``model`` is dropped from either form: a worker serves one, and clients of version 1 name it in the present form
    too, beside ``call``, ``seq`` or ``params``.
    """
    if not isinstance(tree, Mapping):
        return {"inputs": tree}
    if "model" in tree:
        tree = {key: value for key, value in tree.items() if key != "model"}
    if not _NEVER_OLD.isdisjoint(tree) or _FIELDS.issuperset(tree):
        return tree
    options = {key: tree[key] for key in _OPTIONS if tree.get(key) is not None}
    act = {key: tree[key] for key in _KEPT if tree.get(key) is not None}
    if options:
        act["params"] = options
    if tree.get("robot") is not None:
        act["embodiment"] = tree["robot"]
    rest = {key: value for key, value in tree.items() if key not in _OPTIONS | _KEPT | {"robot"}}
    held = next((key for key in ("inputs", "observation") if key in rest), None)
    if held is not None:
        act["inputs"] = rest.pop(held)
        return {**rest, **act}  # what is left over is unknown, and refused by name
    return {**act, "inputs": rest} if rest else act
