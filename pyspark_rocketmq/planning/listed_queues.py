"""Select the queues that the user has listed.

`assign` is one JSON object: topic → `"*"`, or topic → broker → queue ids or `"*"`. `messageQueueList` is an array of
such objects, one per slot of CONFIG. A star follows the route; a queue named by number must be in it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from ..errors import OptionError
from ..model import MessageQueue

__all__ = ["ListedQueues", "list_queues"]


@dataclass(frozen=True, slots=True)
class ListedQueues:
    """Queues by number, and topics with a broker name, or without one, of which all queues are wanted."""

    option: str
    queues: frozenset[MessageQueue]
    whole: frozenset[tuple[str, str | None]]

    @property
    def topics(self) -> frozenset[str]:
        """The topics that are named."""
        return frozenset({queue.topic for queue in self.queues} | {topic for topic, _ in self.whole})

    def select(self, queues: Iterable[MessageQueue]) -> list[MessageQueue]:
        """Return the queues of the route that are listed, in the route's order."""
        return [queue for queue in queues if self._lists(queue)]

    def _lists(self, queue: MessageQueue) -> bool:
        whole = self.whole
        return queue in self.queues or (queue.topic, None) in whole or (queue.topic, queue.broker_name) in whole

    def require_known(self, queues: Collection[MessageQueue]) -> None:
        """Raise `OptionError` for a listed queue, broker or topic that the route lacks."""
        known = {(queue.topic, queue.broker_name) for queue in queues} | {(queue.topic, None) for queue in queues}
        missing = [str(queue) for queue in sorted(self.queues.difference(queues))]
        missing += [f"{topic}/{broker or '*'}" for topic, broker in self.whole - known]
        if missing:
            raise OptionError(self.option, min(missing), "not in the route", advice="check topic, broker and queue id")


def list_queues(slots: Sequence[ListedQueues], queues: Sequence[MessageQueue]) -> tuple[tuple[MessageQueue, ...], ...]:
    """Return the queues of each slot; raise `OptionError` unless every queue of the route is listed once."""
    for slot in slots:
        slot.require_known(queues)
    lists = tuple(tuple(slot.select(queues)) for slot in slots)
    counts = dict.fromkeys(queues, 0)
    for queue in (queue for each in lists for queue in each):
        counts[queue] += 1
    for queue, count in counts.items():
        if count != 1:
            what = "listed twice" if count else "not listed"
            raise OptionError(
                slots[0].option, str(queue), what, advice="list each queue once; to read a part use assign"
            )
    return lists
