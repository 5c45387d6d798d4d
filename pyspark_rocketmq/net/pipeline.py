"""Keep many requests of one kind in flight, over one connection per address.

Requests are submitted in groups. All requests of a group are due at the same moment. `send` sends them together;
`drain` waits for responses from all addresses at once. A request that has no response when it is due times out. If its
connection has received no bytes since the request was sent, all requests on the connection time out with it, and the
next request gets a new connection.

A slow address does not delay requests to other addresses. Opening a connection blocks the caller, so the requests
submitted until then are sent first. An address to which no connection could be opened is not tried again before the
next `send`.
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
from .transport import READ, Waitable, Waker, wait_ready

__all__ = ["Pipeline", "RequestKind", "wait_any"]

_LATE_S = 1.0
"""The longest time, in seconds, to receive after a deadline what had arrived by then; usually it takes less."""
G = TypeVar("G")
R = TypeVar("R")
T = TypeVar("T")


class RequestKind(NamedTuple, Generic[T]):
    """The properties that all requests of one pipeline share."""

    code: int
    name: str
    """The name of such a request in error texts, with its article, as in "a pull"."""
    timeout_s: float
    advice: str
    """The advice in the error of a request that times out."""
    read: Callable[[Command], T]
    """A function that returns the result in a response, or raises the error that the response reports."""


class _ConnectionState(Generic[G, R]):
    """One connection and the requests in flight on it, oldest first."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.pending: dict[int, tuple[float, G, R]] = {}
        """{opaque: (due time, group, request)} of the requests in flight."""
        self.answered_due = -math.inf
        """The due time of the request whose response arrived last."""

    @property
    def first_due(self) -> float:
        """The due time of the oldest request in flight."""
        return next(iter(self.pending.values()))[0]


class Pipeline(Generic[G, R, T]):
    """Requests in flight to several addresses. Each result comes back with the group and the request it belongs to.

    `G` is the type of a group, `R` of a request and `T` of a result.
    """

    def __init__(
        self,
        pool: ConnectionPool,
        kind: RequestKind[T],
        clock: Callable[[], float] = time.monotonic,
        waker: Waker | None = None,
    ) -> None:
        self._pool = pool
        self._kind = kind
        self._clock = clock
        self._waker = waker
        """Ends `drain` early when another thread wakes it."""
        self._states: dict[Address, _ConnectionState[G, R]] = {}
        self._unreachable: dict[Address, RocketMQError] = {}
        """{address: error} of the failed attempts to connect since the last `send`."""

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
        """Connect to an address if not connected; return whether requests can be submitted to it now.

        Return False if the connection has ended and `drain` has not returned its requests yet. Raise if no connection
        can be made.
        """
        state = self._states.get(address)
        if state and not state.pending:
            state.connection.exchange()  # The server may have closed a connection that was idle.
            if not state.connection.is_open:
                self._drop(state)  # No request was in flight, so this is no error.
                state = None
        if state is None:
            state = self._states[address] = _ConnectionState(self._open(address))
        return state.connection.is_open

    def enqueue(self, address: Address, group: G, requests: Sequence[R], write: Writer) -> None:
        """Add requests of a group, which `send` or `drain` sends; `write` makes their frames, given their opaques."""
        state = self._states[address]
        due = self._clock() + self._kind.timeout_s
        opaques = state.connection.submit_as(self._kind.code, len(requests), write)
        for opaque, request in zip(opaques, requests, strict=True):
            state.pending[opaque] = due, group, request

    def send(self) -> None:
        """Send the added requests, as far as possible without waiting; let `connect` try failed addresses again."""
        self._exchange()
        self._unreachable.clear()

    def close(self) -> None:
        """Return all connections to the pool; requests in flight get no result."""
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
        """Wait for responses, at most until the clock shows `until`; return the requests that have ended.

        If there is a waker, return as soon as it is set.

        A request ends with a response, a timeout or another error. For each the list has a tuple (group, request,
        result or error); the list may be empty.
        """
        busy = [state for state in self._states.values() if state.pending]
        wake_at = min([until, *(state.first_due for state in busy)])
        ready = wait_any([state.connection for state in busy], wake_at, self._clock, self._waker)
        drained: list[tuple[G, R, T | RocketMQError]] = []
        for connection in ready:
            self._take_responses(self._states[connection.address], drained)
        for state in busy:
            self._expire(state, drained, is_talking=state.connection in ready)
        return drained

    def _take_responses(self, state: _ConnectionState[G, R], drained: list[tuple[G, R, T | RocketMQError]]) -> None:
        """Add to `drained` the requests whose responses have arrived.

        If the connection has ended, add all its other requests with the error that ended it.
        """
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
        """Add the overdue requests of a connection to `drained`, each with the error that it timed out.

        If no byte has arrived since the oldest overdue request was sent, all requests of the connection time out.
        While responses arrive (`is_talking`), the response to an overdue request may have arrived in time and still
        wait to be received. So such a request times out only when one that was sent after its due time is answered.
        """
        now, longest_s = self._clock(), self._kind.timeout_s
        limit = min(now, state.answered_due - longest_s) if is_talking else now
        if not is_talking and state.first_due <= now and state.connection.heard_at < state.first_due - longest_s:
            error = self._timed_out(state)
            error.is_silent = True
            self._fail_all(state, error, drained)
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
    connections: Sequence[Connection],
    until: float,
    clock: Callable[[], float] = time.monotonic,
    waker: Waker | None = None,
) -> list[Connection]:
    """Wait until a connection has a response or has ended; return all such connections.

    Return an empty list if there is none when the clock shows `until`, or when the waker is set. Even after `until`,
    bytes that have already arrived at this machine are received first, for at most `_LATE_S`, so that responses among
    them count.
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
            if waker and waker.is_set:
                return []
            wait_ready([*_wakes(waker), *(connection.wants for connection in connections)], left_s)


def _wakes(waker: Waker | None) -> list[tuple[Waitable, int]]:
    return [(waker, READ)] if waker else []
