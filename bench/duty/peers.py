"""The peers' own client loops, driving the benchmark's arm. Runs in an interpreter that has them, without seqrt.

``python bench/duty/peers.py sequence-ai --port 4711 --rows 15 --hz 15 --seconds 14 [--no-prefetch]`` prints the arm's
log as JSON.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from arm import Arm  # type: ignore[import-not-found]  # beside this file, not a package there


def sequence_ai(arm: Arm, options: argparse.Namespace) -> None:
    """`sequence-ai` 0.1.0's ``Policy.run``."""
    import sequence_ai
    from sequence_ai.types import Observation, Proprioception

    warnings.simplefilter("ignore")

    def counted(prediction: Any) -> None:
        arm.acts += 1
        arm.inference_s += prediction.perf["inference_ms"] / 1000

    with sequence_ai.connect(model="duty", api_key="none", base_url=f"http://127.0.0.1:{options.port}") as policy:
        policy.run(
            lambda: Observation(images=[], proprioception=Proprioception(joint_positions=arm.look()), instruction=""),
            arm.move,
            max_actions=int(options.seconds * options.hz),
            on_chunk=counted,
            prefetch=options.prefetch,
        )


def openpi(arm: Arm, options: argparse.Namespace) -> None:
    """openpi-client's ``Runtime`` over its ``ActionChunkBroker``, as its examples drive a robot."""
    import numpy as np
    from openpi_client.action_chunk_broker import ActionChunkBroker
    from openpi_client.runtime.agents.policy_agent import PolicyAgent
    from openpi_client.runtime.environment import Environment
    from openpi_client.runtime.runtime import Runtime
    from openpi_client.websocket_client_policy import WebsocketClientPolicy

    class Bench(Environment):  # type: ignore[misc]
        def reset(self) -> None:
            pass

        def is_episode_complete(self) -> bool:
            return arm.now() > options.seconds

        def get_observation(self) -> dict[str, Any]:
            return {"look": np.array(arm.look())}

        def apply_action(self, action: dict[str, Any]) -> None:
            arm.move(action["actions"])

    class Counted(WebsocketClientPolicy):  # type: ignore[misc]
        def infer(self, obs: dict[str, Any]) -> dict[str, Any]:
            arm.acts += 1
            arm.inference_s += options.infer_s
            answer: dict[str, Any] = super().infer(obs)
            return answer

    broker = ActionChunkBroker(Counted("127.0.0.1", options.port), action_horizon=options.rows)
    Runtime(Bench(), PolicyAgent(broker), [], max_hz=options.hz).run()


LOOPS = {"sequence-ai": sequence_ai, "openpi": openpi}


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=LOOPS)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--rows", type=int, required=True)
    parser.add_argument("--hz", type=float, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--infer-s", type=float, default=0.128)
    parser.add_argument("--no-prefetch", dest="prefetch", action="store_false")
    options = parser.parse_args()
    arm = Arm()
    LOOPS[options.what](arm, options)
    json.dump({"log": arm.log, "acts": arm.acts, "inference_s": arm.inference_s}, sys.stdout)


if __name__ == "__main__":
    main()
