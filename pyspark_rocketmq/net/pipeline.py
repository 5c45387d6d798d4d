"""Keep many requests of one kind in flight, over one connection per address.

Requests are submitted in groups. All requests of a group are due at the same moment. `send` makes them leave together;
`drain` waits for responses of all addresses at once. A request that is not answered in time is given up; if the
connection has been silent since the request was sent, so are all others on it, and the next request gets a new
connection.

An address that is slow or out of reach does not hold up the others: what was submitted is sent before a connection is
opened, and an address that could not be reached is not tried again before the next `send`.
"""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable, Sequence
from typing import Generic, NamedTuple, TypeVar

from ..errors import RequestTimeout, RocketMQError
from ..model import Address
from ..wire.header import Command
from ..wire.session import Writer
from .connection import Connection
from .pool import ConnectionPool
from .transport import wait_ready

__all__ = ["Pipeline", "RequestKind", "wait_any"]

_LATE_S = 1.0
"""Longer than it takes to read what the buffers of a socket hold."""
G = TypeVar("G")
R = TypeVar("R")
T = TypeVar("T")


class RequestKind(NamedTuple, Generic[T]):
    """The properties that all requests of one pipeline share."""

    code: int
    name: str
    """The name of such a request in error texts, with its article."""
    timeout_s: float
    advice: str
    """The advice of an error when a request times out."""
    read: Callable[[Command], T]
    """Turns a response into a result; raises for responses that are errors."""


