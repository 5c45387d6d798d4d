"""A burst is sent to all servers before any response is awaited, and each request gets its own result."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from pyspark_rocketmq.cluster.links import BURST, Addressed, InlineLinks, Links, SharedLinks, within
from pyspark_rocketmq.errors import ConnectError, ConnectionLost, RequestTimeout
from pyspark_rocketmq.model import Address
from pyspark_rocketmq.net.connection import Connection
from pyspark_rocketmq.net.deadline import Deadline
from pyspark_rocketmq.net.pool import ConnectionPool, SharedPool
from pyspark_rocketmq.net.settings import NetSettings
from pyspark_rocketmq.wire.header import Command
from tests.net.fixtures import StartPeer, Talk, echo, never_answer, until

SETTINGS = NetSettings(connect_timeout_s=5.0, request_timeout_s=5.0)
NOBODY = Address("127.0.0.1", 1)


def inline() -> tuple[Links, Callable[[], None]]:
    """Return links for one thread, and a function that closes them."""
    pool = ConnectionPool(SETTINGS)
    return InlineLinks(pool), pool.close_all


def shared() -> tuple[Links, Callable[[], None]]:
    """Return links for many threads, and a function that closes them."""
    pool = SharedPool(SETTINGS)
    return SharedLinks(pool), pool.close_all


@pytest.fixture(params=[inline, shared])
def links(request: pytest.FixtureRequest) -> Iterator[Links]:
    """Links for one thread, then links for many threads."""
    made, close = request.param()
    yield made
    close()


def asks(address: Address, *bodies: bytes) -> list[Addressed]:
    """Return a request to one address for each of these bodies."""
    return [(address, Command(30, fields={}, body=body)) for body in bodies]


def test_each_call_gets_its_own_answer(links: Links, start_peer: StartPeer) -> None:
    """If requests go to several servers in several bursts, the results come in the order of the requests."""
    addresses = [start_peer(echo).address, start_peer(echo).address]
    bodies = [b"%d" % number for number in range(BURST + 50)]
    calls = [(addresses[number % 2], Command(30, fields={}, body=body)) for number, body in enumerate(bodies * 2)]
    assert [bytes(outcome.body) for outcome in links.call_all(calls) if isinstance(outcome, Command)] == bodies * 2


def test_nobody_waits_before_all_are_asked(links: Links, start_peer: StartPeer) -> None:
    """The second server gets its request before the first one responds."""
    second_asked = threading.Event()

    def first(talk: Talk) -> None:
        request = talk.read()
        assert second_asked.wait(5)
        talk.answer(request)

    def second(talk: Talk) -> None:
        request = talk.read()
        second_asked.set()
        talk.answer(request)

    outcomes = links.call_all([*asks(start_peer(first).address, b"1"), *asks(start_peer(second).address, b"2")])
    assert [isinstance(outcome, Command) for outcome in outcomes] == [True, True]


def test_a_server_that_is_not_there_fails_only_its_own(links: Links, start_peer: StartPeer) -> None:
    """If one server cannot be reached, the responses of the others are returned all the same."""
    there = start_peer(echo).address
    outcomes = links.call_all([*asks(NOBODY, b"1"), *asks(there, b"2"), *asks(NOBODY, b"3")])
    assert [type(outcome) for outcome in outcomes] == [ConnectError, Command, ConnectError]


def test_what_was_answered_before_the_end_counts(links: Links, start_peer: StartPeer) -> None:
    """If a connection breaks, only the requests that have no response yet fail."""

    def answer_one(talk: Talk) -> None:
        talk.answer(talk.read())
        talk.read()

    outcomes = links.call_all(asks(start_peer(answer_one).address, b"1", b"2"))
    assert [type(outcome) for outcome in outcomes] == [Command, ConnectionLost]


def test_a_silent_server_costs_no_more_than_the_deadline(links: Links, start_peer: StartPeer) -> None:
    """If a server is silent, its request ends in a timeout at the deadline, alone and in a burst."""
    silent, there = start_peer(never_answer).address, start_peer(echo).address
    with pytest.raises(RequestTimeout):
        links.call(*asks(silent, b"1")[0], Deadline.after(0.2))
    outcomes = links.call_all([*asks(silent, b"1"), *asks(there, b"2")], Deadline.after(0.5))
    assert [type(outcome) for outcome in outcomes] == [RequestTimeout, Command]


def test_telling_waits_for_no_answer(links: Links, start_peer: StartPeer) -> None:
    """A one-way request is marked as one, and no response is awaited."""
    heard: list[Command] = []
    peer = start_peer(lambda talk: heard.append(talk.read()))
    links.tell(*asks(peer.address, b"x")[0])
    until(lambda: heard)
    assert heard[0].is_oneway and bytes(heard[0].body) == b"x"


def test_a_connection_is_lent_until_a_one_way_request_is_sent(start_peer: StartPeer) -> None:
    """A one-way request is sent before its connection returns to the pool, where another thread may take it."""
    arrived = threading.Event()

    def note(talk: Talk) -> None:
        talk.read()
        arrived.set()

    class RecordingPool(ConnectionPool):
        """A pool that records whether the request has arrived when its connection returns."""

        was_sent = False

        def give_back(self, connection: Connection) -> None:
            """Wait a moment for the request, and take the connection back."""
            self.was_sent = arrived.wait(5.0)
            super().give_back(connection)

    pool = RecordingPool(SETTINGS)
    InlineLinks(pool).tell(*asks(start_peer(note).address, b"x")[0])
    pool.close_all()
    assert pool.was_sent


def test_a_step_ends_with_the_whole_at_the_latest() -> None:
    """The deadline of one step is its own timeout or the end of the remaining time, whichever comes first."""
    assert within(None, 3.0).seconds == 3.0
    assert within(Deadline.after(100.0), 3.0).seconds == 3.0
    assert within(Deadline.after(1.0), 3.0).seconds <= 1.0
