"""Leases as a table: granted, renewed, over; whose secret it is, and that nothing of it is shown."""

from __future__ import annotations

import re

import pytest

from seqrt.wire.leases import ConnectAnswer, Keepalive, LeaseGranted, LeaseTerms
from seqrt.worker.leases import Full, Leases, is_lease_secret

KEY = bytes(range(32))


def leases(**options: int | float) -> Leases:
    return Leases(KEY, epoch=7, **{"ttl_s": 60.0, **options})  # type: ignore[arg-type]


def test_a_secret_belongs_to_its_lease_until_that_is_over() -> None:
    table = leases()
    secret = table.grant("l-1", now=10.0).secret.encode()
    assert [table.owner(secret, now) for now in (10.0, 69.9, 70.0)] == ["l-1", "l-1", None]


def test_a_renewal_keeps_the_secret_and_counts_from_its_own_time() -> None:
    table = leases()
    first, second = table.grant("l-1", now=0.0), table.grant("l-1", now=50.0, ttl_s=5.0)
    assert second.secret == first.secret
    assert (second.expires_at, second.ttl_s, len(table)) == (55.0, 5.0, 1)


def test_a_lease_that_was_ended_is_refused_at_once() -> None:
    table = leases()
    secret = table.grant("l-1", now=0.0).secret.encode()
    assert table.end("l-1")
    assert table.owner(secret, 0.1) is None
    assert not table.end("l-1")


def test_one_lease_opens_nothing_of_another() -> None:
    table = leases()
    one, other = (table.grant(name, now=0.0).secret for name in ("l-1", "l-2"))
    assert one != other
    assert table.owner(one.replace("l-1", "l-2").encode(), 1.0) is None


@pytest.mark.parametrize(
    ("key", "epoch"), [(bytes(32), 7), (KEY, 8)], ids=["another process", "the same key, another epoch"]
)
def test_a_secret_of_the_process_before_is_refused(key: bytes, epoch: int) -> None:
    old = leases().grant("l-1", now=0.0).secret.encode()
    anew = Leases(key, epoch=epoch)
    anew.grant("l-1", now=0.0)
    assert anew.owner(old, 1.0) is None
    assert is_lease_secret(old)


@pytest.mark.parametrize(
    "text",
    [b"", b"key", b"seqrt-lease.", b"seqrt-lease.l-1.", b"seqrt-lease.l-1." + b"0" * 64, b"\xff" * 80, b"-" * 5000],
)
def test_what_is_no_secret_belongs_to_nobody(text: bytes) -> None:
    table = leases()
    table.grant("l-1", now=0.0)
    assert table.owner(text, 1.0) is None


def test_the_last_seat_is_not_given_twice_and_one_that_is_over_is_free() -> None:
    table = leases(most=2)
    table.grant("l-1", now=0.0)
    table.grant("l-2", now=30.0)
    with pytest.raises(Full):
        table.grant("l-3", now=59.0)
    table.grant("l-2", now=59.0)  # a renewal takes no seat
    assert table.grant("l-3", now=60.0).id == "l-3"


def test_those_that_are_over_are_handed_out_once() -> None:
    table = leases()
    table.grant("l-1", now=0.0)
    table.grant("l-2", now=0.0, ttl_s=90.0)
    assert table.next_expiry() == 60.0
    assert table.expired(75.0) == ["l-1"]
    assert table.expired(75.0) == []
    assert table.next_expiry() == 90.0


def test_a_key_that_is_too_short_is_refused() -> None:
    with pytest.raises(ValueError, match="32 random ones"):
        Leases(b"short", epoch=1)


def test_no_repr_shows_a_secret() -> None:
    table = leases()
    granted = table.grant("l-1", now=0.0)
    terms = LeaseTerms(ttl_s=60, expires_at="", epoch=7)
    shown = [
        repr(granted),
        repr(table),
        repr(LeaseGranted(lease="l-1", secret=granted.secret, epoch=7, ttl_s=60, expires_at="")),
        repr(
            ConnectAnswer(
                worker_url="http://gpu", cert_fingerprint=None, direct_secret=granted.secret, lease=terms,
                keepalive=Keepalive(every_s=20, seat_ttl_s=60),
            )
        ),
    ]  # fmt: skip
    code = granted.secret.rpartition(".")[2]
    assert re.fullmatch("[0-9a-f]{64}", code)
    assert not any(code in text for text in shown)
    assert "l-1" in shown[0]
