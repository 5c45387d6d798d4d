"""Tests of `broker_stub.faults`."""

from __future__ import annotations

import time

import pytest

from broker_stub import NAME_SERVER, FaultNotReached, StubBroker, StubCluster
from pyspark_rocketmq.errors import OptionError
from pyspark_rocketmq.model import MessageQueue
from pyspark_rocketmq.wire.codes import RequestCode, ResponseCode
from pyspark_rocketmq.wire.commands import (
    GetMaxOffsetRequestHeader,
    GetMinOffsetRequestHeader,
    GetRouteInfoRequestHeader,
    to_fields,
)
from pyspark_rocketmq.wire.header import Command

from .remoting_client import RemotingClient, pull_of, send_of

END = GetMaxOffsetRequestHeader(topic="T", queue_id=0)
START = GetMinOffsetRequestHeader(topic="T", queue_id=0)
ROUTE = GetRouteInfoRequestHeader(topic="T")


# --- which fault applies ---------------------------------------------------------------------------------------------


def test_faults_happen_in_the_order_they_were_scripted() -> None:
    """Faults happen in their order, each as often as scripted; then the broker responds normally."""
    with StubBroker({"T": 1}) as stub, RemotingClient(stub.broker_address()) as client:
        stub.faults.busy(times=2)
        stub.faults.flow_control()

        codes = [client.ask(END).code for _ in range(4)]

    assert codes == [ResponseCode.SYSTEM_BUSY] * 2 + [ResponseCode.FLOW_CONTROL, ResponseCode.SUCCESS]


def test_faults_for_a_number_of_times_come_before_those_for_ever() -> None:
    """A fault with a number of times happens before a permanent one, whichever is scripted first."""
    with StubBroker({"T": 1}) as stub, RemotingClient(stub.broker_address()) as client:
        lasting = stub.faults.answer(14, times=None)
        once = stub.faults.answer(1, "just once")

        codes = [client.ask(END).code for _ in range(3)]
        assert (codes, lasting.fired, once.fired) == ([1, 14, 14], 2, 1)

        stub.faults.clear()
        assert client.ask(END).code == 0


def test_faults_are_for_one_request_at_one_place() -> None:
    """A fault applies to its request code and broker only; without a broker it does not apply to the name server."""
    with StubCluster(2, topics={"T": 1}) as stub:
        stub.faults.answer(1, on=RequestCode.GET_MIN_OFFSET, at="broker-b")
        stub.faults.answer(2, at=NAME_SERVER)
        first, second = stub.broker_address("broker-a"), stub.broker_address("broker-b")

        with RemotingClient(first) as a, RemotingClient(second) as b, RemotingClient(stub.name_server) as names:
            assert [a.ask(START).code, b.ask(END).code, b.ask(START).code] == [0, 0, 1]
            assert [names.ask(ROUTE).code, names.ask(ROUTE).code] == [2, 0]


def test_a_fault_that_never_happened_is_reported() -> None:
    """If a scripted fault never happened, the end of the `with` block raises an error that names it."""
    with pytest.raises(FaultNotReached, match="drop the reply on PULL_MESSAGE at any broker, 2 more times"):
        with StubBroker() as stub:
            stub.faults.drop_reply(on=RequestCode.PULL_MESSAGE, times=2)


def test_an_unreached_fault_does_not_hide_another_error() -> None:
    """If the `with` block raises an error, that error is raised and not the one about an unreached fault."""
    with pytest.raises(ZeroDivisionError):
        with StubBroker() as stub:
            stub.faults.busy()
            raise ZeroDivisionError


# --- faults of responses ---------------------------------------------------------------------------------------------


def test_a_dropped_reply_was_carried_out() -> None:
    """If the reply to a send is dropped, the message is stored, and its sender gets no response."""
    with StubBroker({"T": 1}) as stub, RemotingClient(stub.broker_address()) as client:
        stub.faults.drop_reply(on=RequestCode.SEND_MESSAGE_V2)
        lost = client.send(Command(310, fields=to_fields(send_of("T")), body=b"x"))

        assert client.ask(END).fields == {"offset": "1"}
        client.socket.settimeout(0.05)
        with pytest.raises(TimeoutError):
            client.response_to(lost)


