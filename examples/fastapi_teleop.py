"""A web server that drives an arm: the run lives in FastAPI's own event loop, and a page can watch, pause and stop it.

Whoever can post here can move the arm: every request needs the token, other origins and host names are refused. ::

    TELEOP_TOKEN=… WORKER_URL=http://127.0.0.1:8080 hypercorn "examples.fastapi_teleop:from_environment()"
    curl -X POST -H "Authorization: Bearer $TELEOP_TOKEN" "http://127.0.0.1:8000/run?actions=100"
"""

from __future__ import annotations

import hmac
import os
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import asdict
from typing import Annotated, Any

import anyio
from anyio.abc import TaskGroup
from fastapi import Depends, FastAPI, HTTPException, Query, Request

import seqrt
from seqrt.testing import FakeArm


class Arm:
    """One robot and the handle that drives it: one run at a time."""

    def __init__(self, robot: seqrt.Robot, policy: seqrt.Policy, tasks: TaskGroup) -> None:
        self.policy, self._robot, self._tasks = policy, robot, tasks
        self._running: anyio.CancelScope | None = None
        self._error: str | None = None

    def start(self, actions: int) -> None:
        """Begin a run, unless there is one."""
        if self._running is not None:
            raise HTTPException(409, "the arm is already being driven")
        self._running, self._error = anyio.CancelScope(), None
        self._tasks.start_soon(self._drive, self._running, actions)

    def stop(self) -> None:
        """End the run with hold. It ends too where it still waits for its first observation."""
        self.policy.interrupt()
        if self._running is not None:
            self._running.cancel()

    def status(self) -> dict[str, Any]:
        """What the arm is doing, and what went wrong with the last run."""
        return {"running": self._running is not None, "error": self._error, **asdict(self.policy.statistics())}

    async def _drive(self, scope: anyio.CancelScope, actions: int) -> None:
        try:
            with scope:
                await self.policy.run(
                    self._robot, validate=lambda row: bool(abs(row).max() <= 1.5), max_actions=actions
                )
        except Exception as error:  # the page is told; the server lives on
            self._error = f"{type(error).__name__}: {error}"
        finally:
            self._running = None


def teleop(
    connect: Callable[[], AbstractAsyncContextManager[seqrt.Policy]],
    robot: seqrt.Robot,
    *,
    token: str,
    hosts: Collection[str] = ("127.0.0.1:8000", "localhost:8000"),
) -> FastAPI:
    """The app. ``hosts`` are the names it may be reached under, port and all; pages served there may call it too."""
    if not token:
        raise ValueError("without a token anybody could move the arm")
    origins = {f"{scheme}://{host}" for scheme in ("http", "https") for host in hosts}

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with connect() as policy, anyio.create_task_group() as tasks:
            app.state.arm = Arm(robot, policy, tasks)
            yield
            app.state.arm.stop()  # shutting down holds; the task group waits for it

    async def allowed(request: Request) -> None:
        if request.headers.get("host") not in hosts:
            raise HTTPException(421, "not under this name")
        if request.headers.get("origin", "") not in {"", *origins}:
            raise HTTPException(403, "not from this page")
        given, right = request.headers.get("authorization", ""), f"Bearer {token}"
        if not hmac.compare_digest(given.encode(), right.encode()):
            raise HTTPException(401, "the token is missing or wrong", {"WWW-Authenticate": "Bearer"})

    app = FastAPI(lifespan=lifespan, dependencies=[Depends(allowed)], openapi_url=None)

    @app.post("/run", status_code=202)
    async def run(actions: Annotated[int, Query(ge=1, le=10_000)] = 150) -> None:
        app.state.arm.start(actions)

    @app.get("/status")
    async def status() -> dict[str, Any]:
        return dict(app.state.arm.status())

    @app.post("/pause", status_code=202)
    async def pause() -> None:
        app.state.arm.policy.pause()

    @app.post("/resume", status_code=202)
    async def resume() -> None:
        app.state.arm.policy.resume()

    @app.post("/stop", status_code=202)
    async def stop() -> None:
        app.state.arm.stop()

    return app


def from_environment() -> FastAPI:
    """The app for a simulated arm and the worker at WORKER_URL."""
    arm = FakeArm(2, names=("pan", "tilt"), camera=(48, 64))
    return teleop(lambda: seqrt.connect(base_url=os.environ["WORKER_URL"]), arm, token=os.environ["TELEOP_TOKEN"])
