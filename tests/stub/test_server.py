"""Tests of `broker_stub.server`: what reaches the stub through a socket, and how it ends."""

from __future__ import annotations

import json
import socket
import ssl
import threading
import time
from pathlib import Path

import pytest

from broker_stub import StubBroker, TlsFiles, server
from pyspark_rocketmq.errors import ConnectError, LocalProtocolError, OptionError, RequestTimeout
from pyspark_rocketmq.model import parse_address
from pyspark_rocketmq.wire.codes import RequestCode, ResponseCode
from pyspark_rocketmq.wire.commands import GetMaxOffsetRequestHeader, GetRouteInfoRequestHeader, to_fields
from pyspark_rocketmq.wire.header import Command, HeaderType
from pyspark_rocketmq.wire.record import decode_records

from .remoting_client import RemotingClient, pull_of, send_of

PKI = Path(__file__).parents[1] / "net" / "pki"
END = GetMaxOffsetRequestHeader(topic="T", queue_id=0)


def test_it_is_ready_when_the_constructor_returns_and_gone_after_close() -> None:
    """Ports accept at once and refuse afterwards; the thread has ended."""
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
    """The error says that the stub is closed; a second close is harmless."""
    stub = StubBroker({"T": 1})
    stub.close()
    stub.close()

    with pytest.raises(LocalProtocolError, match="the stub is closed"):
        stub.put("T", b"x")


def test_a_taken_port_is_a_named_error() -> None:
    """No thread is left behind."""
    before = threading.active_count()
    with StubBroker() as stub:
        port = parse_address(stub.name_server).port

        with pytest.raises(ConnectError, match=f"127.0.0.1:{port}.*choose another port"):
            StubBroker(port=port)

    assert threading.active_count() == before


@pytest.mark.parametrize("host", ["0.0.0.0", "::1", "localhost"])
def test_it_listens_where_it_is_told(host: str) -> None:
    """Clients get a reachable address, also if the stub listens on all interfaces."""
    with StubBroker({"T": 1}, host=host) as stub, RemotingClient(stub.name_server) as names:
        route = json.loads(bytes(names.ask(GetRouteInfoRequestHeader(topic="T")).body))
        with RemotingClient(route["brokerDatas"][0]["brokerAddrs"]["0"]) as client:
            sent = client.ask(send_of("T"), b"x")
            (record,) = decode_records(client.ask(pull_of("T")).body)

    assert "0.0.0.0" not in stub.name_server
    assert (sent.fields or {})["msgId"] == record.offset_message_id


def test_both_header_forms_are_understood() -> None:
    """5.x responds in JSON, 4.9.7 in the form of the request."""
    request = Command(END.code, fields=to_fields(END), header_type=HeaderType.ROCKETMQ)
    for release, form in (("5.3.3", HeaderType.JSON), ("4.9.7", HeaderType.ROCKETMQ)):
        with StubBroker({"T": 1}, emulate=release) as stub, RemotingClient(stub.broker_address()) as client:
            answer = client.response_to(client.send(request))

            assert (answer.code, answer.fields, answer.header_type) == (0, {"offset": "0"}, form)


def test_an_unknown_code_is_answered_so() -> None:
    """Broker and name server respond that the code is unknown."""
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
    """Other connections go on, and new ones are accepted."""
    with StubBroker({"T": 1}) as stub, RemotingClient(stub.broker_address()) as other:
        for address in (stub.name_server, stub.broker_address()):
            with RemotingClient(address) as client:
                client.socket.sendall(garbage)

                assert client.is_ended()
        assert other.ask(END).code == 0


def test_missing_or_unreadable_fields_are_the_clients_fault() -> None:
    """The response names the field, and the connection stays."""
    with StubBroker({"T": 1}) as stub, RemotingClient(stub.broker_address()) as client:
        missing = client.response_to(client.send(Command(RequestCode.GET_MAX_OFFSET, fields={"topic": "T"})))
        broken = client.response_to(
            client.send(Command(RequestCode.GET_MAX_OFFSET, fields={"topic": "T", "queueId": "x"}))
        )

        assert (missing.code, broken.code) == (1, 1)
        assert "queueId" in (missing.remark or "") and "queueId is 'x'" in (broken.remark or "")
        assert client.ask(END).code == 0


def test_a_client_that_does_not_read_is_not_read_from() -> None:
    """The client's responses wait in its own connection, and other clients are served meanwhile."""
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
    """The stub holds no pull of a closed connection."""
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
    """The timeout, two minutes by default, counts bytes in both directions."""
    monkeypatch.setattr(server, "IDLE_TIMEOUT_S", 0.05)
    with StubBroker({"T": 1}) as stub, RemotingClient(stub.broker_address()) as client:
        assert client.is_ended()


def test_a_call_that_takes_too_long_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """The caller gets an error, and the stub goes on."""
    monkeypatch.setattr(server, "CALL_TIMEOUT_S", 0.05)
    with StubBroker({"T": 1}) as stub:
        go_on = threading.Event()

        with pytest.raises(RequestTimeout, match=r"within 0\.05 s"):
            stub.run(go_on.wait)
        go_on.set()
        monkeypatch.undo()

        assert stub.put("T", b"x").offset == 0


def test_tls_and_plain_clients_come_by_the_same_port() -> None:
    """The first byte tells TLS from plain clients."""
    trust = ssl.create_default_context(cafile=str(PKI / "ca.pem"))
    trust.check_hostname = False
    files = TlsFiles(str(PKI / "server.pem"), str(PKI / "server.key"))
    with StubBroker({"T": 1}, tls=files) as stub:
        for tls in (trust, None):
            with RemotingClient(stub.broker_address(), tls) as client:
                assert client.ask(END).code == 0


def test_a_silent_client_of_a_tls_port_does_not_keep_the_stub_from_closing() -> None:
    """A client that never sends its first byte does not delay the close."""
    files = TlsFiles(str(PKI / "server.pem"), str(PKI / "server.key"))
    with StubBroker(tls=files) as stub:
        silent = socket.create_connection(parse_address(stub.broker_address()))
        with RemotingClient(stub.broker_address()) as client:
            client.ask(END)

    silent.close()


def test_unusable_certificates_are_refused() -> None:
    """The error names the option."""
    with pytest.raises(OptionError, match="tls = 'nowhere:nowhere'"):
        StubBroker(tls=TlsFiles("nowhere", "nowhere"))


def test_an_idle_stub_does_nothing() -> None:
    """The stub's thread uses no processor time, with or without connected clients."""
    with StubBroker({"T": 1}) as stub, RemotingClient(stub.broker_address()) as client:
        client.ask(END)
        clock = stub.run(lambda: time.pthread_getcpuclockid(threading.get_ident()))
        before = time.clock_gettime(clock)

        threading.Event().wait(0.5)

        assert time.clock_gettime(clock) - before < 0.02
