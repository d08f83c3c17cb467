"""The file of keys: one line of JSON each, hashes alone; written by ``seqrt keys``, read again whenever it changes.

A gateway that runs looks at the file's time and size with each request, which costs microseconds, so that a key added
or revoked counts at once. Lines that cannot be read stop a gateway from starting; in one that runs they are logged and
the keys as they were go on being good, because a slip of the pen should not stop a line of robots. A file that is
gone opens to nobody.
"""

from __future__ import annotations

import hmac
import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from seqrt.errors import KeysUnusable
from seqrt.gateway.keys import Key, hash_of, read_keys
from seqrt.watching.logline import line

logger = logging.getLogger(__name__)

_LOOKED_UP: Final = 8
"""Digits of a hash that keys are looked up by; all of it is then compared in constant time."""

_State = tuple[int, int, int]


class KeyFile:
    """The keys of a file, as it is now.

    Args:
        path: The file.

    Raises:
        KeysUnusable: It cannot be read, or others may write to it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._state = _state_of(path)
        self._keys = _by_digits(read(path))

    def find(self, secret: bytes) -> Key | None:
        """Whose key this is; None: nobody's."""
        self._look()
        digest = hash_of(secret)
        found = None
        for key in self._keys.get(digest[:_LOOKED_UP], ()):
            # To the end, whatever is found: how long it takes tells nothing of the hashes kept.
            if hmac.compare_digest(key.sha256, digest):
                found = key
        return found

    def _look(self) -> None:
        """Read the file again where it is another one than it was."""
        state = _state_of(self.path)
        if state == self._state:
            return
        self._state = state
        try:
            self._keys = _by_digits(read(self.path)) if state is not None else {}
        except KeysUnusable as error:
            logger.error("%s", line("keys.unread", None, error=error))
        else:
            logger.info("%s", line("keys.read", None, keys=sum(map(len, self._keys.values()))))


def read(path: Path) -> list[Key]:
    """The keys of a file.

    Raises:
        KeysUnusable: It is not there, cannot be read, or others may write to it; or a line is none, by its number.
    """
    return read_keys(_text(path), str(path))


def _text(path: Path) -> str:
    try:
        if os.name == "posix" and path.stat().st_mode & 0o022:
            raise KeysUnusable(f"others may write keys into it; run: chmod go-w {path}", path=str(path))
        return path.read_text(encoding="utf-8")
    except FileNotFoundError as missing:
        raise KeysUnusable(
            f"there is no such file; `seqrt keys add NAME --keys {path}` makes it, with its first key", path=str(path)
        ) from missing
    except (OSError, UnicodeDecodeError) as error:
        raise KeysUnusable(f"cannot be read: {error}", path=str(path)) from error


def change(path: Path, changed: Callable[[str], str]) -> None:
    """Have the file's text changed: two at once wait for each other, and readers see it as it was or as it is.

    Args:
        path: The file; made where there is none.
        changed: Makes the new text out of the one that is there.

    Raises:
        KeysUnusable: It cannot be read or written.
        Exception: What ``changed`` raises; the file is then as it was.
    """
    with locked(path):
        write(path, changed(_text(path) if path.exists() else "").encode())


@contextmanager
def locked(path: Path, *, wait: bool = True) -> Iterator[None]:
    """Hold the lock of a file, by one beside it: the file itself is another one after each writing.

    Args:
        path: The file.
        wait: Wait for whoever holds it; False: `KeysUnusable` then.

    Raises:
        KeysUnusable: The folder cannot be written, or somebody else holds the lock.
    """
    try:
        import fcntl
    except ImportError:  # Windows: there the last of two writers wins
        yield
        return
    try:
        descriptor = os.open(f"{path}.lock", os.O_WRONLY | os.O_CREAT, 0o600)
    except OSError as error:
        raise KeysUnusable(f"cannot be written: {error.strerror}", path=str(path)) from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except OSError as held:
            raise KeysUnusable(
                "another process has it in use, a gateway perhaps; give each its own", path=str(path)
            ) from held
        yield
    finally:
        os.close(descriptor)


def write(path: Path, content: bytes) -> None:
    """Write a file whole or not at all, which nobody else may read from its first byte on.

    Raises:
        KeysUnusable: It cannot be written.
    """
    draft = path.with_name(f"{path.name}.{os.getpid()}.new")
    try:
        draft.unlink(missing_ok=True)  # of a process of this number that was killed
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(draft, path)
        except BaseException:
            draft.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise KeysUnusable(f"cannot be written: {error.strerror}", path=str(path)) from error


def _state_of(path: Path) -> _State | None:
    """What changes when the file does; None where there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def _by_digits(keys: list[Key]) -> dict[str, list[Key]]:
    sorted_: dict[str, list[Key]] = {}
    for key in keys:
        sorted_.setdefault(key.sha256[:_LOOKED_UP], []).append(key)
    return sorted_
