"""A gateway on its worker's own port, for one machine: what ``seqrt serve --gateway`` serves beside the worker."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import anyio
from starlette.datastructures import Headers

from seqrt.gateway.app import app
from seqrt.gateway.keys import KEY_BYTES
from seqrt.gateway.models import Model, Models, full_id
from seqrt.gateway.placing import FixedWorkers
from seqrt.gateway.saying import robots_line
from seqrt.gateway.server import Keyed, keyed
from seqrt.gateway.sites import LocalSite
from seqrt.link.local import LocalLink
from seqrt.policies.host import Host
from seqrt.worker.connection import App
from seqrt.worker.granting import Granting
from seqrt.worker.server import Server

HERE: Final = ""
"""The address robots are given of a worker on the gateway's own port: the one they asked at."""


class Together:
    """A gateway beside one worker: everything under ``/v1/`` is the gateway's.

    Args:
        served: The gateway.
        secret: What the worker's own routes ask for.
        has_keys: Whether the gateway's keys are others than that.
        fingerprint: Of the certificate that robots pin.

    Attributes:
        secret: What the worker's own routes ask for; None: nothing. Where there is a file of keys it is a new one
            that nobody is told: a worker that is open beside a gateway that is not would make the keys worth nothing.
        models: The gateway's models: the worker's one, once `around` was called.
    """

    def __init__(self, served: Keyed, secret: str | None, *, has_keys: bool, fingerprint: str | None) -> None:
        self.secret = secret
        self._fingerprint = fingerprint
        self._has_keys = has_keys
        self.models = served.gateway.models
        self._served = served

    def around(self, worker: App, host: Host, leases: Granting) -> App:
        """The app of both."""
        info = host.info()
        place = FixedWorkers([LocalSite(host, leases, url=HERE, fingerprint=self._fingerprint)])
        self.models.add(Model(full_id(info.model), [LocalLink(host)], info=info, place=place))
        face, gate = app(self._served.gateway), self._served.gateway.gate

        def is_for_the_gateway(scope: MutableMapping[str, Any]) -> bool:
            path = scope.get("path", "")
            if path == "/policy" and self._has_keys:
                # A robot with a key of the file is told that it has to ask for a lease; whoever has the worker's own
                # secret, or a lease's, drives it straight away.
                return gate.knows(Headers(scope=scope))
            return bool(path.startswith("/v1/"))

        async def both(
            scope: MutableMapping[str, Any],
            receive: Callable[[], Awaitable[Any]],
            send: Callable[[Any], Awaitable[None]],
        ) -> None:
            await (face if is_for_the_gateway(scope) else worker)(scope, receive, send)

        return both

    def introduce(self, server: Server, say: Callable[[str], Any]) -> None:
        """Say what the robot's program says to the gateway."""
        (model,) = self.models.all()
        say(f"seqrt: as a gateway at {server.url}; {robots_line(server, model, self._served.gateway.gate)}")


@asynccontextmanager
async def together(
    *, keys: Path | None = None, spent: Path | None = None, secret: str | None = None, fingerprint: str | None = None
) -> AsyncIterator[Together]:
    """A gateway for `seqrt.worker.serving` and `seqrt.worker.serve`, as ``beside=``; its ``secret`` is the worker's.

    Args:
        keys: The file of keys; None: the secret opens the gateway too.
        spent: Where acts of keys with a budget are counted; ``<keys>.spent``, beside it, when None.
        secret: The worker's key; None: without ``keys`` all is open, with them the worker's own routes are closed.
        fingerprint: The sha256 of the certificate shown, where robots have to pin it.

    Raises:
        KeysUnusable: The file of keys, or what is counted beside it.
        Exception: What the body raises; never in a group.
    """
    closed = secrets.token_urlsafe(KEY_BYTES) if keys is not None and secret is None else secret
    failure: Exception | None = None
    with keyed(Models(), keys, spent=spent, secret=secret) as served:
        async with anyio.create_task_group() as tending:
            tending.start_soon(served.tend)
            try:
                yield Together(served, closed, has_keys=keys is not None, fingerprint=fingerprint)
            except Exception as raised:
                failure = raised
            tending.cancel_scope.cancel()
    if failure is not None:
        raise failure
