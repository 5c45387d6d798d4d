"""Keep half messages until their transaction ends, and check with producers about open ones.

A half message is stored in the half topic until its producer ends the transaction: a commit stores the message in its
own topic, a rollback stores it nowhere. Either way a record in the done topic marks the end. 5.x writes such records a
few seconds late, and a crash loses those that it has not written. At intervals the broker goes through the half
messages in order. If one is old enough, the broker stores a copy of it and asks a producer of its group about the copy.
If one was checked too often, or is older than three days, a copy goes to TRANS_CHECK_MAX_TIME_TOPIC. The offset table
has the broker's position in the half topic, under a group of its own.

Records in the half topic know nothing of each other. An end marks the record that it names, and no copy; every record
can be committed as long as it exists, however often, whatever became of the others. docs/broker-rules.md lists what
follows from this, as measured on real brokers.

A producer may postpone the first check of a message (CHECK_IMMUNITY_TIME_IN_SECONDS). The broker then stores a copy of
the message behind the others, so that the message does not delay their checks, but counts it as a check.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

from pyspark_rocketmq.model import Address
from pyspark_rocketmq.wire.codes import RequestCode, ResponseCode, TransactionState
from pyspark_rocketmq.wire.commands import CheckTransactionStateRequestHeader, EndTransactionRequestHeader
from pyspark_rocketmq.wire.properties import join_properties
from pyspark_rocketmq.wire.record import Record, encode_record

from .clock import Clock
from .delayed_messages import DELAY
from .group_tables import ProducerGroups
from .offset_table import ConsumerOffsets
from .releases import Release
from .requests import Refusal
from .settings import Settings
from .store import ENTRY_END, REAL_QUEUE_ID, REAL_TOPIC, InnerMessage, Store, Stored, is_from_system_topic, is_number
from .topic_table import HALF_DONE_TOPIC, HALF_GIVEN_UP_TOPIC, HALF_TOPIC, Topics

OLDEST_MS = 72 * 3600 * 1000
"""Age in milliseconds above which a half message is given up; real brokers delete log files of this age."""

HALF_MESSAGE_PROPERTY = "TRAN_MSG"
_GROUP_5X, _GROUP_4X = "CID_RMQ_SYS_TRANS", "CID_SYS_RMQ_TRANS"
_UNIQUE_ID, _TRANSACTION_ID, _PRODUCER_GROUP, _WAIT = "UNIQ_KEY", "__transactionId__", "PGROUP", "WAIT"
_IMMUNITY, _CHECK_TIMES = "CHECK_IMMUNITY_TIME_IN_SECONDS", "TRANSACTION_CHECK_TIMES"
_ORIGINAL_OFFSET = "TRAN_PREPARED_QUEUE_OFFSET"
_DONE_TAG, _DONE_END = "d", ","


class HalfMessageBroker(Protocol):
    """The attributes and methods of a broker that `HalfMessages` uses."""

    name: str
    address: Address
    release: Release
    clock: Clock
    settings: Settings
    store: Store
    topics: Topics
    offsets: ConsumerOffsets
    producer_groups: ProducerGroups

    def accept(self, message: InnerMessage) -> Stored:
        """Store a message at once, or keep it as a delayed message until it is due."""

    def put(self, message: InnerMessage) -> Stored:
        """Store a message at once, even if its properties ask for a delay."""


class HalfMessages:
    """The half messages of one broker."""

    def __init__(self, broker: HalfMessageBroker) -> None:
        self._broker = broker
        self._group = _GROUP_5X if broker.release.is_5x else _GROUP_4X
        self._ended: set[int] = set()
        """Offsets in the half topic's queue of messages that were committed or rolled back."""
        self._unwritten: list[int] = []
        """Offsets of messages whose end is not written yet, so that they still count as open."""
        self._is_check_scheduled = False

    @property
    def position(self) -> int:
        """Offset in the half topic's queue at which the next round of checks begins."""
        return self._broker.offsets.query(self._group, HALF_TOPIC, 0) or 0

    def prepare(self, message: InnerMessage) -> Stored:
        """Store a message in the half topic, and schedule a check."""
        if self._broker.release.is_5x and _UNIQUE_ID in message.properties:
            message.properties[_TRANSACTION_ID] = message.properties[_UNIQUE_ID]
        half = message.for_system_topic(HALF_TOPIC, 0)
        half.sys_flag &= ~TransactionState.ROLLBACK
        stored = self._broker.accept(half)
        self._schedule_check()
        return stored

    def commit(self, header: EndTransactionRequestHeader) -> None:
        """Store a half message in its own topic; a second commit stores it a second time."""
        record = self._find_half_message(header)
        message = InnerMessage.from_system_topic(record)
        message.sys_flag = message.sys_flag & ~TransactionState.ROLLBACK | TransactionState.COMMIT
        message.prepared_transaction_offset = header.commit_log_offset
        self._broker.accept(message)
        self._mark_ended(record.queue_offset)

    def roll_back(self, header: EndTransactionRequestHeader) -> None:
        """Mark a half message as ended, without storing it in its own topic."""
        self._mark_ended(self._find_half_message(header).queue_offset)

    def resume_check(self, physical_offset: int) -> None:
        """Store a copy of a half message that the broker gave up checking, so that its checks begin anew.

        Ignore a message without the properties of a half message (REAL_TOPIC, REAL_QID). Raise a `Refusal` if there is
        no message at this address of the log.
        """
        record = self._broker.store.message_at(physical_offset)
        if record is None:
            raise Refusal(ResponseCode.SYSTEM_ERROR, "java.lang.NullPointerException: there is no such message")
        if is_from_system_topic(record):
            message = replace(InnerMessage.of_record(record), topic=HALF_TOPIC, queue_id=0)
            message.properties[_CHECK_TIMES] = "0"
            self._broker.put(message)
            self._schedule_check()

    def forget_unwritten(self) -> None:
        """Forget the ends that are not written yet, as a crash does."""
        self._unwritten.clear()

    def resume(self) -> None:
        """Read from the done topic which half messages have ended, and schedule a check; called after a restart."""
        for _, physical, _ in self._broker.store.queue(HALF_DONE_TOPIC, 0):
            if record := self._broker.store.message_at(physical):
                self._ended.update(int(text) for text in record.body.decode().split(_DONE_END) if text)
        self._schedule_check()

    # --- ends of transactions ----------------------------------------------------------------------------------------

    def _find_half_message(self, header: EndTransactionRequestHeader) -> Record:
        record = self._broker.store.message_at(header.commit_log_offset)
        if record is None or not is_from_system_topic(record) or self._is_in_memory_only(record):
            raise Refusal(ResponseCode.SYSTEM_ERROR, "Find prepared transaction message failed")
        if self._broker.release.is_5x and not header.from_transaction_check and self._is_too_late(record):
            raise Refusal(ResponseCode.ILLEGAL_OPERATION, "the message's own immunity time is over")
        if record.properties.get(_PRODUCER_GROUP) != header.producer_group:
            raise Refusal(ResponseCode.SYSTEM_ERROR, "The producer group wrong")
        if record.queue_offset != header.tran_state_table_offset:
            raise Refusal(ResponseCode.SYSTEM_ERROR, "The transaction state table offset wrong")
        return record

    def _is_too_late(self, record: Record) -> bool:
        latest_ms = max(self._immunity_ms(record), self._broker.settings.transaction_timeout_ms)
        return _IMMUNITY in record.properties and self._age_ms(record) > latest_ms

    def _is_in_memory_only(self, record: Record) -> bool:
        return self._broker.clock.now_ms() - record.store_timestamp < self._broker.settings.transient_store_ms

    def _mark_ended(self, offset: int) -> None:
        """Write to the done topic that a half message has ended; at 5.x do so later, together with other ends."""
        self._unwritten.append(offset)
        if not self._broker.release.is_5x:
            self._write_ends()
        elif len(self._unwritten) == 1:
            self._broker.clock.call_later(self._broker.settings.transaction_op_batch_interval_ms, self._write_ends)

    def _write_ends(self) -> None:
        if not self._unwritten:
            return
        text = _DONE_END.join(map(str, self._unwritten)) + (_DONE_END if self._broker.release.is_5x else "")
        marker = InnerMessage(HALF_DONE_TOPIC, 0, text.encode(), {"TAGS": _DONE_TAG})
        marker.born_timestamp, marker.born_host = self._broker.clock.now_ms(), self._broker.address
        self._broker.put(marker)
        self._ended.update(self._unwritten)
        self._unwritten.clear()

    # --- checks with producers ---------------------------------------------------------------------------------------

    def _schedule_check(self) -> None:
        has_more = self.position < self._broker.store.max_offset(HALF_TOPIC, 0)
        if has_more and not self._is_check_scheduled:
            self._is_check_scheduled = True
            self._broker.clock.call_later(self._broker.settings.transaction_check_interval_ms, self._check_all)

    def _check_all(self) -> None:
        self._is_check_scheduled = False
        offset, end = self.position, self._broker.store.max_offset(HALF_TOPIC, 0)
        while offset < end and self._check_one(offset):
            offset += 1
        self._broker.offsets.commit(self._group, HALF_TOPIC, 0, offset)
        self._schedule_check()

    def _check_one(self, offset: int) -> bool:
        """Check, postpone or give up one half message; return False if it and all messages behind it are too young."""
        record = None if offset in self._ended else self._broker.store.record_at(HALF_TOPIC, 0, offset)
        if record is None:
            return True
        times, age_ms, immunity_ms = _number(record, _CHECK_TIMES, 0), self._age_ms(record), self._immunity_ms(record)
        if times >= self._broker.settings.transaction_check_max or age_ms > OLDEST_MS:
            self._give_up(record)
        elif _IMMUNITY in record.properties and age_ms <= immunity_ms:
            original = record.properties.get(_ORIGINAL_OFFSET, str(offset))
            self._store_copy(record, times + 1, {_ORIGINAL_OFFSET: original})
        elif 0 <= age_ms <= immunity_ms:
            return False
        else:
            self._send_check(record, times + 1)
        return True

    def _give_up(self, record: Record) -> None:
        topic = self._broker.topics.find_or_create(HALF_GIVEN_UP_TOPIC, 1)
        self._broker.put(replace(InnerMessage.of_record(record), topic=topic.topic_name, queue_id=0))

    def _send_check(self, record: Record, times: int) -> None:
        """Store a copy of a half message, and ask a producer of its group about the copy; producers take turns."""
        message, stored = self._store_copy(record, times, {})
        channel = self._broker.producer_groups.pick(message.properties.get(_PRODUCER_GROUP, ""))
        if channel:
            unique_id = message.properties.get(_UNIQUE_ID)
            header = CheckTransactionStateRequestHeader(
                bname=self._broker.name if self._broker.release.is_5x else None,
                topic=HALF_TOPIC if self._broker.release.is_5x else None,
                tran_state_table_offset=stored.queue_offset,
                commit_log_offset=stored.physical_offset,
                msg_id=unique_id,
                transaction_id=unique_id,
                offset_msg_id=stored.message_id,
            )
            body = self._check_body(record, message, stored)
            channel.send_oneway(RequestCode.CHECK_TRANSACTION_STATE, header, body)

    def _store_copy(self, record: Record, times: int, more: dict[str, str]) -> tuple[InnerMessage, Stored]:
        """Store a half message again, behind the others; a copy has neither the flag nor the count of retries."""
        message = replace(InnerMessage.of_record(record), flag=0, reconsume_times=0)
        message.properties.update({_CHECK_TIMES: str(times), **more})
        return message, self._broker.put(message)

    def _check_body(self, record: Record, message: InnerMessage, stored: Stored) -> bytes:
        """Return the half message as the record that the producer gets with a check.

        The record has the message's own topic and queue, but the queue offset and address of the stored copy.
        """
        text = join_properties({**message.properties, _WAIT: "false"})
        return encode_record(
            replace(
                record,
                topic=message.properties[REAL_TOPIC],
                queue_id=int(message.properties[REAL_QUEUE_ID]),
                queue_offset=stored.queue_offset,
                physical_offset=stored.physical_offset,
                properties_text=(text if self._broker.store.ends_properties else text.removesuffix(ENTRY_END)).encode(),
            )
        )

    def _age_ms(self, record: Record) -> int:
        return self._broker.clock.now_ms() - record.born_timestamp

    def _immunity_ms(self, record: Record) -> int:
        """Return the age (ms) from which a half message is checked: its own property, else the broker's setting."""
        own_s = _number(record, _IMMUNITY, -1)
        return self._broker.settings.transaction_timeout_ms if own_s < 0 else own_s * 1000


def is_half(message: InnerMessage) -> bool:
    """Return whether a sent message begins a transaction; a message that is sent again for a retry does not."""
    is_retry = message.reconsume_times > 0 and message.properties.get(DELAY, "0") not in ("0", "-1")
    return message.properties.get(HALF_MESSAGE_PROPERTY, "").lower() == "true" and not is_retry


def _number(record: Record, name: str, default: int) -> int:
    text = record.properties.get(name, "")
    return int(text) if is_number(text) else default
