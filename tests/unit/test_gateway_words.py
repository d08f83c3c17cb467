"""What a gateway says to whoever starts it, and of a worker that it cannot ask."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from seqrt.errors import CertificateRefused, RemoteError, remote_error
from seqrt.gateway.gate import Gate
from seqrt.gateway.models import Model, full_id
from seqrt.gateway.saying import robots_line
from seqrt.gateway.spending import Spending
from seqrt.gateway.upstream import told_operator
from seqrt.link.local import LocalLink
from seqrt.policies.host import Host
from seqrt.testing import inline
from seqrt.wire.messages import PolicyInfo
from seqrt.worker.tls import Certificate

ARM = PolicyInfo(protocol=1, model="arm", embodiments={"panda": {}})


@dataclass
class Listens:
    host: str = "127.0.0.1"
    tls: Certificate | None = None

    @property
    def url(self) -> str:
        return self.url_at(self.host)

    def url_at(self, host: str) -> str:
        return f"http{'s' if self.tls else ''}://{host}:1"


SELF_SIGNED = Path(__file__).parents[1] / "loopback" / "selfsigned.pem"
OURS, PINNED = Certificate(SELF_SIGNED), Certificate(SELF_SIGNED, pinned=True)


@pytest.mark.parametrize(
    ("info", "tls", "told"),
    [
        (ARM, None, "; with sequence-ai 0.1.0: sequence_ai.connect("),  # the newest takes no worker without TLS
        (ARM, OURS, "; with sequence-ai: sequence_ai.connect("),
        (ARM, PINNED, None),  # it trusts no certificate it is only told of
        (PolicyInfo(protocol=1, model="arm"), None, None),  # /v1/act is for robot-arm policies
        (None, None, None),
    ],
)
def test_a_line_for_sequence_ai_is_told_where_it_would_work(
    info: PolicyInfo | None, tls: Certificate | None, told: str | None
) -> None:
    model = Model(full_id("arm"), [LocalLink(Host(lambda obs: [[0.0]], offload=inline()))], info=info)
    said = robots_line(Listens(tls=tls), model, Gate(None, Spending()))
    assert said.startswith('on the robot: seqrt.connect(model="arm", base_url="http')
    assert ("sequence_ai" in said) == (told is not None)
    assert told is None or told in said


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (remote_error("unauthenticated", "this is not the worker's key", hint="connect(api_key=...)"), "--secret-env"),
        (CertificateRefused("another one", host="gpu:1", hint="connect(fingerprint=...)"), "MODEL=URL#FINGERPRINT"),
        (remote_error("unavailable", "connection refused", hint="is it there?"), "is it there?"),
    ],
)
def test_an_operator_is_told_what_to_do_at_the_gateway_and_not_at_a_robot(error: RemoteError, told: str) -> None:
    said = told_operator(error)
    assert error.detail in said
    assert told in said
    assert "connect(" not in said
