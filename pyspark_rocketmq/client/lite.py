"""How does somebody consume who asks for messages, instead of being called?

    with PullConsumer(cluster_settings, PullConsumerSettings(group="g", subscriptions={"orders": Subscription()})) as c:
        while batch := c.poll(5.0):
            ...                                             # done when `poll` is called again, or with `commit`

With subscriptions the consumer is a member of its group and holds its share of the queues. Without, it is given its
queues (`assign`) and no group decides. Pulling goes on behind the scenes, up to the limits of each queue.

Messages count as done when the next `poll` asks for more: whoever fails in between gets them again.
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
from .clock import Clock, SystemClock
from .engine import Member
from .membership import PULL
from .message import MessageBatch, ReceivedMessage
from .rebalance import QueueListener
from .running import Running
from .settings import PullConsumerSettings
from .stores import LocalStore

__all__ = ["PullConsumer"]


class _Batch(NamedTuple):
    assigned: Assigned
    messages: MessageBatch


class PullConsumer(Running):
    """A consumer that is asked for messages, by one thread at a time. Starts with its `with` block."""

    def __init__(
        self,
        cluster_settings: ClusterSettings,
        settings: PullConsumerSettings,
        *,
        queue_listener: QueueListener | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._settings = settings
        self._member = Member(cluster_settings, settings, clock or SystemClock(), consume_type=PULL)
        self._member.queue_listener = queue_listener
        self._buffer = _Buffer(self._member, auto_commit=settings.auto_commit)
        self._member.sink = self._buffer

    def __repr__(self) -> str:
        return f"<PullConsumer {self._member!r}>"

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self._buffer.disown()
        super().__exit__(kind, error, trace)

    def __iter__(self) -> Iterator[ReceivedMessage]:
        """Every message, until the consumer is closed."""
        while not self._buffer.is_closed:
            yield from self.poll(1.0)

    def start(self) -> None:
        """Begin; with subscriptions, join the group."""
        if self._settings.subscriptions:
            self._member.join()
        else:
            self._member.run_alone()

    def close(self) -> None:
        """End; what was handed out counts as done if that is how it is set. Whoever waits in `poll` gets nothing."""
        self._buffer.close()
        self._member.close()

    # --- queues ------------------------------------------------------------------------------------------------------

    def fetch_queues(self, topic: str) -> tuple[MessageQueue, ...]:
        """The queues of a topic that may be read."""
        return self._member.cluster.routes.route(topic).readable

    @property
    def queues(self) -> tuple[MessageQueue, ...]:
        """The queues that are ours now."""
        return tuple(sorted(assigned.queue for assigned in self._member.table.all() if not assigned.is_lost()))

    def assign(self, queues: Collection[MessageQueue], wish: Subscription | None = None) -> None:
        """Read these queues and no others; each goes on where the group stands, or begins as set."""
        if self._settings.subscriptions:
            raise LocalProtocolError("queues were assigned to a member that shares them", advice="do not subscribe")
        member = self._member
        for assigned in member.table.all():
            if assigned.queue not in queues:
                self._give_up(assigned)
        for queue in queues:
            if member.table.get(queue) is None:
                member.membership.subscribe(queue.topic, wish or Subscription())
                member.cluster.routes.route(queue.topic)
                member.take(queue, member.starting.find(queue))

    def seek(self, queue: MessageQueue, offset: int) -> None:
        """Go on with this offset; what was pulled and not handed out is forgotten."""
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
        """Pull and hand out nothing of these queues for the time being."""
        for queue in queues:
            self._held(queue).is_paused = True

    def resume(self, queues: Collection[MessageQueue]) -> None:
        """Go on with these queues."""
        for queue in queues:
            self._held(queue).is_paused = False
        self._buffer.notify()

    # --- messages ----------------------------------------------------------------------------------------------------

    def poll(self, timeout_s: float) -> Sequence[ReceivedMessage]:
        """What one pull of one queue has brought; empty if nothing comes in time, or the consumer is closed."""
        return self._buffer.take(Deadline.after(timeout_s))

    # --- progress ----------------------------------------------------------------------------------------------------

    def committed(self, queue: MessageQueue) -> int | None:
        """Where the group stands in a queue."""
        member = self._member
        if isinstance(member.store, LocalStore):
            return member.store.read(queue)
        return member.cluster.offsets.fetch_committed(self._settings.group, [queue]).get(queue)

    def commit(self, offsets: Mapping[MessageQueue, int] | None = None) -> None:
        """Write down that what was handed out is done, or else these offsets; raises if a broker does not take it.

        Queues that are ours no more are left out of the former: how far they are is their new owner's to say.
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
            "the queue is not ours now",
            advice="assign it, or look at `queues`: shares change as members come and go",
            topic=queue.topic,
            broker=queue.broker_name,
            queue_id=queue.queue_id,
            group=self._settings.group,
        )


