"""What a policy sees of an episode: its id, how many acts were answered, and a place for its own state."""

from __future__ import annotations

from typing import Any

_OWN = frozenset({"id", "steps", "state"})


class Episode:
    """One run of a task on one robot, handed to ``infer(obs, *, episode)`` by reference.

    Made at the episode's first act and dropped at its end. Only ``state`` is the policy's to change; an attribute of
    any other name is an error that says where to put it instead.

    Args:
        episode_id: The robot's id for it.

    Attributes:
        id: The robot's id for it.
        steps: Acts answered so far: 0 in the first ``infer``, and one more once each has returned. Not ticks.
        state: The policy's own, {} at first. A dict, which may be reassigned.
    """

    __slots__ = ("_id", "_state", "_steps")

    _id: str
    _state: dict[Any, Any]
    _steps: int

    def __init__(self, episode_id: str) -> None:
        object.__setattr__(self, "_id", episode_id)
        object.__setattr__(self, "_steps", 0)
        object.__setattr__(self, "_state", {})

    @property
    def id(self) -> str:
        """The robot's id for it."""
        return self._id

    @property
    def steps(self) -> int:
        """Acts answered so far."""
        return self._steps

    @property
    def state(self) -> dict[Any, Any]:
        """The policy's own."""
        return self._state

    @state.setter
    def state(self, value: dict[Any, Any]) -> None:
        if not isinstance(value, dict):
            raise TypeError(f"episode.state must be a dict, not a {type(value).__name__}")
        object.__setattr__(self, "_state", value)

    def __setattr__(self, name: str, value: Any) -> None:
        """Refused but for ``state``."""
        if name != "state":
            raise _refused(name)
        object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        """Refused."""
        raise _refused(name)

    def __getattr__(self, name: str) -> Any:
        """Refused: whatever else is asked for is not there."""
        raise _refused(name)

    def __repr__(self) -> str:
        """What it is, and the keys of its state."""
        return f"Episode(id={self.id!r}, steps={self.steps}, state={sorted(map(str, self.state))})"


def answered(episode: Episode) -> None:
    """``infer`` returned: one step more."""
    object.__setattr__(episode, "_steps", episode.steps + 1)


def _refused(name: str) -> AttributeError:
    if name in _OWN:
        return AttributeError(f"episode.{name} is read, never set; keep what is yours in episode.state[...]")
    return AttributeError(f"an episode has no {name!r}; keep it in episode.state[{name!r}]")
