"""Send single messages to brokers, and look up single messages.

Requests that store something are never repeated here, since a send without a response may have succeeded. Producers
decide whether to repeat it, and at which broker. An error that says that the route is stale expires the route.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from ..broker_errors import QueryNotFound
from ..errors import DecodeError, located
from ..model import MessageQueue
from ..net.deadline import Deadline
from ..wire.codes import ResponseCode
from ..wire.commands import (
    ConsumerSendMsgBackRequestHeader,
    EndTransactionRequestHeader,
    QueryMessageRequestHeader,
    RecallMessageRequestHeader,
    RecallMessageResponseHeader,
    RequestHeader,
    SendBatchMessageRequestHeader,
    SendHeaderV2,
    SendMessageRequestHeaderV2,
    SendMessageResponseHeader,
    ViewMessageRequestHeader,
)
from ..wire.message_id import decode_offset_message_id
from ..wire.record import Record, decode_records
from .broker import Brokers, RoutedRequest
from .servers import OK, Reply
from .writable import MOST_NEW_QUEUES, TEMPLATE_TOPIC

STORED = OK | {ResponseCode.FLUSH_DISK_TIMEOUT, ResponseCode.SLAVE_NOT_AVAILABLE, ResponseCode.FLUSH_SLAVE_TIMEOUT}
"""Response codes with which a message is stored; all but SUCCESS mean that a flush or a replica's copy is missing."""

MOST_BY_KEY = 64
"""The most messages that a broker returns for a key, however many are asked for (maxMsgsNumBatch)."""
LATEST_MS = 2**63 - 1
_NOWHERE = -1
"""An offset of the commit log at which no message lies."""
_UNIQUE_KEY_COUNT = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Sending:
    """A message in its final form, or the encoded messages of a batch, to be stored in a queue."""

    producer_group: str
    queue: MessageQueue
    body: bytes
    properties: str = ""
    """The encoded properties of the message, or of the batch as a whole."""
    born_timestamp_ms: int
    sys_flag: int = 0
    flag: int = 0
    is_batch: bool = False
    reconsume_times: int = 0
    max_reconsume_times: int | None = None
    queue_count_if_new: int = MOST_NEW_QUEUES
    route_topic: str = ""
    """The topic whose route names the broker; set if the queue's own topic does not exist yet and has no route."""


class Receipt(NamedTuple):
    """The queue and offset at which a broker stored a message; `status` is one of the codes in `STORED`."""

    status: ResponseCode
    message_id: str
    """The offset message id; for a batch, all ids joined by commas."""
    queue: MessageQueue
    queue_offset: int
    """The offset of the message, or of the first message of a batch."""
    transaction_id: str | None = None
    recall_handle: str | None = None
    may_be_doubled: bool = False
    """Whether an earlier attempt got no response, so that the message may be stored twice, with one id."""


class FoundMessage(NamedTuple):
    """A message that was looked up, with the queue that holds it."""

    queue: MessageQueue
    record: Record


class FoundByKey(NamedTuple):
    """The messages with a key."""

    messages: list[FoundMessage]
    """Sorted by store time."""
    is_cut: bool
    """Whether a broker returned as many as it may, so that it may have more; it returns the latest ones."""


