"""What a server tells of where it listens: to robots, and to whoever starts it."""

from __future__ import annotations

import socket

import pytest

from seqrt.worker.bound import Bound
from seqrt.worker.saying import introduction


def bound(host: str) -> Bound:
    return Bound(host=host, port=8080)


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:8080"),
        ("::1", "http://[::1]:8080"),
        ("gpu", "http://gpu:8080"),
    ],
)
def test_robots_are_told_the_address_it_is_bound_to(host: str, url: str) -> None:
    assert bound(host).url == bound(host).told_url == url


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_bound_to_every_address_robots_are_told_this_machines_name(host: str) -> None:
    assert bound(host).told_url == f"http://{socket.gethostname()}:8080"


@pytest.mark.parametrize(
    ("host", "is_keyed", "said"),
    [
        ("127.0.0.1", False, []),
        ("localhost", True, []),
        ("0.0.0.0", False, ["seqrt: 0.0.0.0 is open to the network without a key; give --secret-env to ask for one"]),
        ("gpu", True, ["seqrt: robots on other machines do not send a key over plain http; serve with --tls"]),
    ],
)
def test_what_is_open_to_other_machines_is_said(host: str, is_keyed: bool, said: list[str]) -> None:
    first, *more = introduction(bound(host), "arm", is_keyed=is_keyed)
    assert first.startswith(f"seqrt: arm ready at {bound(host).url}; on the robot: seqrt.connect(base_url=")
    assert ("api_key=..." in first) is is_keyed
    assert more == said
