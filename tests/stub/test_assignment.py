"""Tests of `broker_stub.handlers.assignment`."""

from __future__ import annotations

import json
from typing import Any

import pytest

from broker_stub import StubCluster
from pyspark_rocketmq.wire.bodies import ConsumerData, HeartbeatData, build_subscription, encode_body
from pyspark_rocketmq.wire.commands import HeartbeatRequestHeader, QueryAssignmentRequestHeader

from .remoting_client import RemotingClient


def join(client: RemotingClient, client_id: str) -> None:
    """Register a client as consumer of T in group g."""
    consumer = ConsumerData(
        group_name="g",
        consume_type="CONSUME_PASSIVELY",
        message_model="CLUSTERING",
        consume_from_where="CONSUME_FROM_FIRST_OFFSET",
        subscription_data_set=(build_subscription("T", "*"),),
    )
    client.ask(HeartbeatRequestHeader(), encode_body(HeartbeatData(client_id=client_id, consumer_data_set=(consumer,))))


def share(client: RemotingClient, **query: str) -> list[tuple[str, int]] | None:
    """Return the (broker, queue id) pairs that the broker assigns; None if the response is empty."""
    usual = {"topic": "T", "consumerGroup": "g", "strategyName": "AVG", "messageModel": "CLUSTERING"}
    answer = client.ask(QueryAssignmentRequestHeader(), json.dumps({**usual, **query}).encode())
    oneways: list[dict[str, Any]] | None = json.loads(bytes(answer.body)).get("messageQueueAssignments")
    if oneways is None:
        return None
    assert {each["mode"] for each in oneways} <= {"PULL"}
    return [(each["messageQueue"]["brokerName"], each["messageQueue"]["queueId"]) for each in oneways]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({"clientId": "c1"}, [("broker-a", 0), ("broker-a", 1)]),
        ({"clientId": "c2"}, [("broker-b", 0), ("broker-b", 1)]),
        ({"clientId": "c1", "strategyName": "AVG_BY_CIRCLE"}, [("broker-a", 0), ("broker-b", 0)]),
        ({"clientId": "c2", "strategyName": "AVG_BY_CIRCLE"}, [("broker-a", 1), ("broker-b", 1)]),
        ({"clientId": "stranger"}, []),
        ({"clientId": "c1", "strategyName": "CONSISTENT_HASH"}, None),
        ({"clientId": "c1", "topic": "absent"}, None),
        ({"clientId": "c1", "consumerGroup": "nobody"}, None),
    ],
)
def test_the_queues_of_all_brokers_are_assigned(query: dict[str, str], expected: list[tuple[str, int]] | None) -> None:
    """The assigned queues are those of 5.3.3; an unknown topic, group or strategy gets an empty response."""
    with StubCluster(2, topics={"T": 2}) as stub, RemotingClient(stub.broker_address()) as one:
        with RemotingClient(stub.broker_address()) as two:
            join(one, "c1")
            join(two, "c2")

            assert share(one, **query) == expected


def test_an_odd_queue_goes_to_the_first() -> None:
    """If the queues cannot be divided evenly, the first member gets one more than the others."""
    with (
        StubCluster(topics={"T": 3}) as stub,
        RemotingClient(stub.broker_address()) as one,
        RemotingClient(stub.broker_address()) as two,
    ):
        join(one, "c1")
        join(two, "c2")

        assert [len(share(one, clientId=client) or []) for client in ("c1", "c2")] == [2, 1]


def test_everybody_gets_everything_by_broadcast() -> None:
    """A broadcasting client is assigned all queues, even if it is not a member of the group."""
    with StubCluster(topics={"T": 2}) as stub, RemotingClient(stub.broker_address()) as client:
        assert share(client, clientId="c1", messageModel="BROADCASTING") == [("broker-a", 0), ("broker-a", 1)]
