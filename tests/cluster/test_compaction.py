"""A topic's compaction is fetched once."""

from __future__ import annotations

import pytest

from pyspark_rocketmq.cluster.cluster import Cluster
from pyspark_rocketmq.errors import ConnectError
from pyspark_rocketmq.wire.header import Command
from tests.cluster.scripted import ScriptedLinks, answer, cluster_of, raising, route_of, unsupported


def asking(config: Command) -> tuple[Cluster, ScriptedLinks]:
    """Return a cluster of one broker with this response to requests for the topic's configuration."""
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
    """The attribute decides; without permission, or before 5.0, the result is None; the broker gets one request."""
    cluster, links = asking(config)

    assert [cluster.admin.is_compacted("T", "a") for _ in range(3)] == [wanted] * 3
    assert len(links.asked("GET_TOPIC_CONFIG")) == 1


def test_a_broker_that_does_not_answer_is_asked_again() -> None:
    """The failure of a request is not remembered, so the next call repeats it."""
    cluster, links = asking(answer(body={"topicName": "T", "attributes": {"cleanup.policy": "COMPACTION"}}))
    links.serve("a:1", GET_TOPIC_CONFIG=raising(ConnectError("nobody there")))
    assert cluster.admin.is_compacted("T", "a") is None

    links.serve("a:1", GET_TOPIC_CONFIG=answer(body={"topicName": "T"}))
    assert cluster.admin.is_compacted("T", "a") is False
