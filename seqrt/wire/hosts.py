"""What the name or address of a machine says: whether it is this one, whether anybody can be told it. Rules alone."""

from __future__ import annotations

import ipaddress


def is_loopback(host: str) -> bool:
    """Whether ``host`` is this machine itself; a name but for ``localhost`` is not looked up, and is none."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def is_reachable(host: str) -> bool:
    """Whether a robot can be told this address: 0.0.0.0 and :: are every address and none."""
    try:
        return not ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return True
