"""List the queues that a reader's options cover now.

Every planning asks for the list. Routes are cached in the route table, the topics that match a pattern in this module.
So new queues, brokers and topics are found when the cache expires, without a request in every planning.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from difflib import get_close_matches
from itertools import chain

from ..allocation import no_match
from ..cluster.cluster import Cluster
from ..cluster.names import is_system_topic
from ..errors import UNKNOWN_TOPIC, BrokerError, OptionError, RocketMQError, shown
from ..model import DEAD_LETTER_PREFIX, MOST_TOPIC, RETRY_PREFIX, MessageQueue, is_topic_name, sort_queues
from ..options.reader_options import ReaderOptions
from ..planning.listed_queues import list_queues
from ..planning.ranges import PlanSettings, covered_queues, unlisted_queues
from .announcing import list_names, log_together
from .rhythm import NORMAL, PlannerRhythm

__all__ = ["QueueCatalog"]

_log = logging.getLogger(__name__)


class QueueCatalog:
    """Lists the queues that a reader's options cover."""

    def __init__(self, cluster: Cluster, options: ReaderOptions, rhythm: PlannerRhythm = NORMAL) -> None:
        self._cluster = cluster
        self._options = options
        self._clock = rhythm.clock
        self._max_age_s = cluster.settings.route_max_age_s
        self._listing: Collection[str] = ()
        self._listing_due = float("-inf")
        self._names: Collection[str] = ()
        """All topics in the last list, whether they match or not."""
        self._misnamed: frozenset[str] = frozenset()
        """Names in the last list that no topic can have; a warning was logged about them."""
        self._absent_until: dict[str, float] = {}
        """Topics without a route, with the time at which name servers are asked for them again."""
        self._optional: frozenset[str | None] = frozenset()
        """Topics that may be without a route; for others this is an error."""
        self._routed: list[Sequence[MessageQueue]] = []
        self._covered: list[MessageQueue] = []
        """The queues in `_routed` that the options cover."""
        self._warned: set[MessageQueue] = set()
        """The queues about which a warning was logged."""

    # --- which queues ------------------------------------------------------------------------------------------------

    def queues(self, held_topics: Collection[str] = ()) -> list[MessageQueue]:
        """Return the readable queues that the options cover, sorted; with MACHINE_ROOM, only those in the given rooms.

        Raise if a topic has no route. But these topics may lack one, and then have no queues:

        - topics in which the query has positions (`held_topics`): while its brokers are down, a topic has no route;
        - topics that match a pattern;
        - the retry topic: it is created when a member joins the group or the first row is sent back.
        """
        self._optional = frozenset((*held_topics, self._options.selection.retry_topic))
        routed = self._route()
        if routed != self._routed:
            self._routed, self._covered = routed, self._choose(chain.from_iterable(routed))
        return list(self._covered)

    @property
    def is_old(self) -> bool:
        """Whether the routes have other queues now than when `queues` was last called."""
        return self._route() != self._routed

    def covers(self, queue: MessageQueue) -> bool:
        """Return whether the options cover a queue, which need not be in the route now."""
        return self._options.selection.takes(queue) and bool(covered_queues([queue], self._options.allocation))

    def require_known(self, queues: Sequence[MessageQueue]) -> None:
        """Raise `OptionError` if a topic or queue that the user named is not in the route, or may not be read."""
        selection = self._options.selection
        if selection.assignment:
            selection.assignment.require_known(queues)
        if self._options.queue_lists:
            list_queues(self._options.queue_lists, queues)
        for topic in sorted(set(selection.topics) - {queue.topic for queue in queues}):
            if elsewhere := [queue for queue in self._elsewhere() if queue.topic == topic]:
                raise no_match(self._options.allocation.machine_rooms, elsewhere)
            raise _nothing_to_read(topic, self._options)

    def require_match(self, queues: Sequence[MessageQueue]) -> None:
        """Raise `OptionError` if `subscribePattern` matches no topic, or none in the machine rooms that are read."""
        selection = self._options.selection
        pattern = selection.pattern
        if pattern is not None and {queue.topic for queue in queues} <= {selection.retry_topic}:
            if elsewhere := self._elsewhere():
                raise no_match(self._options.allocation.machine_rooms, elsewhere)
            advice = "check the pattern, which has to match the whole name"
            raise OptionError("subscribePattern", pattern, self._describe_mismatch(), advice=advice)

    def warn_of_mismatch(self) -> None:
        """Log a warning if `subscribePattern` matches no topic: a streaming query then waits for one."""
        pattern = self._options.selection.pattern
        if pattern is not None and not self._listing:
            text = "subscribePattern = %r: %s; the query waits for a topic that matches"
            _log.warning(text, shown(pattern), self._describe_mismatch())

    def _describe_mismatch(self) -> str:
        prefix = self._cluster.settings.namespace.prefix
        inside = f" in namespace {prefix}" if prefix else ""
        near = get_close_matches(self._options.selection.pattern or "", self._names)
        names = list_names(near or self._names)
        such_as = f", such as {names}" if names else ""
        return f"no topic matches; there are {len(self._names)} topics{inside}{such_as}"

    def _elsewhere(self) -> list[MessageQueue]:
        """Return the readable queues that the options choose by topic but leave out by machine room."""
        taken, covered = filter(self._options.selection.takes, chain.from_iterable(self._routed)), set(self._covered)
        return [queue for queue in taken if queue not in covered]

    def plan_settings(self, queues: Sequence[MessageQueue]) -> PlanSettings:
        """Return the settings by which ranges are cut into tasks; warn once of each queue that no list has.

        If the user lists the queues of each slot (the strategy CONFIG), the settings contain these lists.
        """
        plan, slots = self._options.plan, self._options.queue_lists
        if not slots:
            return plan
        filled = tuple(tuple(slot.select(queues)) for slot in slots)
        what = "is not in messageQueueList; the slot with the fewest queues reads it"
        self._warn_once(unlisted_queues(queues, filled), what)
        return replace(plan, allocation=replace(plan.allocation, queue_lists=filled))

    def _route(self) -> list[Sequence[MessageQueue]]:
        return [self._readable(topic, topic in self._optional) for topic in self._topics()]

    def _choose(self, routed: Iterable[MessageQueue]) -> list[MessageQueue]:
        wanted = sort_queues(queue for queue in routed if self._options.selection.takes(queue))
        covered = covered_queues(wanted, self._options.allocation)
        rooms = ", ".join(self._options.allocation.machine_rooms)
        self._warn_once(set(wanted).difference(covered), f"is not read: its room is not among machineRooms ({rooms})")
        return covered

    # --- which topics ------------------------------------------------------------------------------------------------

    def _topics(self) -> Iterable[str]:
        retry_topic = self._options.selection.retry_topic
        return dict.fromkeys(filter(None, (*self._wanted_topics(), retry_topic)))

    def _wanted_topics(self) -> Iterable[str]:
        selection = self._options.selection
        if selection.assignment:
            return sorted(selection.assignment.topics)
        return selection.topics if selection.pattern is None else self._matching_topics(selection.pattern)

    def _matching_topics(self, pattern: str) -> Collection[str]:
        """Return the topics that match a pattern; use the last list while name servers do not answer."""
        if self._clock() >= self._listing_due:
            is_first = self._listing_due == float("-inf")
            try:
                self._listing = self._list_topics(pattern)
            except RocketMQError as error:
                if is_first or not error.retriable:
                    raise
                _log.warning("could not renew the list of topics, using the last one: %s", error)
            self._listing_due = self._clock() + self._max_age_s
        return self._listing

    def _list_topics(self, pattern: str) -> list[str]:
        try:
            listed = self._cluster.name_servers.fetch_topics()
        except BrokerError as cause:
            if cause.retriable:
                raise
            advice = "list topics with subscribe"
            raise OptionError("subscribePattern", pattern, "this server does not list topics", advice=advice) from cause
        topics = [each for each in listed if not _is_internal(each)]
        names = set(filter(is_topic_name, topics))
        self._names = names
        self._warn_of_misnamed(frozenset(each for each in set(topics) - names if _is_strange(each)))
        return sorted(filter(self._options.selection.takes_topic, names))

    def _warn_of_misnamed(self, names: frozenset[str]) -> None:
        """Warn of `names`, which name servers list but no topic can have, if one of them is new since the last call.

        Such topics are not read: to compare a long name with the user's pattern may take minutes. The caller leaves out
        names that brokers make from their own, such as `room1@broker-a`, since nobody reads those.
        """
        if names - self._misnamed:
            text = "name servers list %d names that no topic can have, which are not read, for example %s"
            _log.warning(text, len(names), shown(min(names)))
        self._misnamed = names

    def _readable(self, topic: str, may_be_absent: bool) -> Sequence[MessageQueue]:
        """Return the topic's readable queues; none if the topic is absent, which is an error unless `may_be_absent`.

        Topics that match a pattern may always be absent. Name servers are asked for an absent topic again only after
        the lifetime of routes.
        """
        if self._clock() < self._absent_until.get(topic, float("-inf")):
            return ()
        try:
            route = self._cluster.routes.route(topic, once=topic in self._absent_until)
        except RocketMQError as error:
            if not (may_be_absent or self._options.selection.pattern) or not self._is_absent(topic, error):
                raise
            self._absent_until[topic] = self._clock() + self._max_age_s
            return ()
        self._absent_until.pop(topic, None)
        return route.readable

    def _is_absent(self, topic: str, error: RocketMQError) -> bool:
        """Return whether an error means that the topic is absent.

        That is so if no name server that replies knows the topic, or if none replies and the topic was absent before.
        """
        return isinstance(error, UNKNOWN_TOPIC) or (error.retriable and topic in self._absent_until)

    def _warn_once(self, queues: Iterable[MessageQueue], what: str) -> None:
        news = set(queues) - self._warned
        log_together(_log, logging.WARNING, "%s %s", [(queue, what) for queue in sort_queues(news)])
        self._warned |= news


def _is_strange(name: str) -> bool:
    """Return whether a name is too long for a topic, broker or cluster, or has unprintable characters."""
    return not name.isprintable() or len(name) > MOST_TOPIC


def _is_internal(topic: str) -> bool:
    return is_system_topic(topic) or topic.startswith((RETRY_PREFIX, DEAD_LETTER_PREFIX))


def _nothing_to_read(topic: str, options: ReaderOptions) -> OptionError:
    advice = "give it read queues and the permission to read (perm 4 or 6)"
    if topic.startswith(DEAD_LETTER_PREFIX):
        advice += "; brokers before 4.9.2 make dead letter topics without it"
    name_servers = ";".join(map(str, options.cluster.name_servers))
    return OptionError("subscribe", topic, f"no queue of the topic may be read at {name_servers}", advice=advice)
