"""Tests of `broker_stub.topic_table`."""

from __future__ import annotations

import pytest

from broker_stub.releases import find_release
from broker_stub.requests import Refusal
from broker_stub.topic_table import INHERITABLE, READ_WRITE, TEMPLATE_TOPIC, Topics, check_name
from pyspark_rocketmq.wire.codes import ResponseCode

V5, V4 = find_release("5.3.3"), find_release("4.9.7")


def make_topics() -> Topics:
    """Return the topic table of a new broker."""
    return Topics(V5, "DefaultCluster", "broker-a", 8)


@pytest.mark.parametrize("name", ["orders", "a-b_c|d%e", "T" * 127, "%RETRY%" + "g" * 248, "%DLQ%" + "g" * 250])
def test_legal_names_pass(name: str) -> None:
    """A name of letters, digits and four signs is legal up to 127 characters, or 255 in a group's own topics."""
    check_name(name, V5)


@pytest.mark.parametrize("name", ["", " ", "a b", "ü", "a.b", "T" * 128, "%RETRY%" + "g" * 249])
def test_illegal_names_are_refused(name: str) -> None:
    """An illegal topic name is refused by all releases; the response code depends on the release."""
    with pytest.raises(Refusal, match="The specified topic ") as refused_by_5x:
        check_name(name, V5)
    with pytest.raises(Refusal) as refused_by_4x:
        check_name(name, V4)

    assert refused_by_5x.value.response.code == ResponseCode.INVALID_PARAMETER
    assert refused_by_4x.value.response.code == ResponseCode.SYSTEM_ERROR


def test_a_new_broker_has_the_system_topics() -> None:
    """A new broker has the system topics, among them the template topic, which may be inherited."""
    topics = make_topics()

    template = topics.find(TEMPLATE_TOPIC)

    assert template and (template.write_queue_nums, template.perm) == (8, READ_WRITE | INHERITABLE)
    assert {"SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRANS_HALF_TOPIC", "DefaultCluster_REPLY_TOPIC", "broker-a"} <= {
        config.topic_name for config in topics
    }
    assert all(map(topics.is_system, ("rmq_sys_any", "broker-a", "DefaultCluster", "SCHEDULE_TOPIC_XXXX")))
    assert not topics.is_system("orders")


def test_a_topic_comes_into_being_after_its_template() -> None:
    """A topic made from a template has the requested queues, at most the template's, and cannot be inherited itself."""
    topics = make_topics()

    few, many = topics.create_from_template("few", TEMPLATE_TOPIC, 4), topics.create_from_template("m", "TBW102", 99)

    assert few and (few.read_queue_nums, few.write_queue_nums, few.perm) == (4, 4, READ_WRITE)
    assert many and many.write_queue_nums == 8
    assert topics.find("few") == few


def test_no_template_no_topic() -> None:
    """If the template is missing or may not be inherited, no topic is created."""
    topics = make_topics()
    topics.find_or_create("plain", 2)

    assert topics.create_from_template("a", "nowhere", 4) is None
    assert topics.create_from_template("a", "plain", 4) is None
    assert topics.find("a") is None


def test_a_topic_is_made_once() -> None:
    """`find_or_create` does not change a topic that exists."""
    topics = make_topics()
    made = topics.find_or_create("retry", 1)
    version = topics.version

    assert topics.find_or_create("retry", 9) is made
    assert topics.version == version


def test_a_deleted_topic_is_gone() -> None:
    """A deleted topic is not found, and its deletion changes the table's version."""
    topics = make_topics()
    topics.find_or_create("a", 1)
    version, count = topics.version, len(topics)

    topics.delete("a")
    topics.delete("a")

    assert (topics.find("a"), topics.version, len(topics)) == (None, version + 1, count - 1)
