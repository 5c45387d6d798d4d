"""Test a connection that many threads share, and that serves requests sent by the server."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from weakref import WeakSet

import pytest

from pyspark_rocketmq.errors import ConnectionLost, LocalProtocolError, MalformedFrame, RequestTimeout, RocketMQError
from pyspark_rocketmq.model import Address
from pyspark_rocketmq.net.deadline import Deadline
from pyspark_rocketmq.net.settings import NetSettings
from pyspark_rocketmq.net.threaded import MAX_UNSENT_BYTES, Handler, ThreadedConnection
from pyspark_rocketmq.wire.codes import RequestCode
from pyspark_rocketmq.wire.header import Command
from tests.net.fixtures import (
    QUICK,
    TIMEOUT_S,
    TRUSTING,
    Script,
    StartPeer,
    Talk,
    answer_to,
    echo,
    never_answer,
    never_read,
    server_tls,
    until,
)

PULL = RequestCode.PULL_MESSAGE
Dial = Callable[..., ThreadedConnection]


@pytest.fixture
def dial(start_peer: StartPeer) -> Iterator[Dial]:
    """Return a function that starts a server with a script and returns a threaded connection to it."""
    opened: list[ThreadedConnection] = []

    def start(script: Script, handler: Handler | None = None, settings: NetSettings = QUICK) -> ThreadedConnection:
        opened.append(ThreadedConnection.open(start_peer(script).address, settings, handler=handler))
        return opened[-1]

    yield start
    for connection in opened:
        connection.close()


def soon() -> Deadline:
    """Return a deadline that passes after 0.05 s."""
    return Deadline.after(0.05)


def gated_echo() -> tuple[Script, threading.Event]:
    """Return a script that sends its first response when an event is set, and this event."""
    answer_now = threading.Event()

    def script(talk: Talk) -> None:
        first = talk.read()
        assert answer_now.wait(TIMEOUT_S)
        talk.answer(first)
        echo(talk)

    return script, answer_now


# --- requests --------------------------------------------------------------------------------------------------------


def test_many_threads_get_their_own_answers(dial: Dial) -> None:
    """If eight threads make calls at the same time, each gets the responses to its own requests."""
    connection = dial(echo)

    def ask(caller: int) -> bool:
        bodies = [f"{caller}/{number}".encode() for number in range(50)]
        return [bytes(connection.call(PULL, body=body).body) for body in bodies] == bodies

    with ThreadPoolExecutor(8) as callers:
        assert all(callers.map(ask, range(8)))
    assert connection.in_flight == 0


def test_futures_end_in_the_order_of_the_answers(dial: Dial) -> None:
    """If the server responds in reverse order, each future gets the response to its own request."""

    def script(talk: Talk) -> None:
        for request in reversed([talk.read() for _ in range(3)]):
            talk.answer(request, body=bytes(request.body))
        talk.wait_gone()

    connection = dial(script)
    futures = [connection.submit(PULL, body=body) for body in (b"a", b"b", b"c")]

    assert [bytes(future.result(TIMEOUT_S).body) for future in futures] == [b"a", b"b", b"c"]


def test_a_response_code_is_not_an_error(dial: Dial) -> None:
    """If a response has an error code, the call returns it instead of raising."""

    def script(talk: Talk) -> None:
        talk.answer(talk.read(), code=17)
        talk.wait_gone()

    assert dial(script).call(PULL).code == 17


def test_telling_waits_for_no_answer(dial: Dial) -> None:
    """`tell` sends a one-way request and returns without a response."""
    heard: list[bool] = []

    def script(talk: Talk) -> None:
        heard.append(talk.read().is_oneway)
        echo(talk)

    connection = dial(script)
    connection.tell(RequestCode.UPDATE_CONSUMER_OFFSET)

    assert connection.call(PULL).code == 0
    assert heard == [True]


def test_calls_work_over_tls(start_peer: StartPeer) -> None:
    """Over TLS, eight requests and responses of a mebibyte arrive complete while both sides send."""
    peer = start_peer(echo, tls=server_tls())

    with closing(ThreadedConnection.open(peer.address, replace(QUICK, tls=TRUSTING))) as connection:
        futures = [connection.submit(PULL, body=bytes(1 << 20)) for _ in range(8)]
        assert sum(len(future.result(TIMEOUT_S).body) for future in futures) == 8 << 20


# --- timeouts --------------------------------------------------------------------------------------------------------


def test_a_time_out_fails_only_its_request(dial: Dial) -> None:
    """If a response is late, its call raises; the response is dropped and counted, and the next call works."""
    script, answer_now = gated_echo()
    connection = dial(script)
    with pytest.raises(RequestTimeout, match=rf"within 0.05 s \(address {connection.address}, request PULL_MESSAGE\)"):
        connection.call(PULL, deadline=soon())
    answer_now.set()

    assert bytes(connection.call(PULL, body=b"next").body) == b"next"
    assert connection.dropped_replies == 1


def test_a_future_ends_at_its_deadline_though_nobody_waits(dial: Dial) -> None:
    """If a future is not waited for, it still fails at its deadline, even behind requests with later deadlines."""
    script, answer_now = gated_echo()
    connection = dial(script)
    overdue = connection.submit(PULL, deadline=Deadline.after(0.3))
    later = connection.submit(PULL)
    soonest = connection.submit(PULL, deadline=soon())

    assert isinstance(soonest.exception(TIMEOUT_S), RequestTimeout)
    assert isinstance(overdue.exception(TIMEOUT_S), RequestTimeout)
    answer_now.set()
    assert later.result(TIMEOUT_S).code == 0
    until(lambda: connection.dropped_replies == 2)


def test_a_slow_callback_does_not_hold_other_callers_past_their_deadline(dial: Dial) -> None:
    """If a callback blocks the reader, a call in another thread still raises at its deadline."""
    script, answer_now = gated_echo()
    connection, stop, stopped = dial(script), threading.Event(), threading.Event()

    def be_slow(_: object) -> None:
        stopped.set()
        stop.wait(TIMEOUT_S)

    connection.submit(PULL).add_done_callback(be_slow)
    answer_now.set()
    assert stopped.wait(TIMEOUT_S)

    started = time.monotonic()
    with pytest.raises(RequestTimeout):
        connection.call(PULL, deadline=soon())
    assert time.monotonic() - started < TIMEOUT_S / 2
    assert connection.in_flight == 0
    stop.set()


@pytest.mark.parametrize("waits", [True, False], ids=["call", "submit"])
def test_a_time_out_in_silence_makes_it_mute_until_it_is_heard(dial: Dial, waits: bool) -> None:
    """If a request timed out and no bytes arrived, the connection is mute until the late response arrives."""
    script, answer_now = gated_echo()
    connection = dial(script)
    with pytest.raises(RequestTimeout):
        if waits:
            connection.call(PULL, deadline=soon())
        else:
            connection.submit(PULL, deadline=soon()).result(TIMEOUT_S)
    assert connection.is_open and connection.is_mute

    answer_now.set()
    until(lambda: not connection.is_mute)


def test_a_reader_that_is_held_up_makes_no_connection_mute(dial: Dial) -> None:
    """If a callback blocks the reader while a response arrives, the connection is not mute."""
    script, answer_now = gated_echo()
    connection, stop, stopped = dial(script), threading.Event(), threading.Event()

    def be_slow(_: object) -> None:
        stopped.set()
        stop.wait(2 * TIMEOUT_S)

    connection.submit(PULL).add_done_callback(be_slow)
    answer_now.set()
    assert stopped.wait(TIMEOUT_S)

    with pytest.raises(RequestTimeout):
        connection.call(PULL, deadline=soon())
    until(lambda: not connection.is_mute)
    stop.set()


def test_the_reader_does_not_wait_for_room(dial: Dial) -> None:
    """If the outbox is full, a callback in the reader may submit without waiting for room."""
    done, answer_now = threading.Event(), threading.Event()
    seconds: list[float] = []

    def script(talk: Talk) -> None:
        first = talk.read()
        assert answer_now.wait(TIMEOUT_S)
        talk.answer(first)
        done.wait(TIMEOUT_S)

    def go_on(_: object) -> None:
        started = time.monotonic()
        connection.submit(PULL)
        seconds.append(time.monotonic() - started)

    connection = dial(script)
    connection.submit(PULL).add_done_callback(go_on)
    for _ in range(2):
        connection.submit(PULL, body=bytes(15 << 20))
    answer_now.set()

    until(lambda: seconds)
    assert seconds[0] < TIMEOUT_S / 2
    done.set()


def test_the_reader_finishes_what_a_caller_began_to_send(dial: Dial) -> None:
    """If a request is larger than the kernel's buffers, the reader sends what its caller could not send at once."""
    connection = dial(echo)
    connection.call(PULL)

    assert len(connection.call(PULL, body=bytes(15 << 20)).body) == 15 << 20


