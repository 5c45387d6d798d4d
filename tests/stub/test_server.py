"""Tests of `broker_stub.server`: requests through a socket, and the end of connections and of the stub."""

from __future__ import annotations

import json
import socket
import ssl
import threading
import time
from pathlib import Path

import pytest

from broker_stub import StubBroker, TlsFiles, server
from broker_stub.clock import Clock
from pyspark_rocketmq.errors import ConnectError, LocalProtocolError, OptionError, RequestTimeout
from pyspark_rocketmq.model import parse_address
from pyspark_rocketmq.wire.codes import RequestCode, ResponseCode
from pyspark_rocketmq.wire.commands import (
    GetMaxOffsetRequestHeader,
    GetRouteInfoRequestHeader,
    QueryMessageRequestHeader,
    to_fields,
)
from pyspark_rocketmq.wire.header import Command, HeaderType
from pyspark_rocketmq.wire.record import decode_records

from .remoting_client import RemotingClient, pull_of, send_of

PKI = Path(__file__).parents[1] / "net" / "pki"
END = GetMaxOffsetRequestHeader(topic="T", queue_id=0)


def test_it_is_ready_when_the_constructor_returns_and_gone_after_close() -> None:
    """Ports accept connections after the constructor and refuse them after `close`, which ends the thread."""
    before = threading.active_count()
    with StubBroker({"T": 1}) as stub:
        addresses = stub.name_server, stub.broker_address()
        for address in addresses:
            RemotingClient(address).close()

    for address in addresses:
        with pytest.raises(ConnectionRefusedError):
            RemotingClient(address)
    assert threading.active_count() == before


def test_calls_after_close_are_refused() -> None:
    """A call after `close` raises an error that says that the stub is closed; a second `close` has no effect."""
    stub = StubBroker({"T": 1})
    stub.close()
    stub.close()

    with pytest.raises(LocalProtocolError, match="the stub is closed"):
        stub.put("T", b"x")


@pytest.mark.parametrize("error", [OSError("disk"), LocalProtocolError("state", advice="none")])
def test_a_repeated_call_goes_on_after_a_failure(error: Exception, caplog: pytest.LogCaptureFixture) -> None:
    """If a function that the stub calls repeatedly raises an error, the error is logged and the calls go on."""
    errors = [error]
    has_succeeded = threading.Event()

    def fail_once() -> None:
        if errors:
            raise errors.pop()
        has_succeeded.set()

    runtime = server.Runtime(Clock())
    try:
        runtime.call(lambda: runtime.call_repeatedly(0.001, fail_once))
        assert has_succeeded.wait(5)
    finally:
        runtime.close()

    (record,) = caplog.records
    assert record.name == "broker_stub.server" and str(error) in caplog.text


def test_a_taken_port_is_a_named_error() -> None:
    """If a port is taken, the error names it, and no thread remains."""
    before = threading.active_count()
    with StubBroker() as stub:
        port = parse_address(stub.name_server).port

        with pytest.raises(ConnectError, match=f"127.0.0.1:{port}.*choose another port"):
            StubBroker(port=port)

    assert threading.active_count() == before


@pytest.mark.parametrize("host", ["0.0.0.0", "::1", "localhost"])
def test_it_listens_where_it_is_told(host: str) -> None:
    """Clients get an address that they can reach, even if the stub listens on all interfaces."""
    with StubBroker({"T": 1}, host=host) as stub, RemotingClient(stub.name_server) as names:
        route = json.loads(bytes(names.ask(GetRouteInfoRequestHeader(topic="T")).body))
        with RemotingClient(route["brokerDatas"][0]["brokerAddrs"]["0"]) as client:
            sent = client.ask(send_of("T"), b"x")
            (record,) = decode_records(client.ask(pull_of("T")).body)

    assert "0.0.0.0" not in stub.name_server
    assert (sent.fields or {})["msgId"] == record.offset_message_id


def test_both_header_forms_are_understood() -> None:
    """To a binary header 5.x responds with JSON, and 4.9.7 with a binary header."""
    request = Command(END.code, fields=to_fields(END), header_type=HeaderType.ROCKETMQ)
    for release, form in (("5.3.3", HeaderType.JSON), ("4.9.7", HeaderType.ROCKETMQ)):
        with StubBroker({"T": 1}, emulate=release) as stub, RemotingClient(stub.broker_address()) as client:
            answer = client.response_to(client.send(request))

            assert (answer.code, answer.fields, answer.header_type) == (0, {"offset": "0"}, form)


def test_an_unknown_code_is_answered_so() -> None:
    """To an unknown request code broker and name server respond that it is unknown."""
    with StubBroker() as stub:
        for address in (stub.name_server, stub.broker_address()):
            with RemotingClient(address) as client:
                answer = client.response_to(client.send(Command(9999)))

                assert answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED


@pytest.mark.parametrize(
    "garbage",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x00\x00\x00\x04\x07\x00\x00\x00",
        b"\x00\x00\x00\x08\x00\x00\x00\x04oops",
        b"\x00\x00\x00\x01\x00",
        b"\xff" * 64,
    ],
)
def test_garbage_closes_its_own_connection_only(garbage: bytes) -> None:
    """Malformed bytes close their connection; other connections go on, and new ones are accepted."""
    with StubBroker({"T": 1}) as stub, RemotingClient(stub.broker_address()) as other:
        for address in (stub.name_server, stub.broker_address()):
            with RemotingClient(address) as client:
                client.socket.sendall(garbage)

                assert client.is_ended()
        assert other.ask(END).code == 0


