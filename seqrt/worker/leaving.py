"""How a worker's process leaves: told to, it drains; when its episodes have ended, or told again, it ends."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator, Callable
from typing import Any

import anyio

from seqrt.policies.host import Host


async def stop_when_told(
    signals: AsyncIterator[signal.Signals],
    policy: Host,
    drain_s: float,
    say: Callable[[str], Any],
    scope: anyio.CancelScope,
) -> None:
    """Cancel ``scope`` when it is time to end.

    Args:
        signals: The first drains, as anybody may who has the host drain; the second ends it at once.
        policy: What serves.
        drain_s: How long live episodes may go on.
        say: Takes a line for whoever started it.
        scope: What the process does.
    """
    async with anyio.create_task_group() as waiting:
        waiting.start_soon(_drain_on_signal, signals, policy, say, scope)
        await policy.draining()
        live = policy.statistics()["episodes"]
        if live:
            say(f"seqrt: draining {live} episode(s), at most {drain_s:g} s; a second signal stops at once")
        with anyio.move_on_after(drain_s):
            await policy.quiet()
        waiting.cancel_scope.cancel()
    scope.cancel()


async def _drain_on_signal(
    signals: AsyncIterator[signal.Signals], policy: Host, say: Callable[[str], Any], scope: anyio.CancelScope
) -> None:
    """The first signal drains, where it serves by then; the second one stops, and one while it loads."""
    await signals.__anext__()
    serves = policy.stage in ("ready", "draining")
    if serves:
        policy.drain()
        await signals.__anext__()
    for signum in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signum, signal.SIG_DFL)  # the policy's code may hang in a thread that nobody can stop
    if not serves:
        say("seqrt: stopping when the policy has loaded; a second signal ends the process at once")
    scope.cancel()
