"""Test on real brokers what operators do: look at a query with RocketMQ's own tools, and replay dead letters."""

from __future__ import annotations

import json
import random
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pytest

from pyspark_rocketmq.cli.exits import Exit
from pyspark_rocketmq.client.range_reading import read_queue_ranges
from pyspark_rocketmq.cluster.cluster import open_cluster
from pyspark_rocketmq.cluster.signing import Credentials
from pyspark_rocketmq.errors import BrokerError
from pyspark_rocketmq.model import MessageQueue, QueueRange, retry_topic
from pyspark_rocketmq.pull.settings import PullSettings
from pyspark_rocketmq.source.commit import GroupCheck, OffsetWriter
from pyspark_rocketmq.wire.bodies import SubscriptionGroupConfig
from pyspark_rocketmq.wire.message_id import decode_offset_message_id
from tests.cli.fixtures import PROGRAM, ROOT, SECONDS, RunCommand
from tests.flows.world import World, fresh, sending, until
from tests.real.servers import CLUSTER_NAME, AdminFailed, RealCluster
from tests.real.test_cli import Shell, progress
from tests.real.worlds import real_world

pytestmark = pytest.mark.real

LETTERS, KILLS = 200, 4
READER, READER_SECRET = "spark-reader", "12345678"


def test_consumer_progress_shows_a_query(real_cluster: RealCluster) -> None:
    """After a query's first commit `mqadmin consumerProgress -g GROUP` shows its positions; before, it fails."""
    world, group = real_world(real_cluster), fresh("query")
    queues = world.make_topic(2)
    for queue in queues:
        world.fill(queue, 5)
    with pytest.raises(AdminFailed, match="CODE: 17"):
        real_cluster.admin("consumerProgress", "-g", group)
    writer = OffsetWriter(world.cluster, group, GroupCheck(world.cluster, group))

    assert writer.commit({queues[0]: 2, queues[1]: 5}) == []

    until(lambda: bool(world.route_names(retry_topic(group))), "the retry topic is routed")
    shown = progress(real_cluster.admin("consumerProgress", "-g", group), queues[0].topic)
    assert shown == {0: [5, 2, 3], 1: [5, 5, 0]}
    assert not world.cluster.groups.fetch_members(group, queues[0].topic)


def test_no_rights_of_an_administrator_are_needed(real_acl: RealCluster) -> None:
    """A user who may only consume gets the group's retry topic, too."""
    world, group = real_world(real_acl), fresh("query")
    [queue] = world.make_topic(1)
    world.fill(queue, 5)
    world.cluster.admin.create_group(SubscriptionGroupConfig(group_name=group))
    make_reader(real_acl, queue.topic, group)
    cluster = open_cluster(replace(world.settings, credentials=Credentials(READER, READER_SECRET)))
    writer = OffsetWriter(cluster, group, GroupCheck(cluster, group))

    until(lambda: writer.commit({queue: 2}) == [], "the user may commit")

    until(lambda: bool(world.route_names(retry_topic(group))), "the retry topic is routed")


def make_reader(cluster: RealCluster, topic: str, group: str) -> None:
    """Create a user who may read a topic for a group, and nothing else."""
    if cluster.version.startswith("4."):
        account = ("-c", CLUSTER_NAME, "-a", READER, "-s", READER_SECRET)
        cluster.admin("updateAclConfig", *account, "-t", f"{topic}=SUB", "-g", f"{group}=SUB")
    else:
        cluster.admin("createUser", "-c", CLUSTER_NAME, "-u", READER, "-p", READER_SECRET)
        rights = ("-r", f"Topic:{topic},Group:{group}", "-a", "Sub", "-d", "Allow")
        cluster.admin("createAcl", "-c", CLUSTER_NAME, "-s", f"User:{READER}", *rights)


