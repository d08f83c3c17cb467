"""Drives `sequence-ai` 0.1.0: one handle, and a scripted robot for its ``run``."""

from __future__ import annotations

import dataclasses
import os
from typing import Any

import sequence_ai
from conversation import converse


class Driver:
    """One handle at a time, and every observation made of what the test gave."""

    def __init__(self) -> None:
        self.policy: sequence_ai.Policy | None = None
        self.seen: dict[str, Any] = {}

    def connect(self, environment: dict[str, str] | None = None, **given: Any) -> str:
        self.close()
        os.environ.update(environment or {})
        self.policy = sequence_ai.connect(**given)
        return self.policy.model

    def close(self) -> None:
        if self.policy is not None:
            self.policy.close()
            self.policy = None

    def sees(self, **seen: Any) -> None:
        """What the robot sees from now on: ``images``, ``joints``, ``instruction`` and what else it reports."""
        self.seen = seen

    def observation(self, joints: list[float] | None = None) -> sequence_ai.Observation:
        seen = dict(self.seen)
        images = [sequence_ai.ImageFrame(**image) for image in seen.pop("images")]
        instruction, at = seen.pop("instruction"), seen.pop("joints")
        reported = sequence_ai.Proprioception(joint_positions=joints or at, **seen)
        return sequence_ai.Observation(images=images, proprioception=reported, instruction=instruction)

    def predict(self, **options: Any) -> dict[str, Any]:
        return dataclasses.asdict(self.policy.predict(self.observation(), **options))

    def next_action(self, observed: bool = True, **options: Any) -> dict[str, Any]:
        row = self.policy.next_action(self.observation() if observed else None, **options)
        return {"row": row, "buffered": self.policy.buffered}

    def run(
        self, refuse: int | None = None, break_at: int | None = None, checked: bool = True, **given: Any
    ) -> dict[str, Any]:
        """``run`` with a robot that goes where it is told; ``refuse`` and ``break_at`` count actions played."""
        arm = _Arm(self, refuse, break_at)
        callbacks = {"validate": arm.validate} if checked else {}
        try:
            outcome: Any = dataclasses.asdict(
                self.policy.run(
                    arm.observe,
                    arm.act,
                    hold=arm.hold,
                    on_chunk=arm.chunks.append,
                    on_underrun=arm.underruns.append,
                    **callbacks,
                    **given,
                )
            )
        except Exception as raised:
            outcome = {"raised": type(raised).__name__, "said": str(raised)}
        return {
            "outcome": outcome,
            "played": arm.played,
            "observed": arm.observed,
            "held": arm.held,
            "chunks": [len(chunk.action_chunk) for chunk in arm.chunks],
            "underruns": len(arm.underruns),
            "buffered": self.policy.buffered,
        }

    def models(self, **given: Any) -> list[dict[str, Any]]:
        return [dataclasses.asdict(model) | {"short_id": model.short_id} for model in sequence_ai.models(**given)]


class _Arm:
    """A robot that is where its last action put it."""

    def __init__(self, driver: Driver, refuse: int | None, break_at: int | None) -> None:
        self._driver, self._refuse, self._break_at = driver, refuse, break_at
        self.played: list[list[float]] = []
        self.observed = self.held = 0
        self.chunks: list[Any] = []
        self.underruns: list[float] = []

    def observe(self) -> sequence_ai.Observation:
        self.observed += 1
        return self._driver.observation(self.played[-1] if self.played else None)

    def act(self, row: list[float]) -> None:
        if len(self.played) == self._break_at:
            raise RuntimeError("the arm is stuck")
        self.played.append(row)

    def validate(self, row: list[float]) -> bool:
        return len(self.played) != self._refuse

    def hold(self) -> None:
        self.held += 1


driver = Driver()
converse(
    {name: getattr(driver, name) for name in ("connect", "close", "sees", "predict", "next_action", "run", "models")}
)
