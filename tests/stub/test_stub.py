"""Tests of `broker_stub.stub`: the methods by which a test or a notebook acts on a stub without a client."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker_stub import Settings, StubBroker, StubCluster
from pyspark_rocketmq.errors import BrokerError, OptionError
from pyspark_rocketmq.model import MessageQueue
from pyspark_rocketmq.wire import fastjson
from pyspark_rocketmq.wire.codes import RequestCode, ResponseCode
from pyspark_rocketmq.wire.commands import (
    GetBrokerClusterInfoRequestHeader,
    GetMaxOffsetRequestHeader,
    GetRouteInfoRequestHeader,
    HeartbeatRequestHeader,
    LockBatchMqRequestHeader,
    UpdateConsumerOffsetRequestHeader,
    to_fields,
)
from pyspark_rocketmq.wire.header import Command
from pyspark_rocketmq.wire.message_id import decode_offset_message_id
from pyspark_rocketmq.wire.record import decode_records

from .remoting_client import RemotingClient, pull_of, send_of


@pytest.fixture
def stub() -> Iterator[StubBroker]:
    with StubBroker({"T": 2}) as stub:
        yield stub


# --- messages --------------------------------------------------------------------------------------------------------


def test_what_is_put_can_be_pulled(stub: StubBroker) -> None:
    """A message that was put can be pulled with its tag, keys and properties and with those of the broker."""
    put = stub.put("T", b"hello", tags="new", keys="k1 k2", properties={"a": "b"}, queue_id=1)

    with RemotingClient(stub.broker_address()) as client:
        (record,) = decode_records(client.ask(pull_of("T", queue_id=1)).body)

    assert put.queue == MessageQueue("T", "broker-a", 1)
    assert (put.offset, record.body, record.offset_message_id) == (0, b"hello", put.message_id)
    assert {"TAGS": "new", "KEYS": "k1 k2", "a": "b", "CLUSTER": "DefaultCluster"}.items() <= record.properties.items()
    assert str(decode_offset_message_id(put.message_id).store_host) == stub.broker_address()


def test_queues_take_turns(stub: StubBroker) -> None:
    """Messages go to the queues in turn, unless `put` names a queue."""
    queues = [stub.put("T", b"x").queue.queue_id for _ in range(4)]

    assert sorted(queues) == [0, 0, 1, 1]
    assert [message.queue_id for message in stub.messages("T", 1)] == [1, 1]


def test_a_missing_topic_is_made_as_for_a_producer(stub: StubBroker) -> None:
    """If the topic is missing, `put` creates it from the template, with four queues."""
    stub.fill("made", 8, 10)

    assert [message.queue_id for message in stub.messages("made")] == [0, 0, 1, 1, 2, 2, 3, 3]


def test_a_message_may_be_stored_in_the_past(stub: StubBroker) -> None:
    """If `put` sets a store time in the past, a search by time finds the message there."""
    stub.put("T", b"x", store_timestamp=1_000)

    assert [message.store_timestamp for message in stub.messages("T")] == [1_000]


def test_messages_are_put_under_a_waiting_pull(stub: StubBroker) -> None:
    """If a message is put, or many are filled in, a held pull responds at once."""
    for fill in (False, True):
        with RemotingClient(stub.broker_address()) as client:
            end = int((client.ask(GetMaxOffsetRequestHeader(topic="T", queue_id=0)).fields or {})["offset"])
            waiting = client.send(pull_command(end))
            client.ask(GetMaxOffsetRequestHeader(topic="T", queue_id=0))
            stub.fill("T", 2, 10) if fill else stub.put("T", b"x", queue_id=0)

            assert client.response_to(waiting).code == 0


def pull_command(offset: int) -> Command:
    """Return a pull from this offset that waits for up to a minute."""
    return Command(RequestCode.PULL_MESSAGE, fields=to_fields(pull_of("T", offset, wait_ms=60_000)))


def test_a_fill_spreads_over_all_brokers() -> None:
    """A fill spreads messages evenly over the queues of all brokers and numbers them consecutively."""
    with StubCluster(3, topics={"T": 2}) as stub:
        stub.fill("T", 13, 20)

        numbers = sorted(int(message.body[:10]) for message in stub.messages("T"))
        counts = [len(stub.messages("T", broker=f"broker-{letter}")) for letter in "abc"]

    assert numbers == list(range(13))
    assert sum(counts) == 13 and max(counts) - min(counts) <= 2


def test_a_named_queue_must_exist(stub: StubBroker) -> None:
    """If `put` names a missing queue, the error names topic and queue."""
    with pytest.raises(OptionError, match=r"queue_id = '7': .*topic T"):
        stub.put("T", b"x", queue_id=7)


def test_illegal_input_is_a_named_error(stub: StubBroker) -> None:
    """An illegal topic name and a refused message raise an error each."""
    with pytest.raises(OptionError, match="topics = 'a b': The specified topic contains illegal characters"):
        StubBroker({"a b": 1})
    with pytest.raises(BrokerError, match="response code 13: timer message illegal"):
        stub.put("T", b"x", properties={"TIMER_DELAY_SEC": "9999999"})


def test_expired_messages_are_gone(stub: StubBroker) -> None:
    """After messages expired, a pull below the minimum offset is corrected to it."""
    stub.fill("T", 20, 10)
    stub.expire("T", 0, 4)

    with RemotingClient(stub.broker_address()) as client:
        answer = client.ask(pull_of("T", 1))

    assert (answer.code, (answer.fields or {})["nextBeginOffset"]) == (ResponseCode.PULL_OFFSET_MOVED, "4")
    assert len(stub.messages("T", 0)) == 6


def test_a_queue_moves_with_its_messages() -> None:
    """A moved queue becomes the last one of the other broker, and its offsets continue."""
    with StubCluster(2, topics={"T": 2}) as stub:
        for _ in range(8):
            stub.put("T", b"x")
        moved = stub.move_queue("T", "broker-a", "broker-b")

        with RemotingClient(stub.name_server) as client:
            route = fastjson.parse(client.ask(GetRouteInfoRequestHeader(topic="T")).body)
        counts = {queue["brokerName"]: queue["readQueueNums"] for queue in route["queueDatas"]}

        assert (moved, counts) == (MessageQueue("T", "broker-b", 2), {"broker-a": 1, "broker-b": 3})
        assert [message.queue_offset for message in stub.messages("T", 2)] == [0, 1]
        assert stub.put("T", b"x", queue_id=2).offset == 2


# --- members, offsets, locks and connections -------------------------------------------------------------------------


def heartbeat(client_id: str, group: str) -> bytes:
    """Return the body of a heartbeat of one consumer in a group."""
    subscription = {"topic": "T", "subString": "*", "subVersion": 1, "expressionType": "TAG"}
    consumer = {
        "groupName": group,
        "consumeType": "CONSUME_PASSIVELY",
        "messageModel": "CLUSTERING",
        "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET",
        "subscriptionDataSet": [subscription],
    }
    return json.dumps({"clientID": client_id, "consumerDataSet": [consumer], "producerDataSet": []}).encode()


def test_members_offsets_locks_and_connections_can_be_seen(stub: StubBroker) -> None:
    """Members, offsets, locks and connections are shown as they are now, without members that left."""
    queue = {"topic": "T", "brokerName": "broker-a", "queueId": 1}
    lock = json.dumps({"clientId": "c1", "consumerGroup": "g", "mqSet": [queue]}).encode()
    commit = UpdateConsumerOffsetRequestHeader(consumer_group="g", topic="T", queue_id=1, commit_offset=7)
    with RemotingClient(stub.broker_address()) as client:
        client.ask(HeartbeatRequestHeader(), heartbeat("c1", "g"))
        client.ask(LockBatchMqRequestHeader(), lock)
        client.ask(commit)

        assert stub.groups() == {"g": ("c1",)}
        assert stub.offsets("g") == {MessageQueue("T", "broker-a", 1): 7}
        assert stub.locks("g") == {MessageQueue("T", "broker-a", 1): "c1"}
        assert [client.client_ids for client in stub.connections()] == [("c1",)]

    deadline = time.monotonic() + 30
    while stub.connections() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert stub.groups() == {}


# --- masters and slaves ----------------------------------------------------------------------------------------------


def test_a_cluster_has_masters_and_slaves_of_the_same_names() -> None:
    """In the cluster information a master and its slaves share a name, and the master has id 0."""
    with StubCluster(2, 1, topics={"T": 1}) as stub, RemotingClient(stub.name_server) as client:
        info = fastjson.parse(client.ask(GetBrokerClusterInfoRequestHeader()).body)

    brokers = {name: sorted(data["brokerAddrs"]) for name, data in info["brokerAddrTable"].items()}
    assert brokers == {"broker-a": ["0", "1"], "broker-b": ["0", "1"]}


def test_brokers_may_be_named(tmp_path: Path) -> None:
    """Brokers have the names that they are given, for example with a machine room; their state is found by that."""
    names = ("room1@a", "room2@b")
    with StubCluster(names, topics={"T": 1}, data=tmp_path) as stub:
        assert {stub.put("T", b"x").queue.broker_name for _ in names} == set(names)

    with StubCluster(names, data=tmp_path) as stub, RemotingClient(stub.name_server) as client:
        route = fastjson.parse(client.ask(GetRouteInfoRequestHeader(topic="T")).body)
        assert [len(stub.messages("T", broker=name)) for name in names] == [1, 1]
    assert tuple(sorted(queue["brokerName"] for queue in route["queueDatas"])) == names


@pytest.mark.parametrize("names", [("a", "a"), ("",), ("a/b",), ("..",), ("a\n",), ("a" * 101,)])
def test_a_name_must_be_of_use(names: tuple[str, ...]) -> None:
    """A broker's name that occurs twice, or that cannot be a directory, is refused."""
    with pytest.raises(OptionError, match="give different names of 1 to 100 characters"):
        StubCluster(names)


