"""Test that pools reuse connections as long as they work, and only in the process that opened them.

A connection is mute if a request timed out on it while no bytes arrived.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace

import pytest

from pyspark_rocketmq.errors import ConnectError, ConnectionLost, RequestTimeout
from pyspark_rocketmq.model import Address
from pyspark_rocketmq.net.deadline import Deadline
from pyspark_rocketmq.net.pool import ConnectionPool, SharedPool, pool_for
from pyspark_rocketmq.wire.codes import RequestCode
from tests.net.fixtures import (
    QUICK,
    TIMEOUT_S,
    TRUSTING,
    Peer,
    Script,
    StartPeer,
    Talk,
    echo,
    end_at_once,
    forks,
    in_child,
    never_answer,
    server_tls,
    until,
)

PULL, HEART_BEAT = RequestCode.PULL_MESSAGE, RequestCode.HEART_BEAT
NOBODY = Address("127.0.0.1", 1)


class Clock:
    """A clock that a test moves."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def pool() -> Iterator[ConnectionPool]:
    """Return a connection pool; it is closed after the test."""
    pool = ConnectionPool(QUICK)
    yield pool
    pool.close_all()


@pytest.fixture
def shared() -> Iterator[SharedPool]:
    """Return a pool of threaded connections; it is closed after the test."""
    pool = SharedPool(QUICK)
    yield pool
    pool.close_all()


def first_plays(start_peer: StartPeer, script: Script) -> Peer:
    """Return a server that runs a script on its first connection, and answers all requests on later ones."""
    scripts = iter((script,))
    return start_peer(lambda talk: next(scripts, echo)(talk))


# --- lending ---------------------------------------------------------------------------------------------------------


def test_a_connection_is_used_again(start_peer: StartPeer, pool: ConnectionPool) -> None:
    """If a connection is given back after a call, the next user gets the same one."""
    peer = start_peer(echo)
    for _ in range(2):
        with pool.connection(peer.address) as connection:
            connection.call(PULL)

    assert peer.accepted == 1
    assert repr(pool) == "<ConnectionPool 1 idle, 0 lent>"


def test_two_users_at_a_time_have_two_connections(start_peer: StartPeer, pool: ConnectionPool) -> None:
    """If two users need an address at the same time, each gets a connection of its own."""
    one, other = start_peer(echo), start_peer(echo)

    with pool.connection(one.address) as first, pool.connection(one.address) as second:
        assert first is not second
        assert repr(pool) == "<ConnectionPool 0 idle, 2 lent>"
    with pool.connection(other.address) as third:
        assert third.address == other.address


def test_a_connection_the_server_closed_is_replaced_silently(start_peer: StartPeer, pool: ConnectionPool) -> None:
    """If the server has closed an idle connection, the next user gets a new one without an error."""
    ended = threading.Event()

    def script(talk: Talk) -> None:
        talk.answer(talk.read())
        if ended.is_set():
            talk.wait_gone()
        talk.sock.close()
        ended.set()

    peer = start_peer(script)
    with pool.connection(peer.address) as connection:
        connection.call(PULL)
    assert ended.wait(TIMEOUT_S)

    with pool.connection(peer.address) as connection:
        assert connection.call(PULL).code == 0
    assert peer.accepted == 2


def test_what_was_idle_for_too_long_is_closed(start_peer: StartPeer) -> None:
    """If a connection has been idle for more than `max_idle_s`, it is closed, and the next user gets a new one."""
    peer, clock = start_peer(echo), Clock()
    pool = ConnectionPool(QUICK, clock)
    with pool.connection(peer.address) as first:
        first.call(PULL)
    clock.now += QUICK.max_idle_s + 1

    with pool.connection(peer.address) as second:
        assert second is not first and not first.is_open
    pool.close_all()


def test_a_connection_that_comes_back_in_use_is_closed(start_peer: StartPeer, pool: ConnectionPool) -> None:
    """If a connection is given back with a request in flight, the pool closes it."""
    peer = start_peer(never_answer)
    with pool.connection(peer.address) as connection:
        connection.submit(PULL)

    assert not connection.is_open
    assert repr(pool) == "<ConnectionPool 0 idle, 0 lent>"


def answer_one_too_late(talk: Talk) -> None:
    """Answer the second of two requests; after a third one, answer the first and the third."""
    late = talk.read()
    talk.answer(talk.read())
    following = talk.read()
    talk.answer(late)
    talk.answer(following)
    talk.wait_gone()


def test_a_connection_that_talks_is_kept_after_a_time_out(start_peer: StartPeer, pool: ConnectionPool) -> None:
    """If a request timed out but others were answered, the connection is reused, and the late response is dropped."""
    peer, clock = start_peer(answer_one_too_late), Clock()
    with pool.connection(peer.address) as first:
        asked = [first.submit(PULL), first.submit(PULL)]
        answers = first.collect(asked, Deadline.after(TIMEOUT_S, clock))
        assert next(answers).opaque == asked[1]
        clock.now += TIMEOUT_S
        with pytest.raises(RequestTimeout):
            next(answers)

    with pool.connection(peer.address) as second:
        assert second.call(PULL).code == 0
    assert second is first and second.dropped_replies == 1


