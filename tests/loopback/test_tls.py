"""TLS between a robot and its worker: who is trusted, what is spoken, and how it is told when it comes to nothing."""

from __future__ import annotations

import contextlib
import logging
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import pytest
from anyio.streams.tls import TLSStream
from echoing import HANG_S

import seqrt
from seqrt.worker import Certificate, Server, app, self_signed, serving
from seqrt.worker.listening import listening
from seqrt.worker.tls import secured

pytestmark = pytest.mark.anyio

CERTIFICATE = Certificate(Path(__file__).with_name("selfsigned.pem"), pinned=True)
FINGERPRINT = CERTIFICATE.fingerprint
OTHER = "0123456789abcdef" * 4
GONE = (anyio.EndOfStream, anyio.BrokenResourceError, ssl.SSLError)


class Adds:
    def infer(self, obs: Any) -> Any:
        return [[float(obs["x"]) + 1]]


async def added(base_url: str, **options: Any) -> tuple[float, str]:
    """What the policy there adds to 1, and what was spoken."""
    with anyio.fail_after(HANG_S):
        async with seqrt.connect(base_url=base_url, **options) as policy:
            chunk = await policy.predict({"x": 1.0})
            return float(chunk.rows[0][0]), policy.statistics().link.protocol


async def refused(kind: type[Exception], base_url: str, **options: Any) -> Any:
    with pytest.raises(kind) as raised:
        await added(base_url, **options)
    return raised.value


@contextlib.asynccontextmanager
async def by_hand(serve: Callable[[anyio.abc.SocketStream], Awaitable[None]]) -> AsyncIterator[str]:
    """The host and port ``serve`` is reached at."""
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=0)
    async with listener, anyio.create_task_group() as serving_:
        serving_.start_soon(listener.serve, serve)
        yield f"127.0.0.1:{listener.extra(anyio.abc.SocketAttribute.local_port)}"
        serving_.cancel_scope.cancel()


# Whom to trust


@pytest.mark.parametrize("written", [FINGERPRINT, ":".join(FINGERPRINT[i : i + 2] for i in range(0, 64, 2)).upper()])
async def test_a_worker_whose_certificate_is_pinned_is_reached_over_http_2(written: str) -> None:
    async with serving(Adds(), tls=CERTIFICATE) as server:
        assert server.url.startswith("https://127.0.0.1:")
        assert await added(server.url, fingerprint=written) == (2.0, "HTTP/2")


async def test_with_another_certificate_nothing_is_sent_and_both_fingerprints_are_told() -> None:
    context, received = CERTIFICATE.context(), list[bytes]()

    async def serve(stream: anyio.abc.SocketStream) -> None:
        async with stream:
            with contextlib.suppress(*GONE):
                secure = await TLSStream.wrap(stream, ssl_context=context, standard_compatible=False)
                received.append(await secure.receive())

    async with by_hand(serve) as place:
        error = await refused(seqrt.CertificateRefused, f"https://{place}", fingerprint=OTHER, api_key="secret-of-mine")
    assert received == []
    assert (error.expected, error.found, error.host, error.phase) == (OTHER, FINGERPRINT, place, "connect")
    assert OTHER in str(error)
    assert FINGERPRINT in str(error)
    assert "console" in str(error)
    assert not error.retryable


async def test_a_certificate_that_nobody_vouches_for_is_refused_with_the_way_to_pin_it() -> None:
    async with serving(Adds(), tls=CERTIFICATE) as server:
        error = await refused(seqrt.CertificateRefused, server.url)
    assert 'connect(..., fingerprint="...")' in str(error)
    assert "seqrt serve --tls" in str(error)


