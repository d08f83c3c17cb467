"""`connect`: the one place that knows workers on other machines and policies in this process."""

from __future__ import annotations

import logging
import math
import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, get_args

from seqrt.errors import NotFound
from seqrt.link.address import (
    check_key_may_travel,
    host_port,
    key_for,
    one_each,
    parse,
    parse_all,
    proxy_variable,
)
from seqrt.link.border import Link
from seqrt.link.local import LocalLink
from seqrt.policies.host import Host
from seqrt.policies.offload import in_thread
from seqrt.runtime.policy import OnLost, Policy

if TYPE_CHECKING:
    from seqrt.link.http import HttpLink
    from seqrt.wire.leases import ConnectAnswer
    from seqrt.wire.messages import PolicyInfo

logger = logging.getLogger(__name__)


@asynccontextmanager
async def connect(
    model: str | None = None,
    *,
    policy: Any = None,
    base_url: str | Sequence[str] | None = None,
    api_key: str | Sequence[str | None] | None = None,
    control_hz: float | None = None,
    timeout_s: float = 30.0,
    embodiment: str | None = None,
    on_lost: OnLost = "stop",
    fingerprint: str | Sequence[str | None] | None = None,
    insecure: bool = False,
) -> AsyncIterator[Policy]:
    """Connect to a policy: at a worker or a gateway (``base_url``), or an object in this process (``policy``).

    Entering opens the connection and reads what the policy declares. No task group and no cancel scope is held
    across the body: it may be used in fixtures, lifespans and exit stacks.

    Args:
        model: The model expected there; refused when the worker serves another. None takes what it serves. At a
            gateway, which of its models.
        policy: An object with ``infer`` (or a function), run in a thread of this process by the same runtime.
        base_url: The worker, e.g. ``http://gpu:8080``; a gateway, which names one; or a list of up to eight workers
            that serve the same policy: the first that answers is asked, and the next one when it is lost or drains
            (docs/failures.md, "Another worker").
        api_key: Its key; None: ``SEQRT_API_KEY``, then the credentials file's entry for that host, then none. For
            several workers one that is right for all of them, or a list with one each.
        control_hz: The grid's rate, where the policy declares none.
        timeout_s: Bound of connecting and of each round trip but an act's, which is the policy's.
        embodiment: Which of the robots the policy declares this one is; needed where it declares several.
        on_lost: What a run does when its worker no longer has the episode, and with it a policy's state: "stop" ends
            it with hold and `Gone`; "restart" begins a new episode from what is seen then, and the plan plays on.
        fingerprint: The sha256 of the only certificate to take over https, as ``seqrt serve --tls`` prints it; None:
            one that the system's authorities vouch for. For several
            workers one that all have, or a list with one each.
        insecure: Allow a key over plain http to another machine.

    Yields:
        The handle.

    Raises:
        ValueError: Both or neither of ``policy`` and ``base_url``; a URL, rate, timeout or fingerprint that means
            nothing; an ``embodiment`` the policy does not declare, or none where it declares several.
        CertificateRefused: The certificate there is another one, or nobody vouches for it; nothing was sent.
        DeclarationError: Two of the workers serve different policies; names both and what differs.
        LinkLost: Nobody answers there; names host and phase.
        RemoteError: What the worker answered instead.
    """
    if (policy is None) == (base_url is None):
        raise ValueError("connect() needs base_url= (a worker) or policy= (an object of yours), not both")
    if not (math.isfinite(timeout_s) and timeout_s > 0):
        raise ValueError(f"timeout_s must be a finite number above 0, not {timeout_s}")
    if on_lost not in get_args(OnLost):
        raise ValueError(f"on_lost is 'stop' or 'restart', not {on_lost!r}")
    if base_url is None:
        link = await _local(policy, model)
    else:
        link = _remote(base_url, api_key, fingerprint, timeout_s, insecure, on_lost, model)
    try:
        info = await link.info()
        if info.gateway:
            link = _leased(link, info, embodiment, timeout_s, insecure, on_lost)
            info = await link.info()
        if model is not None and info.model and model.rpartition("/")[2] != info.model.rpartition("/")[2]:
            raise NotFound(
                f"the worker serves {info.model!r}, not {model!r}", code="not_found", host=link.host, phase="policy"
            )
        handle = Policy(
            link, info, control_hz=control_hz, timeout_s=timeout_s, offload=in_thread(2), embodiment=embodiment,
            on_lost=on_lost,
        )  # fmt: skip
    except BaseException:
        await link.aclose()
        raise
    try:
        yield handle
    finally:
        await handle.aclose()


