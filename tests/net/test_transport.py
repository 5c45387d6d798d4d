"""Test that streams open in time or raise a reason, carry bytes without waiting, and end with this library's errors."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from typing import Any

import pytest

from pyspark_rocketmq.errors import ConnectError, ConnectionLost, OptionError
from pyspark_rocketmq.model import Address
from pyspark_rocketmq.net.deadline import Deadline
from pyspark_rocketmq.net.settings import TlsSettings
from pyspark_rocketmq.net.transport import READ, WRITE, Transport, Waker, connect, wait_ready
from tests.net.fixtures import (
    PKI,
    TIMEOUT_S,
    TRUSTING,
    StartPeer,
    Talk,
    forks,
    in_child,
    never_answer,
    never_read,
    server_tls,
    until,
)

WITH_CLIENT_CERT = replace(
    TRUSTING, client_cert_path=str(PKI / "client.pem"), client_key_path=str(PKI / "client_locked.key")
)


def in_time() -> Deadline:
    return Deadline.after(TIMEOUT_S)


def refuse(talk: Talk) -> None:
    """Close without sending a byte."""


def greet(talk: Talk) -> None:
    """Send some bytes, and close."""
    talk.sock.sendall(b"hello")


def receive(transport: Transport) -> bytes:
    """Return what arrives next; nothing at the end of the stream."""
    space = memoryview(bytearray(100))
    while (count := transport.receive_into(space)) is None:
        assert wait_ready([(transport, transport.needs(write=False))], TIMEOUT_S)
    return bytes(space[:count])


# --- connecting ------------------------------------------------------------------------------------------------------


def test_a_refused_connection_says_where_and_what_to_check() -> None:
    """A port without a server raises at once."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        address = Address(*listener.getsockname())

    with pytest.raises(ConnectError, match=rf"refused \(address {address}\); check host and port"):
        connect(address, in_time())


def test_an_unknown_host_says_so() -> None:
    """A name that cannot be resolved raises an error that names it."""
    with pytest.raises(ConnectError, match=r"unknown host: .* \(address no-such-host.invalid:9876\); check the host"):
        connect(Address("no-such-host.invalid", 9876), in_time())


def test_a_name_that_is_no_name_is_an_unknown_host() -> None:
    """A name that the name service refuses raises the same error as an unknown one."""
    with pytest.raises(ConnectError, match="unknown host"):
        connect(Address("a" * 70 + ".example", 9876), in_time())


