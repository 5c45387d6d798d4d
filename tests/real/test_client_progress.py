"""Test that the official command line shows the progress of our members and resets them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

from pyspark_rocketmq.model import Message, MessageQueue
from tests.real.java_clients import eventually
from tests.real.our_clients import Log, Ours, committed
from tests.real.servers import RealCluster
from tests.real.worlds import real_world

pytestmark = pytest.mark.real

QUEUES = 4


@pytest.fixture
def ours(real_cluster: RealCluster, unique: str) -> Iterator[Ours]:
    """Our clients, connected to a real broker, with eight messages in a topic."""
    real_cluster.create_topic(unique, queues=QUEUES)
    ours = Ours(real_cluster.name_server, unique, real_world(real_cluster).settings)
    producer = ours.producer()
    for number in range(8):
        producer.send(Message(unique, b"%d" % number), MessageQueue(unique, "broker-a", number % QUEUES))
    yield ours
    ours.close()


def parse_progress(printed: str, topic: str) -> Mapping[int, tuple[int, int]]:
    """Parse the output of `consumerProgress`; return {queue id: (end of the queue, committed offset)} of a topic."""
    rows = [line.split() for line in printed.splitlines() if line.startswith(topic)]
    return {int(queue_id): (int(broker), int(group)) for _, _, queue_id, broker, group, *_ in rows}


def test_the_progress_of_a_member(real_cluster: RealCluster, ours: Ours, unique: str) -> None:
    """`consumerProgress -g GROUP` prints the offsets that our member has committed."""
    log, cluster = Log(), ours.cluster()
    ours.member(unique, log)
    eventually(lambda: committed(ours, cluster, unique) == 8, "everything is committed")
    printed = real_cluster.admin("consumerProgress", "-g", unique)

    assert parse_progress(printed, unique) == dict.fromkeys(range(QUEUES), (2, 2))
    assert "Consume TPS" in printed


def test_the_progress_of_a_group_without_members(real_cluster: RealCluster, ours: Ours, unique: str) -> None:
    """If a group has no members, an admin request returns its offsets, and 5.x prints them in `consumerProgress`."""
    cluster = ours.cluster()
    queues = cluster.routes.route(unique).readable
    ours.member(unique, Log()).close()
    cluster.offsets.commit(unique, dict.fromkeys(queues, 1))

    stats = cluster.admin.fetch_consume_stats(unique, unique)
    assert {queue: at.consumer_offset for queue, at in stats.items()} == dict.fromkeys(queues, 1)
    if real_cluster.site.release.can_bind:
        printed = real_cluster.admin("consumerProgress", "-g", unique, "-t", unique)
        assert parse_progress(printed, unique) == dict.fromkeys(range(QUEUES), (2, 1))


def test_a_reset_is_obeyed(real_cluster: RealCluster, ours: Ours, unique: str) -> None:
    """After `resetOffsetByTime` to the beginning our member gets every message again and commits it."""
    log, cluster = Log(), ours.cluster()
    ours.member(unique, log)
    eventually(lambda: committed(ours, cluster, unique) == 8, "everything is committed")
    real_cluster.admin("resetOffsetByTime", "-g", unique, "-t", unique, "-s", "0")

    eventually(lambda: len(log.bodies) >= 16, "every message is delivered again")
    eventually(lambda: committed(ours, cluster, unique) == 8, "and is committed again")
