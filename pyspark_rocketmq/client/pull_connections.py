"""Over which connection does a pull travel, and who opens it?

Neither the pull loop nor a connection's reader may wait for an address that does not answer: all other queues would
wait with them. So a thread of its own connects to the address, and ends with that. Every queue that wants the address
meanwhile waits for this one attempt, which succeeds or fails for all of them.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from ..errors import ConnectError, RocketMQError
from ..model import Address
from ..net.pool import SharedPool
from ..net.threaded import ThreadedConnection

__all__ = ["PullConnections"]

Waiting = Callable[[RocketMQError | None], object]
"""Told why there is no connection, or nothing if there is one now."""

_log = logging.getLogger(__name__)


class PullConnections:
    """The connections that pulls use. For any thread."""

    def __init__(self, pool: SharedPool, reconnected: Callable[[], object]) -> None:
        self._pool = pool
        self._reconnected = reconnected
        self._lock = threading.Lock()
        self._known: dict[Address, ThreadedConnection] = {}
        self._waiting: dict[Address, list[Waiting]] = {}

    def __repr__(self) -> str:
        return f"<PullConnections {len(self._known)} known, {len(self._waiting)} opening>"

    def find(self, address: Address) -> ThreadedConnection | None:
        """The connection at hand, if it is good for anything."""
        known = self._known.get(address)
        return known if known and known.is_usable else None

    def open(self, address: Address, waiting: Waiting) -> None:
        """Have a connection opened; whoever waits is told by the thread that opens it."""
        with self._lock:
            if address not in self._waiting:
                # Before anybody is noted down: should there be no more threads, nobody waits for one.
                threading.Thread(target=self._open, args=(address,), name=f"open {address}", daemon=True).start()
                self._waiting[address] = []
            self._waiting[address].append(waiting)

    def _open(self, address: Address) -> None:
        failure = self._connect(address)
        with self._lock:
            waiting = self._waiting.pop(address)
        for each in waiting:
            each(failure)

    def _connect(self, address: Address) -> RocketMQError | None:
        """Why there is no connection, if so."""
        try:
            connection = self._pool.connection(address)
        except RocketMQError as error:
            return error
        except Exception as cause:
            _log.exception("connecting to %s failed", address)
            return ConnectError(f"connecting failed: {cause}", address=str(address))
        if self._known.get(address) is not connection:
            self._known[address] = connection
            self._reconnected()
        return None
