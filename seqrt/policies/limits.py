"""How much one host holds, and how long: the defaults are the contract's."""

from __future__ import annotations

from dataclasses import dataclass

from seqrt.wire import limits


@dataclass(frozen=True, slots=True)
class HostLimits:
    """What bounds a host's memory and its waiting, whatever its clients do.

    Attributes:
        frames: Most observations held for one episode.
        episode_bytes: Most bytes held for one episode.
        worker_bytes: Most bytes held for all episodes together.
        ranges: Most separate ranges of numbers remembered for one episode.
        episodes: Most episodes live at once; one more is 429.
        copies: Most copies of a policy whose episodes have one each.
        acts: Most acts waiting or running at once; one more is 429.
        acts_an_episode: The same for one episode: twice what it is granted, since abandoned acts run on.
        stream_wait_s: How long an act waits for observations while nothing moves.
        answers: Answers of one episode kept to be given again.
        answers_s: How long they are kept.
        answer_bytes: Most bytes of answers kept for all episodes together.
        ended: Ids of ended episodes remembered.
        ended_s: How long they are remembered.
    """

    frames: int = limits.FRAMES_AN_EPISODE
    episode_bytes: int = limits.EPISODE_BYTES
    worker_bytes: int = limits.WORKER_BYTES
    ranges: int = 4 * limits.FRAMES_AN_EPISODE
    episodes: int = 4096
    copies: int = 8
    acts: int = 1024
    acts_an_episode: int = 16
    stream_wait_s: float = limits.STREAM_WAIT_S
    answers: int = limits.ANSWERS_KEPT
    answers_s: float = limits.ANSWERS_KEPT_S
    answer_bytes: int = 256 * 2**20
    ended: int = limits.ENDED_KEPT
    ended_s: float = limits.ENDED_KEPT_S
