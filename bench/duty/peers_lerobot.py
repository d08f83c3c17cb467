"""LeRobot's own server and client loop around the benchmark's policy and arm. Runs in an interpreter that has them.

``python bench/duty/peers_lerobot.py serve --rows 15 --hz 15 --by state`` prints a port and serves until its input
closes; ``... drive --port 4711 --rows 15 --hz 15 --seconds 14`` prints the arm's log as JSON.

Both halves are theirs: `PolicyServer` with its model replaced, `RobotClient` with its defaults (a new observation at
half a chunk, queued rows 0.3 and the new ones 0.7 of what is played) around a robot registered as its plugins are. A
row that two chunks went into carries the same average of their ``t`` and ``i``, so its lateness is that average too;
a seam is then where another chunk joins in or leaves off. ``--aggregate latest_only`` plays rows as they are.
"""
# ruff: noqa: I001 - lerobot_ends comes before all that is LeRobot's

from __future__ import annotations

import argparse
import json
import logging
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[2]))

from bench.lerobot_ends import SCRATCH, Ready, Server, listening

import torch
from arm import Arm, rows  # type: ignore[import-not-found]  # beside this file, not a package there
from lerobot.async_inference.configs import PolicyServerConfig, RobotClientConfig
from lerobot.async_inference.robot_client import RobotClient
from lerobot.robots import RobotConfig

UNITS = 100.0
"""LeRobot's units a position: its joints run from -100 to 100.

Its server drops an observation within 1 of the last it answered: with 1 a position it would drop nearly all of them.
"""


@RobotConfig.register_subclass("duty")
@dataclass(kw_only=True)
class DutyConfig(RobotConfig):  # type: ignore[misc]
    """What makes LeRobot build a `Duty`."""


class Duty(Ready):  # type: ignore[misc]
    """The benchmark's arm as a LeRobot robot: one joint it tells of, and a row's three columns as its commands."""

    config_class, name = DutyConfig, "duty"
    observation_features = {"x": float}  # noqa: RUF012  # a property there; the clock is not compared, so not in it
    action_features = {"x": float, "t": float, "i": float}  # noqa: RUF012

    def __init__(self, config: DutyConfig) -> None:
        super().__init__(config)
        self.arm = Arm()

    def get_observation(self) -> dict[str, Any]:
        t, x = self.arm.look()
        return {"x": UNITS * x, "t": t}

    def send_action(self, action: dict[str, Any]) -> dict[str, Any]:
        self.arm.move((action["x"], action["t"], action["i"]))
        return action


class Client(RobotClient):  # type: ignore[misc]
    """Theirs, counting the chunks that came."""

    def _aggregate_action_queues(self, incoming_actions: Any, aggregate_fn: Any = None) -> None:
        self.robot.arm.acts += 1
        super()._aggregate_action_queues(incoming_actions, aggregate_fn)


class Moves(Server):  # type: ignore[misc]
    """Theirs: its queue of one observation and its filter, with the benchmark's policy for its model."""

    def __init__(self, options: argparse.Namespace) -> None:
        super().__init__(PolicyServerConfig(fps=options.hz))
        self._options = options

    def _predict_action_chunk(self, observation_t: Any) -> Any:
        self.last_processed_obs = observation_t
        raw, options = observation_t.get_observation(), self._options
        time.sleep(options.infer_s)
        answer = rows([raw["t"], raw["x"] / UNITS], options.rows, options.hz, options.by)
        chunk = list(torch.tensor(answer, dtype=torch.float64))
        return self._time_action_chunk(observation_t.get_timestamp(), chunk, observation_t.get_timestep())


def serve(options: argparse.Namespace) -> None:
    """As LeRobot serves, on any free port."""
    server, port = listening(Moves(options))
    server.start()
    sys.stdout.write(f"{port}\n")
    sys.stdout.flush()
    sys.stdin.read()
    server.stop(None)


def drive(options: argparse.Namespace) -> None:
    """As LeRobot's ``async_client`` drives a robot."""
    config = RobotClientConfig(
        policy_type="act",
        pretrained_name_or_path="duty",
        robot=DutyConfig(calibration_dir=Path(SCRATCH.name)),
        actions_per_chunk=options.rows,
        fps=options.hz,
        server_address=f"127.0.0.1:{options.port}",
        aggregate_fn_name=options.aggregate,
    )
    client = Client(config)
    if not client.start():
        sys.exit("no server")
    receiver = threading.Thread(target=client.receive_actions, daemon=True)
    receiver.start()
    threading.Timer(options.seconds, client.shutdown_event.set).start()
    client.control_loop(task="")
    logging.disable(logging.ERROR)  # closing its channel breaks off the receiver's request, which it tells as an error
    client.stop()
    receiver.join(timeout=5)
    arm = client.robot.arm
    json.dump({"log": arm.log, "acts": arm.acts, "inference_s": arm.acts * options.infer_s}, sys.stdout)


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("serve", "drive"))
    parser.add_argument("--rows", type=int, required=True)
    parser.add_argument("--hz", type=lambda hz: int(float(hz)), required=True)
    parser.add_argument("--by", choices=("clock", "state"), default="clock")
    parser.add_argument("--port", type=int)
    parser.add_argument("--seconds", type=float, default=14.0)
    parser.add_argument("--infer-s", type=float, default=0.128)
    parser.add_argument("--aggregate", default="weighted_average")
    options = parser.parse_args()
    {"serve": serve, "drive": drive}[options.what](options)


if __name__ == "__main__":
    main()
