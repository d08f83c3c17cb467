"""What follows from a declaration: what robots are told of it, how many episodes it serves, how acts wait for it.

And what a host tells of itself, put together from its parts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from seqrt.policies.acts import Acts
from seqrt.policies.answers import Answers
from seqrt.policies.copies import Copies
from seqrt.policies.declaration import Declaration
from seqrt.policies.episodes import Episodes
from seqrt.policies.inference import Inference
from seqrt.policies.lifecycle import Hook
from seqrt.policies.limits import HostLimits
from seqrt.policies.line import Line
from seqrt.policies.load import LineStatistics, Load
from seqrt.policies.places import Places
from seqrt.wire.messages import PROTOCOL, PolicyInfo

ACTS_IN_FLIGHT: Final = 8
"""Acts of one episode that may be on their way or waiting, where answers depend on the request alone; else 1."""


def info_of(declared: Declaration, *, model: str, infer_s: float | None) -> PolicyInfo:
    """What a robot checks before any motion.

    Args:
        declared: The declaration.
        model: The name it is served under.
        infer_s: How long its sample's inferences took, None before and without one.
    """
    return PolicyInfo(
        protocol=PROTOCOL,
        model=model,
        stateful=declared.stateful,
        observations=_plain(declared.observations),
        actions=_plain(declared.actions),
        own_actions=declared.written.own_actions,
        timeouts=declared.timeouts.model_dump(),
        takes=sorted(declared.takes),
        infer_s=infer_s,
        acts_in_flight=ACTS_IN_FLIGHT if declared.independent else 1,
        acts_at_once=_at_once(declared),
        params={name: _plain(param) or {} for name, param in declared.params.items()},
        episodes=declared.written.episodes,
        embodiments={name: _plain(robot) or {} for name, robot in declared.written.robots.items()},
    )


def _at_once(declared: Declaration) -> int:
    concurrency = declared.written.concurrency
    return concurrency.max_concurrent if concurrency is not None else 1


def episodes_of(declared: Declaration, limits: HostLimits, copies: Copies, is_full: Callable[[int], bool]) -> Episodes:
    """As many episodes as have a copy; without state, or with it in ``episode.state``, as many as there is room for."""
    written = declared.written
    apart = declared.stateful and written.episodes != "shared"
    return Episodes(
        declared.observations,
        limits,
        idle_s=declared.timeouts.episode_idle,
        stateful=declared.stateful,
        owed=apart or Hook.ON_EPISODE in declared.hooks,
        places=Places(
            copies.most if apart else limits.episodes,
            wait_s=written.queue_timeout_s if written.on_full == "queue" else 0.0,
        ),
        is_full=is_full,
    )


def line_of(declared: Declaration, clock: Callable[[], float]) -> Line:
    """The line before the policy, as it declares: acts in a call, and what becomes of those that find it full."""
    written = declared.written
    return Line(
        most=_at_once(declared),
        rejects=written.on_full == "reject",
        queue_s=written.queue_timeout_s,
        freshest=declared.independent,
        clock=clock,
    )


def statistics_of(
    line: LineStatistics, episodes: Episodes, acts: Acts, answers: Answers, inference: Inference
) -> dict[str, int]:
    """As `Host.statistics`."""
    return {
        "episodes": len(episodes),
        "episodes_waiting": len(episodes.places),
        "acts": acts.count,
        "waiting": line.waiting,
        "running": line.running,
        "frame_bytes": episodes.bytes,
        "answers": answers.kept,
        "answer_bytes": answers.bytes,
        "inferred": inference.count,
        "calls": line.calls,
        "late": line.late,
        "stale": inference.stale,
        "refused": line.refused,
    }


def load_of(line: LineStatistics, wait_s: float | None, episodes: Episodes) -> Load:
    """As `Host.load`."""
    return Load(
        episodes=len(episodes),
        most_episodes=episodes.most,
        episodes_waiting=len(episodes.places),
        full=episodes.full,
        draining=episodes.closed,
        acts_waiting=line.waiting,
        acts_running=line.running,
        wait_s=wait_s,
    )


def _plain(declared: Any) -> dict[str, Any] | None:
    """A declaration as it travels: what was not written is not sent."""
    return declared.model_dump(mode="json", exclude_defaults=True) if declared is not None else None