def test_a_replay_that_is_killed_goes_on(real_cluster: RealCluster, tmp_path: Path) -> None:
    """Dead letters that a broker made are replayed by a process that is killed again and again: each lands."""
    world, group = real_world(real_cluster), fresh("group")
    queue = world.make_queue()
    audit, chance = tmp_path / "audit.jsonl", random.Random(1)
    ids = bury(world, group, queue)
    for _ in range(KILLS):
        goal = end_of(world, queue) + chance.randrange(1, 40)
        process = begin_replay(world, group, audit)
        until(lambda goal=goal: end_of(world, queue) >= goal, "letters arrive")  # type: ignore[misc]
        time.sleep(chance.random() / 20)
        process.kill()
        process.communicate(timeout=SECONDS)
    last = begin_replay(world, group, audit)
    out, said = last.communicate(timeout=SECONDS)

    assert last.returncode == 0, said
    found = stored_ids(world, queue)
    landed = [each for each in map(json.loads, audit.read_text().splitlines()) if each["event"] == "landed"]
    assert set(found) == set(ids)
    assert sorted(each["offset"] for each in landed) == list(range(LETTERS))
    assert all(ids[each["offset"]] == each["id"] for each in landed)
    assert json.loads(out)["sentBefore"] > 0


def test_dead_letters_are_listed_and_read(run_command: RunCommand, real_cluster: RealCluster) -> None:
    """Dead letters that a broker made have their message's id and topic, and the count of its deliveries."""
    world, shell = real_world(real_cluster), Shell(run_command, real_cluster)
    queue, group = world.make_queue(), world.make_group()
    [name] = bury(world, group, queue, 1)
    until(lambda: shell.document("dlq", "list", group)["letterCount"] == 1, "the broker has made the letter")

    [listed] = shell.document("dlq", "list", group)["letters"]
    [read] = shell.document("dlq", "read", group)["letters"]
    shown = shell.document("dlq", "replay", group, code=Exit.NEEDS_APPLY)

    assert (listed["messageId"], listed["origin"], listed["cause"], listed["count"]) == (name, queue.topic, None, 1)
    assert (read["letter"], read["message"]["body"]) == (listed, "letter")
    assert shown["targets"] == [{"topic": queue.topic, "letters": 1}]


def begin_replay(world: World, group: str, audit: Path) -> subprocess.Popen[str]:
    """Begin a replay in a process of its own, slow enough to be killed on its way."""
    words = ["dlq", "replay", group, "--apply", "--audit", str(audit), "--rate", "60", "--json"]
    patient = ["--name-server", world.name_server, "-o", "connectTimeoutMillis=10s", "-o", "mqClientApiTimeout=10s"]
    command = [*PROGRAM, *words, *patient]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def bury(world: World, group: str, queue: MessageQueue, count: int = LETTERS) -> list[str]:
    """Store messages and send them back as dead letters, as a consumer does; return their ids."""
    ids = [f"{fresh('letter')}" for _ in range(count)]
    for name in ids:
        receipt = world.store(sending(queue, b"letter", {"UNIQ_KEY": name}))
        place = decode_offset_message_id(receipt.message_id).physical_offset
        until(lambda place=place: send_back(world, group, queue, place), "the broker has stored the letter")  # type: ignore[misc]
    return ids


def send_back(world: World, group: str, queue: MessageQueue, place: int) -> bool:
    """Make a dead letter; return whether the broker took it."""
    try:
        world.cluster.messages.send_back(group, queue, place, delay_level=-1)
    except BrokerError:
        return False
    return True


def end_of(world: World, queue: MessageQueue) -> int:
    """Return the end of a queue."""
    return world.cluster.offsets.fetch_max([queue])[queue]


def stored_ids(world: World, queue: MessageQueue) -> list[str]:
    """Return the ids of the messages in a queue that came after the first ones."""
    wanted = QueueRange(queue, LETTERS, end_of(world, queue))
    return [each.message_id for each in read_queue_ranges(world.cluster, [wanted], PullSettings(), print)]
