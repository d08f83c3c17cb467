"""The policies a gateway stands before, by their full ids, and the links to the workers that serve them."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final

import anyio

from seqrt.errors import RemoteError, SeqrtError, remote_error
from seqrt.gateway.placing import Place
from seqrt.gateway.upstream import RETRY_S, is_to_be_repeated, is_worth_another, told_of, told_operator
from seqrt.link.border import Link
from seqrt.link.redeclared import redeclared
from seqrt.watching.logline import line
from seqrt.wire.messages import ActRequest, ActResponse, PolicyInfo

_log = logging.getLogger(__name__)

PREFIX: Final = "accounts/sequences/models/"

_TRY_S: Final = 1.0
"""How often a worker that has not said yet what it serves is asked."""
_REMEMBERED: Final = 4096
"""Of so many acts it is known which worker was asked."""
_NAMED: Final = 10
"""As many models are named to whoever asks for one that is not there."""
_TIMES: Final = 3
"""How often one worker is asked for one act, under one id."""


def full_id(model: str) -> str:
    """The full id of a model: ``accounts/sequences/models/<id>``, unless it holds a slash already."""
    return model if "/" in model else PREFIX + model


class Seat:
    """One worker of a policy.

    Args:
        link: The way to it.
        info: What it declares, where that is known already.

    Attributes:
        link: The way to it.
        info: What it declares; None before it has said so.
        under_way: Acts it is asked for now.
        said: Why it could not be asked the last time; "" before.
    """

    def __init__(self, link: Link, info: PolicyInfo | None = None) -> None:
        self.link = link
        self.info = info
        self.under_way = 0
        self.said = ""

    async def look(self) -> None:
        """Read what it declares. What it said instead is logged, once."""
        try:
            self.info = await self.link.info()
        except SeqrtError as error:
            self.say(told_operator(error))

    def say(self, why: str) -> None:
        """Log why it cannot be asked, unless that was said the last time."""
        if self.said != why:
            self.said = why
            _log.warning("%s", line("worker.unreached", None, host=self.link.host).saying(why))

    async def act(self, request: ActRequest, request_id: str, until: float) -> ActResponse:
        """One act; asked again where the worker may not have heard of it.

        Raises:
            RemoteError: What the worker answered instead.
        """
        self.under_way += 1
        try:
            outgoing = await self.link.prepare(request)
            for _ in range(_TIMES - 1):
                try:
                    return await self.link.act(outgoing, request_id, _left(until))
                except RemoteError as error:
                    if error.details.get("reason") == "redeclared":
                        self.info = await self.link.info()
                    elif not is_to_be_repeated(error):
                        raise
            return await self.link.act(outgoing, request_id, _left(until))
        finally:
            self.under_way -= 1


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
        self._seats = [Seat(link, info) for link in links]
        self._served = False
        self._asked: dict[str, Seat] = {}  # by the ids of the acts of late

    @property
    def seats(self) -> Sequence[Seat]:
        """Its workers."""
        return self._seats

    @property
    def info(self) -> PolicyInfo | None:
        """What it declares; None before a worker has said so."""
        return next((seat.info for seat in self._seats if seat.info is not None), None)

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
            for seat in self._seats:
                tasks.start_soon(seat.look)
        for seat in reversed(self._seats):  # so that the first one named stays
            self._hold_to_the_others(seat)

    async def tend(self) -> None:
        """Ask those that have not answered until they do, and look after the connections. Runs until cancelled."""
        async with anyio.create_task_group() as tasks:
            for seat in self._seats:
                tasks.start_soon(self._tend, seat)

    async def act(self, request: ActRequest, request_id: str, deadline_s: float) -> ActResponse:
        """One act, at the worker with the fewest under way; at the next one where that cannot serve it.

        Acts of this face belong to no episode: any worker is as good as another. One that comes again goes where it
        went before, to be answered without running twice.

        Raises:
            RemoteError: As the robot is to be told.
        """
        until = anyio.current_time() + deadline_s
        before = self._asked.get(request_id)
        seats = sorted(
            (seat for seat in self._seats if seat.info is not None),
            key=lambda seat: (seat is not before, seat.under_way),
        )
        failure: RemoteError | None = None
        for seat in seats:
            self._remember(request_id, seat)
            try:
                response = await seat.act(request, request_id, until)
            except RemoteError as error:
                told = told_of(error, self.id)
                if told is not error:
                    _log.warning("%s", line("act.lost", request_id, host=seat.link.host).saying(told_operator(error)))
                failure = told
                if not is_worth_another(error) or anyio.current_time() >= until:
                    break
            else:
                self._served = True
                return response
        assert failure is not None, "declared() comes first"
        raise failure

    def _remember(self, request_id: str, seat: Seat) -> None:
        self._asked.pop(request_id, None)
        self._asked[request_id] = seat
        if len(self._asked) > _REMEMBERED:
            del self._asked[next(iter(self._asked))]

    def _hold_to_the_others(self, seat: Seat) -> None:
        """Leave a worker out that serves something else than the first of the others that has said what it does."""
        others = [other.info for other in self._seats if other is not seat and other.info is not None]
        if others and seat.info is not None and (changed := redeclared(others[0], seat.info)):
            seat.info = None
            seat.say(f"it does not serve the same policy as the others ({'; '.join(changed)})")

    async def _tend(self, seat: Seat) -> None:
        while seat.info is None:
            await seat.look()
            self._hold_to_the_others(seat)
            if seat.info is None:
                await anyio.sleep(_TRY_S)
        await seat.link.tend(lambda _: None)

    async def aclose(self) -> None:
        """Let go of the connections."""
        for seat in self._seats:
            await seat.link.aclose()


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


def listed(model: Model) -> dict[str, Any]:
    """One line of ``GET /v1/models``; null where the policy does not say, or no worker has answered yet."""
    info = model.info
    robot = next(iter(info.embodiments.values()), {}) if info is not None else {}
    action = robot.get("action", {})
    actions = (info.actions if info is not None else None) or {}
    return {
        "id": model.id,
        "endpoint": "act",
        "architecture": info.model if info is not None else "",
        "robot": action.get("robot"),
        "action_dim": action.get("action_dim"),
        "action_horizon": actions.get("open_loop_horizon"),
        "control_hz": action.get("control_frequency_hz", actions.get("hz")),
        "camera_views": list(views_of(info)),
    }


def views_of(info: PolicyInfo | None, robot: str | None = None) -> Mapping[str, Any]:
    """The cameras a policy declares, by view: those of one robot, of its only or first one, or of its streams."""
    if info is None:
        return {}
    embodiment = info.embodiments.get(robot) if robot is not None else next(iter(info.embodiments.values()), None)
    if embodiment is not None:
        return dict((embodiment.get("observation") or {}).get("cameras") or {})
    streams = (info.observations or {}).get("streams") or {}
    return {key: stream["camera"] for key, stream in streams.items() if stream.get("camera")}


def _left(until: float) -> float:
    return max(0.001, until - anyio.current_time())
