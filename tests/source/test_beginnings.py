"""Check where queries start: at the first readable message, at the first message of a new queue, before any retry.

A range has an open front if messages that are gone at its start are no loss.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from broker_stub import StubBroker, StubCluster
from pyspark_rocketmq.errors import NoBrokerAvailable
from pyspark_rocketmq.model import MessageQueue, QueueRange, retry_topic
from pyspark_rocketmq.net.deadline import Deadline
from pyspark_rocketmq.options import ReaderOptions
from pyspark_rocketmq.source.batch import BatchReader
from pyspark_rocketmq.source.beginnings import Beginnings
from pyspark_rocketmq.wire.bodies import TopicConfig
from pyspark_rocketmq.wire.codes import RequestCode
from tests.source.driving import (
    GROUP,
    TOPIC,
    Checkpoint,
    Run,
    admin_of,
    batch_options_for,
    options_for,
    queue_of,
    quick_run,
    read_batch,
    store_offsets,
    wait_for,
)

COUNT = 40
RETRY = retry_topic(GROUP)


@pytest.fixture
def stub() -> Iterator[StubBroker]:
    """One broker with a topic of two queues, which hold 40 messages each."""
    with StubBroker({TOPIC: 2}) as broker:
        broker.fill(TOPIC, 2 * COUNT, 4)
        yield broker


def shared(stub: StubCluster, **given: str) -> ReaderOptions:
    """Return options of a query that is a member of its group and starts at the end of queues without a position."""
    member = {"groupMembership": "shared", "startingOffsets": "group", "rebalanceInterval": "1s"}
    return options_for(stub, **{"consumerGroup": GROUP, "startingOffsetsDefault": "latest", **member, **given})


def lose_log(stub: StubBroker, offset: int) -> None:
    """Remove the messages before `offset` of queue 0 from the commit log, but not from the consume queue.

    The broker still reports the old minimum, whose message can no longer be pulled.
    """

    def lose() -> None:
        store = stub.state.brokers[0].store
        store.log.min_offset = store.queue(TOPIC, 0).physical[offset]

    stub.run(lose)


def add_queue(stub: StubCluster, count: int) -> MessageQueue:
    """Give the topic a third queue with `count` messages, and return the queue."""
    config = TopicConfig(topic_name=TOPIC, read_queue_nums=3, write_queue_nums=3, perm=6)
    admin_of(stub).admin.create_topic(config, ("broker-a",))
    for _ in range(count):
        stub.put(TOPIC, b"new", queue_id=2)
    return queue_of(2)


# --- earliest --------------------------------------------------------------------------------------------------------


def test_earliest_begins_at_what_can_be_read(stub: StubBroker) -> None:
    """If the broker reports a minimum whose message is gone, `earliest` starts at the first readable message."""
    lose_log(stub, 30)
    with quick_run(options_for(stub)) as run:
        assert run.plan()
        ranges = [each for task in run.partitions() for each in task.ranges]
        assert sorted(ranges) == [QueueRange(queue_of(0), 30, COUNT, True), QueueRange(queue_of(1), 0, COUNT, True)]
        assert run.checkpoint.last["open"] == {TOPIC: {"broker-a": {"0": 30, "1": 0}}}
        assert len(run.read()) == 10 + COUNT


def test_a_batch_read_begins_at_what_can_be_read(stub: StubBroker) -> None:
    """A batch read from `earliest` starts at the first readable message; one from a given offset starts there."""
    lose_log(stub, 30)
    assert len(read_batch(batch_options_for(stub))) == 10 + COUNT
    given = batch_options_for(stub, startingOffsets='{"orders":{"*":{"*":35}}}')
    ranges = [each for task in BatchReader(given).partitions() for each in task.ranges]
    assert {(each.start, each.is_front_open) for each in ranges} == {(35, False)}


def test_no_replica_tells_where_a_query_begins() -> None:
    """If only a replica is up, a query cannot start, since the replica's minimum may be larger than the master's."""
    with StubCluster(1, slaves=1, topics={TOPIC: 1}) as stub:
        for _ in range(COUNT):
            stub.put(TOPIC, b"x", queue_id=0)
        stub.expire(TOPIC, 0, 30)
        stub.faults.broker_down(broker_id=0)
        for given in ({}, {"startingTimestamp": "1000"}, {"failOnDataLoss": "false"}):
            with pytest.raises(NoBrokerAvailable, match=r"a replica begins at 30.*bring the master back"):
                read_batch(batch_options_for(stub, **given))
        with quick_run(options_for(stub)) as run:
            with pytest.raises(NoBrokerAvailable, match="first message is not known"):
                run.trigger()
            stub.faults.broker_up(broker_id=0)
            assert len(run.drain()) == 10


def test_a_new_queue_waits_for_a_master_to_tell_where_it_begins(caplog: pytest.LogCaptureFixture) -> None:
    """A new queue whose master is away waits, with one warning, while the other queues are read."""
    with StubCluster(2, slaves=1, topics={TOPIC: 1}) as stub, quick_run(options_for(stub)) as run:
        stub.put(TOPIC, b"old", queue_id=0)
        run.drain()
        add_queue(stub, 5)
        stub.expire(TOPIC, 2, 3)
        stub.faults.broker_down(broker_id=0)
        assert not run.trigger() and not run.trigger()
        assert caplog.text.count("is new and waits for its master: a replica begins at 3") == 1
        stub.faults.broker_up(broker_id=0)
        assert [row.offset for row in run.drain() if row.queue == queue_of(2)] == [3, 4]


def test_a_replayed_first_batch_is_still_open(stub: StubBroker) -> None:
    """If the first batch is replayed, its ranges still have open fronts; those of the next batch have none."""
    checkpoint = Checkpoint()
    with quick_run(options_for(stub), checkpoint) as killed:
        killed.plan()
    with quick_run(options_for(stub), checkpoint) as run:
        assert all(each.is_front_open for task in run.partitions() for each in task.ranges)
        run.trigger()
        stub.fill(TOPIC, 2, 4)
        assert run.plan()
        assert not any(each.is_front_open for task in run.partitions() for each in task.ranges)


def test_what_is_not_begun_yet_loses_nothing_at_its_front(stub: StubBroker) -> None:
    """If messages expire before a queue's first batch, the queue is read from its current minimum, without a loss."""
    with quick_run(options_for(stub, minOffsetsPerTrigger="100")) as run:
        assert run.trigger() == []
        stub.expire(TOPIC, 0, 25)
        stub.fill(TOPIC, 60, 4)
        assert min(row.offset for row in run.read_until(60 + 15 + COUNT) if row.queue == queue_of(0)) == 25


