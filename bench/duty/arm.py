"""The arm of the benchmark and what is read off it. Plain Python: the peers' interpreters run it too.

A row is ``[x, t, i]``: the position wanted, when the observation behind it was taken, and its number in its chunk.
So the log of what was sent says by itself which row it was and when it was meant.
"""

from __future__ import annotations

import itertools
import time

SPEED = 1.0
"""Positions a second that every policy here means to move at."""


class Arm:
    """Goes at once where it is told to, and writes down what it was told.

    Attributes:
        log: ``(when, x, t, i)`` for each row, seconds since the arm was made.
        acts: Requests for a chunk, as the loop that drives it counts them.
        inference_s: Seconds of inference in their answers.
    """

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._x = 0.0
        self.log: list[tuple[float, float, float, float]] = []
        self.acts = 0
        self.inference_s = 0.0

    def now(self) -> float:
        """Seconds since the arm was made."""
        return time.monotonic() - self._began

    def look(self) -> list[float]:
        """The time and the position: all a policy needs here."""
        return [self.now(), self._x]

    def move(self, row: object) -> None:
        """Take one row ``[x, t, i]``."""
        x, t, i = (float(value) for value in row)  # type: ignore[attr-defined]
        self._x = x
        self.log.append((self.now(), x, t, i))


def rows(look: list[float], count: int, hz: float, by: str) -> list[list[float]]:
    """What a policy answers to a look: rows by the clock, or from where the arm stood."""
    t, x = look
    if by == "clock":
        return [[SPEED * (t + (i + 1) / hz), t, float(i)] for i in range(count)]
    return [[x + SPEED * (i + 1) / hz, t, float(i)] for i in range(count)]


def measures(
    log: list[tuple[float, float, float, float]], hz: float, *, acts: int, inference_s: float, warm_s: float = 2.5
) -> dict[str, float]:
    """The figures of one run: over whole chunks, from the first seam ``warm_s`` after the first row to the last seam.

    Returns:
        moving: Rows played for the periods that passed, at most 1.
        late_p50_s, late_p95_s: When a row was played less when it was meant: its observation's time and one period a
            row.
        reversals: Share of the seams at which the commanded position went back.
        seam_p50_s, seam_max_s: Step at a seam in seconds of motion, one period's own taken off.
        speed: Way made for the way meant.
        acts_per_s, inference_share: Of the whole run.
    """
    new = [entry for k, entry in enumerate(log) if k == 0 or entry[2:] != log[k - 1][2:]]
    whole_s = log[-1][0] - log[0][0]
    firsts = [k for k in range(1, len(new)) if new[k][2] != new[k - 1][2] and new[k][0] >= new[0][0] + warm_s]
    if len(firsts) < 2:
        raise ValueError(f"a run of {whole_s:.1f} s holds no whole chunk: make it longer")
    played = new[firsts[0] : firsts[-1] + 1]
    over_s = played[-1][0] - played[0][0]
    late = sorted(when - (t + (i + 1) / hz) for when, _, t, i in played)
    steps = [(b[1] - a[1], b[2] != a[2]) for a, b in itertools.pairwise(played)]
    seams = sorted(abs(step) / SPEED - 1 / hz for step, seam in steps if seam)
    back = sum(step < -1e-6 for step, seam in steps if seam)
    return {
        "moving": min(1.0, (len(played) - 1) / (over_s * hz)),
        "late_p50_s": late[len(late) // 2],
        "late_p95_s": late[int(0.95 * (len(late) - 1))],
        "seams": float(len(seams)),
        "reversals": back / len(seams) if seams else 0.0,
        "seam_p50_s": seams[len(seams) // 2] if seams else 0.0,
        "seam_max_s": seams[-1] if seams else 0.0,
        "speed": (played[-1][1] - played[0][1]) / SPEED / over_s,
        "acts_per_s": acts / whole_s,
        "inference_share": inference_s / whole_s,
    }
