"""The bodies of a server's requests, as many bytes of them at a time as it has room for."""

from __future__ import annotations

from collections.abc import Callable

from seqrt.errors import remote_error
from seqrt.wire.limits import WORKER_BYTES
from seqrt.worker.call import Call
from seqrt.worker.incoming import Inflow


class Bodies:
    """Reads them.

    Args:
        most_bytes: The longest one that is read.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._inflow = Inflow(WORKER_BYTES)

    async def read(self, call: Call, moved: Callable[[], None] = lambda: None) -> bytes:
        """The request's body, whole.

        Args:
            call: The request.
            moved: Called whenever some of it arrives.

        Raises:
            InvalidRequest: It is compressed, or too long (413).
            Unavailable: There is no room for it now (429), or nothing of it arrives any more (504).
        """
        encoding = call.headers.get("content-encoding", "identity")
        if encoding != "identity":
            raise remote_error("invalid_request", f"a body encoded as {encoding!r:.40} is not read; send it plain")
        return await call.body.read(self._most_bytes, self._inflow, moved)
