"""Test a connection with many requests in flight; each gets its response, or an error that names it."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace

import pytest

from pyspark_rocketmq.errors import (
    ConnectionLost,
    FrameTooLarge,
    LocalProtocolError,
    MalformedFrame,
    RequestTimeout,
    RocketMQError,
    UnexpectedReply,
)
from pyspark_rocketmq.net.connection import Connection
from pyspark_rocketmq.net.deadline import Deadline
from pyspark_rocketmq.net.pipeline import wait_any
from pyspark_rocketmq.net.settings import NetSettings
from pyspark_rocketmq.wire.codes import RequestCode
from pyspark_rocketmq.wire.header import RESPONSE_FLAG, Command, HeaderType, encode_command
from tests.net.fixtures import (
    QUICK,
    TIMEOUT_S,
    TRUSTING,
    Script,
    StartPeer,
    Talk,
    answer_to,
    echo,
    end_at_once,
    never_answer,
    never_read,
    sends,
    server_tls,
    until,
)

PULL = RequestCode.PULL_MESSAGE
Dial = Callable[..., Connection]


@pytest.fixture
def dial(start_peer: StartPeer) -> Iterator[Dial]:
    """Return a function that starts a server with a script and returns a connection to it."""
    opened: list[Connection] = []

    def start(script: Script, settings: NetSettings = QUICK) -> Connection:
        opened.append(Connection.open(start_peer(script).address, settings))
        return opened[-1]

    yield start
    for connection in opened:
        connection.close()


def flush(connection: Connection) -> None:
    """Exchange bytes until the outbox is empty."""
    while ", 0 bytes to send" not in repr(connection):
        connection.exchange()


def soon() -> Deadline:
    """Return a deadline that passes after 0.05 s."""
    return Deadline.after(0.05)


# --- requests --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("header_type", HeaderType)
def test_a_call_returns_the_answer(dial: Dial, header_type: HeaderType) -> None:
    """A call returns the response to its own request, with JSON and with binary headers."""
    connection = dial(echo, replace(QUICK, header_type=header_type))

    assert bytes(connection.call(PULL, {"topic": "T"}, b"one").body) == b"one"
    assert bytes(connection.call(PULL, {"topic": "T"}, b"two").body) == b"two"


def test_answers_may_come_in_any_order(dial: Dial) -> None:
    """If the server responds in reverse order, each response is returned with the opaque of its request."""

    def script(talk: Talk) -> None:
        for request in reversed([talk.read() for _ in range(3)]):
            talk.answer(request, body=bytes(request.body))
        talk.wait_gone()

    connection = dial(script)
    asked = {connection.submit(PULL, body=body): body for body in (b"a", b"b", b"c")}
    replies = [connection.next_reply() for _ in asked]

    assert [reply.opaque for reply in replies] == list(reversed(asked))
    assert {reply.opaque: bytes(reply.command.body) for reply in replies} == asked


def test_submitted_requests_leave_together(dial: Dial) -> None:
    """Submitted requests wait in the outbox until the connection sends, so they leave together."""
    connection = dial(never_answer)
    for _ in range(4):
        connection.submit(PULL)
    gathered = repr(connection)
    flush(connection)

    assert "4 in flight" in gathered and ", 0 bytes to send" not in gathered
    assert "4 in flight" in repr(connection) and ", 0 bytes to send" in repr(connection)


def test_a_call_leaves_other_answers_for_those_who_wait_for_them(dial: Dial) -> None:
    """If a pull is in flight, a call returns its own response, and the pull's response stays for `next_reply`."""
    connection = dial(echo)
    pull = connection.submit(PULL, body=b"pull")

    assert bytes(connection.call(RequestCode.UPDATE_CONSUMER_OFFSET, body=b"commit").body) == b"commit"
    assert connection.next_reply().opaque == pull


def test_what_is_there_is_taken_at_once(dial: Dial) -> None:
    """`ready_replies` returns all received responses without waiting; after the connection's end it raises."""
    connection = dial(echo)
    opaques = {connection.submit(PULL, None, b"x") for _ in range(3)}
    taken: list[int] = []

    while len(taken) < 3:
        assert wait_any([connection], time.monotonic() + TIMEOUT_S) == [connection]
        taken += [reply.opaque for reply in connection.ready_replies()]

    assert set(taken) == opaques and connection.ready_replies() == []
    connection.close()
    with pytest.raises(ConnectionLost):
        connection.ready_replies()


