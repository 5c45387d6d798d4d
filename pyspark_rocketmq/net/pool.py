"""Keep open connections for repeated use within one process.

`ConnectionPool` lends each connection to one user at a time; `SharedPool` gives one connection per address to all
threads. Neither returns a connection that is known to be broken, or that is mute: a request timed out on it, and no
bytes have arrived since. The caller decides whether a request that failed on a connection may be repeated.

A forked child starts with empty pools: its copies of the parent's descriptors are closed at once. The servers do not
notice this, and the parent's connections are not affected.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import NamedTuple
from weakref import WeakSet

from ..errors import ConnectError, RocketMQError
from ..model import Address
from .connection import Connection
from .deadline import Deadline
from .settings import NetSettings
from .threaded import Handler, ThreadedConnection


class _Idle(NamedTuple):
    connection: Connection
    since: float


class ConnectionPool:
    """Connections for one user at a time. After use, a connection is kept if nothing is left to send or receive."""

    def __init__(self, settings: NetSettings, clock: Callable[[], float] = time.monotonic) -> None:
        self.settings = settings
        self._clock = clock
        self._lock = threading.Lock()
        self._idle: list[_Idle] = []
        """Idle connections, in the order in which they were given back."""
        self._lent: set[Connection] = set()
        _pools.add(self)

    def __repr__(self) -> str:
        return f"<ConnectionPool {len(self._idle)} idle, {len(self._lent)} lent>"

    @contextmanager
    def connection(self, address: Address, deadline: Deadline | None = None) -> Iterator[Connection]:
        """Lend a connection for a `with` block: call `take` before it and `give_back` after it."""
        connection = self.take(address, deadline)
        try:
            yield connection
        finally:
            self.give_back(connection)

    def take(self, address: Address, deadline: Deadline | None = None) -> Connection:
        """Return an idle connection to the address if the server has not closed it, else a new connection."""
        while connection := self._take_idle(address):
            connection.exchange()
            if connection.is_settled:
                return connection
            self.give_back(connection)
        connection = Connection.open(address, self.settings, deadline)
        with self._lock:
            self._lent.add(connection)
        return connection

    def give_back(self, connection: Connection) -> None:
        """Keep a connection for the next user, if it is settled (`Connection.is_settled`); else close it.

        Close it also if `close_all` was called while it was lent.
        """
        with self._lock:
            keep = connection in self._lent and connection.is_settled
            self._lent.discard(connection)
            ended = self._take_stale()
            if keep:
                self._idle.append(_Idle(connection, self._clock()))
            else:
                ended.append(connection)
        _close(ended)

    def close_all(self) -> None:
        """Close idle connections now, and lent ones when they are given back."""
        with self._lock:
            ended = [idle.connection for idle in self._idle]
            self._idle = []
            self._lent = set()
        _close(ended)

    def abandon(self) -> None:
        """Close a forked child's copies of all connections and forget them; the parent's stay usable."""
        self._lock = threading.Lock()
        for connection in (*(idle.connection for idle in self._idle), *self._lent):
            connection.abandon()
        self._idle = []
        self._lent = set()

    def _take_idle(self, address: Address) -> Connection | None:
        with self._lock:
            ended = self._take_stale()
            found = next((idle for idle in reversed(self._idle) if idle.connection.address == address), None)
            if found:
                self._idle.remove(found)
                self._lent.add(found.connection)
        _close(ended)
        return found and found.connection

    def _take_stale(self) -> list[Connection]:
        """Remove and return the connections idle for more than `max_idle_s`, before their servers close them."""
        oldest = self._clock() - self.settings.max_idle_s
        stale = [idle.connection for idle in self._idle if idle.since < oldest]
        self._idle = [idle for idle in self._idle if idle.since >= oldest]
        return stale


class SharedPool:
    """One threaded connection per address, for all threads."""

    def __init__(
        self, settings: NetSettings, handler: Handler | None = None, quick: Collection[int] = frozenset()
    ) -> None:
        self.settings = settings
        self._handler = handler
        self._quick = quick
        self._lock = threading.Lock()
        self._connections: dict[Address, ThreadedConnection] = {}
        self._opening: dict[Address, Future[ThreadedConnection]] = {}
        self._is_closed = False
        _pools.add(self)

    def __repr__(self) -> str:
        open_count = sum(connection.is_open for connection in tuple(self._connections.values()))
        return f"<SharedPool {open_count} open, {len(self._opening)} opening>"

    def connection(self, address: Address, deadline: Deadline | None = None) -> ThreadedConnection:
        """Return the connection to an address; if there is none, one caller opens it and other callers wait.

        A mute connection is replaced by a new one: a request timed out, and no bytes have arrived since. The old one is
        closed only when the new one is open, because its bytes may still arrive.
        """
        deadline = deadline or self.settings.connect_deadline()
        with self._lock:
            if self._is_closed:
                raise ConnectError("the client was closed", advice="make a new one", address=str(address))
            if known := self._usable(address):
                return known
            opening = self._opening.get(address)
            is_first = opening is None
            if opening is None:
                opening = self._opening[address] = Future()
        if is_first:
            self._open_into(opening, address, deadline)
        return self._opened(opening, address, deadline)

    def find(self, address: Address) -> ThreadedConnection | None:
        """Return the open connection to an address, without opening one; None if there is none or it is mute.

        A connection is mute if a request timed out on it and no bytes have arrived since.
        """
        with self._lock:
            return self._usable(address)

    def close_all(self) -> None:
        """Close every connection, also those being opened; later calls of `connection` raise."""
        with self._lock:
            self._is_closed = True
            ended = list(self._connections.values())
            self._connections = {}
            self._opening = {}
        _close(ended)

    def abandon(self) -> None:
        """Close a forked child's copies of all connections and forget them; the parent's stay usable."""
        self._lock = threading.Lock()
        for connection in self._connections.values():
            connection.abandon()
        self._connections = {}
        self._opening = {}

    def _usable(self, address: Address) -> ThreadedConnection | None:
        known = self._connections.get(address)
        return known if known and known.is_usable else None

    def _open_into(self, opening: Future[ThreadedConnection], address: Address, deadline: Deadline) -> None:
        try:
            connection = ThreadedConnection.open(address, self.settings, deadline, self._handler, self._quick)
        except BaseException as error:
            with self._lock:
                self._finish(opening, address)
            ours = isinstance(error, RocketMQError)
            opening.set_exception(error if ours else ConnectError("connecting was interrupted", address=str(address)))
            if not ours:
                raise
            return
        replaced = self._keep(opening, connection)
        opening.set_result(connection)
        if replaced:
            replaced.close("no bytes came from the server for a whole timeout; a new connection was made", "try again")

    def _keep(self, opening: Future[ThreadedConnection], connection: ThreadedConnection) -> ThreadedConnection | None:
        """Put a new connection into the pool, or close it if the pool was closed; return the connection it replaces."""
        with self._lock:
            wanted = self._finish(opening, connection.address)
            replaced = self._connections.get(connection.address) if wanted else None
            if wanted:
                self._connections[connection.address] = connection
        if not wanted:
            connection.close()
        return replaced

    def _finish(self, opening: Future[ThreadedConnection], address: Address) -> bool:
        """Note that an attempt to connect has ended; return False if the pool was closed and wants no connection."""
        wanted = self._opening.get(address) is opening
        if wanted:
            del self._opening[address]
        return wanted

    def _opened(self, opening: Future[ThreadedConnection], address: Address, deadline: Deadline) -> ThreadedConnection:
        try:
            return opening.result(deadline.remaining())
        except TimeoutError as cause:
            what = f"no connection within {deadline.seconds:g} s"
            raise ConnectError(what, advice="another thread is still connecting", address=str(address)) from cause


_pools: WeakSet[ConnectionPool | SharedPool] = WeakSet()
_by_settings: dict[NetSettings, ConnectionPool] = {}


def pool_for(settings: NetSettings) -> ConnectionPool:
    """Return this process's connection pool for these settings; equal settings share a pool."""
    return _by_settings.get(settings) or _by_settings.setdefault(settings, ConnectionPool(settings))


def _close(ended: list[Connection] | list[ThreadedConnection]) -> None:
    """Close connections; the caller must hold no lock, because closing may wait."""
    for connection in ended:
        connection.close()


def _leave_to_parent() -> None:
    for pool in tuple(_pools):
        pool.abandon()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_to_parent)
