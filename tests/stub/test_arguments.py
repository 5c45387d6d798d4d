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
        ({"topic": {"orders": 4}}, "did you mean topics?"),
        ({"slave": 1}, "did you mean slaves?"),
        ({"colour": "red"}, "its arguments are brokers, slaves, topics, emulate, settings, host, port,"),
        ({"frozen_clock": "no"}, "frozen_clock: is a str; give True or False"),
        ({"settings": {"long_polling": False}}, "settings: is a dict; give Settings(...)"),
        ({"acl": ["alice"]}, "acl: is a list; give {access key: secret}"),
        ({"acl": {"alice": None}}, "acl: has a user without a secret"),
        ({"tls": ("cert.pem", "key.pem")}, "tls: is a tuple; give TlsFiles(certificate, key)"),
        ({"port": "9876"}, "port: is a str; give a number"),
        ({"port": 65_536}, "port = '65536': out of range; give a number from 0 to 65535"),
        ({"grpc_port": -1}, "grpc_port = '-1': out of range"),
        ({"slaves": -1}, "slaves = '-1': out of range; give a number of 0 or more"),
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
        ({"brokers": {"orders": 4}}, "does not name brokers; give topics={'orders': 4}"),
        ({"brokers": []}, "a cluster without brokers"),
        ({"brokers": [1]}, "is no list of names"),
        ({"brokers": 1.5}, "is no list of names"),
    ],
)
def test_a_stub_is_not_made_with_wrong_arguments(given: dict[str, Any], said: str) -> None:
    """A misspelt argument, or a wrong value, is refused before anything starts."""
    assert said in str(refusal(lambda: StubCluster(**given)))


def test_one_broker_takes_no_number_of_brokers() -> None:
    """`StubBroker` has one broker, so it takes neither their number nor slaves."""
    for given in ({"brokers": 2}, {"slaves": 1}):
        assert "StubBroker has no such argument" in str(refusal(lambda: StubBroker(**given)))  # type: ignore[arg-type]  # noqa: B023


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"body": "hello"}, "body = 'hello': is text, and the body of a message is bytes; write b\"...\" before the"),
        ({"body": {"n": 1}}, "body = '{'n': 1}': is a dict, and the body of a message is bytes; give bytes"),
        ({"keys": ["a", "b"]}, "keys = '['a', 'b']': is a list, and properties are text; give text; several keys"),
        ({"properties": {"n": 1}}, "n = '1': is an int, and properties are text"),
        ({"properties": ["n"]}, "properties = '['n']': is a list, no mapping; give {name: text}"),
        ({"properties": {1: "n"}}, "properties = '1': the name is an int; give text"),
        ({"tags": 0}, "tags = '0': is an int, and properties are text"),
        ({"store_timestamp": 1769850000.5}, "no whole number of milliseconds; give milliseconds since 1970"),
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


@pytest.mark.parametrize(
    ("act", "said"),
    [
        (lambda stub: stub.faults.busy(times=0), "times = '0': out of range; give a number of 1 or more"),
        (lambda stub: stub.faults.busy(times="3"), "times = '3': is a str, no whole number"),
        (lambda stub: stub.faults.busy(at="broker-b"), "has no broker of this name; did you mean broker-a?"),
        (lambda stub: stub.faults.busy(at="nameserver"), "did you mean name server?"),
        (lambda stub: stub.faults.busy(on="pull_message"), "did you mean PULL_MESSAGE?"),
        (lambda stub: stub.faults.busy(on=["PULL_MESSAGE"]), "does not name one request; script a fault for each"),
        (lambda stub: stub.faults.delay("100"), "ms = '100': is a str, no number of milliseconds"),
        (lambda stub: stub.faults.answer("SYSTEM_BUSY"), "code = 'SYSTEM_BUSY': is a str"),
        (lambda stub: stub.faults.broker_down(broker_id=2), "broker_id = '2': no broker has it"),
        (lambda stub: stub.faults.lose_queue("order"), "no broker has it, so it has no queue to lose; did you mean or"),
        (lambda stub: stub.expire("order", 0, 1), "broker-a has no such queue of topic order"),
        (lambda stub: stub.expire("orders", 2, 1), "queue_id = '2': broker-a has no such queue of topic orders"),
        (lambda stub: stub.clock.advance(-1), "time does not run backwards"),
        (lambda stub: stub.clock.advance("10"), "ms = '10': is a str, no number of milliseconds"),
        (lambda stub: stub.fill("orders", -1, 10), "count = '-1': out of range"),
        (lambda stub: stub.fill("orders", 1, b"body"), "is a bytes, no whole number"),
    ],
)
def test_nothing_happens_silently(act: Callable[[StubBroker], object], said: str) -> None:
    """A call that would do nothing, or would have its effect without end, is refused, and scripts no fault."""
    with StubBroker({"orders": 2}) as stub:
        assert said in str(refusal(lambda: act(stub)))
        assert repr(stub.faults) == "<Faults, 0 scripted>" and stub.topics() == {"orders": 2}


def test_topics_are_made_at_each_broker() -> None:
    """`topic` makes a topic at each broker, or returns the one that exists; another number of queues is refused."""
    with StubCluster(2) as stub:
        stub.topic("orders", 2).put(b"x")
        assert stub.topic("orders").bodies() == [b"x"] and stub.topics() == {"orders": 4}
        assert "broker-a has the topic, with 2 queues" in str(refusal(lambda: stub.topic("orders", 8)))
        assert "0 queues" in str(refusal(lambda: stub.topic("bills", 0)))
