"""Test that a server which never stops sending, or never reads, neither delays callers nor exhausts memory."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace

import pytest

from pyspark_rocketmq.errors import ConnectError, ConnectionLost, Flooded, RequestTimeout
from pyspark_rocketmq.model import Address
from pyspark_rocketmq.net.connection import Connection
from pyspark_rocketmq.net.deadline import Deadline
from pyspark_rocketmq.net.pipeline import wait_any
from pyspark_rocketmq.net.threaded import Handler, ThreadedConnection
from pyspark_rocketmq.wire.codes import RequestCode
from pyspark_rocketmq.wire.header import ONEWAY_FLAG, RESPONSE_FLAG, Command, encode_command
from tests.net.fixtures import (
    QUICK,
    TIMEOUT_S,
    TRUSTING,
    Script,
    StartPeer,
    Talk,
    answer_to,
    never_answer,
    never_read,
    until,
)

PULL = RequestCode.PULL_MESSAGE
CHECK = RequestCode.CHECK_TRANSACTION_STATE
LONG = replace(QUICK, request_timeout_s=4 * TIMEOUT_S)

FRAMES = {
    "one-way requests": Command(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, opaque=1, flag=ONEWAY_FLAG),
    "requests": Command(CHECK, opaque=1, body=bytes(100)),
    "the same answer": Command(0, opaque=1, flag=RESPONSE_FLAG),
}


class Flood:
    """A script that sends the same bytes again and again, until `stop` is called or the client has left."""

    def __init__(self, data: bytes, listens: bool = False) -> None:
        self.data, self.listens = data, listens
        self.sent_bytes = 0
        self._is_over = threading.Event()

    def __call__(self, talk: Talk) -> None:
        talk.read()
        if self.listens:
            threading.Thread(target=self._read, args=(talk,), daemon=True).start()
        end = time.monotonic() + TIMEOUT_S
        while not self._is_over.is_set() and time.monotonic() < end:
            talk.sock.sendall(self.data)
            self.sent_bytes += len(self.data)

    def stop(self) -> None:
        """End the sending."""
        self._is_over.set()

    def _read(self, talk: Talk) -> None:
        try:
            talk.wait_gone()
        except OSError:
            pass


@pytest.fixture
def dial(start_peer: StartPeer) -> Iterator[Callable[..., Connection]]:
    """Return a function that starts a server with a script and returns a connection to it."""
    opened: list[Connection] = []

    def start(script: Script, **settings: object) -> Connection:
        opened.append(Connection.open(start_peer(script).address, replace(LONG, **settings)))  # type: ignore[arg-type]  # as given
        return opened[-1]

    yield start
    for connection in opened:
        connection.close()


@pytest.fixture
def share(start_peer: StartPeer) -> Iterator[Callable[..., ThreadedConnection]]:
    """Return a function that starts a server with a script and returns a threaded connection to it."""
    opened: list[ThreadedConnection] = []

    def start(script: Script, handler: Handler | None = None, **more: object) -> ThreadedConnection:
        quick = more.pop("quick", frozenset())
        made = ThreadedConnection.open(start_peer(script).address, replace(LONG, **more), None, handler, quick)  # type: ignore[arg-type]  # as given
        opened.append(made)
        return made

    yield start
    for connection in opened:
        connection.close()


# --- deadlines ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)
def test_waiting_for_several_ends_though_frames_arrive_all_the_time(
    dial: Callable[..., Connection], frame: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If unrequested frames of any kind arrive all the time, `wait_any` still ends at its deadline."""
    monkeypatch.setattr("pyspark_rocketmq.net.connection.MOST_UNASKED", 10**9)
    flood = Flood(encode_command(frame) * 1000)
    flooded, silent = dial(flood), dial(never_answer)
    flooded.forget(flooded.submit(PULL))
    silent.submit(PULL)
    started = time.monotonic()

    assert wait_any([flooded, silent], started + 0.5) == []
    assert time.monotonic() - started < TIMEOUT_S / 2
    flood.stop()


def test_a_request_ends_though_its_answer_grows_for_ever(share: Callable[..., ThreadedConnection]) -> None:
    """If a response arrives without end, requests still raise RequestTimeout at their deadlines."""
    flood = Flood(bytes(1))

    def script(talk: Talk) -> None:
        talk.sock.sendall((900 << 20).to_bytes(4, "big"))
        flood(talk)

    connection = share(script, max_frame_bytes=1 << 30)

    with pytest.raises(RequestTimeout):
        connection.call(PULL, deadline=Deadline.after(0.5))
    overdue = connection.submit(PULL, deadline=Deadline.after(0.5))
    assert isinstance(overdue.exception(TIMEOUT_S), RequestTimeout)
    flood.stop()


