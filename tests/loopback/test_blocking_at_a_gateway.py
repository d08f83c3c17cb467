"""`seqrt.blocking` at a gateway, over TLS and with keys."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio.from_thread
import pytest

import seqrt.blocking as seqrt
from seqrt.errors import CertificateRefused
from seqrt.gateway.keys import Key, hash_of, with_key
from seqrt.gateway.server import gateway
from seqrt.policies import policy
from seqrt.policies.robot_arm import ActionContract
from seqrt.worker import Certificate, serving

TLS = Certificate(Path(__file__).with_name("selfsigned.pem"), pinned=True)
KEY, COUNTED = "seq_of-an-arm", "seq_good-for-three-acts"
OBSERVED = seqrt.Observation(
    images=[seqrt.ImageFrame(view="wrist", data="/9j/")],
    proprioception=seqrt.Proprioception(joint_positions=[0.0], gripper=0.25),
    instruction="push",
)


@policy(
    action_contract=ActionContract(robot="panda", action_space="joint_absolute", action_dim=1, control_frequency_hz=100)
)
class Arm:
    """Stays where it is."""

    def infer(self, obs: Any) -> Any:
        return [obs["proprioception"]["joint_positions"]] * 20


@dataclass(frozen=True)
class Place:
    url: str
    worker: str


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    keys = tmp_path / "keys"
    text = with_key("", Key(name="arm", sha256=hash_of(KEY.encode())), str(keys))
    keys.write_text(with_key(text, Key(name="trial", sha256=hash_of(COUNTED.encode()), acts=3), str(keys)))

    @asynccontextmanager
    async def served() -> AsyncIterator[Place]:
        async with (
            serving(Arm(), secret="of-the-worker", tls=TLS) as worker,
            gateway(
                {"reach": worker.url},
                keys=keys,
                secret="of-the-worker",
                fingerprints={worker.url: TLS.fingerprint},
                tls=TLS,
            ) as server,
        ):
            yield Place(server.url, worker.url)

    async def entered() -> Any:
        return served()

    with (
        anyio.from_thread.start_blocking_portal() as portal,
        portal.wrap_async_context_manager(portal.call(entered)) as at,
    ):
        yield at


def connected(place: Place, model: str = "reach", key: str = KEY, path: str = "") -> seqrt.Policy:
    return seqrt.connect(model, api_key=key, base_url=place.url + path, fingerprint=TLS.fingerprint)


def test_a_run_goes_straight_to_the_worker_that_the_gateway_names(place: Place) -> None:
    rows: list[Any] = []
    with connected(place) as policy:
        outcome = policy.run(
            lambda: OBSERVED, rows.append, max_actions=10, validate=lambda row: True, hold=lambda: None
        )
        assert (outcome.actions, outcome.reason, len(rows)) == (10, "completed", 10)
        assert policy.statistics().host == place.worker.removeprefix("https://")


def test_a_catalogue_is_read_over_a_pinned_certificate_and_over_no_other(place: Place) -> None:
    (listed,) = seqrt.models(base_url=place.url, fingerprint=TLS.fingerprint)
    assert (listed.id, listed.robot, listed.control_hz) == ("accounts/sequences/models/reach", "panda", 100)
    assert seqrt.models(endpoint="chat", base_url=place.url, fingerprint=TLS.fingerprint) == []
    for pinned in (None, "0" * 64):
        with pytest.raises(CertificateRefused):
            seqrt.models(base_url=place.url, fingerprint=pinned)


@pytest.mark.parametrize(
    ("given", "refused", "told"),
    [
        ({"model": "raech"}, seqrt.NotFound, "there is reach"),
        ({"key": "seq_nobodys"}, seqrt.AuthError, "unknown here"),
        ({"key": COUNTED}, seqrt.PermissionDenied, "without --acts"),
        ({"path": "/v1"}, seqrt.NotFound, "base_url= goes without /v1"),
    ],
)
def test_what_a_gateway_refuses_is_said_with_what_to_do(
    given: dict[str, str], refused: type[Exception], told: str, place: Place
) -> None:
    with connected(place, **given) as policy, pytest.raises(refused, match=told):
        policy.predict(OBSERVED)
