"""Test the pipeline: requests in flight over one connection per address."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from pyspark_rocketmq.errors import ConnectError, ConnectionLost, LocalProtocolError, RequestTimeout, RocketMQError
from pyspark_rocketmq.model import Address
from pyspark_rocketmq.net.pipeline import Pipeline, RequestKind
from pyspark_rocketmq.net.pool import ConnectionPool
from pyspark_rocketmq.wire.codes import RequestCode
from pyspark_rocketmq.wire.header import Command, encode_command
from tests.net.fixtures import (
    QUICK,
    TIMEOUT_S,
    Script,
    StartPeer,
    Talk,
    echo,
    end_at_once,
    never_answer,
    until,
)

PULL = RequestCode.PULL_MESSAGE
NOWHERE = Address("127.0.0.1", 1)
REFUSED = b"refused"


class Clock:
    """The monotonic clock plus `moved_s`, which a test may raise."""

    moved_s = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self.moved_s


def read(response: Command) -> bytes:
    """Return the body of a response; raise an error if the body is `REFUSED`."""
    body = bytes(response.body)
    if body == REFUSED:
        raise LocalProtocolError("the server refuses", advice="none")
    return body


class Pulls(Pipeline[str, bytes, bytes]):
    """A pipeline whose requests are bodies, and whose results are the bodies of the responses."""

    def __init__(self, timeout_s: float = TIMEOUT_S) -> None:
        self.pool, self.clock = ConnectionPool(QUICK), Clock()
        super().__init__(self.pool, RequestKind(PULL, "a test's pull", timeout_s, "be quicker", read), self.clock)

    def ask(self, address: Address, group: str, *bodies: bytes) -> None:
        """Submit a group of requests with these bodies."""

        def write(opaques: Sequence[int]) -> list[bytes]:
            commands = [Command(PULL, opaque, body=body) for opaque, body in zip(opaques, bodies, strict=True)]
            return [encode_command(command) for command in commands]

        assert self.connect(address)
        self.enqueue(address, group, bodies, write)

    def drain_all(self) -> list[tuple[str, bytes, bytes | RocketMQError]]:
        """Wait for all requests in flight; return each with its group and its result or error."""
        drained: list[tuple[str, bytes, bytes | RocketMQError]] = []
        while self.in_flight:
            drained += self.drain(self.clock() + TIMEOUT_S)
        return drained


@pytest.fixture
def pulls() -> Iterator[Pulls]:
    """Return a pipeline that is closed after the test."""
    pulls = Pulls()
    yield pulls
    pulls.close()
    pulls.pool.close_all()


def answers_only(*numbers: int) -> Script:
    """Return a script that answers only the requests with these numbers, counted from 0."""

    def script(talk: Talk) -> None:
        for number in range(1 + max(numbers)):
            request = talk.read()
            if number in numbers:
                talk.answer(request, body=bytes(request.body))
        talk.wait_gone()

    return script


def test_each_request_comes_back_with_its_group_and_its_result(pulls: Pulls, start_peer: StartPeer) -> None:
    """If two servers respond, each result comes back with its own group and request."""
    one, other = start_peer(echo), start_peer(echo)
    pulls.ask(one.address, "first", b"1", b"2")
    pulls.ask(other.address, "second", b"3")

    assert sorted(pulls.drain_all()) == [("first", b"1", b"1"), ("first", b"2", b"2"), ("second", b"3", b"3")]
    assert (one.accepted, other.accepted) == (1, 1)


def test_an_error_of_the_reader_takes_the_place_of_a_result(pulls: Pulls, start_peer: StartPeer) -> None:
    """If reading a response raises, the request gets this error with the address; other requests get their results."""
    address = start_peer(echo).address
    pulls.ask(address, "group", REFUSED, b"fine")
    results = {request: result for _, request, result in pulls.drain_all()}

    error = results[REFUSED]
    assert isinstance(error, LocalProtocolError) and error.where["address"] == str(address)
    assert results[b"fine"] == b"fine"


def test_waiting_ends_at_the_given_moment(pulls: Pulls, start_peer: StartPeer) -> None:
    """If no response arrives, `drain` returns at the given moment, and the request stays in flight."""
    pulls.ask(start_peer(never_answer).address, "group", b"1")
    until_s = pulls.clock() + 0.05

    assert pulls.drain(until_s) == [] and pulls.clock() >= until_s
    assert pulls.in_flight == 1


def test_a_request_without_a_response_is_given_up_when_it_is_due(pulls: Pulls, start_peer: StartPeer) -> None:
    """If one of several requests is not answered, only this one times out, and the connection is kept."""
    peer = start_peer(answers_only(1, 2))
    pulls.ask(peer.address, "group", b"lost", b"answered")
    assert [request for _, request, _ in pulls.drain(pulls.clock() + TIMEOUT_S)] == [b"answered"]
    pulls.clock.moved_s += TIMEOUT_S
    pulls.ask(peer.address, "later", b"after the deadline")
    results: dict[bytes, Any] = {request: result for _, request, result in pulls.drain_all()}

    assert results[b"after the deadline"] == b"after the deadline"
    assert isinstance(results[b"lost"], RequestTimeout) and not results[b"lost"].is_silent
    assert "a test's pull" in str(results[b"lost"]) and "be quicker" in str(results[b"lost"])
    assert peer.accepted == 1


def test_a_silent_connection_is_replaced(pulls: Pulls, start_peer: StartPeer) -> None:
    """If no byte arrives until the first request is due, all requests time out, and the connection is replaced."""
    peer = start_peer(never_answer)
    pulls.ask(peer.address, "first", b"1")
    pulls.clock.moved_s += TIMEOUT_S / 2
    pulls.ask(peer.address, "second", b"2")
    pulls.send()
    pulls.clock.moved_s += TIMEOUT_S / 2
    drained = pulls.drain(pulls.clock() + TIMEOUT_S)
    pulls.ask(peer.address, "third", b"3")
    pulls.send()

    assert [(group, type(result)) for group, _, result in drained] == [
        ("first", RequestTimeout),
        ("second", RequestTimeout),
    ]
    assert all(isinstance(result, RequestTimeout) and result.is_silent for _, _, result in drained)
    assert pulls.in_flight == 1
    until(lambda: peer.accepted == 2)


def test_a_connection_that_ends_fails_its_requests(pulls: Pulls, start_peer: StartPeer) -> None:
    """If a connection ends, its requests fail, and `connect` opens a new one only after `drain` has returned them."""
    peer = start_peer(end_at_once)
    pulls.ask(peer.address, "group", b"1", b"2")
    while pulls.connect(peer.address):
        pulls.send()
    drained = pulls.drain_all()

    assert [(request, type(result)) for _, request, result in drained] == [
        (b"1", ConnectionLost),
        (b"2", ConnectionLost),
    ]
    assert pulls.connect(peer.address)


def test_an_address_out_of_reach_is_tried_once_for_each_send(pulls: Pulls, monkeypatch: pytest.MonkeyPatch) -> None:
    """If connecting fails, later attempts raise a copy of the error until `send`; then the address is tried again."""
    attempts: list[Address] = []

    def refuse(address: Address) -> None:
        attempts.append(address)
        raise ConnectError("connection refused", address=str(address))

    monkeypatch.setattr(pulls.pool, "take", refuse)
    errors = []
    for _ in range(2):
        with pytest.raises(ConnectError) as raised:
            pulls.connect(NOWHERE)
        errors.append(raised.value)
    errors[0].locate(topic="orders")
    pulls.send()
    with pytest.raises(ConnectError):
        pulls.connect(NOWHERE)

    assert attempts == [NOWHERE, NOWHERE]
    assert "topic" not in errors[1].where


def test_submitted_requests_do_not_wait_for_a_new_connection(pulls: Pulls, start_peer: StartPeer) -> None:
    """If requests are submitted, they are sent before the next connection is opened."""
    one = start_peer(echo)
    pulls.ask(one.address, "group", b"1")

    with pytest.raises(ConnectError):
        pulls.connect(NOWHERE)

    assert ", 0 bytes to send" in repr(next(iter(pulls.pool._lent)))
    assert pulls.drain_all() == [("group", b"1", b"1")]


def test_closing_returns_the_connections(pulls: Pulls, start_peer: StartPeer) -> None:
    """If no request is in flight, `close` gives the connection back, and the pool keeps it."""
    pulls.ask(start_peer(echo).address, "group", b"1")
    pulls.drain_all()
    pulls.close()

    assert repr(pulls.pool) == "<ConnectionPool 1 idle, 0 lent>" and pulls.in_flight == 0
