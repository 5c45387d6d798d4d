"""Pop messages: make them invisible to a group's other consumers for a time.

A message that is not acknowledged within its invisible period is delivered again, as another attempt. The group's
committed offset is that of its first unacknowledged message. If another client changes this offset, invisible messages
are forgotten and the queue is read from the new offset.

If a group consumes in order, it gets no more messages of a queue while any message of the queue is invisible. But a
request with the attempt id of the request that popped these messages gets the same messages again.

Unlike at a real broker, a message whose time is up does not move to a retry topic but stays in its queue.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import count

from pyspark_rocketmq.wire.commands import ConsumerSendMsgBackRequestHeader
from pyspark_rocketmq.wire.record import Record, decode_records

from ..clock import Clock, Timer
from ..queue_scan import MessageFilter
from ..send_back import MAX_TIMES_SINCE_VERSION, send_back
from ..state import Broker

RENEWAL_MS = 60_000
"""Length of one invisible period, in milliseconds, for consumers whose periods are renewed automatically."""
_DEAD_AT_ONCE = -1


@dataclass(frozen=True, slots=True)
class PopRequest:
    """The number, the filter and the invisible period of messages that one request pops."""

    count: int
    message_filter: MessageFilter | None
    invisible_ms: int
    attempt_id: str = ""
    """Id that the client gives to a request; if it repeats the request, it sends the same id again."""
    keeps_renewing: Callable[[], bool] | None = None
    """Called when an invisible period ends; the period is renewed if it returns True. None: never renewed."""

    def for_remaining(self, count: int) -> PopRequest:
        """Return the same request, for `count` messages fewer, because these are popped already."""
        return replace(self, count=self.count - count)


@dataclass(slots=True, eq=False)
class PoppedMessage:
    """One popped message, invisible to its group's other consumers."""

    queue: PopQueue
    record: Record
    attempt: int
    handle: str
    """Receipt handle by which the consumer acknowledges the message."""
    request: PopRequest
    timer: Timer = field(init=False)


class PopQueue:
    """The state of one queue for one group that pops messages of it."""

    def __init__(self, pop_state: PopState, broker: Broker, group: str, topic: str, queue_id: int) -> None:
        self.broker, self.group, self.topic, self.queue_id = broker, group, topic, queue_id
        self._state = pop_state
        self._committed: int | None = None
        self._invisible: dict[int, PoppedMessage] = {}
        self._attempts: dict[int, int] = {}
        """Number of earlier deliveries of each message that became visible again, by offset."""
        self.next_offset = 0
        """Offset behind the last message that was popped, or passed over because the filter did not match."""

    def __repr__(self) -> str:
        return f"<PopQueue {self.topic}/{self.queue_id} of {self.group}, {len(self._invisible)} invisible>"

    def pop_messages(self, request: PopRequest, *, is_orderly: bool, max_attempts: int) -> list[PoppedMessage]:
        """Pop and return messages: first those that became visible again, then new ones.

        An orderly group gets none while messages are invisible that another attempt id popped.
        """
        self._adopt_committed_offset()
        if is_orderly and not self._take_back_attempt(request):
            return []
        popped_messages = [
            self._pop_record(record, self._attempts.pop(record.queue_offset) + 1, request)
            for record in self._take_visible(request.count, max_attempts)
        ]
        popped_messages += [
            self._pop_record(record, 1, request)
            for record in self._read_new(request.count - len(popped_messages), request.message_filter)
        ]
        self._commit_progress()
        return popped_messages

    def acknowledge(self, popped: PoppedMessage) -> None:
        """Acknowledge a popped message and commit the group's progress."""
        popped.timer.cancel()
        self._forget(popped)
        self._commit_progress()

    def extend(self, popped: PoppedMessage, ms: int) -> None:
        """Let a message become visible again in `ms`, without renewing the period; give it a new receipt handle."""
        popped.timer.cancel()
        popped.request = replace(popped.request, keeps_renewing=None)
        self._state.renew_handle(popped)
        self._set_timer(popped, ms)

    # --- committed offset --------------------------------------------------------------------------------------------

    def _adopt_committed_offset(self) -> None:
        """Start again at the group's committed offset, if another client has changed this offset.

        If the group has no committed offset, start at `_first_offset`.
        """
        offsets = self.broker.offsets
        offsets.take_reset(self.group, self.topic, self.queue_id)
        committed = offsets.query(self.group, self.topic, self.queue_id)
        if committed is None or committed != self._committed:
            self._restart_at(self._first_offset() if committed is None else committed)

    def _first_offset(self) -> int:
        """Return the offset at which a group without a committed offset starts in the queue.

        It is 0 if no message has expired and the settings count the first message as in memory; else it is the offset
        of the last message.
        """
        store, in_memory = self.broker.store, self.broker.settings.first_message_in_memory
        if store.min_offset(self.topic, self.queue_id) == 0 and in_memory:
            return 0
        return max(0, store.max_offset(self.topic, self.queue_id) - 1)

    def _restart_at(self, offset: int) -> None:
        for popped in list(self._invisible.values()):
            popped.timer.cancel()
            self._forget(popped)
        self._attempts.clear()
        self.next_offset = offset

    def _commit_progress(self) -> None:
        """Commit the offset of the group's first popped message that is not acknowledged.

        If all are acknowledged, commit `next_offset`, which is behind the last popped message. Do not commit offset 0
        for a group that has neither popped nor committed anything yet.
        """
        progress = min(self._invisible.keys() | self._attempts.keys(), default=self.next_offset)
        if self._committed is not None or self._invisible or progress:
            self._committed = progress
            self.broker.offsets.commit(self.group, self.topic, self.queue_id, progress)

    # --- reading -----------------------------------------------------------------------------------------------------

    def _take_back_attempt(self, request: PopRequest) -> bool:
        """Make messages visible again that an earlier request with the same attempt id popped.

        Return False if a message that another attempt popped is still invisible, else True.
        """
        for popped in list(self._invisible.values()):
            if not request.attempt_id or popped.request.attempt_id != request.attempt_id:
                return False
            popped.timer.cancel()
            self._forget(popped)
            self._attempts[popped.record.queue_offset] = popped.attempt - 1
        return True

    def _take_visible(self, max_count: int, max_attempts: int) -> Iterator[Record]:
        """Yield up to `max_count` messages that became visible again.

        Messages that have had `max_attempts` deliveries are stored as dead letters instead.
        """
        for offset in sorted(self._attempts)[:max_count]:
            record = self._record(offset)
            if record is None:
                del self._attempts[offset]
            elif self._attempts[offset] >= max_attempts:
                del self._attempts[offset]
                send_to_dead_letters(self.broker, self.group, record)
            else:
                yield record

    def _record(self, offset: int) -> Record | None:
        found = self.broker.store.get_message(self.topic, self.queue_id, offset, 1)
        return next((record for data in found.records for record in decode_records(data)), None)

    def _read_new(self, max_count: int, message_filter: MessageFilter | None) -> list[Record]:
        """Return messages from `next_offset` on, and move it behind them; skip for ever what the filter rejects."""
        records: list[Record] = []
        while len(records) < max_count:
            left = max_count - len(records)
            found = self.broker.store.get_message(self.topic, self.queue_id, self.next_offset, left, message_filter)
            if found.next_begin_offset == self.next_offset:
                break
            self.next_offset = found.next_begin_offset
            records += [record for data in found.records for record in decode_records(data)]
        return records

    # --- invisible messages ------------------------------------------------------------------------------------------

    def _pop_record(self, record: Record, attempt: int, request: PopRequest) -> PoppedMessage:
        popped = PoppedMessage(self, record, attempt, "", request)
        self._invisible[record.queue_offset] = popped
        self._state.renew_handle(popped)
        self._set_timer(popped, request.invisible_ms)
        return popped

    def _set_timer(self, popped: PoppedMessage, ms: int) -> None:
        popped.timer = self._state.clock.call_later(ms, lambda: self._expire(popped))

    def _expire(self, popped: PoppedMessage) -> None:
        if popped.request.keeps_renewing and popped.request.keeps_renewing():
            self._set_timer(popped, RENEWAL_MS)
        else:
            self._attempts[popped.record.queue_offset] = popped.attempt
            self._forget(popped)

    def _forget(self, popped: PoppedMessage) -> None:
        self._invisible.pop(popped.record.queue_offset, None)
        self._state.release_handle(popped)