class Watched(Deadline):
    """A deadline to which weak references are possible, so that a test sees when it is freed."""


def test_answered_requests_leave_nothing_behind(dial: Dial) -> None:
    """After 3000 answered requests with far deadlines, fewer than 2000 of the deadlines are kept."""
    connection, alive = dial(echo), WeakSet[Watched]()
    for _ in range(30):
        deadlines = [Watched.after(1000.0) for _ in range(100)]
        alive.update(deadlines)
        for future in [connection.submit(PULL, deadline=deadline) for deadline in deadlines]:
            future.result(TIMEOUT_S)

    assert len(alive) < 2000


def test_a_server_that_does_not_read_costs_no_more_than_the_deadline(dial: Dial) -> None:
    """If the server reads nothing, the outbox stays bounded, and every request raises at its deadline."""
    done = threading.Event()
    connection = dial(never_read(done))
    body = bytes(15 << 20)

    futures = [connection.submit(RequestCode.SEND_MESSAGE_V2, body=body, deadline=Deadline.after(0.3))]
    with pytest.raises(RequestTimeout, match="the server has yet to take"):
        while len(futures) < 10:
            futures.append(connection.submit(RequestCode.SEND_MESSAGE_V2, body=body, deadline=soon()))
    for future in futures:
        assert isinstance(future.exception(TIMEOUT_S), RequestTimeout)
    assert int(repr(connection).split()[-4]) < MAX_UNSENT_BYTES + len(body) + 1000
    done.set()


