"""What a host has to do now: snapshots for whoever places episodes, watches it, or tells a robot its position."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LineStatistics:
    """What the line before the policy is like.

    Attributes:
        waiting: Acts that wait for their turn.
        running: Acts in the call that runs.
        calls: Calls so far.
        late: Acts whose call began when their robot was dry already; those of robots that stood anyway are not.
        refused: Acts sent away, since their turn would not have come in time or did not.
    """

    waiting: int
    running: int
    calls: int
    late: int
    refused: int


@dataclass(frozen=True, slots=True)
class Load:
    """What a host has to do now.

    Attributes:
        episodes: Live ones.
        most_episodes: How many there may be.
        episodes_waiting: New ones that wait for a place: one more would be at position ``episodes_waiting`` + 1.
        full: A new one would be refused, or wait.
        draining: No new ones are begun.
        acts_waiting: Acts that wait for their turn.
        acts_running: Acts that are being inferred.
        wait_s: How long an act that came now would wait, were it the last; None where it is not known what calls take.
    """

    episodes: int
    most_episodes: int
    episodes_waiting: int
    full: bool
    draining: bool
    acts_waiting: int
    acts_running: int
    wait_s: float | None
