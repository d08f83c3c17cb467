"""Our robot's side of the upload tables: ``python -m bench.link.upload_client stream|carried --port 4711 ...``.

Prints a line of JSON when it begins to count, one when it ends: for each act served how long it took from the capture
of the newest observation it was served with to its chunk in hand, and how many bytes of the stream had not passed the
narrow place at that moment.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
import time
from typing import Any

import anyio

from bench.link.upload_server import INFER_S
from seqrt.link.http import HttpLink, clients
from seqrt.policies.offload import in_thread
from seqrt.runtime.options import Play
from seqrt.runtime.policy import Policy
from seqrt.timeline import events as ev
from seqrt.wire.messages import ActRequest

FRAMES = 24


def tell(what: dict[str, Any]) -> None:
    """A line for whoever started this."""
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def link_to(port: int) -> HttpLink:
    """A link as `seqrt.connect` makes it."""
    new_client = clients(f"http://127.0.0.1:{port}", timeout_s=30, key=None)
    return HttpLink(new_client, host=f"127.0.0.1:{port}", timeout_s=30, offload=in_thread(2))


class Robot:
    """Sees a new frame at each step."""

    def __init__(self, frame: int) -> None:
        self._frame = frame

    def observe(self) -> dict[str, bytes]:
        return {"frame": os.urandom(self._frame)}

    def act(self, row: Any) -> None:
        return None

    def hold(self) -> None:
        return None


def lacking(events: list[ev.Event], options: argparse.Namespace) -> dict[int, float]:
    """Bytes of the stream that had not passed the narrow place when each step's frame was taken, its own included.

    What is neither acknowledged nor dropped; what the link carries in a round trip is under way behind the
    narrow place, or arrived.
    """
    found, unsettled = dict[int, float](), 0
    for event in events:
        if isinstance(event, ev.Observed):
            under_way = options.rate * options.rtt
            found[event.step] = max(0.0, unsettled * options.frame - under_way) + options.frame
            unsettled += 1
        elif isinstance(event, ev.Posted | ev.FramesDropped):
            unsettled -= event.frames
    return found


async def stream(options: argparse.Namespace) -> None:
    """A run whose frames go ahead as they are taken."""
    link, events = link_to(options.port), list[ev.Event]()
    policy = Policy(link, await link.info(), control_hz=None, timeout_s=30, offload=in_thread(2))
    begun_s = [0.0]

    async def say_when_it_counts() -> None:
        await anyio.sleep(options.warm)
        begun_s[0] = anyio.current_time()
        tell({"counts": True})

    run_began = anyio.current_time()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(say_when_it_counts)
        outcome = await policy.run(
            Robot(options.frame),
            validate=lambda row: True,
            max_seconds=options.warm + options.seconds,
            play=Play(in_flight=options.in_flight),
            record=events.append,
        )
    lacks = lacking(sorted(events, key=lambda event: event.at_s), options)
    asked = {event.request_id: event.at_s for event in events if isinstance(event, ev.Asked)}
    from_s = begun_s[0] - run_began
    served = [e for e in events if isinstance(e, ev.Answered) and e.rows is not None and e.at_s > from_s]
    tell(
        {
            "latency_s": [event.latency_s for event in served],
            "infer_s": [event.infer_s or INFER_S for event in served],
            "lacking": [lacks[event.observed] for event in served],
            "estimated": link.statistics().bytes_per_s,
            "asked_after_s": sorted(asked[e.request_id] - (e.at_s - e.latency_s) for e in served)[len(served) // 2],
            "age_s": outcome.observation_age_s.p50 if outcome.observation_age_s else None,
            "acts_per_s": len(served) / options.seconds,
            "frames_sent": outcome.frames_sent,
            "frames_skipped": outcome.frames_skipped + outcome.frames_dropped,
            "underruns": outcome.underruns,
        }
    )
    await policy.aclose()


async def carried(options: argparse.Namespace) -> None:
    """24 frames in the body of each act, as they were before there was a stream."""
    link = link_to(options.port)
    await link.info()
    period_s, took = FRAMES / options.hz, list[float]()
    begun = due = time.monotonic()
    counts = False
    while time.monotonic() - begun < options.warm + options.seconds:
        if not counts and time.monotonic() - begun > options.warm:
            counts = True
            took.clear()
            tell({"counts": True})
        captured = time.monotonic()
        ask = await link.prepare(ActRequest(inputs={"frames": [os.urandom(options.frame) for _ in range(FRAMES)]}))
        await link.act(ask, f"r-{len(took):08x}{os.urandom(4).hex()}", 30.0)
        took.append(time.monotonic() - captured)
        due = max(due + period_s, time.monotonic())
        await anyio.sleep(max(0.0, due - time.monotonic()))
    tell({"latency_s": took, "infer_s": [INFER_S] * len(took), "acts_per_s": len(took) / options.seconds})
    await link.aclose()


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("stream", "carried"))
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--frame", type=int, default=54_300, help="bytes of a frame")
    parser.add_argument("--hz", type=float, default=30.0)
    parser.add_argument("--rate", type=float, required=True, help="of the link, bytes a second")
    parser.add_argument("--rtt", type=float, required=True)
    parser.add_argument("--in-flight", type=int, default=1)
    parser.add_argument("--warm", type=float, default=3.0)
    parser.add_argument("--seconds", type=float, default=10.0)
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    anyio.run({"stream": stream, "carried": carried}[options.what], options)


if __name__ == "__main__":
    main()
