"""What goes on when a real server stops? The scenarios are those of the stub, on clusters of more than one broker."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from pyspark_rocketmq.errors import ConnectError
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
    """The scenarios in which a master stops."""
    scenario(real_world(real_master_slave))


@each_of(REPLICA_READS)
def test_a_slave_that_serves(real_master_slave: RealCluster, scenario: Scenario) -> None:
    """The scenarios in which it is read from; by default slaves of 5.x refuse that."""
    scenario(real_world(real_master_slave))


@both_profiles
@each_of(TWO_BROKERS)
def test_two_brokers(real_two_brokers: RealCluster, scenario: Scenario) -> None:
    """The scenarios on two masters."""
    scenario(real_world(real_two_brokers))


@both_profiles
def test_the_second_name_server_takes_over(real_two_name_servers: RealCluster) -> None:
    """The one that answered last dies: the next question goes to the other, new topics included."""
    world = real_world(real_two_name_servers)
    world.make_topic()

    real_two_name_servers.name_servers[0].kill()

    assert world.make_topic(2)[1].queue_id == 1


@both_profiles
def test_values_must_reach_every_name_server(real_two_name_servers: RealCluster) -> None:
    """They do not tell each other, so one that is down is named by the error."""
    world: World = real_world(real_two_name_servers)
    dead = real_two_name_servers.name_servers[1]
    dead.kill()

    with pytest.raises(ConnectError, match=str(dead.address)):
        world.cluster.name_servers.put_value(fresh("space"), "a", "1")


@both_profiles
def test_what_a_killed_broker_forgot_is_no_reset(real_two_brokers: RealCluster) -> None:
    """It comes back with the table that it wrote last, and a query that did not miss it reads nothing twice."""
    world = real_world(real_two_brokers)
    queue, group = world.make_queue(), world.make_group()
    broker = real_two_brokers.brokers[0]
    given = {"subscribe": queue.topic, "consumerGroup": group, "groupMembership": "shared", "startingOffsets": "group"}
    options = options_for(world, **given)

    with Run(replace(options, cluster=replace(options.cluster, route_max_age_s=600))) as run:

        def is_published(count: int) -> bool:
            assert not run.trigger()
            return world.cluster.offsets.fetch_committed(group, [queue]) == {queue: count}

        world.fill(queue, 10)
        run.read_until(10)
        until(lambda: is_published(10), "10 are published")
        until(lambda: has_written(broker, queue.topic, group, 10), "the broker has written that down")
        world.fill(queue, 5)
        run.read_until(5)
        until(lambda: is_published(15), "15 are published")
        broker.kill()
        assert has_written(broker, queue.topic, group, 10)
        broker.start()
        until(lambda: is_published(15), "15 are published again")
        assert not run.trigger()


def has_written(broker: Broker, topic: str, group: str, offset: int) -> bool:
    """Whether a broker has written down that a group stands there in a topic's first queue, in its kind of JSON."""
    file = broker.home / "store" / "config" / "consumerOffset.json"
    table = file.read_text("utf-8") if file.exists() else ""
    return re.search(rf'"{topic}@{group}":\s*{{\s*0:\s*{offset}\b', table) is not None
