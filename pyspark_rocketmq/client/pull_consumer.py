"""Consume messages by asking for them: a pull consumer.

    settings = PullConsumerSettings(group="billing", subscriptions="orders")
    with PullConsumer("localhost:9876", settings) as consumer:
        while batch := consumer.poll(5.0):
            ...                                             # done when `poll` is called again, or with `commit`

With subscriptions the consumer is a member of its group and holds the queues that are assigned to it. Without, the user
gives it queues (`assign`), and it is no member of the group. Queues are pulled in the background, up to their limits.

Messages count as done when the next `poll` asks for more: a program that fails in between gets them again.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from types import TracebackType
from typing import NamedTuple
from weakref import WeakKeyDictionary

from ..cluster.settings import ClusterSettings
from ..errors import GroupError, LocalProtocolError
from ..model import MessageQueue
from ..net.deadline import Deadline
from ..pull.settings import Subscription
from .assignment import Assigned
from .checks import check_instance, check_range, to_cluster_settings, to_subscription
from .clock import Clock, SystemClock
from .consumer import Consumer
from .member import Member
from .membership import PULL
from .message import MessageBatch, ReceivedMessage
from .rebalance import QueueListener
from .settings import PullConsumerSettings
from .stores import LocalStore, Progress

__all__ = ["PullConsumer"]


class _Batch(NamedTuple):
    assigned: Assigned
    messages: MessageBatch


class PullConsumer(Consumer):
    """A consumer that is asked for messages, by one thread at a time."""

    def __init__(
        self,
        cluster: ClusterSettings | str,
        settings: PullConsumerSettings,
        *,
        queue_listener: QueueListener | None = None,
        clock: Clock | None = None,
    ) -> None:
        check_instance("settings", settings, PullConsumerSettings, "PullConsumerSettings(group=...)")
        self._settings = settings
        member = Member(
            to_cluster_settings(cluster),
            settings,
            clock or SystemClock(),
            self._make_buffer,
            consume_type=PULL,
            queue_listener=queue_listener,
        )
        super().__init__(member)

    def _make_buffer(self, member: Member) -> _Buffer:
        self._buffer = _Buffer(member.store.progress, auto_commit=self._settings.auto_commit)
        return self._buffer

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self._buffer.disown()
        super().__exit__(kind, error, trace)

    def __iter__(self) -> Iterator[ReceivedMessage]:
        """Yield every message, until the consumer is closed."""
        while not self._buffer.is_closed:
            yield from self.poll(1.0)

    def _start(self) -> None:
        """Start; with subscriptions, join the group."""
        if self._settings.subscriptions:
            self._member.join()
        else:
            self._member.run_alone()

    def _close(self) -> None:
        """Stop; what `poll` returned last counts as done if auto-commit is on. A waiting `poll` returns nothing."""
        self._buffer.close()
        super()._close()

    # --- queues ------------------------------------------------------------------------------------------------------

    def fetch_queues(self, topic: str) -> tuple[MessageQueue, ...]:
        """Return the queues of a topic that may be read."""
        return self._member.cluster.routes.route(topic).readable

    def assign(self, queues: Collection[MessageQueue], wanted: Subscription | str = "*") -> None:
        """Read these queues and no others; each goes on at the group's position, or begins as the settings say."""
        if self._settings.subscriptions:
            what = "assign was called on a consumer with subscriptions, whose group assigns its queues"
            raise LocalProtocolError(what, advice="make the consumer without subscriptions, or do not call assign")
        for queue in queues:
            check_instance("queues", queue, MessageQueue, "MessageQueues, as fetch_queues returns them")
        member, subscription = self._member, to_subscription("wanted", wanted)
        for assigned in member.table.all():
            if assigned.queue not in queues:
                self._give_up(assigned)
        for queue in queues:
            if member.table.get(queue) is None:
                member.membership.subscribe(queue.topic, subscription)
                member.cluster.routes.route(queue.topic)
                member.take(queue, member.first_offsets.find(queue))

    def seek(self, queue: MessageQueue, offset: int) -> None:
        """Go on with this offset; cached messages that `poll` has not returned are forgotten."""
        check_range("offset", offset, 0, 2**63 - 1)
        old = self._held(queue)
        new = Assigned(queue, offset, orderly=False, clock=self._member.clock.now_s)
        if not self._member.table.replace(old, new):
            raise self._not_ours(queue)
        old.process_queue.dropped = True
        self._buffer.moved(new, offset)
        self._member.pulls.begin(new, 0.0)

    def seek_to_time(self, queue: MessageQueue, time_ms: int) -> None:
        """Go on with the first message stored at or after a time."""
        self.seek(queue, self._member.cluster.offsets.fetch_first_since({queue: time_ms})[queue])

    def pause(self, queues: Collection[MessageQueue]) -> None:
        """Pull nothing from these queues, and return nothing of them, for the time being."""
        for queue in queues:
            self._held(queue).is_paused = True

    def resume(self, queues: Collection[MessageQueue]) -> None:
        """Go on with these queues."""
        for queue in queues:
            self._held(queue).is_paused = False
        self._buffer.notify()

    # --- messages ----------------------------------------------------------------------------------------------------

    def poll(self, timeout_s: float) -> Sequence[ReceivedMessage]:
        """Return the messages of one pull of one queue; none if none arrive in time, or the consumer is closed."""
        check_range("timeout_s", timeout_s, 0, 2**31, whole=False)
        return self._buffer.take(Deadline.after(timeout_s))

    # --- progress ----------------------------------------------------------------------------------------------------

    def committed(self, queue: MessageQueue) -> int | None:
        """Return the group's position in a queue; None if it has none."""
        member = self._member
        if isinstance(member.store, LocalStore):
            return member.store.read(queue)
        return member.cluster.offsets.fetch_committed(self._settings.group, [queue]).get(queue)

    def commit(self, offsets: Mapping[MessageQueue, int] | None = None) -> None:
        """Commit that all messages which `poll` returned are done, or the given offsets. Raise if a broker refuses.

        Without given offsets, lost queues are left out: their new owner commits them.
        """
        if done := self._buffer.done() if offsets is None else dict(offsets):
            self._member.store.write(done)

    # --- taking and giving up ----------------------------------------------------------------------------------------

    def _give_up(self, assigned: Assigned) -> None:
        assigned.process_queue.dropped = True
        self._member.store.persist(assigned.queue)
        self._member.store.progress.forget(assigned.queue)
        self._member.table.remove(assigned)

    def _held(self, queue: MessageQueue) -> Assigned:
        assigned = self._member.table.get(queue)
        if assigned is None or assigned.is_lost():
            raise self._not_ours(queue)
        return assigned

    def _not_ours(self, queue: MessageQueue) -> GroupError:
        return GroupError(
            "this consumer does not hold the queue now",
            advice="assign it, or look at `queues`: they change as members come and go",
            topic=queue.topic,
            broker=queue.broker_name,
            queue_id=queue.queue_id,
            group=self._settings.group,
        )