def test_collect_gathers_a_burst(dial: Dial) -> None:
    """`collect` yields the responses to its own requests, and keeps the responses to others."""
    connection = dial(echo)
    other = connection.submit(PULL)
    asked = [connection.submit(PULL, body=bytes([number])) for number in range(5)]

    answers = dict(connection.collect(asked))

    assert [bytes(answers[opaque].body) for opaque in asked] == [bytes([number]) for number in range(5)]
    assert connection.next_reply().opaque == other


def test_a_response_code_is_not_an_error(dial: Dial) -> None:
    """If a response has an error code, the call returns it, and the connection stays usable."""

    def script(talk: Talk) -> None:
        talk.answer(talk.read(), code=17)
        echo(talk)

    connection = dial(script)

    assert connection.call(PULL).code == 17
    assert connection.call(PULL).code == 0


def test_telling_waits_for_no_answer(dial: Dial) -> None:
    """When `tell` returns, all its bytes are sent, and the next call gets its own response."""
    connection = dial(echo)
    connection.tell(RequestCode.UPDATE_CONSUMER_OFFSET)

    assert ", 0 bytes to send" in repr(connection)
    assert connection.call(PULL).code == 0


def test_an_answer_may_come_byte_by_byte(dial: Dial) -> None:
    """If a response arrives byte by byte, the call returns the whole response."""

    def script(talk: Talk) -> None:
        for byte in answer_to(talk.read(), body=b"body"):
            talk.sock.sendall(bytes([byte]))
        talk.wait_gone()

    assert bytes(dial(script).call(PULL).body) == b"body"


def test_a_large_answer_and_its_neighbours_stay_valid(dial: Dial) -> None:
    """If large responses follow each other, the bodies received first stay valid."""
    connection = dial(echo)
    bodies = [bytes([number]) * 700_000 for number in range(3)]
    asked = [connection.submit(PULL, body=body) for body in bodies]

    answers = dict(connection.collect(asked))

    assert [answers[opaque].body for opaque in asked] == bodies


def test_waiting_for_nothing_is_refused(dial: Dial) -> None:
    """If no request is in flight, `next_reply` raises at once."""
    with pytest.raises(LocalProtocolError, match="no request is in flight"):
        dial(never_answer).next_reply()


# --- timeouts --------------------------------------------------------------------------------------------------------


def test_a_time_out_fails_only_its_request(dial: Dial) -> None:
    """If a response is late, its call raises; the response is dropped and counted, and the next call works."""
    answer_now = threading.Event()

    def script(talk: Talk) -> None:
        late = talk.read()
        assert answer_now.wait(TIMEOUT_S)
        talk.answer(late)
        echo(talk)

    connection = dial(script)
    with pytest.raises(RequestTimeout, match=rf"within 0.05 s \(address {connection.address}, request PULL_MESSAGE\)"):
        connection.call(PULL, deadline=soon())
    answer_now.set()

    assert bytes(connection.call(PULL, body=b"next").body) == b"next"
    assert connection.dropped_replies == 1


def test_it_knows_when_it_was_last_heard(dial: Dial) -> None:
    """`heard_at` is the time of opening at first, and the time of the last received bytes later."""
    before, connection = time.monotonic(), dial(echo)
    opened_at = connection.heard_at
    connection.submit(PULL)
    flush(connection)
    connection.next_reply()

    assert before <= opened_at < connection.heard_at <= time.monotonic()


def test_a_time_out_in_silence_makes_it_mute_until_it_is_heard(dial: Dial) -> None:
    """If a request timed out and no bytes arrived, `is_settled` is False until the late response arrives."""
    answer_now = threading.Event()

    def script(talk: Talk) -> None:
        late = talk.read()
        assert answer_now.wait(TIMEOUT_S)
        talk.answer(late)
        talk.wait_gone()

    connection = dial(script)
    with pytest.raises(RequestTimeout):
        connection.call(PULL, deadline=soon())
    assert connection.is_open and not connection.is_settled

    answer_now.set()
    until(lambda: connection.is_settled)


