"""The queues of a batch are listed once, and keys, columns or turns decide about the queue of a row."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa
import pytest

from broker_stub.faults import NAME_SERVER
from broker_stub.settings import Settings
from pyspark_rocketmq.cluster.cluster import open_cluster
from pyspark_rocketmq.cluster.settings import ClusterSettings
from pyspark_rocketmq.errors import BadRow, ConnectionLost, NoBrokerAvailable, RocketMQError, TopicNotFound, WriteError
from pyspark_rocketmq.model import MessageQueue, parse_addresses
from pyspark_rocketmq.sink.queues import Registrations
from pyspark_rocketmq.wire.bodies import TopicConfig
from pyspark_rocketmq.wire.codes import RequestCode, ResponseCode
from pyspark_rocketmq.wire.properties import java_hash
from tests.sink.fixtures import TOPIC, MakeTarget, Target, frame, rows

ROUTE = RequestCode.GET_ROUTEINFO_BY_TOPIC
NAMED, DROP = {"topic": ""}, {"onBadRow": "drop"}
DEAD = {"onBadRow": "deadLetter", "deadLetterTopic": "dead"}
CLOSED = replace(Settings(), auto_create_topics=False)
MISSING = r"\[SINK_WRITE\].*TOPIC_NOT_FOUND, .*no broker creates .*topic new\); create it: mqadmin .* -t new, or let"
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


def test_without_creation_the_driver_says_so(make_target: MakeTarget) -> None:
    """If no broker creates topics, making the writer fails with the command that creates the topic."""
    target = make_target(settings=CLOSED)
    with pytest.raises(TopicNotFound, match=r"no broker creates topics.*mqadmin updateTopic .* -t new"):
        target.plan({"topic": "new", "sendTimeoutMs": "1000"})


def test_with_order_the_topics_of_a_column_must_exist(target: Target) -> None:
    """With `ordering=key` a topic that a column names is not created: tasks could not agree on its queues."""
    ordered = {"topic": "", "ordering": "key", "sendTimeoutMs": "1000"}
    with pytest.raises(WriteError, match=r"SINK_WRITE.*ordering=key does not.*; create it: mqadmin .* -t new$"):
        target.write(frame(topic=["new"], shardingKey=["k"]), {**ordered, **DROP})
    assert target.write(frame(topic=[TOPIC], shardingKey=["k"]), ordered).rows == 1


def test_a_topic_without_write_permission_is_refused(target: Target) -> None:
    """If no queue is writable for `sendTimeoutMs`, making the writer fails."""
    create(target, TopicConfig(topic_name="sealed", perm=4))
    with pytest.raises(NoBrokerAvailable, match="may be written"):
        target.plan({"topic": "sealed", "sendTimeoutMs": "1000"})


def test_dead_letters_need_their_topic_before_the_batch(target: Target) -> None:
    """If the topic for dead letters cannot be used, making the writer fails, not the first bad row."""
    create(target, TopicConfig(topic_name="sealed", perm=4))
    with pytest.raises(NoBrokerAvailable, match="sealed"):
        target.plan({"onBadRow": "deadLetter", "deadLetterTopic": "sealed", "sendTimeoutMs": "1000"})


# --- brokers that are away --------------------------------------------------------------------------------------------


def test_a_batch_waits_for_the_brokers_of_its_topic(target: Target, caplog: pytest.LogCaptureFixture) -> None:
    """If all brokers are away when a batch is planned, the driver waits for them, and says so once."""
    target.stub.faults.broker_down()
    back = threading.Timer(0.7, target.stub.faults.broker_up)
    back.start()
    assert target.write(rows(5)).rows == 5
    back.join()
    assert len([line for line in caplog.messages if "waiting up to 120 s (sendTimeoutMs)" in line]) == 1


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
    with pytest.raises(WriteError, match=r"NO_BROKER_AVAILABLE, no queue of the topic may be written.*topic orders"):
        target.write(frame(topic=[TOPIC], shardingKey=["k"]), options)


def test_brokers_that_stay_away_fail_the_driver(target: Target) -> None:
    """If they stay away, making the writer fails."""
    target.stub.faults.broker_down()
    with pytest.raises(NoBrokerAvailable, match=r"no broker is registered.*topic orders"):
        target.plan({"sendTimeoutMs": "1000"})


def test_brokers_that_stay_away_fail_the_task(target: Target) -> None:
    """With a column for topics the task fails, and its error counts the rows: none is dropped because of a broker."""
    plan = target.plan({**NAMED, **DROP, "sendTimeoutMs": "1000"})
    target.stub.faults.broker_down()
    with pytest.raises(WriteError, match=r"NO_BROKER_AVAILABLE, no broker is registered.*topic orders") as caught:
        target.write(frame(topic=[TOPIC] * 3), plan=plan)
    assert caught.value.code == "SINK_WRITE" and (caught.value.landed, caught.value.failed) == (0, 3)


@pytest.mark.parametrize("way", [DROP, DEAD])
def test_rows_are_not_bad_because_their_topic_is_read_only(target: Target, way: dict[str, str]) -> None:
    """While a topic may not be written (`mqadmin wipeWritePerm`), its rows wait; then the task fails."""
    plan = target.plan({**NAMED, **way, "sendTimeoutMs": "1000"})
    seal = TopicConfig(topic_name=TOPIC, read_queue_nums=2, write_queue_nums=2, perm=4)
    create(target, seal)
    with pytest.raises(WriteError, match=r"may be written now.*give the topic write permission"):
        target.write(frame(topic=[TOPIC] * 3), plan=plan)
    create(target, replace(seal, perm=6))
    assert target.write(frame(topic=[TOPIC] * 3), plan=plan).dropped == 0 and len(target.bodies()) == 3


@pytest.mark.parametrize("way", [DROP, DEAD])
@pytest.mark.parametrize("times", [2, 4])
def test_rows_are_not_bad_because_a_name_server_was_restarted(
    make_target: MakeTarget, way: dict[str, str], times: int
) -> None:
    """A name server that was started a moment ago does not know the topic; rows wait for the broker to register."""
    target = make_target(topics={TOPIC: 2})
    plan = target.plan({**NAMED, **way})
    target.stub.faults.answer(ResponseCode.TOPIC_NOT_EXIST, on=ROUTE, at=NAME_SERVER, times=times)
    report = target.write(frame(topic=[TOPIC] * 64), plan=plan)
    assert (report.dropped, report.dead_letters) == (0, 0) and len(target.bodies()) == 64


@pytest.mark.parametrize("way", [{}, DROP, DEAD])
def test_a_missing_topic_fails_the_task(
    make_target: MakeTarget, way: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    """A missing topic fails the task after 35 s (or `sendTimeoutMs`, if that is less), whatever `onBadRow` says.

    The error names the topic, counts the rows, and has the command; a warning tells of the wait.
    """
    target = make_target(settings=CLOSED, topics={TOPIC: 4, "dead": 1})
    plan, began = target.plan({**NAMED, **way, "sendTimeoutMs": "1200"}), time.monotonic()
    with pytest.raises(WriteError, match=MISSING) as caught:
        target.write([frame(topic=[TOPIC] * 3), frame(topic=["new", TOPIC])], plan=plan)
    error = caught.value
    assert time.monotonic() - began >= 1.2 and (error.failed, error.landed + error.unknown) == (2, 3)
    assert "waiting up to 1.2 s, within which brokers register" in caplog.messages[0]
    assert "[TOPIC_NOT_FOUND]" in caplog.messages[0]
    assert len(target.bodies()) == 3 and target.bodies("dead") == []


@pytest.mark.parametrize("way", [DROP, DEAD])
def test_rows_are_not_bad_because_the_only_broker_of_their_topic_is_away(
    make_target: MakeTarget, way: dict[str, str]
) -> None:
    """Name servers do not know a topic while all its brokers are away; its rows wait, and then fail the task."""
    target = make_target(2, settings=CLOSED, topics={TOPIC: 4, "dead": 1})
    create(target, TopicConfig(topic_name="new"), ("broker-b",))
    plan = target.plan({**NAMED, **way, "sendTimeoutMs": "1000"})
    target.stub.faults.broker_down("broker-b")
    with pytest.raises(WriteError, match=MISSING):
        target.write(frame(topic=["new"] * 3), plan=plan)
    back = threading.Timer(0.3, target.stub.faults.broker_up)
    back.start()
    assert target.write(frame(topic=["new"] * 3), plan=plan).rows == len(target.bodies("new")) == 3
    back.join()
    assert target.bodies("dead") == []


def test_the_time_for_a_missing_topic_begins_with_the_brokers(
    make_target: MakeTarget, caplog: pytest.LogCaptureFixture
) -> None:
    """As long as no broker is registered, nothing is known about a topic; the time begins after that.

    A warning tells of each of the two waits.
    """
    target = make_target(settings=CLOSED)
    target.stub.faults.broker_down()
    back, began = threading.Timer(0.8, target.stub.faults.broker_up), time.monotonic()
    back.start()
    with pytest.raises(WriteError, match=MISSING):
        target.write(frame(topic=["new"]), {**NAMED, **DROP, "sendTimeoutMs": "1000"})
    back.join()
    assert time.monotonic() - began >= 1.8
    waits = [line for line in caplog.messages if line.startswith("waiting up to")]
    assert len(waits) == 2 and "(sendTimeoutMs)" in waits[0] and "within which brokers register" in waits[1]


# --- name servers -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("settings", [Settings(), CLOSED])
@pytest.mark.parametrize("topic", ["keyed", ""])
def test_keys_wait_until_all_brokers_have_registered(make_target: MakeTarget, topic: str, settings: Settings) -> None:
    """Name servers that were just started know only the first brokers; rows with keys wait for the topic's own one.

    They would move if the first broker created the topic. Whether the driver or a task lists queues is the same.
    """
    target = make_target(2, settings=settings)
    create(target, TopicConfig(topic_name="keyed"), ("broker-b",))
    target.stub.faults.broker_down("broker-b")
    back = threading.Timer(0.3, target.stub.faults.broker_up)
    back.start()
    plan = target.plan({"topic": topic}, columns=["body", "shardingKey"])
    assert target.write(frame(topic=["keyed"] * 40, shardingKey=KEYS), plan=plan).rows == 40
    back.join()
    assert {queue.broker_name for queue in places(target, "keyed").values()} == {"broker-b"}


def test_new_topics_of_keys_cost_one_wait(make_target: MakeTarget, caplog: pytest.LogCaptureFixture) -> None:
    """A topic for rows with keys is taken for a new one when all brokers had time to register, and so are others."""
    target, began = make_target(2), time.monotonic()
    plan = target.plan({**NAMED, "sendTimeoutMs": "1000"}, columns=["shardingKey"])
    target.write(frame(topic=["new"] * 40 + ["newer"] * 40, shardingKey=KEYS * 2), plan=plan)
    assert time.monotonic() - began >= 1.0
    assert len(set(places(target, "new").values())) == len(set(places(target, "newer").values())) == 8
    assert len([line for line in caplog.messages if "create it before, to save the wait" in line]) == 1


def test_the_wait_for_brokers_begins_again_when_others_are_listed() -> None:
    """After a restart name servers list other brokers than before: then nothing is known about their topics."""
    moments = iter([0.0, 0.0, 30.0, 40.0, 50.0, 60.0])
    registrations = Registrations(lambda: next(moments))
    both, one = frozenset({"broker-a", "broker-b"}), frozenset({"broker-a"})
    assert [registrations.note(names) for names in (both, both, one, one, both)] == [0.0, 30.0, 0.0, 10.0, 0.0]


def test_a_task_waits_for_a_topic_whose_queues_the_driver_has_listed(target: Target) -> None:
    """If name servers were restarted after a batch was planned, its tasks wait until brokers register there again."""
    plan = target.plan()
    target.stub.faults.answer(ResponseCode.TOPIC_NOT_EXIST, on=ROUTE, at=NAME_SERVER, times=4)
    assert target.write(rows(5), plan=plan).rows == len(target.bodies()) == 5


DEAD_SERVER = "127.0.0.1:1"


def test_a_name_server_that_is_gone_for_good_does_not_keep_topics_from_being_created(target: Target) -> None:
    """A topic is new if the other name servers do not know it, as for RocketMQ's own producers."""
    servers = {"nameServer": f"{DEAD_SERVER};{target.stub.name_server}", "topic": "new"}
    assert target.write(rows(5), servers).rows == len(target.bodies("new")) == 5


