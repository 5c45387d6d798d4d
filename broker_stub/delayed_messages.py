"""Keep delayed messages apart until they are due, and store them in their own topic then.

A message with a delay level waits in SCHEDULE_TOPIC_XXXX, in the queue of its level. A message with a delivery time
(TIMER_*, 5.x) waits in the timer topic. The properties REAL_TOPIC and REAL_QID name its own topic and queue. When it is
due, it is stored there with all its properties, so a delivered message still shows its delay.

Timers have a precision of one second: a message is delivered within the second after its time. A recall is itself a
message to the timer topic; the message that it names is never delivered.
"""

from __future__ import annotations

import base64
import heapq
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial

from pyspark_rocketmq.model import RETRY_PREFIX
from pyspark_rocketmq.wire.codes import ResponseCode, TransactionState, transaction_state
from pyspark_rocketmq.wire.record import Record

from .clock import Clock
from .requests import Refusal
from .store import REAL_TOPIC, InnerMessage, Store, Stored, is_from_system_topic, is_number
from .topic_table import HALF_TOPIC, SCHEDULE_TOPIC, TIMER_TOPIC

DELAY = "DELAY"
RECALLED_KEY = "TIMER_DEL_UNIQKEY"
TIMER_OUT_MS = "TIMER_OUT_MS"
TIMER_PRECISION_MS = 1000

_TIMER_PROPERTIES = ("TIMER_DELIVER_MS", "TIMER_DELAY_MS", "TIMER_DELAY_SEC")
_UNITS_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_HANDLE_VERSION = "v1"
_HANDLE_PARTS = 5


class DelayedMessages:
    """The delayed messages of one broker, which deliver themselves when they are due."""

    def __init__(
        self,
        clock: Clock,
        store: Store,
        put: Callable[[InnerMessage], Stored],
        levels: str,
        timer_limit_ms: int | None,
    ) -> None:
        self.delivered: dict[int, int] = {}
        """By level: the offset, in the level's queue, of the next message to deliver."""
        self.levels_ms = parse_levels(levels)
        self._timer_limit_ms = timer_limit_ms
        self._clock = clock
        self._store = store
        self._put = put
        self._timers: list[tuple[int, int]] = []
        self._recalled: set[str] = set()

    def accept(self, message: InnerMessage) -> Stored:
        """Store a message in its own topic, or in a delay topic if it is delayed."""
        if transaction_state(message.sys_flag) in (TransactionState.NONE, TransactionState.COMMIT):
            level = _read_level(message)
            if level > 0:
                return self._put_delayed(message, min(level, len(self.levels_ms)))
            if self._timer_limit_ms is not None and _has_timer(message):
                return self._put_timed(message, self._timer_limit_ms)
        return self._put(message)

    @property
    def waiting_timers(self) -> list[int]:
        """Sorted offsets, in the timer topic's queue, of the messages whose timers are not due yet."""
        return sorted(offset for _, offset in self._timers)

    @property
    def timers_end(self) -> int:
        """Offset that the next message stored in the timer topic's queue gets."""
        return self._store.max_offset(TIMER_TOPIC, 0)

    def resume(self, delivered: Mapping[int, int], timers: Iterable[int], timers_end: int) -> None:
        """Go on after a restart: start the timers of undelivered messages, and read which messages were recalled.

        `delivered` has, by delay level, the offset of the next message to deliver from the level's queue. In the timer
        topic's queue, the undelivered messages are those at the offsets `timers`, and all from `timers_end` on.
        """
        self.delivered = dict(delivered)
        for level in range(1, len(self.levels_ms) + 1):
            queue = self._store.queue(SCHEDULE_TOPIC, level - 1)
            for offset in range(max(self.delivered.get(level, 0), queue.min_offset), queue.max_offset):
                wait_ms = queue.codes[offset - queue.base] - self._clock.now_ms()
                self._clock.call_later(min(wait_ms, self.levels_ms[level - 1]), partial(self._deliver_next, level))
        waiting = set(timers)
        for record in self._store.messages(TIMER_TOPIC, 0):
            if RECALLED_KEY in record.properties:
                self._recalled.add(record.properties[RECALLED_KEY])
            elif _is_timer(record) and (record.queue_offset in waiting or record.queue_offset >= timers_end):
                self._start_timer(int(record.properties[TIMER_OUT_MS]), record.queue_offset)

    # --- levels ------------------------------------------------------------------------------------------------------

    def _put_delayed(self, message: InnerMessage, level: int) -> Stored:
        for name in _TIMER_PROPERTIES if self._timer_limit_ms is not None else ():
            message.properties.pop(name, None)
        message.properties[DELAY] = str(level)
        delay_ms = self.levels_ms[level - 1]
        stored = self._put(
            replace(message.for_system_topic(SCHEDULE_TOPIC, level - 1), tag_code=self._clock.now_ms() + delay_ms)
        )
        self._clock.call_later(delay_ms, partial(self._deliver_next, level))
        return stored

    def _deliver_next(self, level: int) -> None:
        """Deliver the next message of a level; within a level the first stored message is the first due.

        A half message with a delay level is not delivered but lost, as at a real broker.
        """
        offset = max(self.delivered.get(level, 0), self._store.min_offset(SCHEDULE_TOPIC, level - 1))
        record = self._store.record_at(SCHEDULE_TOPIC, level - 1, offset)
        if record:
            self.delivered[level] = offset + 1
        if record and record.properties[REAL_TOPIC] != HALF_TOPIC:
            self._put(InnerMessage.from_system_topic(record))

    # --- timers ------------------------------------------------------------------------------------------------------

    def _put_timed(self, message: InnerMessage, limit_ms: int) -> Stored:
        now, due_ms = self._clock.now_ms(), self._due_time(message)
        is_recall = RECALLED_KEY in message.properties
        if due_ms is None or due_ms - now > limit_ms or (is_recall and due_ms <= now):
            raise _illegal_timer(limit_ms)
        if due_ms <= now:
            return self._put(message)
        out_ms = (due_ms - 1) // TIMER_PRECISION_MS * TIMER_PRECISION_MS
        message.properties[TIMER_OUT_MS] = str(out_ms)
        stored = self._put(message.for_system_topic(TIMER_TOPIC, 0))
        if is_recall:
            self._recalled.add(message.properties[RECALLED_KEY])
        else:
            self._start_timer(out_ms, stored.queue_offset)
        return stored

    def _due_time(self, message: InnerMessage) -> int | None:
        properties, now = message.properties, self._clock.now_ms()
        try:
            if "TIMER_DELAY_SEC" in properties:
                return now + int(properties["TIMER_DELAY_SEC"]) * 1000
            if "TIMER_DELAY_MS" in properties:
                return now + int(properties["TIMER_DELAY_MS"])
            return int(properties["TIMER_DELIVER_MS"])
        except ValueError:
            return None

    def _start_timer(self, out_ms: int, offset: int) -> None:
        heapq.heappush(self._timers, (out_ms, offset))
        self._clock.call_later(out_ms + TIMER_PRECISION_MS - self._clock.now_ms(), self._deliver_first_timer)

    def _deliver_first_timer(self) -> None:
        _, offset = heapq.heappop(self._timers)
        record = self._store.record_at(TIMER_TOPIC, 0, offset)
        if record and not self._is_recalled(record):
            enqueued_ms = record.store_timestamp // TIMER_PRECISION_MS * TIMER_PRECISION_MS
            times = {"TIMER_ENQUEUE_MS": str(enqueued_ms), "TIMER_DEQUEUE_MS": str(self._clock.now_ms())}
            self._put(InnerMessage.from_system_topic(record, times))

    def _is_recalled(self, record: Record) -> bool:
        return recall_key(record.properties[REAL_TOPIC], record.properties.get("UNIQ_KEY", "")) in self._recalled


