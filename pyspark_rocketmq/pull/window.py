"""Which pulls are in flight, and over which connections?

The window holds a number of pulls, dealt round robin over the readers, and one borrowed connection per broker process.
What keeps brokers and us busy is bytes on their way, so it grows while answers are small, unless the number is given.
It is refilled whenever answers came in, so that requests leave in groups; a pull that is not answered in time is given
up and asked again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ..cluster.routes import Place
from ..errors import RequestTimeout, RocketMQError
from ..model import Address
from ..net.connection import Connection, wait_any
from ..net.deadline import Deadline
from ..net.pool import ConnectionPool
from ..wire.codes import RequestCode
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

    @property
    def first_due(self) -> float:
        """Until when the oldest pull is to be answered."""
        return next(iter(self.pulls.values()))[0].due


class Window:
    """Keeps pulls in flight for a set of readers."""

    def __init__(self, readers: Sequence[QueueReader], pool: ConnectionPool, settings: PullSettings) -> None:
        self._turns = deque(readers)
        self._resting: set[QueueReader] = set()
        """Readers that have asked for all they want, as long as no answer falls short."""
        self._pool = pool
        self._settings = settings
        self._lanes: dict[Address, _Lane] = {}
        self._depth = settings.depth or _LEAST_DEPTH

    def __repr__(self) -> str:
        return f"<Window {self.in_flight} of {self._depth} in flight, {len(self._lanes)} connections>"

    @property
    def in_flight(self) -> int:
        """Pulls that await an answer."""
        return sum(len(lane.pulls) for lane in self._lanes.values())

    def fill(self, now: float) -> None:
        """Ask for more, a few pulls a reader in turn, until the window is full or nobody may ask.

        Nothing happens before a quarter of the window is free, so that requests leave in groups. They leave at once:
        brokers then work while the caller does something else.
        """
        room = self._depth - self.in_flight
        if room * 4 < self._depth:
            return
        self._deal(room, now)
        for lane in self._lanes.values():
            lane.connection.exchange()

    def _deal(self, room: int, now: float) -> None:
        idle = 0
        while room > 0 and idle < len(self._turns):
            reader = self._turns.popleft()
            if not reader.cursor.has_more_to_ask:
                self._resting.add(reader)
                continue
            self._turns.append(reader)
            asked = self._ask(reader, min(room, _TOGETHER), now)
            room -= asked
            idle = 0 if asked else idle + 1

    def drain(self, now: float, until: Deadline) -> dict[QueueReader, bool]:
        """Wait for answers, at most `until`, and take them in. Whose they were, and whether that range came forward."""
        busy = {address: lane for address, lane in self._lanes.items() if lane.pulls}
        first_due = min(lane.first_due for lane in busy.values())
        wait_s = max(0.0, min(first_due - now, until.remaining()))
        try:
            ready = wait_any([lane.connection for lane in busy.values()], Deadline.after(wait_s, until.clock))
        except RequestTimeout:
            ready = []
        heard: dict[QueueReader, bool] = {}
        for connection in ready:
            self._take_answers(self._lanes[connection.address], until.clock(), heard)
        # Behind answers there may be more that came in time, while the caller did something else.
        self._give_up_late([lane for lane in busy.values() if lane.connection not in ready], until.clock())
        return heard

    def close(self) -> None:
        """Return the connections."""
        for lane in self._lanes.values():
            self._pool.give_back(lane.connection)
        self._lanes.clear()

    def _ask(self, reader: QueueReader, most: int, now: float) -> int:
        """Send some pulls of one range, as far as it may ask; how many that were."""
        if not (allowed := reader.allowance(most, now)):
            return 0
        try:
            place = reader.place()
            lane = self._lane(place.address)
        except RocketMQError as error:
            reader.unplaced(error, now)
            return 0
        requests, group = reader.next_requests(allowed), _Group(reader, place, now + self._settings.pull_timeout_s)
        opaques = lane.connection.submit_as(RequestCode.PULL_MESSAGE, len(requests), reader.writer(requests))
        for opaque, request in zip(opaques, requests, strict=True):
            lane.pulls[opaque] = group, request
        return len(requests)

    def _lane(self, address: Address) -> _Lane:
        lane = self._lanes.get(address)
        if lane is None:
            lane = self._lanes[address] = _Lane(self._pool.take(address))
        return lane

    def _take_answers(self, lane: _Lane, now: float, heard: dict[QueueReader, bool]) -> None:
        """Take in what is there; a connection that ended fails its pulls."""
        try:
            replies = lane.connection.ready_replies()
        except RocketMQError as error:
            self._end(lane, error, now)
            return
        self._adapt([size for _, answer in replies if (size := len(answer.body))])
        for opaque, answer in replies:
            group, request = lane.pulls.pop(opaque)
            reader = group.reader
            if reader.answered(request, group.place, answer, now):
                heard[reader] = True
            else:
                heard.setdefault(reader, False)
        for reader in heard:
            self._wake(reader)

    def _end(self, lane: _Lane, error: RocketMQError, now: float) -> None:
        del self._lanes[lane.connection.address]
        self._pool.give_back(lane.connection)
        for pull in lane.pulls.values():
            self._fail(pull, error, now)

    def _adapt(self, sizes: Sequence[int]) -> None:
        """As deep as it takes to have the wanted bytes on their way, if answers go on being of these sizes."""
        if sizes and not self._settings.depth:
            wanted = _WANTED_BYTES * len(sizes) // sum(sizes)
            self._depth = max(_LEAST_DEPTH, min(wanted, _MOST_DEPTH))

    def _give_up_late(self, lanes: Iterable[_Lane], now: float) -> None:
        for lane in lanes:
            while lane.pulls and lane.first_due <= now:
                opaque = next(iter(lane.pulls))
                pull = lane.pulls.pop(opaque)
                lane.connection.forget(opaque)
                what = f"no answer to a pull within {self._settings.pull_timeout_s:g} s"
                error = RequestTimeout(what, advice="raise pullTimeoutMs, or look at the broker's load")
                self._fail(pull, error.locate(address=str(pull[0].place.address)), now)

    def _fail(self, pull: _Pull, error: RocketMQError, now: float) -> None:
        group, request = pull
        group.reader.failed(request, error, now)
        self._wake(group.reader)

    def _wake(self, reader: QueueReader) -> None:
        """A short or missing answer leaves a gap to be asked for."""
        if reader in self._resting and reader.cursor.has_more_to_ask:
            self._resting.discard(reader)
            self._turns.append(reader)
