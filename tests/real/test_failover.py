"""Run the scenarios that need several servers on real ones; test name servers and brokers that are killed."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from pyspark_rocketmq.errors import ConnectError
from pyspark_rocketmq.pull.remoting import pull_one
from pyspark_rocketmq.pull.settings import PullSettings
from pyspark_rocketmq.wire.bodies import SubscriptionGroupConfig, TopicConfig
from pyspark_rocketmq.wire.record import decode_records
from tests.flows.reading import offsets_of, read_all, whole
from tests.flows.scenarios import MASTER_SLAVE, REPLICA_READS, TWO_BROKERS, Scenario, each_of
from tests.flows.world import World, fresh, until
from tests.real.fixtures import both_profiles
from tests.real.servers import Broker, RealCluster
from tests.real.worlds import real_world
from tests.source.driving import Run, options_for

pytestmark = pytest.mark.real


@both_profiles
@each_of(MASTER_SLAVE)
def test_master_and_slave(real_master_slave: RealCluster, scenario: Scenario) -> None:
    """Each scenario in which a master stops passes on real servers."""
    scenario(real_world(real_master_slave))


@each_of(REPLICA_READS)
def test_a_slave_that_serves(real_master_slave: RealCluster, scenario: Scenario) -> None:
    """Each scenario of reads from a slave passes on real servers whose slave is set to serve reads."""
    scenario(real_world(real_master_slave))


@both_profiles
@each_of(TWO_BROKERS)
def test_two_brokers(real_two_brokers: RealCluster, scenario: Scenario) -> None:
    """Each scenario for two masters passes on real servers."""
    scenario(real_world(real_two_brokers))


@both_profiles
def test_the_second_name_server_takes_over(real_two_name_servers: RealCluster) -> None:
    """If the name server in use is killed, the client continues with the other one."""
    world = real_world(real_two_name_servers)
    world.make_topic()

    real_two_name_servers.name_servers[0].kill()

    assert world.make_topic(2)[1].queue_id == 1


@both_profiles
def test_values_must_reach_every_name_server(real_two_name_servers: RealCluster) -> None:
    """If one of two name servers is down, storing a key-value pair fails with an error that names it."""
    world: World = real_world(real_two_name_servers)
    dead = real_two_name_servers.name_servers[1]
    dead.kill()

    with pytest.raises(ConnectError, match=str(dead.address)):
        world.cluster.name_servers.put_value(fresh("space"), "a", "1")


@both_profiles
def test_what_a_killed_broker_forgot_is_no_reset(real_two_brokers: RealCluster) -> None:
    """If a killed broker restarts with older offsets, a running query commits again and reads nothing twice."""
    world = real_world(real_two_brokers)
    queue, group = world.make_queue(), world.make_group()
    broker = real_two_brokers.brokers[0]
    given = {"subscribe": queue.topic, "consumerGroup": group, "groupMembership": "shared", "startingOffsets": "group"}
    options = options_for(world, **given)

    with Run(replace(options, cluster=replace(options.cluster, route_max_age_s=600))) as run:

        def is_committed(count: int) -> bool:
            assert not run.trigger()
            return world.cluster.offsets.fetch_committed(group, [queue]) == {queue: count}

        world.fill(queue, 10)
        run.read_until(10)
        until(lambda: is_committed(10), "10 are committed")
        until(lambda: has_written(broker, queue.topic, group, 10), "the broker has saved that")
        world.fill(queue, 5)
        run.read_until(5)
        until(lambda: is_committed(15), "15 are committed")
        broker.kill()
        assert has_written(broker, queue.topic, group, 10)
        broker.start()
        until(lambda: is_committed(15), "15 are committed again")
        assert not run.trigger()


def has_written(broker: Broker, topic: str, group: str, offset: int) -> bool:
    """Return whether a broker has saved this offset of a group, for queue 0 of the topic, in its file of offsets."""
    file = broker.home / "store" / "config" / "consumerOffset.json"
    table = file.read_text("utf-8") if file.exists() else ""
    return re.search(rf'"{topic}@{group}":\s*{{\s*0:\s*{offset}\b', table) is not None


def test_old_messages_of_a_deleted_topic_are_not_read_from_the_slave(
    real_master_slave: RealCluster, caplog: pytest.LogCaptureFixture
) -> None:
    """If a topic was deleted and created again, a read for which the master suggests its slave gets new messages."""
    world = real_world(real_master_slave)
    queue, kept, group = world.make_queue(), world.make_queue(), fresh("group")
    world.cluster.admin.update_broker_config(queue.broker_name, {"slaveReadEnable": "true"})
    world.cluster.admin.create_group(SubscriptionGroupConfig(group_name=group, broker_id=1))
    settings = PullSettings(group=group, batch_size=5, depth=1)
    for each in (queue, kept):
        world.fill(each, 40, size=10)
    world.servers.replicate([queue, kept])
    world.cluster.admin.delete_topic(queue.topic)
    world.cluster.admin.create_topic(TopicConfig(topic_name=queue.topic, read_queue_nums=1, write_queue_nums=1))
    until(lambda: bool(world.route_names(queue.topic)), "the new topic is routed")
    world.fill(queue, 60, size=20)
    world.servers.replicate([queue])

    slave = world.cluster.routes.route(queue.topic).broker(queue.broker_name).endpoints[1]
    [old] = decode_records(pull_one(world.cluster.brokers, slave, queue, group, 7).body)
    assert len(old.body) == 10, "the slave has kept the old message"
    blocks = list(read_all(world.cluster, [whole(queue, 60)], settings))
    assert {len(record.body) for block in blocks for record in decode_records(block.data)} == {20}
    assert caplog.text.count("reading from the master") == 1
    assert offsets_of(read_all(world.cluster, [whole(kept, 40)], settings)) == {kept: list(range(40))}
    assert caplog.text.count("reading from the master") == 1
