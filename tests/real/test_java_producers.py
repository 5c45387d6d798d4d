"""Test the official producers on a real broker and on the stub."""

from __future__ import annotations

from typing import Any

import pytest

from tests.real.java_clients import (
    CALLBACK,
    SELECT,
    JavaClients,
    JavaError,
    eventually,
    message,
    queue,
)
from tests.real.java_fixtures import ScenarioServer

pytestmark = pytest.mark.real


def test_sync_send_says_where_the_message_is(any_clients: JavaClients, topic: str, unique: str) -> None:
    """The result of a send names queue and offset, and a consumer gets the message as it was sent."""
    producer = any_clients.producer(unique)
    sent = {**message(topic, "hällo", TAGS="red", KEYS="k1 k2", colour="grün"), "flag": 7}

    results = [producer.call("send", sent, queue(topic, "broker-a", 2)) for _ in range(3)]
    delivery = any_clients.push_consumer(f"{unique}_readers", {topic: "*"}).wait_for(3)[0]

    assert [result["sendStatus"] for result in results] == ["SEND_OK"] * 3
    assert [result["queueOffset"] for result in results] == [0, 1, 2]
    assert len({result["msgId"] for result in results}) == 3
    assert {key: delivery[key] for key in ("body", "tags", "keys", "flag", "queueId")} == {
        "body": "hällo",
        "tags": "red",
        "keys": "k1 k2",
        "flag": 7,
        "queueId": 2,
    }
    assert delivery["properties"]["colour"] == "grün"
    assert {delivery["msgId"], delivery["offsetMsgId"]} <= {r[key] for r in results for key in ("msgId", "offsetMsgId")}


def test_async_send_calls_back(any_clients: JavaClients, topic: str, unique: str) -> None:
    """The callback of an asynchronous send gets queue and offset, as a synchronous send returns them."""
    producer = any_clients.producer(unique)

    result = producer.call("send", message(topic, "later"), CALLBACK)

    assert (result["sendStatus"], result["queueOffset"]) == ("SEND_OK", 0)
    assert result["messageQueue"]["topic"] == topic


def test_oneway_send_arrives(any_clients: JavaClients, topic: str, unique: str) -> None:
    """A one-way message is stored and delivered."""
    consumer = any_clients.push_consumer(f"{unique}_readers", {topic: "*"})

    assert any_clients.producer(unique).call("sendOneway", message(topic, "gone")) is None

    assert consumer.wait_for(1)[0]["body"] == "gone"


def test_batch_lands_in_one_queue(any_clients: JavaClients, topic: str, unique: str) -> None:
    """The messages of a batch go to one queue with consecutive offsets, and keep their own ids and tags."""
    batch = [message(topic, f"b{n}", TAGS=f"t{n}") for n in range(3)]

    result = any_clients.producer(unique).call("send", batch)
    deliveries = any_clients.push_consumer(f"{unique}_readers", {topic: "*"}).wait_for(3)

    assert len(result["msgId"].split(",")) == len(result["offsetMsgId"].split(",")) == 3
    assert {delivery["queueId"] for delivery in deliveries} == {result["messageQueue"]["queueId"]}
    found = sorted((delivery["queueOffset"], delivery["body"], delivery["tags"]) for delivery in deliveries)
    assert found == [(0, "b0", "t0"), (1, "b1", "t1"), (2, "b2", "t2")]


def test_selector_keeps_the_order_of_a_key(any_clients: JavaClients, topic: str, unique: str) -> None:
    """If a selector sends each key to one queue, an orderly consumer gets each key's messages in order."""
    producer = any_clients.producer(unique)

    for step in range(4):
        for key in range(3):
            producer.call("send", message(topic, f"{key}-{step}"), SELECT, key)
    deliveries = any_clients.push_consumer(f"{unique}_readers", {topic: "*"}, orderly=True).wait_for(12)

    for key in range(3):
        of_key = [delivery for delivery in deliveries if delivery["body"].startswith(f"{key}-")]
        assert [delivery["body"] for delivery in of_key] == [f"{key}-{step}" for step in range(4)]
        assert {delivery["queueId"] for delivery in of_key} == {key}


