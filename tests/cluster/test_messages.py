"""A message is sent only once, and can be found by key, unique id or offset message id."""

from __future__ import annotations

import pytest

from pyspark_rocketmq.broker_errors import SystemBusy
from pyspark_rocketmq.cluster.cluster import Cluster
from pyspark_rocketmq.cluster.messages import Sending
from pyspark_rocketmq.cluster.names import Namespace
from pyspark_rocketmq.errors import ConnectError, DecodeError
from pyspark_rocketmq.model import Address, MessageQueue
from pyspark_rocketmq.wire.codes import ResponseCode
from pyspark_rocketmq.wire.message_id import encode_offset_message_id
from pyspark_rocketmq.wire.record import Record, encode_record
from tests.cluster.scripted import ScriptedLinks, answer, cluster_of, route_of

HOST = Address("10.0.0.1", 10911)
QUEUE = MessageQueue("T", "a", -1)
SENDING = Sending(producer_group="p", queue=QUEUE, body=b"x", born_timestamp_ms=5)


def one_broker(namespace: Namespace | None = None) -> tuple[Cluster, ScriptedLinks]:
    """Return a scripted cluster with a topic at one broker."""
    links = ScriptedLinks()
    links.serve("ns:1", GET_ROUTEINFO_BY_TOPIC=route_of(a={0: "a:1"}))
    return cluster_of(links, namespace=namespace or Namespace()), links


def stored(topic: str, offset: int, properties: bytes = b"") -> bytes:
    """Return the record of a stored message; its store time grows with its offset."""
    record = Record(
        topic=topic, queue_id=1, queue_offset=offset, physical_offset=offset, born_timestamp=0, born_host=HOST,
        store_timestamp=1000 + offset, store_host=HOST, body=b"x", properties_text=properties,
    )  # fmt: skip
    return encode_record(record)


@pytest.mark.parametrize("code", [0, 10, 11, 12])
def test_a_receipt_says_where_and_how_safely(code: int) -> None:
    """If a broker stores a message with one safeguard missing, the send succeeds and returns the queue and offset."""
    cluster, links = one_broker()
    links.serve("a:1", SEND_MESSAGE_V2=answer(code, msgId="ID", queueId=3, queueOffset=7))
    receipt = cluster.messages.send(SENDING)
    assert (receipt.status, receipt.queue, receipt.queue_offset) == (code, MessageQueue("T", "a", 3), 7)


def test_a_batch_goes_out_as_one() -> None:
    """A batch is sent with its own request code and batch mark; without the mark brokers would store one message."""
    cluster, links = one_broker()
    links.serve("a:1", SEND_BATCH_MESSAGE=answer(msgId="1,2", queueId=0, queueOffset=7))
    batch = Sending(producer_group="p", queue=QUEUE, body=b"x", born_timestamp_ms=5, is_batch=True)
    assert cluster.messages.send(batch).message_id == "1,2" and links.asked("SEND_BATCH_MESSAGE")[-1]["m"] == "true"


def test_a_send_is_never_repeated() -> None:
    """If a send fails, it is not repeated even after a retriable error, since the message may be stored."""
    cluster, links = one_broker()
    links.serve("a:1", SEND_MESSAGE_V2=answer(ResponseCode.SYSTEM_BUSY), CONSUMER_SEND_MSG_BACK=answer(2))
    with pytest.raises(SystemBusy):
        cluster.messages.send(SENDING)
    with pytest.raises(SystemBusy):
        cluster.messages.send_back("g", QUEUE, 5)
    assert len(links.asked("SEND_MESSAGE_V2")) == len(links.asked("CONSUMER_SEND_MSG_BACK")) == 1


def test_a_retry_topic_needs_no_right_to_write() -> None:
    """The request for a group's retry topic names no topic, since old brokers then demand the right to write it."""
    cluster, links = one_broker(Namespace("NS"))
    links.serve("a:1", CONSUMER_SEND_MSG_BACK=answer(ResponseCode.SYSTEM_ERROR))

    cluster.messages.create_retry_topic("g", QUEUE)

    [asked] = links.asked("CONSUMER_SEND_MSG_BACK")
    assert (asked["group"], asked["offset"]) == ("NS%g", "-1")
    assert "originTopic" not in asked and "maxReconsumeTimes" not in asked


