"""Which messages are lent to consumers, until when, and where does a group go on?

A message that is received is lent: nobody else of the group gets it until the time is up. Then it is lent again, as
another attempt, unless it was acknowledged before. A group stands, for all who ask the broker, at the first message of
a queue that is not done with; should somebody else move it, what is lent is forgotten and lending goes on from there.

A group that consumes in order gets nothing more of a queue while something of it is lent, but for the same attempt to
receive, which gets the same messages again.

Unlike in a real broker, a message whose time is up does not move to a retry topic; it stays where it is.
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
"""For how long a message is lent at a time to a consumer whose loans are renewed by themselves."""
_DEAD_AT_ONCE = -1


@dataclass(frozen=True, slots=True)
class PopRequest:
    """What somebody wants to borrow, and how."""

    count: int
    wanted: MessageFilter | None
    invisible_ms: int
    attempt_id: str = ""
    """The same for a repeated request."""
    keeps_renewing: Callable[[], bool] | None = None
    """If given, asked when the time is up: as long as it says yes, the loan is renewed."""

    def for_remaining(self, count: int) -> PopRequest:
        """What is left to be wished for after so many messages."""
        return replace(self, count=self.count - count)


@dataclass(slots=True, eq=False)
class PoppedMessage:
    """One message that is lent."""

    queue: PopQueue
    record: Record
    attempt: int
    handle: str
    """What the borrower shows."""
    wish: PopRequest
    timer: Timer = field(init=False)


class PopQueue:
    """A queue as one group receives it."""

    def __init__(self, pop_state: PopState, broker: Broker, group: str, topic: str, queue_id: int) -> None:
        self.broker, self.group, self.topic, self.queue_id = broker, group, topic, queue_id
        self._state = pop_state
        self._saved: int | None = None
        self._invisible: dict[int, PoppedMessage] = {}
        self._attempts: dict[int, int] = {}
        """How often each message that came back was lent, by offset."""
        self.next_offset = 0
        """Where the messages begin that were never lent."""

    def __repr__(self) -> str:
        return f"<LentQueue {self.topic}/{self.queue_id} of {self.group} at {self.next_offset}, {len(self._invisible)} invisible>"

    def pop_messages(self, wish: PopRequest, *, is_orderly: bool, max_attempts: int) -> list[PoppedMessage]:
        """Lend messages: first those that came back, then new ones."""
        self._follow()
        if is_orderly and not self._free_for(wish):
            return []
        popped_messages = [
            self._pop_record(record, self._attempts.pop(record.queue_offset) + 1, wish)
            for record in self._returned(wish.count, max_attempts)
        ]
        popped_messages += [
            self._pop_record(record, 1, wish) for record in self._new(wish.count - len(popped_messages), wish.wanted)
        ]
        self._save()
        return popped_messages

    def end(self, popped: PoppedMessage) -> None:
        """The message is done with."""
        popped.timer.cancel()
        self._forget(popped)
        self._save()

    def extend(self, popped: PoppedMessage, ms: int) -> None:
        """Lend on for so long from now and no longer, against a new handle."""
        popped.timer.cancel()
        popped.wish = replace(popped.wish, keeps_renewing=None)
        self._state.renew_handle(popped)
        self._set_timer(popped, ms)

    # --- where the group stands --------------------------------------------------------------------------------------

    def _follow(self) -> None:
        """Go where somebody else has put the group since, or to where a new group begins."""
        offsets = self.broker.offsets
        offsets.take_reset(self.group, self.topic, self.queue_id)
        committed = offsets.query(self.group, self.topic, self.queue_id)
        if committed is None or committed != self._saved:
            self._restart(self._first_offset() if committed is None else committed)

    def _first_offset(self) -> int:
        """A new group gets all messages where none was ever deleted, else the last one."""
        store, in_memory = self.broker.store, self.broker.settings.first_message_in_memory
        if store.min_offset(self.topic, self.queue_id) == 0 and in_memory:
            return 0
        return max(0, store.max_offset(self.topic, self.queue_id) - 1)

    def _restart(self, offset: int) -> None:
        for popped in list(self._invisible.values()):
            popped.timer.cancel()
            self._forget(popped)
        self._attempts.clear()
        self.next_offset = offset

    def _save(self) -> None:
        """A group that never got anything does not stand anywhere yet."""
        progress = min(self._invisible.keys() | self._attempts.keys(), default=self.next_offset)
        if self._saved is not None or self._invisible or progress:
            self._saved = progress
            self.broker.offsets.commit(self.group, self.topic, self.queue_id, progress)

    # --- taking ------------------------------------------------------------------------------------------------------

    def _free_for(self, wish: PopRequest) -> bool:
        """Whether nothing is lent, after what was lent to this very attempt is taken back."""
        for popped in list(self._invisible.values()):
            if not wish.attempt_id or popped.wish.attempt_id != wish.attempt_id:
                return False
            popped.timer.cancel()
            self._forget(popped)
            self._attempts[popped.record.queue_offset] = popped.attempt - 1
        return True

    def _returned(self, max_count: int, max_attempts: int) -> Iterator[Record]:
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

    def _new(self, max_count: int, wanted: MessageFilter | None) -> list[Record]:
        """Messages that were never lent; what the filter does not want is passed over for ever."""
        records: list[Record] = []
        while len(records) < max_count:
            left = max_count - len(records)
            found = self.broker.store.get_message(self.topic, self.queue_id, self.next_offset, left, wanted)
            if found.next_begin_offset == self.next_offset:
                break
            self.next_offset = found.next_begin_offset
            records += [record for data in found.records for record in decode_records(data)]
        return records

    # --- loans -------------------------------------------------------------------------------------------------------

    def _pop_record(self, record: Record, attempt: int, wish: PopRequest) -> PoppedMessage:
        popped = PoppedMessage(self, record, attempt, "", wish)
        self._invisible[record.queue_offset] = popped
        self._state.renew_handle(popped)
        self._set_timer(popped, wish.invisible_ms)
        return popped

    def _set_timer(self, popped: PoppedMessage, ms: int) -> None:
        popped.timer = self._state.clock.call_later(ms, lambda: self._expire(popped))

    def _expire(self, popped: PoppedMessage) -> None:
        if popped.wish.keeps_renewing and popped.wish.keeps_renewing():
            self._set_timer(popped, RENEWAL_MS)
        else:
            self._attempts[popped.record.queue_offset] = popped.attempt
            self._forget(popped)

    def _forget(self, popped: PoppedMessage) -> None:
        self._invisible.pop(popped.record.queue_offset, None)
        self._state.release_handle(popped)


def send_to_dead_letters(broker: Broker, group: str, record: Record) -> None:
    """Make a message a dead letter of a group."""
    header = ConsumerSendMsgBackRequestHeader(
        offset=record.physical_offset,
        group=group,
        delay_level=_DEAD_AT_ONCE,
        origin_msg_id=record.offset_message_id,
        origin_topic=record.topic,
    )
    send_back(broker, header, MAX_TIMES_SINCE_VERSION)


class PopState:
    """All that is lent."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.turns = count()
        """Which broker and which queue are to be asked first."""
        self._queues: dict[tuple[Broker, str, str, int], PopQueue] = {}
        self._popped: dict[str, PoppedMessage] = {}
        self._serials = count(1)
        self._waiting: defaultdict[tuple[str, str], list[Callable[[], None]]] = defaultdict(list)

    def __repr__(self) -> str:
        return f"<Lendings, {len(self._popped)} messages>"

    def queue(self, broker: Broker, group: str, topic: str, queue_id: int) -> PopQueue:
        """A queue as a group receives it."""
        key = (broker, group, topic, queue_id)
        if key not in self._queues:
            self._queues[key] = PopQueue(self, *key)
        return self._queues[key]

    def find(self, handle: str, group: str, topic: str) -> PoppedMessage | None:
        """The loan that a handle is for; only the newest handle of a message counts."""
        popped = self._popped.get(handle)
        return popped if popped and (popped.queue.group, popped.queue.topic) == (group, topic) else None

    def watch(self, group: str, topic: str, look: Callable[[], None]) -> None:
        """Call when a message of a topic comes back from a group, or is done with."""
        self._waiting[group, topic].append(look)

    def unwatch(self, group: str, topic: str, look: Callable[[], None]) -> None:
        """Call no more."""
        if look in self._waiting[group, topic]:
            self._waiting[group, topic].remove(look)

    def renew_handle(self, popped: PoppedMessage) -> None:
        """Give a new handle out for a message."""
        self._popped.pop(popped.handle, None)
        queue = popped.queue
        popped.handle = f"{next(self._serials)} {queue.broker.name} {queue.queue_id} {popped.record.queue_offset}"
        self._popped[popped.handle] = popped

    def release_handle(self, popped: PoppedMessage) -> None:
        """A message is not lent any more."""
        self._popped.pop(popped.handle, None)
        for look in self._waiting[popped.queue.group, popped.queue.topic].copy():
            self.clock.call_later(0, look)