@pytest.mark.parametrize("topic", ["new", ""])
def test_a_name_server_that_is_gone_may_know_a_missing_topic(make_target: MakeTarget, topic: str) -> None:
    """Where no broker creates topics, the wait ends with an error that names the name server that is away."""
    target = make_target(settings=CLOSED)
    servers = {"nameServer": f"{DEAD_SERVER};{target.stub.name_server}", "topic": topic, "sendTimeoutMs": "1000"}
    began = time.monotonic()
    with pytest.raises(RocketMQError, match=rf"TOPIC_UNCONFIRMED.*fail: {DEAD_SERVER}: .*leave them out of nameServer"):
        target.write(frame(topic=["new"]), servers)
    assert 1.0 <= time.monotonic() - began < 10.0


def test_a_batch_waits_for_the_name_server(target: Target, caplog: pytest.LogCaptureFixture) -> None:
    """If no name server responds when a batch is planned, the driver waits for one, and says so once."""
    target.stub.faults.cut_reply(on=ROUTE, at=NAME_SERVER, times=4)
    assert target.write(rows(5)).rows == 5
    assert len([line for line in caplog.messages if "waiting up to 120 s (sendTimeoutMs)" in line]) == 1


def test_a_name_server_that_stays_away_fails_the_driver(target: Target) -> None:
    """If none responds for `sendTimeoutMs`, making the writer fails."""
    target.stub.faults.cut_reply(on=ROUTE, at=NAME_SERVER, times=None)
    with pytest.raises(ConnectionLost):
        target.plan({"sendTimeoutMs": "1000"})


