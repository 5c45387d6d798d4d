"""Send requests to servers over connections, one or many at once.

A cluster for one thread borrows connections from a pool (`InlineLinks`); group members and producers share one
connection per server among their threads (`SharedLinks`). Both send to many servers at once: every request of a burst
is sent before they wait for the first response. Shared links also connect to many servers at once, so that an
unreachable server takes no time from the others.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from typing import Protocol

from ..errors import RocketMQError
from ..model import Address
from ..net.connection import Connection
from ..net.deadline import Deadline
from ..net.pool import ConnectionPool, SharedPool
from ..net.settings import NetSettings
from ..net.threaded import ThreadedConnection
from ..wire.header import Command

CONNECTING = 32
"""Number of servers to which `SharedLinks` connects at the same time."""
BURST = 512
"""The most requests that one server gets at once; servers queue some thousands, from all clients together."""

Addressed = tuple[Address, Command]
"""A server's address, and a request to it."""
Result = Command | RocketMQError
"""A response, with any response code, or the error that explains why there is none."""


class Links(Protocol):
    """A way to send requests to servers; a response with an error code is returned, a missing response is an error."""

    def call(self, address: Address, request: Command, deadline: Deadline | None = None) -> Command:
        """Send a request, wait, and return the response."""

    def call_all(self, requests: Sequence[Addressed], deadline: Deadline | None = None) -> list[Result]:
        """Send all requests at once; return for each its response, or its error in place of the response."""

    def tell(self, address: Address, request: Command, deadline: Deadline | None = None) -> None:
        """Send a one-way request."""

    def close(self) -> None:
        """Close the connections that only these links use."""


def within(deadline: Deadline | None, seconds: float) -> Deadline:
    """Return the deadline of a step that may take `seconds`, but not longer than the whole operation's `deadline`."""
    return Deadline.after(seconds if deadline is None else min(seconds, deadline.remaining()))


# --- one thread ------------------------------------------------------------------------------------------------------


class InlineLinks:
    """Links for one thread: each call borrows connections from a pool, and gives them back before it returns."""

    def __init__(self, pool: ConnectionPool) -> None:
        self._pool = pool

    def call(self, address: Address, request: Command, deadline: Deadline | None = None) -> Command:
        """Send a request, wait, and return the response."""
        with self._pool.connection(address, _to_connect(self._pool.settings, deadline)) as connection:
            until = _to_answer(self._pool.settings, deadline)
            return connection.call(request.code, request.fields, bytes(request.body), until)

    def call_all(self, requests: Sequence[Addressed], deadline: Deadline | None = None) -> list[Result]:
        """Send all requests at once, at most `BURST` to each server; return for each its response or its error."""
        results: dict[int, Result] = {}
        for burst in _bursts(requests):
            with ExitStack() as borrowed:
                started = [self._start(borrowed, requests, numbers, deadline, results) for numbers in burst]
                until = _to_answer(self._pool.settings, deadline)
                for each in filter(None, started):
                    _collect(each, results, until)
        return [results[number] for number in range(len(requests))]

    def tell(self, address: Address, request: Command, deadline: Deadline | None = None) -> None:
        """Send a one-way request."""
        with self._pool.connection(address, _to_connect(self._pool.settings, deadline)) as connection:
            until = _to_answer(self._pool.settings, deadline)
            connection.tell(request.code, request.fields, bytes(request.body), until)

    def close(self) -> None:
        """Do nothing: the process shares the pool, which closes idle connections itself."""

    def _start(
        self,
        borrowed: ExitStack,
        requests: Sequence[Addressed],
        numbers: Sequence[int],
        deadline: Deadline | None,
        results: dict[int, Result],
    ) -> _Started | None:
        """Send one server its requests of a burst without waiting for responses; return what `_collect` needs.

        After an error, put it into `results` for each of these requests and return None.
        """
        until = _to_connect(self._pool.settings, deadline)
        try:
            connection = borrowed.enter_context(self._pool.connection(requests[numbers[0]][0], until))
            number_of: dict[int, int] = {}
            for number in numbers:
                _, request = requests[number]
                number_of[connection.submit(request.code, request.fields, bytes(request.body))] = number
            connection.exchange()
        except RocketMQError as error:
            results.update(dict.fromkeys(numbers, error))
            return None
        return connection, number_of


_Started = tuple[Connection, dict[int, int]]
"""A connection, and the request numbers of the responses it must bring, by opaque."""


