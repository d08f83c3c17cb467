"""How long to wait before what failed is sent again: observations and acts alike. PURE."""

from __future__ import annotations

from seqrt.errors import LinkLost, Unavailable

FIRST_RETRY_S = 0.05
"""The first wait before a failed request is sent again; each further one is twice as long."""
_RECONNECT_S, _SHORT_OUTAGE_S, _RECONNECT_SHARE = 0.02, 2.0, 1 / 8
_LAST_RETRY_S, _LAST_RECONNECT_S = 2.0, 0.25


def next_wait_s(wait_s: float, error: Unavailable) -> float:
    """How long the wait after one of ``wait_s`` is.

    Where nobody answers, a try costs nobody anything, and the arm stands until one gets through: those stay frequent.
    """
    return min(2 * wait_s, _LAST_RECONNECT_S if isinstance(error, LinkLost) else _LAST_RETRY_S)


def reconnect_wait_s(down_s: float) -> float:
    """The wait between two tries of a link that nobody has answered on for so long, while the arm may stand for it.

    Quick while the outage is a short one, and then in proportion to what it lasts beyond that.
    """
    return min(max(_RECONNECT_S, (down_s - _SHORT_OUTAGE_S) * _RECONNECT_SHARE), _LAST_RECONNECT_S)
