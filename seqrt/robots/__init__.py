"""Adapters between robots and a run: what a robot is (`Robot`), and `threaded` for drivers that block."""

from __future__ import annotations

from seqrt.robots.threaded import ThreadedRobot, threaded
from seqrt.runtime.robot import Robot

__all__ = ["Robot", "ThreadedRobot", "threaded"]
