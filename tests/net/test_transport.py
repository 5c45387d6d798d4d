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
from pyspark_rocketmq.net.settings import NetSettings, TlsSettings
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

PLAIN = NetSettings()
WITH_CLIENT_CERT = replace(
    TRUSTING, client_cert_path=str(PKI / "client.pem"), client_key_path=str(PKI / "client_locked.key")
)


def in_time() -> Deadline:
    return Deadline.after(TIMEOUT_S)


def refuse(talk: Talk) -> None:
    """Close the connection without sending a byte."""


def greet(talk: Talk) -> None:
    """Send "hello", and close the connection."""
    talk.sock.sendall(b"hello")


def receive(transport: Transport) -> bytes:
    """Wait for bytes and return them; empty at the end of the stream."""
    space = memoryview(bytearray(100))
    while (count := transport.receive_into(space)) is None:
        assert wait_ready([(transport, transport.needs(write=False))], TIMEOUT_S)
    return bytes(space[:count])


# --- connecting ------------------------------------------------------------------------------------------------------


def test_a_refused_connection_says_where_and_what_to_check() -> None:
    """If no server listens, connecting raises an error with the address and advice."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        address = Address(*listener.getsockname())

    with pytest.raises(ConnectError, match=rf"refused \(address {address}\); check host and port"):
        connect(address, in_time(), PLAIN)


def test_an_unknown_host_says_so() -> None:
    """If a host name cannot be resolved, connecting raises an error that names it."""
    with pytest.raises(ConnectError, match=r"unknown host: .* \(address no-such-host.invalid:9876\); check the host"):
        connect(Address("no-such-host.invalid", 9876), in_time(), PLAIN)


def test_a_name_that_is_no_name_is_an_unknown_host() -> None:
    """If a host name is malformed, connecting raises the same error as for an unknown host."""
    with pytest.raises(ConnectError, match="unknown host"):
        connect(Address("a" * 70 + ".example", 9876), in_time(), PLAIN)


def test_every_address_of_a_host_is_tried(start_peer: StartPeer, monkeypatch: pytest.MonkeyPatch) -> None:
    """If no server listens at the first address of a host, the second one is tried."""
    peer = start_peer(greet)
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        nobody = listener.getsockname()
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", where) for where in (nobody, peer.address)]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)

    with closing(connect(Address("two-addresses", 9876), in_time(), PLAIN)) as transport:
        assert receive(transport) == b"hello"


@pytest.fixture
def silent_address() -> Iterator[Address]:
    """Return an address at which connecting gets no answer, because the queue of waiting connections is full."""
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
    """If the first address of a host does not answer, the second one is tried before the deadline."""
    peer = start_peer(greet)
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", where) for where in (silent_address, peer.address)]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)

    deadline = Deadline.after(1.5)
    with closing(connect(Address("two-addresses", 9876), deadline, PLAIN)) as transport:
        assert not deadline.expired
        assert receive(transport) == b"hello"


def test_connecting_ends_at_its_deadline(silent_address: Address) -> None:
    """If a host does not answer, connecting raises at the deadline."""
    started = time.monotonic()

    with pytest.raises(ConnectError, match=r"no connection within 0.1 s .* raise connectTimeoutMillis"):
        connect(silent_address, Deadline.after(0.1), PLAIN)

    assert time.monotonic() - started < TIMEOUT_S / 2


def test_looking_a_name_up_ends_at_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the system's resolver is slow, connecting raises at the deadline."""
    found, resolve = threading.Event(), socket.getaddrinfo

    def resolve_slowly(host: str, port: int, **options: Any) -> Any:
        if not options["flags"]:
            found.wait(TIMEOUT_S)
        return resolve(host, port, **options)

    monkeypatch.setattr(socket, "getaddrinfo", resolve_slowly)
    with pytest.raises(ConnectError, match=r"could not be resolved within 0.1 s"):
        connect(Address("localhost", 9876), Deadline.after(0.1), PLAIN)
    found.set()


