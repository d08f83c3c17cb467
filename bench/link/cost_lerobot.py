"""LeRobot's server and client of the cost table; runs in an interpreter that has lerobot and grpcio.

``python cost_lerobot.py serve`` and ``... ask <port>`` do as `cost_servers` and `cost_callers`. Both halves are theirs:
`PolicyServer` with its model replaced and its wait for a minimal latency taken out, `RobotClient.send_observation` and
the request of its receiving thread.
"""
# ruff: noqa: I001 - lerobot_ends comes before all that is LeRobot's

from __future__ import annotations

import pickle
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[2]))

from bench.lerobot_ends import SCRATCH, Ready, Server, listening

import numpy as np
import torch
from cost_callers import DIMS, ROWS, answer, orders  # type: ignore[import-not-found]  # beside this file
from cost_servers import chunk, introduce  # type: ignore[import-not-found]
from lerobot.async_inference.configs import PolicyServerConfig, RobotClientConfig
from lerobot.async_inference.helpers import TimedObservation
from lerobot.async_inference.robot_client import RobotClient
from lerobot.robots import RobotConfig
from lerobot.transport import services_pb2


@RobotConfig.register_subclass("cost")
@dataclass(kw_only=True)
class StillConfig(RobotConfig):  # type: ignore[misc]
    """What makes LeRobot build a `Still`."""


class Still(Ready):  # type: ignore[misc]
    """A robot for the client to be made with; it is never driven."""

    config_class, name = StillConfig, "cost"
    observation_features = action_features = {"x": float}  # noqa: RUF012  # properties there

    def get_observation(self) -> dict[str, Any]:
        return {"x": 0.0}

    def send_action(self, action: dict[str, Any]) -> dict[str, Any]:
        return action


class Instant(Server):  # type: ignore[misc]
    """Theirs, with a chunk that is ready for its model."""

    def __init__(self) -> None:
        super().__init__(PolicyServerConfig(fps=15, inference_latency=0.0))
        self._chunk = list(torch.tensor(chunk()))

    def _predict_action_chunk(self, observation_t: Any) -> Any:
        assert observation_t.get_observation()["picture"].dtype == np.uint8
        return self._time_action_chunk(observation_t.get_timestamp(), self._chunk, observation_t.get_timestep())


def serve() -> None:
    """As LeRobot serves, on any free port."""
    server, port = listening(Instant())
    introduce(port)
    server.start()
    threading.Event().wait()


def ask(port: int) -> None:
    """Observations there, chunks back, in lockstep."""
    config = RobotClientConfig(
        policy_type="act",
        pretrained_name_or_path="cost",
        robot=StillConfig(calibration_dir=Path(SCRATCH.name)),
        actions_per_chunk=ROWS,
        server_address=f"127.0.0.1:{port}",
    )
    client, step = RobotClient(config), 0
    if not client.start():
        sys.exit("no server")
    for payload, calls in orders():
        seen = {"picture": np.frombuffer(payload, np.uint8)}

        def act(seen: dict[str, Any] = seen) -> None:
            nonlocal step
            step += 1
            timed = TimedObservation(timestamp=time.time(), timestep=step, observation=seen, must_go=True)
            assert client.send_observation(timed)
            got = pickle.loads(client.stub.GetActions(services_pb2.Empty()).data)
            assert len(got) == ROWS
            assert got[0].get_action().shape == (DIMS,)

        answer(act, calls)


if __name__ == "__main__":
    serve() if sys.argv[1] == "serve" else ask(int(sys.argv[2]))
