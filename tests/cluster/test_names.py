"""Names are put into a namespace, and taken out of it, as by the Java client."""

from __future__ import annotations

import pytest

from pyspark_rocketmq.cluster.names import Namespace, is_system_topic
from pyspark_rocketmq.model import MessageQueue, is_topic_name

WRAPPED = [
    ("orders", "NS%orders"),
    ("%RETRY%group", "%RETRY%NS%group"),
    ("%DLQ%group", "%DLQ%NS%group"),
    ("a%b", "NS%a%b"),
]
LEFT_ALONE = ["TBW102", "RMQ_SYS_TRACE_TOPIC", "rmq_sys_wheel_timer", "CID_RMQ_SYS_TRANS", ""]


@pytest.mark.parametrize(("ours", "theirs"), WRAPPED)
def test_version_1_is_spelled_into_names(ours: str, theirs: str) -> None:
    """In a name with a namespace, `%RETRY%` and `%DLQ%` come first; a name is not wrapped twice."""
    namespace = Namespace("NS")
    assert namespace.wrap(ours) == theirs and namespace.wrap(theirs) == theirs
    assert namespace.unwrap(theirs) == ours and namespace.unwrap(ours) == ours


@pytest.mark.parametrize("name", LEFT_ALONE)
def test_system_names_belong_to_no_namespace(name: str) -> None:
    """A system topic or group keeps its name in every namespace."""
    assert Namespace("NS").wrap(name) == name == Namespace("NS").unwrap(name)


@pytest.mark.parametrize("name", ["orders", "NS%orders", "%RETRY%g"])
def test_without_namespace_names_stay(name: str) -> None:
    """Without a namespace, and with version 2, names do not change."""
    for namespace in (Namespace(), Namespace(header="NS")):
        assert namespace.wrap(name) == name == namespace.unwrap(name)


def test_a_name_of_another_namespace_stays() -> None:
    """A name with the prefix of another namespace is not unwrapped."""
    assert Namespace("NS").unwrap("OTHER%orders") == "OTHER%orders"


@pytest.mark.parametrize("name", ["orders", "OTHER%orders", "NSX%orders", "%RETRY%group"])
def test_a_namespace_holds_no_foreign_names(name: str) -> None:
    """A namespace holds its own names and system names only, so that lists of topics can be filtered by it."""
    namespace = Namespace("NS")
    assert not namespace.holds(name) and namespace.holds("TBW102")
    assert namespace.holds(namespace.wrap(name)) and Namespace().holds(name)


def test_version_2_travels_in_header_fields() -> None:
    """A namespace of version 2 is sent in the two header fields that the recorded Java client sends."""
    assert Namespace(header="GNS2").fields() == {"ns": "GNS2", "nsd": "true"}
    assert Namespace("NS").fields() == {}


def test_system_topics_are_known() -> None:
    """A system topic is recognized by its name or its prefix."""
    assert is_system_topic("SCHEDULE_TOPIC_XXXX") and is_system_topic("rmq_sys_REVIVE_LOG_C")
    assert not is_system_topic("%RETRY%g") and not is_system_topic("orders")


@pytest.mark.parametrize(
    "name", ["orders", "a-b_c|d%e9", "x" * 127, "%RETRY%" + "g" * 248, "%DLQ%" + "g" * 250, "NS%orders", "TBW102"]
)
def test_a_name_that_brokers_accept_is_a_topics_name(name: str) -> None:
    """A topic may have 127 characters, and one of a group 255."""
    assert is_topic_name(name)


@pytest.mark.parametrize(
    "name",
    ["", "a b", "a.b", "a\n", "bücher", "x" * 128, "%RETRY%" + "g" * 249, "%DLQ%" + "g" * 251, "%LMQ%" + "x" * 123],
)
def test_a_name_that_brokers_refuse_is_none(name: str) -> None:
    """A name with other characters, without any, or with too many is no topic's name."""
    assert not is_topic_name(name)


def test_a_queue_is_put_into_a_namespace() -> None:
    """A queue gets the cluster's name of its topic, and keeps it if it has it already."""
    ours, theirs = MessageQueue("orders", "b", 1), MessageQueue("NS%orders", "b", 1)
    assert Namespace("NS").wrap_queue(ours) == theirs == Namespace("NS").wrap_queue(theirs)
    assert Namespace(header="NS").wrap_queue(ours) == ours