# --- carrying bytes --------------------------------------------------------------------------------------------------


def test_receiving_tells_silence_from_the_end(start_peer: StartPeer) -> None:
    """`receive_into` returns None if no bytes have arrived, and 0 at the end of the stream."""
    go_on = threading.Event()

    def script(talk: Talk) -> None:
        go_on.wait(TIMEOUT_S)
        talk.sock.shutdown(socket.SHUT_WR)
        talk.wait_gone()

    with closing(connect(start_peer(script).address, in_time(), PLAIN)) as transport:
        assert transport.receive_into(memoryview(bytearray(10))) is None
        go_on.set()
        assert receive(transport) == b""


def test_what_is_there_to_be_received_shows(start_peer: StartPeer) -> None:
    """`has_unread` is True at the end of the stream, and False before bytes arrive and after `close`."""
    go_on = threading.Event()

    def script(talk: Talk) -> None:
        go_on.wait(TIMEOUT_S)
        greet(talk)

    with closing(connect(start_peer(script).address, in_time(), PLAIN)) as transport:
        assert not transport.has_unread
        go_on.set()
        assert receive(transport) == b"hello"
        until(lambda: transport.has_unread)
    assert not transport.has_unread


def test_sending_never_waits_for_a_peer_that_does_not_read(start_peer: StartPeer) -> None:
    """If the peer reads nothing and the kernel's buffers are full, `send` returns 0 without waiting."""
    done = threading.Event()
    peer = start_peer(never_read(done))
    data = memoryview(bytes(1 << 20))

    with closing(connect(peer.address, in_time(), PLAIN)) as transport:
        while transport.send(data):
            pass
        assert not wait_ready([(transport, WRITE)], 0.0)
    done.set()


def test_small_writes_leave_at_once(start_peer: StartPeer) -> None:
    """A stream has TCP_NODELAY set, so a small request is not held back until earlier bytes are acknowledged."""
    with closing(connect(start_peer(never_answer).address, in_time(), PLAIN)) as transport:
        held = socket.socket(fileno=socket.dup(transport.fileno()))
        with closing(held):
            assert held.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_a_broken_stream_is_a_lost_connection(start_peer: StartPeer) -> None:
    """If the stream is broken, `send` raises ConnectionLost with the system's error as its cause."""
    transport = connect(start_peer(refuse).address, in_time(), PLAIN)
    assert receive(transport) == b""
    transport.close()

    with pytest.raises(ConnectionLost, match=f"the connection broke: .*address {transport.address}") as caught:
        transport.send(memoryview(b"x"))
    assert isinstance(caught.value.__cause__, OSError)


def test_a_waker_ends_a_wait_from_another_thread() -> None:
    """`wake` ends a wait; two calls need one `clear`, and a call after `close` does nothing."""
    with closing(Waker()) as waker:
        threading.Thread(target=waker.wake).start()
        assert wait_ready([(waker, READ)], TIMEOUT_S)
        waker.wake()
        waker.clear()
        assert not wait_ready([(waker, READ)], 0.0)
    waker.wake()


@forks
def test_a_forked_childs_copies_have_locks_of_their_own(start_peer: StartPeer) -> None:
    """If locks were held at the fork, the child can still close its copies, and the parent's still work."""

    def check() -> bool:
        for copy in (transport, waker):
            copy.abandon()
            copy.close()
        waker.wake()
        return True

    with closing(connect(start_peer(greet).address, in_time(), PLAIN)) as transport, closing(Waker()) as waker:
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
    """With a CA as a file or as text, or without verification, bytes are sent and received over TLS."""
    peer = start_peer(lambda talk: talk.sock.sendall(talk.sock.recv(100)), tls=server_tls())

    with closing(connect(peer.address, in_time(), NetSettings(tls=settings))) as transport:
        assert transport.send(memoryview(b"hello")) == 5
        assert receive(transport) == b"hello"
        assert transport.encrypted


