"""Where a worker is and which key goes to it: rules only, no socket; environment and files are handed in."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final
from urllib.parse import SplitResult, urlsplit


def parse(base_url: str) -> SplitResult:
    """Check a worker's URL.

    Raises:
        ValueError: Not http or https, no host, a port out of range, a user or a query.
    """
    try:
        url = urlsplit(base_url)
        port = url.port
    except ValueError as error:
        raise ValueError(f"base_url {base_url!r} is not a URL: {error}") from None
    if url.scheme not in ("http", "https") or not url.hostname:
        raise ValueError(f"base_url {base_url!r} must look like http://gpu:8080 or https://gpu.example.org")
    if url.username is not None or url.password is not None:
        raise ValueError(f"base_url for {url.hostname} holds a user or password: give the key as api_key=")
    if url.query or url.fragment or port == 0:
        raise ValueError(f"base_url {base_url!r} must end with the port, or the path the worker is mounted at")
    return url


MOST_WORKERS: Final = 8
"""The most addresses a policy may be served at."""


def parse_all(base_url: str | Sequence[str]) -> list[str]:
    """Check the URL of a worker, or of several that serve the same policy.

    Raises:
        ValueError: None or too many, one of them twice, or one that `parse` refuses.
        TypeError: Neither text nor a list of texts.
    """
    urls = [base_url] if isinstance(base_url, str) else list(base_url)
    if not all(isinstance(url, str) for url in urls):
        raise TypeError(f"base_url= takes a URL or a list of URLs, not {base_url!r}")
    if not 1 <= len(urls) <= MOST_WORKERS:
        raise ValueError(f"base_url=[…] takes 1 to {MOST_WORKERS} workers, not {len(urls)}")
    places = [_place(parse(url)) for url in urls]
    for place in places:
        if places.count(place) > 1:
            raise ValueError(f"base_url=[…] names {place[0]}{place[1]} twice: a worker cannot stand in for itself")
    return urls


def one_each(name: str, given: str | Sequence[str | None] | None, urls: Sequence[str]) -> list[str | None]:
    """What an argument says of each worker: the same of all, or a list with one each.

    Raises:
        ValueError: A list of another length.
    """
    if given is None or isinstance(given, str):
        return [given] * len(urls)
    if len(given) != len(urls):
        raise ValueError(f"{name}=[…] has {len(given)} for {len(urls)} workers: give one each, None for none")
    return list(given)


def _place(url: SplitResult) -> tuple[str, str]:
    return host_port(url), url.path.rstrip("/")


def host_port(url: SplitResult) -> str:
    """``host:port`` as errors name it."""
    host = f"[{url.hostname}]" if ":" in (url.hostname or "") else url.hostname
    return f"{host}:{url.port or (443 if url.scheme == 'https' else 80)}"


def is_loopback(host: str) -> bool:
    """Whether ``host`` is this machine itself."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def proxy_variable(url: SplitResult, environment: Mapping[str, str]) -> str | None:
    """The variable that has other programs go to this worker by a proxy, if one does; a link goes straight."""
    host = url.hostname or ""
    excepted = [name.strip().lower().lstrip(".") for name in _either("no_proxy", environment)[1].split(",")]
    if is_loopback(host) or any(name in ("*", host) or (name and host.endswith(f".{name}")) for name in excepted):
        return None
    for wanted in (f"{url.scheme}_proxy", "all_proxy"):
        name, proxy = _either(wanted, environment)
        if proxy:
            return name
    return None


def _either(name: str, environment: Mapping[str, str]) -> tuple[str, str]:
    """A variable in small letters, or else in capitals: which of the two, and its value."""
    return (name, environment[name]) if environment.get(name) else (name.upper(), environment.get(name.upper(), ""))


def check_key_may_travel(
    url: SplitResult, key: str | None, insecure: bool, *, how: str = "connect(..., insecure=True)"
) -> None:
    """Refuse to send a key in the clear; ``how`` is what allows it.

    Raises:
        ValueError: A key would go over plain http to another machine.
    """
    if key is None or insecure or url.scheme == "https" or is_loopback(url.hostname or ""):
        return
    raise ValueError(f"a key would travel unencrypted to {url.hostname}: use https://, or {how} on a network you trust")


def key_for(url: SplitResult, api_key: str | None, environment: Mapping[str, str]) -> str | None:
    """The key for a worker: the argument, ``SEQRT_API_KEY``, then the credentials file's entry for that host.

    ``SEQUENCES_API_KEY`` counts for the host of ``SEQUENCES_BASE_URL`` alone. None: no key is sent.

    Raises:
        ValueError: The argument is empty, or the key found cannot stand in a header; it is not shown.
    """
    if api_key is not None:
        if not api_key.strip():
            raise ValueError("api_key is empty; leave it out to send none")
        return _sendable(api_key, "api_key")
    if environment.get("SEQRT_API_KEY", "").strip():
        return _sendable(environment["SEQRT_API_KEY"], "SEQRT_API_KEY")
    theirs = environment.get("SEQUENCES_API_KEY", "")
    if theirs.strip() and _host_of(environment.get("SEQUENCES_BASE_URL", "")) == url.hostname:
        return _sendable(theirs, "SEQUENCES_API_KEY")
    path = _credentials_path(environment)
    found = _from_file(host_port(url), path) or _from_file(host_port(url).rpartition(":")[0], path)
    return None if found is None else _sendable(found, str(path))


def _sendable(key: str, where: str) -> str:
    key = key.strip()
    if not all("!" <= character <= "~" for character in key):
        raise ValueError(f"the key in {where} holds blanks or characters outside ASCII: no header can carry it")
    return key


def _host_of(base_url: str) -> str | None:
    try:
        return urlsplit(base_url).hostname
    except ValueError:
        return None


def _credentials_path(environment: Mapping[str, str]) -> Path:
    config = environment.get("XDG_CONFIG_HOME") or str(Path(environment.get("HOME", "~")).expanduser() / ".config")
    return Path(config) / "seqrt" / "credentials"


def _from_file(place: str, path: Path) -> str | None:
    """The key on the first line ``<host[:port]> <key>`` that names ``place``; blank and # lines are passed over."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    for line in lines:
        words = line.split()
        if len(words) == 2 and not words[0].startswith("#") and words[0].lower() == place:
            return words[1]
    return None
