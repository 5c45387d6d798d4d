"""In one process, a group and client id belong to one consumer and one producer of each cluster and namespace."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from pyspark_rocketmq.client import MessageModel, PullConsumer, PushConsumer
from pyspark_rocketmq.client.clock import SystemClock
from pyspark_rocketmq.cluster.names import Namespace
from pyspark_rocketmq.errors import GroupError, LocalProtocolError, RocketMQError
from pyspark_rocketmq.model import Message, parse_addresses
from tests.client.fixtures import GROUP, TIMEOUT_S, TOPIC, Group, Log, until
from tests.net.fixtures import forks, in_child


def _pulling(group: Group, _: Log, **given: Any) -> PullConsumer:
    return group.pulling(**given)


def _assigned(group: Group, _: Log, **given: Any) -> PullConsumer:
    return group.pulling(subscriptions={}, **given)


KINDS = {"concurrent": Group.concurrent, "orderly": Group.orderly, "pulling": _pulling, "assigned": _assigned}


@pytest.mark.parametrize("make", KINDS.values(), ids=KINDS)
def test_a_second_consumer_of_one_name_is_refused(make: Callable[..., PushConsumer], group: Group) -> None:
    """The second start raises an error with group, client id and advice, and the first consumer goes on."""
    log = Log()
    first = group.concurrent(log, instance_name="same")
    with pytest.raises(GroupError, match=f"client id {first.client_id} already runs in this process") as refused:
        make(group, Log(), instance_name="same")

    assert refused.value.where["group"] == GROUP
    assert "instance_name of its own" in refused.value.advice
    group.put("a")
    log.wait_for(1)
    until(lambda: group.stub.groups().get(GROUP) == (first.client_id,))


@pytest.mark.parametrize("make", KINDS.values(), ids=KINDS)
def test_a_name_is_free_when_its_consumer_is_closed(make: Callable[..., PushConsumer], group: Group) -> None:
    """After `close` another consumer may have the name, also if a second one was refused meanwhile."""
    first = make(group, Log(), instance_name="same")
    with pytest.raises(GroupError):
        make(group, Log(), instance_name="same")
    with pytest.raises(GroupError):
        make(group, Log(), instance_name="same")
    first.close()

    assert make(group, Log(), instance_name="same").client_id == first.client_id


def test_a_second_producer_of_one_name_is_refused(group: Group) -> None:
    """The second start raises an error with group, client id and advice; the name is free when the first one closes."""
    first = group.producer(instance_name="same")
    with pytest.raises(GroupError, match=f"a producer .* client id {first.client_id} already runs") as refused:
        group.producer(instance_name="same")
    assert refused.value.where["group"] == "shop"
    assert "each producer an instance_name of its own" in refused.value.advice
    first.send(Message(TOPIC, b"x"))
    first.close()

    assert group.producer(instance_name="same").client_id == first.client_id


def test_producers_of_other_groups_or_instances_and_consumers_have_names_of_their_own(group: Group) -> None:
    """A producer may share its client id with producers of other groups, and its group and client id with a consumer.

    Producers of one group without instance names have different client ids.
    """
    first = group.producer(instance_name="same")
    others = (
        group.producer(instance_name="same", group="others"),
        group.concurrent(Log(), instance_name="same", group="shop"),
    )

    assert {other.client_id for other in others} == {first.client_id}
    assert group.producer().client_id != group.producer().client_id


def test_another_group_or_instance_has_a_name_of_its_own(group: Group) -> None:
    """Consumers with one client id may be in different groups, and consumers of one group have different client ids."""
    first = group.concurrent(Log(), instance_name="same")
    second = group.concurrent(Log(), instance_name="same", group="others")
    third = group.concurrent(Log(), instance_name="other")

    assert first.client_id == second.client_id != third.client_id


def test_broadcasting_members_need_instance_names(group: Group) -> None:
    """Two broadcasting consumers without an instance name would share a file of positions, so the second is refused."""
    group.concurrent(Log(), message_model=MessageModel.BROADCASTING)
    with pytest.raises(GroupError, match="@DEFAULT already runs"):
        group.concurrent(Log(), message_model=MessageModel.BROADCASTING)


def test_each_cluster_has_names_of_its_own(make_group: Callable[..., Group]) -> None:
    """Consumers with one group and client id may run at different clusters."""
    first, second = (make_group().concurrent(Log(), instance_name="same") for _ in range(2))

    assert first.client_id == second.client_id


def test_a_cluster_is_known_by_any_of_its_name_servers(group: Group) -> None:
    """If two consumers have one name server in common, they are at one cluster, and the second is refused."""
    group.concurrent(Log(), instance_name="same")
    servers = (*parse_addresses("127.0.0.1:1"), *group.cluster_settings.name_servers)
    group.cluster_settings = replace(group.cluster_settings, name_servers=servers)
    with pytest.raises(GroupError, match="already runs"):
        group.concurrent(Log(), instance_name="same")


@pytest.mark.parametrize("namespace", [Namespace("X"), Namespace(header="X")], ids=["prefix", "header"])
def test_each_namespace_has_names_of_its_own(group: Group, namespace: Namespace) -> None:
    """Consumers with one group and client id may run in different namespaces, but not twice in one."""
    group.concurrent(Log(), instance_name="same")
    group.cluster_settings = replace(group.cluster_settings, namespace=namespace)
    group.pulling(subscriptions={}, instance_name="same")
    with pytest.raises(GroupError, match="already runs"):
        group.pulling(subscriptions={}, instance_name="same")


def test_a_file_of_positions_belongs_to_one_consumer(make_group: Callable[..., Group]) -> None:
    """Broadcasting consumers at different clusters need files of their own: without them the second is refused."""
    given = {"message_model": MessageModel.BROADCASTING, "instance_name": "same"}
    make_group().concurrent(Log(), **given)
    other = make_group()
    with pytest.raises(GroupError, match="local_offset_dir of its own"):
        other.concurrent(Log(), **given)

    other.concurrent(Log(), **given, local_offset_dir=other.offset_dir / "other")


def test_a_failed_start_leaves_the_name_free(group: Group) -> None:
    """If no name server responds at the start, the name is free for the next attempt."""
    reachable = group.cluster_settings
    group.cluster_settings = replace(reachable, name_servers=parse_addresses("127.0.0.1:1"), retries=0)
    with pytest.raises(RocketMQError, match="CONNECT"):
        group.concurrent(Log(), instance_name="same")
    group.cluster_settings = reachable

    group.concurrent(Log(), instance_name="same")


class _InterruptedClock(SystemClock):
    """A clock that raises `KeyboardInterrupt` in the main thread, as Ctrl-C may do at any moment of a start."""

    is_interrupted = False

    def now_s(self) -> float:
        """Return the time, or raise while a consumer starts."""
        if self.is_interrupted and threading.current_thread() is threading.main_thread():
            raise KeyboardInterrupt
        return super().now_s()


def test_an_interrupted_start_leaves_the_name_free(group: Group) -> None:
    """If Ctrl-C interrupts the start, the name is free for the next attempt."""
    clock = _InterruptedClock()
    settings = group.settings(instance_name="same")
    consumer = PushConsumer.concurrent(group.cluster_settings, settings, Log(), clock=clock)
    clock.is_interrupted = True
    with pytest.raises(KeyboardInterrupt):
        consumer.start()

    group.concurrent(Log(), instance_name="same")


def test_of_many_starts_at_once_one_succeeds(group: Group) -> None:
    """If eight threads start consumers of one name at the same moment, one of them starts."""
    gate, refused = threading.Barrier(8), list[GroupError]()

    def start() -> None:
        gate.wait(TIMEOUT_S)
        try:
            group.concurrent(Log(), instance_name="same")
        except GroupError as error:
            refused.append(error)

    threads = [threading.Thread(target=start) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(TIMEOUT_S)
    assert len(refused) == 7


@forks
def test_a_forked_child_has_names_of_its_own(group: Group) -> None:
    """A forked child may start a consumer with the name of one that runs in its parent."""
    group.concurrent(Log(), instance_name="same")

    def start_and_close() -> bool:
        PushConsumer.concurrent(group.cluster_settings, group.settings(instance_name="same"), Log()).start()
        return True

    assert in_child(start_and_close)


@forks
def test_a_consumer_starts_in_the_process_that_made_it(group: Group) -> None:
    """A forked child cannot start its parent's consumer: each child would have the same client id."""
    made = PushConsumer.concurrent(group.cluster_settings, group.settings(), Log())

    def is_refused() -> bool:
        with pytest.raises(LocalProtocolError, match="make the consumer in the process that starts it"):
            made.start()
        return True

    assert in_child(is_refused)
    made.start()
    made.close()
