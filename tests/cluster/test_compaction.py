"""Ask once whether a topic is compacted."""

from __future__ import annotations

import pytest

from pyspark_rocketmq.cluster.cluster import Cluster
from pyspark_rocketmq.errors import ConnectError
from pyspark_rocketmq.wire.header import Command
from tests.cluster.scripted import ScriptedLinks, answer, cluster_of, raising, route_of, unsupported


def asking(config: Command) -> tuple[Cluster, ScriptedLinks]:
    """A cluster of one broker that answers for the topic's configuration like this."""
    links = ScriptedLinks()
    links.serve("ns:1", GET_ROUTEINFO_BY_TOPIC=route_of(a={0: "a:1"}))
    links.serve("a:1", GET_TOPIC_CONFIG=config)
    return cluster_of(links), links


@pytest.mark.parametrize(
    ("config", "wanted"),
    [
        (answer(body={"topicName": "T", "attributes": {"cleanup.policy": "COMPACTION"}}), True),
        (answer(body={"topicName": "T", "attributes": {"cleanup.policy": "DELETE"}}), False),
        (answer(body={"topicName": "T"}), False),
        (answer(16, remark="no permission"), None),
        (unsupported(), None),
    ],
)
def test_a_topic_is_compacted_if_its_attribute_says_so(config: Command, wanted: bool | None) -> None:
    """Without permission, or before 5.0, it cannot be known; the broker is asked once whatever it says."""
    cluster, links = asking(config)

    assert [cluster.admin.is_compacted("T", "a") for _ in range(3)] == [wanted] * 3
    assert len(links.asked("GET_TOPIC_CONFIG")) == 1


def test_a_broker_that_does_not_answer_is_asked_again() -> None:
    """What is not known for now is not taken for known."""
    cluster, links = asking(answer(body={"topicName": "T", "attributes": {"cleanup.policy": "COMPACTION"}}))
    links.serve("a:1", GET_TOPIC_CONFIG=raising(ConnectError("nobody there")))
    assert cluster.admin.is_compacted("T", "a") is None

    links.serve("a:1", GET_TOPIC_CONFIG=answer(body={"topicName": "T"}))
    assert cluster.admin.is_compacted("T", "a") is False
