"""Move positions of held queues while listeners are still at work.

The queue is dropped, so what its listeners report is thrown away; the position is set and frozen and committed, and
the queue is taken anew, by the next round or at once if the user gave the queues. This happens to one queue
whose offset a broker calls illegal, and to a whole topic when an administrator resets the group by way of its members
(brokers of 5.2 and later move groups themselves, which members see as illegal offsets).

Resets overlap, as every broker sends its own for a topic. No round may come between: it would take a dropped queue
anew where it stood. So queues stay as they are until the last reset has had its pause, and then all of them are moved.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from ..model import MessageQueue
from .assignment import Assigned, AssignmentTable
from .loop import Loop
from .rebalance import QueueHandover
from .running import MemberState
from .stores import Progress

__all__ = ["Corrections"]

_log = logging.getLogger(__name__)


class Corrections:
    """The moves of one member's positions. For any thread."""

    def __init__(
        self,
        *,
        timer: Loop,
        table: AssignmentTable,
        progress: Progress,
        handover: QueueHandover,
        state: MemberState,
        retake: Callable[[MessageQueue, int], object],
        reset_pause_s: float,
    ) -> None:
        self._timer = timer
        self._table = table
        self._progress = progress
        self._handover = handover
        self._state = state
        self._retake = retake
        self._reset_pause_s = reset_pause_s
        self._resets: dict[MessageQueue, int] = {}
        """The offsets that pending resets give to held queues; for the timer loop alone."""

    def correct(self, assigned: Assigned, offset: int) -> None:
        """Move one queue."""
        # Frozen at once: a round that comes first persists this offset and takes the queue from there.
        self._progress.freeze(assigned.queue, offset)
        assigned.process_queue.dropped = True
        self._timer.call_soon(lambda: self._replace(assigned, offset))

    def reset(self, topic: str, offsets: Mapping[MessageQueue, int]) -> None:
        """Move the given queues of a topic after a pause in which running listeners may finish."""
        self._timer.call_soon(lambda: self._begin_reset(topic, offsets))

    def _replace(self, assigned: Assigned, offset: int) -> None:
        if self._table.get(assigned.queue) is assigned:
            self._handover.give_up(assigned)
            self._retake(assigned.queue, offset)
        elif self._progress.get(assigned.queue) == offset:
            # The queue was lost or taken anew (`seek`) before `correct` froze it, and nothing else would thaw it. A
            # round that took it anew from this very offset has persisted the offset, so it may be forgotten as well.
            self._progress.forget(assigned.queue)

    def _begin_reset(self, topic: str, offsets: Mapping[MessageQueue, int]) -> None:
        _log.warning("an administrator moves %d queues of %s", len(offsets), topic)
        self._state.begin_reset()
        for assigned in self._table.all(topic):
            if assigned.queue in offsets:
                self._resets[assigned.queue] = offsets[assigned.queue]
                assigned.process_queue.dropped = True
                assigned.process_queue.clear()
        self._timer.call_later(self._reset_pause_s, self._end_reset)

    def _end_reset(self) -> None:
        if not self._state.end_reset():
            return
        resets, self._resets = self._resets, {}
        for queue, offset in resets.items():
            if assigned := self._table.get(queue):  # The user may have taken it anew meanwhile.
                self.correct(assigned, offset)
