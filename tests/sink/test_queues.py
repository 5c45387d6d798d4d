"""The queues of a batch are listed once, and keys, columns or turns decide about the queue of a row."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from dataclasses import replace

import pyarrow as pa
import pytest

from broker_stub.faults import NAME_SERVER
from broker_stub.settings import Settings
from pyspark_rocketmq.cluster.cluster import open_cluster
from pyspark_rocketmq.cluster.settings import ClusterSettings
from pyspark_rocketmq.errors import BadRow, BatchQueuesUnsupported, NoBrokerAvailable, TopicNotFound
from pyspark_rocketmq.model import MessageQueue, parse_addresses
from pyspark_rocketmq.wire.bodies import TopicConfig
from pyspark_rocketmq.wire.codes import RequestCode, ResponseCode
from pyspark_rocketmq.wire.properties import java_hash
from tests.sink.fixtures import TOPIC, MakeTarget, Target, frame, rows

ROUTE = RequestCode.GET_ROUTEINFO_BY_TOPIC
KEYS = [f"key-{number}" for number in range(40)]


def places(target: Target, topic: str = TOPIC) -> dict[bytes, MessageQueue]:
    """Return {body: queue} of the stored messages."""
    return {
        record.body: MessageQueue(topic, name, record.queue_id)
        for name in ("broker-a", "broker-b")
        for record in target.stub.messages(topic, broker=name)
    }


def create(target: Target, config: TopicConfig, broker_names: tuple[str, ...] = ()) -> None:
    """Create or change a topic of the stub."""
    cluster = open_cluster(ClusterSettings(parse_addresses(target.stub.name_server)))
    cluster.routes.route(TOPIC)
    cluster.admin.create_topic(config, broker_names)


# --- which queue ------------------------------------------------------------------------------------------------------


def test_rows_without_a_key_go_to_all_queues(make_target: MakeTarget) -> None:
    """Rows without key and queue spread over all queues of all brokers."""
    target = make_target(2)
    target.write(rows(640))
    assert len(set(places(target).values())) == 8


def test_keys_are_placed_as_javas_producers_place_them(make_target: MakeTarget) -> None:
    """A key's queue is that of SelectMessageQueueByHash over the sorted writable queues."""
    target = make_target(2)
    target.write(frame(body=[key.encode() for key in KEYS], shardingKey=KEYS))
    queues = [MessageQueue(TOPIC, f"broker-{letter}", number) for letter in "ab" for number in range(4)]
    assert places(target) == {key.encode(): queues[abs(java_hash(key)) % 8] for key in KEYS}


def test_round_robin_ignores_keys(make_target: MakeTarget) -> None:
    """With `queueSelector=roundRobin` rows of one key go to all queues, and keep the key as a property."""
    target = make_target(2)
    target.write(frame(shardingKey=["k"] * 512), {"queueSelector": "roundRobin"})
    assert len(set(places(target).values())) == 8
    assert {record.properties["__SHARDINGKEY"] for record in target.records()} == {"k"}


def test_columns_name_queues(make_target: MakeTarget) -> None:
    """A row goes to the queue that its columns name, also if it has a key; a null leaves the choice to the key."""
    target = make_target(2)
    named = frame(
        queueId=pa.array([3, None], pa.int32()), brokerName=["broker-b", None], shardingKey=["key-1", "key-1"]
    )
    target.write(named)
    found = places(target)
    assert found[b"0"] == MessageQueue(TOPIC, "broker-b", 3)
    target.write(frame(body=[b"same key"], shardingKey=["key-1"]))
    assert places(target)[b"same key"] == found[b"1"]


def test_a_queue_number_alone_is_not_enough_for_several_brokers(make_target: MakeTarget) -> None:
    """If several brokers have the topic, a row with a number and no broker is a bad row."""
    with pytest.raises(BadRow, match="exists at several brokers"):
        make_target(2).write(frame(queueId=pa.array([1], pa.int32())))


