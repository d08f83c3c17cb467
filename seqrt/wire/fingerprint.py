"""Certificates that nobody vouches for, known by their fingerprint: as a worker prints it, as a robot is given it."""

from __future__ import annotations

import hashlib
import re
from typing import Final

PRINTED: Final = "the line that `seqrt serve --tls` prints on the worker's console holds it"


def parse_fingerprint(text: str) -> str:
    """A sha256 fingerprint as 64 lower-case hex digits; colons and capitals are taken.

    Raises:
        ValueError: It is something else.
    """
    digits = text.strip().replace(":", "").lower() if isinstance(text, str) else ""
    if not re.fullmatch("[0-9a-f]{64}", digits):
        raise ValueError(
            f"fingerprint={text!r} is no sha256 of a certificate: 64 hex digits, colons allowed; {PRINTED}"
        )
    return digits


def fingerprint_of(certificate: bytes) -> str:
    """The sha256 of a certificate in DER, 64 hex digits."""
    return hashlib.sha256(certificate).hexdigest()
