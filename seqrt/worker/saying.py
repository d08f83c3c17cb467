"""What a worker says to whoever starts it: that it is ready, what to type on the robot, and what it is open to."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from seqrt.wire.hosts import is_loopback
from seqrt.worker.bound import Bound


def introduction(bound: Bound, model: str, *, is_keyed: bool) -> Iterator[str]:
    """The lines a worker says when its policy is ready.

    Args:
        bound: Where it listens.
        model: What it serves.
        is_keyed: Whether it asks for a key.
    """
    tls = bound.tls
    given = f'base_url="{bound.told_url}"'
    if tls is not None and tls.pinned:
        given += f', fingerprint="{tls.fingerprint}"'
    if is_keyed:
        given += ", api_key=..."
    yield f"seqrt: {model} ready at {bound.url}; on the robot: seqrt.connect({given})"
    if tls is not None:
        known = "" if tls.pinned else "; robots that do not trust who signed it pin it with fingerprint="
        yield f"seqrt: its certificate's sha256 fingerprint is {tls.fingerprint}{known}"
    yield from what_is_open(bound, is_keyed=is_keyed, without="a key; give --secret-env to ask for one")


def what_is_open(bound: Bound, *, is_keyed: bool, without: str) -> Iterator[str]:
    """What other machines may do that should be known.

    Args:
        bound: Where it listens.
        is_keyed: Whether keys are asked for.
        without: What it is open without, and what asks for it.
    """
    if is_loopback(bound.host):
        return
    if not is_keyed:
        yield f"seqrt: {bound.host} is open to the network without {without}"
    elif bound.tls is None:
        yield "seqrt: robots on other machines do not send a key over plain http; serve with --tls"


def to_stdout(text: str) -> None:
    """Say a line to whoever started this."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()
