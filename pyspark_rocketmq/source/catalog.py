"""Which queues are to be read now?

Asked at every planning; routes come from the table, so that nothing is sent until they have come of age.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import replace

from ..cluster.cluster import Cluster
from ..cluster.names import is_system_topic
from ..errors import OptionError
from ..model import DEAD_LETTER_PREFIX, RETRY_PREFIX, MessageQueue, sort_queues
from ..options.reader_options import ReaderOptions
from ..planning.assignment import list_queues
from ..planning.ranges import PlanSettings
from ..planning.slots import covered_queues

__all__ = ["QueueCatalog"]

_log = logging.getLogger(__name__)


class QueueCatalog:
    """The queues that a reader's options cover."""

    def __init__(self, cluster: Cluster, options: ReaderOptions) -> None:
        self._cluster = cluster
        self._options = options
        self._left_out: set[MessageQueue] = set()

    def queues(self) -> list[MessageQueue]:
        """Readable queues of all topics wanted, sorted; those of rooms that are not read are left out."""
        routed = [queue for topic in self._topics() for queue in self._cluster.routes.route(topic).readable]
        wanted = sort_queues(queue for queue in routed if self._options.selection.takes(queue))
        covered = covered_queues(wanted, self._options.allocation)
        self._tell_left_out(set(wanted).difference(covered))
        return covered

    def covers(self, queue: MessageQueue) -> bool:
        """Whether a queue that is not in the route now belongs to the reader all the same."""
        return self._options.selection.takes(queue) and bool(covered_queues([queue], self._options.allocation))

    def require_listed(self, queues: Sequence[MessageQueue]) -> None:
        """Refuse queues that the user named and that do not exist."""
        if assignment := self._options.selection.assignment:
            assignment.require_known(queues)

    def plan_settings(self, queues: Sequence[MessageQueue]) -> PlanSettings:
        """The plan settings, with the slots of CONFIG filled from the queues that there are."""
        plan, lists = self._options.plan, self._options.queue_lists
        if not lists:
            return plan
        filled = list_queues(lists, queues)
        return replace(plan, allocation=replace(plan.allocation, queue_lists=filled))

    def _topics(self) -> Iterable[str]:
        selection = self._options.selection
        if selection.assignment:
            return sorted(selection.assignment.topics)
        if selection.pattern is None:
            return selection.topics
        return sorted(topic for topic in self._listed_topics() if selection.takes_topic(topic))

    def _listed_topics(self) -> Iterable[str]:
        topics = self._cluster.name_servers.fetch_topics()
        return (topic for topic in topics if not _is_internal(topic))

    def _tell_left_out(self, queues: set[MessageQueue]) -> None:
        for queue in sort_queues(queues - self._left_out):
            _log.warning("%s is not read: its room is not among machineRooms", queue)
        self._left_out |= queues


def _is_internal(topic: str) -> bool:
    return is_system_topic(topic) or topic.startswith((RETRY_PREFIX, DEAD_LETTER_PREFIX))


def require_some(queues: Sequence[MessageQueue], options: ReaderOptions) -> None:
    """Refuse a batch read of a pattern that matches nothing."""
    if not queues and options.selection.pattern is not None:
        raise OptionError("subscribePattern", options.selection.pattern, "no topic matches", advice="check the pattern")
