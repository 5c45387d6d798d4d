"""How is a position moved while listeners are still at work?

The queue is dropped, so what they report is thrown away; the position is set and frozen, told to the broker, and the
queue taken anew, by the next round or at once if queues are not shared. This happens to one queue whose offset a broker
calls illegal, and to a whole topic when an administrator resets the group by way of its members (brokers of 5.2 and
later move groups themselves, which shows here as illegal offsets).

Resets overlap, as every broker sends its own for a topic. No round may come between: it would take a dropped queue
anew where it stood. So queues stay as they are until the last reset has had its pause, and are moved all together.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from ..model import MessageQueue
from .assignment import Assigned, AssignmentTable
from .loop import Loop
from .rebalance import Rebalancer
from .settings import Rhythm
from .state import MemberState
from .stores import OffsetStore

__all__ = ["Corrections"]

_log = logging.getLogger(__name__)


class Corrections:
    """Moves positions; for any thread."""

    def __init__(
        self,
        timer: Loop,
        table: AssignmentTable,
        store: OffsetStore,
        rebalancer: Rebalancer,
        state: MemberState,
        retake: Callable[[MessageQueue, int], object],
        rhythm: Rhythm,
    ) -> None:
        self._timer = timer
        self._table = table
        self._store = store
        self._rebalancer = rebalancer
        self._state = state
        self._retake = retake
        self._reset_pause_s = rhythm.reset_pause_s
        self._resets: dict[MessageQueue, int] = {}
        """Where pending resets want queues of ours; for the timer loop alone."""

    def correct(self, assigned: Assigned, offset: int) -> None:
        """Move one queue."""
        # Frozen at once: should a round come first, it writes this offset down and takes the queue from there.
        self._store.progress.freeze(assigned.queue, offset)
        assigned.process_queue.dropped = True
        self._timer.call_soon(lambda: self._renew(assigned, offset))

    def reset(self, topic: str, offsets: Mapping[MessageQueue, int]) -> None:
        """Move all queues of a topic that are named, after running listeners had time to finish."""
        self._timer.call_soon(lambda: self._begin_reset(topic, offsets))

    def _renew(self, assigned: Assigned, offset: int) -> None:
        if self._table.get(assigned.queue) is assigned:
            self._rebalancer.give_up(assigned)
            self._retake(assigned.queue, offset)
        elif self._store.progress.get(assigned.queue) == offset:
            # Lost or taken anew (`seek`) before `correct` froze it, and nobody else would ever thaw it. Where a round
            # has taken it anew from this very offset, that is written down already and may be forgotten, too.
            self._store.progress.forget(assigned.queue)

    def _begin_reset(self, topic: str, offsets: Mapping[MessageQueue, int]) -> None:
        _log.warning("an administrator moves %d queues of %s", len(offsets), topic)
        self._state.pending_resets += 1
        for assigned in self._table.all(topic):
            if assigned.queue in offsets:
                self._resets[assigned.queue] = offsets[assigned.queue]
                assigned.process_queue.dropped = True
                assigned.process_queue.clear()
        self._timer.call_later(self._reset_pause_s, self._end_reset)

    def _end_reset(self) -> None:
        self._state.pending_resets -= 1
        if self._state.pending_resets:
            return
        resets, self._resets = self._resets, {}
        for queue, offset in resets.items():
            if assigned := self._table.get(queue):  # Its user may have taken it anew meanwhile.
                self.correct(assigned, offset)
