"""Run the official Python client against a gRPC endpoint, and print as JSON the messages that it received.

It runs in a process of its own, because importing the client writes log files to the home directory and starts threads.
"""

from __future__ import annotations

import importlib
import json
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

client: Any = importlib.import_module("rocketmq")
TOPIC, GROUP = "T", "g"
TIMEOUT_S = 50.0


def make_configuration(endpoints: str, access_key: str = "", secret: str = "") -> Any:
    """Return the official client's configuration for an endpoint and credentials."""
    return client.ClientConfiguration(endpoints, client.Credentials(access_key, secret))


def make_message(body: str, **fields: Any) -> Any:
    """Return a message with this body for the test topic."""
    message = client.Message()
    message.topic, message.body = TOPIC, body.encode()
    for name, value in fields.items():
        setattr(message, name, value)
    return message


def receive(consumer: Any, count: int) -> list[Any]:
    """Receive and acknowledge messages until there are `count` or the time is up; return them."""
    deadline = time.monotonic() + TIMEOUT_S
    messages: list[Any] = []
    while len(messages) < count and time.monotonic() < deadline:
        for message in consumer.receive(32, 15):
            consumer.ack(message)
            messages.append(message)
    return messages


def describe(message: Any) -> dict[str, Any]:
    """Return the parts of a received message that the test compares."""
    return {
        "body": message.body.decode(),
        "tag": message.tag,
        "keys": sorted(message.keys or ()),
        "properties": dict(message.properties or {}),
        "group": message.message_group,
        "attempt": message.delivery_attempt,
        "corrupted": message.corrupted,
    }


def send_and_receive(endpoints: str, *credentials: str) -> Any:
    """Send a plain, a grouped and a delayed message, receive and acknowledge them; return ids and descriptions."""
    configuration = make_configuration(endpoints, *credentials)
    producer = client.Producer(configuration, (TOPIC,))
    producer.startup()
    plain = make_message("plain", tag="new", keys="k1")
    plain.add_property("a", "b")
    soon = make_message("delayed", delivery_timestamp=int(time.time()) + 1)
    receipts = [producer.send(message) for message in (plain, make_message("grouped", message_group="x"), soon)]
    consumer = client.SimpleConsumer(configuration, GROUP, {TOPIC: client.FilterExpression()}, 5)
    consumer.startup()
    received = receive(consumer, 3)
    consumer.shutdown()
    producer.shutdown()
    return {
        "sent": [receipt.message_id for receipt in receipts],
        "received": sorted((describe(message) for message in received), key=lambda seen: str(seen["body"])),
        "ids": sorted(message.message_id for message in received),
    }


def transact(endpoints: str) -> Any:
    """Commit a transaction, roll one back, leave one open; return the bodies of the messages that the broker checks."""

    class Checker(client.TransactionChecker):  # type: ignore[misc]  # the client ships no types
        def check(self, message: Any) -> Any:
            requests.append(message.body.decode())
            answered.set()
            return client.TransactionResolution.COMMIT

    requests: list[str] = []
    answered = threading.Event()
    producer = client.Producer(make_configuration(endpoints), (TOPIC,), checker=Checker())
    producer.startup()
    for body, end in (("committed", "commit"), ("rolled back", "rollback"), ("forgotten", None)):
        transaction = producer.begin_transaction()
        producer.send(make_message(body), transaction)
        if end:
            getattr(transaction, end)()
    print("sent", flush=True)
    answered.wait(TIMEOUT_S)
    sys.stdin.readline()
    producer.shutdown()
    return requests


def push(endpoints: str) -> Any:
    """Receive two messages with a push consumer, and return their bodies."""

    class Listener(client.MessageListener):  # type: ignore[misc]  # the client ships no types
        def consume(self, message: Any) -> Any:
            bodies.append(message.body.decode())
            if len(bodies) == 2:
                done.set()
            return client.ConsumeResult.SUCCESS

    bodies: list[str] = []
    done = threading.Event()
    consumer = client.PushConsumer(make_configuration(endpoints), GROUP, Listener(), {TOPIC: client.FilterExpression()})
    consumer.startup()
    done.wait(TIMEOUT_S)
    consumer.shutdown()
    return sorted(bodies)


SCENARIOS: dict[str, Callable[..., Any]] = {"send_and_receive": send_and_receive, "transact": transact, "push": push}

if __name__ == "__main__":
    print(json.dumps(SCENARIOS[sys.argv[1]](*sys.argv[2:])), flush=True)
