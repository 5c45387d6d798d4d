"""Where does a newly taken queue begin?

A position of the group always wins, 0 too. Without one it is the member's wish, but for retry topics: what failed once
is not skipped, so they begin at 0, or with a wish for a time at their end. A position outside the queue's bounds is no
matter here: the first pull mends it.
"""

from __future__ import annotations

from ..cluster.queue_offsets import Offsets
from ..model import RETRY_PREFIX, MessageQueue
from ..net.deadline import Deadline
from .settings import ConsumeFrom
from .stores import OffsetStore

__all__ = ["Starting"]

TIMEOUT_S = 5.0


class Starting:
    """Finds first offsets; raises what the cluster raises."""

    def __init__(
        self, offsets: Offsets, store: OffsetStore, consume_from: ConsumeFrom, consume_timestamp_ms: int
    ) -> None:
        self._offsets = offsets
        self._store = store
        self._consume_from = consume_from
        self._consume_timestamp_ms = consume_timestamp_ms

    def find(self, queue: MessageQueue) -> int:
        """The offset of the first pull."""
        stored = self._store.read(queue)
        return self._wished(queue) if stored is None else stored

    def _wished(self, queue: MessageQueue) -> int:
        is_retry = queue.topic.startswith(RETRY_PREFIX)
        wish = self._consume_from
        if wish is ConsumeFrom.FIRST_OFFSET or (wish is ConsumeFrom.LAST_OFFSET and is_retry):
            return 0
        deadline = Deadline.after(TIMEOUT_S)
        if wish is ConsumeFrom.LAST_OFFSET or is_retry:
            return self._offsets.fetch_max([queue], deadline)[queue]
        return self._offsets.search({queue: self._consume_timestamp_ms}, deadline=deadline)[queue]
