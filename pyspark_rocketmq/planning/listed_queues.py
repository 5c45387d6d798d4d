"""Select the queues that the user has listed in the options `assign` or `messageQueueList`.

`assign` is one JSON object: topic → `"*"`, or topic → broker → queue ids or `"*"`. `messageQueueList` is an array of
such objects, one for each slot of the strategy CONFIG. A star stands for all queues that are in the route now. A queue
that is listed by its id must be in the route.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from ..errors import OptionError
from ..model import MessageQueue

__all__ = ["ListedQueues", "list_queues"]


@dataclass(frozen=True, slots=True)
class ListedQueues:
    """The queues that one JSON object lists.

    `queues` are the queues listed by their ids. `whole` stands for those listed by `*`: it has (topic, broker name) for
    all queues of a topic at one broker, and (topic, None) for all queues of a topic at all brokers.
    """

    option: str
    queues: frozenset[MessageQueue]
    whole: frozenset[tuple[str, str | None]]

    @property
    def topics(self) -> frozenset[str]:
        """The topics that have listed queues."""
        return frozenset({queue.topic for queue in self.queues} | {topic for topic, _ in self.whole})

    def select(self, queues: Iterable[MessageQueue]) -> list[MessageQueue]:
        """Return those of `queues` that are listed, in the order of `queues`."""
        return [queue for queue in queues if self._lists(queue)]

    def _lists(self, queue: MessageQueue) -> bool:
        whole = self.whole
        return queue in self.queues or (queue.topic, None) in whole or (queue.topic, queue.broker_name) in whole

    def require_known(self, queues: Collection[MessageQueue]) -> None:
        """Raise `OptionError` if a listed queue, broker or topic is not among `queues`, the queues in the route."""
        known = {(queue.topic, queue.broker_name) for queue in queues} | {(queue.topic, None) for queue in queues}
        missing = [str(queue) for queue in sorted(self.queues.difference(queues))]
        missing += [f"{topic}/{broker or '*'}" for topic, broker in self.whole - known]
        if missing:
            raise OptionError(self.option, min(missing), "not in the route", advice="check topic, broker and queue id")


def list_queues(slots: Sequence[ListedQueues], queues: Sequence[MessageQueue]) -> tuple[tuple[MessageQueue, ...], ...]:
    """Return the queues of each slot; raise `OptionError` unless every queue in the route is listed exactly once."""
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
