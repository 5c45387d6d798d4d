"""Call the listener with each queue's messages in the order of their offsets.

In a *run*, one thread calls the listener with batch after batch of one queue, beginning with the smallest offsets. Only
one thread at a time does so, and only under the broker's lock of the queue. A failed message is given to the listener
again after a pause and before all later messages of its queue. When its retries are used up (by default never), a copy
is sent to the dead letters instead. A run ends after a minute, so that other queues get the thread. Before every batch
the run checks that the member still holds the queue and its lock.
"""

from __future__ import annotations

import logging
import threading
from collections import defaultdict
from collections.abc import Sequence

from ..errors import RocketMQError
from ..model import MessageQueue
from .assignment import Assigned, AssignmentTable
from .clock import Clock
from .hooks import ConsumeReturnType, Hooks
from .locks import QueueLocks
from .loop import Loop, ThreadPool
from .message import MessageBatch, ReceivedMessage
from .redelivery import Redelivery
from .results import ORDERLY_ADVICE, SUSPEND, Ordered, OrderlyListener, OrderlyStatus, to_ordered
from .running import MemberState
from .settings import ConsumerSettings
from .statistics import Statistics
from .stores import Progress

__all__ = ["OrderlyService"]

AGAIN_S = 0.01
NOT_LOCKED_S = 0.1
LOCK_LOST_S = 0.01
LOCK_REFUSED_S = 3.0
CLOSING_S = 5.0
SHORTEST_REST_S, LONGEST_REST_S = 0.01, 30.0

_SUCCESSES = (OrderlyStatus.SUCCESS, OrderlyStatus.COMMIT)
_NOT_FOR_AUTO_COMMIT = (
    "the listener returned %s for %s with auto_commit, which commits the batch; "
    "set auto_commit=False, or return with_auto_commit(result, False)"
)

Messages = Sequence[ReceivedMessage]
_log = logging.getLogger(__name__)


