"""Whom a link trusts: public authorities, or one certificate by its fingerprint; and what to do when it may not."""

from __future__ import annotations

import os
import ssl
from typing import Final

import anyio.to_thread
import certifi

from seqrt.errors import CertificateRefused
from seqrt.wire.fingerprint import PRINTED, fingerprint_of, parse_fingerprint

ALPN: Final = ("h2", "http/1.1")
"""What is offered, in this order; the other end chooses."""


class Trust:
    """Whom one link trusts.

    Args:
        fingerprint: Of the only certificate that is taken, whoever signed it, whatever host or dates it names. None:
            certificates that the system's authorities vouch for, for the host that was asked for.

    Raises:
        ValueError: That is no fingerprint.
    """

    def __init__(self, fingerprint: str | None = None) -> None:
        self.fingerprint = parse_fingerprint(fingerprint) if fingerprint is not None else None
        self._context: ssl.SSLContext | None = None

    async def context(self) -> ssl.SSLContext:
        """For handshakes; made once, in a thread: reading the authorities takes 50 to 200 ms."""
        if self._context is None:
            made = pinned_context() if self.fingerprint else await anyio.to_thread.run_sync(public_context)
            made.set_alpn_protocols(list(ALPN))
            self._context = made
        return self._context

    def check(self, secure: ssl.SSLObject, place: str) -> None:
        """Hold the other end's certificate against the fingerprint; called before anything is sent to it.

        Raises:
            CertificateRefused: It is another one.
        """
        if self.fingerprint is None:
            return
        found = fingerprint_of(secure.getpeercert(binary_form=True) or b"")
        if found != self.fingerprint:
            raise CertificateRefused(
                f"the certificate there has the fingerprint {found}, not {self.fingerprint}; nothing was sent",
                host=place,
                hint="another worker, a new certificate, or somebody in between. Read the fingerprint off the worker's "
                "own console, where `seqrt serve --tls` prints it, and connect with that one",
                expected=self.fingerprint,
                found=found,
            )

    def refusal(self, error: ssl.SSLCertVerificationError, place: str) -> CertificateRefused:
        """What an untrusted certificate is told as."""
        return CertificateRefused(
            f"nobody this machine trusts vouches for the certificate there: {error.verify_message}",
            host=place,
            hint=f'if the worker is yours, pin its certificate: connect(..., fingerprint="..."); {PRINTED}',
        )


def pinned_context() -> ssl.SSLContext:
    """Takes any certificate whose key the other end has: which one is `Trust.check`'s to say."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def public_context() -> ssl.SSLContext:
    """Trusts what the system does; ``SSL_CERT_FILE`` and ``SSL_CERT_DIR`` name other authorities, as for OpenSSL.

    httpx would take certifi's list instead, without the authorities a lab has added to its machines. That list is
    for Pythons that find none of the system's.
    """
    context = ssl.create_default_context()
    if not _has_authorities(context):
        context.load_verify_locations(certifi.where())
    return context


def _has_authorities(context: ssl.SSLContext) -> bool:
    if context.cert_store_stats()["x509_ca"] or os.environ.get("SSL_CERT_FILE") or os.environ.get("SSL_CERT_DIR"):
        return True
    directory = ssl.get_default_verify_paths().capath  # looked into when a certificate is checked, not counted
    return directory is not None and bool(os.listdir(directory))


def told(error: ssl.SSLError) -> str:
    """Why a handshake came to nothing."""
    if error.reason in ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "UNEXPECTED_MESSAGE", "RECORD_LAYER_FAILURE"):
        return "what answers there does not speak TLS: is it http:// there, without the s?"
    return f"the TLS handshake failed: {error.reason or error}"
