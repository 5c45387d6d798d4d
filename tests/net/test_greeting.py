"""Servers of other protocols are recognised by how they greet."""

from __future__ import annotations

import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from broker_stub import StubCluster
from broker_stub.server import TlsFiles
from pyspark_rocketmq.model import Address, parse_address
from pyspark_rocketmq.net.greeting import Greeting, fetch_certificate_end, identify
from pyspark_rocketmq.net.settings import NetSettings, TlsSettings

PKI = Path(__file__).parent / "pki"


class _Quiet(BaseHTTPRequestHandler):
    """Answers every request, and logs nothing."""

    def do_GET(self) -> None:
        """Answer with an empty page."""
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


@contextmanager
def http_server() -> Iterator[Address]:
    """Run an HTTP server, and yield its address."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Quiet) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield Address("127.0.0.1", server.server_port)
        finally:
            server.shutdown()
            thread.join()


def test_http_is_recognised() -> None:
    """An HTTP server answers a request in its own way, also if the settings have TLS."""
    with http_server() as address:
        assert identify(address, NetSettings()) is Greeting.HTTP
        assert identify(address, NetSettings(tls=TlsSettings())) is Greeting.HTTP


def test_grpc_is_recognised() -> None:
    """A gRPC server sends the first frame of HTTP/2 unasked."""
    pytest.importorskip("grpc")
    with StubCluster() as stub:
        assert stub.endpoints
        assert identify(parse_address(stub.endpoints), NetSettings()) is Greeting.HTTP2


def test_tls_is_recognised() -> None:
    """A server that speaks TLS only shakes hands, also if its certificate is not trusted."""
    pytest.importorskip("grpc")
    with StubCluster(tls=TlsFiles(str(PKI / "server.pem"), str(PKI / "server.key"))) as stub:
        assert stub.endpoints
        assert identify(parse_address(stub.endpoints), NetSettings()) is Greeting.TLS


@contextmanager
def tls_server(meet_plain: Callable[[socket.socket], None]) -> Iterator[Address]:
    """Run a server that shakes hands with TLS clients, and meets others in a way of its own; yield its address."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(PKI / "server.pem", PKI / "server.key")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=_serve, args=(listener, context, meet_plain))
        thread.start()
        try:
            yield Address("127.0.0.1", listener.getsockname()[1])
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


def _serve(listener: socket.socket, context: ssl.SSLContext, meet_plain: Callable[[socket.socket], None]) -> None:
    while True:
        try:
            client, _ = listener.accept()
        except OSError:
            return
        with client:
            if client.recv(1, socket.MSG_PEEK) == b"\x16":
                with context.wrap_socket(client, server_side=True) as encrypted:
                    encrypted.recv(100)
            else:
                meet_plain(client)


def reset(client: socket.socket) -> None:
    """End a connection with a reset."""
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def refuse_plain_http(client: socket.socket) -> None:
    """Answer as HTTPS servers do to plain text."""
    client.recv(100)
    client.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\nThe plain HTTP request was sent to HTTPS port")


@pytest.mark.parametrize("meet_plain", [reset, refuse_plain_http, lambda client: None])
def test_tls_is_recognised_however_plain_text_is_met(meet_plain: Callable[[socket.socket], None]) -> None:
    """A server that resets, refuses or closes plain connections is still asked for TLS."""
    with tls_server(meet_plain) as address:
        assert identify(address, NetSettings()) is Greeting.TLS


def test_a_silent_server_is_given_up() -> None:
    """A server that accepts connections and says nothing is given up within three seconds."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        began = time.monotonic()
        assert identify(Address("127.0.0.1", silent.getsockname()[1]), NetSettings()) is None

    assert time.monotonic() - began < 3.5


def test_the_end_of_a_certificate_is_told() -> None:
    """The time until which a trusted certificate is valid is known; one that is not checked has none."""
    trusting = TlsSettings(str(PKI / "ca.pem"))
    with tls_server(reset) as address:
        end_s = fetch_certificate_end(address, NetSettings(tls=trusting))
        unchecked = fetch_certificate_end(address, NetSettings(tls=TlsSettings(verify_server=False)))

    assert end_s is not None and end_s > time.time()
    assert unchecked is None


def test_a_rocketmq_server_is_none_of_these(refusing_address: str) -> None:
    """A server of RocketMQ closes the stream at a line of HTTP; where nothing listens, nothing is recognised."""
    with StubCluster() as stub:
        assert identify(parse_address(stub.name_server), NetSettings()) is None
    assert identify(parse_address(refusing_address), NetSettings()) is None