def test_every_address_of_a_host_is_tried(start_peer: StartPeer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name may mean several addresses, and the first may have no server, as localhost over IPv6."""
    peer = start_peer(greet)
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        nobody = listener.getsockname()
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", where) for where in (nobody, peer.address)]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)

    with closing(connect(Address("two-addresses", 9876), in_time())) as transport:
        assert receive(transport) == b"hello"


@pytest.fixture
def silent_address() -> Iterator[Address]:
    """Return an address that leaves attempts to connect without an answer, because its queue is full."""
    with ExitStack() as stack:
        listener = stack.enter_context(closing(socket.create_server(("127.0.0.1", 0), backlog=0)))
        for _ in range(3):
            filler = stack.enter_context(closing(socket.socket()))
            filler.setblocking(False)
            filler.connect_ex(listener.getsockname())
        yield Address(*listener.getsockname())


def test_a_silent_address_leaves_time_for_the_next(
    start_peer: StartPeer, silent_address: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No address of a host may use up all the time."""
    peer = start_peer(greet)
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", where) for where in (silent_address, peer.address)]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)

    deadline = Deadline.after(1.5)
    with closing(connect(Address("two-addresses", 9876), deadline)) as transport:
        assert not deadline.expired
        assert receive(transport) == b"hello"


def test_connecting_ends_at_its_deadline(silent_address: Address) -> None:
    """A host that does not answer costs no more than the timeout."""
    started = time.monotonic()

    with pytest.raises(ConnectError, match=r"no connection within 0.1 s .* raise connectTimeoutMillis"):
        connect(silent_address, Deadline.after(0.1))

    assert time.monotonic() - started < TIMEOUT_S / 2


def test_looking_a_name_up_ends_at_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    """The system's resolver has no timeout, so a slow one is abandoned."""
    found, resolve = threading.Event(), socket.getaddrinfo

    def resolve_slowly(host: str, port: int, **options: Any) -> Any:
        if not options["flags"]:
            found.wait(TIMEOUT_S)
        return resolve(host, port, **options)

    monkeypatch.setattr(socket, "getaddrinfo", resolve_slowly)
    with pytest.raises(ConnectError, match=r"could not be resolved within 0.1 s"):
        connect(Address("localhost", 9876), Deadline.after(0.1))
    found.set()


# --- carrying bytes --------------------------------------------------------------------------------------------------


def test_receiving_tells_silence_from_the_end(start_peer: StartPeer) -> None:
    """None means that no bytes are there yet; 0 means the end of the stream, half-closed or whole."""
    go_on = threading.Event()

    def script(talk: Talk) -> None:
        go_on.wait(TIMEOUT_S)
        talk.sock.shutdown(socket.SHUT_WR)
        talk.wait_gone()

    with closing(connect(start_peer(script).address, in_time())) as transport:
        assert transport.receive_into(memoryview(bytearray(10))) is None
        go_on.set()
        assert receive(transport) == b""


def test_what_is_there_to_be_received_shows(start_peer: StartPeer) -> None:
    """The end of the stream counts as unread; a closed stream has nothing unread."""
    go_on = threading.Event()

    def script(talk: Talk) -> None:
        go_on.wait(TIMEOUT_S)
        greet(talk)

    with closing(connect(start_peer(script).address, in_time())) as transport:
        assert not transport.has_unread
        go_on.set()
        assert receive(transport) == b"hello"
        until(lambda: transport.has_unread)
    assert not transport.has_unread


def test_sending_never_waits_for_a_peer_that_does_not_read(start_peer: StartPeer) -> None:
    """When the kernel's buffers are full, no more bytes are taken."""
    done = threading.Event()
    peer = start_peer(never_read(done))
    data = memoryview(bytes(1 << 20))

    with closing(connect(peer.address, in_time())) as transport:
        while transport.send(data):
            pass
        assert not wait_ready([(transport, WRITE)], 0.0)
    done.set()


def test_small_writes_leave_at_once(start_peer: StartPeer) -> None:
    """A request does not wait for the response to the one before it."""
    with closing(connect(start_peer(never_answer).address, in_time())) as transport:
        held = socket.socket(fileno=socket.dup(transport.fileno()))
        with closing(held):
            assert held.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_a_broken_stream_is_a_lost_connection(start_peer: StartPeer) -> None:
    """The system's error becomes one of this library, with its cause chained."""
    transport = connect(start_peer(refuse).address, in_time())
    assert receive(transport) == b""
    transport.close()

    with pytest.raises(ConnectionLost, match=f"the connection broke: .*address {transport.address}") as caught:
        transport.send(memoryview(b"x"))
    assert isinstance(caught.value.__cause__, OSError)


def test_a_waker_ends_a_wait_from_another_thread() -> None:
    """Waking twice is waking once, and waking a closed waker does nothing."""
    with closing(Waker()) as waker:
        threading.Thread(target=waker.wake).start()
        assert wait_ready([(waker, READ)], TIMEOUT_S)
        waker.wake()
        waker.clear()
        assert not wait_ready([(waker, READ)], 0.0)
    waker.wake()


@forks
def test_a_forked_childs_copies_have_locks_of_their_own(start_peer: StartPeer) -> None:
    """The parent's locks may have been held at the fork; its stream and waker are not touched."""

    def check() -> bool:
        for copy in (transport, waker):
            copy.abandon()
            copy.close()
        waker.wake()
        return True

    with closing(connect(start_peer(greet).address, in_time())) as transport, closing(Waker()) as waker:
        with transport._lock, waker._lock:
            assert in_child(check)
        waker.wake()
        assert wait_ready([(waker, READ)], TIMEOUT_S) and receive(transport) == b"hello"


# --- TLS -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "settings",
    [
        TRUSTING,
        TlsSettings(trust_cert=(PKI / "ca.pem").read_text()),
        TlsSettings(trust_cert_path=str(PKI / "other_ca.pem"), verify_server=False),
    ],
    ids=["CA as path", "CA as text", "not verified"],
)
def test_tls_carries_bytes_both_ways(start_peer: StartPeer, settings: TlsSettings) -> None:
    """The CA may be a file or text; without verification any server is accepted."""
    peer = start_peer(lambda talk: talk.sock.sendall(talk.sock.recv(100)), tls=server_tls())

    with closing(connect(peer.address, in_time(), settings)) as transport:
        assert transport.send(memoryview(b"hello")) == 5
        assert receive(transport) == b"hello"
        assert transport.encrypted


