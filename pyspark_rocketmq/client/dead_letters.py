"""Read the dead letters of a group, and send them again.

Dead letters lie in a topic of their own, which no group consumes. It is listed and read like any topic. Sending a
letter again stores a new message in the topic to which it was first sent, and every group that subscribes to this topic
gets it. The dead letter itself stays in its topic, so the report has the offsets from which the next call continues.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from ..broker_errors import NoPermission
from ..cluster.cluster import open_cluster
from ..cluster.messages import Receipt
from ..cluster.settings import ClusterSettings
from ..errors import DecodeError, RocketMQError, TopicNotFound
from ..model import Message, MessageQueue, QueueBounds, QueueRange, dead_letter_topic
from ..pull.settings import PullSettings
from ..wire.properties import is_reserved
from .checks import check_group, to_cluster_settings
from .message import ReceivedMessage
from .producer import Producer
from .range_reading import read_queue_ranges

__all__ = ["DeadLetters", "Failed", "Report", "Resent"]

_KEPT = frozenset({"UNIQ_KEY"})
_log = logging.getLogger(__name__)

Wanted = Callable[[ReceivedMessage], bool]
"""Takes a dead letter, and returns whether `resend` sends it again."""


@dataclass(frozen=True, slots=True)
class Resent:
    """One dead letter that was sent again, and the receipt of the new message."""

    queue: MessageQueue
    offset: int
    receipt: Receipt


@dataclass(frozen=True, slots=True)
class Failed:
    """One dead letter that could not be sent again."""

    queue: MessageQueue
    offset: int
    error: RocketMQError


@dataclass(slots=True)
class Report:
    """The result of `resend`: the dead letters sent again, those that failed, and the offsets at which to continue.

    `unwanted_count` is the number of letters that were read but not wanted.
    """

    resent: list[Resent] = field(default_factory=list)
    failed: list[Failed] = field(default_factory=list)
    unwanted_count: int = 0
    next_offsets: dict[MessageQueue, int] = field(default_factory=dict)
    """For each queue the offset of the first letter that failed, or one past the last letter if none failed.

    So continuing there loses nothing; letters that were sent after a failed one would be sent twice.
    """

    def __str__(self) -> str:
        return f"{len(self.resent)} sent again, {len(self.failed)} failed, {self.unwanted_count} not wanted"


class DeadLetters:
    """Reads the dead letters of one group and sends them again."""

    def __init__(self, cluster: ClusterSettings | str, group: str) -> None:
        check_group(group)
        self._cluster = open_cluster(to_cluster_settings(cluster))
        self.topic = dead_letter_topic(group)

    def bounds(self) -> Mapping[MessageQueue, QueueBounds]:
        """Return the bounds of each queue of the dead-letter topic; an empty mapping if there is no such topic."""
        try:
            queues = self._cluster.routes.route(self.topic).readable
        except TopicNotFound:
            return {}
        return self._cluster.offsets.fetch_bounds(queues)

    def read(self, starts: Mapping[MessageQueue, int] | None = None) -> Iterator[ReceivedMessage]:
        """Yield every dead letter, queue by queue in the order of offsets.

        `starts` gives the first offset of a queue; a queue without one is read from its first message.
        """
        wanted = starts or {}
        for queue, bounds in sorted(self.bounds().items()):
            start = max(wanted.get(queue, 0), bounds.min_offset)
            yield from self._read(QueueRange(queue, start, bounds.max_offset))

    def resend(
        self,
        producer: Producer,
        *,
        starts: Mapping[MessageQueue, int] | None = None,
        wanted: Wanted | None = None,
        most_per_second: float | None = None,
        sleep: Callable[[float], object] = time.sleep,
    ) -> Report:
        """Send dead letters to the topics they came from, at most `most_per_second`, and return a report.

        Only those for which `wanted` returns True are sent; by default all are. A failed send is reported, and the next
        letter is tried. `starts` gives the first offset of a queue, as in `read`. The report's `next_offsets` are
        `starts` for a next call. Where a letter failed, that call begins at it and reads later letters again, even
        those that were sent: its `wanted` should return False for the letters in the report's `resent`.
        """
        report = Report()
        for letter in self.read(starts):
            if wanted is None or wanted(letter):
                self._resend(producer, letter, report)
                if most_per_second:
                    sleep(1 / most_per_second)
            else:
                report.unwanted_count += 1
            report.next_offsets[letter.queue] = letter.offset + 1
        for failed in reversed(report.failed):
            report.next_offsets[failed.queue] = failed.offset
        return report

    def _resend(self, producer: Producer, letter: ReceivedMessage, report: Report) -> None:
        try:
            receipt = producer.send(_to_original_message(letter))
            report.resent.append(Resent(letter.queue, letter.offset, receipt))
        except RocketMQError as error:
            _log.warning("%s was not sent again: %s", letter, error)
            report.failed.append(Failed(letter.queue, letter.offset, error))

    def _read(self, wanted: QueueRange) -> Iterator[ReceivedMessage]:
        try:
            yield from read_queue_ranges(self._cluster, [wanted], PullSettings(), _log.warning, "dead letters")
        except NoPermission as error:
            error.advice = "brokers before 4.9.2 make dead letters write-only: give the topic read permission"
            raise


def _to_original_message(letter: ReceivedMessage) -> Message:
    """Return the message as it was first sent: with its unique id, and without the properties that brokers added."""
    own = {name: value for name, value in letter.properties.items() if name in _KEPT or not is_reserved(name)}
    if letter.topic == letter.queue.topic:
        raise DecodeError(
            "a dead letter without the topic it was first sent to", topic=letter.topic, offset=letter.offset
        )
    return Message(letter.topic, letter.body, letter.tags or "", letter.keys or "", own, letter.record.flag)