def test_a_failed_send_has_the_route_fetched_anew() -> None:
    """If a send fails, the route expires, so that the producer's next attempt finds the broker's new address."""
    cluster, links = one_broker()
    with pytest.raises(ConnectError, match="topic T, broker a"):
        cluster.messages.send(SENDING)
    links.serve("ns:1", GET_ROUTEINFO_BY_TOPIC=route_of(a={0: "new:1"}))
    links.serve("new:1", SEND_MESSAGE_V2=answer(msgId="ID", queueId=0, queueOffset=0))
    assert cluster.messages.send(SENDING).status is ResponseCode.SUCCESS


def test_only_messages_that_bear_the_key_are_found() -> None:
    """A search by key leaves out messages whose keys only share the hash, and sorts the others by store time."""
    cluster, links = one_broker(Namespace("NS"))
    rows = [
        ("NS%T", 2, b"KEYS\x01k1 k2"),
        ("NS%T", 1, b"KEYS\x01k2"),
        ("NS%T", 3, b"KEYS\x01k22"),
        ("T2", 4, b"KEYS\x01k2"),
    ]
    links.serve("a:1", QUERY_MESSAGE=answer(body=b"".join(stored(*row) for row in rows)))
    found = cluster.messages.query_by_key("T", "k2").messages
    assert [(hit.queue, hit.record.queue_offset) for hit in found] == [(MessageQueue("T", "a", 1), n) for n in (1, 2)]


@pytest.mark.parametrize(("count", "asked", "is_cut"), [(63, 100, False), (64, 100, True), (3, 3, True), (2, 3, False)])
def test_a_broker_that_returns_all_that_it_may_has_perhaps_more(count: int, asked: int, is_cut: bool) -> None:
    """A broker returns at most 64 messages for a key; messages with other keys of the same hash count, too."""
    cluster, links = one_broker()
    rows = [("T", number, b"KEYS\x01k2" if number else b"KEYS\x01other") for number in range(count)]
    links.serve("a:1", QUERY_MESSAGE=answer(body=b"".join(stored(*row) for row in rows)))

    found = cluster.messages.query_by_key("T", "k2", max_count=asked)

    assert (len(found.messages), found.is_cut) == (count - 1, is_cut)


def test_a_unique_id_is_compared_with_its_own_property() -> None:
    """A search by unique id compares only the property that holds it, and returns an empty list if nothing matches."""
    cluster, links = one_broker()
    rows = [("T", 1, b"UNIQ_KEY\x01AB"), ("T", 2, b"KEYS\x01AB")]
    links.serve("a:1", QUERY_MESSAGE=answer(body=b"".join(stored(*row) for row in rows)))
    assert [hit.record.queue_offset for hit in cluster.messages.query_by_unique_key("T", "AB")] == [1]
    links.serve("a:1", QUERY_MESSAGE=answer(ResponseCode.QUERY_NOT_FOUND))
    assert cluster.messages.query_by_unique_key("T", "AB") == []


def test_a_message_is_viewed_where_its_id_says() -> None:
    """A message is fetched from the broker whose address its offset message id holds."""
    cluster, links = one_broker()
    links.serve(str(HOST), VIEW_MESSAGE_BY_ID=answer(body=stored("T", 9)))
    assert cluster.messages.view(encode_offset_message_id(HOST, 9)).queue_offset == 9
    assert links.asked("VIEW_MESSAGE_BY_ID")[-1]["offset"] == "9"


@pytest.mark.parametrize("body", [b"", stored("T", 1) * 2, b"garbage"])
def test_an_answer_that_is_not_one_message_is_refused(body: bytes) -> None:
    """If a broker returns no message or several for one id, the error names the broker."""
    cluster, links = one_broker()
    links.serve(str(HOST), VIEW_MESSAGE_BY_ID=answer(body=body))
    with pytest.raises(DecodeError, match=f"address {HOST}"):
        cluster.messages.view(encode_offset_message_id(HOST, 9))
