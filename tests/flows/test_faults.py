"""Test servers that answer badly, late or not at all: each request ends in time, and its error names the server."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from broker_stub import NAME_SERVER, StubBroker
from pyspark_rocketmq.broker_errors import FlowControl, SystemBusy
from pyspark_rocketmq.cluster.cluster import Cluster, open_cluster
from pyspark_rocketmq.cluster.settings import ClusterSettings
from pyspark_rocketmq.errors import (
    BrokerError,
    ConnectError,
    ConnectionLost,
    FrameTooLarge,
    MalformedFrame,
    RequestTimeout,
    RocketMQError,
    UnexpectedReply,
)
from pyspark_rocketmq.model import Address, MessageQueue
from pyspark_rocketmq.net.pool import pool_for
from pyspark_rocketmq.net.settings import NetSettings
from pyspark_rocketmq.wire.codes import RequestCode
from pyspark_rocketmq.wire.header import RESPONSE_FLAG, Command, encode_command
from tests.net.fixtures import StartPeer, never_answer, sends

from .world import patient_settings, sending

QUEUE = MessageQueue("T", "broker-a", 0)
ASKED = RequestCode.GET_MAX_OFFSET
BRIEF = NetSettings(connect_timeout_s=5, request_timeout_s=1.0)


@pytest.fixture
def stub() -> Iterator[StubBroker]:
    """A stub with one broker; a scripted fault that was never applied fails the test."""
    with StubBroker({"T": 1}) as stub:
        yield stub


def failing_fast(name_server: str, retries: int = 0) -> ClusterSettings:
    """Return client settings with request timeouts of a second and this number of retries."""
    return replace(patient_settings(name_server), net=BRIEF, retries=retries)


def ask(cluster: Cluster) -> int:
    """Fetch the maximum offset of the queue, a request that the client may retry; return the offset."""
    return cluster.offsets.fetch_max([QUEUE])[QUEUE]


# --- responses that ask to wait --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("fault", "error"), [("busy", SystemBusy), ("flow_control", FlowControl)])
def test_a_busy_broker_is_asked_again(stub: StubBroker, fault: str, error: type[RocketMQError]) -> None:
    """A request that a busy broker refuses is retried up to `retries` times; then the refusal is raised."""
    getattr(stub.faults, fault)(on=ASKED, times=2)
    assert ask(open_cluster(failing_fast(stub.name_server, retries=2))) == 0

    getattr(stub.faults, fault)(on=ASKED)
    with pytest.raises(error, match=r"flow control.*broker broker-a, queue 0"):
        ask(open_cluster(failing_fast(stub.name_server)))


def test_a_busy_name_server_is_asked_again(stub: StubBroker) -> None:
    stub.faults.busy(on=RequestCode.GET_ROUTEINFO_BY_TOPIC, at=NAME_SERVER, times=2)

    assert ask(open_cluster(failing_fast(stub.name_server, retries=2))) == 0


def test_a_refused_send_is_not_repeated(stub: StubBroker) -> None:
    """If a broker refuses a send, the client raises the refusal and does not repeat the send."""
    busy = stub.faults.busy(on=RequestCode.SEND_MESSAGE_V2)

    with pytest.raises(SystemBusy):
        open_cluster(failing_fast(stub.name_server, retries=5)).messages.send(sending(QUEUE, b"x", {}))

    assert busy.fired == 1 and stub.messages("T") == []


def test_an_unknown_code_keeps_its_number(stub: StubBroker) -> None:
    """A response code that the library does not know raises a `BrokerError` with code and remark."""
    stub.faults.answer(4711, "from the future", on=ASKED)

    with pytest.raises(BrokerError) as caught:
        ask(open_cluster(failing_fast(stub.name_server)))

    assert (caught.value.response_code, caught.value.remark) == (4711, "from the future")
    assert caught.value.where["request"] == "GET_MAX_OFFSET" and "4711: from the future" in str(caught.value)


# --- connections that break ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", ["cut_reply", "half_close"])
def test_a_broken_answer_is_asked_for_again(stub: StubBroker, fault: str) -> None:
    """If a connection breaks in a response, the request is retried on a new one; without retries it fails."""
    getattr(stub.faults, fault)(on=ASKED)
    with pytest.raises((ConnectionLost, RequestTimeout), match=rf"address {stub.broker_address()}"):
        ask(open_cluster(failing_fast(stub.name_server)))

    getattr(stub.faults, fault)(on=ASKED)
    assert ask(open_cluster(failing_fast(stub.name_server, retries=1))) == 0


def test_a_trickled_answer_arrives(stub: StubBroker) -> None:
    """A response that arrives byte by byte is read completely."""
    stub.put("T", b"x")
    stub.faults.trickle(on=ASKED)

    assert ask(open_cluster(patient_settings(stub.name_server))) == 1


def test_an_answer_that_comes_too_late_is_dropped(stub: StubBroker) -> None:
    """A response after the timeout is dropped, and the next request gets its own response."""
    stub.faults.delay(60_000, on=ASKED)
    cluster, started = open_cluster(failing_fast(stub.name_server)), time.monotonic()

    with pytest.raises(RequestTimeout, match=rf"address {stub.broker_address()}.*GET_MAX_OFFSET"):
        ask(cluster)
    assert time.monotonic() - started < 20

    stub.clock.advance(60_000)
    stub.put("T", b"x")
    assert ask(cluster) == 1


def test_a_late_answer_is_counted_on_its_connection(stub: StubBroker) -> None:
    """If a request times out, its connection stays open and counts the late response as dropped."""
    address = Address("127.0.0.1", int(stub.broker_address().rpartition(":")[2]))
    fields = {"topic": "T", "queueId": "0"}
    stub.faults.delay(60_000, on=ASKED)

    with pool_for(BRIEF).connection(address) as connection:
        with pytest.raises(RequestTimeout):
            connection.call(ASKED, fields)
        stub.clock.advance(60_000)
        assert connection.call(ASKED, fields).fields == {"offset": "0"}
        assert (connection.dropped_replies, connection.is_open) == (1, True)


def test_a_lost_answer_to_a_send_is_not_repeated(stub: StubBroker) -> None:
    """If the response to a send is lost, the send fails with a timeout and its message is stored once."""
    stub.faults.drop_reply(on=RequestCode.SEND_MESSAGE_V2)

    with pytest.raises(RequestTimeout, match="SEND_MESSAGE_V2"):
        open_cluster(failing_fast(stub.name_server, retries=5)).messages.send(sending(QUEUE, b"x", {}))

    assert len(stub.messages("T")) == 1


def test_a_broker_that_is_gone_is_named(stub: StubBroker) -> None:
    """A request to a stopped broker fails with an error that names the broker or the topic without route."""
    cluster = open_cluster(failing_fast(stub.name_server, retries=1))
    assert ask(cluster) == 0

    stub.faults.broker_down()

    with pytest.raises(RocketMQError, match=r"broker broker-a|topic T"):
        ask(cluster)
    stub.faults.broker_up()
    assert ask(cluster) == 0


# --- servers that do not speak the protocol --------------------------------------------------------------------------

UNASKED = encode_command(Command(0, opaque=123_456, flag=RESPONSE_FLAG))


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", (FrameTooLarge, MalformedFrame)),
        (bytes(64), MalformedFrame),
        (b"\x7f\xff\xff\xff" + bytes(60), (FrameTooLarge, MalformedFrame)),
        (b"\x00\x00\x00\x08\x00\x00\x00\x04oops", MalformedFrame),
        (UNASKED, UnexpectedReply),
    ],
    ids=["http", "zeros", "hostile length", "no json", "unexpected reply"],
)
def test_garbage_is_named(start_peer: StartPeer, data: bytes, error: type[RocketMQError]) -> None:
    """If a server sends bytes that are no response, the request fails with an error that names address and request."""
    address = start_peer(sends(data)).address

    with pytest.raises(error, match=rf"address {address}.*GET_ROUTEINFO_BY_TOPIC"):
        open_cluster(failing_fast(str(address))).routes.route("T")


def test_silence_ends_in_time(start_peer: StartPeer) -> None:
    """If a server never responds, a request fails after one request timeout."""
    address, started = start_peer(never_answer).address, time.monotonic()

    with pytest.raises(RequestTimeout, match=rf"address {address}"):
        open_cluster(failing_fast(str(address))).routes.route("T")

    assert 0.9 < time.monotonic() - started < 20


def test_no_name_server_at_all() -> None:
    """If no name server is reachable, the error lists all addresses, also one whose host name is unknown."""
    cluster = open_cluster(failing_fast("127.0.0.1:1;no.such.host.invalid:9876"))

    with pytest.raises(ConnectError, match=r"127\.0\.0\.1:1.*no\.such\.host\.invalid:9876"):
        cluster.routes.route("T")


def test_a_name_server_that_fails_leaves_the_routes_in_force(stub: StubBroker) -> None:
    """If the name server refuses to refresh an expired route, the client keeps using the route."""
    cluster = open_cluster(failing_fast(stub.name_server))
    assert ask(cluster) == 0

    stub.faults.busy(on=RequestCode.GET_ROUTEINFO_BY_TOPIC, at=NAME_SERVER, times=None)
    cluster.routes.expire("T")

    assert ask(cluster) == 0