def test_an_unknown_ca_is_refused_naming_the_options(start_peer: StartPeer) -> None:
    """If the server's CA is unknown, the advice begins with adding it; trusting any server comes last, for tests."""
    peer = start_peer(refuse, tls=server_tls())

    with pytest.raises(ConnectError, match=r"refused: .*; name its CA with tlsTrustCertPath .*; only in tests, "):
        connect(peer.address, in_time(), NetSettings(tls=TlsSettings(trust_cert_path=str(PKI / "other_ca.pem"))))


def test_the_systems_cas_are_trusted_by_default(start_peer: StartPeer) -> None:
    """If no CA is given, the system's CAs are used, so a server with the test's CA is refused."""
    with pytest.raises(ConnectError, match="certificate was refused"):
        connect(start_peer(refuse, tls=server_tls()).address, in_time(), NetSettings(tls=TlsSettings()))


def test_a_certificate_for_another_host_is_refused(start_peer: StartPeer) -> None:
    """If a certificate of a trusted CA does not name the host, the advice is about hosts; trusting any comes last."""
    peer = start_peer(refuse, tls=server_tls("stranger"))

    with pytest.raises(ConnectError, match=r"for '127.0.0.1'.*; use a host that .*; only in tests, "):
        connect(peer.address, in_time(), NetSettings(tls=TRUSTING))


def test_a_server_that_speaks_plain_tcp_is_no_tls_server(start_peer: StartPeer) -> None:
    """If the server does not speak TLS, the advice begins with its port; to do without TLS comes last."""
    with pytest.raises(ConnectError, match=r"no TLS handshake: .*; check that the server speaks TLS .* drop useTLS,"):
        connect(start_peer(greet).address, in_time(), NetSettings(tls=TRUSTING))


def test_a_handshake_ends_at_the_deadline(start_peer: StartPeer) -> None:
    """If the server does not answer the handshake, connecting raises at the deadline."""
    with pytest.raises(ConnectError, match=r"no TLS handshake: not done within 0.1 s"):
        connect(start_peer(never_answer).address, Deadline.after(0.1), NetSettings(tls=TRUSTING))


def test_a_server_that_asks_for_a_client_certificate_accepts_ours(start_peer: StartPeer) -> None:
    """If a client certificate is given, with a key that is locked by a password, the server accepts the client."""
    peer = start_peer(greet, tls=server_tls(client_ca="ca"))
    settings = replace(WITH_CLIENT_CERT, client_key_password="secret")

    with closing(connect(peer.address, in_time(), NetSettings(tls=settings))) as transport:
        assert receive(transport) == b"hello"


def test_a_missing_client_certificate_is_named(start_peer: StartPeer) -> None:
    """If the server requires a client certificate and none is given, receiving raises an error with the option."""
    peer = start_peer(never_answer, tls=server_tls(client_ca="ca"))

    with closing(connect(peer.address, in_time(), NetSettings(tls=TRUSTING))) as transport:
        with pytest.raises(ConnectionLost, match=r"TLS failed: .*certificate required.*tlsClientCertPath"):
            receive(transport)


@pytest.mark.parametrize("password", [None, "wrong"])
def test_a_locked_key_is_not_asked_for_at_the_terminal(password: str | None) -> None:
    """If the password of a key is missing or wrong, an error names the option, instead of a prompt at the terminal."""
    settings = replace(WITH_CLIENT_CERT, client_key_password=password)

    with pytest.raises(OptionError, match=r"tlsClientCertPath = .*tlsClientKeyPassword"):
        connect(Address("127.0.0.1", 1), in_time(), NetSettings(tls=settings))


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
    """If CAs cannot be read, OptionError names the option before a connection is opened."""
    with pytest.raises(OptionError, match=option):
        connect(Address("127.0.0.1", 1), in_time(), NetSettings(tls=settings))
