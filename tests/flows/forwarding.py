"""Forward TCP connections to a server, and produce network faults on the way."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from pyspark_rocketmq.model import Address


class ForwardingProxy:
    """A proxy that opens one connection to the server for each connection of a client."""

    def __init__(self, server: Address) -> None:
        self._server = server
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: list[_ProxiedConnection] = []
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def address(self) -> Address:
        """The address that clients connect to."""
        return Address("127.0.0.1", self._listener.getsockname()[1])

    @property
    def connection_count(self) -> int:
        """The number of connections that clients have made."""
        return len(self._open)

    def discard_traffic(self) -> None:
        """Discard all further bytes of the open connections, but leave them open, as some firewalls do."""
        for connection in self._open:
            connection.is_discarding = True

    def inject(self, data: bytes) -> None:
        """Send all connected clients bytes that the server did not send."""
        for connection in self._open:
            connection.send_to_client(data)

    def close(self) -> None:
        """Close all connections and accept no new ones."""
        self._listener.close()
        for connection in self._open:
            connection.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                connection = _ProxiedConnection(client, socket.create_connection(self._server))
                self._open.append(connection)
                connection.start()


class _ProxiedConnection:
    """A client's connection and the one to the server that belongs to it.

    It forwards whole frames only, so that injected bytes never split a frame.
    """

    def __init__(self, client: socket.socket, server: socket.socket) -> None:
        self.is_discarding = False
        self._client = client
        self._server = server
        self._sending = threading.Lock()

    def start(self) -> None:
        """Start two threads, each of which forwards bytes in one direction."""
        threading.Thread(target=self._forward, args=(self._client, self._server.sendall), daemon=True).start()
        threading.Thread(target=self._forward, args=(self._server, self.send_to_client), daemon=True).start()

    def send_to_client(self, data: bytes) -> None:
        """Send bytes to the client."""
        with self._sending:
            self._client.sendall(data)

    def close(self) -> None:
        """Close the connection to the client and the one to the server."""
        for end in (self._client, self._server):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def _forward(self, source: socket.socket, send: Callable[[bytes], None]) -> None:
        with suppress(OSError):
            for frame in _frames(source):
                if not self.is_discarding:
                    send(frame)
        if not self.is_discarding:
            self.close()


def _frames(source: socket.socket) -> Iterator[bytes]:
    with source.makefile("rb") as stream:
        while size := stream.read(4):
            yield size + stream.read(int.from_bytes(size, "big"))


@contextmanager
def proxy_to(server: Address) -> Iterator[ForwardingProxy]:
    """Yield a proxy to a server; close it after the `with` block."""
    proxy = ForwardingProxy(server)
    try:
        yield proxy
    finally:
        proxy.close()
