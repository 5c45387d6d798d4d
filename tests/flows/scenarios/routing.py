"""Scenarios of name servers: routes, lists of topics, key-value pairs, and servers that are down."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pyspark_rocketmq.broker_errors import NoPermission
from pyspark_rocketmq.cluster.cluster import Cluster, open_cluster
from pyspark_rocketmq.cluster.routes import AddressMap
from pyspark_rocketmq.errors import ConnectError, QueueMoved, TopicNotFound
from pyspark_rocketmq.model import Address, MessageQueue, parse_address
from pyspark_rocketmq.net.settings import TlsSettings
from pyspark_rocketmq.wire.bodies import TopicConfig
from tests.flows.world import World, fresh, now_ms, patient_settings, until

CLOSED_PORT = "127.0.0.1:1"
"""The address of a closed port."""


def route_names_queues_and_brokers(world: World) -> None:
    """Check that a route contains every queue in order, and the master's address."""
    queues = world.make_topic(3)

    route = world.cluster.routes.route(queues[0].topic)

    assert list(route.readable) == list(route.writable) == queues
    assert [queue.queue_id for queue in queues] == [0, 1, 2]
    assert route.broker(queues[0].broker_name).master().host == "127.0.0.1"


def unknown_topic_is_named(world: World) -> None:
    """Check that the error for an unknown topic names topic, name server and request, and gives advice."""
    topic = fresh("nowhere")

    with pytest.raises(TopicNotFound) as caught:
        world.cluster.routes.route(topic)

    assert caught.value.where["topic"] == topic and caught.value.advice
    assert caught.value.where["address"] in world.name_server
    assert caught.value.where["request"] == "GET_ROUTEINFO_BY_TOPIC"


def unknown_broker_is_named(world: World) -> None:
    """Check that a send to a broker that is not in the route raises `QueueMoved`, which names topic and broker."""
    queue = world.make_queue()._replace(broker_name="broker-gone")

    with pytest.raises(QueueMoved) as caught:
        world.send(queue)

    assert (caught.value.where["topic"], caught.value.where["broker"]) == (queue.topic, "broker-gone")


def read_only_topic_takes_no_message(world: World) -> None:
    """Check that the route of a read-only topic has no writable queue; brokers themselves would accept sends."""
    queue = world.make_queue(perm=4)

    route = world.cluster.routes.route(queue.topic)

    assert (route.readable, route.writable) == ((queue,), ())


def write_only_topic_gives_no_message(world: World) -> None:
    """Check that the route of a write-only topic has no readable queue, and that brokers refuse pulls."""
    queue = world.make_queue(perm=2)

    assert world.cluster.routes.route(queue.topic).readable == ()
    with pytest.raises(NoPermission, match=queue.topic):
        world.pull(queue)


def grown_topic_is_seen(world: World) -> None:
    """Check that new queues of a topic appear when its route has expired and is fetched again, and not before."""
    queue, other = world.make_queue(), open_cluster(world.settings)
    assert len(other.routes.route(queue.topic).readable) == 1

    world.cluster.admin.create_topic(TopicConfig(topic_name=queue.topic, read_queue_nums=3, write_queue_nums=3))

    assert len(other.routes.route(queue.topic).readable) == 1, "the snapshot is still in force"
    until(lambda: _expired_route_length(other, queue) == 3, "the route has grown")


def _expired_route_length(cluster: Cluster, queue: MessageQueue) -> int:
    cluster.routes.expire(queue.topic)
    return len(cluster.routes.route(queue.topic).readable)


def brokers_of_the_cluster_are_known(world: World) -> None:
    """Check that the cluster information contains the address of each master."""
    queue = world.make_queue()

    brokers = {places.broker_name: places for places in world.cluster.name_servers.fetch_brokers()}

    assert brokers[queue.broker_name].master() == world.master(queue)


def topics_are_listed(world: World) -> None:
    """Check that a new topic is in the list of all topics and in that of its cluster."""
    topic = world.make_queue().topic
    [cluster_name] = {places.cluster for places in world.cluster.name_servers.fetch_brokers()}

    assert topic in world.cluster.name_servers.fetch_topics()
    assert topic in world.cluster.name_servers.fetch_topics_of_cluster(cluster_name)


def values_are_kept(world: World) -> None:
    """Check that key-value pairs are stored, returned alone and by namespace, and deleted; a missing key gives None."""
    names, space = world.cluster.name_servers, fresh("space")

    names.put_value(space, "a", "1")
    names.put_value(space, "b", "2")
    assert names.fetch_value(space, "a") == "1"
    assert names.fetch_values(space) == {"a": "1", "b": "2"}

    names.delete_value(space, "a")
    assert names.fetch_value(space, "a") is None
    assert names.fetch_values(space) == {"b": "2"}
    assert names.fetch_values(fresh("space")) == {}


def dead_name_server_gives_way(world: World) -> None:
    """Check that a client uses the second name server when the first one is down."""
    queue = world.make_queue()

    cluster = open_cluster(patient_settings(f"{CLOSED_PORT};{world.name_server}"))

    assert queue in cluster.routes.route(queue.topic).readable


def dead_name_servers_are_all_named(world: World) -> None:
    """Check that the error lists every name server when all of them are down."""
    cluster = open_cluster(patient_settings(f"{CLOSED_PORT};127.0.0.1:2"))

    with pytest.raises(ConnectError, match=r"127\.0\.0\.1:1.*127\.0\.0\.1:2"):
        cluster.routes.route("any")


def plain_server_speaks_no_tls(world: World) -> None:
    """Check that a client with TLS soon fails at a server without TLS, with an error that names the address."""
    settings = replace(world.settings, net=replace(world.settings.net, tls=TlsSettings(), connect_timeout_s=3))

    with pytest.raises(ConnectError, match=f"address {world.name_server}"):
        open_cluster(replace(settings, retries=0)).routes.route("any")


def addresses_are_mapped(world: World) -> None:
    """Check that a client connects to the address that its address map gives for a broker."""
    queue = world.make_queue()
    advertised = world.master(queue)
    reachable = Address("localhost", advertised.port)

    cluster = open_cluster(replace(world.settings, address_map=AddressMap(((advertised, reachable),))))

    assert cluster.routes.route(queue.topic).broker(queue.broker_name).master() == reachable
    assert cluster.offsets.fetch_max([queue]) == {queue: 0}


def unreachable_broker_is_named(world: World) -> None:
    """Check that the error names address, topic and broker when a broker's mapped port is closed."""
    queue, started = world.make_queue(), now_ms()
    address_map = AddressMap(other=parse_address(CLOSED_PORT))
    cluster = open_cluster(replace(world.settings, address_map=address_map, retries=1))

    with pytest.raises(ConnectError, match=rf"address {CLOSED_PORT}.*topic {queue.topic}, broker {queue.broker_name}"):
        cluster.offsets.fetch_max([queue])

    assert now_ms() - started < 10_000
