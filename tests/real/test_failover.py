"""What goes on when a real server stops? The scenarios are those of the stub, on clusters of more than one broker."""

from __future__ import annotations

import pytest

from pyspark_rocketmq.errors import ConnectError
from tests.flows.scenarios import MASTER_SLAVE, TWO_BROKERS, Scenario, each_of
from tests.flows.world import World, fresh
from tests.real.servers import RealCluster
from tests.real.worlds import real_world

pytestmark = pytest.mark.real


@each_of(MASTER_SLAVE)
def test_master_and_slave(real_master_slave: RealCluster, scenario: Scenario) -> None:
    """The scenarios in which a master stops."""
    scenario(real_world(real_master_slave))


@each_of(TWO_BROKERS)
def test_two_brokers(real_two_brokers: RealCluster, scenario: Scenario) -> None:
    """The scenarios on two masters."""
    scenario(real_world(real_two_brokers))


def test_the_second_name_server_takes_over(real_two_name_servers: RealCluster) -> None:
    """The one that answered last dies: the next question goes to the other, new topics included."""
    world = real_world(real_two_name_servers)
    world.make_topic()

    real_two_name_servers.name_servers[0].kill()

    assert world.make_topic(2)[1].queue_id == 1


def test_values_must_reach_every_name_server(real_two_name_servers: RealCluster) -> None:
    """They do not tell each other, so one that is down is named by the error."""
    world: World = real_world(real_two_name_servers)
    dead = real_two_name_servers.name_servers[1]
    dead.kill()

    with pytest.raises(ConnectError, match=str(dead.address)):
        world.cluster.name_servers.put_value(fresh("space"), "a", "1")
