"""What a policy may do with the episode it is handed."""

from __future__ import annotations

import pytest

from seqrt.policies.episode import Episode, answered


def test_a_new_episode_has_no_steps_and_an_empty_state() -> None:
    episode = Episode("e")
    assert (episode.id, episode.steps, episode.state) == ("e", 0, {})


def test_state_is_a_dict_by_reference_and_may_be_reassigned() -> None:
    episode = Episode("e")
    state = episode.state
    state["cache"] = 1
    assert episode.state is state
    episode.state = {"other": 2}
    assert episode.state == {"other": 2}
    with pytest.raises(TypeError, match="must be a dict, not a list"):
        episode.state = []  # type: ignore[assignment]


@pytest.mark.parametrize("name", ["id", "steps", "_steps"])
def test_id_and_steps_are_read_never_set(name: str) -> None:
    episode = Episode("e")
    with pytest.raises(AttributeError, match=r"episode\.state\["):
        setattr(episode, name, 3)
    with pytest.raises(AttributeError):
        delattr(episode, name)
    answered(episode)
    assert episode.steps == 1


def test_any_other_attribute_is_an_error_that_says_where_to_put_it() -> None:
    episode = Episode("e")
    with pytest.raises(AttributeError, match=r"no 'cache'; keep it in episode\.state\['cache'\]"):
        episode.cache = 1
    with pytest.raises(AttributeError, match=r"episode\.state\['cache'\]"):
        _ = episode.cache
    assert not hasattr(episode, "cache")
