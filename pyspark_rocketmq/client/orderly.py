"""How do messages reach a listener that wants each queue in order?

One worker at a time consumes a queue, under the broker's lock, and takes the smallest offsets. What fails is tried
again in its place after a rest, so nothing overtakes it; only when its retries are used up (by default never) is it
sent away. A run keeps its worker for a minute at most, and looks before every batch whether queue and lock are still
ours.
"""

from __future__ import annotations

import logging
import threading
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from ..errors import RocketMQError
from ..model import MessageQueue
from .assignment import Assigned, AssignmentTable
from .clock import Clock
from .locks import QueueLocks
from .loop import Loop, Workers
from .message import MessageBatch, ReceivedMessage
from .results import RECONSUME_LATER, SUCCESS, SUSPEND, Ordered, OrderlyListener, OrderlyStatus
from .retry import Retries
from .settings import ConsumerSettings
from .state import MemberState
from .statistics import Statistics
from .stores import OffsetStore

__all__ = ["OrderlyParts", "OrderlyService"]

AGAIN_S = 0.01
NOT_LOCKED_S = 0.1
LOCK_LOST_S = 0.01
LOCK_REFUSED_S = 3.0
CLOSING_S = 5.0
SHORTEST_REST_S, LONGEST_REST_S = 0.01, 30.0

Messages = Sequence[ReceivedMessage]
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderlyParts:
    """What consumption in order works with."""

    listener: OrderlyListener
    state: MemberState
    settings: ConsumerSettings
    most_retries: int
    table: AssignmentTable
    store: OffsetStore
    retries: Retries
    locks: QueueLocks | None
    """None where every member has every queue for itself."""
    workers: Workers
    timer: Loop
    clock: Clock
    statistics: Statistics