class Messages:
    """Requests that send and look up single messages."""

    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers
        self._namespace = brokers.settings.namespace

    # --- storing -----------------------------------------------------------------------------------------------------

    def send(self, sending: Sending, deadline: Deadline | None = None) -> Receipt:
        """Store a message or a batch, and return where it was stored."""
        reply = self._brokers.ask_once(_send_request(sending), welcome=STORED, deadline=deadline)
        stored = reply.header(SendMessageResponseHeader)
        return Receipt(
            ResponseCode(reply.command.code),
            stored.msg_id,
            sending.queue._replace(queue_id=stored.queue_id),
            stored.queue_offset,
            stored.transaction_id,
            stored.recall_handle,
        )

    def send_oneway(self, sending: Sending, deadline: Deadline | None = None) -> None:
        """Send a message or a batch without waiting for a response."""
        self._brokers.tell_once(_send_request(sending), deadline=deadline)

    def send_back(
        self,
        group: str,
        queue: MessageQueue,
        physical_offset: int,
        *,
        delay_level: int = 0,
        origin_message_id: str | None = None,
        max_reconsume_times: int | None = None,
        deadline: Deadline | None = None,
    ) -> None:
        """Let a broker deliver the message at `physical_offset` of its commit log to the group again.

        `delay_level` chooses the delay: 0 lets the broker decide, and -1 sends the message to the dead-letter topic
        instead.
        """
        request = send_back_request(
            group,
            queue.topic,
            queue.broker_name,
            physical_offset,
            delay_level=delay_level,
            origin_message_id=origin_message_id,
            max_reconsume_times=max_reconsume_times,
        )
        self._brokers.ask_once(request, deadline=deadline)

    def create_retry_topic(self, group: str, queue: MessageQueue, deadline: Deadline | None = None) -> None:
        """Let the broker of a queue create the group's retry topic if it is missing; do not wait for the broker.

        Brokers create it for a message that is sent back, before they look for this message; this one does not exist,
        so nothing is stored. Consumers may do this without the rights of an administrator. The request names no topic:
        some brokers before 4.9.7 demand the right to write the one that it names.
        """
        header = ConsumerSendMsgBackRequestHeader(offset=_NOWHERE, group=group, delay_level=0, unit_mode=False)
        self._brokers.tell_once(RoutedRequest(queue.topic, queue.broker_name, header), deadline=deadline)

    def end_transaction(
        self, broker_name: str, header: EndTransactionRequestHeader, deadline: Deadline | None = None
    ) -> None:
        """Commit or roll back a half message; brokers do not respond to this request."""
        self._brokers.tell_once(RoutedRequest(header.topic or "", broker_name, header), deadline=deadline)

    def recall(
        self, producer_group: str, topic: str, broker_name: str, handle: str, deadline: Deadline | None = None
    ) -> str:
        """Recall a timed message before its delivery, and return its unique id."""
        header = RecallMessageRequestHeader(producer_group=producer_group, topic=topic, recall_handle=handle)
        request = RoutedRequest(topic, broker_name, header)
        return self._brokers.ask_once(request, deadline=deadline).header(RecallMessageResponseHeader).msg_id

    # --- looking up --------------------------------------------------------------------------------------------------

    def query_by_key(
        self,
        topic: str,
        key: str,
        *,
        max_count: int = MOST_BY_KEY,
        begin_ms: int = 0,
        end_ms: int = LATEST_MS,
        deadline: Deadline | None = None,
    ) -> FoundByKey:
        """Return the latest messages with a key, at most `max_count` from each broker, and whether there may be more.

        A broker returns at most 64, or as many as its maxMsgsNumBatch says.
        """
        header = QueryMessageRequestHeader(
            topic=topic, key=key, max_num=max_count, begin_timestamp=begin_ms, end_timestamp=end_ms,
            index_type="K", unique_key_query=False,
        )  # fmt: skip
        found = self._query(topic, header, deadline)
        is_cut = any(len(records) >= min(max_count, MOST_BY_KEY) for records in found.values())
        return FoundByKey(_choose(found, topic, lambda record: key in _keys_of(record)), is_cut)

    def query_by_unique_key(self, topic: str, unique_key: str, deadline: Deadline | None = None) -> list[FoundMessage]:
        """Return the message with this unique id, and copies of it for retries, sorted by store time."""
        header = QueryMessageRequestHeader(
            topic=topic, key=unique_key, max_num=_UNIQUE_KEY_COUNT, begin_timestamp=0, end_timestamp=LATEST_MS,
            index_type="U", unique_key_query=True,
        )  # fmt: skip
        found = self._query(topic, header, deadline)
        return _choose(found, topic, lambda record: record.properties.get("UNIQ_KEY") == unique_key)

    def view(self, message_id: str, topic: str | None = None, deadline: Deadline | None = None) -> Record:
        """Return the message with this offset message id, from the broker whose address the id holds."""
        store_host, physical_offset = decode_offset_message_id(message_id)
        address = self._brokers.settings.address_map.reach(store_host)
        reply = self._brokers.ask_at(
            address, ViewMessageRequestHeader(offset=physical_offset, topic=topic), deadline=deadline
        )
        records = self._records(reply)
        if len(records) != 1:
            what = f"the broker returned {len(records)} messages for one message id"
            advice = "check that the id is of a message of this cluster"
            raise DecodeError(what, advice=advice, **reply.request.where())
        return records[0]

    # --- replies -----------------------------------------------------------------------------------------------------

    def _query(self, topic: str, header: RequestHeader, deadline: Deadline | None) -> dict[str, list[Record]]:
        """Return the messages that each broker finds, by the hash of a key."""
        replies = self._brokers.ask_each(topic, header, absent=(QueryNotFound,), any_copy=True, deadline=deadline)
        return {broker_name: self._records(reply) for broker_name, reply in replies.items()}

    def _records(self, reply: Reply) -> list[Record]:
        """Return the stored messages in a reply; their topics have the user's names."""
        with located(reply.request.where()):
            records = decode_records(reply.command.body)
        return [replace(record, topic=self._namespace.unwrap(record.topic)) for record in records]


