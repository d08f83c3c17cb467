"""How far a policy is on its way to serving: loaded, warmed up, its sample acted out; and its shutdown.

`seqrt.policies.host` asks it before each request whether the policy serves already, and tells whoever asks the stage.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal

from seqrt.errors import remote_error
from seqrt.observation.cameras import require_codecs
from seqrt.policies.code import Code
from seqrt.policies.copies import Copies
from seqrt.policies.declaration import Declaration
from seqrt.policies.inference import Inference
from seqrt.policies.lifecycle import Hook
from seqrt.policies.limits import HostLimits
from seqrt.policies.offload import Offload
from seqrt.policies.sample import Sampled, act_out
from seqrt.wire.limits import RETRY_S

Stage = Literal[
    "provision_start", "heartbeat", "provision_done", "load_start", "load_done", "ready", "error", "draining"
]


class Readiness:
    """Makes one policy ready, and knows its stage.

    Args:
        declaration: What the policy declares.
        copies: Its copies; the first is made ready here, later ones as they are made.
        inference: Serves the acts of its sample.
        offload: Runs its code off the loop.
        limits: What the sample's episode may hold.
        clock: The time, in seconds.

    Attributes:
        stage: provision_done, load_start, load_done, ready, error or draining.
        failure: Why the stage is "error"; "" otherwise.
        sampled: What came of its sample; None before, and where it has none.
    """

    def __init__(
        self,
        declaration: Declaration,
        *,
        copies: Copies,
        inference: Inference,
        offload: Offload,
        limits: HostLimits,
        clock: Callable[[], float],
    ) -> None:
        self._declaration = declaration
        self._copies = copies
        self._inference = inference
        self._offload = offload
        self._limits = limits
        self._clock = clock
        self.stage: Stage = "provision_done"
        self.failure = ""
        self.sampled: Sampled | None = None

    async def start(self) -> None:
        """As `Host.start`."""
        self.stage = "load_start"
        try:
            require_codecs(self._declaration.observations, fitting=False)
            await self._load()
            await self._act_out_sample()
        except Exception as raised:
            self.stage = "error"
            self.failure = f"{type(raised).__name__}: {raised}"
            raise
        self.stage = "ready"

    def drain(self) -> None:
        """From now on the stage says that no new episode is begun."""
        self.stage = "draining"

    async def shut_down(self) -> None:
        """Call the policy's ``shutdown`` on each copy that no episode has."""
        for copy in self._copies.all:
            await self._offload(partial(copy.prepare, Hook.SHUTDOWN))

    def must_be_ready(self) -> None:
        """Let requests through once the policy serves.

        Raises:
            Unavailable: It is being loaded (``warming``, ``details.stage``), or failed to.
        """
        if self.stage in ("ready", "draining"):
            return
        if self.stage == "error":
            raise remote_error("unavailable", f"the policy failed to load: {self.failure}", retry_after_s=RETRY_S)
        raise remote_error(
            "warming", "the policy is being loaded", retry_after_s=RETRY_S, details={"stage": self.stage}
        )

    async def _load(self) -> None:
        first = self._copies.first
        await self._called(first, Hook.LOAD)
        await self._called(first, Hook.PLAN)
        self.stage = "load_done"
        await self._called(first, Hook.WARMUP)
        if self._declaration.written.tensors is not None:
            await self._offload(first.ready_tensors)

    async def _act_out_sample(self) -> None:
        if Hook.SAMPLE not in self._declaration.hooks:
            return
        inputs = await self._offload(self._copies.first.sample)
        self.sampled = await act_out(
            inputs,
            declaration=self._declaration,
            inference=self._inference,
            offload=self._offload,
            limits=self._limits,
            now=self._clock(),
        )

    async def _called(self, copy: Code, hook: Hook) -> None:
        if hook in self._declaration.hooks:
            await self._offload(partial(copy.prepare, hook))
