"""What a server's log says of its requests: each once, at the end, and of failures that go on the first and a few."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

import anyio

from seqrt.errors import RemoteError
from seqrt.watching.logline import line
from seqrt.watching.seldom import Seldom
from seqrt.worker.call import Call

_LEVELS: Final = {"policy_error": logging.WARNING, "internal": logging.ERROR}
NOTHING: Final[Mapping[str, object]] = MappingProxyType({})


class RequestLog:
    """The lines of one server.

    Args:
        logger: Where they go.
        cause: What the line of an error tells of it.
    """

    def __init__(
        self, logger: logging.Logger, cause: Callable[[RemoteError], object] = lambda error: error.detail
    ) -> None:
        self._logger, self._cause = logger, cause
        self._seldom = Seldom()

    def say(
        self,
        level: int,
        name: str,
        call: Call,
        participle: str,
        told: Mapping[str, object] = NOTHING,
        thrown: Exception | None = None,
    ) -> None:
        """Say how a request to the endpoint ``name`` ended: ``answered``, ``refused``, ``left``."""
        if self._logger.isEnabledFor(level):
            self._logger.log(level, "%s", line(f"{name}.{participle}", call.id, **told), exc_info=thrown)

    def refused(self, name: str, call: Call, error: RemoteError, raised: Exception) -> None:
        """Say that it was refused with ``error``; with the traceback of ``raised`` where that is a fault of ours."""
        level, more = _LEVELS.get(error.code, logging.DEBUG), None
        if level > logging.DEBUG:  # a policy that fails at every act must not fill a disk
            more = self._seldom.due((name, error.code), anyio.current_time())
            level = logging.DEBUG if more is None else level
        told = {**call.said, "code": error.code, "more": more or None, "error": self._cause(error)}
        self.say(level, name, call, "refused", told, raised if error.code == "internal" and more is not None else None)