class _ConnectionState(Generic[G, R]):
    """One connection and the requests in flight on it, oldest first."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.pending: dict[int, tuple[float, G, R]] = {}
        """Opaque to due time, group and request."""
        self.answered_due = -math.inf
        """The due time of the request that was answered last."""

    @property
    def first_due(self) -> float:
        """The due time of the oldest request in flight."""
        return next(iter(self.pending.values()))[0]


class Pipeline(Generic[G, R, T]):
    """Requests in flight. `G` is a group, `R` a request and `T` a result; groups and requests are handed through."""

    def __init__(self, pool: ConnectionPool, kind: RequestKind[T], clock: Callable[[], float] = time.monotonic) -> None:
        self._pool = pool
        self._kind = kind
        self._clock = clock
        self._states: dict[Address, _ConnectionState[G, R]] = {}
        self._unreachable: dict[Address, RocketMQError] = {}
        """The errors of addresses that could not be connected to since the last `send`."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.in_flight} in flight, {len(self._states)} connections>"

    @property
    def in_flight(self) -> int:
        """The number of requests that await a response."""
        count = 0
        for state in self._states.values():
            count += len(state.pending)
        return count

    # --- sending -----------------------------------------------------------------------------------------------------

    def connect(self, address: Address) -> bool:
        """Connect if need be; return whether requests can be submitted to an address now, raise if it is out of reach.

        They cannot while a connection that ended has requests in flight; `drain` returns these first.
        """
        state = self._states.get(address)
        if state and not state.pending and not state.connection.is_open:
            self._drop(state)  # It ended while no request was in flight, which is no failure.
            state = None
        if state is None:
            state = self._states[address] = _ConnectionState(self._open(address))
        return state.connection.is_open

    def enqueue(self, address: Address, group: G, requests: Sequence[R], write: Writer) -> None:
        """Add the requests of a group, whose frames `write` makes; `send` or `drain` sends them."""
        state = self._states[address]
        due = self._clock() + self._kind.timeout_s
        opaques = state.connection.submit_as(self._kind.code, len(requests), write)
        for opaque, request in zip(opaques, requests, strict=True):
            state.pending[opaque] = due, group, request

    def send(self) -> None:
        """Send what was submitted, as far as that needs no waiting; let unreachable addresses be tried again."""
        self._exchange()
        self._unreachable.clear()

    def close(self) -> None:
        """Give the connections back; requests in flight are given up."""
        for state in self._states.values():
            self._pool.give_back(state.connection)
        self._states.clear()

    def _open(self, address: Address) -> Connection:
        if failure := self._unreachable.get(address):
            raise copy.copy(failure)
        self._exchange()
        try:
            return self._pool.take(address)
        except RocketMQError as error:
            self._unreachable[address] = copy.copy(error)
            raise

    def _exchange(self) -> None:
        for state in self._states.values():
            state.connection.exchange()

    def _drop(self, state: _ConnectionState[G, R]) -> None:
        del self._states[state.connection.address]
        self._pool.give_back(state.connection)

    # --- receiving ---------------------------------------------------------------------------------------------------

    def drain(self, until: float) -> list[tuple[G, R, T | RocketMQError]]:
        """Wait for responses until a moment of the clock; return each request with its result or its error.

        An empty list means that the moment, or the due time of some request, has passed.
        """
        busy = [state for state in self._states.values() if state.pending]
        wake_at = min([until, *(state.first_due for state in busy)])
        ready = wait_any([state.connection for state in busy], wake_at, self._clock)
        drained: list[tuple[G, R, T | RocketMQError]] = []
        for connection in ready:
            self._take_responses(self._states[connection.address], drained)
        for state in busy:
            self._expire(state, drained, is_talking=state.connection in ready)
        return drained

    def _take_responses(self, state: _ConnectionState[G, R], drained: list[tuple[G, R, T | RocketMQError]]) -> None:
        """Add what has arrived to `drained`; a connection that ended fails its requests."""
        connection, pending, read = state.connection, state.pending, self._kind.read
        while connection.has_news:
            try:
                replies = connection.ready_replies()
            except RocketMQError as error:
                self._fail_all(state, error, drained)
                return
            for opaque, response in replies:
                state.answered_due, group, request = pending.pop(opaque)
                try:
                    drained.append((group, request, read(response)))
                except RocketMQError as error:
                    drained.append((group, request, error.locate(address=str(connection.address))))

    def _expire(
        self, state: _ConnectionState[G, R], drained: list[tuple[G, R, T | RocketMQError]], *, is_talking: bool
    ) -> None:
        """Give up requests that are due; all of a connection that has been silent since the first was sent.

        Behind responses there may be more that came in time, while the caller did something else. But a response that
        the server had not written before it answered a request sent after the deadline came late.
        """
        now, longest_s = self._clock(), self._kind.timeout_s
        limit = min(now, state.answered_due - longest_s) if is_talking else now
        if not is_talking and state.first_due <= now and state.connection.heard_at < state.first_due - longest_s:
            self._fail_all(state, self._timed_out(state), drained)
        while state.pending and state.first_due <= limit:
            opaque = next(iter(state.pending))
            _, group, request = state.pending.pop(opaque)
            state.connection.forget(opaque)
            drained.append((group, request, self._timed_out(state)))

    def _fail_all(
        self, state: _ConnectionState[G, R], error: RocketMQError, drained: list[tuple[G, R, T | RocketMQError]]
    ) -> None:
        self._drop(state)
        drained.extend((group, request, error) for _, group, request in state.pending.values())
        state.pending.clear()

    def _timed_out(self, state: _ConnectionState[G, R]) -> RequestTimeout:
        what = f"no answer to {self._kind.name} within {self._kind.timeout_s:g} s"
        return RequestTimeout(what, advice=self._kind.advice, address=str(state.connection.address))


def wait_any(
    connections: Sequence[Connection], until: float, clock: Callable[[], float] = time.monotonic
) -> list[Connection]:
    """Return the connections that have news, as soon as one has: a response, or the error that ended it.

    Return none when the moment `until` of the clock has passed. Responses that had arrived by then still count: the
    server is not to blame if the caller looks late. Receiving them ends after `_LATE_S`, although more may arrive.
    """
    late_until: float | None = None
    while True:
        moved = [connection.exchange() for connection in connections if not connection.has_news]
        if ready := [connection for connection in connections if connection.has_news]:
            return ready
        left_s = until - clock()
        if left_s <= 0:
            late_until = late_until or time.monotonic() + _LATE_S
            if not any(moved) or time.monotonic() >= late_until:
                return []
        elif not any(moved):
            wait_ready([connection.wants for connection in connections], left_s)
