"""Servers of other protocols are recognised by how they greet."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from broker_stub import StubCluster
from broker_stub.server import TlsFiles
from pyspark_rocketmq.model import Address, parse_address
from pyspark_rocketmq.net.greeting import Greeting, identify
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


def test_a_rocketmq_server_is_none_of_these(refusing_address: str) -> None:
    """A server of RocketMQ closes the stream at a line of HTTP; where nothing listens, nothing is recognised."""
    with StubCluster() as stub:
        assert identify(parse_address(stub.name_server), NetSettings()) is None
    assert identify(parse_address(refusing_address), NetSettings()) is None