def test_a_status_comes_with_the_receipt_of_what_was_stored() -> None:
    """With a status, a send is carried out and answered with its place; a request that is refused keeps its code."""
    with StubBroker({"T": 1}) as stub, RemotingClient(stub.broker_address()) as client:
        stub.faults.status(ResponseCode.FLUSH_DISK_TIMEOUT, on=RequestCode.SEND_MESSAGE_V2, times=2)
        stored, refused = (client.ask(send_of("T", queue_id=queue_id), b"x") for queue_id in (0, 9))

        assert (stored.code, (stored.fields or {})["queueOffset"]) == (ResponseCode.FLUSH_DISK_TIMEOUT, "0")
        assert refused.code == ResponseCode.INVALID_PARAMETER and client.ask(END).fields == {"offset": "1"}


def test_a_delayed_answer_comes_by_the_stubs_clock() -> None:
    """A delayed response is sent when the stub's clock reaches its time; later requests get theirs before."""
    with StubBroker({"T": 1}, frozen_clock=True) as stub, RemotingClient(stub.broker_address()) as client:
        stub.faults.delay(30_000, on=RequestCode.GET_MIN_OFFSET)
        late = client.send(Command(31, fields=to_fields(START)))

        assert client.ask(END).code == 0
        stub.clock.advance(30_000)

        assert client.response_to(late).code == 0


def test_a_delay_of_nothing_answers_at_once() -> None:
    """If the delay is zero, the response is sent at once."""
    with StubBroker({"T": 1}) as stub, RemotingClient(stub.broker_address()) as client:
        stub.faults.delay(0, on=RequestCode.GET_MIN_OFFSET)

        assert client.ask(START).code == ResponseCode.SUCCESS


def test_a_delay_applies_to_a_held_pull_too() -> None:
    """The delay of a held pull starts when its response would have been sent without the fault."""
    with StubBroker({"T": 1}, frozen_clock=True) as stub, RemotingClient(stub.broker_address()) as client:
        stub.faults.delay(5_000, on=RequestCode.PULL_MESSAGE)
        late = client.send(Command(11, fields=to_fields(pull_of("T", wait_ms=10_000))))
        client.ask(END)

        stub.put("T", b"x")
        stub.clock.advance(5_000)

        assert len(client.response_to(late).body) > 0


def test_a_cut_answer_ends_the_connection_inside_a_frame() -> None:
    """If a reply is cut, half of the response arrives and then the connection ends."""
    with StubBroker({"T": 1}) as stub, RemotingClient(stub.broker_address()) as client:
        stub.faults.cut_reply()
        client.send(Command(30, fields=to_fields(END)))

        came = b""
        while more := client.socket.recv(4096):
            came += more

        assert 4 < len(came) < 4 + int.from_bytes(came[:4], "big")


def test_a_half_closed_connection_says_no_more_but_listens() -> None:
    """After a half close the stub sends nothing more, but still reads and carries out requests."""
    with StubBroker({"T": 1}) as stub, RemotingClient(stub.broker_address()) as client:
        stub.faults.half_close()
        client.send(Command(30, fields=to_fields(END)))
        assert client.is_ended()

        client.send(Command(310, fields=to_fields(send_of("T")), body=b"x"))
        deadline = time.monotonic() + 30
        while not stub.messages("T") and time.monotonic() < deadline:
            time.sleep(0.01)

        assert [message.body for message in stub.messages("T")] == [b"x"]


def test_a_trickled_answer_is_whole() -> None:
    """A trickled response arrives complete, and later responses wait until its last byte is sent."""
    with StubBroker({"T": 1}) as stub, RemotingClient(stub.broker_address()) as client:
        stub.faults.trickle(on=RequestCode.GET_MAX_OFFSET)
        slow = client.send(Command(30, fields=to_fields(END)))
        quick = client.send(Command(31, fields=to_fields(START)))

        assert (client.response_to(quick).code, client.response_to(slow).fields) == (0, {"offset": "0"})


def test_a_trickled_answer_comes_in_pieces() -> None:
    """A trickled response arrives in several reads; the test retries for a while, as a busy machine may join them."""
    with StubBroker({"T": 1}) as stub, RemotingClient(stub.broker_address()) as client:
        stub.faults.trickle(times=None)

        def count_pieces() -> int:
            client.send(Command(30, fields=to_fields(END)))
            came, pieces = b"", 0
            while len(came) < 4 or len(came) < 4 + int.from_bytes(came[:4], "big"):
                came, pieces = came + client.socket.recv(1_000), pieces + 1
            return pieces

        assert any(count_pieces() > 1 for _ in range(50))


# --- brokers ---------------------------------------------------------------------------------------------------------


