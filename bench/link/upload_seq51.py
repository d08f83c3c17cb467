"""`sequence-ai` 0.51.5's own stream, in an interpreter that has it: ``python upload_seq51.py --connect PORT ...``.

Its client is handed our worker by a connect endpoint of ours (`bench.link.connect_endpoint`), observes at a rate from
one thread and asks with ``act()`` from another, as its documentation has it: every observation goes to ``observe()``,
an act carries none. The newest observation an act is served with is the last one observed before it.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import threading
import time
from typing import Any

FRAMES = 24


def tell(what: dict[str, Any]) -> None:
    """A line for whoever started this."""
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--connect", type=int, required=True)
    parser.add_argument("--frame", type=int, default=54_300)
    parser.add_argument("--hz", type=float, default=30.0)
    parser.add_argument("--warm", type=float, default=3.0)
    parser.add_argument("--seconds", type=float, default=10.0)
    options = parser.parse_args()
    import sequence_ai

    policy = sequence_ai.connect("upload", api_key="none", base_url=f"http://127.0.0.1:{options.connect}")
    captured, over, due = [0.0], threading.Event(), threading.Semaphore(0)
    taken = threading.Lock()

    def observe() -> None:
        at, number = time.monotonic(), 0
        while not over.is_set():
            with taken:
                captured[0] = time.monotonic()
                policy.observe({"frame": os.urandom(options.frame)})
            number += 1
            if number % FRAMES == 0:
                due.release()
            at = max(at + 1 / options.hz, time.monotonic())
            time.sleep(max(0.0, at - time.monotonic()))

    watcher = threading.Thread(target=observe, daemon=True)
    begun, counts, took = time.monotonic(), False, list[float]()
    watcher.start()
    while time.monotonic() - begun < options.warm + options.seconds:
        if not counts and time.monotonic() - begun > options.warm:
            counts = True
            took.clear()
            tell({"counts": True})
        due.acquire()
        with taken:
            at = captured[0]
        policy.act()
        took.append(time.monotonic() - at)
    over.set()
    tell({"latency_s": took, "infer_s": [], "acts_per_s": len(took) / options.seconds})
    os._exit(0)  # its posts would be sent to the end first


if __name__ == "__main__":
    main()
