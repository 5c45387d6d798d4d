"""How do messages reach a listener that takes them in any order?

What one pull brought is cut into batches, and every batch is consumed by whichever worker is free. What succeeded
leaves the process queue; what failed is sent back to its broker and leaves it, too; what could not even be sent back
stays there as the rest of its batch, holds the group's position where it is, and reaches the listener again in five
seconds. So the position never passes a message that is not done or stored elsewhere.

Messages that a listener has held for 15 minutes are sent back as if they had failed, from the first of a queue on.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from ..errors import RocketMQError
from .assignment import Assigned, AssignmentTable
from .clock import Clock
from .loop import Loop, Workers
from .message import MessageBatch, ReceivedMessage
from .results import RECONSUME_LATER, ConcurrentListener, Consumed
from .retry import CLEANED_DELAY_LEVEL, Retries
from .settings import ConsumerSettings
from .state import MemberState
from .statistics import Statistics
from .stores import OffsetStore

__all__ = ["ConcurrentParts", "ConcurrentService"]

Messages = Sequence[ReceivedMessage]
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConcurrentParts:
    """What concurrent consumption works with."""

    listener: ConcurrentListener
    state: MemberState
    settings: ConsumerSettings
    table: AssignmentTable
    store: OffsetStore
    retries: Retries
    workers: Workers
    timer: Loop
    clock: Clock
    statistics: Statistics


class ConcurrentService:
    """Runs the listener on the workers."""

    def __init__(self, parts: ConcurrentParts) -> None:
        self._parts = parts

    def start(self) -> None:
        """Begin to consume, and to clean what listeners hold too long."""
        self._parts.workers.start()
        pause_s = self._parts.settings.consume_timeout_s
        self._parts.timer.repeat(pause_s, pause_s, self._clean)

    def finish(self) -> None:
        """Wait for running listeners, as long as is set."""
        self._parts.workers.stop(self._parts.settings.await_termination_s)

    def hand_over(self) -> None:
        """Nothing is to be handed over: what is not done stays the group's to do."""

    def skip(self, assigned: Assigned, offset: int) -> None:
        """Stand behind what was filtered out."""
        self._parts.store.progress.update(assigned.queue, offset, only_forward=True)

    def listen_to(self, messages: Messages) -> object:
        """What the listener answers, or raises."""
        return self._parts.listener(messages)

    def cut(self, messages: MessageBatch) -> Sequence[MessageBatch]:
        """What the listener gets at once; batches never mix pulls or queues."""
        return messages.pieces(self._parts.settings.batch_size)

    def submit(self, assigned: Assigned, batches: Sequence[MessageBatch], starts: bool) -> None:
        """Have every batch consumed."""
        for batch in batches:
            self._hand_out(assigned, batch)

    def _heard(self, messages: Messages) -> Consumed:
        """The listener's answer; failures and nonsense made harmless."""
        try:
            result = self.listen_to(messages)
        except BaseException:  # `sys.exit()`, too: it must not end the worker.
            _log.exception("the listener failed on %s and %d more", messages[0], len(messages) - 1)
            return RECONSUME_LATER
        if not isinstance(result, Consumed):
            _log.warning("the listener answered %r to %s, which counts as failure", result, messages[0])
            return RECONSUME_LATER
        return result

    def _hand_out(self, assigned: Assigned, batch: MessageBatch) -> None:
        self._parts.workers.submit(partial(self._run, assigned, batch))

    # --- in a worker -------------------------------------------------------------------------------------------------

    def _run(self, assigned: Assigned, batch: MessageBatch) -> None:
        process_queue, clock = assigned.process_queue, self._parts.clock
        if process_queue.dropped or not self._parts.state.is_running:
            return
        began_s = clock.now_s()
        process_queue.begin_consuming(batch.offset, began_s)
        result = self._heard(batch)
        done_count = _done_count(result, batch.message_count)
        self._parts.statistics.consumed(
            assigned.queue.topic,
            clock.now_s() - began_s,
            succeeded=done_count,
            failed=batch.message_count - done_count,
        )
        self._settle(assigned, batch, done_count, result.delay_level)

    def _settle(self, assigned: Assigned, batch: MessageBatch, done_count: int, delay_level: int) -> None:
        """What a queue that was lost meanwhile has no more use for comes again at its new owner."""
        process_queue = assigned.process_queue
        if process_queue.dropped:
            return
        if done_count < batch.message_count and (kept := self._dispose(assigned, batch, done_count, delay_level)):
            self._keep(assigned, batch, kept)
            offset = process_queue.remove(())
        else:
            offset = process_queue.remove((batch.offset,))
        if offset is not None and not assigned.is_lost():
            self._parts.store.progress.update(assigned.queue, offset, only_forward=True)

    def _keep(self, assigned: Assigned, batch: MessageBatch, kept: Messages) -> None:
        """Have what is left of a batch consumed again after a while."""
        rest = MessageBatch.of(kept)
        assigned.process_queue.shrink(batch, rest)
        self._parts.timer.call_later(self._parts.settings.rhythm.resubmit_s, lambda: self._hand_out(assigned, rest))

    def _dispose(
        self, assigned: Assigned, batch: MessageBatch, done_count: int, delay_level: int
    ) -> list[ReceivedMessage]:
        """Send failed messages back; those that could not be. Where all members get everything they are dropped."""
        failed = batch[done_count:]
        if self._parts.settings.is_broadcasting:
            for message in failed:
                _log.warning("%s failed and is dropped, as everything is in broadcasting", message)
            return []
        if batch.offset not in assigned.process_queue:
            return []
        still_ours = [message for message in failed if not message.is_sent_back]
        return [message for message in still_ours if not self._sent_back(message, delay_level)]

    def _sent_back(self, message: ReceivedMessage, delay_level: int) -> bool:
        try:
            self._parts.retries.send_back(message, delay_level)
        except RocketMQError as error:
            message.failed_here += 1
            _log.warning("%s stays here and is tried again: %s", message, error)
            return False
        return True

    # --- in the timer loop -------------------------------------------------------------------------------------------

    def _clean(self) -> None:
        timeout_s = self._parts.settings.consume_timeout_s
        for assigned in self._parts.table.all():
            for batch in assigned.process_queue.clean_expired(timeout_s, self._send_back_held):
                _log.warning("the listener held %s for too long; they were sent back", batch)

    def _send_back_held(self, batch: MessageBatch) -> None:
        """What a failure leaves over is sent back in the next cleaning."""
        for message in batch:
            if not message.is_sent_back:
                self._parts.retries.send_back(message, CLEANED_DELAY_LEVEL)
                message.is_sent_back = True


def _done_count(result: Consumed, size: int) -> int:
    """How many of the batch succeeded."""
    return size if result.done_count is None else max(0, min(result.done_count, size))
