"""Read ranges with the pull engine, and record the losses that it reports."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from pyspark_rocketmq.cluster.cluster import Cluster
from pyspark_rocketmq.errors import DataLossError
from pyspark_rocketmq.model import Block, MessageQueue, QueueRange
from pyspark_rocketmq.net.backoff import Backoff
from pyspark_rocketmq.net.pool import pool_for
from pyspark_rocketmq.pull.loop import read_ranges
from pyspark_rocketmq.pull.settings import PullSettings
from pyspark_rocketmq.wire.record import decode_record
from pyspark_rocketmq.wire.scan import record_starts

_QUICK = Backoff(first_s=0.1, longest_s=0.5)

Loss = tuple[str, MessageQueue, int, int]


class RecordingPolicy:
    """A loss policy that records each reported loss and lets reading go on; with `fails=True` it raises instead."""

    def __init__(self, *, fails: bool = False) -> None:
        self.findings: list[Loss] = []
        self._fails = fails

    def begins_later(self, queue: MessageQueue, planned: int, minimum: int) -> None:
        """Record that the queue begins at `minimum`, so that messages from `planned` to `minimum` are gone."""
        self._record("begins later", queue, planned, minimum)

    def ends_earlier(self, queue: MessageQueue, planned_end: int, maximum: int) -> None:
        """Record that the queue ends at `maximum`, before the planned end of the range."""
        self._record("ends earlier", queue, planned_end, maximum)

    def vanished(self, rest: QueueRange) -> None:
        """Record that the queue is not in the route any more; `rest` is the unread part of its range."""
        self._record("vanished", rest.queue, rest.start, rest.end)

    def was_reset(self, queue: MessageQueue, planned: int, reset_to: int) -> None:
        """Record that an administrator reset the group's offset of the queue to `reset_to`."""
        self._record("was reset", queue, planned, reset_to)

    def lacks_messages(self, queue: MessageQueue, start: int, end: int, missing_count: int | None = None) -> None:
        """Record that the queue lacks messages with offsets in [start, end)."""
        self._record("lacks messages", queue, start, end)

    def _record(self, what: str, queue: MessageQueue, planned: int, found: int) -> None:
        if self._fails:
            raise DataLossError(what, topic=queue.topic, offset=planned)
        if (what, queue, planned, found) not in self.findings:
            self.findings.append((what, queue, planned, found))


class Reading:
    """The blocks that one run of the pull engine yields, and the losses that it reported; it can be iterated once."""

    def __init__(self, blocks: Iterator[Block], policy: RecordingPolicy) -> None:
        self._blocks = blocks
        self._policy = policy

    def __iter__(self) -> Iterator[Block]:
        return self._blocks

    @property
    def losses(self) -> list[Loss]:
        """The losses that the policy has recorded so far."""
        return self._policy.findings


def read_all(
    cluster: Cluster,
    ranges: Sequence[QueueRange],
    settings: PullSettings | None = None,
    *,
    policy: RecordingPolicy | None = None,
) -> Reading:
    """Return a `Reading` of these ranges; failed pulls are sent again after short pauses."""
    policy = policy or RecordingPolicy()
    quick = replace(settings or PullSettings(), failure_pause=_QUICK)
    pool = pool_for(cluster.settings.net)
    return Reading(read_ranges(ranges, cluster.brokers, pool, policy, quick), policy)


def whole(queue: MessageQueue, count: int) -> QueueRange:
    """Return the range of a queue that consists of the offsets 0 to `count` - 1."""
    return QueueRange(queue, 0, count)


def offsets_of(blocks: Iterable[Block]) -> dict[MessageQueue, list[int]]:
    """Return {queue: offsets of the messages in these blocks}, in the order in which the blocks came."""
    found: defaultdict[MessageQueue, list[int]] = defaultdict(list)
    for block in blocks:
        queue, start, end, _ = block.wanted
        offsets = [decode_record(block.data, at)[0].queue_offset for at in record_starts(block.data)]
        found[queue] += [offset for offset in offsets if start <= offset < end]
    return dict(found)
