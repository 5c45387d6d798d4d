"""Test reads of a queue whose messages retention deletes, while the broker's minimum offset is still too low."""

from __future__ import annotations

import json
import logging

import pytest

from pyspark_rocketmq.errors import DataLossError, OptionError
from pyspark_rocketmq.lag.figures import Figure, QueueLag
from pyspark_rocketmq.lag.measure import measure_group
from pyspark_rocketmq.model import MessageQueue
from pyspark_rocketmq.offsets.loss import LossWarning
from tests.flows.world import World, now_ms, sending, until
from tests.real.fixtures import ClusterKeeper, both_profiles
from tests.real.servers import QUICK, Broker, RealCluster, wait_until
from tests.real.worlds import real_world
from tests.source.driving import Row, batch_options_for, read_batch

pytestmark = [pytest.mark.real, both_profiles]

LAGGING_MINIMUM = {"mappedFileSizeCommitLog": "1048576", "fileReservedTime": "0", "cleanResourceInterval": "10000"}
"""Broker options with which messages are deleted up to ten seconds before the minimum offset rises."""
COUNT, BATCH, SIZE = 6_000, 100, 1_800
COMPACTING = {"compactionScheduleInternal": "5000", "compactionMappedFileSize": "1048576"}
COMPACTING |= {"compactionCqMappedFileSize": "65536", "maxOffsetMapSize": "10485760"}
COMPACTED = 3_000
DELETE_EXPIRED_COMMITLOG = 329
FILTERS = [{}, {"tags": "TagA"}]


@pytest.fixture
def cluster(real_clusters: ClusterKeeper) -> RealCluster:
    """A broker with small files, whose retention deletes all but the newest when it is asked to."""
    return real_clusters.cluster(options=LAGGING_MINIMUM)


