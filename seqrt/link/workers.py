"""Several workers that serve the same policy: one of them is asked, and another one once that one is lost.

Which ones there are is another's to say (`seqrt.link.arriving`): a list of them, or a gateway.

Above it nothing is different: a request that meets a lost worker ends with `LinkLost` and is sent again, as over one
connection, and whoever answers next is sent what it lacks. Which worker that is, is decided here, at the beginning of
a request: as long as the one in use is well, it is that one; else it is knocked at, and the others in their order
behind it, and the first that answers, is ready and declares the same is gone on with. There it stays until that one
is lost. No task of its own: who finds a worker lost looks for the next one, and the others wait for what comes of it.

The others are looked at when the first connects, and not held open: what a connection costs is covered by the plan
when it is needed.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import anyio

from seqrt.errors import DeclarationError, Gone, LinkLost, RemoteError
from seqrt.link.arriving import KNOCK_S, Around
from seqrt.link.border import LEASE, NO_HURRY, NO_LINK, LinkStatistics, M, Moved, Outgoing, Pinged, Urgency
from seqrt.link.doors import Seat, WorkerLink, close
from seqrt.link.liveness import PATIENCE_S, SILENCE_S
from seqrt.link.losing import Trouble, trouble_of
from seqrt.watching.logline import line
from seqrt.wire.messages import ActRequest, ActResponse, ObserveRequest, ObserveResponse, PolicyInfo

logger = logging.getLogger(__name__)
T = TypeVar("T")

LOST_S: Final = 0.5
"""How long a worker whose connection broke is tried alone before others are. One that refuses to connect is not."""
STATE_LOST_S: Final = 3.0
"""The same where the policy has state, which another worker does not have."""
_TRY_S: Final = 0.05
"""The wait between two tries meanwhile."""
_NO_CONNECTION: Final = (Trouble.ABSENT, Trouble.BROKEN, Trouble.SILENT)


class Workers:
    """The link to the first of several workers that answers, and to the next one when it is lost.

    Args:
        around: Which workers there are.
        timeout_s: How long the first answer may take.
        keeps_state: A policy with state is not left for another worker while its episode lasts.

    Attributes:
        moves: How often another worker was gone on with.
    """

    def __init__(self, around: Around, *, timeout_s: float, keeps_state: bool) -> None:
        self._around, self._timeout_s, self._keeps_state = around, timeout_s, keeps_state
        self._seat: Seat | None = None
        self._info: PolicyInfo | None = None
        self._looking: anyio.Event | None = None
        self._nobody: RemoteError | None = None
        self._bound: str | None = None  # the episode whose state the worker in use has
        self._on_move: Moved | None = None
        self._moved = anyio.Event()
        self.moves = 0

    @property
    def host(self) -> str:
        """host:port of the worker in use; of all before the first answer."""
        return self._around.host if self._seat is None else self._seat.door.host

    @property
    def post_bytes(self) -> int | None:
        """How much a post to the worker in use should hold at the most; None while nothing waits for its turn."""
        return self._seated[0].link.post_bytes

    def statistics(self) -> LinkStatistics:
        """What the way to the worker in use is doing."""
        return NO_LINK if self._seat is None else self._seat.link.statistics()

    def on_move(self, moved: Moved | None) -> None:
        """Have ``moved`` called right before the first request to another worker."""
        self._on_move = moved

    async def info(self) -> PolicyInfo:
        """What the policy declares. The first call finds a worker to begin with.

        Raises:
            LinkLost: None answers; names them all.
            DeclarationError: One of them serves something else; names both and what differs.
            RemoteError: What one of them answered instead, that waiting does not mend.
        """
        if self._info is None:
            found = await self._around.first(self._timeout_s)
            self._seat, self._info = found.seat, found.info
        return self._info

    async def prepare(self, message: M) -> Outgoing[M]:
        """Encode: the same bytes for each."""
        return await self._seated[0].link.prepare(message)

    async def observe(self, post: Outgoing[ObserveRequest], urgency: Urgency = NO_HURRY) -> ObserveResponse:
        """Post observations."""
        return await self._through(post.message.episode_id, lambda link: link.observe(post, urgency))

    async def act(self, ask: Outgoing[ActRequest], request_id: str, deadline_s: float) -> ActResponse:
        """Ask for a chunk."""
        until = anyio.current_time() + deadline_s

        async def request(link: WorkerLink) -> ActResponse:
            return await link.act(ask, request_id, max(0.001, until - anyio.current_time()))

        return await self._through(ask.message.episode_id or "", request)

    async def tend(self, told: Callable[[Pinged | LinkLost], None]) -> None:
        """Look after the connection to the worker in use, until cancelled."""
        while True:
            seat, moved = self._seated[0], self._moved

            def heard(news: Pinged | LinkLost, seat: Seat = seat) -> None:
                if isinstance(news, LinkLost):
                    seat.note(trouble_of(news) or Trouble.BROKEN, news)
                told(news)

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(seat.link.tend, heard)
                tasks.start_soon(seat.door.tend)
                await moved.wait()
                tasks.cancel_scope.cancel()

    async def end(self, episode_id: str) -> None:
        """End an episode at the worker in use; nobody is looked for to hear it."""
        await self._seated[0].link.end(episode_id)

    async def aclose(self) -> None:
        """Let go of the connection."""
        try:
            if self._seat is not None:
                await self._seat.link.aclose()
        finally:
            await self._around.aclose()

    # One request.

    async def _through(self, episode: str, request: Callable[[WorkerLink], Awaitable[T]]) -> T:
        seat = await self._well(episode)
        try:
            answer = await seat.ask(request)
        except RemoteError as error:
            told = self._told(seat, episode, error)
            if told is error:
                raise
            raise told from error
        if self._seated[1].stateful:
            self._bound = episode
        return answer

    def _told(self, seat: Seat, episode: str, error: RemoteError) -> RemoteError:
        """What is raised of a failure, and remembered of the worker; `LinkLost` where another one is asked next."""
        trouble = trouble_of(error)
        if seat is not self._seat:
            return _lost(error, self.host)
        if trouble is None or (trouble is Trouble.GONE and self._seated[1].stateful):
            return error  # no other worker would be better
        if self._stays(episode) and trouble is not Trouble.UNLEASED:
            if trouble in _NO_CONNECTION:
                seat.door.lost()
            return self._bound_to(seat, error) if isinstance(error, LinkLost) else error
        seat.note(trouble, error)
        if self._stays(episode):
            return _over(error)
        if trouble is Trouble.GONE:
            seat.door.gone_for = episode
        elif trouble is Trouble.OTHER:
            seat.door.unfit = DeclarationError(error.detail)
        others = self._around.others(seat, episode)
        return _lost(error, others[0].host) if others else error

    def _stays(self, episode: str) -> bool:
        """Whether an episode ends with its worker."""
        return self._keeps_state and self._bound == episode

    def _bound_to(self, seat: Seat, error: RemoteError) -> RemoteError:
        others = ", ".join(door.host for door in self._around.others(seat, ""))
        hint = f"the policy has state, which {others} lacks: connect(on_lost='restart') begins a new episode there"
        return error.again(hint=hint, details={**error.details, "reason": "bound"})

    # Which worker.

    async def _well(self, episode: str) -> Seat:
        """The worker to ask: looked for where the one in use is in trouble.

        Raises:
            RemoteError: None can be asked now.
        """
        while True:
            seat = self._seated[0]
            await seat.door.refresh()
            if (seat.trouble is None or self._stays(episode)) and (over := seat.door.over()) is not None:
                seat.note(Trouble.UNLEASED, over)
            if self._stays(episode) and seat.trouble is Trouble.UNLEASED and seat.error is not None:
                raise _over(seat.error)
            if seat.trouble is None or self._stays(episode):
                return seat
            if seat.trouble is Trouble.GONE and seat.door.gone_for != episode:
                return seat
            if self._looking is None:
                await self._lead(seat, episode)
                continue
            await self._looking.wait()
            if self._seat is seat and seat.trouble is not None and self._nobody is not None:
                raise self._nobody.again()

    async def _lead(self, seat: Seat, episode: str) -> None:
        """Look, for all that wait; when cancelled, one of those looks in its place."""
        self._looking, self._nobody = anyio.Event(), None
        try:
            await self._look(seat, episode)
        except RemoteError as error:
            self._nobody = error
            raise
        finally:
            self._looking.set()
            self._looking = None

    async def _look(self, seat: Seat, episode: str) -> None:
        """Knock at the worker in use for as long as it deserves, then at the others, then at it again."""
        info, now = self._seated[1], anyio.current_time()
        lost_s = now - (now if seat.lost_since is None else seat.lost_since)
        if seat.trouble is Trouble.SILENT:
            lost_s += SILENCE_S + PATIENCE_S
        left_s = (STATE_LOST_S if info.stateful else LOST_S) - lost_s
        if seat.trouble in (Trouble.BROKEN, Trouble.SILENT) and await self._comes_back(seat, left_s):
            return
        for door in self._around.others(seat, episode):
            begun = anyio.current_time()
            found = await door.knock(info, seat.door.host, KNOCK_S)
            if found is not None:
                return await self._found(seat, found, anyio.current_time() - begun)
        lost_for_good = seat.door.unfit is not None or seat.door.gone_for == episode
        if not lost_for_good and await self._comes_back(seat, KNOCK_S):
            return None
        raise self._none(seat)

    async def _found(self, seat: Seat, found: Seat, took_s: float) -> None:
        """Another one is there: go on with it, unless the one before it is back by now."""
        try:
            is_back = seat.trouble is None  # something came through meanwhile
            if seat.trouble in _NO_CONNECTION and self._seated[1].stateful:
                # If it was the robot's own network, the state is still there.
                is_back = await self._comes_back(seat, 0.2 + 2 * took_s)
        except BaseException:
            await close(found.link)
            raise
        if is_back:
            await close(found.link)
        else:
            await self._move(seat, found)

    async def _comes_back(self, seat: Seat, within_s: float) -> bool:
        """Whether a worker can be asked again within that time; a refused connection is an answer too."""
        until = anyio.current_time() + within_s
        while (left_s := until - anyio.current_time()) > 0:
            trouble = await seat.door.trouble(seat.link, self._seated[1], seat.door.host, left_s)
            if trouble is None:
                seat.trouble = None
                return True
            if trouble not in (Trouble.BROKEN, Trouble.SILENT):
                return False
            await anyio.sleep(min(_TRY_S, max(0.0, until - anyio.current_time())))
        return False

    async def _move(self, seat: Seat, found: Seat) -> None:
        self._seat, self._bound = found, None
        self._moved.set()
        self._moved = anyio.Event()
        if not seat.is_empty:
            self.moves += 1
            said = f"{seat.door.host} is lost ({seat.door.said}): going on at {found.door.host}"
            logger.warning("%s", line("link.moved", None, before=seat.door.host, host=found.door.host).saying(said))
            if self._on_move is not None:
                self._on_move(seat.door.host, found.door.host)
        await seat.leave()

    def _none(self, seat: Seat) -> RemoteError:
        """Why nobody can be asked: what the worker in use said, where it says anything, else what came of each."""
        if seat.trouble not in _NO_CONNECTION and seat.error is not None:
            return seat.error.again()
        return self._around.none(self.host)

    @property
    def _seated(self) -> tuple[Seat, PolicyInfo]:
        assert self._seat is not None, "info() comes first"
        assert self._info is not None
        return self._seat, self._info


def _over(error: RemoteError) -> Gone:
    """The lease under which an episode was begun is over, and with it the policy's state."""
    return Gone(
        f"the episode ended with its lease: {error.detail}", code="gone", host=error.host, phase=error.phase,
        request_id=error.request_id, details={**error.details, "reason": LEASE},
    )  # fmt: skip


def _lost(error: RemoteError, following: str) -> LinkLost:
    """A failure as one of the link: the request is sent again, to ``following``. What was refused has not run."""
    return LinkLost(
        f"{error.detail}; {following} is asked next",
        code="unavailable",
        host=error.host,
        phase=error.phase if isinstance(error, LinkLost) else "connect",
        request_id=error.request_id,
        details={**error.details, "next": following},
    )