def test_a_time_out_of_next_reply_gives_nothing_up(dial: Dial) -> None:
    """If `next_reply` reaches its deadline, it raises, and the request stays in flight."""
    connection = dial(never_answer)
    connection.submit(PULL)

    with pytest.raises(RequestTimeout):
        connection.next_reply(soon())
    assert connection.in_flight == 1


def test_collect_hands_out_what_came_in_time(dial: Dial) -> None:
    """If one of two responses is missing, `collect` yields the other, and gives the request up at the deadline."""

    def script(talk: Talk) -> None:
        for request in [talk.read() for _ in range(3)][::2]:
            talk.answer(request)
        talk.wait_gone()

    connection = dial(script)
    asked = [connection.submit(PULL), connection.submit(PULL)]
    connection.call(PULL)
    collecting = connection.collect(asked, soon())

    assert next(collecting).opaque == asked[0]
    with pytest.raises(RequestTimeout):
        next(collecting)
    assert connection.in_flight == 0


def test_an_answer_to_a_forgotten_request_is_dropped(dial: Dial) -> None:
    """If a response arrived before its request was given up, it is dropped, too."""
    connection = dial(echo)
    unwanted = connection.submit(PULL)
    connection.call(PULL)
    connection.forget(unwanted)

    assert connection.is_settled
    assert connection.dropped_replies == 1


def test_a_flood_of_other_answers_does_not_extend_the_deadline(dial: Dial) -> None:
    """If a server sends 100,000 other responses, a call still raises at its deadline."""

    def script(talk: Talk) -> None:
        late = [talk.read() for _ in range(100_000)]
        talk.read()
        for request in late:
            talk.sock.sendall(answer_to(request))
        talk.wait_gone()

    connection = dial(script)
    for opaque in [connection.submit(PULL) for _ in range(100_000)]:
        connection.forget(opaque)
    flush(connection)

    started = time.monotonic()
    with pytest.raises(RequestTimeout):
        connection.call(PULL, deadline=Deadline.after(0.2))
    assert time.monotonic() - started < TIMEOUT_S / 2


def test_a_server_that_does_not_read_costs_no_more_than_the_deadline(dial: Dial) -> None:
    """If the server reads nothing, a call raises at its deadline, and the error tells how many bytes are unsent."""
    done = threading.Event()
    connection = dial(never_read(done))
    bodies = bytes(15 << 20)

    with pytest.raises(RequestTimeout, match="the server has yet to take"):
        connection.call(RequestCode.SEND_MESSAGE_V2, body=bodies, deadline=soon())
    done.set()


def test_two_sides_that_only_write_do_not_block_each_other(dial: Dial) -> None:
    """If client and server both send more than the buffers hold, all responses arrive."""

    def script(talk: Talk) -> None:
        first = talk.read()
        talk.sock.sendall(b"".join(answer_to(first, body=bytes(1 << 20)) for _ in range(16)))
        echo(talk)

    connection = dial(script)
    connection.submit(PULL)
    for _ in range(4):
        connection.submit(PULL, body=bytes(4 << 20))

    assert sum(len(connection.next_reply().command.body) for _ in range(5)) == 17 << 20
    assert connection.dropped_replies == 15


# --- the end of a connection -----------------------------------------------------------------------------------------

