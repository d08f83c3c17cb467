"""`connect` and `models`: where to, and with which key, as `sequence-ai` 0.1.0's callers have it set up.

Environment and files are read here, once, when a handle is made.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from anyio.from_thread import start_blocking_portal

from seqrt.blocking.policy import Policy
from seqrt.blocking.session import Session
from seqrt.blocking.types import Model
from seqrt.errors import AuthError
from seqrt.link.address import check_key_may_travel, host_port, key_for, one_each, parse, parse_all
from seqrt.link.http import HttpLink, clients
from seqrt.link.requests import Asked
from seqrt.open import connect as connect_async
from seqrt.policies.offload import in_thread
from seqrt.runtime.policy import OnLost
from seqrt.wire.errorbody import error_from
from seqrt.wire.headers import JSON

Environment = Mapping[str, str]

_GIVE_URL: Final = "give base_url=, the gateway or worker to ask, or set SEQUENCES_BASE_URL"


def connect(
    model: str | None = None,
    *,
    api_key: str | Sequence[str | None] | None = None,
    base_url: str | Sequence[str] | None = None,
    control_hz: float | None = None,
    timeout_s: float = 30.0,
    policy: Any = None,
    embodiment: str | None = None,
    on_lost: OnLost = "stop",
    fingerprint: str | Sequence[str | None] | None = None,
    insecure: bool = False,
) -> Policy:
    """A handle on a policy: at a gateway or worker (``base_url``), or an object in this process (``policy``).

    Nothing is sent until the handle is first used; then it connects, reads what the policy declares, and stays
    connected until it is closed.

    Args:
        model: The model that is asked for; None takes what a worker serves.
        api_key: The key. None: ``SEQUENCES_API_KEY``, then ``SEQRT_API_KEY`` and the entry for that host in seqrt's
            credentials file, then the credentials file of ``sequence-ai``. "": there is none, and none is asked for.
        base_url: Where; None: ``SEQUENCES_BASE_URL``. A list names several workers, see `seqrt.connect`.
        control_hz: The grid's rate, where the policy declares none.
        timeout_s: Bound of connecting and of each round trip but an act's, which is the policy's.
        policy: An object with ``infer`` (or a function), run in a thread of this process.
        embodiment: Which of the robots the policy declares this one is.
        on_lost: What a run does when its worker no longer has the episode, see `seqrt.connect`.
        fingerprint: The only certificate to take over https, see `seqrt.connect`.
        insecure: Allow a key over plain http to another machine.

    Raises:
        AuthError: No key was found.
        ValueError: Both or neither of ``policy`` and a place to ask; a URL, rate or timeout that means nothing.
    """
    if not (math.isfinite(timeout_s) and timeout_s > 0):
        raise ValueError(f"timeout_s must be a finite number above 0, not {timeout_s}")
    if control_hz is not None and not (math.isfinite(control_hz) and 0 < control_hz <= 1000):
        raise ValueError(f"control_hz must be in (0, 1000], not {control_hz}")
    options: dict[str, Any] = {
        "model": model, "control_hz": control_hz, "timeout_s": timeout_s, "embodiment": embodiment, "on_lost": on_lost,
        "insecure": insecure,
    }  # fmt: skip
    if policy is not None:
        if base_url is not None:
            raise ValueError("connect() takes base_url= (a place to ask) or policy= (an object of yours), not both")
        options |= {"policy": policy}
    else:
        keys, urls = _keys_and_urls(api_key, base_url, os.environ, insecure=insecure)
        options |= {"base_url": urls if len(urls) > 1 else urls[0], "fingerprint": fingerprint}
        options |= {"api_key": keys if len(urls) > 1 else keys[0]}
    session = Session(partial(connect_async, **options))
    return Policy(session, model=model, control_hz=control_hz, embodiment=embodiment)


def models(
    *,
    endpoint: str | None = None,
    api_key: str | None = None,
    base_url: str | None = None,
    timeout_s: float = 30.0,
    fingerprint: str | None = None,
) -> list[Model]:
    """What a gateway serves; needs no key.

    Args:
        endpoint: "act", "chat" or "perceive" for one kind alone.
        api_key: A key to send, where one is needed after all.
        base_url: The gateway; None: ``SEQUENCES_BASE_URL``.
        timeout_s: How long to wait for the answer.
        fingerprint: The only certificate to take over https, see `seqrt.connect`.

    Raises:
        ValueError: No gateway was named, or one that is no URL.
        CertificateRefused: The certificate there is another one, or nobody vouches for it; nothing was sent.
        LinkLost: Nobody answers there.
        RemoteError: What was answered instead.
    """
    where = base_url or os.environ.get("SEQUENCES_BASE_URL")
    if not where:
        raise ValueError(_GIVE_URL)
    url = parse(where)
    check_key_may_travel(url, api_key, insecure=False)
    path = "/v1/models" if endpoint is None else f"/v1/models?endpoint={quote(endpoint, safe='')}"
    new_client = clients(where, timeout_s=timeout_s, key=lambda: api_key, fingerprint=fingerprint)
    link = HttpLink(new_client, host=host_port(url), timeout_s=timeout_s, offload=in_thread())
    with start_blocking_portal() as portal:  # the caller's own thread may run a loop already
        body = portal.call(_answer, link, path)
    try:
        return [_model_of(entry) for entry in json.loads(body)["data"]]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise error_from(200, body, host=link.host, phase="models", request_id=None) from error


async def _answer(link: HttpLink, path: str) -> bytes:
    try:
        return await link.ask(Asked("GET", path, "models", media=JSON))
    finally:
        await link.aclose()


def _model_of(entry: Mapping[str, Any]) -> Model:
    known = ("robot", "action_dim", "action_horizon", "control_hz")
    return Model(
        id=entry["id"],
        endpoint=entry.get("endpoint") or "",
        architecture=entry.get("architecture") or "",
        camera_views=tuple(entry.get("camera_views") or ()),
        raw=dict(entry),
        **{name: entry.get(name) for name in known},
    )


def _keys_and_urls(
    api_key: str | Sequence[str | None] | None,
    base_url: str | Sequence[str] | None,
    environment: Environment,
    *,
    insecure: bool,
) -> tuple[list[str | None], list[str]]:
    """The places to ask, and the key of each. A missing key is said before a missing place, as 0.1.0 does."""
    place = base_url or environment.get("SEQUENCES_BASE_URL")
    urls = [] if not place else parse_all(place)
    given = one_each("api_key", api_key, urls) if urls else [api_key if isinstance(api_key, str) else None]
    keys = [_key(key, urls[i] if urls else None, environment) for i, key in enumerate(given)]
    if not urls:
        raise ValueError(_GIVE_URL)
    for url, key in zip(urls, keys, strict=True):
        check_key_may_travel(parse(url), key, insecure)
    return keys, urls


def _key(given: str | None, base_url: str | None, environment: Environment) -> str | None:
    """The key for one place; None where the caller says that there is none.

    Raises:
        AuthError: None was given or found.
    """
    if given is not None:
        return given.strip() or None
    found = environment.get("SEQUENCES_API_KEY", "").strip()
    if not found and base_url is not None:
        found = key_for(parse(base_url), None, environment) or ""
    found = found or _from_their_file(environment) or ""
    if found:
        return found
    raise AuthError(
        'no key: give api_key= (api_key="" where none is asked for), set SEQUENCES_API_KEY, or write it to '
        f"{_their_file(environment)}",
        code="unauthenticated",
    )


def _their_file(environment: Environment) -> Path:
    config = environment.get("XDG_CONFIG_HOME") or str(Path(environment.get("HOME", "~")).expanduser() / ".config")
    return Path(config) / "sequence-ai" / "credentials"


def _from_their_file(environment: Environment) -> str | None:
    """The first line that is neither blank nor a comment, of the file that ``sequence-ai login`` writes."""
    try:
        lines = _their_file(environment).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    said = (line.strip() for line in lines)
    return next((line for line in said if line and not line.startswith("#")), None)
