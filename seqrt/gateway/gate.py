"""Who may ask for acts, and for how many: keys, budgets and limits in one place.

`seqrt.gateway.app` enters a `Turn` for each act before it reads the body; what a robot is refused by its key alone is
refused here, in the contract's order: 401, 402, then 429.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import anyio
from starlette.datastructures import Headers

from seqrt.errors import remote_error
from seqrt.gateway.budget import Bucket, filled, spend
from seqrt.gateway.counted import Counted, digest
from seqrt.gateway.keys import ANYBODY, Key, Keyring
from seqrt.gateway.spending import Spending
from seqrt.wire.limits import RETRY_S
from seqrt.worker.call import bearer_of

_HINT = "send it as `Authorization: Bearer <key>`; `seqrt keys add` on the gateway's machine makes one"


class Gate:
    """Lets requests in by their keys.

    Args:
        keyring: The keys; None: none is asked for.
        spending: How many acts each key has made.
        clock: The time, in seconds; the event loop's.
    """

    def __init__(
        self, keyring: Keyring | None, spending: Spending, *, clock: Callable[[], float] = anyio.current_time
    ) -> None:
        self._keyring = keyring
        self._spending = spending
        self._clock = clock
        self._buckets: dict[str, Bucket] = {}
        self._under_way: dict[str, int] = {}
        self._counted = Counted()

    @property
    def is_keyed(self) -> bool:
        """Whether keys are checked."""
        return self._keyring is not None

    def key_of(self, headers: Headers) -> Key:
        """Whose request this is.

        Raises:
            AuthError: It brings no key, or none that is known.
        """
        if self._keyring is None:
            return ANYBODY
        secret = bearer_of(headers)
        key = self._keyring.find(secret) if secret else None
        if key is None:
            given = "authorization" in headers
            what = "this key is unknown here, or was revoked" if given else "this gateway asks for a key"
            raise remote_error("unauthenticated", what, hint=_HINT)
        return key

    @contextmanager
    def turn(self, headers: Headers, act: str) -> Iterator[Turn]:
        """One act's way through the gateway, from its headers to its answer.

        Args:
            headers: The request's.
            act: Its id.

        Raises:
            AuthError: No key that is known.
            OutOfCredit: The key's acts are spent.
            Unavailable: The key makes too many acts a minute, or at once (429).
        """
        key = self.key_of(headers)
        if self._is_spent(key) and not self._counted.has(key, act, None, self._clock()):
            raise _spent(key)
        self._hold_at_once(key)
        self._hold_rate(key)
        self._under_way[key.sha256] = self._under_way.get(key.sha256, 0) + 1
        turn = Turn(key, self._spending, partial(self._is_counted, key, act))
        try:
            yield turn
            if turn.paid is not None:
                self._counted.add(key, act, turn.paid, self._clock())
        finally:
            turn.over()
            self._leave(key)

    def _is_spent(self, key: Key) -> bool:
        return key.acts is not None and self._spending.spent(key) >= key.acts

    def _is_counted(self, key: Key, act: str, body: bytes) -> bool:
        return self._counted.has(key, act, body, self._clock())

    def _hold_at_once(self, key: Key) -> None:
        if key.at_once is not None and self._under_way.get(key.sha256, 0) >= key.at_once:
            raise remote_error(
                "busy", f"{key.at_once} acts of this key are under way, as many as it may have", retry_after_s=RETRY_S
            )

    def _hold_rate(self, key: Key) -> None:
        if key.per_minute is None:
            return
        now = self._clock()
        bucket = filled(self._buckets.get(key.sha256), key.per_minute, now)
        self._buckets[key.sha256], wait_s = spend(bucket, key.per_minute)
        if wait_s > 0:
            raise remote_error(
                "busy", f"this key may make {key.per_minute} acts a minute and has", retry_after_s=wait_s
            )

    def _leave(self, key: Key) -> None:
        left = self._under_way[key.sha256] - 1
        if left:
            self._under_way[key.sha256] = left
        else:
            del self._under_way[key.sha256]


class Turn:
    """One act of one key.

    Args:
        key: Whose it is.
        spending: Where it is counted.
        is_counted: Whether the act was counted before, with a body that comes to this.

    Attributes:
        key: Whose it is.
        paid: What its body comes to, once the act is counted; None before, and where acts are not.
    """

    def __init__(self, key: Key, spending: Spending, is_counted: Callable[[bytes], bool]) -> None:
        self.key = key
        self.paid: bytes | None = None
        self._spending = spending
        self._is_counted = is_counted
        self._body = b""
        self._reserved = False

    def read(self, body: bytes) -> None:
        """Look at the act's body: one that comes again is counted once."""
        if self.key.acts is not None:
            self._body = digest(body)

    def must_open(self, model: str) -> None:
        """Raises PermissionDenied unless the key opens the policy of that full id."""
        if not self.key.opens(model):
            raise remote_error(
                "forbidden",
                f"this key opens {self.key.model} alone, not {model}",
                details={"model": model, "opens": self.key.model},
            )

    def reserve(self) -> None:
        """Set one of the key's acts aside, right before the worker is asked.

        Raises:
            Unavailable: The last ones are under way; whether one is left is known when they are answered.
            OutOfCredit: None is left: it was let in by the id of another act.
        """
        if self.key.acts is None or self._is_counted(self._body):
            return
        if self._spending.spent(self.key) >= self.key.acts:
            raise _spent(self.key)
        if not self._spending.reserve(self.key):
            raise remote_error("busy", "the last acts of this key's budget are under way", retry_after_s=RETRY_S)
        self._reserved = True

    @property
    def left(self) -> int | None:
        """The acts the key has left once this one is counted; None where it has any number."""
        if self.key.acts is None:
            return None
        return max(0, self.key.acts - self._spending.spent(self.key) - self._reserved)

    def served(self) -> None:
        """Count the act."""
        if self._reserved and not self._is_counted(self._body):
            self._reserved, self.paid = False, self._body
            self._spending.count(self.key)

    def over(self) -> None:
        """Give back what was set aside and not needed: an act that failed costs nothing."""
        if self._reserved:
            self._reserved = False
            self._spending.give_back(self.key)


def _spent(key: Key) -> Exception:
    return remote_error(
        "budget_exhausted",
        f"this key was good for {key.acts} acts, and they are spent",
        hint="`seqrt keys add --acts N` on the gateway's machine makes another one",
        details={"acts": key.acts},
    )