async def _local(policy: Any, model: str | None) -> Link:
    host = Host(policy, offload=in_thread(), model=model or "")
    await host.start()
    return LocalLink(host)


def _remote(
    base_url: str | Sequence[str],
    api_key: str | Sequence[str | None] | None,
    fingerprint: str | Sequence[str | None] | None,
    timeout_s: float,
    insecure: bool,
    on_lost: OnLost,
    model: str | None,
) -> Link:
    urls = parse_all(base_url)
    keys, fingerprints = one_each("api_key", api_key, urls), one_each("fingerprint", fingerprint, urls)
    opening = [
        _opening(url, key, pinned, timeout_s, insecure, model)
        for url, key, pinned in zip(urls, keys, fingerprints, strict=True)
    ]
    if len(opening) == 1:
        return opening[0]()
    from seqrt.link.arriving import Listed
    from seqrt.link.doors import Door
    from seqrt.link.workers import Workers

    doors = [Door(host_port(parse(url)), open_link) for url, open_link in zip(urls, opening, strict=True)]
    return Workers(Listed(doors), timeout_s=timeout_s, keeps_state=on_lost == "stop")


def _opening(
    base_url: str, api_key: str | None, fingerprint: str | None, timeout_s: float, insecure: bool, model: str | None
) -> Callable[[], HttpLink]:
    """What makes links to one worker, with the key that is that worker's."""
    from seqrt.link.http import HttpLink, clients  # httpx is a third of what `import seqrt` would cost

    url = parse(base_url)

    def key() -> str | None:
        """The key, as it is found now: it may have been changed since."""
        found = key_for(url, api_key, os.environ)
        check_key_may_travel(url, found, insecure)
        return found

    if (proxy := proxy_variable(url, os.environ)) is not None:
        logger.warning("%s is set; the link to %s goes past the proxy it names", proxy, host_port(url))
    new_client = clients(base_url, timeout_s=timeout_s, key=key, fingerprint=fingerprint)
    return lambda: HttpLink(new_client, host=host_port(url), timeout_s=timeout_s, offload=in_thread(2), model=model)


def _leased(
    link: Link, info: PolicyInfo, embodiment: str | None, timeout_s: float, insecure: bool, on_lost: OnLost
) -> Link:
    """The link to the workers that a gateway names, one after the other."""
    from seqrt.link.gateway import Gateway
    from seqrt.link.http import HttpLink, clients
    from seqrt.link.leased import Leasing
    from seqrt.link.workers import Workers

    if not isinstance(link, HttpLink):
        raise ValueError(f"{link.host} is a gateway, which knows its workers: give its address alone as base_url=")

    def open_worker(answer: ConnectAnswer) -> tuple[str, Callable[[], HttpLink]]:
        url = parse(answer.worker_url)
        check_key_may_travel(url, answer.direct_secret, insecure)
        new_client = clients(
            answer.worker_url,
            timeout_s=timeout_s,
            key=lambda: answer.direct_secret,
            fingerprint=answer.cert_fingerprint,
        )
        host = host_port(url)
        return host, lambda: HttpLink(new_client, host=host, timeout_s=timeout_s, offload=in_thread(2))

    leasing = Leasing(Gateway(link, info.model, embodiment), info, open_worker)
    return Workers(leasing, timeout_s=timeout_s, keeps_state=on_lost == "stop")