def _collect(started: _Started, results: dict[int, Result], deadline: Deadline) -> None:
    """Wait for the responses of one connection and put them into `results`; a missing one is replaced by an error."""
    connection, number_of = started
    try:
        for opaque, command in connection.collect(tuple(number_of), deadline):
            results[number_of[opaque]] = command
    except RocketMQError as error:
        for number in number_of.values():
            results.setdefault(number, error)


# --- many threads ----------------------------------------------------------------------------------------------------


class SharedLinks:
    """Links over one connection per server, which all callers share."""

    def __init__(self, pool: SharedPool) -> None:
        self._pool = pool

    def call(self, address: Address, request: Command, deadline: Deadline | None = None) -> Command:
        """Send a request, wait, and return the response."""
        connection = self._connection(address, deadline)
        until = _to_answer(self._pool.settings, deadline)
        return connection.call(request.code, request.fields, bytes(request.body), until)

    def call_all(self, requests: Sequence[Addressed], deadline: Deadline | None = None) -> list[Result]:
        """Send all requests at once, at most `BURST` to each server; return for each its response or its error."""
        results: dict[int, Result] = {}
        for burst in _bursts(requests):
            sent = self._submit_burst([[requests[number] for number in numbers] for numbers in burst], deadline)
            for numbers, submitted in zip(burst, sent, strict=True):
                results.update(zip(numbers, map(_wait, submitted), strict=True))
        return [results[number] for number in range(len(requests))]

    def tell(self, address: Address, request: Command, deadline: Deadline | None = None) -> None:
        """Send a one-way request."""
        connection = self._connection(address, deadline)
        until = _to_answer(self._pool.settings, deadline)
        connection.tell(request.code, request.fields, bytes(request.body), until)

    def close(self) -> None:
        """Close every connection."""
        self._pool.close_all()

    def _submit_burst(self, parts: Sequence[Sequence[Addressed]], deadline: Deadline | None) -> list[list[_Submitted]]:
        """Send each server its requests without waiting for responses; return what `_wait` needs, as in `parts`.

        Servers with an open connection come first; connections to all others are then opened in parallel.
        """
        sent: dict[int, list[_Submitted]] = {}
        unconnected = []
        for number, part in enumerate(parts):
            if self._pool.find(part[0][0]):
                sent[number] = self._submit_all(part, deadline)
            else:
                unconnected.append(number)
        connecting = self._connect_all([parts[number] for number in unconnected], deadline)
        sent |= zip(unconnected, connecting, strict=True)
        return [sent[number] for number in range(len(parts))]

    def _connect_all(self, parts: list[Sequence[Addressed]], deadline: Deadline | None) -> list[list[_Submitted]]:
        if len(parts) < 2:
            return [self._submit_all(part, deadline) for part in parts]
        with ThreadPoolExecutor(min(CONNECTING, len(parts)), "rocketmq connect") as threads:
            return list(threads.map(lambda part: self._submit_all(part, deadline), parts))

    def _submit_all(self, part: Sequence[Addressed], deadline: Deadline | None) -> list[_Submitted]:
        try:
            connection = self._connection(part[0][0], deadline)
        except RocketMQError as error:
            return [error] * len(part)
        return [self._submit(connection, request, deadline) for _, request in part]

    def _submit(self, connection: ThreadedConnection, request: Command, deadline: Deadline | None) -> _Submitted:
        try:
            until = _to_answer(self._pool.settings, deadline)
            return connection.submit(request.code, request.fields, bytes(request.body), until)
        except RocketMQError as error:
            return error

    def _connection(self, address: Address, deadline: Deadline | None) -> ThreadedConnection:
        return self._pool.connection(address, _to_connect(self._pool.settings, deadline))


_Submitted = Future[Command] | RocketMQError


def _wait(submitted: _Submitted) -> Result:
    """Return the response or error of a submitted request; the connection ends the wait at the request's deadline."""
    if isinstance(submitted, RocketMQError):
        return submitted
    try:
        return submitted.result()
    except RocketMQError as error:
        return error


def _bursts(requests: Sequence[Addressed]) -> Iterator[list[list[int]]]:
    """Divide requests into bursts; a burst is one list per server, of at most `BURST` indexes into `requests`."""
    by_address = defaultdict(list)
    for number, (address, _) in enumerate(requests):
        by_address[address].append(number)
    longest = max(map(len, by_address.values()), default=0)
    for start in range(0, longest, BURST):
        parts = (numbers[start : start + BURST] for numbers in by_address.values())
        yield [part for part in parts if part]


def _to_connect(settings: NetSettings, deadline: Deadline | None) -> Deadline:
    return within(deadline, settings.connect_timeout_s)


def _to_answer(settings: NetSettings, deadline: Deadline | None) -> Deadline:
    return within(deadline, settings.request_timeout_s)