def test_a_mute_connection_is_replaced(start_peer: StartPeer, pool: ConnectionPool) -> None:
    """If a request timed out and no bytes arrived, the next user gets a new connection."""
    peer = first_plays(start_peer, never_answer)
    with pool.connection(peer.address) as first, pytest.raises(RequestTimeout):
        first.call(PULL, deadline=Deadline.after(0.05))

    with pool.connection(peer.address) as second:
        assert second.call(PULL).code == 0
    assert not first.is_open


def test_a_broken_connection_is_never_lent_again(start_peer: StartPeer, pool: ConnectionPool) -> None:
    """If a connection breaks during a call, the next user gets a new one."""
    peer = start_peer(end_at_once)
    for attempt in (1, 2):
        with pool.connection(peer.address) as connection, pytest.raises(ConnectionLost):
            connection.call(PULL)
        assert peer.accepted == attempt


def test_closing_all_reaches_lent_connections_when_they_come_back(start_peer: StartPeer, pool: ConnectionPool) -> None:
    """After `close_all`, a lent connection stays usable until it is given back; then it is closed."""
    peer = start_peer(echo)
    with pool.connection(peer.address) as connection:
        pool.close_all()
        assert connection.call(PULL).code == 0

    assert not connection.is_open


def test_a_failed_attempt_leaves_nothing_behind(pool: ConnectionPool) -> None:
    """If connecting fails, the pool raises and keeps no connection."""
    with pytest.raises(ConnectError), pool.connection(NOBODY):
        pytest.fail("there is nothing to lend")
    assert repr(pool) == "<ConnectionPool 0 idle, 0 lent>"


def test_a_process_has_one_pool_for_equal_settings() -> None:
    """`pool_for` returns the same pool for equal settings, and another one for different settings."""
    assert pool_for(QUICK) is pool_for(replace(QUICK))
    assert pool_for(QUICK) is not pool_for(replace(QUICK, max_idle_s=1.0))


@forks
def test_a_forked_child_opens_its_own_connections(start_peer: StartPeer, pool: ConnectionPool) -> None:
    """After a fork, the child opens its own connections, and the parent's idle and lent ones still work."""
    peer = start_peer(echo)

    with pool.connection(peer.address) as lent, pool.connection(peer.address) as idle:
        pool.give_back(idle)

        def check() -> bool:
            with pool.connection(peer.address) as own, pytest.raises(ConnectionLost, match="parent process"):
                own.call(PULL)
                lent.call(PULL)
            return own is not idle

        assert in_child(check)
        assert peer.accepted == 3
        assert lent.call(PULL).code == 0 and idle.call(PULL).code == 0


# --- sharing ---------------------------------------------------------------------------------------------------------


def test_threads_share_one_connection(start_peer: StartPeer, shared: SharedPool) -> None:
    """If eight threads need an address at the same time, one connection is opened for all."""
    peer = start_peer(echo)
    with ThreadPoolExecutor(8) as callers:
        answers = list(callers.map(lambda _: shared.connection(peer.address).call(PULL).code, range(16)))

    assert answers == [0] * 16
    assert peer.accepted == 1
    assert repr(shared) == "<SharedPool 1 open, 0 opening>"


def test_a_shared_connection_that_ended_is_replaced(start_peer: StartPeer, shared: SharedPool) -> None:
    """If the server closes a shared connection, the next caller gets a new one."""
    peer = first_plays(start_peer, lambda talk: None)
    first = shared.connection(peer.address)
    until(lambda: not first.is_open)

    assert shared.connection(peer.address).call(PULL).code == 0


def test_a_mute_shared_connection_is_replaced(start_peer: StartPeer, shared: SharedPool) -> None:
    """If a shared connection is mute, the next caller gets a new one, and requests on the old one fail."""
    peer = first_plays(start_peer, never_answer)
    first = shared.connection(peer.address)
    long_poll = first.submit(PULL)
    with pytest.raises(RequestTimeout):
        first.call(HEART_BEAT, deadline=Deadline.after(0.05))

    assert shared.connection(peer.address).call(PULL).code == 0
    assert isinstance(long_poll.exception(TIMEOUT_S), ConnectionLost)
    assert "no bytes came from the server for a whole timeout" in str(long_poll.exception())
    assert not first.is_open and peer.accepted == 2


