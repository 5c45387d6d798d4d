"""Read ranges of queues as messages, without a group and without commits.

Lost messages do not end the reading; they are told to the caller, in a few lines however many gaps there are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ..cluster.cluster import Cluster
from ..model import Block, Finding, MessageQueue, QueueRange
from ..net.pool import pool_for
from ..offsets.loss import GapLog, LossWarning
from ..pull.loop import read_ranges
from ..pull.recheck import Recheck
from ..pull.settings import PullSettings
from .message import Pulled, ReceivedMessage, read_messages

__all__ = ["read_queue_ranges"]

Warn = Callable[[str], object]


def read_queue_ranges(
    cluster: Cluster, ranges: Sequence[QueueRange], settings: PullSettings, warn: Warn, what: str = "messages"
) -> Iterator[ReceivedMessage]:
    """Yield every message of the ranges, those of one queue in the order of their offsets.

    `warn` gets a line about lost messages, which it calls `what`.
    """
    brokers, pool = cluster.brokers, pool_for(cluster.settings.net)
    policy = _WarnOfLosses(warn, what)
    recheck = Recheck(brokers, pool, policy, settings)
    wanted = {each.queue: each for each in ranges}
    unwrap = cluster.settings.namespace.unwrap
    try:
        for block in read_ranges(ranges, brokers, pool, policy, settings):
            for whole in recheck.whole(block):
                yield from _messages(whole, wanted[whole.wanted.queue], unwrap)
    finally:
        policy.finish()


def _messages(block: Block, whole: QueueRange, unwrap: Callable[[str], str]) -> Iterator[ReceivedMessage]:
    """Yield those messages of a response whose offsets lie in the requested range.

    A broker may have written wrong offsets into the records. So if the response has a message for every offset that it
    covers, each message gets its offset from its place in the response.
    """
    queue, start, end, _ = block.wanted
    messages = read_messages(Pulled(queue, block.data, whole.start, whole.end, unwrap), block.first)
    for position, message in enumerate(messages, block.first):
        if len(messages) == block.covered:
            message.offset = position
        if start <= message.offset < end:
            yield message


class _WarnOfLosses:
    """The loss policy: tell every loss and go on, because retention may delete messages at any time."""

    def __init__(self, warn: Warn, what: str) -> None:
        self._gaps = GapLog()
        self._warn = warn
        self._what = what

    def begins_later(self, queue: MessageQueue, planned: int, minimum: int) -> None:
        """Tell that the messages of a queue from offset `planned` to `minimum` are gone, so reading begins later."""
        self._warn(f"{self._what} from {planned} to {minimum} of {queue} are gone")

    def ends_earlier(self, queue: MessageQueue, planned_end: int, maximum: int) -> None:
        """Tell that a queue now ends at offset `maximum`, before `planned_end`, up to which it was to be read."""
        self._warn(f"{self._what} of {queue} end at {maximum} now, not at {planned_end}")

    def vanished(self, rest: QueueRange) -> None:
        """Tell that the rest of a queue is not read because the route no longer has the queue."""
        self._warn(f"{self._what} of {rest.queue} are not read: the queue is not in the route any more")

    def was_reset(self, queue: MessageQueue, planned: int, reset_to: int) -> None:
        """Ignore that an administrator moved a group's position: ranges are read without a group's position."""

    def lacks_messages(self, queue: MessageQueue, start: int, end: int, missing_count: int | None = None) -> None:
        """Tell a gap; many gaps of a queue are merged into a few warnings."""
        if warning := self._gaps.add(LossWarning(Finding.MESSAGES_MISSING, queue, start, end, missing_count)):
            self._warn(str(warning))

    def finish(self) -> None:
        """Tell the gaps that are not told yet, and the totals."""
        for warning in (*self._gaps.rest(), *self._gaps.totals()):
            self._warn(str(warning))