def test_a_slave_serves_what_its_master_took() -> None:
    """A slave refuses sends and serves its master's messages, also while the master is down."""
    with StubCluster(1, 1, topics={"T": 1}) as stub, RemotingClient(str(stub.state.brokers[1].address)) as slave:
        stub.put("T", b"x")

        assert slave.ask(send_of("T"), b"y").code == ResponseCode.SERVICE_NOT_AVAILABLE
        stub.faults.broker_down("broker-a", 0)

        assert [record.body for record in decode_records(slave.ask(pull_of("T")).body)] == [b"x"]


def test_a_slave_sends_back_to_its_master_who_finds_nothing_new() -> None:
    """If a slave has no new message, it responds at once and suggests the master, if that is up."""
    with StubCluster(1, 1, topics={"T": 1}) as stub, RemotingClient(str(stub.state.brokers[1].address)) as slave:
        stub.put("T", b"x")

        answer = slave.ask(pull_of("T", 1, wait_ms=60_000))

    assert (answer.code, (answer.fields or {})["suggestWhichBrokerId"]) == (20, "0")


def test_a_slave_may_refuse_to_be_read() -> None:
    """If `slave_reads` is off, the default of 5.x slaves, a slave refuses pulls."""
    settings = Settings(slave_reads=False)
    with StubCluster(1, 1, topics={"T": 1}, settings=settings) as stub:
        with RemotingClient(str(stub.state.brokers[1].address)) as slave:
            answer = slave.ask(pull_of("T"))

    assert answer.code == ResponseCode.SYSTEM_BUSY
    assert (answer.remark or "").startswith("[REJECTREQUEST]")


