"""The policies a gateway stands before, by their full ids, and the links to the workers that serve them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from seqrt.errors import remote_error
from seqrt.gateway.placing import Place
from seqrt.link.border import Link
from seqrt.wire.messages import ActRequest, ActResponse, PolicyInfo

PREFIX: Final = "accounts/sequences/models/"


def full_id(model: str) -> str:
    """The full id of a model: ``accounts/sequences/models/<id>``, unless it holds a slash already."""
    return model if "/" in model else PREFIX + model


class Model:
    """One policy.

    Args:
        id: Its full id.
        links: The workers that serve it, the same at each.
        place: Where robots go that want a worker of their own; None: nowhere.

    Attributes:
        id: Its full id.
        place: Likewise.
        info: What it declares; None before a worker has said so.
    """

    def __init__(self, id: str, links: Sequence[Link], *, place: Place | None = None) -> None:
        self.id = id
        self.place = place
        self.info: PolicyInfo | None = None
        self._links = list(links)

    @property
    def links(self) -> Sequence[Link]:
        """The workers that serve it."""
        return self._links

    async def known(self) -> PolicyInfo:
        """What it declares, asked of its workers in turn until one says so.

        Raises:
            RemoteError: None of them does.
        """
        if self.info is None:
            self.info = await self._links[0].info()
        return self.info

    async def act(self, request: ActRequest, request_id: str, deadline_s: float) -> ActResponse:
        """One act at one of its workers.

        Raises:
            RemoteError: What the worker answered instead, or that none can be asked.
        """
        link = self._links[0]
        return await link.act(await link.prepare(request), request_id, deadline_s)


class Models:
    """All of them.

    Args:
        models: By any order; their ids are full ones.
    """

    def __init__(self, models: Sequence[Model] = ()) -> None:
        self._models = {model.id: model for model in models}

    def add(self, model: Model) -> None:
        """One more."""
        self._models[model.id] = model

    def all(self) -> list[Model]:
        """All of them, by their ids."""
        return [self._models[id] for id in sorted(self._models)]

    def find(self, name: str) -> Model:
        """The model of a full or short id.

        Raises:
            NotFound: There is none.
        """
        found = self._models.get(full_id(name))
        if found is None:
            raise remote_error(
                "not_found",
                f"there is no model {name!r:.200} here",
                hint="GET /v1/models lists those there are",
                details={"model": full_id(name)[:200]},
            )
        return found