def route_of(stub: StubCluster) -> str:
    """Return the route of T as text, or the remark of the refusal."""
    with RemotingClient(stub.name_server) as client:
        answer = client.ask(ROUTE)
        return bytes(answer.body).decode() or answer.remark or ""


def test_a_broker_that_is_down_is_gone_until_it_is_up() -> None:
    """A broker that is down refuses connections and is in no route; up again, it has its messages and offsets."""
    with StubCluster(2, topics={"T": 1}) as stub:
        stub.put("T", b"x", broker="broker-a")
        address = stub.broker_address("broker-a")
        with RemotingClient(address) as client:
            client.ask(END)
            stub.faults.broker_down("broker-a")
            assert client.is_ended()

        assert "broker-a" not in route_of(stub) and "broker-b" in route_of(stub)
        with pytest.raises(ConnectionRefusedError):
            RemotingClient(address)
        stub.faults.broker_up("broker-a")

        assert "broker-a" in route_of(stub)
        with RemotingClient(address) as client:
            assert client.ask(END).fields == {"offset": "1"}


def test_the_last_broker_takes_its_topics_along() -> None:
    """If the only broker of a topic is down, the name server does not know the topic, as a real one."""
    with StubBroker({"T": 1}) as stub:
        stub.faults.broker_down()

        assert route_of(stub).startswith("No topic route info in name server for the topic: T")


def test_refusing_leaves_connections_alone() -> None:
    """After `refuse` new connections fail, and open ones go on."""
    with StubBroker({"T": 1}) as stub, RemotingClient(stub.broker_address()) as client:
        client.ask(END)
        stub.faults.refuse()

        with pytest.raises(ConnectionRefusedError):
            RemotingClient(stub.broker_address())
        assert client.ask(END).code == 0
        stub.faults.broker_up()

        RemotingClient(stub.broker_address()).close()


def test_a_lagging_slave_shows_less_than_its_master() -> None:
    """If a slave lags by some messages, each of its queues ends that many offsets before its master's."""
    with StubCluster(1, 1, topics={"T": 1}) as stub:
        stub.fill("T", 10, 100)
        slave = str(stub.state.brokers[1].address)

        with RemotingClient(slave) as client:
            assert client.ask(END).fields == {"offset": "10"}
            stub.faults.slave_lag(4)
            assert client.ask(END).fields == {"offset": "6"}
        with RemotingClient(stub.broker_address()) as client:
            assert client.ask(END).fields == {"offset": "10"}


def test_an_unknown_broker_is_a_named_error() -> None:
    """If a fault names an unknown broker, the error lists the known ones."""
    with StubCluster(2) as stub:
        with pytest.raises(OptionError, match=r"broker = 'broker-z'.*broker-a, broker-b"):
            stub.faults.broker_down("broker-z")


# --- data ------------------------------------------------------------------------------------------------------------


def test_a_lost_queue_is_gone_from_the_route() -> None:
    """After `lose_queue` the route and the broker do not have the queue, and requests for it are refused."""
    with StubBroker({"T": 2}) as stub, RemotingClient(stub.broker_address()) as client:
        stub.put("T", b"x", queue_id=1)
        stub.faults.lose_queue("T")

        assert '"readQueueNums":1' in route_of(stub)
        assert client.ask(pull_of("T", queue_id=1)).code == ResponseCode.INVALID_PARAMETER
        assert stub.messages("T") == []


def test_an_offset_can_be_reset_as_an_administrator_does() -> None:
    """After `reset_offset` the group's next pull gets the reset offset and continues from there."""
    with StubBroker({"T": 1}) as stub, RemotingClient(stub.broker_address()) as client:
        stub.fill("T", 10, 100)
        stub.faults.reset_offset("g", MessageQueue("T", "broker-a", 0), 3)

        answer = client.ask(pull_of("T", 9))

        assert (answer.code, answer.remark) == (ResponseCode.PULL_OFFSET_MOVED, "OFFSET_RESET")
        assert (answer.fields or {})["nextBeginOffset"] == "3"
        assert client.ask(pull_of("T", 3)).code == 0


def test_a_clock_jump_stamps_messages_otherwise() -> None:
    """After a clock jump, forward or back, messages are stamped with the changed time."""
    with StubBroker({"T": 1}, frozen_clock=True) as stub:
        now = stub.clock.now_ms()
        for jump_ms in (0, 3_600_000, -7_200_000):
            stub.faults.clock_jump(jump_ms)
            stub.put("T", b"x")

        times = [message.store_timestamp - now for message in stub.messages("T")]

    assert times == [0, 3_600_000, -3_600_000]
