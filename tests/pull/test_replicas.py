"""Test that a range is read from a replica only if the replica has the master's messages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from pyspark_rocketmq.cluster.routes import BrokerEndpoints
from pyspark_rocketmq.pull.port import PullOutcome, PullStatus
from pyspark_rocketmq.pull.replicas import Comparison, ReplicaCheck
from pyspark_rocketmq.pull.settings import Subscription
from pyspark_rocketmq.wire.header import Command
from pyspark_rocketmq.wire.record import decode_records
from tests.cluster.scripted import ScriptedLinks

from .scripted_queue import (
    MASTER,
    ONE_FILTER,
    QUEUE,
    REPLICA,
    Reading,
    ScriptedQueue,
    brokers_of,
    record_at,
    topic_config,
)

END = 240
WHOLE = ScriptedQueue(END, lambda offset: offset % 2 == 0, suggests=1)
"""A queue whose broker process suggests the replica with each response."""
OLD = replace(WHOLE, log_start=7)
"""The queue at a replica that kept the messages of a deleted topic."""
COMPACTED = topic_config(cleanup_policy="COMPACTION")
BOTH = pytest.mark.parametrize("subscription", [Subscription(), ONE_FILTER], ids=["whole", "filtered"])


def read_by_suggestion(
    replica: ScriptedQueue,
    subscription: Subscription = ONE_FILTER,
    config: Command | None = None,
    fails: Callable[[object], bool] = lambda _: False,
) -> Reading:
    """Read the whole queue where responses suggest; pulls for which `fails` returns True are lost."""
    reading = Reading({MASTER: replace(WHOLE), REPLICA: replica}, subscription=subscription, config=config)
    while not reading.reader.is_finished:
        reading.now += 0.05
        reading.send()
        while reading.in_flight:
            (reading.lose if fails(reading.in_flight[0][1]) else reading.deliver)(0)
    return reading


def log_starts(reading: Reading) -> set[int]:
    """Return the `log_start` of each broker process from which messages were read."""
    records = [record for block in reading.blocks for record in decode_records(block.data)]
    return {record.physical_offset - 1000 * record.queue_offset for record in records}


@BOTH
def test_old_messages_of_a_replica_are_not_read(subscription: Subscription, caplog: pytest.LogCaptureFixture) -> None:
    """If a replica has other messages than the master, the range is read from the master, and one warning says why."""
    old = replace(OLD)
    reading = read_by_suggestion(old, subscription)

    assert log_starts(reading) == {0} and old.pull_count == 1 and not reading.told.losses
    assert caplog.text.count("reading from the master") == 1
    assert all(str(each.address) in caplog.text for each in (MASTER, REPLICA))


@BOTH
def test_a_replica_with_the_same_messages_is_read(subscription: Subscription) -> None:
    """If the master suggests a replica that has its messages, further pulls of the range go there, without a pause."""
    good = replace(WHOLE)
    reading = read_by_suggestion(good, subscription)

    assert log_starts(reading) == {0} and good.pull_count > 10
    assert 2 < reading.queues[MASTER].pull_count < 15


def test_a_replica_without_the_message_is_not_read() -> None:
    """If the replica does not have the message that is compared, as when it lags, the range is read from the master."""
    replica = replace(WHOLE, gone=60)
    reading = read_by_suggestion(replica)

    assert replica.pull_count == 1 and not reading.told.losses


def test_a_comparison_that_fails_leaves_the_range_at_the_master() -> None:
    """If a pull of the comparison gets no response, the range is read from the master, without a pause."""
    good = replace(WHOLE)
    reading = read_by_suggestion(good, fails=lambda request: isinstance(request, Comparison))

    assert good.pull_count == 0 and reading.reader.resume_at <= reading.now


def test_compacted_messages_may_differ() -> None:
    """If the topic is compacted, different messages at one offset are no sign of a deleted topic."""
    assert log_starts(read_by_suggestion(replace(OLD), config=COMPACTED)) == {0, 7}


def found(physical_offset: int | None) -> PullOutcome:
    """Return the outcome of a pull at offset 5 that found the message at this commit-log offset, or none."""
    body = b"" if physical_offset is None else record_at(5, physical_offset)
    return PullOutcome(PullStatus.FOUND, 6, 0, 10, 0, memoryview(body))


@pytest.mark.parametrize(
    ("copy", "original", "is_read"), [(500, 500, True), (500, 501, False), (500, None, True), (None, 500, False)]
)
@pytest.mark.parametrize("order", [1, -1])
def test_the_order_of_the_outcomes_has_no_effect(
    copy: int | None, original: int | None, is_read: bool, order: int
) -> None:
    """A replica is read if it has the message and the master has the same or none; either may answer first."""
    check = ReplicaCheck(QUEUE, brokers_of({}, ScriptedLinks()))
    broker = BrokerEndpoints("broker-a", "c", (MASTER, REPLICA))
    assert check.choose(REPLICA, broker, 5) == MASTER
    assert list(check.due) == [REPLICA, MASTER]
    requests = [check.take_request(), check.take_request()]
    assert not check.due
    for endpoint, physical_offset in [(REPLICA, copy), (MASTER, original)][::order]:
        assert check.choose(REPLICA, broker, 5) == MASTER
        check.accept(requests.pop(), endpoint, found(physical_offset))

    assert check.choose(REPLICA, broker, 9) == (REPLICA if is_read else MASTER) and not check.due


def test_without_a_master_nothing_is_compared() -> None:
    """If the route names no master, a replica is read as it is."""
    check = ReplicaCheck(QUEUE, brokers_of({}, ScriptedLinks()))

    assert check.choose(REPLICA, BrokerEndpoints("broker-a", "c", (REPLICA,)), 5) == REPLICA and not check.due