def send_to_dead_letters(broker: Broker, group: str, record: Record) -> None:
    """Store a message as a dead letter of a group."""
    header = ConsumerSendMsgBackRequestHeader(
        offset=record.physical_offset,
        group=group,
        delay_level=_DEAD_AT_ONCE,
        origin_msg_id=record.offset_message_id,
        origin_topic=record.topic,
    )
    send_back(broker, header, MAX_TIMES_SINCE_VERSION)


class PopState:
    """The popped messages of all groups and queues."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.turns = count()
        """Counter by which consecutive calls begin with different brokers and queues."""
        self._queues: dict[tuple[Broker, str, str, int], PopQueue] = {}
        self._popped: dict[str, PoppedMessage] = {}
        self._serials = count(1)
        self._listeners: defaultdict[tuple[str, str], list[Callable[[], None]]] = defaultdict(list)

    def __repr__(self) -> str:
        return f"<PopState, {len(self._popped)} messages>"

    def queue(self, broker: Broker, group: str, topic: str, queue_id: int) -> PopQueue:
        """Return the `PopQueue` that tracks what a group has popped from a queue; create it at first use."""
        key = (broker, group, topic, queue_id)
        if key not in self._queues:
            self._queues[key] = PopQueue(self, *key)
        return self._queues[key]

    def find(self, handle: str, group: str, topic: str) -> PoppedMessage | None:
        """Return the message of a receipt handle; None if the handle is invalid or of another group or topic."""
        popped = self._popped.get(handle)
        return popped if popped and (popped.queue.group, popped.queue.topic) == (group, topic) else None

    def add_listener(self, group: str, topic: str, on_change: Callable[[], None]) -> None:
        """Call `on_change` whenever a message of this group and topic becomes visible again or is acknowledged."""
        self._listeners[group, topic].append(on_change)

    def remove_listener(self, group: str, topic: str, on_change: Callable[[], None]) -> None:
        """Stop calling `on_change` for this group and topic; do nothing if it was not added."""
        if on_change in self._listeners[group, topic]:
            self._listeners[group, topic].remove(on_change)

    def renew_handle(self, popped: PoppedMessage) -> None:
        """Give a popped message a new receipt handle, and make the old one invalid."""
        self._popped.pop(popped.handle, None)
        queue = popped.queue
        popped.handle = f"{next(self._serials)} {queue.broker.name} {queue.queue_id} {popped.record.queue_offset}"
        self._popped[popped.handle] = popped

    def release_handle(self, popped: PoppedMessage) -> None:
        """Make a popped message's receipt handle invalid; wake calls that wait for messages of its group and topic."""
        self._popped.pop(popped.handle, None)
        for on_change in self._listeners[popped.queue.group, popped.queue.topic].copy():
            self.clock.call_later(0, on_change)
