"""Test the less common ways of official producers to send, and messages that a broker refuses."""

from __future__ import annotations

import pytest

from tests.real.java_clients import (
    BY_CHANCE,
    BY_HASH,
    CALLBACK,
    SELECT,
    JavaClients,
    JavaError,
    Json,
    eventually,
    message,
    queue,
)
from tests.real.java_fixtures import ScenarioServer

pytestmark = pytest.mark.real

MIB = 1024 * 1024
UNLIMITED = {"maxMessageSize": 64 * MIB, "compressMsgBodyOverHowmuch": 64 * MIB, "retryTimesWhenSendFailed": 0}


def test_broker_refuses_a_large_message(any_clients: JavaClients, topic: str, unique: str) -> None:
    """A broker refuses a message above four MiB with code 13, and such a batch with code 1."""
    producer = any_clients.producer(unique, **UNLIMITED)
    half = message(topic, "x" * (3 * MIB))

    with pytest.raises(JavaError) as too_large:
        producer.call("send", message(topic, "x" * (5 * MIB)))
    with pytest.raises(JavaError) as batch_too_large:
        producer.call("send", [half, half])

    assert (too_large.value.code, batch_too_large.value.code) == (13, 1)
    assert producer.call("send", half)["queueOffset"] == 0


def test_client_refuses_what_is_no_message(any_clients: JavaClients, topic: str, unique: str) -> None:
    """The Java client itself refuses an empty message and an invalid topic."""
    producer = any_clients.producer(unique)

    for wrong in (message(topic, ""), message("no/topic", "x"), message("SCHEDULE_TOPIC_XXXX", "x")):
        with pytest.raises(JavaError):
            producer.call("send", wrong)


def test_broker_refuses_long_properties(any_clients: JavaClients, topic: str, unique: str) -> None:
    """A broker refuses properties of more than 32767 bytes with code 13."""
    producer = any_clients.producer(unique)

    with pytest.raises(JavaError) as refused:
        producer.call("send", message(topic, "x", long="y" * 33_000))

    assert refused.value.code == 13


def test_hash_selects_one_queue_for_a_key(any_clients: JavaClients, topic: str, unique: str) -> None:
    """With the hash selector, messages of one key go to one queue, one-way sends included."""
    producer = any_clients.producer(unique)

    chosen = {
        producer.call("send", message(topic, f"m{n}"), BY_HASH, "key")["messageQueue"]["queueId"] for n in range(3)
    }
    producer.call("sendOneway", message(topic, "quiet"), BY_HASH, "key")
    random = producer.call("send", message(topic, "any"), BY_CHANCE, 0)
    quiet = any_clients.push_consumer(f"{unique}_readers", {topic: "*"})
    quiet.wait_for_bodies("quiet")

    assert len(chosen) == 1
    assert random["messageQueue"]["queueId"] in range(4)
    assert [delivery["queueId"] for delivery in quiet.deliveries if delivery["body"] == "quiet"] == list(chosen)


def test_oneway_to_a_queue(any_clients: JavaClients, topic: str, unique: str) -> None:
    """A one-way message to a given queue is stored in that queue."""
    consumer = any_clients.push_consumer(f"{unique}_readers", {topic: "*"})

    any_clients.producer(unique).call("sendOneway", message(topic, "gone"), queue(topic, "broker-a", 3))

    assert consumer.wait_for(1)[0]["queueId"] == 3


def test_callbacks_of_every_kind_of_send(any_clients: JavaClients, topic: str, unique: str) -> None:
    """A callback gets the result of a send to a queue, of one by selector, and of a batch."""
    producer, third = any_clients.producer(unique), queue(topic, "broker-a", 3)

    to_queue = producer.call("send", message(topic, "a"), third, CALLBACK)
    by_selector = producer.call("send", message(topic, "b"), SELECT, 3, CALLBACK)
    batch = producer.call("send", [message(topic, "c"), message(topic, "d")], third, CALLBACK)

    assert [sent["sendStatus"] for sent in (to_queue, by_selector, batch)] == ["SEND_OK"] * 3
    assert [sent["queueOffset"] for sent in (to_queue, by_selector, batch)] == [0, 1, 2]
    assert {sent["messageQueue"]["queueId"] for sent in (to_queue, by_selector, batch)} == {3}


@pytest.mark.parametrize("kind", ["ZLIB", "LZ4", "ZSTD"])
def test_every_compression_arrives_unpacked(clients: JavaClients, topic: str, unique: str, kind: str) -> None:
    """A compressed message is stored in far fewer bytes, and a consumer gets its original body."""
    body = "0123456789" * 2000

    clients.producer(unique, compressType=kind).call("send", message(topic, body))
    delivery = clients.push_consumer(f"{unique}_readers", {topic: "*"}).wait_for(1)[0]

    assert delivery["body"] == body
    assert delivery["storeSize"] < len(body) / 4


