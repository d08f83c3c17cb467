"""Leaving a task group that was entered by hand, as `LinkTransport` and `Relay` do."""

from __future__ import annotations

from types import TracebackType

import anyio
import anyio.abc


async def cancelled(
    tasks: anyio.abc.TaskGroup,
    exc_type: type[BaseException] | None,
    exc_value: BaseException | None,
    traceback: TracebackType | None,
) -> None:
    """Cancel ``tasks`` and wait for them, at the end of an ``__aexit__`` and with what that was handed.

    The program's own exception is kept from the group, which would wrap it in an exception group; a cancellation it
    has to see.
    """
    tasks.cancel_scope.cancel()
    if exc_type is not None and issubclass(exc_type, anyio.get_cancelled_exc_class()):
        await tasks.__aexit__(exc_type, exc_value, traceback)
    else:
        await tasks.__aexit__(None, None, None)
