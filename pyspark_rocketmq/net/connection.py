"""How does one thread keep many requests in flight, over one server or several?

Nothing happens behind the caller's back: bytes move while the caller waits for an answer. `submit` only gathers, so
that a refilled window leaves in one piece; whatever waits sends first, and reads on even while the server does not
take what is sent. Two sides that only write cannot block each other.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import chain
from typing import Self

from ..errors import ConnectionLost, LocalProtocolError, RocketMQError
from ..model import Address
from ..wire.header import Command
from ..wire.session import Reply, Writer
from .channel import Channel
from .deadline import Deadline, soonest
from .failures import for_requests, timed_out
from .settings import NetSettings
from .transport import Transport, connect, wait_ready

_LATE_S = 1.0
"""Longer than it takes to read what the buffers of a socket hold."""


class Connection:
    """A connection driven by its caller. Not thread-safe.

    Replies are the server's commands whatever their response code; their bodies are views of the receive buffer.
    A passed deadline raises `RequestTimeout` and leaves the connection in use. Any other error of the connection ends
    it: whoever still waits for an answer, and every later call, raises that error.
    """

    def __init__(self, transport: Transport, settings: NetSettings) -> None:
        self.address: Address = transport.address
        self.settings = settings
        self._channel = Channel(transport, settings)
        self._ready: OrderedDict[int, Reply] = OrderedDict()
        self._unwanted = 0
        self._failure: RocketMQError | None = None

    @classmethod
    def open(cls, address: Address, settings: NetSettings, deadline: Deadline | None = None) -> Self:
        """Connect; without a deadline the settings' connect time-out counts."""
        return cls(connect(address, deadline or settings.connect_deadline(), settings.tls), settings)

    def __repr__(self) -> str:
        state = f"ended by {self._failure.code}" if self._failure else "open"
        return (
            f"<Connection {self.address} {state}, {self.in_flight} in flight, {len(self._ready)} ready, "
            f"{self.dropped_replies} dropped, {len(self._channel.outbox)} bytes to send>"
        )

    # --- state -------------------------------------------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        """Whether requests can still be made, as far as we know."""
        return self._failure is None

    @property
    def is_settled(self) -> bool:
        """Whether the next user would find it open and clean: nothing in flight, unsent or unread, and not mute."""
        channel = self._channel
        unsettled = self.in_flight or self._ready or channel.outbox or channel.session.is_amid_frame or channel.is_mute
        return self.is_open and not unsettled

    @property
    def heard_at(self) -> float:
        """The monotonic time when bytes last arrived; at first when it was opened."""
        return self._channel.heard_at

    @property
    def has_news(self) -> bool:
        """Whether `next_reply` would return or raise at once."""
        return bool(self._ready or self._failure)

    @property
    def in_flight(self) -> int:
        """How many requests await an answer."""
        return len(self._channel.session.pending)

    @property
    def asked(self) -> tuple[int, ...]:
        """The codes of the requests in flight."""
        return tuple(self._channel.session.pending.values())

    @property
    def dropped_replies(self) -> int:
        """How many answers came for requests that had been given up."""
        return self._channel.session.dropped_replies + self._unwanted

    # --- asking ------------------------------------------------------------------------------------------------------

    def submit(self, code: int, fields: dict[str, str] | None = None, body: bytes = b"") -> int:
        """Gather a request, to be sent by whatever waits next; returns its opaque."""
        self._raise_if_ended((code,))
        return self._channel.request(code, fields, body)

    def submit_as(self, code: int, count: int, write: Writer) -> Sequence[int]:
        """Gather so many requests whose frames `write` makes; returns their opaques."""
        self._raise_if_ended((code,))
        return self._channel.request_as(code, count, write)

    def flush(self, deadline: Deadline | None = None) -> None:
        """Send what is gathered, reading meanwhile."""
        self._drive(lambda: not self._channel.outbox, self.asked, deadline)

    def next_reply(self, deadline: Deadline | None = None) -> Reply:
        """The next answer, whichever request it belongs to; when the deadline passes, nothing is given up."""
        if not self.has_news and not self.in_flight:
            raise LocalProtocolError("no request is in flight, no answer can come", address=str(self.address))
        self._drive(lambda: bool(self._ready), self.asked, deadline)
        return self._ready.popitem(last=False)[1]

    def ready_replies(self) -> list[Reply]:
        """The answers that are there, without waiting; when there are none, raises what ended the connection."""
        if not self._ready:
            self._raise_if_ended(self.asked)
        replies = list(self._ready.values())
        self._ready.clear()
        return replies

    def call(
        self, code: int, fields: dict[str, str] | None = None, body: bytes = b"", deadline: Deadline | None = None
    ) -> Command:
        """Ask and wait for the answer; answers to other requests are kept for those who ask for them."""
        opaque = self.submit(code, fields, body)
        try:
            self._drive(lambda: opaque in self._ready, (code,), deadline)
            return self._ready.pop(opaque).command
        finally:
            self.forget(opaque)

    def collect(self, opaques: Iterable[int], deadline: Deadline | None = None) -> Iterator[Reply]:
        """The answers to these requests as they come, sent when the first is asked for.

        When the deadline passes, or the caller stops early, the unanswered are given up.
        """
        deadline = deadline or self.settings.request_deadline()
        heard_at = self.heard_at
        missing = set(opaques)
        try:
            while missing:
                codes = [code for opaque, code in self._channel.session.pending.items() if opaque in missing]
                self._drive(lambda: not missing.isdisjoint(self._ready), codes, deadline, heard_at)
                for opaque in [opaque for opaque in self._ready if opaque in missing]:
                    missing.discard(opaque)
                    yield self._ready.pop(opaque)
        finally:
            for opaque in missing:
                self.forget(opaque)

    def tell(
        self, code: int, fields: dict[str, str] | None = None, body: bytes = b"", deadline: Deadline | None = None
    ) -> None:
        """Send a request that wants no answer."""
        self._raise_if_ended((code,))
        self._channel.tell(code, fields, body)
        self._drive(lambda: not self._channel.outbox, (code,), deadline)

    def forget(self, opaque: int) -> None:
        """Give a request up; its answer is dropped and counted."""
        self._channel.session.forget(opaque)
        if self._ready.pop(opaque, None):
            self._unwanted += 1

    # --- moving bytes ------------------------------------------------------------------------------------------------

    def exchange(self) -> bool:
        """Send and receive what can be now, without waiting; whether anything arrived or ended."""
        if self._failure:
            return False
        try:
            outbox = self._channel.outbox
            while (head := outbox.head()) and (count := self._channel.send(head)):
                outbox.sent(count)
            return self._take_in()
        except RocketMQError as error:
            self._end(error)
            return True

    @property
    def wants(self) -> tuple[Transport, int]:
        """What to wait for before another `exchange` is worth it."""
        return self._channel.transport, self._channel.needs

    def close(self) -> None:
        """End the connection and every request in flight."""
        self._end(ConnectionLost("the connection was closed on this side", address=str(self.address)))

    def abandon(self) -> None:
        """Give up a forked child's copy; the parent's connection is not touched."""
        self._failure = ConnectionLost("the connection stayed with the parent process", address=str(self.address))
        self._channel.transport.abandon()

    def _take_in(self) -> bool:
        count = self._channel.receive()
        if count is None:
            return False
        ready = self._ready
        for event in self._channel.events(count):
            if isinstance(event, Reply):
                ready[event.opaque] = event
            else:
                self._channel.decline(event.command)
        return True

    def _drive(
        self,
        done: Callable[[], bool],
        codes: Collection[int],
        deadline: Deadline | None,
        heard_at: float | None = None,
    ) -> None:
        """Exchange bytes until `done`; `codes` are the requests for which an error is raised.

        Who has been waiting for longer says what `heard_at` was when that began.
        """
        deadline = deadline or self.settings.request_deadline()
        heard_at = heard_at or self.heard_at
        arrived = done() or self.exchange()
        while not done():
            self._raise_if_ended(codes)
            if deadline.expired:
                self._channel.note_time_out(heard_at)
                raise timed_out(self.address, codes, deadline, len(self._channel.outbox))
            if not arrived:
                wait_ready([self.wants], soonest(deadline, self._channel.untaken))
            arrived = self.exchange()

    def _raise_if_ended(self, codes: Collection[int]) -> None:
        if self._failure:
            raise for_requests(self._failure, codes)

    def _end(self, failure: RocketMQError) -> None:
        if not self._failure:
            self._failure = failure
            self._channel.session.pending.clear()
            self._channel.transport.close()


def wait_any(connections: Sequence[Connection], deadline: Deadline) -> list[Connection]:
    """Those of the connections that have news, as soon as one has: an answer, or the error that ended it.

    What had arrived when the deadline passed still counts: it is no fault of the server's when we look late. Taking
    that in ends after `_LATE_S`, however much goes on arriving.
    """
    late: Deadline | None = None
    while True:
        moved = [connection.exchange() for connection in connections if not connection.has_news]
        if ready := [connection for connection in connections if connection.has_news]:
            return ready
        if deadline.expired:
            late = late or Deadline.after(_LATE_S)
            if any(moved) and not late.expired:
                continue
            addresses = ", ".join(str(connection.address) for connection in connections)
            raise timed_out(addresses, chain.from_iterable(c.asked for c in connections), deadline, unsent_bytes=0)
        if any(moved):
            continue
        wait_ready([connection.wants for connection in connections], deadline)
