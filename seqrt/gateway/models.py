"""The policies a gateway stands before, by their full ids, and the links to the workers that serve them."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

import anyio

from seqrt.errors import RemoteError, remote_error
from seqrt.gateway.placing import Place
from seqrt.gateway.upstream import is_worth_another, told_of, told_operator
from seqrt.gateway.worker import Worker
from seqrt.link.border import Link
from seqrt.link.redeclared import redeclared
from seqrt.watching.logline import line
from seqrt.watching.seldom import Seldom
from seqrt.wire.limits import RETRY_S
from seqrt.wire.messages import ActRequest, ActResponse, PolicyInfo

logger = logging.getLogger(__name__)

PREFIX: Final = "accounts/sequences/models/"

_TRY_S: Final = 1.0
"""How often a worker that has not said yet what it serves is asked."""
_REMEMBERED: Final = 4096
"""Of so many acts it is known which worker was asked."""
_NAMED: Final = 10
"""As many models are named to whoever asks for one that is not there."""


def full_id(model: str) -> str:
    """The full id of a model: ``accounts/sequences/models/<id>``, unless it holds a slash already."""
    return model if "/" in model else PREFIX + model


class Model:
    """One policy.

    Args:
        id: Its full id.
        links: The workers that serve it, the same at each.
        info: What they declare, where that is known already.
        place: Where robots go that want a worker of their own; None: nowhere.
    """

    def __init__(
        self, id: str, links: Sequence[Link], *, info: PolicyInfo | None = None, place: Place | None = None
    ) -> None:
        self.id, self.place = id, place
        self._workers = [Worker(link, info) for link in links]
        self._served = False
        self._seldom = Seldom()
        self._asked: dict[str, Worker] = {}  # by the ids of the acts of late

    @property
    def workers(self) -> Sequence[Worker]:
        """Its workers."""
        return self._workers

    @property
    def info(self) -> PolicyInfo | None:
        """What it declares; None before a worker has said so."""
        return next((worker.info for worker in self._workers if worker.info is not None), None)

    def declared(self) -> PolicyInfo:
        """What it declares.

        Raises:
            Unavailable: No worker has said so yet.
        """
        info = self.info
        if info is None:
            raise remote_error("unavailable", f"no worker of {self.id} has answered yet", retry_after_s=RETRY_S)
        return info

    def patience_s(self, asked_s: float | None) -> float:
        """How long an act may take: the policy's ``request`` timeout, its first act's ``startup``, or what is asked."""
        timeouts = self.declared().timeouts
        allowed = timeouts.get("request", 300.0) if self._served else timeouts.get("startup", 1800.0)
        return allowed if asked_s is None else min(allowed, asked_s)

    async def look(self) -> None:
        """Ask all its workers once what they declare."""
        async with anyio.create_task_group() as tasks:
            for worker in self._workers:
                tasks.start_soon(worker.look)
        for worker in reversed(self._workers):  # so that the first one named stays
            self._hold_to_the_others(worker)

    async def tend(self) -> None:
        """Ask those that have not answered until they do, and look after the connections. Runs until cancelled."""
        async with anyio.create_task_group() as tasks:
            for worker in self._workers:
                tasks.start_soon(self._tend, worker)

    async def act(self, request: ActRequest, request_id: str, deadline_s: float) -> ActResponse:
        """One act, at the worker with the fewest under way; at the next one where that cannot serve it.

        Acts of this face belong to no episode: any worker is as good as another. One that comes again goes where it
        went before, to be answered without running twice.

        Raises:
            RemoteError: As the robot is to be told.
        """
        until = anyio.current_time() + deadline_s
        before = self._asked.get(request_id)
        able = [worker for worker in self._workers if worker.info is not None]
        failure: RemoteError | None = None
        for worker in sorted(able, key=lambda worker: (worker is not before, worker.under_way)):
            self._remember(request_id, worker)
            try:
                response = await worker.act(request, request_id, until)
            except RemoteError as error:
                told = told_of(error, self.id)
                if told is not error:
                    self._say_lost(worker.link.host, request_id, error)
                failure = told
                if not is_worth_another(error) or anyio.current_time() >= until:
                    break
            else:
                self._served = True
                return response
        assert failure is not None, "declared() comes first"
        raise failure

    def _say_lost(self, host: str, request_id: str, error: RemoteError) -> None:
        """At once, and then every ten seconds: each act may go by a worker that is down."""
        more = self._seldom.due(host, anyio.current_time())
        if more is not None:
            said = line("act.lost", request_id, host=host, more=more or None)
            logger.warning("%s", said.saying(told_operator(error)))

    def _remember(self, request_id: str, worker: Worker) -> None:
        self._asked.pop(request_id, None)
        self._asked[request_id] = worker
        if len(self._asked) > _REMEMBERED:
            del self._asked[next(iter(self._asked))]

    def _hold_to_the_others(self, worker: Worker) -> None:
        """Leave a worker out that serves something else than the first of the others that has said what it does."""
        others = [other.info for other in self._workers if other is not worker and other.info is not None]
        if others and worker.info is not None and (changed := redeclared(others[0], worker.info)):
            worker.info = None
            worker.say(f"it does not serve the same policy as the others ({'; '.join(changed)})")

    async def _tend(self, worker: Worker) -> None:
        while worker.info is None:
            await worker.look()
            self._hold_to_the_others(worker)
            if worker.info is None:
                await anyio.sleep(_TRY_S)
        await worker.link.tend(lambda _: None)

    async def aclose(self) -> None:
        """Let go of the connections."""
        for worker in self._workers:
            await worker.link.aclose()


class Models:
    """All of them.

    Args:
        models: In any order.
    """

    def __init__(self, models: Sequence[Model] = ()) -> None:
        self._models = {model.id: model for model in models}

    def add(self, model: Model) -> None:
        """One more."""
        self._models[model.id] = model

    def all(self) -> list[Model]:
        """All of them, by their ids."""
        return [self._models[id] for id in sorted(self._models)]

    async def look(self) -> None:
        """Ask all workers once what they declare."""
        async with anyio.create_task_group() as tasks:
            for model in self.all():
                tasks.start_soon(model.look)

    async def tend(self) -> None:
        """Look after the connections to all workers. Runs until cancelled."""
        async with anyio.create_task_group() as tasks:
            for model in self.all():
                tasks.start_soon(model.tend)

    async def aclose(self) -> None:
        """Let go of the connections."""
        for model in self.all():
            await model.aclose()

    def find(self, name: str) -> Model:
        """The model of a full or short id.

        Raises:
            NotFound: There is none.
        """
        found = self._models.get(full_id(name))
        if found is None:
            raise remote_error(
                "not_found",
                f"there is no model {name!r:.200} here; {self._told()}",
                hint="GET /v1/models says more of them",
                details={"model": full_id(name)[:200]},
            )
        return found

    def _told(self) -> str:
        """Which there are, for whoever asked for another: no secret, ``GET /v1/models`` says it without a key."""
        names = [model.id.removeprefix(PREFIX) for model in self.all()]
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        return f"there is {', '.join(names[:_NAMED]) or 'none yet'}{more}"
