"""A published client driven by lines: one JSON object a call on standard input, one an answer on standard output.

Runs in the client's own environment, so it imports nothing but the standard library. Bytes go as ``{"base64": text}``
both ways.
"""

from __future__ import annotations

import base64
import json
import sys
import warnings
from collections.abc import Callable, Mapping
from typing import Any


def converse(calls: Mapping[str, Callable[..., Any]]) -> None:
    """Answer every line ``{"call": name, "given": {…}}`` until standard input ends.

    Answers ``{"answered": …, "warned": […]}``, or ``{"raised": class, "said": text, "with": attributes}``.
    """
    out, sys.stdout = sys.stdout, sys.stderr  # what a client prints is no answer
    for text in sys.stdin:
        asked = json.loads(text, object_hook=_read)
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            try:
                answer: dict[str, Any] = {"answered": calls[asked["call"]](**asked["given"])}
            except BaseException as raised:  # KeyboardInterrupt and the client's own, too
                answer = {"raised": type(raised).__name__, "said": str(raised), "with": _plain(vars(raised))}
        answer["warned"] = [str(warning.message) for warning in warned]
        out.write(json.dumps(answer, default=_written) + "\n")
        out.flush()


def _plain(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """What of an exception's attributes is a plain value."""
    plain = (str, int, float, bool, type(None), dict, list)
    return {name: value for name, value in attributes.items() if isinstance(value, plain)}


def _read(value: dict[str, Any]) -> Any:
    return base64.b64decode(value["base64"]) if set(value) == {"base64"} else value


def _written(value: Any) -> Any:
    if isinstance(value, bytes):
        return {"base64": base64.b64encode(value).decode()}
    raise TypeError(f"{type(value).__name__} is no plain value")