class _Buffer:
    """Pulled messages until `poll` returns them, and then until they are done."""

    def __init__(self, progress: Progress, *, auto_commit: bool) -> None:
        self._progress = progress
        self._auto_commit = auto_commit
        self._news = threading.Condition()
        self._waiting: deque[_Batch] = deque()
        self._handed_out: _Batch | None = None
        self._done: WeakKeyDictionary[Assigned, int] = WeakKeyDictionary()
        """Positions that the next commit may commit. Weak: those of lost queues are forgotten."""
        self.is_closed = False

    # --- the member's side -------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Do nothing: `poll` takes the messages."""

    def finish(self) -> None:
        """Count the messages that were handed out last as done."""
        with self._news:
            self._settle()

    def hand_over(self) -> None:
        """Do nothing: other members consume what is not done."""

    def cut(self, messages: MessageBatch) -> Sequence[MessageBatch]:
        """Return one pull's messages whole: they are handed out, and done, together."""
        return (messages,)

    def submit(self, assigned: Assigned, batches: Sequence[MessageBatch], starts: bool) -> None:
        """Keep messages until `take` asks for them."""
        with self._news:
            self._waiting.extend(_Batch(assigned, batch) for batch in batches)
            self._news.notify()

    def skip(self, assigned: Assigned, offset: int) -> None:
        """Move the position behind messages that a filter left out, with the next commit."""
        with self._news:
            self._note(assigned, offset)

    def listen_to(self, messages: Sequence[ReceivedMessage]) -> object:
        """Raise: there is no listener."""
        raise LocalProtocolError("a pull consumer has no listener", advice="ask a push consumer of the group")

    # --- the user's side ---------------------------------------------------------------------------------------------

    def take(self, deadline: Deadline) -> Sequence[ReceivedMessage]:
        """Return the next batch; the one before counts as done."""
        with self._news:
            self._settle()
            while not self.is_closed:
                if batch := self._next():
                    self._handed_out = batch
                    return batch.messages
                if deadline.expired:
                    break
                self._news.wait(deadline.remaining())
            return ()

    def done(self) -> dict[MessageQueue, int]:
        """Return the positions behind all messages that were handed out."""
        with self._news:
            self._settle()
            done, self._done = self._done, WeakKeyDictionary()
            return {assigned.queue: offset for assigned, offset in done.items() if not assigned.is_lost()}

    def moved(self, assigned: Assigned, offset: int) -> None:
        """Note that the user goes on at another offset of a queue."""
        with self._news:
            self._settle()
            self._done[assigned] = offset
            if self._auto_commit:
                self._progress.update(assigned.queue, offset, only_forward=False)

    def disown(self) -> None:
        """Count the messages that were handed out last as not done."""
        with self._news:
            self._handed_out = None

    def close(self) -> None:
        """Hand out nothing more, and wake up all who wait."""
        with self._news:
            self.is_closed = True
            self._news.notify_all()

    def notify(self) -> None:
        """Wake up all who wait: a queue was resumed."""
        with self._news:
            self._news.notify_all()

    # --- under the lock ----------------------------------------------------------------------------------------------

    def _next(self) -> _Batch | None:
        """Return the first batch of a held queue that is not paused, and forget those of lost queues."""
        self._waiting = deque(batch for batch in self._waiting if not batch.assigned.is_lost())
        for batch in self._waiting:
            if not batch.assigned.is_paused:
                self._waiting.remove(batch)
                return batch
        return None

    def _settle(self) -> None:
        batch, self._handed_out = self._handed_out, None
        if batch:
            offset = batch.assigned.process_queue.remove((batch.messages.offset,))
            if offset is not None:
                self._note(batch.assigned, offset)

    def _note(self, assigned: Assigned, offset: int) -> None:
        if assigned.is_lost():
            return
        self._done[assigned] = max(offset, self._done.get(assigned, 0))
        if self._auto_commit:
            self._progress.update(assigned.queue, offset, only_forward=True)
