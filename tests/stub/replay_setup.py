"""Bring a stub into the state that the real server had before a recorded conversation.

Most of the state is derived from the conversation: its topics and groups, the number of messages in a queue before the
first response about it, and their contents. `_EXTRA` adds the rest by hand.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace

from broker_stub import StubBroker
from broker_stub.group_tables import Member
from broker_stub.state import Broker
from broker_stub.store import InnerMessage
from broker_stub.topic_table import READ_WRITE, WRITABLE
from pyspark_rocketmq.wire.bodies import ConsumerData, TopicConfig
from pyspark_rocketmq.wire.codes import LanguageCode, RequestCode
from pyspark_rocketmq.wire.properties import decode_properties
from pyspark_rocketmq.wire.record import Record

from .recording_channel import RecordingChannel
from .recordings import (
    PULLS,
    REPLIES,
    SENDS,
    Exchange,
    absent_topics,
    by_time,
    mentioned_topics,
    response_records,
    routes,
    start_ms,
)

Queue = tuple[str, int]

# Number of queues of topics for which no conversation contains a route.
_QUEUES = {"GoldCo": 2, "GoldOff": 2, "GoldLock": 2}
_GROUPS_THAT_ARE_ABSENT = ("gold_group_never_seen", "gold_never_seen", "gold_nohb", "gold_sg")


def prepare(stub: StubBroker, name: str, exchanges: tuple[Exchange, ...], folder: str = "") -> None:
    """Bring a stub and its clock into the state at the start of the conversation `name`."""

    def act() -> None:
        broker = stub.state.brokers[0]
        broker.clock.jump(start_ms(exchanges) - broker.clock.now_ms())
        _make_topics(broker, exchanges, folder)
        _make_groups(broker, exchanges)
        _put_messages(broker, exchanges)
        if extra := _EXTRA.get(f"{folder}/{name}" if folder else name):
            extra(broker)

    stub.run(act)


def _make_topics(broker: Broker, exchanges: tuple[Exchange, ...], folder: str) -> None:
    known = {**routes(folder), **routes()}
    for topic in mentioned_topics(exchanges) - absent_topics(exchanges):
        if topic.startswith(("Gold", "%RETRY%gold_srt")) and broker.topics.find(topic) is None:
            queues = _QUEUES.get(topic, 1)
            read, write, perm = known.get(topic, (queues, queues, READ_WRITE))
            broker.topics.create(
                TopicConfig(topic_name=topic, read_queue_nums=read, write_queue_nums=write, perm=perm, attributes={})
            )


def _make_groups(broker: Broker, exchanges: tuple[Exchange, ...]) -> None:
    for exchange in exchanges:
        group = (exchange.request.fields or {}).get("consumerGroup")
        if group and group not in _GROUPS_THAT_ARE_ABSENT:
            broker.group_configs.find(group)


# --- messages --------------------------------------------------------------------------------------------------------


def _put_messages(broker: Broker, exchanges: tuple[Exchange, ...]) -> None:
    contents = {(r.topic, r.queue_id, r.queue_offset): r for exchange in exchanges for r in response_records(exchange)}
    for (topic, queue_id), end in _ends_before(exchanges).items():
        for offset in range(end):
            _put(broker, topic, queue_id, contents.get((topic, queue_id, offset)))
    for exchange in exchanges:
        if (low := int(exchange.response_field("minOffset") or 0)) > 0:
            broker.store.expire(exchange.topic, exchange.queue_id, low)


def _ends_before(exchanges: tuple[Exchange, ...]) -> dict[Queue, int]:
    """Return the maximum offset of each queue at the start, derived from the first response that shows it."""
    ends: dict[Queue, int] = {}
    sent: defaultdict[Queue, int] = defaultdict(int)
    for is_response, exchange in by_time(exchanges):
        queue = exchange.topic, exchange.queue_id
        if is_response and ("Gold" in exchange.topic or exchange.topic.endswith("_REPLY_TOPIC")):
            if (end := _end_shown(exchange)) is not None:
                ends.setdefault(queue, end - sent[queue])
            if exchange.request.code in SENDS | REPLIES and exchange.response_field("msgId"):
                sent[queue] += (exchange.response_field("msgId") or "").count(",") + 1
    return ends


def _end_shown(exchange: Exchange) -> int | None:
    """Return the maximum offset that a response shows for its queue; None if it shows none."""
    if exchange.request.code in SENDS | REPLIES and exchange.response_field("msgId"):
        return 0 if exchange.is_in_system_topic else int(exchange.response_field("queueOffset") or 0)
    if exchange.request.code in PULLS and exchange.response_field("maxOffset"):
        return int(exchange.response_field("maxOffset") or 0)
    if exchange.request.code == RequestCode.GET_MAX_OFFSET:
        return int(exchange.response_field("offset") or 0)
    return None


def _put(broker: Broker, topic: str, queue_id: int, record: Record | None) -> None:
    if record is None:
        before_ms = broker.clock.now_ms() - 10
        broker.store.put(InnerMessage(topic, queue_id, b"before", {"TAGS": "before"}, store_timestamp=before_ms))
        return
    broker.store.put(
        InnerMessage(
            topic,
            queue_id,
            record.body,
            decode_properties(record.properties_text),
            flag=record.flag,
            sys_flag=record.sys_flag,
            born_timestamp=record.born_timestamp,
            born_host=record.born_host,
            store_timestamp=record.store_timestamp,
            raw_properties=record.properties_text,
        )
    )


# --- state that no conversation shows --------------------------------------------------------------------------------


def _committed_message(broker: Broker) -> None:
    broker.store.put(InnerMessage("GoldCo", 0, b"first"))


def _write_only(broker: Broker) -> None:
    config = broker.topics.find("GoldWriteOnly")
    assert config
    broker.topics.create(replace(config, perm=WRITABLE))


def _consumed(broker: Broker) -> None:
    for queue_id in (0, 1):
        for _ in range(3):
            broker.store.put(InnerMessage("GoldPush", queue_id, b"consumed"))
        broker.offsets.commit("gold_push", "GoldPush", queue_id, 3)
        broker.offsets.record_pull("gold_push", "GoldPush", queue_id, 3)


def _consumed_by_strangers(broker: Broker) -> None:
    _consumed(broker)
    broker.topics.find_or_create("GoldCo", 2)
    for queue_id in (0, 1):
        broker.offsets.commit("gold_group_never_seen", "GoldCo", queue_id, 1)


def _member(broker: Broker) -> None:
    data = ConsumerData(
        group_name="gold_hb",
        consume_type="CONSUME_PASSIVELY",
        message_model="CLUSTERING",
        consume_from_where="CONSUME_FROM_LAST_OFFSET",
    )
    broker.consumer_groups.heartbeat(Member(RecordingChannel(), "127.0.0.1@hb1", LanguageCode.JAVA, 479), data)


def _producer(broker: Broker) -> None:
    member = Member(RecordingChannel(), "127.0.0.1@gold-gold_shared-1", LanguageCode.JAVA, 479)
    broker.producer_groups.heartbeat(member, "gold_shared")


_EXTRA: dict[str, Callable[[Broker], None]] = {
    "consumer_offset": _committed_message,
    "binary_request_consumer_offset": _committed_message,
    "binary_both_consumer_offset": _committed_message,
    "pull_writeonly_topic": _write_only,
    "consume_stats": _consumed,
    "topic_stats": _consumed,
    "4.9.7/consume_stats": _consumed_by_strangers,
    "4.9.7/query_topic_consume_by_who": _consumed,
    "4.9.7/consumer_offset": _committed_message,
    "4.9.7/connections_and_reset_offset": _producer,
    "4.9.7/pull_writeonly_topic": _write_only,
    "query_topic_consume_by_who": _consumed,
    "consumer_list": _member,
    "binary_request_consumer_list": _member,
    "binary_both_consumer_list": _member,
    "connections_and_reset_offset": _producer,
}