def test_missing_or_unreadable_fields_are_the_clients_fault() -> None:
    """If a header field is missing or malformed, the response names it, and the connection stays."""
    with StubBroker({"T": 1}) as stub, RemotingClient(stub.broker_address()) as client:
        missing = client.response_to(client.send(Command(RequestCode.GET_MAX_OFFSET, fields={"topic": "T"})))
        broken = client.response_to(
            client.send(Command(RequestCode.GET_MAX_OFFSET, fields={"topic": "T", "queueId": "x"}))
        )

        assert (missing.code, broken.code) == (1, 1)
        assert "queueId" in (missing.remark or "") and "queueId is 'x'" in (broken.remark or "")
        assert client.ask(END).code == 0


def test_a_client_that_does_not_read_is_not_read_from() -> None:
    """If a client does not read its responses, the stub stops reading from it and serves other clients."""
    with (
        StubBroker({"T": 1}) as stub,
        RemotingClient(stub.broker_address()) as lazy,
        RemotingClient(stub.broker_address()) as other,
    ):
        stub.put("T", b"." * 1_000_000)
        for _ in range(60):
            lazy.send(Command(11, fields=to_fields(pull_of("T"))))

        assert other.ask(END).fields == {"offset": "1"}
        answers = [lazy.response_to(opaque) for opaque in range(1, 61)]
        assert {len(answer.body) for answer in answers} == {len(answers[0].body)}


def test_held_pulls_of_a_client_that_left_are_forgotten() -> None:
    """If a connection is closed, the stub drops its held pulls."""
    with StubBroker({"T": 1}) as stub:
        with RemotingClient(stub.broker_address()) as client:
            client.send(Command(11, fields=to_fields(pull_of("T", wait_ms=60_000))))
            client.ask(END)
            assert stub.run(lambda: len(stub.state.brokers[0].held_pulls)) == 1
        deadline = time.monotonic() + 30
        while stub.connections() and time.monotonic() < deadline:
            time.sleep(0.01)

        assert stub.run(lambda: len(stub.state.brokers[0].held_pulls)) == 0


def test_an_idle_connection_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection ends if no byte passes in either direction during the timeout."""
    monkeypatch.setattr(server, "IDLE_TIMEOUT_S", 0.05)
    with StubBroker({"T": 1}) as stub, RemotingClient(stub.broker_address()) as client:
        assert client.is_ended()


def test_a_call_that_takes_too_long_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """If a call in the stub's thread takes too long, its caller gets an error, and the stub goes on."""
    monkeypatch.setattr(server, "CALL_TIMEOUT_S", 0.05)
    with StubBroker({"T": 1}) as stub:
        go_on = threading.Event()

        with pytest.raises(RequestTimeout, match=r"within 0\.05 s"):
            stub.run(go_on.wait)
        go_on.set()
        monkeypatch.undo()

        assert stub.put("T", b"x").offset == 0


def test_tls_and_plain_clients_come_by_the_same_port() -> None:
    """A port with a certificate serves TLS clients and plain clients, told apart by their first byte."""
    trust = ssl.create_default_context(cafile=str(PKI / "ca.pem"))
    trust.check_hostname = False
    files = TlsFiles(str(PKI / "server.pem"), str(PKI / "server.key"))
    with StubBroker({"T": 1}, tls=files) as stub:
        for tls in (trust, None):
            with RemotingClient(stub.broker_address(), tls) as client:
                assert client.ask(END).code == 0


def test_a_silent_client_of_a_tls_port_does_not_keep_the_stub_from_closing() -> None:
    """If a client of a TLS port never sends a byte, closing the stub does not wait for it."""
    files = TlsFiles(str(PKI / "server.pem"), str(PKI / "server.key"))
    with StubBroker(tls=files) as stub:
        silent = socket.create_connection(parse_address(stub.broker_address()))
        with RemotingClient(stub.broker_address()) as client:
            client.ask(END)

    silent.close()


def test_unusable_certificates_are_refused() -> None:
    """If a certificate is unusable, the error names the option."""
    with pytest.raises(OptionError, match="tls = 'nowhere:nowhere'"):
        StubBroker(tls=TlsFiles("nowhere", "nowhere"))


def test_an_idle_stub_does_nothing() -> None:
    """While there is nothing to do, the stub's thread uses no processor time, with or without clients."""
    with StubBroker({"T": 1}) as stub, RemotingClient(stub.broker_address()) as client:
        client.ask(END)
        clock = stub.run(lambda: time.pthread_getcpuclockid(threading.get_ident()))
        before = time.clock_gettime(clock)

        threading.Event().wait(0.5)

        assert time.clock_gettime(clock) - before < 0.02


def test_a_response_that_is_too_large_becomes_an_error() -> None:
    """If a response exceeds the greatest frame, the client gets an error that says so, and its connection stays."""
    query = QueryMessageRequestHeader(topic="T", key="k", max_num=64, begin_timestamp=0, end_timestamp=2**62)
    with StubBroker({"T": 1}) as stub, RemotingClient(stub.broker_address()) as client:
        for _ in range(5):
            stub.put("T", b"x" * 4_000_000, keys="k")

        answer = client.ask(query)

        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert "the response cannot be sent: a frame of 200" in (answer.remark or "")
        assert client.ask(END).code == 0


def test_a_timer_that_fails_stops_no_other() -> None:
    """An exception in a timer's function is logged, and later timers run."""
    is_later = threading.Event()
    with StubBroker() as stub:
        clock = stub.state.clock
        stub.run(lambda: clock.call_later(1, lambda: [][0]))
        stub.run(lambda: clock.call_later(2, is_later.set))

        assert is_later.wait(10)