def test_two_sides_that_only_write_do_not_block_each_other(dial: Dial) -> None:
    """If callers and server both send more than the buffers hold, all responses arrive."""

    def script(talk: Talk) -> None:
        first = talk.read()
        talk.sock.sendall(b"".join(answer_to(first, body=bytes(1 << 20)) for _ in range(16)))
        echo(talk)

    connection = dial(script)
    futures = [connection.submit(PULL, body=bytes(size)) for size in (0, *[4 << 20] * 4)]

    assert sum(len(future.result(TIMEOUT_S).body) for future in futures) == 17 << 20


# --- the end of a connection -----------------------------------------------------------------------------------------


def close_both(talk: Talk) -> None:
    talk.read(), talk.read()


def half_close(talk: Talk) -> None:
    talk.read(), talk.read()
    talk.sock.shutdown(socket.SHUT_WR)
    talk.wait_gone()


def break_a_rule(talk: Talk) -> None:
    talk.read(), talk.read()
    talk.sock.sendall(bytes(8))
    talk.wait_gone()


@pytest.mark.parametrize(
    ("script", "kind"), [(close_both, ConnectionLost), (half_close, ConnectionLost), (break_a_rule, MalformedFrame)]
)
def test_the_end_of_the_connection_fails_all_in_flight(dial: Dial, script: Script, kind: type[RocketMQError]) -> None:
    """If the connection ends, each request in flight and each later call raises an error that names it."""
    connection = dial(script)
    futures = [connection.submit(code) for code in (PULL, RequestCode.GET_MAX_OFFSET)]
    failures = [str(future.exception(TIMEOUT_S)) for future in futures]

    assert all(kind.code in failure for failure in failures)
    assert f"address {connection.address}, request PULL_MESSAGE" in failures[0]
    assert f"address {connection.address}, request GET_MAX_OFFSET" in failures[1]
    with pytest.raises(kind, match="request GET_MIN_OFFSET"):
        connection.call(RequestCode.GET_MIN_OFFSET)


def test_answers_that_came_before_the_end_are_still_handed_out(dial: Dial) -> None:
    """If a malformed frame follows a response in the same packet, the response still completes its future."""

    def script(talk: Talk) -> None:
        first, _ = talk.read(), talk.read()
        talk.sock.sendall(answer_to(first, body=b"one") + bytes(8))

    connection = dial(script)
    first, second = connection.submit(PULL), connection.submit(PULL)

    assert bytes(first.result(TIMEOUT_S).body) == b"one"
    assert isinstance(second.exception(TIMEOUT_S), MalformedFrame)


def test_closing_fails_all_in_flight_and_ends_the_threads(dial: Dial) -> None:
    """After `close`, requests in flight have failed, and the reader thread has ended."""
    connection = dial(never_answer)
    future = connection.submit(PULL)
    connection.close()
    connection.close()

    assert "closed on this side" in str(future.exception(TIMEOUT_S))
    assert f"rocketmq {connection.address}" not in [thread.name for thread in threading.enumerate()]
    assert repr(connection) == (
        f"<ThreadedConnection {connection.address} ended by CONNECTION_LOST, 0 in flight, 0 dropped, 0 bytes to send>"
    )


def test_a_defect_in_the_reader_ends_all_requests(dial: Dial, caplog: pytest.LogCaptureFixture) -> None:
    """If the reader raises an unexpected error, every request in flight fails with an error that names it."""

    def broken_clock() -> float:
        if threading.current_thread() is threading.main_thread():
            return time.monotonic()
        raise ZeroDivisionError("no time")

    connection = dial(never_answer)
    future = connection.submit(PULL, deadline=Deadline.after(TIMEOUT_S, broken_clock))

    assert "the reader failed: ZeroDivisionError('no time')" in str(future.exception(TIMEOUT_S))
    assert "no time" in caplog.text