def test_delay_level_holds_a_message_back(any_clients: JavaClients, topic: str, unique: str) -> None:
    """A message with a delay level is stored in its topic after the delay of that level, here a second."""
    consumer = any_clients.push_consumer(f"{unique}_readers", {topic: "*"})

    any_clients.producer(unique).call("send", message(topic, "slow", DELAY="3"))
    delivery = consumer.wait_for(1)[0]

    assert delivery["topic"] == topic
    assert delivery["storeTimestamp"] - delivery["bornTimestamp"] >= 1000
    assert (delivery["properties"]["DELAY"], delivery["properties"]["REAL_TOPIC"]) == ("3", topic)


def test_timer_holds_a_message_back(clients: JavaClients, topic: str, unique: str) -> None:
    """A timer message of 5.x is delivered at its time, to within a second."""
    consumer = clients.push_consumer(f"{unique}_readers", {topic: "*"})

    clients.producer(unique).call("send", message(topic, "alarm", TIMER_DELAY_MS="3000"))
    delivery = consumer.wait_for(1)[0]

    assert delivery["storeTimestamp"] - delivery["bornTimestamp"] >= 2000
    assert delivery["properties"]["REAL_TOPIC"] == topic


def test_timer_too_far_ahead_is_refused(clients: JavaClients, topic: str, unique: str) -> None:
    """A broker refuses a timer message of more than three days with code 13."""
    producer = clients.producer(unique)
    month_ms = 30 * 24 * 3600 * 1000

    with pytest.raises(JavaError) as refused:
        producer.call("send", message(topic, "never", TIMER_DELAY_MS=str(month_ms)))

    assert refused.value.code == 13


def outcomes(*states: str) -> list[dict[str, Any]]:
    """Return a script for a transaction listener: the outcome of the local transaction, then of each check."""
    return [{"status": state} for state in states]


def test_transactions_end_as_the_listener_says(any_clients: JavaClients, topic: str, unique: str) -> None:
    """A committed message is delivered, a rolled back one is not, and an open one as its check decides.

    A loaded broker may check a transaction that has already ended, and then deliver its message twice.
    """
    script = {
        "yes": outcomes("COMMIT_MESSAGE"),
        "no": outcomes("ROLLBACK_MESSAGE"),
        "asked": outcomes("UNKNOW", "COMMIT_MESSAGE"),
        "asked in vain": outcomes("UNKNOW", "ROLLBACK_MESSAGE"),
    }
    producer = any_clients.transaction_producer(unique, script)
    consumer = any_clients.push_consumer(f"{unique}_readers", {topic: "*"})

    results = {body: producer.call("sendMessageInTransaction", message(topic, body), None) for body in script}
    any_clients.wait(lambda: len(producer.checks) >= 2, "both unknown transactions are asked about")
    any_clients.wait(lambda: len(set(consumer.bodies)) == 2, "both committed transactions are delivered")

    assert {body: r["localTransactionState"] for body, r in results.items()} == {
        body: script[body][0]["status"] for body in script
    }
    assert {"asked", "asked in vain"} <= {check["body"] for check in producer.checks}
    assert set(consumer.bodies) == {"asked", "yes"}
    assert {delivery["topic"] for delivery in consumer.deliveries} == {topic}


def test_large_body_is_compressed_on_the_way(any_clients: JavaClients, topic: str, unique: str) -> None:
    """A large message is stored in far fewer bytes, and a consumer gets its original body."""
    body = "0123456789" * 2000

    any_clients.producer(unique).call("send", message(topic, body))
    delivery = any_clients.push_consumer(f"{unique}_readers", {topic: "*"}).wait_for(1)[0]

    assert delivery["body"] == body
    assert delivery["storeSize"] < len(body) / 4


