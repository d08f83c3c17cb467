"""LeRobot's server with more than one robot; for an interpreter that has lerobot and grpcio (not ours).

``python bench/fleet/lerobot_robots.py 1 2 4``. The server is theirs, with its model replaced by 20 ms that answer
with the robot the observation was of. Each robot acts once a second with what its pictures are there: it sends the
observation and asks for the chunk, over a channel of its own, as their client does.
"""
# ruff: noqa: I001 - lerobot_ends comes before all that is LeRobot's

from __future__ import annotations

import pickle
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[2]))

from bench.lerobot_ends import Server, listening

import grpc
import numpy as np
import torch
from lerobot.async_inference.configs import PolicyServerConfig
from lerobot.async_inference.helpers import TimedObservation
from lerobot.transport import services_pb2, services_pb2_grpc
from lerobot.transport.utils import send_bytes_in_chunks

INFER_S, SECONDS, ROWS, DIMS = 0.020, 6, 10, 7


class Whose(Server):  # type: ignore[misc]
    """Answers with the robot that was seen."""

    def _predict_action_chunk(self, observation_t: Any) -> Any:
        time.sleep(INFER_S)
        seen = observation_t.get_observation()
        rows = torch.full((ROWS, DIMS), float(seen["robot"]))
        return self._time_action_chunk(observation_t.get_timestamp(), list(rows), observation_t.get_timestep())


def robot(number: int, port: int, begins: threading.Barrier, found: Counter[str], took: list[float]) -> None:
    """One robot, for `SECONDS` acts."""
    channel = grpc.insecure_channel(f"127.0.0.1:{port}", [("grpc.max_send_message_length", -1)])
    stub = services_pb2_grpc.AsyncInferenceStub(channel)
    stub.Ready(services_pb2.Empty())
    begins.wait()
    views = {view: np.zeros((224, 224, 3), np.uint8) for view in ("front", "wrist")}
    for step in range(SECONDS):
        due = time.monotonic()
        seen = TimedObservation(time.time(), step * 15, {"robot": number, **views}, must_go=True)
        stub.SendObservations(
            send_bytes_in_chunks(pickle.dumps(seen), services_pb2.Observation, log_prefix="", silent=True)
        )
        answer = stub.GetActions(services_pb2.Empty())
        if not answer.data:
            found["none"] += 1
        else:
            own = float(pickle.loads(answer.data)[0].get_action()[0]) == number
            found["own" if own else "foreign"] += 1
            took.append(time.monotonic() - due)
        time.sleep(max(0.0, due + 1.0 - time.monotonic()))
    channel.close()


def main() -> None:
    """The command."""
    print(
        "| robots | chunks of its own | of another robot's observation | none | p50 / max ms |\n|---|---|---|---|---|"
    )
    for robots in map(int, sys.argv[1:] or ["1", "2", "4"]):
        server, port = listening(Whose(PolicyServerConfig(fps=15, inference_latency=0.0)))
        server.start()
        found, took, begins = Counter[str](), list[float](), threading.Barrier(robots)
        driving = [threading.Thread(target=robot, args=(n, port, begins, found, took)) for n in range(robots)]
        for each in driving:
            each.start()
        for each in driving:
            each.join()
        server.stop(None)
        took.sort()
        times = f"{took[len(took) // 2] * 1e3:.0f} / {took[-1] * 1e3:.0f}" if took else "-"
        print(f"| {robots} | {found['own']} | {found['foreign']} | {found['none']} | {times} |")


if __name__ == "__main__":
    main()
