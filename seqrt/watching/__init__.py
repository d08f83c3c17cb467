"""How a run, a worker and a gateway are watched: log lines, counts, spans, all by the request's id.

What happens is told once, at one seam on each side: the robot's is the timeline's events (`seqrt.timeline`), the
worker's is an act's `passage`. Log lines, metrics and spans are made of that; nothing else is measured for them.
"""

from __future__ import annotations

from seqrt.watching.robot import RobotMetrics

__all__ = ["RobotMetrics"]
