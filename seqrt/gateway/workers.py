"""Links from a gateway to its workers: by the rules a robot's link goes by, and with the gateway's own key."""

from __future__ import annotations

import os
from typing import Final

from seqrt.link.address import check_key_may_travel, host_port, key_for, parse
from seqrt.link.http import HttpLink, clients
from seqrt.policies.offload import in_thread

CONNECT_S: Final = 5.0
"""Bound of connecting, and of every round trip but an act's."""


def link_to(url: str, secret: str | None, fingerprint: str | None, insecure: bool) -> HttpLink:
    """The link to a worker; nothing is sent yet.

    Args:
        url: Where it is.
        secret: Its key; None: ``SEQRT_API_KEY``, then the credentials file's entry for that host, then none.
        fingerprint: The sha256 of the only certificate to take there; None: one the system's authorities vouch for.
        insecure: Allow the key over plain http to another machine.

    Raises:
        ValueError: The URL or the fingerprint is none, or the key may not travel there.
    """
    parsed = parse(url)

    def key() -> str | None:
        """The key, as it is found now: it may have been changed since."""
        found = key_for(parsed, secret, os.environ)
        check_key_may_travel(parsed, found, insecure)
        return found

    new_client = clients(url, timeout_s=CONNECT_S, key=key, fingerprint=fingerprint)
    return HttpLink(new_client, host=host_port(parsed), timeout_s=CONNECT_S, offload=in_thread(2))
