"""Keys and what each may do. Pure: `seqrt.gateway.keyfile` keeps them in a file, `seqrt.gateway.gate` asks.

Only hashes are kept. A key is 256 random bits, which nobody can try out: one round of sha256 hides it as well as a
slow password hash would, and costs a request nothing.
"""

from __future__ import annotations

import base64
import hashlib
from typing import Annotated, Final, Protocol

import msgspec
from msgspec import Meta

PREFIX: Final = "seq_"
"""What keys begin with: people and scanners for leaked secrets know them by it."""

KEY_BYTES: Final = 32


_Sha256 = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
_Count = Annotated[int, Meta(ge=1, le=10**12)]


class Key(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """One line of a keys file.

    Attributes:
        name: Whose it is, for logs and for revoking it.
        sha256: The key's hash, 64 hex digits.
        model: The one policy it opens, by its full id; None: all.
        acts: How many acts it is good for; None: any number.
        per_minute: Acts a minute; None: no limit.
        at_once: Acts under way at a time; None: no limit.
    """

    name: str
    sha256: _Sha256
    model: str | None = None
    acts: _Count | None = None
    per_minute: _Count | None = None
    at_once: _Count | None = None

    def opens(self, model: str) -> bool:
        """Whether it opens the policy of that full id."""
        return self.model is None or self.model == model


ANYBODY: Final = Key(name="anybody", sha256="0" * 64)
"""Who asks where no keys are checked."""


class Keyring(Protocol):
    """Where keys are looked up."""

    def find(self, secret: bytes) -> Key | None:
        """Whose key this is; None: nobody's."""
        ...


def new_secret(bits: bytes) -> str:
    """The key made of `KEY_BYTES` random bytes, in letters, digits, ``-`` and ``_``."""
    if len(bits) != KEY_BYTES:
        raise ValueError(f"a key is made of {KEY_BYTES} random bytes, not {len(bits)}")
    return PREFIX + base64.urlsafe_b64encode(bits).decode("ascii").rstrip("=")


def hash_of(secret: bytes) -> str:
    """What of a key is kept."""
    return hashlib.sha256(secret).hexdigest()
