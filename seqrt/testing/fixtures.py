"""pytest fixtures: virtual time, and relays. The one module of `seqrt.testing` that needs pytest.

In a ``conftest.py`` or a test module, for tests in virtual time::

    import pytest
    from seqrt.testing.fixtures import anyio_backend  # noqa: F401

    pytestmark = pytest.mark.anyio

    async def test_it() -> None:
        await anyio.sleep(600)  # at once

Every anyio test there then runs on asyncio and on trio, each on a virtual clock of its own that starts at 0.0.

And for tests over real sockets, in real time, elsewhere::

    from seqrt.testing import Relay
    from seqrt.testing.fixtures import relayed  # noqa: F401

    async def test_my_client_survives_a_reset(relayed) -> None:
        relay = await relayed(Relay(server.port, up_s=0.0203, down_s=0.0203, schedule=[(1.0, Relay.reset)]))
        # connect to 127.0.0.1:{relay.port}
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import anyio
import pytest
from anyio.abc import TaskStatus

from seqrt.testing import virtual
from seqrt.testing.relay import Relay


@pytest.fixture(params=virtual.backends())
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    """Both backends in virtual time, with a fresh clock for each test."""
    return virtual.backend(request.param)


@pytest.fixture
async def relayed() -> AsyncIterator[Callable[[Relay], Awaitable[Relay]]]:
    """Enters relays, and leaves them at the end of the test, whatever else the test enters and leaves meanwhile."""
    async with anyio.create_task_group() as tasks:

        async def enter(relay: Relay) -> Relay:
            await tasks.start(_held, relay)
            return relay

        yield enter
        tasks.cancel_scope.cancel()


async def _held(relay: Relay, *, task_status: TaskStatus[None]) -> None:
    """In a task of its own: task groups have to be left in the order they were entered in, within a task."""
    async with relay:
        task_status.started()
        await anyio.sleep_forever()