def test_half_an_answer_is_not_left_to_the_next_user(dial: Callable[..., Connection]) -> None:
    """If only a part of a response has arrived, `is_settled` is False, so the connection is not reused."""

    def script(talk: Talk) -> None:
        talk.sock.sendall(answer_to(talk.read(), body=b"body")[:-2])
        talk.wait_gone()

    connection = dial(script)
    with pytest.raises(RequestTimeout):
        connection.call(PULL, deadline=Deadline.after(0.5))
    assert connection.is_open and not connection.is_settled


# --- unrequested frames -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)
def test_frames_that_nobody_asked_for_end_a_connection(dial: Callable[..., Connection], frame: Command) -> None:
    """If too many unrequested frames arrive, `Flooded` names the address and their number, and ends the connection."""
    flood = Flood(encode_command(frame) * 100)
    connection = dial(flood)
    connection.forget(connection.submit(PULL))

    with pytest.raises(Flooded, match=rf"\d{{4,}} unrequested frames.*address {connection.address}"):
        connection.call(PULL, deadline=Deadline.after(TIMEOUT_S / 3))
    assert not connection.is_open
    flood.stop()


@pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)
def test_frames_that_nobody_asked_for_end_a_shared_connection(
    share: Callable[..., ThreadedConnection], frame: Command
) -> None:
    """If too many unrequested frames arrive on a threaded connection, every request in flight raises `Flooded`."""
    flood = Flood(encode_command(frame) * 100)
    connection = share(flood)
    connection.submit(PULL, deadline=Deadline.after(TIMEOUT_S))
    waiting = connection.submit(PULL, deadline=Deadline.after(TIMEOUT_S / 3))

    assert isinstance(waiting.exception(TIMEOUT_S), Flooded)
    assert str(connection.address) in str(waiting.exception())
    flood.stop()


def test_late_answers_to_requests_that_were_given_up_are_no_flood(dial: Callable[..., Connection]) -> None:
    """If 3000 responses to requests that were given up arrive, they are dropped, and the connection stays usable."""

    def script(talk: Talk) -> None:
        late = [talk.read() for _ in range(3000)]
        talk.sock.sendall(b"".join(map(answer_to, late)))
        talk.answer(talk.read(), body=b"in time")
        talk.wait_gone()

    connection = dial(script)
    for opaque in [connection.submit(PULL) for _ in range(3000)]:
        connection.forget(opaque)

    assert bytes(connection.call(PULL, deadline=Deadline.after(TIMEOUT_S)).body) == b"in time"
    assert connection.dropped_replies == 3000


def test_a_few_unasked_frames_at_a_time_are_forgiven(
    dial: Callable[..., Connection], monkeypatch: pytest.MonkeyPatch
) -> None:
    """If unrequested frames arrive over a long time, those of an earlier period do not count towards the limit."""
    monkeypatch.setattr("pyspark_rocketmq.net.connection.UNASKED_S", -1.0)
    notice = encode_command(FRAMES["one-way requests"])

    def script(talk: Talk) -> None:
        for _ in range(5):
            request = talk.read()
            talk.sock.sendall(notice * 500 + answer_to(request))
        talk.wait_gone()

    connection = dial(script)

    assert [connection.call(PULL).code for _ in range(5)] == [0] * 5
    assert connection.is_settled


# --- servers that never read ------------------------------------------------------------------------------------------


def test_a_server_that_takes_nothing_loses_its_connection(dial: Callable[..., Connection]) -> None:
    """If the server has accepted no bytes for `untaken_s`, the next call raises ConnectionLost at once."""
    done = threading.Event()
    connection = dial(never_read(done), untaken_s=0.5)
    with pytest.raises(RequestTimeout, match="has yet to take"):
        connection.call(RequestCode.SEND_MESSAGE_V2, body=bytes(15 << 20), deadline=Deadline.after(1.0))

    with pytest.raises(ConnectionLost, match=r"has taken none of the \d+ bytes .* 0.5 s .*request PULL_MESSAGE"):
        connection.call(PULL, deadline=Deadline.after(TIMEOUT_S))
    done.set()


def test_a_server_that_takes_nothing_loses_its_shared_connection(share: Callable[..., ThreadedConnection]) -> None:
    """If the server accepts no bytes for `untaken_s`, the connection ends, even if no request awaits a response."""
    done = threading.Event()
    connection = share(never_read(done), untaken_s=0.2)
    connection.tell(RequestCode.SEND_MESSAGE_V2, body=bytes(15 << 20))

    until(lambda: not connection.is_open)
    with pytest.raises(ConnectionLost, match="has taken none of"):
        connection.submit(PULL)
    done.set()


