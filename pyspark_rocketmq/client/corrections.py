"""Move positions of held queues while listeners are still at work.

The queue is dropped, so results of its running listeners are ignored. Its position is set, frozen and committed. Then
the queue is taken again: by the next round of rebalancing, or at once if the user assigned the queues. This happens to
one queue when its broker rejects the offset of a pull. It happens to a topic's queues when an administrator resets the
group and brokers pass the reset on to members. (Brokers of 5.2 and later move the position themselves; members then see
rejected offsets.)

Resets overlap, because every broker sends its own for a topic. No round of rebalancing may run until all of them are
done: it would take a dropped queue again at its old position. So rounds wait until the pause of the last reset is over,
and then all queues are moved.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from ..errors import shown
from ..model import MessageQueue
from .assignment import Assigned, AssignmentTable
from .loop import Loop
from .rebalance import QueueHandover
from .running import MemberState
from .stores import Progress

__all__ = ["Corrections"]

_log = logging.getLogger(__name__)


class Corrections:
    """Moves positions of one member's queues. Any thread may call it."""

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
        """The offsets that pending resets set, by queue. Only the timer loop uses it."""

    def correct(self, assigned: Assigned, offset: int) -> None:
        """Stop reading a queue, and have the timer loop take it again soon, to be read from `offset` on.

        Until then its position in memory stays at `offset`, whatever listeners that are still at work report.
        """
        # Frozen at once, so that a round that runs before `_replace` persists this offset and takes the queue there.
        self._progress.freeze(assigned.queue, offset)
        assigned.process_queue.dropped = True
        self._timer.call_soon(lambda: self._replace(assigned, offset))

    def reset(self, topic: str, offsets: Mapping[MessageQueue, int]) -> None:
        """Drop the given queues of a topic, and move their positions after a pause in which listeners may finish."""
        self._timer.call_soon(lambda: self._begin_reset(topic, offsets))

    def _replace(self, assigned: Assigned, offset: int) -> None:
        if self._table.get(assigned.queue) is assigned:
            self._handover.give_up(assigned)
            self._retake(assigned.queue, offset)
        elif self._progress.get(assigned.queue) == offset:
            # The queue was lost or replaced (`seek`) before `correct` froze it, and nothing else would unfreeze it. A
            # round that took the queue again at this same offset has persisted it, so it can be forgotten as well.
            self._progress.forget(assigned.queue)

    def _begin_reset(self, topic: str, offsets: Mapping[MessageQueue, int]) -> None:
        _log.warning("an administrator moves %d queues of %s", len(offsets), shown(topic))
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
            if assigned := self._table.get(queue):  # The user may have given the queue up meanwhile.
                self.correct(assigned, offset)
