"""Drives the newest `sequence-ai`: one handle, observations and data-less acts."""

from __future__ import annotations

import os
from typing import Any

import sequence_ai
from conversation import converse


class Driver:
    """One handle at a time."""

    def __init__(self) -> None:
        self.policy: sequence_ai.Policy | None = None

    def connect(self, environment: dict[str, str] | None = None, **given: Any) -> str:
        self.close()
        os.environ.update(environment or {})
        self.policy = sequence_ai.connect(**given)
        return self.policy.model

    def close(self) -> None:
        if self.policy is not None:
            self.policy.close()
            self.policy = None

    def ready(self, timeout_s: float = 60.0) -> None:
        self.policy.wait_until_ready(timeout_s=timeout_s, poll_s=0.5)

    def observe_arrays(self, observations: list[Any], dtype: str) -> list[int]:
        """Observations whose lists go as arrays; needs numpy."""
        import numpy as np

        arrays = [{key: np.asarray(value, dtype) for key, value in each.items()} for each in observations]
        return self.observe(arrays)

    def act_type(self) -> dict[str, str]:
        """What of an answer is an array: its type, by key."""
        return {key: str(getattr(value, "dtype", type(value).__name__)) for key, value in self.act().items()}

    def observe(self, observations: list[Any], episode_id: str | None = None) -> list[int]:
        return [self.policy.observe(each, episode_id=episode_id) for each in observations]

    def act(self, **given: Any) -> Any:
        return self.policy.act(**given)

    def end_episode(self) -> str | None:
        return self.policy.end_episode()


driver = Driver()
CALLS = ("connect", "close", "ready", "observe", "observe_arrays", "act", "act_type", "end_episode")
converse({name: getattr(driver, name) for name in CALLS})
