"""How a connection tells whoever looks after it that it is open and that bytes came: by the requests' extensions.

`seqrt.link.line` puts them in. A connection's bytes call the line themselves (`seqrt.link.network.Stream`); requests
over a scripted network do it by the functions here (`seqrt.testing.transport`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Protocol

LINE: Final = "seqrt.line"
"""Extension of a request: the `Hears` of the connection it goes over."""
SENT: Final = "seqrt.sent"
"""Extension of a request: called, with nothing, when its last byte was handed over."""


class Hears(Protocol):
    """Is told what happens on one connection."""

    def opened(self, socket: Any) -> None:
        """It is open. ``socket`` is the system's; None where there is none."""
        ...

    def heard(self) -> None:
        """Bytes came."""
        ...


def opened(extensions: Mapping[str, Any], socket: Any) -> None:
    """The connection a request goes over was opened for it."""
    hears: Hears | None = extensions.get(LINE)
    if hears is not None:
        hears.opened(socket)


def heard(extensions: Mapping[str, Any]) -> None:
    """Bytes came, read by the request of these extensions for all."""
    hears: Hears | None = extensions.get(LINE)
    if hears is not None:
        hears.heard()


def sent(extensions: Mapping[str, Any]) -> None:
    """A request's last byte was handed over."""
    told = extensions.get(SENT)
    if told is not None:
        told()
