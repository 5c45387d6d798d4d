"""Which pulls are in flight, and over which connections?

The window holds a number of pulls, dealt round robin over the readers, and one borrowed connection per broker process.
What keeps brokers and us busy is bytes on their way, so it grows while answers are small, unless the number is given.
It is refilled whenever answers came in, so that requests leave in groups; a pull that is not answered in time is given
up and asked again, over a new connection if the old one has been silent since.

No broker holds up the others: whoever pauses is asked again when that is over, though another broker owes answers, and
a broker that cannot be reached is tried once for all its queues.
"""

from __future__ import annotations

import copy
import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

from ..cluster.routes import Place
from ..errors import RequestTimeout, RocketMQError
from ..model import Address
from ..net.connection import Connection, wait_any
from ..net.deadline import Deadline
from ..net.pool import ConnectionPool
from ..wire.codes import RequestCode
from ..wire.session import Writer
from .cursor import Request
from .reader import QueueReader
from .settings import PullSettings

__all__ = ["Window"]

_TOGETHER = 4
"""So many pulls of one range leave together: finding out whether and where it may ask costs as much as a pull."""
_LEAST_DEPTH, _MOST_DEPTH = 32, 256
_WANTED_BYTES = 8 * 2**20
"""So much is wanted on its way: what a record batch holds, so that it arrives while the one before is decoded. Nearly
all of it has room in the buffers of the two sockets; what a broker cannot send, it keeps in its heap."""


class _Group(NamedTuple):
    """What pulls that left together have in common."""

    reader: QueueReader
    place: Place
    due: float


_Pull = tuple[_Group, Request]


