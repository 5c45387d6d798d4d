"""A way to a server that can break without a word, or say what the server never said."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from pyspark_rocketmq.model import Address


class Way:
    """Carries bytes between clients and a server, a connection for each connection."""

    def __init__(self, server: Address) -> None:
        self._server = server
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: list[_Carried] = []
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def address(self) -> Address:
        """Where it begins."""
        return Address("127.0.0.1", self._listener.getsockname()[1])

    @property
    def connection_count(self) -> int:
        """How many connections have been made over it."""
        return len(self._open)

    def swallow(self) -> None:
        """Nothing comes through any more on the connections there are, as if a firewall had forgotten them."""
        for carried in self._open:
            carried.is_swallowing = True

    def say(self, data: bytes) -> None:
        """Send clients what the server did not."""
        for carried in self._open:
            carried.tell(data)

    def close(self) -> None:
        """End all connections, and take no more."""
        self._listener.close()
        for carried in self._open:
            carried.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                carried = _Carried(client, socket.create_connection(self._server))
                self._open.append(carried)
                carried.start()


class _Carried:
    """One connection over the way. Frames are carried as a whole, so that what is said comes between two of them."""

    def __init__(self, client: socket.socket, server: socket.socket) -> None:
        self.is_swallowing = False
        self._client = client
        self._server = server
        self._telling = threading.Lock()

    def start(self) -> None:
        """Begin to carry."""
        threading.Thread(target=self._carry, args=(self._client, self._server.sendall), daemon=True).start()
        threading.Thread(target=self._carry, args=(self._server, self.tell), daemon=True).start()

    def tell(self, data: bytes) -> None:
        """Send the client something."""
        with self._telling:
            self._client.sendall(data)

    def close(self) -> None:
        """End it at both sides."""
        for end in (self._client, self._server):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def _carry(self, source: socket.socket, send: Callable[[bytes], None]) -> None:
        with suppress(OSError):
            for frame in _frames(source):
                if not self.is_swallowing:
                    send(frame)
        if not self.is_swallowing:
            self.close()


def _frames(source: socket.socket) -> Iterator[bytes]:
    with source.makefile("rb") as stream:
        while size := stream.read(4):
            yield size + stream.read(int.from_bytes(size, "big"))


@contextmanager
def way_to(server: Address) -> Iterator[Way]:
    """A way to a server, for a `with` block."""
    way = Way(server)
    try:
        yield way
    finally:
        way.close()
