"""Call the listener with batches of messages from many threads at once, in any order.

The messages of one pull are cut into batches, and the next free thread consumes each batch. Messages that succeed leave
the process queue; failed ones are sent back to their broker and leave it, too. Messages that cannot be sent back stay
in the process queue, keep the group's position from passing them, and reach the listener again after five seconds. So
the position never passes a message that is neither done nor stored elsewhere.

Messages that a listener has held for too long (by default 15 minutes) are sent back as if they had failed, the
smallest offsets first.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial

from ..errors import RocketMQError
from .assignment import Assigned, AssignmentTable
from .clock import Clock
from .hooks import ConsumeReturnType, Hooks
from .loop import Loop, ThreadPool
from .message import MessageBatch, ReceivedMessage
from .redelivery import CLEANED_DELAY_LEVEL, Redelivery
from .results import CONCURRENT_ADVICE, RECONSUME_LATER, ConcurrentListener, Consumed
from .running import MemberState
from .settings import ConsumerSettings
from .statistics import Statistics
from .stores import Progress

__all__ = ["ConcurrentService"]

Messages = Sequence[ReceivedMessage]
_log = logging.getLogger(__name__)


class ConcurrentService:
    """Calls the listener from several threads at once."""

    def __init__(
        self,
        *,
        listener: ConcurrentListener,
        hooks: Hooks | None,
        settings: ConsumerSettings,
        state: MemberState,
        table: AssignmentTable,
        progress: Progress,
        redelivery: Redelivery,
        timer: Loop,
        clock: Clock,
        statistics: Statistics,
    ) -> None:
        self._listener = listener
        self._hooks = hooks
        self._settings = settings
        self._is_broadcasting = settings.is_broadcasting
        self._state = state
        self._table = table
        self._progress = progress
        self._redelivery = redelivery
        self._timer = timer
        self._now_s = clock.now_s
        self._wall_ms = clock.wall_ms
        self._statistics = statistics
        self._threads = ThreadPool(f"consume {settings.group}", settings.thread_count)

    def start(self) -> None:
        """Start the threads; from time to time, send back messages that the listener has held for too long."""
        self._threads.start()
        pause_s = self._settings.consume_timeout_s
        self._timer.repeat(pause_s, pause_s, self._clean)

    def finish(self) -> None:
        """Wait for running listeners, at most as long as the settings say."""
        self._threads.stop(self._settings.await_termination_s)

    def hand_over(self) -> None:
        """Do nothing: there are no locks to release. Other members pull the messages again that are not done."""

    def skip(self, assigned: Assigned, offset: int) -> None:
        """Move the group's position to `offset`, because a filter left out the messages before it."""
        self._progress.update(assigned.queue, offset, only_forward=True)

    def listen_to(self, messages: Messages) -> object:
        """Call the listener with the messages and return its result, or raise what it raises."""
        return self._listener(messages)

    def cut(self, messages: MessageBatch) -> Sequence[MessageBatch]:
        """Cut the messages of one pull into batches of the size that the settings give the listener."""
        return messages.pieces(self._settings.batch_size)

    def submit(self, assigned: Assigned, batches: Sequence[MessageBatch], starts: bool) -> None:
        """Let the threads consume every batch, in any order; `starts` is ignored, it is for orderly consumption."""
        for batch in batches:
            self._threads.submit(partial(self._consume, assigned, batch))

    # --- in a thread of the pool --------------------------------------------------------------------------------------

    def _consume(self, assigned: Assigned, batch: MessageBatch) -> None:
        process_queue = assigned.process_queue
        if process_queue.dropped or not self._state.is_running:
            return
        result = self._consume_batch(assigned, batch)
        done_count = _done_count(result, batch.message_count)
        if not process_queue.dropped:  # Otherwise the queue's new owner gets the messages again.
            self._settle(assigned, batch, done_count, result.delay_level)

    def _consume_batch(self, assigned: Assigned, batch: MessageBatch) -> Consumed:
        """Call the hooks and the listener with a batch, count the result for administrators, and return it."""
        hooks = self._hooks
        context = hooks.before(assigned.queue, batch) if hooks else None
        began_s = self._now_s()
        assigned.process_queue.begin_consuming(batch.offset, began_s)
        batch.note_consume_start(self._wall_ms())
        result, mistake = self._call_listener(batch)
        spent_s = self._now_s() - began_s
        if hooks and context:
            is_success = result.is_success
            status = "CONSUME_SUCCESS" if is_success else "RECONSUME_LATER"
            kind = mistake or hooks.judge(spent_s, is_failed=not is_success)
            hooks.after(context, status, is_success, kind)
        succeeded = _done_count(result, batch.message_count)
        failed = batch.message_count - succeeded
        self._statistics.consumed(assigned.queue.topic, spent_s, succeeded=succeeded, failed=failed)
        return result

    def _call_listener(self, messages: Messages) -> tuple[Consumed, ConsumeReturnType | None]:
        """Return the listener's result and None.

        If the listener raises or returns a value that is no result, return RECONSUME_LATER and which of the two it did.
        """
        try:
            result: object = self._listener(messages)
        except BaseException:  # `sys.exit()`, too: it must not end the thread.
            _log.exception("the listener failed on %s and %d more", messages[0], len(messages) - 1)
            return RECONSUME_LATER, ConsumeReturnType.EXCEPTION
        if not isinstance(result, Consumed):
            text = "the listener returned %r for %s, which counts as failure; %s"
            _log.warning(text, result, messages[0], CONCURRENT_ADVICE)
            return RECONSUME_LATER, ConsumeReturnType.RETURNNULL
        return result, None

    def _settle(self, assigned: Assigned, batch: MessageBatch, done_count: int, delay_level: int) -> None:
        """Send failed messages back, remove finished messages from the process queue, and move the group's position."""
        process_queue = assigned.process_queue
        if done_count < batch.message_count and (kept := self._dispose(assigned, batch, done_count, delay_level)):
            self._consume_again(assigned, batch, kept)
            offset = process_queue.remove(())
        else:
            offset = process_queue.remove((batch.offset,))
        if offset is not None and not process_queue.dropped:
            self._progress.update(assigned.queue, offset, only_forward=True)

    def _consume_again(self, assigned: Assigned, batch: MessageBatch, kept: Messages) -> None:
        """Give the messages `kept` of a batch, which could not be sent back, to the listener again after a pause.

        The batch's other messages are removed from the process queue.
        """
        rest = MessageBatch.of(kept)
        assigned.process_queue.shrink(batch, rest)
        self._timer.call_later(
            self._settings.rhythm.resubmit_s, lambda: self._threads.submit(partial(self._consume, assigned, rest))
        )

    def _dispose(
        self, assigned: Assigned, batch: MessageBatch, done_count: int, delay_level: int
    ) -> list[ReceivedMessage]:
        """Send back the messages that failed, and return those that no broker took.

        The first `done_count` messages of the batch have succeeded. In broadcasting, drop the others and return none.
        """
        failed = batch[done_count:]
        if self._is_broadcasting:
            for message in failed:
                _log.warning("%s failed and is dropped: broadcasting sends nothing back", message)
            return []
        if batch.offset not in assigned.process_queue:
            return []
        return [message for message in failed if not (message.is_sent_back or self._send_back(message, delay_level))]

    def _send_back(self, message: ReceivedMessage, delay_level: int) -> bool:
        """Send a message back, and return True if a broker took it."""
        try:
            self._redelivery.send_back(message, delay_level)
        except RocketMQError as error:
            message.failed_here += 1
            _log.warning("%s could not be sent back and reaches the listener again: %s", message, error)
            return False
        return True

    # --- in the timer loop -------------------------------------------------------------------------------------------

    def _clean(self) -> None:
        timeout_s = self._settings.consume_timeout_s
        for assigned in self._table.all():
            for batch in assigned.process_queue.clean_expired(timeout_s, self._send_back_held):
                _log.warning("the listener held %s for too long; the messages were sent back", batch)

    def _send_back_held(self, batch: MessageBatch) -> None:
        """Send back each message of a batch that the listener held for too long. Raise if no broker takes one.

        Messages that were not sent back are tried again after the next timeout.
        """
        for message in batch:
            if not message.is_sent_back:
                self._redelivery.send_back(message, CLEANED_DELAY_LEVEL)
                message.is_sent_back = True


def _done_count(result: Consumed, size: int) -> int:
    """Return how many messages succeeded in a batch of `size` messages; they are the first ones."""
    return size if result.done_count is None else max(0, min(result.done_count, size))