class OrderlyService:
    """Runs the listener on the workers, one at a time for each queue."""

    def __init__(self, parts: OrderlyParts) -> None:
        self._parts = parts
        self._turns: defaultdict[MessageQueue, threading.Lock] = defaultdict(threading.Lock)
        """By queue and not by assignment: a queue may be lost and taken anew while its listener runs."""
        self._renewals = Loop(f"locks {parts.settings.group}", parts.clock)
        """Renewals wait for no round: a lock that is renewed too late is trusted no more, and then lent to others."""

    def start(self) -> None:
        """Begin to consume, and to renew locks."""
        self._parts.workers.start()
        rhythm = self._parts.settings.rhythm
        if self._parts.locks:
            self._renewals.repeat(rhythm.first_lock_s, rhythm.lock_s, self._parts.locks.renew_all)
            self._renewals.start()

    def finish(self) -> None:
        """Wait for running listeners, as long as is set; their locks are renewed meanwhile."""
        self._parts.workers.stop(self._parts.settings.await_termination_s)
        self._renewals.stop(CLOSING_S)

    def hand_over(self) -> None:
        """Give all locks back."""
        if self._parts.locks:
            self._parts.locks.give_back(self._parts.table.queues())

    def cut(self, messages: MessageBatch) -> Sequence[MessageBatch]:
        """Single messages: what the listener gets at once may come of several pulls."""
        return messages.pieces(1)

    def submit(self, assigned: Assigned, batches: Sequence[MessageBatch], starts: bool) -> None:
        """Have a queue consumed if nobody is at it; the messages themselves are taken from the queue."""
        if starts:
            self._resume(assigned)

    def skip(self, assigned: Assigned, offset: int) -> None:
        """Stand behind what was filtered out."""
        self._parts.store.progress.update(assigned.queue, offset, only_forward=True)

    def listen_to(self, messages: Messages) -> object:
        """What the listener answers, or raises."""
        return self._parts.listener(messages)

    def _heard(self, messages: Messages) -> Ordered:
        """The listener's answer; failures and nonsense made harmless."""
        try:
            result = self.listen_to(messages)
        except BaseException:  # `sys.exit()`, too: it must not end the worker.
            _log.exception("the listener failed on %s", messages[0])
            return SUSPEND
        if result == SUCCESS:
            return Ordered(OrderlyStatus.SUCCESS)
        if isinstance(result, Ordered):
            return result
        if result != RECONSUME_LATER:
            _log.warning("the listener answered %r to %s, which counts as failure", result, messages[0])
        return SUSPEND

    # --- one run -----------------------------------------------------------------------------------------------------

    def _resume(self, assigned: Assigned, delay_s: float = 0.0) -> None:
        def hand_out() -> None:
            self._parts.workers.submit(lambda: self._run(assigned))

        if delay_s:
            self._parts.timer.call_later(delay_s, hand_out)
        else:
            hand_out()

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
        """Batch after batch, until there is a reason to stop; each reason sees to what comes next."""
        process_queue, clock = assigned.process_queue, self._parts.clock
        until_s = clock.now_s() + self._parts.settings.rhythm.longest_run_s
        goes_on = True
        while goes_on and self._parts.state.is_running and not process_queue.dropped:
            if not self._is_locked(assigned):
                self._relock(assigned, LOCK_LOST_S)
                return
            if clock.now_s() > until_s:
                self._resume(assigned, AGAIN_S)
                return
            taken = process_queue.take(self._parts.settings.batch_size)
            batch = [message for piece in taken for message in piece]
            goes_on = bool(batch) and self._consume_batch(assigned, batch)

    def _consume_batch(self, assigned: Assigned, batch: Messages) -> bool:
        """Whether the run goes on."""
        began_s = self._parts.clock.now_s()
        with assigned.process_queue.consume_lock:
            if assigned.process_queue.dropped:
                return False
            result = self._heard(batch)
        failed = len(batch) if result.status is OrderlyStatus.SUSPEND else 0
        spent_s = self._parts.clock.now_s() - began_s
        topic = assigned.queue.topic
        self._parts.statistics.consumed(topic, spent_s, succeeded=len(batch) - failed, failed=failed)
        return self._settle(assigned, batch, result)

    # --- results -----------------------------------------------------------------------------------------------------

    def _settle(self, assigned: Assigned, batch: Messages, result: Ordered) -> bool:
        """Whether the run goes on."""
        auto = self._parts.settings.auto_commit
        if result.status is OrderlyStatus.SUSPEND:
            if self._must_rest(batch):
                assigned.process_queue.put_back(message.offset for message in batch)
                return self._rest(assigned, result)
            commits = auto
        elif result.status is OrderlyStatus.ROLLBACK and not auto:
            assigned.process_queue.rollback()
            return self._rest(assigned, result)
        else:
            commits = auto or result.status is OrderlyStatus.COMMIT
        if commits:
            self._commit(assigned)
        return True

    def _commit(self, assigned: Assigned) -> None:
        offset = assigned.process_queue.commit()
        if not assigned.process_queue.dropped:
            self._parts.store.progress.update(assigned.queue, offset, only_forward=False)

    def _rest(self, assigned: Assigned, result: Ordered) -> bool:
        rest_s = self._parts.settings.suspend_s if result.suspend_s is None else result.suspend_s
        self._resume(assigned, min(max(rest_s, SHORTEST_REST_S), LONGEST_REST_S))
        return False

    def _must_rest(self, batch: Messages) -> bool:
        """Count the failure of each message; whether any is to be tried again here."""
        outcomes = [self._is_tried_again(message) for message in batch]
        return any(outcomes)

    def _is_tried_again(self, message: ReceivedMessage) -> bool:
        if message.reconsume_times >= self._parts.most_retries:
            try:
                self._parts.retries.send_copy(message)
            except RocketMQError as error:
                _log.warning("%s could not be sent away, it is tried again here: %s", message, error)
            else:
                return False
        message.failed_here += 1
        return True

    # --- locks -------------------------------------------------------------------------------------------------------

    def _is_locked(self, assigned: Assigned) -> bool:
        if self._parts.locks is None:
            return True
        process_queue = assigned.process_queue
        return process_queue.locked and not process_queue.is_lock_expired(self._parts.settings.rhythm.lock_max_live_s)

    def _relock(self, assigned: Assigned, delay_s: float) -> None:
        """Ask the broker again after a while, in a worker: it may take its time to answer."""
        self._parts.timer.call_later(
            delay_s, lambda: self._parts.workers.submit(lambda: self._lock_and_resume(assigned))
        )

    def _lock_and_resume(self, assigned: Assigned) -> None:
        if assigned.process_queue.dropped or self._parts.locks is None:
            return
        taken = False
        try:
            taken = self._parts.locks.take(assigned.queue)
        finally:
            self._resume(assigned, AGAIN_S if taken else LOCK_REFUSED_S)