def test_recalled_message_is_not_delivered(
    clients: JavaClients, java_server: ScenarioServer, topic: str, unique: str
) -> None:
    """If a broker allows recalls, a recalled timer message is not delivered, while another one is."""
    clients.admin().call("updateBrokerConfig", str(java_server.broker), {"recallMessageEnable": "true"})
    consumer = clients.push_consumer(f"{unique}_readers", {topic: "*"})
    producer = clients.producer(unique)

    early = producer.call("send", message(topic, "taken back", TIMER_DELAY_MS="8000"))
    producer.call("send", message(topic, "kept", TIMER_DELAY_MS="9000"))
    recalled = producer.call("recallMessage", topic, early["recallHandle"])
    consumer.wait_for_bodies("kept")
    clients.admin().call("updateBrokerConfig", str(java_server.broker), {"recallMessageEnable": "false"})

    assert recalled == early["msgId"]
    assert consumer.bodies == ["kept"]


def test_recall_may_be_forbidden(clients: JavaClients, topic: str, unique: str) -> None:
    """By default a broker refuses to recall a message."""
    producer = clients.producer(unique)
    sent = producer.call("send", message(topic, "slow", TIMER_DELAY_MS="3000"))

    with pytest.raises(JavaError) as refused:
        producer.call("recallMessage", topic, sent["recallHandle"] or "none")

    assert refused.value.type == "MQBrokerException"


def test_selector_chooses_where_a_request_goes(any_clients: JavaClients, topic: str, unique: str) -> None:
    """A request message that a selector sends to any of the four queues gets its reply.

    The test uses a callback, because without one release 5.3.3 does not find the reply.
    """
    replier = any_clients.producer(f"{unique}_replier")
    any_clients.push_consumer(f"{unique}_readers", {topic: "*"}, {"ping": [{"reply": "pong"}]}, replier=replier)
    requester = any_clients.producer(unique)

    for queue_id in range(4):
        assert requester.call("request", message(topic, "ping"), SELECT, queue_id, CALLBACK, 20_000)["body"] == "pong"


def test_late_reply_is_ignored(any_clients: JavaClients, topic: str, unique: str) -> None:
    """If a reply comes after the timeout of its request, the next request still gets its own reply."""
    replier = any_clients.producer(f"{unique}_replier")
    script: dict[str, list[Json]] = {"slow": [{"waitMs": 6000, "reply": "too late"}], "quick": [{"reply": "in time"}]}
    any_clients.push_consumer(f"{unique}_readers", {topic: "*"}, script, replier=replier)
    requester = any_clients.producer(unique)

    with pytest.raises(JavaError) as unanswered:
        requester.call("request", message(topic, "slow"), CALLBACK, 4000)

    assert unanswered.value.type == "RequestTimeoutException"
    assert requester.call("request", message(topic, "quick"), CALLBACK, 20_000)["body"] == "in time"


def test_producer_asks_about_queues(any_clients: JavaClients, topic: str, unique: str) -> None:
    """A producer reads bounds and times of a queue and finds messages, as an admin client does."""
    producer, first = any_clients.producer(unique), queue(topic, "broker-a", 0)
    sent = producer.call("send", message(topic, "a", KEYS="k"), first)

    eventually(lambda: producer.call("maxOffset", first) == 1, "the message is dispatched to its queue")
    assert producer.call("minOffset", first) == 0
    assert producer.call("searchOffset", first, 0) == 0
    assert producer.call("earliestMsgStoreTime", first) > 0
    assert producer.call("viewMessage", topic, sent["offsetMsgId"])["body"] == "a"
    found = eventually(lambda: producer.call("queryMessage", topic, "k", 8, 0, 2**52), "the key is indexed")
    assert [hit["body"] for hit in found["messageList"]] == ["a"]


def test_producer_makes_a_topic(any_clients: JavaClients, topic: str, unique: str) -> None:
    """A producer creates a topic on the brokers of an existing topic."""
    producer = any_clients.producer(f"{unique}_producers")
    attributes: list[Json] = [{}] if any_clients.version == "5.3.3" else []

    producer.call("createTopic", topic, f"{unique}_made", 3, *attributes)
    made = eventually(lambda: producer.call("fetchPublishMessageQueues", f"{unique}_made"), "the new topic is routed")

    assert sorted(each["queueId"] for each in made) == [0, 1, 2]
