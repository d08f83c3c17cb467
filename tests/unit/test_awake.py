from __future__ import annotations

import pytest

from seqrt.link.awake import is_worth_it
from seqrt.link.tcp import TcpInfo


@pytest.mark.parametrize(
    ("cwnd", "unacked", "quiet_s", "control", "worth"),
    [
        (11, 0, 0.1, "cubic", True),
        (250, 0, 3.0, "reno", True),
        (10, 0, 3.0, "cubic", False),  # nothing learnt: acts without pictures pay for no pings
        (250, 0, 0.05, "cubic", False),  # something is sent anyway
        (250, 3, 0.3, "cubic", False),  # a link that stands still
        (250, 0, 3.0, "bbr", False),
    ],
)
def test_pings_go_where_a_window_would_be_forgotten_and_nothing_else_is_sent(
    cwnd: int, unacked: int, quiet_s: float, control: str, worth: bool
) -> None:
    known = TcpInfo(rtt_s=0.1, cwnd=cwnd, mss_bytes=1448, unacked=unacked, retransmits=0, quiet_s=quiet_s)
    assert is_worth_it(known, control) is worth
