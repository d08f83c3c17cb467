"""What the benchmarks' robots and servers for LeRobot have in common; for an interpreter that has lerobot and grpcio.

Import it before anything of LeRobot's, which opens its log where it stands when it is imported: that is `SCRATCH` from
here on, the process's own directory and gone with it.
"""
# ruff: noqa: E402 - the place is made before LeRobot is imported

from __future__ import annotations

import logging
import os
import pickle
import tempfile
from concurrent.futures import ThreadPoolExecutor
from typing import Any

SCRATCH = tempfile.TemporaryDirectory(prefix="bench-")
os.chdir(SCRATCH.name)
logging.disable(logging.WARNING)

import grpc
from lerobot.async_inference.policy_server import PolicyServer
from lerobot.robots import Robot
from lerobot.transport import services_pb2, services_pb2_grpc


class Ready(Robot):  # type: ignore[misc]
    """A robot with nothing to connect or calibrate."""

    is_connected = is_calibrated = True

    def connect(self, calibrate: bool = True) -> None:
        pass

    def calibrate(self) -> None:
        pass

    def configure(self) -> None:
        pass

    def disconnect(self) -> None:
        pass


class Server(PolicyServer):  # type: ignore[misc]
    """Theirs, without a model to load: who derives from it says what is predicted."""

    def SendPolicyInstructions(self, request: Any, context: Any) -> Any:
        self.lerobot_features = pickle.loads(request.data).lerobot_features
        return services_pb2.Empty()


def listening(server: Server) -> tuple[grpc.Server, int]:
    """What serves it as LeRobot does, to be started, and any free port it has."""
    listener = grpc.server(ThreadPoolExecutor(max_workers=4))
    services_pb2_grpc.add_AsyncInferenceServicer_to_server(server, listener)
    return listener, listener.add_insecure_port("127.0.0.1:0")
