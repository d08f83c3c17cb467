"""The JSON face that `sequence-ai` 0.1.0 speaks, over HTTP/1.1: its own server is not on the package index."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any


@asynccontextmanager
async def json_face(
    rows_for: Callable[[dict[str, Any]], Awaitable[list[list[float]]]],
    *,
    model: str,
    hz: float,
    dims: int,
    inference_s: float,
) -> AsyncIterator[int]:
    """Serve what ``rows_for`` answers to a request's ``observation``; gives the port."""
    import anyio
    from hypercorn.asyncio import serve
    from hypercorn.config import Config
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import JSONResponse
    from starlette.routing import Route

    async def act(request: Request) -> JSONResponse:
        rows = await rows_for((await request.json())["observation"])
        chunk = {
            "steps": [{"index": i, "values": row} for i, row in enumerate(rows)],
            "robot": "arm",
            "action_space": "joint_absolute",
            "action_dim": dims,
            "control_frequency_hz": hz,
            "covers_seconds": len(rows) / hz,
        }
        perf = {"inference_ms": inference_s * 1000}
        return JSONResponse({"id": "a", "model": model, "action_chunk": chunk, "perf": perf, "usage": {}})

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=0)
    raw = listener.extra(anyio.abc.SocketAttribute.raw_socket)
    config = Config()
    config.bind = [f"fd://{raw.fileno()}"]
    config.accesslog = config.errorlog = None
    app: Any = Starlette(routes=[Route("/v1/act", act, methods=["POST"])])
    done = anyio.Event()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lambda: serve(app, config, shutdown_trigger=done.wait))
        yield raw.getsockname()[1]
        done.set()
