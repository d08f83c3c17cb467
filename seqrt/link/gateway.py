"""What a robot asks a gateway: where to go, that its seat is kept, that it is given back.

JSON over the link's own connection; every failure is one of `seqrt.errors`, as the link's are.
"""

from __future__ import annotations

import logging
import secrets
from typing import Any, Final, TypeVar

import anyio

from seqrt.errors import RemoteError
from seqrt.link.http import HttpLink
from seqrt.link.requests import Asked
from seqrt.watching.logline import line
from seqrt.wire import codec, headers
from seqrt.wire.incoming import read_json
from seqrt.wire.leases import ConnectAnswer, ConnectRequest, SeatKept, SeatRequest

logger = logging.getLogger(__name__)
T = TypeVar("T")

_GOODBYE_S: Final = 1.0
"""How long giving the seat back may take; it is taken back when the lease is over in any case."""


class Gateway:
    """One robot at a gateway.

    Args:
        http: The way there, which the caller closes.
        model: The policy asked for.
        embodiment: Which of the robots it declares this one is.
    """

    def __init__(self, http: HttpLink, model: str, embodiment: str | None = None) -> None:
        self.http = http
        self._model, self._embodiment = model, embodiment
        self._session = secrets.token_hex(16)
        self._asked = False

    async def connect(self, *, move: bool) -> ConnectAnswer:
        """``POST /v1/act/connect``: a worker, or the one there is.

        Args:
            move: It cannot be the one there is, if there is another.

        Raises:
            Unavailable: No worker is free or ready: to be asked again.
            RemoteError: What was answered instead.
        """
        self._asked = True
        asks = ConnectRequest(model=self._model, session=self._session, embodiment=self._embodiment, move=move)
        return await self._post("/v1/act/connect", asks, ConnectAnswer, "connect")

    async def keep(self, epoch: int, within_s: float | None = None, *, lost: bool = False) -> SeatKept:
        """``POST /v1/act/keepalive``: the lease, renewed where it lives; it is never another worker's.

        Args:
            epoch: The lease gone by.
            within_s: How long it may take.
            lost: The worker cannot be reached from here: not held where the gateway finds nobody there either.
        """
        asks = SeatRequest(model=self._model, session=self._session, epoch=epoch, lost=lost)
        return await self._post("/v1/act/keepalive", asks, SeatKept, "keepalive", within_s)

    async def release(self) -> None:
        """``POST /v1/act/release``, for a second at most."""
        if not self._asked:
            return
        self._asked = False
        with anyio.move_on_after(_GOODBYE_S, shield=True):
            try:
                await self._post(
                    "/v1/act/release", SeatRequest(model=self._model, session=self._session), dict, "release"
                )
            except RemoteError as error:
                logger.debug("%s", line("seat.unreleased", error.request_id, error=error))

    async def _post(self, path: str, message: Any, type: type[T], phase: str, within_s: float | None = None) -> T:
        asked = Asked("POST", path, phase, codec.encode_json(message), media=headers.JSON)
        answer = await self.http.ask(asked, within_s)
        return self.http.read(lambda: codec.as_message(read_json(answer), type), phase)