class _Buffer:
    """Messages that were pulled and not handed out, and those that were and are not done."""

    def __init__(self, member: Member, *, auto_commit: bool) -> None:
        self._member = member
        self._auto_commit = auto_commit
        self._news = threading.Condition()
        self._waiting: deque[_Batch] = deque()
        self._handed_out: _Batch | None = None
        self._done: WeakKeyDictionary[Assigned, int] = WeakKeyDictionary()
        """Where the group may stand as soon as it is committed; weak, as what is lost concerns us no more."""
        self.is_closed = False

    # --- the member's side -------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Nothing to begin."""

    def finish(self) -> None:
        """What was handed out last is done now."""
        with self._news:
            self._settle()

    def hand_over(self) -> None:
        """Nothing is to be handed over."""

    def cut(self, messages: MessageBatch) -> Sequence[MessageBatch]:
        """What one pull brought is handed out, and done, together."""
        return (messages,)

    def submit(self, assigned: Assigned, batches: Sequence[MessageBatch], starts: bool) -> None:
        """Keep messages until they are asked for."""
        with self._news:
            self._waiting.extend(_Batch(assigned, batch) for batch in batches)
            self._news.notify()

    def skip(self, assigned: Assigned, offset: int) -> None:
        """Stand behind what was filtered out, as soon as everything before it is committed."""
        with self._news:
            self._note(assigned, offset)

    def listen_to(self, messages: Sequence[ReceivedMessage]) -> object:
        """There is no listener."""
        raise LocalProtocolError("a pull consumer has no listener", advice="ask a push consumer of the group")

    # --- the user's side ---------------------------------------------------------------------------------------------

    def take(self, deadline: Deadline) -> Sequence[ReceivedMessage]:
        """The next batch; the one before counts as done."""
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
        """Where the group may stand when everything handed out is done."""
        with self._news:
            self._settle()
            done, self._done = self._done, WeakKeyDictionary()
            return {assigned.queue: offset for assigned, offset in done.items() if not assigned.is_lost()}

    def moved(self, assigned: Assigned, offset: int) -> None:
        """The user goes on somewhere else in a queue."""
        with self._news:
            self._settle()
            self._done[assigned] = offset
            if self._auto_commit:
                self._member.store.progress.update(assigned.queue, offset, only_forward=False)

    def disown(self) -> None:
        """What was handed out last was not done."""
        with self._news:
            self._handed_out = None

    def close(self) -> None:
        """Hand out nothing more."""
        with self._news:
            self.is_closed = True
            self._news.notify_all()

    def notify(self) -> None:
        """Something may be handed out that could not be."""
        with self._news:
            self._news.notify_all()

    # --- under the lock ----------------------------------------------------------------------------------------------

    def _next(self) -> _Batch | None:
        """The first batch of a queue that is ours and not paused; those of lost queues are forgotten."""
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
            self._member.store.progress.update(assigned.queue, offset, only_forward=True)
