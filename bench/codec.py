"""How long one observation takes to bytes and back, ours beside what others use.

The observation: two 224×224×3 uint8 frames, a state of 8 float32 and an instruction. Rounds of all codecs are
interleaved, so that whatever else the machine does falls on all of them alike. Run: ``python bench/codec.py``.
"""

from __future__ import annotations

import argparse
import base64
import json
import pickle
import platform
import random
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgpack
import msgpack_numpy
import msgspec
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from seqrt.wire import decode, encode
from seqrt.wire.messages import ActRequest

Codec = tuple[Callable[[], bytes], Callable[[bytes], Any]]


def observation() -> dict[str, Any]:
    pixels = np.random.default_rng(0).integers(0, 256, (2, 224, 224, 3), dtype=np.uint8)
    return {
        "base": pixels[0],
        "wrist": pixels[1],
        "state": np.linspace(-1, 1, 8, dtype=np.float32),
        "prompt": "pick up the red cube",
    }


def as_json(tree: Mapping[str, Any]) -> bytes:
    def array(value: np.ndarray) -> dict[str, Any]:
        return {"dtype": value.dtype.str, "shape": value.shape, "data": base64.b64encode(value).decode()}

    return json.dumps(tree, default=array).encode()


def from_json(body: bytes) -> Any:
    def array(tree: dict[str, Any]) -> Any:
        if "dtype" not in tree:
            return tree
        return np.frombuffer(base64.b64decode(tree["data"]), tree["dtype"]).reshape(tree["shape"])

    return json.loads(body, object_hook=array)


def codecs() -> dict[str, Codec]:
    inputs = observation()
    body = {"inputs": inputs, "seq": 7, "episode_id": "e" * 32}
    act = ActRequest(**body)
    return {
        "seqrt (msgspec, checked)": (lambda: encode(act), lambda sent: decode(sent, ActRequest)),
        "msgpack + msgpack-numpy": (
            lambda: msgpack.packb(body, default=msgpack_numpy.encode),
            lambda sent: msgpack.unpackb(sent, object_hook=msgpack_numpy.decode),
        ),
        "pickle, protocol 5": (lambda: pickle.dumps(body, 5), pickle.loads),
        "JSON + base64": (lambda: as_json(body), from_json),
    }


def measured(rounds: int, calls: int) -> dict[str, dict[str, list[float]]]:
    """Microseconds a call, one figure a round; a round is ``calls`` calls of each codec, in random order."""
    clock = time.perf_counter
    entrants = list(codecs().items())
    times: dict[str, dict[str, list[float]]] = {name: {"encode": [], "decode": [], "both": []} for name, _ in entrants}
    shuffled = random.Random(0)
    for _ in range(rounds):
        shuffled.shuffle(entrants)  # in a fixed order one codec always pays for what the one before it left behind
        for name, (write, read) in entrants:
            sent = write()
            began = clock()
            for _ in range(calls):
                write()
            between = clock()
            for _ in range(calls):
                read(sent)
            ended = clock()
            times[name]["encode"].append((between - began) / calls * 1e6)
            times[name]["decode"].append((ended - between) / calls * 1e6)
            times[name]["both"].append((ended - began) / calls * 1e6)
    return times


def ratio(theirs: list[float], ours: list[float]) -> float:
    """The median of the rounds' own ratios: what disturbs a whole round disturbs both alike."""
    return statistics.median(their / our for their, our in zip(theirs, ours, strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=80)
    parser.add_argument("--calls", type=int, default=20)
    arguments = parser.parse_args()
    times = measured(arguments.rounds, arguments.calls)
    bytes_of = {name: len(write()) for name, (write, _) in codecs().items()}
    ours = next(iter(times.values()))
    versions = f"Python {platform.python_version()}, numpy {np.__version__}, msgspec {msgspec.__version__}"
    print(f"{versions}; medians of {arguments.rounds} interleaved rounds of {arguments.calls} calls\n")
    print("| codec | bytes | encode µs | decode µs | both µs | encode ÷ ours | decode ÷ ours | both ÷ ours |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|")
    for name, row in times.items():
        medians = [f"{statistics.median(row[what]):.1f}" for what in row]
        ratios = [f"{ratio(row[what], ours[what]):.2f}" for what in row]
        print(f"| {name} | {bytes_of[name]} | " + " | ".join(medians + ratios) + " |")


if __name__ == "__main__":
    main()
