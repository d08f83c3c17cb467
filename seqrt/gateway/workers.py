"""Links from a gateway to its workers: by the rules a robot's link goes by, and with the gateway's own key."""

from __future__ import annotations

import os
from typing import Final

from seqrt.link.address import check_key_may_travel, host_port, key_for, parse
from seqrt.link.border import M, Outgoing
from seqrt.link.http import HttpLink, clients
from seqrt.policies.offload import in_thread
from seqrt.wire.frames import encode_frames
from seqrt.wire.headers import FRAMES
from seqrt.wire.limits import size_of
from seqrt.wire.messages import ActRequest

_INLINE_BYTES: Final = 256 * 1024
"""Acts up to this size are coded on the loop, as `seqrt.link.http` does."""


class FaceLink(HttpLink):
    """A link whose acts travel as frames: a picture as its bytes, which the worker hands over as the text it was.

    Msgpack would hold many small pictures against what plain values may take (`seqrt.wire.limits.PLAIN_BYTES`), and
    have a policy see bytes where a robot sent text.
    """

    async def prepare(self, message: M) -> Outgoing[M]:
        """Encode, off the loop where it is large."""
        if not isinstance(message, ActRequest):
            return await super().prepare(message)
        if size_of(message.inputs) <= _INLINE_BYTES:
            return Outgoing(message, encode_frames(message), FRAMES)
        return Outgoing(message, await self._offload(lambda: encode_frames(message)), FRAMES)


CONNECT_S: Final = 5.0
"""Bound of connecting, and of every round trip but an act's."""


def link_to(url: str, secret: str | None, fingerprint: str | None, insecure: bool) -> FaceLink:
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
        check_key_may_travel(parsed, found, insecure, how="--insecure (in a program, insecure=True)")
        return found

    new_client = clients(url, timeout_s=CONNECT_S, key=key, fingerprint=fingerprint)
    return FaceLink(new_client, host=host_port(parsed), timeout_s=CONNECT_S, offload=in_thread(2))
