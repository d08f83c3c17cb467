"""After a pause TCP sends ten segments at once, and what is longer waits a round trip: acts are shorter."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from seqrt.wire.codec import encode
from seqrt.wire.messages import ActRequest, AskPlan

TEN_SEGMENTS = 10 * 1448
HEAD = 500
"""More than an act's head takes, with a key."""


@pytest.mark.parametrize("prefix", [None, np.zeros((50, 14)), np.zeros((50, 32))])
def test_an_act_without_data_fits_into_what_tcp_sends_after_a_pause(prefix: Any) -> None:
    plan = AskPlan(
        session="s" * 32, steps_left=50, hz=50.0, net_p95_ms=101.5, previous=10**6, dry_in_s=0.98, begun=True,
        prefix=prefix, prefix_space="model", d=12, s=25, predicted_state=np.zeros(32), want_rows_model=True, epoch=7,
    )  # fmt: skip
    act = ActRequest(call="act", seq=10**6, seed=1, episode_id="e" * 32, params={"steps": 10}, plan=plan)
    assert len(encode(act)) + HEAD < TEN_SEGMENTS
