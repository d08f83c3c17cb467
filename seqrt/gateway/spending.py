"""How many acts each key has made; kept in a file beside the keys, so that a restart forgets none.

The file is written `FLUSH_S` after an act that is not in it yet, and when the gateway ends. A gateway that is killed
forgets the acts of its last `FLUSH_S` and of the writing itself: its keys may make those once more. Writing before each
answer would make every act wait for the disk.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, Final

import anyio
import msgspec
from msgspec import Meta

from seqrt.errors import KeysUnusable
from seqrt.gateway.keyfile import locked, write
from seqrt.gateway.keys import Key
from seqrt.policies.offload import Offload
from seqrt.worker.logline import line

_log = logging.getLogger(__name__)

FLUSH_S: Final = 0.5
"""How long an answered act may be counted in memory alone."""

_counts = msgspec.json.Decoder(dict[str, Annotated[int, Meta(ge=0)]])


class Spending:
    """Counts acts by key, those under way too.

    Args:
        spent: What was spent before, by the keys' hashes.
    """

    def __init__(self, spent: dict[str, int] | None = None) -> None:
        self._spent = dict(spent or {})
        self._reserved: dict[str, int] = {}
        self._changed = anyio.Event()

    def spent(self, key: Key) -> int:
        """Acts of the key that were answered."""
        return self._spent.get(key.sha256, 0)

    def reserve(self, key: Key) -> bool:
        """Set one act aside; False where all that are left are set aside already."""
        reserved = self._reserved.get(key.sha256, 0)
        if key.acts is not None and self.spent(key) + reserved >= key.acts:
            return False
        self._reserved[key.sha256] = reserved + 1
        return True

    def count(self, key: Key) -> None:
        """An act that was set aside has been answered."""
        self.give_back(key)
        self._spent[key.sha256] = self.spent(key) + 1
        self._changed.set()

    def give_back(self, key: Key) -> None:
        """An act that was set aside was not answered."""
        left = self._reserved.get(key.sha256, 0) - 1
        if left > 0:
            self._reserved[key.sha256] = left
        else:
            self._reserved.pop(key.sha256, None)

    async def changed(self) -> None:
        """Wait until an act is counted that `text` has not told yet."""
        await self._changed.wait()

    @property
    def is_changed(self) -> bool:
        """Whether an act is counted that `text` has not told yet."""
        return self._changed.is_set()

    def text(self) -> bytes:
        """What is spent, for the file."""
        self._changed = anyio.Event()
        return msgspec.json.format(msgspec.json.encode(self._spent, order="sorted"), indent=1) + b"\n"


@contextmanager
def kept(path: Path) -> Iterator[Spending]:
    """Counts that outlive the program; written when the context is left, and by `flush` meanwhile.

    Args:
        path: The file; made with the first act that is counted. Only one gateway at a time may count in it.

    Raises:
        KeysUnusable: It cannot be read, or another gateway counts there.
    """
    with locked(path, wait=False):
        spending = Spending(read_spent(path))
        try:
            yield spending
        finally:
            if spending.is_changed:
                _write(path, spending.text())


async def flush(spending: Spending, path: Path, offload: Offload) -> None:
    """Write the file soon after each act that is counted. Runs until cancelled."""
    while True:
        await spending.changed()
        await anyio.sleep(FLUSH_S)
        # What `text` has told counts as written: a cancellation must not come between the two.
        with anyio.CancelScope(shield=True):  # a file of some bytes: milliseconds
            await offload(partial(_write, path, spending.text()))


def _write(path: Path, content: bytes) -> None:
    try:
        write(path, content)
    except KeysUnusable as error:  # the next act tries again; until then they are counted in memory
        _log.error("%s", line("acts.unsaved", None, error=error))


def beside(keys: Path) -> Path:
    """Where the acts of a file of keys are counted."""
    return keys.with_name(f"{keys.name}.spent")


def read_spent(path: Path) -> dict[str, int]:
    """What the keys have spent, by their hashes; nothing where there is no file.

    Raises:
        KeysUnusable: It cannot be read.
    """
    try:
        return _counts.decode(path.read_bytes())
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise KeysUnusable(f"cannot be read: {error.strerror}", path=str(path)) from error
    except (msgspec.MsgspecError, ValueError) as wrong:
        raise KeysUnusable(
            f"is no file of acts spent ({wrong}); without it every key begins anew", path=str(path)
        ) from wrong
