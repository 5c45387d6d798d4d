"""Over which connections do requests travel?

A task of one thread borrows connections from a pool (`InlineLinks`); group members and producers share one
connection per server among their threads (`SharedLinks`). Both ask many servers at once: every request of a burst
is on its way before the first answer is waited for. Threads that share also connect to many servers at once, so one
that is silently gone takes no time from the others.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from typing import NamedTuple, Protocol

from ..errors import RocketMQError
from ..model import Address
from ..net.connection import Connection
from ..net.deadline import Deadline
from ..net.pool import ConnectionPool, SharedPool
from ..net.settings import NetSettings
from ..net.threaded import ThreadedConnection
from ..wire.header import Command

CONNECTING = 32
"""Servers that are connected to at once."""
BURST = 512
"""Requests that one server gets at once; its queues hold thousands, for all its clients."""

Outcome = Command | RocketMQError


class Call(NamedTuple):
    """One request as the network sees it."""

    address: Address
    code: int
    fields: dict[str, str]
    body: bytes = b""


class Links(Protocol):
    """Brings requests to servers. An answer is an answer whatever its code; no answer is an error."""

    def call(self, call: Call, deadline: Deadline | None = None) -> Command:
        """Ask and wait."""

    def call_all(self, calls: Sequence[Call], deadline: Deadline | None = None) -> list[Outcome]:
        """Ask all at once; for each request its answer, or the error in its place."""

    def tell(self, call: Call, deadline: Deadline | None = None) -> None:
        """Send without wanting an answer."""

    def close(self) -> None:
        """Close the connections that are not in use by anybody else."""


def within(deadline: Deadline | None, seconds: float) -> Deadline:
    """A step's own deadline, which ends with the whole operation at the latest."""
    return Deadline.after(seconds if deadline is None else min(seconds, deadline.remaining()))


# --- one thread ------------------------------------------------------------------------------------------------------


class InlineLinks:
    """Borrows a connection for each request or burst."""

    def __init__(self, pool: ConnectionPool) -> None:
        self._pool = pool

    def call(self, call: Call, deadline: Deadline | None = None) -> Command:
        """Ask and wait."""
        with self._pool.connection(call.address, _to_connect(self._pool.settings, deadline)) as connection:
            until = _to_answer(self._pool.settings, deadline)
            return connection.call(call.code, call.fields, call.body, until)

    def call_all(self, calls: Sequence[Call], deadline: Deadline | None = None) -> list[Outcome]:
        """Ask all at once, `BURST` requests a server; for each its answer, or the error in its place."""
        outcomes: dict[int, Outcome] = {}
        for burst in _bursts(calls):
            with ExitStack() as borrowed:
                started = [self._start(borrowed, calls, numbers, deadline, outcomes) for numbers in burst]
                until = _to_answer(self._pool.settings, deadline)
                for asked in filter(None, started):
                    asked.collect_into(outcomes, until)
        return [outcomes[number] for number in range(len(calls))]

    def tell(self, call: Call, deadline: Deadline | None = None) -> None:
        """Send without wanting an answer."""
        with self._pool.connection(call.address, _to_connect(self._pool.settings, deadline)) as connection:
            connection.tell(call.code, call.fields, call.body, _to_answer(self._pool.settings, deadline))

    def close(self) -> None:
        """The pool is the process's, its connections close when they have been idle."""

    def _start(
        self,
        borrowed: ExitStack,
        calls: Sequence[Call],
        numbers: Sequence[int],
        deadline: Deadline | None,
        outcomes: dict[int, Outcome],
    ) -> _Asked | None:
        """Send one server its part of a burst, as far as it goes without waiting."""
        until = _to_connect(self._pool.settings, deadline)
        asked = None
        try:
            connection = borrowed.enter_context(self._pool.connection(calls[numbers[0]].address, until))
            asked = _Asked(connection)
            for number in numbers:
                asked.submit(number, calls[number])
            connection.exchange()
        except RocketMQError as error:
            outcomes.update(dict.fromkeys(numbers, error))
            return None
        return asked