def test_a_silent_end_is_noticed_without_a_request(dial: Dial) -> None:
    """If the server closes the connection while no request is in flight, `is_open` becomes False."""
    connection = dial(lambda talk: None)

    until(lambda: not connection.is_open)
    with pytest.raises(ConnectionLost, match="the server closed the connection"):
        connection.call(PULL)


def test_callbacks_may_ask_on_but_not_wait(dial: Dial) -> None:
    """A callback may submit a further request, but `call` raises in it, because the reader would wait for itself."""
    script, answer_now = gated_echo()
    connection, done = dial(script), threading.Event()
    outcome: list[Future[Command]] = []

    def go_on(_: object) -> None:
        outcome.append(connection.submit(PULL, body=b"chained"))
        with pytest.raises(LocalProtocolError, match="would wait for itself"):
            connection.call(PULL)
        done.set()

    connection.submit(PULL).add_done_callback(go_on)
    answer_now.set()

    assert done.wait(TIMEOUT_S)
    assert bytes(outcome[0].result(TIMEOUT_S).body) == b"chained"


# --- the server's own requests ---------------------------------------------------------------------------------------


def asks(*codes: int) -> tuple[Script, list[Command]]:
    """Return a script that sends the client a one-way request and requests with these codes, and a list.

    The list gets the client's responses.
    """
    answers: list[Command] = []

    def script(talk: Talk) -> None:
        request = talk.read()
        talk.tell(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED)
        answers.extend(talk.ask(code) for code in codes)
        talk.answer(request)
        talk.wait_gone()

    return script, answers


def test_a_handler_answers_on_the_same_connection(dial: Dial) -> None:
    """The handler gets the server's address and each request, and the server gets responses to all but one-way ones."""
    script, answers = asks(RequestCode.GET_CONSUMER_RUNNING_INFO)
    heard: list[tuple[Address, int]] = []

    def handler(address: Address, request: Command) -> Command:
        heard.append((address, request.code))
        return Command(0, body=b"running")

    connection = dial(script, handler)
    connection.call(PULL)

    connection.close()

    assert [bytes(answer.body) for answer in answers] == [b"running"]
    until(lambda: f"serve {connection.address}" not in [thread.name for thread in threading.enumerate()])
    assert heard == [
        (connection.address, RequestCode.NOTIFY_CONSUMER_IDS_CHANGED),
        (connection.address, RequestCode.GET_CONSUMER_RUNNING_INFO),
    ]


@pytest.mark.parametrize("handler", [None, lambda address, request: None], ids=["no handler", "not handled"])
def test_requests_that_are_not_supported_get_code_3(dial: Dial, handler: Handler | None) -> None:
    """If there is no handler, or it returns None, the server gets a response with code 3 (not supported)."""
    script, answers = asks(RequestCode.GET_CONSUMER_RUNNING_INFO)
    dial(script, handler).call(PULL)

    assert [answer.code for answer in answers] == [3]


def test_a_handler_that_fails_answers_with_the_reason(dial: Dial, caplog: pytest.LogCaptureFixture) -> None:
    """If a handler raises, the server gets the reason, the log has the traceback, and the connection stays usable."""
    script, answers = asks(RequestCode.GET_CONSUMER_RUNNING_INFO)

    def handler(address: Address, request: Command) -> Command:
        raise KeyError("missing")

    assert dial(script, handler).call(PULL).code == 0
    assert [(answer.code, answer.remark) for answer in answers] == [(1, "KeyError: 'missing'")]
    assert "request GET_CONSUMER_RUNNING_INFO" in caplog.text


def test_a_slow_handler_stops_no_answers(dial: Dial) -> None:
    """If a handler is running, responses still arrive, and the handler may call the server itself."""
    nested: list[int] = []

    def script(talk: Talk) -> None:
        request = talk.read()
        talk.tell(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED)
        talk.answer(talk.read())
        talk.answer(request)
        talk.wait_gone()

    connection: ThreadedConnection

    def handler(address: Address, request: Command) -> None:
        nested.append(connection.call(RequestCode.GET_CONSUMER_LIST_BY_GROUP).code)

    connection = dial(script, handler)

    assert connection.call(PULL).code == 0
    until(lambda: nested == [0])


def test_its_idle_reader_sleeps(dial: Dial) -> None:
    """If two connections are idle for half a second, their readers use less than 0.04 s of processor time."""
    connection, silent = dial(echo), dial(never_answer)
    connection.call(PULL)
    before = time.process_time()
    with pytest.raises(RequestTimeout):
        silent.call(PULL, deadline=Deadline.after(0.5))

    assert time.process_time() - before < 0.04
