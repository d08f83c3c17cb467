"""Tools to test robots and policies with: virtual time, a scripted network, and robots and policies to script.

A run in virtual time, with a policy 20 ms away that takes 120 ms::

    from seqrt.testing import FakeArm, LinkTransport, Scripted, virtual

    arm, policy = FakeArm(), Scripted(rows=50, dims=6, infer_s=0.1203)
    # serve `policy` with Host(policy, offload=policy.offload) behind LinkTransport(app, up_s=0.0203, down_s=0.0203),
    # run it with virtual.run(main, backend="trio")

- `virtual`: ten minutes in seconds, on asyncio and trio; `seqrt.testing.fixtures` has the pytest fixture.
- `LinkTransport`: an ASGI app behind a scripted network, without sockets. `Relay`: real TCP that is far away.
  `Delayed`: around a worker's app, delays that are independent of one another.
- `Scripted`: a policy whose rows say where they came from. `inline`: what stands in for a worker thread.
- `FakeArm`, `Slow`, `Faulty`, `Frozen`: robots that remember, and that misbehave.
- `jittered`, `spiky`: seeded durations.

pytest and trio are imported only where they are used.
"""

from __future__ import annotations

from seqrt.testing import virtual
from seqrt.testing.deadlock import Deadlock
from seqrt.testing.delayed import Delayed
from seqrt.testing.durations import Durations, jittered, spiky
from seqrt.testing.offload import inline
from seqrt.testing.outages import stalls_at_random
from seqrt.testing.policies import Call, Scripted
from seqrt.testing.relay import Relay, RelayStatistics
from seqrt.testing.robots import Acted, FakeArm, FakeRobot, Faulty, Frozen, Slow
from seqrt.testing.transport import LinkStatistics, LinkTransport
from seqrt.testing.virtual import VirtualClockLoop

__all__ = [
    "Acted",
    "Call",
    "Deadlock",
    "Delayed",
    "Durations",
    "FakeArm",
    "FakeRobot",
    "Faulty",
    "Frozen",
    "LinkStatistics",
    "LinkTransport",
    "Relay",
    "RelayStatistics",
    "Scripted",
    "Slow",
    "VirtualClockLoop",
    "inline",
    "jittered",
    "spiky",
    "stalls_at_random",
    "virtual",
]