def test_a_mute_shared_connection_stays_until_there_is_another(shared: SharedPool) -> None:
    """If no new connection can be opened, the mute one stays open, because it may recover."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        address = Address(*listener.getsockname())
        first = shared.connection(address)
        server_side, _ = listener.accept()
    with server_side:
        assert isinstance(first.submit(PULL, deadline=Deadline.after(0.05)).exception(TIMEOUT_S), RequestTimeout)
        with pytest.raises(ConnectError):
            shared.connection(address)

        assert first.is_open and first.is_mute


def test_a_long_poll_does_not_make_its_connection_mute(start_peer: StartPeer, shared: SharedPool) -> None:
    """If a long poll times out while heartbeats are answered, the connection is not mute and stays in use."""

    def script(talk: Talk) -> None:
        talk.read()
        echo(talk)

    first, clock = shared.connection(start_peer(script).address), Clock()
    clock.now = time.monotonic()
    long_poll = first.submit(PULL, deadline=Deadline.after(TIMEOUT_S / 2, clock))
    assert shared.connection(first.address) is first

    first.call(HEART_BEAT)
    clock.now += TIMEOUT_S
    first.call(HEART_BEAT)
    assert isinstance(long_poll.exception(TIMEOUT_S), RequestTimeout)
    assert shared.connection(first.address) is first


def test_all_who_wait_for_a_connection_learn_why_there_is_none(shared: SharedPool) -> None:
    """If connecting fails, all threads that wait for the connection get the error."""
    with ThreadPoolExecutor(4) as callers:
        attempts = [callers.submit(shared.connection, NOBODY) for _ in range(8)]

    assert all(isinstance(attempt.exception(), ConnectError) for attempt in attempts)
    assert repr(shared) == "<SharedPool 0 open, 0 opening>"


def test_closing_all_closes_shared_connections(start_peer: StartPeer, shared: SharedPool) -> None:
    """After `close_all`, calls on a shared connection raise, and the pool opens no new one."""
    peer = start_peer(echo)
    first = shared.connection(peer.address)
    shared.close_all()

    with pytest.raises(ConnectionLost, match="closed on this side"):
        first.call(PULL)
    with pytest.raises(ConnectError, match=r"the client was closed .*; make a new one"):
        shared.connection(peer.address)
    assert peer.accepted == 1


def gated_tls() -> tuple[Script, threading.Event]:
    """Return a script of a TLS server that begins its handshake when an event is set, and this event."""
    go_on = threading.Event()

    def script(talk: Talk) -> None:
        assert go_on.wait(TIMEOUT_S)
        with server_tls().wrap_socket(talk.sock, server_side=True) as stream:
            echo(Talk(stream))

    return script, go_on


def test_no_thread_waits_past_its_deadline_for_anothers_attempt(start_peer: StartPeer) -> None:
    """If one thread is still connecting, another thread that waits for the connection raises at its own deadline."""
    script, go_on = gated_tls()
    peer, pool = start_peer(script), SharedPool(replace(QUICK, tls=TRUSTING))
    with ThreadPoolExecutor(1) as caller:
        opening = caller.submit(pool.connection, peer.address)
        until(lambda: repr(pool) == "<SharedPool 0 open, 1 opening>")
        with pytest.raises(ConnectError, match=r"no connection within 0.05 s .* another thread is still connecting"):
            pool.connection(peer.address, Deadline.after(0.05))
        go_on.set()

    assert opening.result().call(PULL).code == 0
    pool.close_all()


def test_closing_all_reaches_a_connection_that_is_being_opened(start_peer: StartPeer) -> None:
    """If `close_all` is called while a connection is being opened, this connection is closed as soon as it is open."""
    script, go_on = gated_tls()
    peer, pool = start_peer(script), SharedPool(replace(QUICK, tls=TRUSTING))
    with ThreadPoolExecutor(1) as caller:
        opening = caller.submit(pool.connection, peer.address)
        until(lambda: repr(pool) == "<SharedPool 0 open, 1 opening>")
        pool.close_all()
        go_on.set()

    assert not opening.result().is_open
    assert repr(pool) == "<SharedPool 0 open, 0 opening>"


def test_the_handler_serves_all_shared_connections(start_peer: StartPeer) -> None:
    """If a server sends a request, the pool's handler serves it."""

    def script(talk: Talk) -> None:
        request = talk.read()
        talk.answer(request, code=talk.ask(RequestCode.GET_CONSUMER_RUNNING_INFO).code)
        talk.wait_gone()

    pool = SharedPool(QUICK, lambda address, request: replace(request, code=42, body=b""))
    try:
        assert pool.connection(start_peer(script).address).call(PULL).code == 42
    finally:
        pool.close_all()


@forks
def test_a_forked_child_opens_its_own_shared_connections(start_peer: StartPeer, shared: SharedPool) -> None:
    """After a fork, calls on the parent's shared connection raise in the child, and its pool opens a new one."""
    peer = start_peer(echo)
    parents = shared.connection(peer.address)

    def check() -> bool:
        own = shared.connection(peer.address)
        with pytest.raises(ConnectionLost, match="parent process"):
            parents.call(PULL)
        return own.call(PULL).code == 0

    assert in_child(check)
    assert parents.call(PULL).code == 0


@forks
def test_a_forked_child_can_close_what_a_thread_was_using(start_peer: StartPeer, shared: SharedPool) -> None:
    """If other threads held a connection's locks at the fork, the child can still close its copy."""
    parents = shared.connection(start_peer(echo).address)

    def check() -> bool:
        parents.close()
        return not parents.is_open

    with parents._lock, parents._waker._lock, parents._channel.transport._lock:
        assert in_child(check)
    assert parents.call(PULL).code == 0