@pytest.mark.parametrize("code", [ResponseCode.NO_PERMISSION, ResponseCode.SYSTEM_BUSY])
def test_a_name_server_that_refuses_fails_the_task(target: Target, code: ResponseCode) -> None:
    """An error of a name server fails the task like one of a broker, and the task's error counts the rows."""

    def frames() -> Iterator[pa.RecordBatch]:
        yield frame(topic=[TOPIC] * 3)
        target.stub.faults.answer(code, on=ROUTE, at=NAME_SERVER, times=None)
        yield frame(topic=["new"])

    with pytest.raises(WriteError, match=rf"\[SINK_WRITE\] partition 0: rows from row 3 on .*{code.name}") as caught:
        target.write(frames(), {**NAMED, **DROP})
    assert (caught.value.landed, caught.value.failed, caught.value.unknown) == (3, 1, 0)


# --- batch consume queues ---------------------------------------------------------------------------------------------


def test_batch_consume_queues_are_written(target: Target) -> None:
    """A topic with batch consume queues takes batches, as real brokers do, and no broker is asked for its kind."""
    create(target, TopicConfig(topic_name="packed", attributes={"queue.type": "BatchCQ"}))
    report = target.write(rows(100), {"topic": "packed"})
    assert report.requests < 100 and len(target.bodies("packed")) == 100


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


def test_a_queue_beyond_the_last_one_is_a_fault_of_its_row(make_target: MakeTarget) -> None:
    """A queue that a registered broker does not have makes its row bad, though it was not listed either."""
    target = make_target(2)
    rows = frame(queueId=pa.array([1, 99], pa.int32()), brokerName=["broker-a", "broker-b"])
    report = target.write(rows, {"onBadRow": "drop"})
    assert (report.dropped, len(target.records())) == (1, 1)
