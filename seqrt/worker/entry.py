"""Who may ask a worker for anything: whoever has its own key, or a lease's secret."""

from __future__ import annotations

import hmac

from seqrt.errors import remote_error
from seqrt.worker.call import Call, bearer_of
from seqrt.worker.granting import Granting
from seqrt.worker.leases import is_lease_secret


class Entry:
    """Finds out whose requests are.

    Args:
        secret: The worker's own key; None: none is asked for.
        granting: Its leases.

    Attributes:
        is_keyed: Whether a key is asked for.
    """

    def __init__(self, secret: bytes | None, granting: Granting) -> None:
        self._secret, self._granting = secret, granting
        self.is_keyed = secret is not None

    def check(self, call: Call) -> None:
        """Note whose request it is: its ``owner`` is "" with the worker's own key, else the lease.

        Raises:
            AuthError: It brings neither, where a key is asked for; or a lease's secret that is over.
        """
        brought = bearer_of(call.headers)
        lease = self._granting.owner(brought)
        if lease is not None:
            call.owner = lease
        elif is_lease_secret(brought):
            raise remote_error(
                "unauthenticated",
                "this lease is over, or is of another worker or of one that was started anew",
                hint="connect again at the gateway",
                details={"reason": "lease"},
            )
        elif self._secret is not None and not hmac.compare_digest(brought, self._secret):
            raise remote_error(
                "unauthenticated",
                "this worker asks for a key" if "authorization" not in call.headers else "this is not the worker's key",
                hint="send it as `Authorization: Bearer <key>`: connect(api_key=...) or SEQRT_API_KEY",
            )
