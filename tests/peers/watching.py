"""What passes between a client and a worker: told to the test, and held back where it says so."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import anyio.to_thread

App = Callable[..., Any]
PASS_S = 60.0
"""Bounds every wait for something to pass; no test waits for it to elapse."""


@dataclass(frozen=True)
class Passed:
    """One request that was answered."""

    path: str
    status: int
    request_id: str
    http: str


class Watch:
    """An ASGI app around another; its methods are for the test's thread.

    Attributes:
        passed: Every request that was answered, in the order of the answers; pings apart.
    """

    def __init__(self) -> None:
        self.passed: list[Passed] = []
        self._news = threading.Condition()
        self._held: dict[str, threading.Event] = {}
        self._told: list[tuple[str, int, threading.Event]] = []

    def around(self, app: App) -> App:
        """``app``, watched."""

        async def watched(scope: Any, receive: Any, send: Any) -> None:
            if scope["type"] != "http" or scope["path"] == "/ping":  # of those there are ten a second
                return await app(scope, receive, send)
            held = self._held.get(scope["path"])
            if held is not None:
                await anyio.to_thread.run_sync(held.wait, PASS_S)

            async def sent(message: Any) -> None:
                if message["type"] == "http.response.start":
                    self._pass(scope, message["status"])
                await send(message)

            return await app(scope, receive, sent)

        return watched

    def once(self, path: str, status: int, answered: threading.Event | None = None) -> threading.Event:
        """An event, a new one or that one, set once a request for ``path`` is answered with ``status``."""
        answered = answered if answered is not None else threading.Event()
        self._told.append((path, status, answered))
        return answered

    def hold(self, path: str, until: threading.Event) -> None:
        """Requests for ``path`` reach the worker no earlier than that."""
        self._held[path] = until

    def count(self, path: str, status: int = 200) -> int:
        """How many requests for ``path`` were answered with ``status``."""
        return sum((each.path, each.status) == (path, status) for each in self.passed)

    def wait(self, path: str, times: int, status: int = 200) -> None:
        """Wait until so many requests for ``path`` were answered with ``status``."""
        with self._news:
            assert self._news.wait_for(lambda: self.count(path, status) >= times, PASS_S), self.passed

    def _pass(self, scope: Any, status: int) -> None:
        headers = dict(scope["headers"])
        passed = Passed(
            scope["path"], status, headers.get(b"x-seq-request-id", b"").decode(), str(scope.get("http_version"))
        )
        with self._news:
            self.passed.append(passed)
            self._news.notify_all()
        for path, wanted, answered in self._told:
            if (path, wanted) == (passed.path, status):
                answered.set()