class _Lane:
    """One connection and the pulls in flight on it, oldest first."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.pulls: dict[int, _Pull] = {}
        self.answered_due = -math.inf
        """Until when the pull that was answered last was to be answered."""

    @property
    def first_due(self) -> float:
        """Until when the oldest pull is to be answered."""
        return next(iter(self.pulls.values()))[0].due


class Window:
    """Keeps pulls in flight for a set of readers."""

    def __init__(
        self,
        readers: Sequence[QueueReader],
        pool: ConnectionPool,
        settings: PullSettings,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._turns = deque(readers)
        self._resting: set[QueueReader] = set()
        """Readers that have asked for all they want, as long as no answer falls short."""
        self._pool = pool
        self._settings = settings
        self._lanes: dict[Address, _Lane] = {}
        self._depth = settings.depth or _LEAST_DEPTH
        self._clock = clock
        self._unreachable: dict[Address, RocketMQError] = {}
        """Brokers to which no connection could be made while the window is being filled."""
        self._next_turn_at = math.inf
        """When the first reader may ask again of those for whom there was room, but who pause."""

    def __repr__(self) -> str:
        return f"<Window {self.in_flight} of {self._depth} in flight, {len(self._lanes)} connections>"

    @property
    def in_flight(self) -> int:
        """Pulls that await an answer."""
        return sum(len(lane.pulls) for lane in self._lanes.values())

    def fill(self) -> None:
        """Ask for more, a few pulls a reader in turn, until the window is full or nobody may ask.

        Nothing happens before a quarter of the window is free, so that requests leave in groups. They leave at once:
        brokers then work while the caller does something else.
        """
        self._next_turn_at = math.inf
        room = self._depth - self.in_flight
        if room * 4 < self._depth:
            return
        self._deal(room)
        self._send()

    def _deal(self, room: int) -> None:
        idle, now = 0, self._clock()
        self._unreachable.clear()
        while room > 0 and idle < len(self._turns):
            reader = self._turns.popleft()
            if not reader.has_more_to_ask:
                self._resting.add(reader)
                continue
            self._turns.append(reader)
            asked = self._ask(reader, min(room, _TOGETHER), now)
            room -= asked
            idle = 0 if asked else idle + 1
        if room > 0:
            self._next_turn_at = min((each.resume_at for each in self._turns if each.resume_at > now), default=math.inf)

    def _send(self) -> None:
        for lane in self._lanes.values():
            lane.connection.exchange()

    def drain(self, until: Deadline) -> dict[QueueReader, bool]:
        """Wait for answers, at most `until`, and take them in. Whose they were, and whether that range came forward.

        Nobody's, when the next thing to do is to fill.
        """
        busy = {address: lane for address, lane in self._lanes.items() if lane.pulls}
        next_at = min(self._next_turn_at, *(lane.first_due for lane in busy.values()))
        wait_s = max(0.0, min(next_at - self._clock(), until.remaining()))
        try:
            ready = wait_any([lane.connection for lane in busy.values()], Deadline.after(wait_s, self._clock))
        except RequestTimeout:
            ready = []
        heard: dict[QueueReader, bool] = {}
        for connection in ready:
            self._take_answers(self._lanes[connection.address], heard)
        for lane in busy.values():
            self._give_up_late(lane, is_talking=lane.connection in ready)
        return heard

    def close(self) -> None:
        """Return the connections."""
        for lane in self._lanes.values():
            self._pool.give_back(lane.connection)
        self._lanes.clear()

    def _ask(self, reader: QueueReader, most: int, now: float) -> int:
        """Gather some pulls of one range, as far as it may ask; how many that were."""
        looked = self._look(reader, now)
        if not (allowed := reader.allowance(most, now)) or not (found := self._reach(reader, reader.place)):
            return looked
        requests = reader.next_requests(allowed)
        self._submit(reader, *found, requests, reader.writer(requests))
        return looked + len(requests)

    def _look(self, reader: QueueReader, now: float) -> int:
        """Gather the pull that vouches for what came in, if it is time for that."""
        if not reader.can_look(now) or not (found := self._reach(reader, lambda: reader.schedule_look(now))):
            return 0
        look = reader.look(found[0], now)
        self._submit(reader, *found, [look], reader.look_writer(look))
        return 1

    def _reach(self, reader: QueueReader, choose: Callable[[], Place | None]) -> tuple[Place, _Lane] | None:
        """A place and the connection to it; None while one that ended still owes answers, which are settled first."""
        try:
            if (place := choose()) is None:
                return None
            lane = self._lane(place.address)
        except RocketMQError as error:
            reader.unplaced(error, self._clock())
            return None
        return (place, lane) if lane.connection.is_open else None

    def _submit(
        self, reader: QueueReader, place: Place, lane: _Lane, requests: Sequence[Request], writer: Writer
    ) -> None:
        group = _Group(reader, place, self._clock() + self._settings.pull_timeout_s)
        opaques = lane.connection.submit_as(RequestCode.PULL_MESSAGE, len(requests), writer)
        for opaque, request in zip(opaques, requests, strict=True):
            lane.pulls[opaque] = group, request

    def _lane(self, address: Address) -> _Lane:
        lane = self._lanes.get(address)
        if lane and not lane.pulls and not lane.connection.is_open:
            self._drop(lane)  # It ended while nothing was asked, which is no failure.
            lane = None
        if lane is None:
            lane = self._lanes[address] = _Lane(self._connect(address))
        return lane

    def _connect(self, address: Address) -> Connection:
        """A connection; who is asked over others does not wait for it, and nobody tries twice in vain."""
        if failure := self._unreachable.get(address):
            raise copy.copy(failure)
        self._send()
        try:
            return self._pool.take(address)
        except RocketMQError as error:
            self._unreachable[address] = copy.copy(error)
            raise

    def _take_answers(self, lane: _Lane, heard: dict[QueueReader, bool]) -> None:
        """Take in what is there; a connection that ended fails its pulls."""
        now = self._clock()
        while lane.connection.has_news:
            try:
                replies = lane.connection.ready_replies()
            except RocketMQError as error:
                self._end(lane, error)
                break
            self._adapt([size for _, answer in replies if (size := len(answer.body))])
            for opaque, answer in replies:
                group, request = lane.pulls.pop(opaque)
                reader = group.reader
                if reader.answered(request, group.place, answer, now):
                    heard[reader] = True
                else:
                    heard.setdefault(reader, False)
                lane.answered_due = group.due
        for reader in heard:
            self._wake(reader)

    def _drop(self, lane: _Lane) -> None:
        del self._lanes[lane.connection.address]
        self._pool.give_back(lane.connection)

    def _end(self, lane: _Lane, error: RocketMQError) -> None:
        self._drop(lane)
        now = self._clock()
        pulls, lane.pulls = lane.pulls, {}
        for pull in pulls.values():
            self._fail(pull, error, now)

    def _adapt(self, sizes: Sequence[int]) -> None:
        """As deep as it takes to have the wanted bytes on their way, if answers go on being of these sizes."""
        if sizes and not self._settings.depth:
            wanted = _WANTED_BYTES * len(sizes) // sum(sizes)
            self._depth = max(_LEAST_DEPTH, min(wanted, _MOST_DEPTH))

    def _give_up_late(self, lane: _Lane, *, is_talking: bool) -> None:
        """Give up pulls that are due; all of a connection that has been silent since the first was sent.

        Behind answers there may be more that came in time, while the caller did something else. But what was not
        written before the answer to a pull that was sent after the deadline came late.
        """
        now, longest_s = self._clock(), self._settings.pull_timeout_s
        limit = min(now, lane.answered_due - longest_s) if is_talking else now
        if not is_talking and lane.first_due <= now and lane.connection.heard_at < lane.first_due - longest_s:
            self._end(lane, self._late(lane))
        while lane.pulls and lane.first_due <= limit:
            opaque = next(iter(lane.pulls))
            pull = lane.pulls.pop(opaque)
            lane.connection.forget(opaque)
            self._fail(pull, self._late(lane), now)

    def _late(self, lane: _Lane) -> RequestTimeout:
        what = f"no answer to a pull within {self._settings.pull_timeout_s:g} s"
        advice = "raise pullTimeoutMs, or look at the broker's load"
        return RequestTimeout(what, advice=advice, address=str(lane.connection.address))

    def _fail(self, pull: _Pull, error: RocketMQError, now: float) -> None:
        group, request = pull
        group.reader.failed(request, error, now)
        self._wake(group.reader)

    def _wake(self, reader: QueueReader) -> None:
        """A short or missing answer leaves a gap to be asked for."""
        if reader in self._resting and reader.has_more_to_ask:
            self._resting.discard(reader)
            self._turns.append(reader)