# --- once per batch ---------------------------------------------------------------------------------------------------


def test_queues_added_within_a_batch_are_not_used(make_target: MakeTarget) -> None:
    """All tasks of a batch place keys alike, even if queues are added after it was planned."""
    target = make_target(2)
    plan = target.plan()
    frames = frame(body=[key.encode() for key in KEYS], shardingKey=KEYS)
    target.write(frames, plan=plan)
    before = places(target)
    create(target, TopicConfig(topic_name=TOPIC))
    target.write(frames, plan=plan, partition=1)
    assert places(target) == before
    target.write(frames)
    assert max(queue.queue_id for queue in places(target).values()) > 3


def test_a_planned_task_needs_no_route_of_new_queues(target: Target) -> None:
    """The plan of a batch has all queues; pickling it for the tasks keeps them."""
    plan = target.plan()
    assert plan.queues == tuple(MessageQueue(TOPIC, "broker-a", number) for number in range(4))
    assert target.plan({"topic": ""}).queues == ()


# --- missing topics ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{"topic": "new"}, {"topic": ""}])
def test_a_missing_topic_is_created_by_its_first_messages(make_target: MakeTarget, options: dict[str, str]) -> None:
    """Where brokers create topics, as for RocketMQ's producers, a missing one gets four queues at each broker."""
    target = make_target(2)
    target.write(frame(topic=["new"] * 640), options)
    assert len(set(places(target, "new").values())) == 8


def test_without_creation_the_driver_says_so(target: Target) -> None:
    """If no broker creates topics, making the writer fails with the command that creates the topic."""
    target.stub.faults.answer(ResponseCode.TOPIC_NOT_EXIST, on=ROUTE, at=NAME_SERVER, times=6)
    with pytest.raises(TopicNotFound, match=r"no broker creates topics.*mqadmin updateTopic .* -t new"):
        target.plan({"topic": "new"})


def test_with_order_the_topics_of_a_column_must_exist(target: Target) -> None:
    """With `ordering=key` a topic that a column names is not created: tasks could not agree on its queues."""
    ordered = {"topic": "", "ordering": "key"}
    with pytest.raises(BadRow, match=r"row 0.*column topic"):
        target.write(frame(topic=["new"], shardingKey=["k"]), ordered)
    assert target.write(frame(topic=[TOPIC], shardingKey=["k"]), ordered).rows == 1


def test_a_topic_without_write_permission_is_refused(target: Target) -> None:
    """If no queue is writable, making the writer fails."""
    create(target, TopicConfig(topic_name="sealed", perm=4))
    with pytest.raises(NoBrokerAvailable, match="may be written"):
        target.plan({"topic": "sealed"})


def test_dead_letters_need_their_topic_before_the_batch(target: Target) -> None:
    """If the topic for dead letters cannot be used, making the writer fails, not the first bad row."""
    create(target, TopicConfig(topic_name="sealed", perm=4))
    with pytest.raises(NoBrokerAvailable, match="sealed"):
        target.plan({"onBadRow": "deadLetter", "deadLetterTopic": "sealed"})


# --- brokers that are away --------------------------------------------------------------------------------------------


def test_a_batch_waits_for_the_brokers_of_its_topic(target: Target, caplog: pytest.LogCaptureFixture) -> None:
    """If all brokers are away when a batch is planned, the driver waits for them, and says so once."""
    target.stub.faults.broker_down()
    back = threading.Timer(0.7, target.stub.faults.broker_up)
    back.start()
    assert target.write(rows(5)).rows == 5
    back.join()
    assert len([line for line in caplog.messages if "waiting for a broker, up to 120 s (sendTimeoutMs)" in line]) == 1


def test_a_master_that_comes_back_is_noticed(make_target: MakeTarget) -> None:
    """While a replica keeps the topic in routes, the driver fetches them again until the master is back."""
    target = make_target(slaves=1)
    target.stub.faults.broker_down("broker-a", 0)
    back, began = threading.Timer(0.7, target.stub.faults.broker_up), time.monotonic()
    back.start()
    assert target.write(rows(5)).rows == 5
    back.join()
    assert time.monotonic() - began < 15