def fill(world: World) -> MessageQueue:
    """Make a queue of 11 MB, in which every other batch of 100 messages has the tag TagA; return the queue."""
    queue = world.make_queue()
    for number in range(COUNT // BATCH):
        world.fill(queue, BATCH, size=SIZE, TAGS="TagA" if number % 2 else "TagB")
    return queue


def delete_log_files(broker: Broker, queue: MessageQueue) -> int:
    """Wait until retention has deleted most log files; return the minimum offset, which may still be too low."""

    def are_deleted() -> bool:
        if len(list((broker.home / "store/commitlog").iterdir())) > 3:
            broker.ask(DELETE_EXPIRED_COMMITLOG)
            return False
        return True

    wait_until(are_deleted, "the log's files are deleted", 150)
    return broker.min_offset(queue.topic, queue.queue_id)


def read(cluster: RealCluster, queue: MessageQueue, planned: range, **given: str) -> list[Row]:
    """Return the rows of a batch read of these offsets of the queue."""
    limits = {"startingOffsets": planned.start, "endingOffsets": planned.stop}
    bounds = {name: json.dumps({queue.topic: {queue.broker_name: {"0": at}}}) for name, at in limits.items()}
    return read_batch(batch_options_for(cluster, subscribe=queue.topic, **bounds, **given))


@pytest.mark.parametrize("given", FILTERS, ids=["unfiltered", "tags"])
def test_messages_that_retention_takes_before_the_minimum_moves_are_a_loss(
    cluster: RealCluster, given: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    """If planned messages are deleted, a read fails; with `failOnDataLoss=false` it warns and goes on."""
    queue = fill(real_world(cluster))
    minimum = delete_log_files(cluster.broker, queue)
    planned = range(min(minimum, 1_000), COUNT)  # 4.9 raises the minimum at once, so the driver reports the loss.

    with pytest.raises(DataLossError):
        read(cluster, queue, planned, **given)
    with caplog.at_level(logging.WARNING):
        rows = read(cluster, queue, planned, **given, failOnDataLoss="false")
    assert 0 < len(rows) < COUNT // 2 and str(queue) in caplog.text
    missing = set(planned) - {row.offset for row in rows}
    if given:
        missing = {offset for offset in missing if offset // BATCH % 2}
    assert missing <= warned_offsets(caplog)


@pytest.mark.profiles(QUICK)
def test_the_time_to_retention_is_over_when_messages_go(cluster: RealCluster) -> None:
    """Lag says how long the next message is kept; that is 0 once it may go, and when it went, it counts as gone.

    Seconds are those of the first message that is left.
    """
    world = real_world(cluster)
    admin, offsets, name = world.cluster.admin, world.cluster.offsets, cluster.broker.broker_name
    admin.update_broker_config(name, {"fileReservedTime": "72", "cleanFileForciblyEnable": "false"})
    queue, group = fill(world), world.make_group()
    offsets.commit(group, {queue: 0})

    def measure() -> QueueLag:
        [lag] = measure_group(world.cluster, group, now_ms=now_ms()).queues
        return lag

    kept = measure().retention_seconds
    admin.update_broker_config(name, {"fileReservedTime": "0"})
    due = measure()
    delete_log_files(cluster.broker, queue)
    admin.update_broker_config(name, {"fileReservedTime": "72"})
    # While the minimum is still too low, the broker knows no time of the message there.
    until(lambda: measure().gone.value and offsets.fetch_earliest_times([queue]), "the minimum rises to a message")

    lag = measure()
    [stored_ms] = offsets.fetch_earliest_times([queue]).values()
    assert 72 * 3600 - 300 < (kept.value or 0) <= 72 * 3600
    assert due.retention_seconds == lag.retention_seconds == Figure(0)
    assert (lag.messages, lag.gone) == (Figure(COUNT), Figure(cluster.broker.min_offset(queue.topic, queue.queue_id)))
    assert abs((lag.seconds.value or 0) - (now_ms() - stored_ms) / 1000) < 1


def warned_offsets(caplog: pytest.LogCaptureFixture) -> set[int]:
    """Return all offsets that logged warnings report as lost."""
    args = [arg for record in caplog.records for arg in record.args or ()]
    return {offset for arg in args if isinstance(arg, LossWarning) for offset in range(arg.planned, arg.found)}


@pytest.fixture
def compacting(real_clusters: ClusterKeeper) -> RealCluster:
    """A broker that compacts topics within seconds; skips on 4.9, which cannot."""
    if real_clusters.version.startswith("4."):
        pytest.skip("compacted topics came with 5.0")
    return real_clusters.cluster(options=COMPACTING)


def test_what_compaction_has_removed_is_no_loss(compacting: RealCluster) -> None:
    """The gaps of a compacted topic are no loss, and the messages between them are read."""
    world = real_world(compacting)
    queue = world.make_queue(attributes={"cleanup.policy": "COMPACTION"})
    for number in range(COMPACTED):
        world.cluster.messages.send(sending(queue, b"." * SIZE, {"KEYS": f"k{number % 50}"}))
    until(lambda: world.pull(queue, 0, count=1).next_offset > 1, "the first messages are compacted away")

    rows = [row.offset for row in read(compacting, queue, range(COMPACTED))]

    assert rows[0] > 0 and rows[-1] == COMPACTED - 1 and rows == sorted(set(rows))
    assert read(compacting, queue, range(COMPACTED)) == read(compacting, queue, range(COMPACTED), tags="*")


def test_a_compacted_topic_is_filtered_by_tags_alone(compacting: RealCluster) -> None:
    """In a compacted topic the reader filters by tags itself, since the broker filters nothing; SQL92 is refused."""
    world = real_world(compacting)
    queue = world.make_queue(attributes={"cleanup.policy": "COMPACTION"})
    for number in range(20):
        properties = {"KEYS": f"k{number}", "TAGS": "TagA" if number % 2 else "TagB", "weight": str(number)}
        world.cluster.messages.send(sending(queue, b".", properties))
    world.await_messages(queue, 20)

    assert [row.offset for row in read(compacting, queue, range(20), tags="TagA")] == [*range(1, 20, 2)]
    assert len(world.read(queue, expression="weight > 7", expression_type="SQL92")) == 20
    with pytest.raises(OptionError, match=queue.topic) as caught:
        read(compacting, queue, range(20), sqlFilter="weight > 7")
    assert caught.value.option == "sqlFilter"