def test_the_first_readable_message_is_looked_for_once(stub: StubBroker) -> None:
    """The first planning sends one pull per queue to find the first message; a restart with a checkpoint sends none."""
    pulls = stub.faults.delay(0, on=RequestCode.PULL_MESSAGE, times=None)
    checkpoint = Checkpoint()
    with quick_run(options_for(stub), checkpoint) as run:
        run.plan()
        assert pulls.fired == 2
    with quick_run(options_for(stub), checkpoint) as run:
        run.partitions()
        run.reader.latestOffset(json.loads(checkpoint.offsets[-1]), run.reader.getDefaultReadLimit())
    assert pulls.fired == 2


# --- the retry topic -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("word", ["earliest", "latest"])
def test_a_member_leaves_no_retry_out(stub: StubBroker, word: str) -> None:
    """A member reads all messages of its retry topic, whatever `startingOffsetsDefault` says."""
    stub.put(RETRY, b"again")
    with quick_run(shared(stub, startingOffsetsDefault=word)) as run:
        rows = run.read_until(1 + 2 * COUNT * (word == "earliest"))
        assert [row.body for row in rows if row.queue.topic == RETRY] == [b"again"]


@pytest.mark.parametrize("given", [{"startingOffsets": "latest"}, {"startingTimestamp": "2100-01-01T00:00:00Z"}])
def test_no_query_leaves_a_retry_out(stub: StubBroker, given: dict[str, str]) -> None:
    """A query that starts its own topics at the end still reads the retry topic from its first message."""
    stub.put(RETRY, b"again")
    late = {"startingOffsetsByTimestampStrategy": "latest"} if "startingTimestamp" in given else {}
    options = options_for(stub, consumerGroup=GROUP, readRetryTopic="true", **given, **late)
    with quick_run(options, available_now=True) as run:
        assert [row.body for row in run.drain()] == [b"again"]


def test_retries_that_the_group_has_read_are_not_read_again(stub: StubBroker) -> None:
    """A query that starts at `latest` reads the retry topic from the group's position, if there is one."""
    stub.put(RETRY, b"done")
    stub.put(RETRY, b"again")
    store_offsets(stub, {MessageQueue(RETRY, "broker-a", 0): 1})
    options = options_for(stub, consumerGroup=GROUP, readRetryTopic="true", startingOffsets="latest")
    with quick_run(options, available_now=True) as run:
        assert [row.body for row in run.drain()] == [b"again"]


# --- new queues of a group -------------------------------------------------------------------------------------------


def test_a_queue_that_appears_is_read_from_its_first_message(stub: StubBroker) -> None:
    """A member that starts at the end reads a queue that is added later from its first message."""
    with quick_run(shared(stub)) as run:
        assert run.trigger() == []
        new = add_queue(stub, 5)
        assert [(row.queue, row.offset) for row in run.read_until(5)] == [(new, offset) for offset in range(5)]