def test_with_order_brokers_that_stay_away_fail_the_write_too(make_target: MakeTarget) -> None:
    """With `ordering=key` and a column for topics it is the same, also while a replica keeps the topic in routes."""
    target = make_target(slaves=1)
    target.stub.faults.broker_down("broker-a", 0)
    options = {"topic": "", "onBadRow": "drop", "ordering": "key", "sendTimeoutMs": "1000"}
    with pytest.raises(NoBrokerAvailable, match=r"no queue of the topic may be written now.*topic orders"):
        target.write(frame(topic=[TOPIC], shardingKey=["k"]), options)


@pytest.mark.parametrize("options", [{}, {"topic": "", "onBadRow": "drop"}])
def test_brokers_that_stay_away_fail_the_write(target: Target, options: dict[str, str]) -> None:
    """If they stay away, the write fails: that a broker is away is no fault of a row, and no row is dropped for it."""
    target.stub.faults.broker_down()
    with pytest.raises(NoBrokerAvailable, match=r"no broker is registered.*topic orders"):
        target.write(frame(topic=[TOPIC]), {**options, "sendTimeoutMs": "1000"})


# --- batch consume queues ---------------------------------------------------------------------------------------------


def test_batch_consume_queues_are_refused(target: Target) -> None:
    """A topic with batch consume queues is refused by name, also if a column names it and bad rows are dropped."""
    create(target, TopicConfig(topic_name="packed", attributes={"queue.type": "BatchCQ"}))
    with pytest.raises(BatchQueuesUnsupported, match=r"BATCH_QUEUES_UNSUPPORTED.*queue\.type=BatchCQ.*topic packed"):
        target.plan({"topic": "packed"})
    with pytest.raises(BatchQueuesUnsupported):
        target.write(frame(topic=["packed"]), {"topic": "", "onBadRow": "drop"})


def test_brokers_that_do_not_tell_are_believed(make_target: MakeTarget) -> None:
    """A release that does not know the request has no such queues, and a refusal is no obstacle."""
    assert make_target(emulate="4.9.7").write(rows(5)).rows == 5
    target = make_target()
    target.stub.faults.answer(ResponseCode.NO_PERMISSION, on=RequestCode.GET_TOPIC_CONFIG)
    assert target.write(rows(5)).rows == 5


# --- order ------------------------------------------------------------------------------------------------------------


def test_rows_of_a_key_stay_in_order(make_target: MakeTarget) -> None:
    """With `ordering=key` rows of a key are stored in order within their queue, through busy brokers and lost answers.

    A lost response lets rows be stored twice; each row's first copy comes after those of the rows before it.
    """
    target = make_target(2, settings=replace(Settings()))
    for fault in (target.stub.faults.busy, target.stub.faults.drop_reply, target.stub.faults.flow_control):
        fault(on=RequestCode.SEND_BATCH_MESSAGE, times=3)
    keys = [KEYS[row % 7] for row in range(2000)]
    frames = [
        frame(body=[b"%d" % row for row in range(at, at + 500)], key=keys[at : at + 500]) for at in (0, 500, 1000, 1500)
    ]
    ordered = {"ordering": "key", "sendMsgTimeout": "300"}
    plan = target.plan(ordered)
    encode = replace(plan.options.encode, key_is_sharding_key=True)
    target.write(frames, plan=replace(plan, options=replace(plan.options, encode=encode)))
    first: dict[str, list[int]] = defaultdict(list)
    for name in ("broker-a", "broker-b"):
        for record in target.stub.messages(TOPIC, broker=name):
            row = int(record.body)
            if row not in first[record.properties["KEYS"]]:
                first[record.properties["KEYS"]].append(row)
    assert sum(map(len, first.values())) == 2000
    assert all(numbers == sorted(numbers) for numbers in first.values())