async def test_ssl_cert_file_names_an_authority(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = self_signed(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(made.path))
    async with serving(Adds(), tls=made) as server:
        assert await added(server.url) == (2.0, "HTTP/2")
    async with serving(Adds(), tls=made, host="127.0.0.2") as server:
        wrong_name = await refused(seqrt.CertificateRefused, server.url)
    assert "127.0.0.2" in wrong_name.detail


@pytest.mark.parametrize("given", ["", "abc", FINGERPRINT[:-1], FINGERPRINT + "0", "g" * 64, "sha256:" + FINGERPRINT])
async def test_a_fingerprint_that_is_none_is_refused_before_anything_is_opened(given: str) -> None:
    error = await refused(ValueError, "https://127.0.0.1:1", fingerprint=given)
    assert "64 hex digits" in str(error)


async def test_a_fingerprint_beside_plain_http_is_refused() -> None:
    assert "https://" in str(await refused(ValueError, "http://127.0.0.1:1", fingerprint=FINGERPRINT))


async def test_a_proxy_that_is_set_is_gone_past_and_that_is_said(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:1")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    with caplog.at_level(logging.WARNING, "seqrt"):
        await refused(seqrt.Unavailable, "https://0.0.0.0:1", fingerprint=FINGERPRINT)
    assert "HTTPS_PROXY is set; the link to 0.0.0.0:1 goes past the proxy it names" in caplog.text


# What is spoken


async def test_where_no_http_2_is_agreed_on_http_1_1_is_spoken_and_said_once(caplog: pytest.LogCaptureFixture) -> None:
    old = CERTIFICATE.context()
    old.set_alpn_protocols(["http/1.1"])
    async with (
        serving(Adds()) as worker,
        listening(app(worker.policy), host="127.0.0.1", port=0, tls=old) as port,
    ):
        with caplog.at_level(logging.WARNING, "seqrt"):
            assert await added(f"https://127.0.0.1:{port}", fingerprint=FINGERPRINT) == (2.0, "HTTP/1.1")
    assert [record.getMessage().partition(":")[0] for record in caplog.records] == ["127.0.0.1"]
    assert "HTTP/1.1 and no HTTP/2" in caplog.text


async def test_plain_http_on_the_port_of_tls_is_told_to_use_https() -> None:
    async with serving(Adds(), tls=CERTIFICATE) as server:
        error = await refused(seqrt.LinkLost, server.url.replace("https:", "http:"))
    assert "this port speaks TLS: use https://" in str(error)
    assert error.hint is None


async def test_plain_http_is_told_of_tls_by_servers_that_only_send_an_alert() -> None:
    async def serve(stream: anyio.abc.SocketStream) -> None:
        async with stream:
            await stream.receive()
            await stream.send(b"\x15\x03\x03\x00\x02\x02\x46")

    async with by_hand(serve) as place:
        error = await refused(seqrt.LinkLost, f"http://{place}")
    assert "https://" in str(error)
    assert error.hint is None


async def test_tls_on_the_port_of_plain_http_is_told_so() -> None:
    async with serving(Adds()) as server:
        error = await refused(seqrt.LinkLost, server.url.replace("http:", "https:"), fingerprint=FINGERPRINT)
    assert "http:// there, without the s" in str(error)
    assert error.hint is None


@pytest.mark.parametrize(("said", "hint"), [("", "is that a worker? It has to speak HTTP/2 there"), ("moved", None)])
async def test_who_speaks_http_1_1_is_asked_after_unless_it_says_itself_what_it_is(said: str, hint: str | None) -> None:
    async def serve(stream: anyio.abc.SocketStream) -> None:
        async with stream:
            await stream.receive()
            await stream.send(f"HTTP/1.1 400 Bad Request\r\n\r\n{said}".encode())

    async with by_hand(serve) as place:
        error = await refused(seqrt.LinkLost, f"http://{place}")
    assert "HTTP/1.1 and no HTTP/2 (HTTP/1.1 400 Bad Request)" in error.detail
    assert (error.hint, error.phase) == (hint, "policy")


async def test_where_nobody_listens_the_worker_is_asked_after() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        error = await refused(seqrt.LinkLost, f"http://127.0.0.1:{taken.getsockname()[1]}")
    assert "is seqrt serve running there" in (error.hint or "")


# Handshakes that come to nothing


async def test_a_handshake_cut_in_the_middle_is_told_as_one() -> None:
    async def serve(stream: anyio.abc.SocketStream) -> None:
        async with stream:
            await stream.receive()

    async with by_hand(serve) as place:
        error = await refused(seqrt.LinkLost, f"https://{place}", fingerprint=FINGERPRINT)
    assert (error.phase, error.retryable) == ("connect", True)
    assert "TLS handshake" in str(error)


@pytest.mark.parametrize("scheme", ["https", "http"])
async def test_a_connect_that_is_cancelled_leaves_no_socket_open(scheme: str) -> None:
    heard, over = anyio.Event(), anyio.Event()

    async def serve(stream: anyio.abc.SocketStream) -> None:
        async with stream:
            with contextlib.suppress(*GONE):
                await stream.receive()
                heard.set()
                while True:
                    await stream.receive()
            over.set()

    async with by_hand(serve) as place:
        async with anyio.create_task_group() as connecting:
            connecting.start_soon(added, f"{scheme}://{place}")
            await heard.wait()
            connecting.cancel_scope.cancel()
        with anyio.fail_after(HANG_S):
            await over.wait()


async def test_a_handshake_that_takes_too_long_is_told_and_leaves_no_socket_open() -> None:
    over = anyio.Event()

    async def serve(stream: anyio.abc.SocketStream) -> None:
        async with stream:
            with contextlib.suppress(*GONE):
                while True:
                    await stream.receive()
            over.set()

    async with by_hand(serve) as place:
        await refused(seqrt.Unavailable, f"https://{place}", fingerprint=FINGERPRINT, timeout_s=1.0)
        with anyio.fail_after(HANG_S):
            await over.wait()


async def test_a_client_that_does_not_finish_its_handshake_is_let_go_and_holds_up_nobody() -> None:
    context, let_go = CERTIFICATE.context(), anyio.Event()

    async def serve(stream: anyio.abc.SocketStream) -> None:
        assert await secured(stream, context, within_s=0.05) is None
        let_go.set()

    async with by_hand(serve) as place:
        host, _, port = place.partition(":")
        async with await anyio.connect_tcp(host, int(port)) as stream:
            with anyio.fail_after(HANG_S):
                with pytest.raises((anyio.BrokenResourceError, anyio.EndOfStream)):
                    await stream.receive()
                await let_go.wait()
    async with serving(Adds(), tls=CERTIFICATE) as server, await anyio.connect_tcp(server.host, server.port):
        assert await added(server.url, fingerprint=FINGERPRINT) == (2.0, "HTTP/2")


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\n", b"\x16\x03\x01\x00", bytes(range(256)) * 40])
async def test_a_server_stops_at_once_whatever_its_clients_left_half_said(sent: bytes) -> None:
    async with contextlib.AsyncExitStack() as opened:
        async with serving(Adds(), tls=CERTIFICATE, grace_s=30) as server:
            stream = await opened.enter_async_context(await anyio.connect_tcp(server.host, server.port))
            if sent:
                await stream.send(sent)
            assert await added(server.url, fingerprint=FINGERPRINT) == (2.0, "HTTP/2")
            leaving = anyio.current_time()
        assert anyio.current_time() - leaving < 20


# A worker's own certificate


async def test_a_certificate_made_is_kept_for_its_fingerprint_to_outlive_restarts(tmp_path: Path) -> None:
    made, again = self_signed(tmp_path / "tls"), self_signed(tmp_path / "tls")
    assert made.fingerprint == again.fingerprint != self_signed(tmp_path / "other").fingerprint
    assert made.path.stat().st_mode & 0o777 == 0o600
    assert [file.name for file in made.path.parent.iterdir()] == [made.path.name]
    async with serving(Adds(), tls=again) as server:
        assert await added(server.url, fingerprint=made.fingerprint) == (2.0, "HTTP/2")


@pytest.mark.parametrize("content", [None, "", "no PEM", "-----BEGIN CERTIFICATE-----\nA\n-----END CERTIFICATE-----"])
async def test_a_certificate_that_cannot_be_used_is_named(content: str | None, tmp_path: Path) -> None:
    path = tmp_path / "own.pem"
    if content is not None:
        path.write_text(content)
    with pytest.raises(seqrt.CertificateUnusable, match=r"own\.pem") as raised:
        async with serving(Adds(), tls=Certificate(path)):
            pass
    assert raised.value.path == str(path)
    with pytest.raises(seqrt.CertificateUnusable):
        Certificate(path).fingerprint  # noqa: B018


async def test_a_key_of_another_certificate_is_refused(tmp_path: Path) -> None:
    with pytest.raises(seqrt.CertificateUnusable, match="KEY_VALUES_MISMATCH"):
        Certificate(CERTIFICATE.path, self_signed(tmp_path).path).context()


async def test_large_pictures_arrive_whole_over_tls() -> None:
    class Sums:
        def infer(self, obs: Any) -> Any:
            return [[float(obs["x"][::1000].sum())], *([[0.0]] * 3)]

    async with serving(Sums(), tls=CERTIFICATE) as server:
        await _carries(server)


async def _carries(server: Server) -> None:
    import numpy as np

    picture = np.ones(5_000_000, np.uint8)
    async with seqrt.connect(base_url=server.url, fingerprint=FINGERPRINT) as policy:
        assert (await policy.predict({"x": picture})).rows[0][0] == 5000