def test_unknown_topic_is_made(any_clients: JavaClients, unique: str) -> None:
    """The first message to an unknown topic creates the topic with four queues, the producer's default."""
    producer = any_clients.producer(unique)

    result = producer.call("send", message(unique, "first"))
    queues = eventually(lambda: producer.call("fetchPublishMessageQueues", unique), "the new topic is routed")

    assert result["queueOffset"] == 0
    assert sorted(found["queueId"] for found in queues) == [0, 1, 2, 3]


def test_request_is_answered_by_a_consumer(any_clients: JavaClients, topic: str, unique: str) -> None:
    """A request message gets the reply that a consumer's listener sends."""
    replier = any_clients.producer(f"{unique}_replier")
    any_clients.push_consumer(f"{unique}_readers", {topic: "*"}, {"ping": [{"reply": "pong"}]}, replier=replier)

    reply = any_clients.producer(unique).call("request", message(topic, "ping"), CALLBACK, 20_000)

    assert reply["body"] == "pong"
    assert reply["properties"]["MSG_TYPE"] == "reply"


def test_request_without_an_answer_times_out(any_clients: JavaClients, topic: str, unique: str) -> None:
    """A request message without a reply fails after the requester's timeout."""
    with pytest.raises(JavaError) as unanswered:
        any_clients.producer(unique).call("request", message(topic, "anybody?"), CALLBACK, 4000)

    assert unanswered.value.type == "RequestTimeoutException"


def test_trace_tells_of_the_send(clients: JavaClients, topic: str, unique: str) -> None:
    """If message trace is on, a producer records its send in the trace topic."""
    tracer = clients.producer(unique, True, None)
    reader = clients.push_consumer(f"{unique}_readers", {"RMQ_SYS_TRACE_TOPIC": "*"})

    result = tracer.call("send", message(topic, "watched"))

    def traces() -> list[str]:
        return [body for body in reader.bodies if result["msgId"] in body]

    clients.wait(lambda: bool(traces()), "the send is traced")
    assert traces()[0].startswith("Pub")
    assert topic in traces()[0]


def test_namespaces_keep_names_apart(any_clients: JavaClients, java_server: ScenarioServer, unique: str) -> None:
    """The same topic name in two namespaces is two topics; consumers see the name without namespace."""
    for space in ("one", "two"):
        java_server.create_topic(f"{space}%{unique}", queues=1)
    first, second = (
        any_clients.push_consumer(f"{unique}_readers", {unique: "*"}, namespace=space) for space in ("one", "two")
    )

    any_clients.producer(unique, namespace="one").call("send", message(unique, "in one"))
    any_clients.producer(unique, namespace="two").call("send", message(unique, "in two"))

    assert [(delivery["topic"], delivery["body"]) for delivery in first.wait_for(1)] == [(unique, "in one")]
    assert [(delivery["topic"], delivery["body"]) for delivery in second.wait_for(1)] == [(unique, "in two")]


def test_namespace_of_the_second_kind_travels_beside(clients: JavaClients, topic: str, unique: str) -> None:
    """With a v2 namespace, which is only a header field that brokers ignore, sender and reader use the plain topic."""
    consumer = clients.push_consumer(f"{unique}_readers", {topic: "*"}, namespaceV2="aside")

    clients.producer(unique, namespaceV2="aside").call("send", message(topic, "same topic"))

    assert consumer.wait_for(1)[0]["topic"] == topic


def test_binary_headers_serve_as_well(java_server: ScenarioServer, topic: str, unique: str) -> None:
    """Clients that use RocketMQ's binary headers instead of JSON send and consume as others do."""
    with JavaClients("5.3.3", java_server.name_server, **{"rocketmq.serialize.type": "ROCKETMQ"}) as clients:
        consumer = clients.push_consumer(f"{unique}_readers", {topic: "*"})

        result = clients.producer(unique).call("send", message(topic, "binary", colour="red"))
        delivery = consumer.wait_for(1)[0]

    assert result["sendStatus"] == "SEND_OK"
    assert (delivery["body"], delivery["properties"]["colour"]) == ("binary", "red")
