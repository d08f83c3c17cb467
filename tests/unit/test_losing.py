"""What a failed connection says of the process behind it."""

from __future__ import annotations

import errno
import socket

import pytest

from seqrt.errors import LinkLost
from seqrt.link.losing import is_refused

REFUSED = ConnectionRefusedError(errno.ECONNREFUSED, "refused")
NO_WAY = OSError(errno.EHOSTUNREACH, "no route")


class Several(Exception):
    """As a group of exceptions is."""

    def __init__(self, *exceptions: BaseException) -> None:
        self.exceptions = exceptions


def lost(*causes: BaseException) -> LinkLost:
    """A lost link with its causes, one below the other."""
    error = LinkLost("cannot connect", code="unavailable")
    above: BaseException = error
    for cause in causes:
        above.__cause__ = cause
        above = cause
    return error


@pytest.mark.parametrize("causes", [[REFUSED], [OSError(), REFUSED], [OSError(), Several(REFUSED, REFUSED)]])
def test_nobody_listens_where_every_address_says_so(causes: list[BaseException]) -> None:
    assert is_refused(lost(*causes))


@pytest.mark.parametrize(
    "causes",
    [[], [NO_WAY], [TimeoutError()], [socket.gaierror(-2, "no name")], [OSError(), Several(REFUSED, NO_WAY)],
     [ConnectionResetError()]],
)  # fmt: skip
def test_anything_else_says_nothing_of_the_process(causes: list[BaseException]) -> None:
    assert not is_refused(lost(*causes))
