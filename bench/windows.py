"""What windows cost on the link and in memory: bytes sent, bytes an act carries, episodes that are abandoned.

Virtual time, the whole runtime and the whole worker over a scripted network; nothing depends on the machine::

    python bench/windows.py
"""

from __future__ import annotations

import gc
import logging
import tracemalloc
from typing import Any

import anyio
import httpx
import numpy as np

import seqrt
from seqrt.errors import RemoteError
from seqrt.observation import Observations, Stream
from seqrt.policies import Host
from seqrt.testing import virtual
from seqrt.testing.connected import connected
from seqrt.testing.offload import inline
from seqrt.testing.policies import Scripted
from seqrt.testing.robots import FakeArm
from seqrt.timeline import events as ev
from seqrt.wire.codec import encode
from seqrt.wire.messages import ActRequest, AskPlan, Frame, ObserveRequest

ONE_WAY_S = 0.0203
EPISODES = 10_000


class Seeing(FakeArm):
    """An arm of 3 joints and a picture of ``size`` bytes."""

    def __init__(self, size: int) -> None:
        super().__init__(3)
        self._picture = np.zeros(size, np.uint8)

    def observe(self) -> Any:
        return {**super().observe(), "frame": self._picture}


async def one_run(
    policy: Scripted, arm: Seeing, actions: int, **play: Any
) -> tuple[Any, list[Any], list[httpx.Request]]:
    requests: list[httpx.Request] = []
    events: list[Any] = []

    def look(request: httpx.Request) -> bool:
        requests.append(request)
        return False

    async with connected(policy, up_s=ONE_WAY_S, down_s=ONE_WAY_S, lose_request=look) as there:
        outcome = await there.policy.run(
            arm, max_actions=actions, validate=lambda row: True, play=seqrt.Play(**play), record=events.append
        )
    return outcome, events, requests


async def window() -> None:
    print("## A window of two frames: bytes sent\n")
    print("Frames of 224 × 224 × 3 bytes read at [-15, 0], the state at [0], 15 Hz, 600 actions, infer 0.1203 s.\n")
    print("| rows a chunk | acts | observations taken | frames sent | MB sent | MB of every frame | share |")
    print("|---|---|---|---|---|---|---|")
    declared = Observations(streams={"frame": Stream(at=[-15, 0]), "state": Stream()})
    for rows in (16, 30, 50):
        policy = Scripted(rows=rows, hz=15, infer_s=0.1203, observations=declared)
        outcome, events, _ = await one_run(policy, Seeing(224 * 224 * 3), 600)
        steps = sum(isinstance(event, ev.Observed) for event in events)
        whole = ObserveRequest(episode_id="0" * 32, frames=[Frame(seq=0, inputs=Seeing(224 * 224 * 3).observe())])
        every = steps * len(encode(whole))
        print(
            f"| {rows} | {len(policy.calls)} | {steps} | {outcome.frames_sent} | {outcome.bytes_sent / 1e6:.1f} "
            f"| {every / 1e6:.1f} | {outcome.bytes_sent / every:.0%} |"
        )


async def between_acts() -> None:
    print("\n## 24 frames of 1304 KB in all between two acts: what the act itself carries\n")
    policy = Scripted(rows=22, hz=20, infer_s=0.0603, observations=Observations(every=1))
    _, _, requests = await one_run(policy, Seeing(1_304_000 // 24), 22 * 20, prefetch=False)
    acts = [len(request.content) for request in requests if request.url.path == "/act"]
    posts = [len(request.content) for request in requests if request.url.path == "/observe"]
    handed = {len(call.steps) for call in policy.calls[1:]}
    total = sum(acts) + sum(posts)
    print("| acts | frames an act reads | KB between two acts | bytes of an act | share of the act | still to come |")
    print("|---|---|---|---|---|---|")
    print(
        f"| {len(acts)} | {', '.join(map(str, sorted(handed)))} | {total / len(acts) / 1e3:.0f} "
        f"| {sum(acts) / len(acts):.0f} | {sum(acts) / total:.3%} | its own step alone, {max(posts) / 1e3:.0f} KB |"
    )


async def abandoned() -> None:
    print(f"\n## {EPISODES} episodes begun and abandoned, a 10 kB observation and an act each\n")
    host = Host(lambda obs: np.zeros((4, 2)), offload=inline(0.001))
    await host.start()
    print("| begun | pace | live | refused (429) | KB held for them | traced MB |\n|---|---|---|---|---|---|")
    tracemalloc.start()
    for begin in range(0, EPISODES, EPISODES // 5):
        await _abandon(host, range(begin, begin + EPISODES // 5), pause_s=1.0)
        _report(host, begin + EPISODES // 5, "one a second", 0)
    await anyio.sleep(301)
    refused = await _abandon(host, range(EPISODES, 2 * EPISODES), pause_s=0.0)
    _report(host, 2 * EPISODES, "all at once", refused)
    await anyio.sleep(301)
    await _abandon(host, range(2 * EPISODES, 2 * EPISODES + 1), pause_s=0.0)
    _report(host, 2 * EPISODES + 1, "and 300 s later", 0)
    tracemalloc.stop()


async def _abandon(host: Host, numbers: range, *, pause_s: float) -> int:
    refused = 0
    for number in numbers:
        frame = Frame(seq=0, inputs={"state": np.zeros(10_000, np.uint8)})
        try:
            await host.observe(ObserveRequest(episode_id=f"e{number}", frames=[frame]))
            act = ActRequest(call="act", seq=1, episode_id=f"e{number}", plan=AskPlan())
            await host.act(act, request_id=f"r-{number:016x}")
        except RemoteError as error:
            refused += error.code == "busy"
        if pause_s:
            await anyio.sleep(pause_s)
    return refused


def _report(host: Host, begun: int, pace: str, refused: int) -> None:
    gc.collect()
    held = host.statistics()
    traced = tracemalloc.get_traced_memory()[0] / 1e6
    print(f"| {begun} | {pace} | {held['episodes']} | {refused} | {held['frame_bytes'] / 1e3:.0f} | {traced:.1f} |")


async def limits() -> None:
    print("\n## The limits of an episode, posted against until they refuse, and then the run goes on\n")
    print("| observations of | held when refused | bytes held | answer | the next act |\n|---|---|---|---|---|")
    for size in (16, 2**20):
        policy = Scripted(observations=Observations(every=1), by="clock")
        host = Host(policy, offload=inline(0.001))
        await host.start()
        number, answer = 0, ""
        while not answer:
            frame = Frame(seq=number, inputs={"state": np.zeros(size, np.uint8)})
            try:
                await host.observe(ObserveRequest(episode_id="e", frames=[frame]))
                number += 1
            except RemoteError as error:
                answer, details = f"{error.status} {error.details['reason']}", error.details
        await host.observe(ObserveRequest(episode_id="e", skipped=[number]))
        await host.act(ActRequest(call="act", seq=number + 1, episode_id="e"), request_id="r-00000000")
        served = f"reads {len(policy.calls[0].steps)}, {host.statistics()['frame_bytes']} bytes held after it"
        print(f"| {size} bytes | {details['held_frames']} | {details['held_bytes']} | {answer} | {served} |")


async def main() -> None:
    logging.disable()
    await window()
    await between_acts()
    await abandoned()
    await limits()


if __name__ == "__main__":
    virtual.run(main)
