"""Heads on HTTP/2: what goes into the table, what never does, and that frames are not written out for nobody."""

from __future__ import annotations

import hpack
import hyperframe.frame
import pytest

from seqrt.wire.heads import PlainEncoder, plain_fields

pytest.importorskip("hypercorn", reason='the worker\'s server is not installed: pip install "seqrt[serve]"')

from seqrt.worker.h2 import _Frames


def head(n: int) -> list[tuple[bytes, bytes]]:
    return [
        (b"content-type", b"application/x-seq-msgpack"),
        (b"content-length", b"%d" % n),
        (b"x-seq-request-id", b"r-%016x" % n),
    ]


def test_fields_of_http_1_are_left_out_and_names_are_in_lower_case() -> None:
    given = [(b"Connection", b"close"), (b"Host", b"worker"), (b"Upgrade", b"h2c"), (b"Content-Type", b"a/b")]
    assert plain_fields(given) == [(b"content-type", b"a/b")]


def test_what_differs_each_time_is_never_kept_in_the_table() -> None:
    encoder, decoder = PlainEncoder(), hpack.Decoder()
    for n in range(50):
        block = encoder.encode(plain_fields(head(n)))
        assert list(decoder.decode(block, raw=True)) == head(n)
    assert [name for name, _ in encoder.header_table.dynamic_entries] == [b"content-type"]
    assert [name for name, _ in decoder.header_table.dynamic_entries] == [b"content-type"]


def test_a_secret_is_never_kept_in_the_table() -> None:
    encoder = PlainEncoder()
    encoder.encode(plain_fields([(b"authorization", b"Bearer of-the-arm")]))
    assert not encoder.header_table.dynamic_entries


def test_a_frame_is_said_to_no_log_with_all_its_bytes_in_hex() -> None:
    sent = hyperframe.frame.DataFrame(1, data=b"picture" * 4000)
    frames = _Frames(server=True)
    frames.max_frame_size = 2**18
    frames.add_data(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + sent.serialize())
    (frame,) = frames
    assert frame.data == sent.data
    assert sent.data.hex()[:20] in repr(sent)
    assert sent.data.hex()[:20] not in repr(frame)
