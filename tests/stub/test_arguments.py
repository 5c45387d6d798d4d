"""Test that the stub refuses wrong arguments, with what was given and what to give instead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from broker_stub import Settings, StubBroker, StubCluster
from pyspark_rocketmq.errors import OptionError


def refusal(act: Callable[[], object]) -> OptionError:
    """Return the error that a call raises."""
    with pytest.raises(OptionError) as refused:
        act()
    assert refused.value.advice
    return refused.value


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"frozen_clok": True}, "[OPTION_UNKNOWN] frozen_clok: StubCluster has no such argument; did you mean frozen_"),
        ({"colour": "red"}, "its arguments are emulate, settings, host, port,"),
        ({"topics": ["orders", "bills"]}, "topic has; give {'orders': 4, 'bills': 4}"),
        ({"topics": "orders"}, "topics = 'orders': does not say how many queues each topic has; give {'orders': 4}"),
        ({"topics": 4}, 'give {name: number of queues}, for example {"orders": 4}'),
        ({"topics": {"orders": 0}}, "topics = 'orders': 0 queues, so it could hold no message; give a number from 1"),
        ({"topics": {"orders": "4"}}, "the number of queues is a str; give a number from 1 to 16384"),
        ({"topics": {"orders": 16_385}}, "16385 queues, the limit is 16384"),
        ({"topics": {"my orders": 1}}, "illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$; use letters, digits"),
        ({"topics": {1: 1}}, "topics = '1': is an int, not the name of a topic"),
        ({"brokers": 0}, "brokers = '0': a cluster without brokers"),
        ({"brokers": "broker-a"}, "brokers = 'broker-a': is text, not a list of names; give ['broker-a']"),
    ],
)
def test_a_stub_is_not_made_with_wrong_arguments(given: dict[str, Any], said: str) -> None:
    """A misspelt argument, or a wrong value, is refused before anything starts."""
    assert said in str(refusal(lambda: StubCluster(**given)))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"body": "hello"}, "body = 'hello': is text, and the body of a message is bytes; write b\"...\" before the"),
        ({"body": {"n": 1}}, "body = '{'n': 1}': is a dict, and the body of a message is bytes; give bytes"),
        ({"keys": ["a", "b"]}, "keys = '['a', 'b']': is a list, and properties are text; give text; several keys"),
        ({"properties": {"n": 1}}, "n = '1': is an int, and properties are text"),
        ({"queue_id": -1}, "queue_id = '-1': topic orders has no such queue that takes messages; its queues are 0 to"),
        ({"queue_id": 7}, "its queues are 0 to 1"),
        ({"topic": "my orders"}, "topic = 'my orders': The specified topic contains illegal characters"),
    ],
)
def test_a_message_is_not_stored_with_wrong_arguments(given: dict[str, Any], said: str) -> None:
    """A body that is text, properties that are not, a queue or a name that no topic has: all are refused."""
    with StubBroker({"orders": 2}) as stub:
        assert said in str(refusal(lambda: stub.put(**{"topic": "orders", "body": b"x", **given})))
        assert stub.messages("orders") == [] and stub.topics() == {"orders": 2}


def test_a_misspelt_topic_is_refused_where_clients_create_none() -> None:
    """With `auto_create_topics` off, a message to a topic whose name is like that of another one is refused."""
    with StubBroker({"orders": 2}, settings=Settings(auto_create_topics=False)) as stub:
        assert "did you mean orders?" in str(refusal(lambda: stub.put("order", b"x")))
        stub.put("bills", b"x")
        assert stub.topics() == {"bills": 4, "orders": 2}


def test_faults_have_known_arguments() -> None:
    """A misspelt argument of a fault, and a request that does not exist, are refused; requests may be named."""
    with StubBroker() as stub:
        said = str(refusal(lambda: stub.faults.busy(time=2)))  # type: ignore[call-arg]
        assert "time: a fault (answer 2) has no such argument; did you mean times?" in said
        said = str(refusal(lambda: stub.faults.busy(on="PULL_MESSAGES")))
        assert "on = 'PULL_MESSAGES': no such request; did you mean PULL_MESSAGE?" in said
        stub.faults.busy(on="PULL_MESSAGE")
        assert "PULL_MESSAGE at any broker" in str(stub.faults.busy(on="PULL_MESSAGE"))
        stub.faults.clear()


def test_topics_are_made_at_each_broker() -> None:
    """`topic` makes a topic at each broker, or returns the one that exists; a wrong number of queues is refused."""
    with StubCluster(2) as stub:
        stub.topic("orders", 2).put(b"x")
        assert stub.topic("orders").bodies() == [b"x"] and stub.topics() == {"orders": 4}
        assert "0 queues" in str(refusal(lambda: stub.topic("bills", 0)))