def test_answers_that_nobody_reads_do_not_pile_up(share: Callable[..., ThreadedConnection]) -> None:
    """If a server sends requests but reads no responses, the connection ends before 100 MiB are unsent."""
    flood = Flood(encode_command(FRAMES["requests"]) * 100)
    connection = share(flood, lambda address, request: Command(0, body=bytes(100_000)), quick=frozenset({CHECK}))
    connection.submit(PULL, deadline=Deadline.after(TIMEOUT_S))

    until(lambda: not connection.is_open)
    assert int(repr(connection).split()[-4]) < 100 << 20
    with pytest.raises(Flooded, match="reads no answers"):
        connection.submit(PULL)
    flood.stop()


# --- the server's own requests ----------------------------------------------------------------------------------------


def test_server_requests_wait_in_bounded_number_and_unserved_ones_are_logged(
    share: Callable[..., ThreadedConnection], caplog: pytest.LogCaptureFixture
) -> None:
    """If too many requests wait for a busy handler for a request's timeout, the connection ends with one log line."""
    flood, done = Flood(encode_command(Command(CHECK, opaque=1, body=bytes(10_000)))), threading.Event()
    connection = share(flood, lambda address, request: done.wait(TIMEOUT_S) and None, request_timeout_s=0.5)
    waiting = connection.submit(PULL, deadline=Deadline.after(TIMEOUT_S))

    with pytest.raises(Flooded, match=rf"\d+ requests .* wait .*address {connection.address}, request PULL_MESSAGE"):
        waiting.result(TIMEOUT_S)
    until(lambda: "were not served" in caplog.text)
    assert flood.sent_bytes < 64 << 20
    assert len(caplog.records) == 1 and "CHECK_TRANSACTION_STATE" in caplog.text
    done.set()
    flood.stop()


def test_reading_goes_on_when_the_handler_has_caught_up(share: Callable[..., ThreadedConnection]) -> None:
    """If receiving paused for a burst of requests, it goes on when they are served, and responses arrive again."""
    burst, gate, served = 5000, threading.Event(), list[int]()

    def script(talk: Talk) -> None:
        request = talk.read()
        for opaque in range(burst):
            talk.sock.sendall(encode_command(Command(CHECK, opaque=opaque, body=bytes(2000), flag=ONEWAY_FLAG)))
        talk.answer(request)
        talk.wait_gone()

    def handler(address: Address, request: Command) -> Command:
        gate.wait(TIMEOUT_S)
        served.append(request.opaque)
        return Command(0)

    connection = share(script, handler)
    waiting = connection.submit(PULL)
    until(lambda: " held up," in repr(connection))
    gate.set()

    assert waiting.result(TIMEOUT_S).code == 0
    until(lambda: served == list(range(burst)))


def test_quick_requests_are_answered_while_the_handler_is_busy(share: Callable[..., ThreadedConnection]) -> None:
    """If the handler is busy, the reader thread itself serves requests with a `quick` code."""
    gate, checked = threading.Event(), list[str]()

    def script(talk: Talk) -> None:
        request = talk.read()
        talk.tell(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED)
        checked.extend((talk.ask(CHECK).remark or "") for _ in range(3))
        talk.answer(request)
        talk.wait_gone()

    def handler(address: Address, request: Command) -> Command | None:
        if request.code == CHECK:
            return Command(0, remark=threading.current_thread().name)
        gate.wait(TIMEOUT_S)
        return None

    connection = share(script, handler, quick=frozenset({CHECK}))

    assert connection.call(PULL).code == 0
    assert checked == [f"rocketmq {connection.address}"] * 3
    gate.set()


def test_a_handler_that_fails_each_time_fills_no_log(
    share: Callable[..., ThreadedConnection], caplog: pytest.LogCaptureFixture
) -> None:
    """If a handler fails a hundred times, each request gets an error response, and fewer than ten lines are logged."""
    codes: list[int] = []

    def script(talk: Talk) -> None:
        request = talk.read()
        codes.extend(talk.ask(CHECK).code for _ in range(100))
        talk.answer(request)
        talk.wait_gone()

    def handler(address: Address, request: Command) -> Command:
        raise SystemExit("nonsense")

    assert share(script, handler).call(PULL).code == 0
    assert codes == [1] * 100
    assert 0 < len(caplog.records) < 10


# --- TLS --------------------------------------------------------------------------------------------------------------


def test_a_handshake_that_never_ends_costs_no_more_than_the_deadline(start_peer: StartPeer) -> None:
    """If a server sends handshake records without end, connecting still raises at the deadline."""
    hello_request = b"\x16\x03\x03\x00\x04\x00\x00\x00\x00"

    def script(talk: Talk) -> None:
        end = time.monotonic() + TIMEOUT_S
        while time.monotonic() < end:
            talk.sock.sendall(hello_request * 10_000)

    peer, started = start_peer(script), time.monotonic()
    with (
        pytest.raises(ConnectError, match=r"no TLS handshake: not done within 0.5 s"),
        closing(Connection.open(peer.address, replace(QUICK, tls=TRUSTING), Deadline.after(0.5))),
    ):
        pass
    assert time.monotonic() - started < TIMEOUT_S / 2