def _choose(
    found: Mapping[str, Iterable[Record]], topic: str, is_meant: Callable[[Record], bool]
) -> list[FoundMessage]:
    """Return the messages that `is_meant` accepts: brokers search by a hash and may return other messages."""
    chosen = [
        FoundMessage(MessageQueue(record.topic, broker_name, record.queue_id), record)
        for broker_name, records in found.items()
        for record in records
        if record.topic == topic and is_meant(record)
    ]
    return sorted(chosen, key=lambda each: each.record.store_timestamp)


def _keys_of(record: Record) -> list[str]:
    return record.properties.get("KEYS", "").split(" ")


def send_back_request(
    group: str,
    topic: str,
    broker_name: str,
    physical_offset: int,
    *,
    delay_level: int = 0,
    origin_message_id: str | None = None,
    max_reconsume_times: int | None = None,
) -> RoutedRequest:
    """Return the request for `Messages.send_back`, for callers that send many at once."""
    header = ConsumerSendMsgBackRequestHeader(
        offset=physical_offset,
        group=group,
        delay_level=delay_level,
        origin_msg_id=origin_message_id,
        origin_topic=topic,
        unit_mode=False,
        max_reconsume_times=max_reconsume_times,
    )
    return RoutedRequest(topic, broker_name, header)


def send_header(sending: Sending) -> SendHeaderV2:
    """Return the header of the request that stores a message or a batch; its fields have names of one letter."""
    kind = SendBatchMessageRequestHeader if sending.is_batch else SendMessageRequestHeaderV2
    return kind(
        producer_group=sending.producer_group,
        topic=sending.queue.topic,
        default_topic=TEMPLATE_TOPIC,
        default_topic_queue_nums=sending.queue_count_if_new,
        queue_id=sending.queue.queue_id,
        sys_flag=sending.sys_flag,
        born_timestamp=sending.born_timestamp_ms,
        flag=sending.flag,
        properties=sending.properties,
        reconsume_times=sending.reconsume_times,
        unit_mode=False,
        max_reconsume_times=sending.max_reconsume_times,
        batch=sending.is_batch,
    )


def _send_request(sending: Sending) -> RoutedRequest:
    """Return the request that stores a message or a batch."""
    topic = sending.route_topic or sending.queue.topic
    return RoutedRequest(topic, sending.queue.broker_name, send_header(sending), sending.body)