class OrderlyService:
    """Calls the listener from several threads, but never from two at once for messages of the same queue."""

    def __init__(
        self,
        *,
        listener: OrderlyListener,
        hooks: Hooks | None,
        settings: ConsumerSettings,
        state: MemberState,
        table: AssignmentTable,
        progress: Progress,
        redelivery: Redelivery,
        locks: QueueLocks | None,
        timer: Loop,
        clock: Clock,
        statistics: Statistics,
    ) -> None:
        self._listener = listener
        self._hooks = hooks
        self._settings = settings
        self._rhythm = settings.rhythm
        self._state = state
        self._table = table
        self._progress = progress
        self._redelivery = redelivery
        self._locks = locks
        """None for broadcasting: each member reads all queues, so there is nothing to lock."""
        self._timer = timer
        self._now_s = clock.now_s
        self._statistics = statistics
        self._threads = ThreadPool(f"consume {settings.group}", settings.thread_count)
        self._turns: defaultdict[MessageQueue, threading.Lock] = defaultdict(threading.Lock)
        """One lock for each queue, held by its run, so that a new `Assigned` of the queue starts no second run."""
        self._renewals = Loop(f"locks {settings.group}", clock)
        """A loop of its own for renewals, so that no round of rebalancing can delay them until a lock expires."""

    def start(self) -> None:
        """Start the threads, and renew the brokers' locks from time to time."""
        self._threads.start()
        if self._locks:
            self._renewals.repeat(self._rhythm.first_lock_s, self._rhythm.lock_s, self._locks.renew_all)
            self._renewals.start()

    def finish(self) -> None:
        """Wait for running listeners, at most as long as the settings say, and renew their locks meanwhile."""
        self._threads.stop(self._settings.await_termination_s)
        self._renewals.stop(CLOSING_S)

    def hand_over(self) -> None:
        """Release the locks of all held queues, so that other members can take the queues."""
        if self._locks:
            self._locks.release(self._table.queues())

    def cut(self, messages: MessageBatch) -> Sequence[MessageBatch]:
        """Cut the messages of one pull into batches of one message each.

        A thread later joins them to batches of the size that the listener gets, across the bounds of pulls.
        """
        return messages.pieces(1)

    def submit(self, assigned: Assigned, batches: Sequence[MessageBatch], starts: bool) -> None:
        """Let a thread consume the queue if `starts` is true; otherwise the one at work takes the new messages, too."""
        if starts:
            self._resume(assigned)

    def skip(self, assigned: Assigned, offset: int) -> None:
        """Move the group's position to `offset`, because a filter left out the messages before it."""
        self._progress.update(assigned.queue, offset, only_forward=True)

    def listen_to(self, messages: Messages) -> object:
        """Call the listener with the messages and return its result, or raise what it raises."""
        return self._listener(messages)

    def _call_listener(self, messages: Messages) -> tuple[Ordered, ConsumeReturnType | None]:
        """Return the listener's result and None.

        If the listener raises or returns a value that is no result, return SUSPEND and which of the two it did.
        """
        try:
            returned: object = self._listener(messages)
        except BaseException:  # `sys.exit()`, too: it must not end the thread.
            _log.exception("the listener failed on %s", messages[0])
            return SUSPEND, ConsumeReturnType.EXCEPTION
        result = to_ordered(returned)
        if result is None:
            text = "the listener returned %r for %s, which counts as failure; %s"
            _log.warning(text, returned, messages[0], ORDERLY_ADVICE)
            return SUSPEND, ConsumeReturnType.RETURNNULL
        return result, None

    # --- one run -----------------------------------------------------------------------------------------------------

    def _resume(self, assigned: Assigned, delay_s: float = 0.0) -> None:
        """Let a thread consume the queue's cached messages, now or after a delay."""

        def submit() -> None:
            self._threads.submit(lambda: self._run(assigned))

        if delay_s:
            self._timer.call_later(delay_s, submit)
        else:
            submit()

    def _run(self, assigned: Assigned) -> None:
        turn = self._turns[assigned.queue]
        if assigned.process_queue.dropped:
            return
        if not turn.acquire(blocking=False):
            self._resume(assigned, NOT_LOCKED_S)
            return
        try:
            if self._is_locked(assigned):
                self._consume(assigned)
            else:
                self._relock(assigned, NOT_LOCKED_S)
        finally:
            turn.release()

    def _consume(self, assigned: Assigned) -> None:
        """Give the listener one batch of the queue after the other.

        Stop when no message is cached, a batch must come again later, the queue or its lock is lost, or the longest
        time for one queue is over. Then plan to continue, unless no message is cached or the queue is lost.
        """
        process_queue = assigned.process_queue
        until_s = self._now_s() + self._rhythm.longest_run_s
        goes_on = True
        while goes_on and self._state.is_running and not process_queue.dropped:
            if not self._is_locked(assigned):
                self._relock(assigned, LOCK_LOST_S)
                return
            if self._now_s() > until_s:
                self._resume(assigned, AGAIN_S)
                return
            taken = process_queue.take(self._settings.batch_size)
            batch = [message for piece in taken for message in piece]
            goes_on = bool(batch) and self._consume_batch(assigned, batch)

    def _consume_batch(self, assigned: Assigned, batch: Messages) -> bool:
        """Call hooks and listener with a batch, and apply the result; return False if no batch may follow at once."""
        hooks = self._hooks
        context = hooks.before(assigned.queue, batch) if hooks else None
        began_s = self._now_s()
        with assigned.process_queue.consume_lock:
            if assigned.process_queue.dropped:
                return False
            result, mistake = self._call_listener(batch)
        spent_s = self._now_s() - began_s
        if hooks and context:
            status = result.status
            kind = mistake or hooks.judge(spent_s, is_failed=status is OrderlyStatus.SUSPEND)
            hooks.after(context, status.value, status in _SUCCESSES, kind)
        auto_commit = self._settings.auto_commit if result.auto_commit is None else result.auto_commit
        self._count(assigned, batch, result.status, auto_commit, spent_s)
        return self._settle(assigned, batch, result, auto_commit)

    def _count(
        self, assigned: Assigned, batch: Messages, status: OrderlyStatus, auto_commit: bool, spent_s: float
    ) -> None:
        """Count a call of the listener and its messages for administrators.

        As in Java, messages of COMMIT or ROLLBACK without auto-commit count neither as succeeded nor as failed.
        """
        is_failed = status is OrderlyStatus.SUSPEND
        succeeded = len(batch) if status is OrderlyStatus.SUCCESS or (auto_commit and not is_failed) else 0
        failed = len(batch) if is_failed else 0
        self._statistics.consumed(assigned.queue.topic, spent_s, succeeded=succeeded, failed=failed)

    # --- results -----------------------------------------------------------------------------------------------------

    def _settle(self, assigned: Assigned, batch: Messages, result: Ordered, auto_commit: bool) -> bool:
        """Commit, retry or roll back a batch, as the listener's result says.

        Return True if the queue's next batch may follow at once, False if the queue pauses first.
        """
        if result.status is OrderlyStatus.SUSPEND:
            kept = [message for message in batch if not self._send_to_dead_letters(message)]
            if kept:
                return self._retry(assigned, batch, kept, result)
        elif auto_commit and result.status is not OrderlyStatus.SUCCESS:
            _log.warning(_NOT_FOR_AUTO_COMMIT, result.status.name, batch[0])
        elif result.status is OrderlyStatus.ROLLBACK:
            assigned.process_queue.rollback()
            return self._rest(assigned, result)
        if auto_commit or result.status is OrderlyStatus.COMMIT:
            self._commit(assigned)
        return True

    def _retry(self, assigned: Assigned, batch: Messages, kept: Messages, result: Ordered) -> bool:
        """Put a failed batch back into the cache, and plan to consume it again after a pause; always return False.

        `kept` are the batch's messages that did not become dead letters; only their failures are counted. As in Java,
        all messages of the batch are put back, even those that became dead letters.
        """
        for message in kept:
            message.failed_here += 1
        assigned.process_queue.put_back(message.offset for message in batch)
        return self._rest(assigned, result)

    def _commit(self, assigned: Assigned) -> None:
        offset = assigned.process_queue.commit()
        if not assigned.process_queue.dropped:
            self._progress.update(assigned.queue, offset, only_forward=False)

    def _rest(self, assigned: Assigned, result: Ordered) -> bool:
        """Plan to consume a queue again after a pause, and return False: no batch may follow at once.

        The pause is the result's `suspend_s`, or that of the settings if the result has none.
        """
        rest_s = self._settings.suspend_s if result.suspend_s is None else result.suspend_s
        self._resume(assigned, min(max(rest_s, SHORTEST_REST_S), LONGEST_REST_S))
        return False

    def _send_to_dead_letters(self, message: ReceivedMessage) -> bool:
        """Send a message to the dead letters if it has no retries left; return True if a broker took it."""
        if message.reconsume_times < self._redelivery.most_retries:
            return False
        try:
            self._redelivery.send_copy(message)
        except RocketMQError as error:
            _log.warning("%s could not be stored as a dead letter; the listener gets it again: %s", message, error)
            return False
        return True

    # --- locks -------------------------------------------------------------------------------------------------------

    def _is_locked(self, assigned: Assigned) -> bool:
        if self._locks is None:
            return True
        process_queue = assigned.process_queue
        return process_queue.locked and not process_queue.is_lock_expired(self._rhythm.lock_max_live_s)

    def _relock(self, assigned: Assigned, delay_s: float) -> None:
        """Ask the broker for the lock again after a delay, in another thread because the request may take long."""
        self._timer.call_later(delay_s, lambda: self._threads.submit(lambda: self._lock_and_resume(assigned)))

    def _lock_and_resume(self, assigned: Assigned) -> None:
        if assigned.process_queue.dropped or self._locks is None:
            return
        taken = False
        try:
            taken = self._locks.take(assigned.queue)
        finally:
            self._resume(assigned, AGAIN_S if taken else LOCK_REFUSED_S)