def test_many_queues_start_quickly() -> None:
    """A stub with very many empty queues starts quickly."""
    begin = time.process_time()
    with StubBroker({"T": 10_000}) as stub:
        stub.put("T", b"x", queue_id=9_999)

        assert len(stub.messages("T", 9_999)) == 1
    assert time.process_time() - begin < 2


def test_signed_requests_only_when_accounts_are_given() -> None:
    """If accounts are given, brokers refuse unsigned requests, and the name server serves them."""
    with StubBroker({"T": 1}, acl={"user": "secret"}) as stub:
        with RemotingClient(stub.broker_address()) as client:
            assert client.ask(GetMaxOffsetRequestHeader(topic="T", queue_id=0)).code == ResponseCode.NO_PERMISSION
        with RemotingClient(stub.name_server) as client:
            assert client.ask(GetRouteInfoRequestHeader(topic="T")).code == 0


def test_time_can_be_made_to_pass(stub: StubBroker) -> None:
    """If the clock is advanced to its time, a delayed message is delivered."""
    stub.put("T", b"x", queue_id=0, properties={"DELAY": "18"})
    assert stub.messages("T") == []

    stub.clock.advance(2 * 3600 * 1000)

    assert [message.body for message in stub.messages("T")] == [b"x"]


def test_repr_shows_where_it_is(stub: StubBroker) -> None:
    """The repr of the stub contains its address."""
    assert repr(stub) == f"<StubBroker {stub.name_server}, 1 brokers>"
    assert "broker-a:0 at 127.0.0.1" in stub.run(lambda: repr(stub.state))
