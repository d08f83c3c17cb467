"""The worker's certificate: one's own, or made here and kept, so that robots may pin it by its fingerprint."""

from __future__ import annotations

import datetime
import ipaddress
import logging
import os
import re
import socket
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import anyio
import anyio.abc
from anyio.streams.tls import TLSStream

from seqrt.errors import CertificateUnusable, ExtraMissing
from seqrt.watching.logline import line
from seqrt.wire.fingerprint import fingerprint_of

logger = logging.getLogger(__name__)

HANDSHAKE_S: Final = 10.0
"""A client that has not finished its handshake by then is let go."""
_LINGER_S: Final = 1.0
_NAME: Final = "worker.pem"
_BLOCK: Final = re.compile("-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
_HOST_NAME: Final = re.compile(r"[A-Za-z0-9-]{1,63}(\.[A-Za-z0-9-]{1,63})*")
_PLAIN: Final = (
    b"HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain\r\ncontent-length: %d\r\nconnection: close\r\n\r\n%b"
)
_GONE = (anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream, OSError)


@dataclass(frozen=True)
class Certificate:
    """A certificate and its key, in files of PEM.

    Attributes:
        path: The certificate, those that vouch for it behind it.
        key: The key; None: it is in the same file.
        pinned: Whether robots know it by its fingerprint, since nobody vouches for it.
    """

    path: Path
    key: Path | None = None
    pinned: bool = False

    @property
    def fingerprint(self) -> str:
        """The sha256 of the certificate in DER, 64 hex digits.

        Raises:
            CertificateUnusable: There is none in the file.
        """
        with _usable(self.path):
            found = _BLOCK.search(self.path.read_text(encoding="ascii", errors="replace"))
            if found is None:
                raise ValueError("it holds no certificate in PEM")
            return fingerprint_of(ssl.PEM_cert_to_DER_cert(found[0]))

    def context(self) -> ssl.SSLContext:
        """For a server that speaks HTTP/2 and HTTP/1.1.

        Raises:
            CertificateUnusable: Certificate and key cannot be read, or do not belong together.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.set_alpn_protocols(["h2", "http/1.1"])
        with _usable(self.path):
            context.load_cert_chain(self.path, self.key, password=_no_password)
        return context


@contextmanager
def _usable(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or str(error)
        if isinstance(error, ssl.SSLError) and not error.reason:  # "PEM lib" is all OpenSSL says then
            reason = "a certificate and its key in PEM are not both there"
        raise CertificateUnusable(f"the certificate in {path} cannot be used: {reason}", path=str(path)) from error


def _no_password() -> str:
    raise ValueError("its key is encrypted, and a worker that starts by itself can ask nobody for the password")


def data_directory(environment: Mapping[str, str]) -> Path:
    """Where workers keep what outlives them: ``$XDG_DATA_HOME/seqrt``, else ``~/.local/share/seqrt``."""
    home = environment.get("XDG_DATA_HOME") or str(Path(environment.get("HOME", "~")).expanduser() / ".local/share")
    return Path(home) / "seqrt"


def self_signed(directory: Path) -> Certificate:
    """The certificate kept in ``directory``, made if there is none yet: its fingerprint outlives restarts.

    Raises:
        CertificateUnusable: The folder cannot be written, or what is kept there cannot be read.
        ExtraMissing: One has to be made, and the package for that is not there.
    """
    kept = Certificate(directory / _NAME, pinned=True)
    if not kept.path.exists():
        made = _made([socket.gethostname(), "localhost"], ["127.0.0.1", "::1"])
        with _usable(kept.path):
            directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            _write_once(kept.path, made)
    if os.name == "posix" and kept.path.stat().st_mode & 0o077:
        logger.warning("%s holds a key and may be read by others: chmod 600 %s", kept.path, kept.path)
    return kept


def _write_once(path: Path, content: bytes) -> None:
    """Write a file nobody else may read, whole or not at all; one that another process wrote meanwhile stays."""
    draft = path.with_suffix(f".{os.getpid()}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        with suppress(FileExistsError):
            os.link(draft, path)
    finally:
        draft.unlink()


def _made(names: list[str], addresses: list[str]) -> bytes:
    """A new key and a certificate it signed itself, in PEM."""
    try:
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ec
    except ImportError as missing:
        raise ExtraMissing("making a certificate", package="cryptography", extra="serve") from missing
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "seqrt worker")])
    alternatives: list[x509.GeneralName] = [x509.DNSName(host) for host in names if _HOST_NAME.fullmatch(host)]
    alternatives += [x509.IPAddress(ipaddress.ip_address(address)) for address in addresses]
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        # Who pins it looks at no dates: robots without a clock, and nothing ends one night years from now.
        .not_valid_before(datetime.datetime(2020, 1, 1))
        .not_valid_after(datetime.datetime(9999, 12, 31, 23, 59, 59))  # RFC 5280 (4.1.2.5): no end
        .add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return secret + certificate.public_bytes(serialization.Encoding.PEM)


async def secured(
    stream: anyio.abc.SocketStream, context: ssl.SSLContext, *, within_s: float = HANDSHAKE_S
) -> TLSStream | None:
    """A client's connection over TLS; None, and closed, where the client finishes no handshake."""
    secure: TLSStream | None = None
    try:
        with anyio.move_on_after(within_s):
            secure = await TLSStream.wrap(stream, server_side=True, ssl_context=context, standard_compatible=False)
    except ssl.SSLError as error:
        logger.debug("%s", line("handshake.failed", None, error=error.reason))
        if error.reason in ("HTTP_REQUEST", "WRONG_VERSION_NUMBER"):
            await _say_tls(stream)
    except _GONE:
        logger.debug("%s", line("handshake.left", None))
    finally:
        if secure is None:
            await anyio.aclose_forcefully(stream)
    return secure


async def _say_tls(stream: anyio.abc.SocketStream) -> None:
    """Tell a client that speaks plain HTTP; whatever else it sends is read, or the answer would be lost with it."""
    said = b"this port speaks TLS: use https://\n"
    with anyio.move_on_after(_LINGER_S), suppress(*_GONE):
        await stream.send(_PLAIN % (len(said), said))
        await stream.send_eof()
        while True:
            await stream.receive()
