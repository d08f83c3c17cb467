"""ASGI's own types: an app is called once a request, with what it is and two functions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Scope = MutableMapping[str, Any]
"""What the request is, but for its body."""

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
"""Waits for the next part of its body, or for the client to be gone."""

Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
"""Sends the next part of the answer."""

App = Callable[[Any, Any, Any], Awaitable[None]]
"""Any app: frameworks name the three types differently."""
