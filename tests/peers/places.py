"""A worker and the gateway before it, in a thread of their own: the test's own thread talks to clients."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio.from_thread
from watching import Watch

from seqrt.gateway.keys import Key, hash_of, with_key
from seqrt.gateway.placing import Place, Placed, Robot
from seqrt.gateway.server import gateway
from seqrt.gateway.together import together
from seqrt.policies.host import Host
from seqrt.policies.limits import HostLimits
from seqrt.worker import Certificate, serving

MODEL = "two-cameras"
KEY = "seq_of-a-robot"
OF_ONE_ACT = "seq_good-for-one-act"
OF_ANOTHER_MODEL = "seq_of-another-model"
_ROOT = "root-key-of-the-worker"
_CERTIFICATE = Certificate(Path(__file__).parents[1] / "loopback" / "selfsigned.pem", pinned=True)
_LIMITS = HostLimits()
_GRACE_S = 1.0


class Places:
    """Both, while `places` is open.

    Attributes:
        at_worker: What passes at the worker.
        at_gateway: What passes at the gateway.
        url: The gateway's.
        host: What serves at the worker.
    """

    url: str
    host: Host

    def __init__(self, portal: anyio.from_thread.BlockingPortal, policy: Any, limits: HostLimits) -> None:
        self.at_worker, self.at_gateway = Watch(), Watch()
        self._portal, self._policy, self._limits = portal, policy, limits
        self._port = 0
        self._worker = ExitStack()

    def start(self, *, loaded: bool = True) -> None:
        """Start the worker, at the port it had before; with ``loaded`` it can serve on return."""
        starting = serving(
            self._policy,
            port=self._port,
            secret=_ROOT,
            limits=self._limits,
            start=loaded,
            grace_s=_GRACE_S,
            wrap=self.at_worker.around,
            tls=_CERTIFICATE,
        )
        server = self._worker.enter_context(self._portal.wrap_async_context_manager(starting))
        self.host, self._port = server.policy, server.port
        if not loaded:
            self._portal.start_task_soon(server.policy.start)

    def stop(self) -> None:
        """Stop it: its leases and episodes are gone with it."""
        self._worker.close()

    @asynccontextmanager
    async def gateway(self, keys: Path, told_ttl_s: float | None) -> AsyncIterator[str]:
        """The gateway, at the URL it is reached at."""
        worker = f"https://127.0.0.1:{self._port}"
        async with gateway(
            {MODEL: worker},
            keys=keys,
            secret=_ROOT,
            fingerprints={worker: _CERTIFICATE.fingerprint},
            grace_s=_GRACE_S,
            wrap=self.at_gateway.around,
        ) as server:
            model = server.gateway.models.find(MODEL)
            if told_ttl_s is not None and model.place is not None:
                model.place = _Brief(model.place, told_ttl_s)
            yield server.url


@contextmanager
def places(
    policy: Any, *, folder: Path, limits: HostLimits = _LIMITS, told_ttl_s: float | None = None, loaded: bool = True
) -> Iterator[Places]:
    """Serve ``policy`` under the name `MODEL`, to the keys above, until the context is left.

    Args:
        policy: The policy.
        folder: Where the keys are kept.
        limits: What the worker holds.
        told_ttl_s: How long robots are told that their leases last; None: as long as they do.
        loaded: Enter the context once the policy is loaded.
    """
    with anyio.from_thread.start_blocking_portal() as portal:
        there = Places(portal, policy, limits)
        there.start(loaded=loaded)
        try:
            with portal.wrap_async_context_manager(there.gateway(_keys(folder), told_ttl_s)) as there.url:
                yield there
        finally:
            there.stop()


@contextmanager
def one_port(policy: Any, *, folder: Path, tls: Certificate | None = None) -> Iterator[str]:
    """Serve ``policy`` and a gateway on one port, as ``seqrt serve --gateway --keys`` does; yields its URL."""

    @asynccontextmanager
    async def both() -> AsyncIterator[str]:
        fingerprint = tls.fingerprint if tls is not None else None
        async with (
            together(keys=_keys(folder), fingerprint=fingerprint) as beside,
            serving(policy, secret=beside.secret, beside=beside, grace_s=_GRACE_S, tls=tls) as server,
        ):
            yield server.url

    with anyio.from_thread.start_blocking_portal() as portal, portal.wrap_async_context_manager(both()) as url:
        yield url


def _keys(folder: Path) -> Path:
    """The file of them."""
    text = ""
    for key in (
        Key(name="robot", sha256=hash_of(KEY.encode())),
        Key(name="brief", sha256=hash_of(OF_ONE_ACT.encode()), acts=1),
        Key(name="other", sha256=hash_of(OF_ANOTHER_MODEL.encode()), model="accounts/sequences/models/other"),
    ):
        text = with_key(text, key, "keys")
    path = folder / "keys"
    path.write_text(text)
    path.chmod(0o600)
    return path


class _Brief:
    """Says that leases are over sooner than they are: robots renew them without a wait of the test."""

    def __init__(self, place: Place, ttl_s: float) -> None:
        self._place, self._ttl_s = place, ttl_s

    def __getattr__(self, name: str) -> Any:
        return getattr(self._place, name)

    async def place(self, robot: Robot, *, move: bool = False) -> Placed:
        return replace(await self._place.place(robot, move=move), ttl_s=self._ttl_s)
