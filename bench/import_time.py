"""How long `import seqrt` takes in a fresh interpreter, beside its five dependencies alone.

python bench/import_time.py
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

ROUNDS = 11
CASES = {
    "python -c pass": "pass",
    "its dependencies alone": "import anyio, httpx, h2.connection, msgspec, numpy, pydantic",
    "import seqrt": "import seqrt",
    "and its first use": "import seqrt; seqrt.connect, seqrt.Play, seqrt.policy",
}


def once(code: str) -> float:
    begun = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True)
    return time.perf_counter() - begun


def main() -> None:
    times: dict[str, list[float]] = {name: [] for name in CASES}
    for _ in range(ROUNDS):
        for name, code in CASES.items():
            times[name].append(once(code))
    start = statistics.median(times["python -c pass"])
    print(f"{ROUNDS} rounds in turn, fresh interpreter each; seconds above a bare interpreter\n")
    print("| what | median | least | most |\n|---|---|---|---|")
    for name, taken in times.items():
        over = [t - start for t in taken]
        print(f"| {name} | {statistics.median(over):.3f} | {min(over):.3f} | {max(over):.3f} |")


if __name__ == "__main__":
    main()
