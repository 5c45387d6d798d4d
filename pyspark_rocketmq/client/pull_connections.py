"""Find or open the connection that a pull uses.

Neither the pull loop nor the thread that reads a connection may wait for an address that does not respond, because all
other queues would wait as well. So a separate thread connects to the address and then ends. All queues that need the
address meanwhile wait for this one attempt, and its success or failure counts for all of them.
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

Callback = Callable[[RocketMQError | None], object]
"""Called with the error if connecting failed, or with None if there is a connection now."""

_log = logging.getLogger(__name__)


class PullConnections:
    """The connections that pulls use, by address. Any thread may use it."""

    def __init__(self, pool: SharedPool, reconnected: Callable[[], object]) -> None:
        self._pool = pool
        self._reconnected = reconnected
        self._lock = threading.Lock()
        self._known: dict[Address, ThreadedConnection] = {}
        self._waiting: dict[Address, list[Callback]] = {}

    def __repr__(self) -> str:
        return f"<PullConnections {len(self._known)} known, {len(self._waiting)} opening>"

    def find(self, address: Address) -> ThreadedConnection | None:
        """Return the open connection to an address; None if there is none, or if it is broken."""
        known = self._known.get(address)
        return known if known and known.is_usable else None

    def open(self, address: Address, waiting: Callback) -> None:
        """Connect to an address in another thread, which calls `waiting` when it has succeeded or failed."""
        with self._lock:
            if address not in self._waiting:
                # Started before the callback is stored, so that no callback waits forever if starting raises.
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
        """Connect to an address and keep the connection; return the error if that fails, else None."""
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