BAD_FRAMES = {
    "garbage": (b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", FrameTooLarge, "maxFrameSize"),
    "oversized": ((64 << 20).to_bytes(4, "big"), FrameTooLarge, "raise maxFrameSize"),
    "negative length": (b"\xff\xff\xff\xff", FrameTooLarge, "maxFrameSize"),
    "too short": (bytes(8), MalformedFrame, "a frame of 4 bytes"),
    "unknown header type": (b"\0\0\0\x06\x07\0\0\x02{}", MalformedFrame, "header type 7"),
    "no JSON": (b"\0\0\0\x06\0\0\0\x02{{", MalformedFrame, "unreadable JSON header"),
    "reply to nobody": (encode_command(Command(0, 99, flag=RESPONSE_FLAG)), UnexpectedReply, "request 99"),
}


@pytest.mark.parametrize(("data", "kind", "text"), BAD_FRAMES.values(), ids=BAD_FRAMES)
def test_a_broken_rule_ends_the_connection(dial: Dial, data: bytes, kind: type[RocketMQError], text: str) -> None:
    """If a frame is malformed, every request in flight and every later call raises an error that names it."""
    connection = dial(sends(data))
    connection.submit(RequestCode.GET_MAX_OFFSET)

    with pytest.raises(kind, match=text) as caught:
        connection.call(PULL)
    assert f"address {connection.address}, request PULL_MESSAGE" in str(caught.value)
    with pytest.raises(kind, match="request GET_MIN_OFFSET"):
        connection.submit(RequestCode.GET_MIN_OFFSET)
    assert not connection.is_open and connection.in_flight == 0


def half_close(talk: Talk) -> None:
    talk.read()
    talk.sock.shutdown(socket.SHUT_WR)
    talk.wait_gone()


def cut_inside_a_frame(talk: Talk) -> None:
    talk.sock.sendall(answer_to(talk.read(), body=b"body")[:-2])


def reset(talk: Talk) -> None:
    talk.read()
    talk.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")


@pytest.mark.parametrize("script", [end_at_once, half_close, cut_inside_a_frame, reset])
def test_a_closed_connection_is_lost_for_all_requests(dial: Dial, script: Script) -> None:
    """If the stream is closed, half-closed, cut or reset, one ConnectionLost names all requests in flight."""
    connection = dial(script)
    connection.submit(RequestCode.GET_MAX_OFFSET)
    connection.submit(PULL)

    with pytest.raises(ConnectionLost, match=rf"address {connection.address}, request GET_MAX_OFFSET, PULL_MESSAGE"):
        connection.next_reply()
    assert not connection.is_open


def test_a_cut_frame_is_told(dial: Dial) -> None:
    """If the stream ends inside a frame, the error says so and has MalformedFrame as its cause."""
    with pytest.raises(ConnectionLost, match="ended inside a frame") as caught:
        dial(cut_inside_a_frame).call(PULL)
    assert isinstance(caught.value.__cause__, MalformedFrame)


def test_answers_that_came_before_the_end_are_still_handed_out(dial: Dial) -> None:
    """If a malformed frame follows a response in the same packet, the response is returned before the error raises."""

    def script(talk: Talk) -> None:
        talk.sock.sendall(answer_to(talk.read(), body=b"one") + bytes(8))

    connection = dial(script)
    connection.submit(PULL)
    connection.submit(PULL)

    assert bytes(connection.next_reply().command.body) == b"one"
    with pytest.raises(MalformedFrame):
        connection.next_reply()


def test_answers_are_read_although_nothing_more_can_be_sent(dial: Dial) -> None:
    """If sending fails because the server has closed, the response that arrived before is returned first."""
    answered = threading.Event()

    def script(talk: Talk) -> None:
        talk.answer(talk.read(), body=b"last words")
        talk.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        talk.sock.close()
        answered.set()

    connection = dial(script)
    connection.submit(PULL)
    flush(connection)
    assert answered.wait(TIMEOUT_S)
    connection.submit(PULL)

    assert bytes(connection.next_reply().command.body) == b"last words"
    with pytest.raises(ConnectionLost):
        connection.next_reply()


def test_a_plain_client_at_a_tls_port_is_told_about_tls(start_peer: StartPeer) -> None:
    """If a client without TLS calls a TLS server, the error advises useTLS=true."""
    peer = start_peer(echo, tls=server_tls())

    with (
        closing(Connection.open(peer.address, QUICK)) as connection,
        pytest.raises(ConnectionLost, match="useTLS=true"),
    ):
        connection.call(PULL)


@pytest.mark.parametrize("script", [end_at_once, sends(b"\x15\x03\x03\x00\x02\x02\x46")], ids=["closed", "alert"])
def test_a_server_that_wants_tls_is_recognised(dial: Dial, script: Script) -> None:
    """If the server closes at once or sends a TLS alert, the error advises useTLS=true."""
    with pytest.raises(ConnectionLost, match="set useTLS=true"):
        dial(script).call(PULL)


def test_calls_work_over_tls(start_peer: StartPeer) -> None:
    """Over TLS, requests and responses of a mebibyte arrive complete."""
    peer = start_peer(echo, tls=server_tls())

    with closing(Connection.open(peer.address, replace(QUICK, tls=TRUSTING))) as connection:
        asked = [connection.submit(PULL, body=bytes(1 << 20)) for _ in range(4)]
        assert sum(len(reply.command.body) for reply in connection.collect(asked)) == 4 << 20


def test_a_request_that_is_too_large_is_refused_alone(dial: Dial) -> None:
    """If a request is too large, it raises before any byte is sent, and the connection stays usable."""
    connection = dial(echo, replace(QUICK, max_frame_bytes=1000))

    with pytest.raises(FrameTooLarge, match=rf"address {connection.address}, request SEND_MESSAGE_V2.*maxFrameSize"):
        connection.call(RequestCode.SEND_MESSAGE_V2, body=bytes(2000))
    with pytest.raises(FrameTooLarge, match="request HEART_BEAT"):
        connection.tell(RequestCode.HEART_BEAT, body=bytes(2000))
    assert connection.call(PULL).code == 0


def test_a_closed_connection_says_so(dial: Dial) -> None:
    """After `close`, a call raises ConnectionLost at once."""
    connection = dial(never_answer)
    connection.close()

    with pytest.raises(ConnectionLost, match="closed on this side"):
        connection.call(PULL)
    assert "ended by CONNECTION_LOST" in repr(connection)


def test_the_servers_own_requests_are_declined(dial: Dial) -> None:
    """If the server sends requests, it gets code 3 (not supported) for each, and no response to a one-way request."""
    declined: list[Command] = []

    def script(talk: Talk) -> None:
        request = talk.read()
        talk.tell(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED)
        declined.append(talk.ask(RequestCode.GET_CONSUMER_RUNNING_INFO))
        talk.answer(request)
        talk.wait_gone()

    assert dial(script).call(PULL).code == 0
    assert [answer.code for answer in declined] == [3]


# --- several servers -------------------------------------------------------------------------------------------------


def test_one_thread_waits_for_several_servers(dial: Dial) -> None:
    """If one server responds and the other is silent, `wait_any` returns the connection to the first."""
    silent, talking = dial(never_answer), dial(echo)
    silent.submit(PULL)
    asked = talking.submit(PULL)

    assert wait_any([silent, talking], time.monotonic() + TIMEOUT_S) == [talking]
    assert talking.next_reply().opaque == asked


def test_all_servers_with_news_are_reported(dial: Dial) -> None:
    """If two connections have responses, `wait_any` returns both."""
    first, second = dial(echo), dial(echo)
    for connection in (first, second):
        connection.submit(PULL)
        connection.submit(PULL)
        connection.call(PULL)

    assert wait_any([first, second], time.monotonic() + TIMEOUT_S) == [first, second]


def test_the_end_of_a_connection_is_news(dial: Dial) -> None:
    """If a connection ends, `wait_any` returns it, and its `next_reply` raises."""
    silent, broken = dial(never_answer), dial(end_at_once)
    silent.submit(PULL)
    broken.submit(PULL)

    assert wait_any([silent, broken], time.monotonic() + TIMEOUT_S) == [broken]
    with pytest.raises(ConnectionLost):
        broken.next_reply()


def test_waiting_for_several_ends_at_the_deadline(dial: Dial) -> None:
    """If no response arrives before the moment, `wait_any` returns an empty list, and all requests stay in flight."""
    connections = [dial(never_answer), dial(never_answer)]
    for connection in connections:
        connection.submit(PULL)
    until_s = time.monotonic() + 0.05

    assert wait_any(connections, until_s) == [] and time.monotonic() >= until_s
    assert [connection.in_flight for connection in connections] == [1, 1]


def test_its_repr_tells_the_state_in_one_line(dial: Dial) -> None:
    """The representation counts requests in flight, ready and dropped responses, and unsent bytes."""

    def script(talk: Talk) -> None:
        talk.answer(talk.read())
        talk.answer(talk.read())
        talk.wait_gone()

    connection = dial(script)
    connection.submit(PULL)
    connection.call(PULL)
    connection.submit(PULL)
    flush(connection)

    assert repr(connection) == (
        f"<Connection {connection.address} open, 1 in flight, 1 ready, 0 dropped, 0 bytes to send>"
    )
