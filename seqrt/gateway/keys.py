"""Keys and what each may do. Pure: `seqrt.gateway.keyfile` keeps them in a file, `seqrt.gateway.gate` asks.

Only hashes are kept. A key is 256 random bits, which nobody can try out: one round of sha256 hides it as well as a
slow password hash would, and costs a request nothing.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from typing import Annotated, Final, Protocol

import msgspec
from msgspec import Meta

from seqrt.errors import KeysUnusable

PREFIX: Final = "seq_"
"""What keys begin with: people and scanners for leaked secrets know them by it."""

KEY_BYTES: Final = 32

_DIGITS: Final = 16
"""Hex digits of a key's mark, and of the longest id that takes one: half of what an id may have."""

_NAME: Final = r"\A[A-Za-z0-9][A-Za-z0-9._@-]{0,63}\Z"
_Name = Annotated[str, Meta(pattern=_NAME)]
_Sha256 = Annotated[str, Meta(pattern=r"\A[0-9a-f]{64}\Z")]
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

    name: _Name
    sha256: _Sha256
    model: str | None = None
    acts: _Count | None = None
    per_minute: _Count | None = None
    at_once: _Count | None = None

    @property
    def is_limited(self) -> bool:
        """Whether its acts are counted, which only a gateway does that they go through."""
        return (self.acts, self.per_minute, self.at_once) != (None, None, None)

    def opens(self, model: str) -> bool:
        """Whether it opens the policy of that full id."""
        return self.model is None or self.model == model


_line = msgspec.json.Decoder(Key)

ANYBODY: Final = Key(name="anybody", sha256="0" * 64)
"""Who asks where no keys are checked."""


def act_id(key: Key, id: str) -> str:
    """The id that an act of this key has at a worker, to which all keys' acts come with the gateway's one.

    The robot's own with the key's mark behind it: who looks for one in the worker's log finds the other, and the same
    id of another key is another act. An id too long for that is hashed with the key.
    """
    if key is ANYBODY:
        return id
    digits = id.removeprefix("r-")
    if len(digits) > _DIGITS:
        return "r-" + hash_of(f"act.{key.sha256}.{id}".encode())[: 2 * _DIGITS]
    return f"{id}{hash_of(f'act.{key.sha256}'.encode())[:_DIGITS]}"


class Keyring(Protocol):
    """Where keys are looked up."""

    def find(self, secret: bytes) -> Key | None:
        """Whose key this is; None: nobody's."""
        ...


def is_name(text: str) -> bool:
    """Whether a key may be called so: 1 to 64 letters, digits and ``. _ @ -``, a letter or digit first."""
    return re.match(_NAME, text, re.ASCII) is not None


def new_secret(bits: bytes) -> str:
    """The key made of `KEY_BYTES` random bytes, in letters, digits, ``-`` and ``_``."""
    if len(bits) != KEY_BYTES:
        raise ValueError(f"a key is made of {KEY_BYTES} random bytes, not {len(bits)}")
    return PREFIX + base64.urlsafe_b64encode(bits).decode("ascii").rstrip("=")


def hash_of(secret: bytes) -> str:
    """What of a key is kept."""
    return hashlib.sha256(secret).hexdigest()


def read_keys(text: str, path: str) -> list[Key]:
    """The keys of a file's text; blank lines and those that begin with # are passed over.

    Raises:
        KeysUnusable: A line is none, or a name or a key stands there twice; names the line.
    """
    keys: list[Key] = []
    seen: dict[str, int] = {}
    for number, row in enumerate(text.splitlines(), start=1):
        if not row.strip() or row.lstrip().startswith("#"):
            continue
        try:
            key = _line.decode(row)
        except (msgspec.MsgspecError, ValueError) as wrong:
            raise KeysUnusable(f"is no key: {wrong}", path=path, line=number) from wrong
        for what, told in (("name", key.name), ("key", key.sha256)):
            if told in seen:
                raise KeysUnusable(f"the same {what} as in line {seen[told]}", path=path, line=number)
            seen[told] = number
        keys.append(key)
    return keys


def with_key(text: str, key: Key, path: str) -> str:
    """The text with one more key at its end; comments stay.

    Raises:
        KeysUnusable: The text is none.
        ValueError: The name is taken.
    """
    if any(there.name == key.name for there in read_keys(text, path)):
        raise ValueError(f"there is a key named {key.name!r} already; revoke it first, or take another name")
    before = text if not text or text.endswith("\n") else f"{text}\n"
    return before + msgspec.json.encode(key).decode() + "\n"


def without_key(text: str, name: str, path: str) -> str:
    """The text without the key of that name.

    Raises:
        KeysUnusable: The text is none.
        ValueError: There is no such key.
    """
    keys = read_keys(text, path)
    if all(key.name != name for key in keys):
        raise ValueError(f"there is no key named {name!r}; there are: {', '.join(key.name for key in keys) or 'none'}")
    return "".join(row for row in text.splitlines(keepends=True) if not _is_of(row, name))


def _is_of(row: str, name: str) -> bool:
    return row.lstrip().startswith("{") and _line.decode(row).name == name


class OneKey:
    """The keys of a worker that has one secret and no file.

    Args:
        secret: The secret.
    """

    def __init__(self, secret: bytes) -> None:
        self._key = Key(name="secret", sha256=hash_of(secret))

    def find(self, secret: bytes) -> Key | None:
        """Whose key this is; None: nobody's."""
        return self._key if hmac.compare_digest(self._key.sha256, hash_of(secret)) else None