def test_an_unknown_ca_is_refused_naming_the_options(start_peer: StartPeer) -> None:
    """The text names the option that adds a CA, and the one that trusts any server."""
    peer = start_peer(refuse, tls=server_tls())

    with pytest.raises(ConnectError, match=r"certificate was refused: .* tlsTrustCertPath .* tlsAuthServer=false"):
        connect(peer.address, in_time(), TlsSettings(trust_cert_path=str(PKI / "other_ca.pem")))


def test_the_systems_cas_are_trusted_by_default(start_peer: StartPeer) -> None:
    """The test's own CA is not among them."""
    with pytest.raises(ConnectError, match="certificate was refused"):
        connect(start_peer(refuse, tls=server_tls()).address, in_time(), TlsSettings())


def test_a_certificate_for_another_host_is_refused(start_peer: StartPeer) -> None:
    """A trusted CA is not enough: the certificate must name the host."""
    peer = start_peer(refuse, tls=server_tls("stranger"))

    with pytest.raises(ConnectError, match=r"not valid for '127.0.0.1'"):
        connect(peer.address, in_time(), TRUSTING)


def test_a_server_that_speaks_plain_tcp_is_no_tls_server(start_peer: StartPeer) -> None:
    """The text names the option that turns TLS off."""
    with pytest.raises(ConnectError, match=r"no TLS handshake: .* set useTLS=false"):
        connect(start_peer(greet).address, in_time(), TRUSTING)


def test_a_handshake_ends_at_the_deadline(start_peer: StartPeer) -> None:
    """A server that reads the first message and stays silent delays no caller past the deadline."""
    with pytest.raises(ConnectError, match=r"no TLS handshake: not done within 0.1 s"):
        connect(start_peer(never_answer).address, Deadline.after(0.1), TRUSTING)


def test_a_server_that_asks_for_a_client_certificate_accepts_ours(start_peer: StartPeer) -> None:
    """The key may be encrypted with a password."""
    peer = start_peer(greet, tls=server_tls(client_ca="ca"))
    settings = replace(WITH_CLIENT_CERT, client_key_password="secret")

    with closing(connect(peer.address, in_time(), settings)) as transport:
        assert receive(transport) == b"hello"


def test_a_missing_client_certificate_is_named(start_peer: StartPeer) -> None:
    """TLS 1.3 reports it only after the handshake, when the first bytes are read."""
    peer = start_peer(never_answer, tls=server_tls(client_ca="ca"))

    with closing(connect(peer.address, in_time(), TRUSTING)) as transport:
        with pytest.raises(ConnectionLost, match=r"TLS failed: .*certificate required.*tlsClientCertPath"):
            receive(transport)


@pytest.mark.parametrize("password", [None, "wrong"])
def test_a_locked_key_is_not_asked_for_at_the_terminal(password: str | None) -> None:
    """A wrong password raises an error that names the option."""
    settings = replace(WITH_CLIENT_CERT, client_key_password=password)

    with pytest.raises(OptionError, match=r"tlsClientCertPath = .*tlsClientKeyPassword"):
        connect(Address("127.0.0.1", 1), in_time(), settings)


@pytest.mark.parametrize(
    ("settings", "option"),
    [
        (TlsSettings(trust_cert_path="missing.pem"), "tlsTrustCertPath = 'missing.pem'"),
        (TlsSettings(trust_cert="no certificate"), "tlsTrustCert:"),
        (TlsSettings(trust_cert=""), "tlsTrustCert:"),
        (TlsSettings(trust_cert="kein Schlüssel"), "tlsTrustCert:"),
    ],
)
def test_cas_that_cannot_be_read_are_wrong_options(settings: TlsSettings, option: str) -> None:
    """A wrong path raises before a connection is opened, and is not retried."""
    with pytest.raises(OptionError, match=option):
        connect(Address("127.0.0.1", 1), in_time(), settings)
