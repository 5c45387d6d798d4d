"""Consume messages by calling `poll`: a pull consumer.

    settings = PullConsumerSettings(group="billing", subscriptions="orders")
    with PullConsumer("localhost:9876", settings) as consumer:
        while batch := consumer.poll(5.0):
            ...                                             # done when `poll` is called again, or with `commit`

With subscriptions the consumer is a member of its group and holds the queues that are assigned to it. Without them the
user gives it queues (`assign`), and it is not a member of the group. Messages are pulled in the background into a cache
of limited size.

By default, messages that `poll` returned count as done when `poll` is called again. If the program fails before that,
they are delivered again.
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
    """A consumer whose user calls `poll` for messages. One thread at a time may use it."""

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
        """Yield every message until the consumer is closed."""
        while not self._buffer.is_closed:
            yield from self.poll(1.0)

    def _start(self) -> None:
        """Start pulling; with subscriptions, join the group first."""
        if self._settings.subscriptions:
            self._member.join()
        else:
            self._member.run_alone()

    def _close(self) -> None:
        """Stop the consumer; a `poll` that waits returns nothing.

        With auto-commit, the messages that `poll` returned last count as done.
        """
        self._buffer.close()
        super()._close()

    # --- queues ------------------------------------------------------------------------------------------------------

    def fetch_queues(self, topic: str) -> tuple[MessageQueue, ...]:
        """Return the readable queues of a topic."""
        return self._member.cluster.routes.route(topic).readable

    def assign(self, queues: Collection[MessageQueue], wanted: Subscription | str = "*") -> None:
        """Read these queues and no others. Raise if the consumer has subscriptions.

        Each queue is read from the group's position on; without one, `consume_from` of the settings decides. A queue
        that the consumer holds already goes on where it is. If `wanted` differs from the filter of the last call,
        messages that `poll` returned count as done, and cached ones are pulled again.
        """
        if self._settings.subscriptions:
            what = "assign was called on a consumer with subscriptions, whose group assigns its queues"
            raise LocalProtocolError(what, advice="make the consumer without subscriptions, or do not call assign")
        for queue in queues:
            check_instance("queues", queue, MessageQueue, "MessageQueues, as fetch_queues returns them")
        member, subscription = self._member, to_subscription("wanted", wanted)
        # Before any change, because an illegal filter raises here.
        changed = {
            topic for topic in {queue.topic for queue in queues} if member.membership.differs(topic, subscription)
        }
        for assigned in member.table.all():
            if assigned.queue not in queues:
                self._give_up(assigned)
        for topic in changed:
            self._filter(topic, subscription)
        for queue in queues:
            if member.table.get(queue) is None:
                member.cluster.routes.route(queue.topic)
                member.take(queue, member.first_offsets.find(queue))

    def seek(self, queue: MessageQueue, offset: int) -> None:
        """Read a queue from this offset on; cached messages that `poll` has not returned are discarded."""
        check_range("offset", offset, 0, 2**63 - 1)
        if not self._move(self._held(queue), offset):
            raise self._not_ours(queue)

    def seek_to_time(self, queue: MessageQueue, time_ms: int) -> None:
        """Read a queue from the first message that was stored at `time_ms` or later."""
        check_range("time_ms", time_ms, 0, 2**63 - 1)
        self.seek(queue, self._member.cluster.offsets.fetch_first_since({queue: time_ms})[queue])

    def pause(self, queues: Collection[MessageQueue]) -> None:
        """Stop pulling these queues until `resume` is called.

        Until then `poll` returns no cached messages of them either.
        """
        for queue in queues:
            self._held(queue).is_paused = True

    def resume(self, queues: Collection[MessageQueue]) -> None:
        """Continue with these queues after `pause`."""
        for queue in queues:
            self._held(queue).is_paused = False
        self._buffer.notify()

    # --- messages ----------------------------------------------------------------------------------------------------

    def poll(self, timeout_s: float) -> Sequence[ReceivedMessage]:
        """Return the messages of one pull of one queue; none if none arrive in time or the consumer is closed."""
        check_range("timeout_s", timeout_s, 0, 2**31, whole=False)
        return self._buffer.take(Deadline.after(timeout_s))

    # --- progress ----------------------------------------------------------------------------------------------------

    def committed(self, queue: MessageQueue) -> int | None:
        """Return the group's persisted position in a queue; None if there is none."""
        member = self._member
        if isinstance(member.store, LocalStore):
            return member.store.read(queue)
        return member.cluster.offsets.fetch_committed(self._settings.group, [queue]).get(queue)

    def commit(self, offsets: Mapping[MessageQueue, int] | None = None) -> None:
        """Commit the given offsets, or by default the positions after all messages that `poll` returned.

        By default queues that the consumer has lost are left out: their new owner commits. Raise if a broker refuses.
        """
        for queue, offset in (offsets or {}).items():
            check_range(f"offsets[{queue}]", offset, 0, 2**63 - 1)
        if done := self._buffer.done() if offsets is None else dict(offsets):
            self._member.store.write(done)

    # --- taking and giving up ----------------------------------------------------------------------------------------

    def _filter(self, topic: str, wanted: Subscription) -> None:
        """Change the filter of a topic.

        Cached messages that `poll` has not returned are discarded and pulled again with the new filter.
        """
        member = self._member
        member.membership.subscribe(topic, wanted)
        for assigned in member.table.all(topic):
            if not assigned.is_lost():
                self._move(assigned, self._buffer.unread_offset(assigned))

    def _move(self, old: Assigned, offset: int) -> bool:
        """Read a held queue from another offset on; return False if the consumer has lost the queue."""
        new = Assigned(old.queue, offset, orderly=False, clock=self._member.clock.now_s)
        new.is_paused = old.is_paused
        if not self._member.table.replace(old, new):
            return False
        old.process_queue.dropped = True
        self._buffer.moved(new, offset)
        self._member.pulls.begin(new, 0.0)
        return True

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
    """Keeps pulled messages until `poll` returns them, and notes which of them are done."""

    def __init__(self, progress: Progress, *, auto_commit: bool) -> None:
        self._progress = progress
        self._auto_commit = auto_commit
        self._news = threading.Condition()
        self._waiting: deque[_Batch] = deque()
        self._handed_out: _Batch | None = None
        self._done: WeakKeyDictionary[Assigned, int] = WeakKeyDictionary()
        """Positions to commit next. The keys are weak, so that the position of a lost queue disappears."""
        self.is_closed = False

    # --- the member's side -------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Do nothing: no thread consumes, because `poll` takes the messages."""

    def finish(self) -> None:
        """Count the messages that `poll` returned last as done."""
        with self._news:
            self._settle()

    def hand_over(self) -> None:
        """Do nothing: there are no locks to release. Other members pull the messages again that are not done."""

    def cut(self, messages: MessageBatch) -> Sequence[MessageBatch]:
        """Return the messages of one pull as a single batch: `poll` returns them together."""
        return (messages,)

    def submit(self, assigned: Assigned, batches: Sequence[MessageBatch], starts: bool) -> None:
        """Keep the batches until `poll` takes them."""
        with self._news:
            self._waiting.extend(_Batch(assigned, batch) for batch in batches)
            self._news.notify()

    def skip(self, assigned: Assigned, offset: int) -> None:
        """Note `offset` as the position for the next commit, because a filter left out the messages before it."""
        with self._news:
            self._note(assigned, offset)

    def listen_to(self, messages: Sequence[ReceivedMessage]) -> object:
        """Raise `LocalProtocolError`, because a pull consumer has no listener."""
        raise LocalProtocolError("a pull consumer has no listener", advice="ask a push consumer of the group")

    # --- the user's side ---------------------------------------------------------------------------------------------

    def take(self, deadline: Deadline) -> Sequence[ReceivedMessage]:
        """Return the messages of the next cached batch; an empty sequence if none arrives before the deadline.

        The messages that the previous call returned now count as done.
        """
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
        """Return the positions to commit, by queue: those that have changed since the last call.

        All messages that `poll` has returned count as done now. Queues that the consumer has lost are left out.
        """
        with self._news:
            self._settle()
            done, self._done = self._done, WeakKeyDictionary()
            return {assigned.queue: offset for assigned, offset in done.items() if not assigned.is_lost()}

    def moved(self, assigned: Assigned, offset: int) -> None:
        """Make `offset` the position to commit for a queue, even if it is smaller than before.

        All messages that `poll` has returned count as done now.
        """
        with self._news:
            self._settle()
            self._done[assigned] = offset
            if self._auto_commit:
                self._progress.update(assigned.queue, offset, only_forward=False)

    def unread_offset(self, assigned: Assigned) -> int:
        """Return the offset of a queue's first message that `poll` has not returned.

        All messages that it has returned count as done now.
        """
        with self._news:
            self._settle()
            # Read first: a pull that ends meanwhile caches messages from here on, and moves this offset afterwards.
            following = assigned.next_offset
            first = assigned.process_queue.first()
            return first.offset if first else following

    def disown(self) -> None:
        """Never count the messages that `poll` returned last as done, because the user's `with` block raised."""
        with self._news:
            self._handed_out = None

    def close(self) -> None:
        """Let `take` return no more messages, and wake up all threads that wait in it."""
        with self._news:
            self.is_closed = True
            self._news.notify_all()

    def notify(self) -> None:
        """Wake up all threads that wait in `take`, because a queue was resumed."""
        with self._news:
            self._news.notify_all()

    # --- under the lock ----------------------------------------------------------------------------------------------

    def _next(self) -> _Batch | None:
        """Return the first batch whose queue is not paused, or None; discard the batches of lost queues."""
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