class _Asked:
    """What one connection has been asked in a burst."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._number_of: dict[int, int] = {}

    def submit(self, number: int, call: Call) -> None:
        """Gather one request."""
        self._number_of[self._connection.submit(call.code, call.fields, call.body)] = number

    def collect_into(self, outcomes: dict[int, Outcome], deadline: Deadline) -> None:
        """Wait for the answers; those that do not come get the error that says why."""
        try:
            for opaque, command in self._connection.collect(tuple(self._number_of), deadline):
                outcomes[self._number_of[opaque]] = command
        except RocketMQError as error:
            for number in self._number_of.values():
                outcomes.setdefault(number, error)


# --- many threads ----------------------------------------------------------------------------------------------------


class SharedLinks:
    """Asks over the one connection that a server's callers share."""

    def __init__(self, pool: SharedPool) -> None:
        self._pool = pool

    def call(self, call: Call, deadline: Deadline | None = None) -> Command:
        """Ask and wait."""
        connection = self._connection(call.address, deadline)
        return connection.call(call.code, call.fields, call.body, _to_answer(self._pool.settings, deadline))

    def call_all(self, calls: Sequence[Call], deadline: Deadline | None = None) -> list[Outcome]:
        """Ask all at once, `BURST` requests a server; for each its answer, or the error in its place."""
        outcomes: dict[int, Outcome] = {}
        for burst in _bursts(calls):
            asked = self._submit_burst([[calls[number] for number in numbers] for numbers in burst], deadline)
            for numbers, submitted in zip(burst, asked, strict=True):
                outcomes.update(zip(numbers, map(_outcome, submitted), strict=True))
        return [outcomes[number] for number in range(len(calls))]

    def tell(self, call: Call, deadline: Deadline | None = None) -> None:
        """Send without wanting an answer."""
        connection = self._connection(call.address, deadline)
        connection.tell(call.code, call.fields, call.body, _to_answer(self._pool.settings, deadline))

    def close(self) -> None:
        """Close every connection."""
        self._pool.close_all()

    def _submit_burst(self, parts: Sequence[Sequence[Call]], deadline: Deadline | None) -> list[list[_Submitted]]:
        """Ask each server its part: first those that can be asked at once, then all others side by side."""
        asked: dict[int, list[_Submitted]] = {}
        far = []
        for number, part in enumerate(parts):
            if self._pool.find(part[0].address):
                asked[number] = self._submit_all(part, deadline)
            else:
                far.append(number)
        asked |= zip(far, self._connect_and_submit([parts[number] for number in far], deadline), strict=True)
        return [asked[number] for number in range(len(parts))]

    def _connect_and_submit(self, parts: list[Sequence[Call]], deadline: Deadline | None) -> list[list[_Submitted]]:
        if len(parts) < 2:
            return [self._submit_all(part, deadline) for part in parts]
        with ThreadPoolExecutor(min(CONNECTING, len(parts)), "rocketmq connect") as threads:
            return list(threads.map(lambda part: self._submit_all(part, deadline), parts))

    def _submit_all(self, part: Sequence[Call], deadline: Deadline | None) -> list[_Submitted]:
        try:
            connection = self._connection(part[0].address, deadline)
        except RocketMQError as error:
            return [error] * len(part)
        return [self._submit(connection, call, deadline) for call in part]

    def _submit(self, connection: ThreadedConnection, call: Call, deadline: Deadline | None) -> _Submitted:
        try:
            return connection.submit(call.code, call.fields, call.body, _to_answer(self._pool.settings, deadline))
        except RocketMQError as error:
            return error

    def _connection(self, address: Address, deadline: Deadline | None) -> ThreadedConnection:
        return self._pool.connection(address, _to_connect(self._pool.settings, deadline))


_Submitted = Future[Command] | RocketMQError


def _outcome(asked: _Submitted) -> Outcome:
    """A future of the connection ends at its deadline at the latest."""
    if isinstance(asked, RocketMQError):
        return asked
    try:
        return asked.result()
    except RocketMQError as error:
        return error


def _bursts(calls: Sequence[Call]) -> Iterator[list[list[int]]]:
    """Numbers of the calls, server by server, in rounds of at most `BURST` for each server."""
    by_address = defaultdict(list)
    for number, call in enumerate(calls):
        by_address[call.address].append(number)
    longest = max(map(len, by_address.values()), default=0)
    for start in range(0, longest, BURST):
        parts = (numbers[start : start + BURST] for numbers in by_address.values())
        yield [part for part in parts if part]


def _to_connect(settings: NetSettings, deadline: Deadline | None) -> Deadline:
    return within(deadline, settings.connect_timeout_s)


def _to_answer(settings: NetSettings, deadline: Deadline | None) -> Deadline:
    return within(deadline, settings.request_timeout_s)
