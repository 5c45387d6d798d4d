"""Whether a topic is compacted is asked at its broker once, and remembered."""

from __future__ import annotations

import pytest

from pyspark_rocketmq.cluster.cluster import Cluster
from pyspark_rocketmq.errors import ConnectError
from pyspark_rocketmq.wire.header import Command
from tests.cluster.scripted import ScriptedLinks, answer, cluster_of, raising, route_of, unsupported


def asking(config: Command) -> tuple[Cluster, ScriptedLinks]:
    """Return a cluster whose only broker gives this response to requests for a topic's configuration."""
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
    """The topic's attribute decides; if the broker refuses or is older than 5.0, the result is None."""
    cluster, links = asking(config)

    assert [cluster.admin.is_compacted("T", "a") for _ in range(3)] == [wanted] * 3
    assert len(links.asked("GET_TOPIC_CONFIG")) == 1


def test_a_broker_that_does_not_answer_is_asked_again() -> None:
    """If a request fails without a response, the failure is not remembered and the next call repeats it."""
    cluster, links = asking(answer(body={"topicName": "T", "attributes": {"cleanup.policy": "COMPACTION"}}))
    links.serve("a:1", GET_TOPIC_CONFIG=raising(ConnectError("nobody there")))
    assert cluster.admin.is_compacted("T", "a") is None

    links.serve("a:1", GET_TOPIC_CONFIG=answer(body={"topicName": "T"}))
    assert cluster.admin.is_compacted("T", "a") is False