def _is_timer(record: Record) -> bool:
    """Return whether a record of the timer topic is a delayed message; clients may send other messages to the topic."""
    return is_from_system_topic(record) and is_number(record.properties.get(TIMER_OUT_MS, ""))


def parse_levels(text: str) -> list[int]:
    """Return the delay of each level in milliseconds, from text such as `1s 5s 1m`."""
    return [int(word[:-1]) * _UNITS_MS[word[-1]] for word in text.split()]


def _read_level(message: InnerMessage) -> int:
    text = message.properties.get(DELAY, "0")
    try:
        return int(text)
    except ValueError:
        remark = f'java.lang.NumberFormatException: For input string: "{text}"'
        raise Refusal(ResponseCode.SYSTEM_ERROR, remark) from None


def _has_timer(message: InnerMessage) -> bool:
    return TIMER_OUT_MS not in message.properties and any(name in message.properties for name in _TIMER_PROPERTIES)


def _illegal_timer(limit_ms: int) -> Refusal:
    return Refusal(
        ResponseCode.MESSAGE_ILLEGAL,
        f"timer message illegal, the delay time should not be bigger than the max delay {limit_ms}ms; "
        "or if set del msg, the delay time should be bigger than the current time",
    )


# --- recalls ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RecallHandle:
    """The parts of the handle with which a sender recalls a timer message."""

    topic: str
    broker_name: str
    timestamp_ms: int
    unique_id: str

    def encode(self) -> str:
        """Return the handle as the base64 text that senders get."""
        parts = (_HANDLE_VERSION, self.topic, self.broker_name, str(self.timestamp_ms), self.unique_id)
        return base64.urlsafe_b64encode(" ".join(parts).encode()).decode()


def maybe_recall_handle(message: InnerMessage, broker_name: str) -> str | None:
    """Return the recall handle of a timer message; None for other messages and for those with a retry topic."""
    out_ms, topic = message.properties.get(TIMER_OUT_MS), message.properties.get(REAL_TOPIC)
    if out_ms is None or not is_number(out_ms) or topic is None or topic.startswith(RETRY_PREFIX):
        return None
    return RecallHandle(topic, broker_name, int(out_ms) + 1, message.properties.get("UNIQ_KEY", "")).encode()


def decode_recall_handle(text: str) -> RecallHandle | None:
    """Return the recall handle that the text encodes; None if the text is malformed."""
    try:
        parts = base64.b64decode(text, altchars=b"-_", validate=True).decode().split(" ")
        if parts[0] != _HANDLE_VERSION or len(parts) < _HANDLE_PARTS:
            return None
        return RecallHandle(parts[1], parts[2], int(parts[3]), parts[4])
    except ValueError:
        return None


def recall_key(topic: str, unique_id: str) -> str:
    """Return the property value by which a recall names the message with this topic and unique id."""
    return f"{topic}+{unique_id}"