def test_a_restart_is_no_joining(stub: StubBroker) -> None:
    """A queue that is added while a member is down is read from its first message after the restart."""
    checkpoint = Checkpoint()
    with quick_run(shared(stub), checkpoint) as run:
        run.trigger()
    new = add_queue(stub, 5)
    with quick_run(shared(stub), checkpoint) as run:
        assert [(row.queue, row.offset) for row in run.read_until(5)] == [(new, offset) for offset in range(5)]


def test_a_member_that_gains_a_queue_later_begins_where_it_joined(stub: StubBroker) -> None:
    """If the last owner of a queue committed nothing, the new owner reads from the end at the time when it joined."""
    stub.faults.answer(1, on=RequestCode.UPDATE_CONSUMER_OFFSET, times=None)
    with quick_run(shared(stub, instanceName="b")) as stays:
        with quick_run(shared(stub, instanceName="a")) as leaves:
            runs = (stays, leaves)
            wait_for(
                lambda: not any(each.trigger() for each in runs) and has_one_queue_each(*runs), "each has its share"
            )
            [lost] = mine(leaves)
            stub.put(TOPIC, b"between", queue_id=lost.queue_id)
        assert [(row.queue, row.body) for row in stays.read_until(1)] == [(lost, b"between")]


def test_a_member_that_joins_later_reads_a_new_queue_from_its_first_message(stub: StubBroker) -> None:
    """If a queue was added after the group's first member joined, a later member reads it from its first message."""
    lists = {"allocateMessageQueueStrategy": "CONFIG"}
    with quick_run(shared(stub, messageQueueList='[{"orders": {"broker-a": [0, 1]}}]', **lists)) as old:
        old.trigger()
        wait_for(lambda: len(stub.groups().get(GROUP, ())) == 1, "the first member is known")
        new = add_queue(stub, 5)
        with quick_run(shared(stub, messageQueueList='[{"orders": {"broker-a": [1, 2]}}]', **lists)) as run:
            rows = run.read_until(5)
            assert {row.queue for row in rows} == {new} and len(rows) == 5


def test_members_that_join_together_read_what_comes_from_now_on(stub: StubBroker) -> None:
    """Two members that start together at the end read only messages that are stored after they joined."""
    with quick_run(shared(stub, instanceName="a")) as first, quick_run(shared(stub, instanceName="b")) as second:
        runs = (first, second)
        wait_for(lambda: not any(each.trigger() for each in runs) and has_one_queue_each(*runs), "each has its share")
        stub.put(TOPIC, b"now", queue_id=0)
        [owner] = [each for each in runs if queue_of(0) in mine(each)]
        assert [row.body for row in owner.read_until(1)] == [b"now"]


def test_a_member_that_tells_no_time_of_its_start_is_passed_over() -> None:
    """If a member reports a start time of thousands of digits, its start time counts as unknown."""
    told = SimpleNamespace(properties={"PROP_CONSUMER_START_TIMESTAMP": "9" * 5000})
    cluster = SimpleNamespace(admin=SimpleNamespace(fetch_running_info=lambda *_, **__: told))
    beginnings = Beginnings(cast(Any, cluster), cast(Any, None), cast(Any, None), GROUP, "me")
    assert beginnings._start_ms("other", Deadline.after(1.0)) is None


def test_a_member_is_named_on_one_line(caplog: pytest.LogCaptureFixture) -> None:
    """If a member does not report its start, the log shows its client id shortened and without control characters."""
    caplog.set_level("INFO")

    def refuse(*_: object, **__: object) -> None:
        raise NoBrokerAvailable("gone")

    cluster = SimpleNamespace(admin=SimpleNamespace(fetch_running_info=refuse))
    beginnings = Beginnings(cast(Any, cluster), cast(Any, None), cast(Any, None), GROUP, "me")
    assert beginnings._start_ms("x\n\x1b[31m" + "y" * 10_000, Deadline.after(1.0)) is None
    [message] = caplog.messages
    assert message.startswith(r"member x\n\x1b[31myyy") and message.isprintable() and len(message) < 500


def has_one_queue_each(*runs: Run) -> bool:
    """Return whether each query's newest offset names exactly one queue of the topic."""
    return all(len(mine(each)) == 1 for each in runs)


def mine(run: Run) -> set[MessageQueue]:
    """Return the queues of the topic that the query's newest planned offset names."""
    if not run.checkpoint.offsets:
        return set()
    ids = run.checkpoint.last["next"].get(TOPIC, {}).get("broker-a", {})
    return {queue_of(int(number)) for number in ids}
