"""List the writable queues of a topic once per batch.

All tasks of a batch then place a key alike, even if queues are added meanwhile. A topic that does not exist is created
by its first messages, as with RocketMQ's own producer, if brokers are set up for that (`autoCreateTopicEnable`); the
queues that it will have are known before.

A topic that cannot be written now, because name servers, its brokers or its write permission are away, is waited for.
Name servers that were started a moment ago know no topic until the brokers register there again, nor one whose brokers
are all away. Nobody can tell such a topic from one that does not exist. So a missing topic is no fault of a row, and
counts as missing only after each broker had the time to register. A topic that its first messages would create is
believed to be new at once, but not if rows are placed by key: created at a wrong broker, it would move keys for ever.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence

from ..broker_errors import RequestCodeNotSupported
from ..cluster.cluster import Cluster
from ..errors import UNKNOWN_TOPIC, NoBrokerAvailable, RocketMQError, TopicNotFound, TopicUnconfirmed, TransportError
from ..model import MessageQueue
from ..net.deadline import Deadline
from ..wire.commands import GetTopicConfigRequestHeader

__all__ = ["FrozenQueues", "Registrations", "creation_advice", "freeze_queues"]

_PAUSE_S = 0.5
_REGISTRATION_S = 35.0
"""The time within which each broker registers at the name servers again: every 30 s, and some time for the request."""
_log = logging.getLogger(__name__)


class Registrations:
    """The brokers that name servers list, and since when these are the same."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._names = frozenset[str]()
        self._since_s = clock()

    def note(self, names: frozenset[str]) -> float:
        """Note which brokers are listed now; return the seconds for which these are known to be listed."""
        now_s = self._clock()
        if names != self._names:
            self._names, self._since_s = names, now_s
        return now_s - self._since_s


class FrozenQueues:
    """The writable queues of topics; each topic's are listed when it is first asked for, and stay the same."""

    def __init__(
        self,
        cluster: Cluster,
        known: Sequence[MessageQueue] = (),
        *,
        may_create: bool = True,
        has_keys: bool = False,
        has_times: bool = False,
    ) -> None:
        self._cluster = cluster
        self._may_create = may_create
        self._has_keys = has_keys
        self._has_times = has_times
        self._registrations = Registrations()
        self._known: dict[str, Sequence[MessageQueue]] = {known[0].topic: known} if known else {}

    def __call__(self, topic: str) -> Sequence[MessageQueue]:
        """Return the topic's queues; raise if it is missing, or if its brokers or its write permission stay away."""
        if topic not in self._known:
            self._known[topic] = freeze_queues(
                self._cluster,
                topic,
                self._registrations,
                may_create=self._may_create,
                has_keys=self._has_keys,
                has_times=self._has_times,
            )
        return self._known[topic]


def freeze_queues(
    cluster: Cluster,
    topic: str,
    registrations: Registrations,
    *,
    may_create: bool = True,
    has_keys: bool = False,
    has_times: bool = False,
) -> Sequence[MessageQueue]:
    """Return the topic's writable queues in the order of Java's client; for a missing topic, those that it will have.

    Wait for name servers, for the topic's brokers if all of them are away, and for its write permission, at most as
    long as the cluster's settings allow; then raise `TransportError` or `NoBrokerAvailable`. If the topic is missing
    and no broker creates it, or `may_create` is false, raise `TopicNotFound` when brokers had the time to register, or
    `TopicUnconfirmed` if name servers are away.

    `has_keys` says whether rows are placed by key, so that the topic's queues must be right. `has_times` says whether
    rows have times before which they are not delivered: brokers before 5.0 ignore them.
    """
    waits = _Waits(cluster.settings.wait_for_brokers_s or 0.0, registrations)
    while True:
        try:
            queues = _list_queues(cluster, topic, waits, may_create=may_create, has_keys=has_keys)
            break
        except (NoBrokerAvailable, *UNKNOWN_TOPIC, TransportError) as error:
            waits.check(error)
        time.sleep(_PAUSE_S)
        cluster.routes.expire(topic)
    if has_times:
        _warn_of_old_brokers(cluster, topic)
    return queues


class _Waits:
    """The time left to wait for servers, and for a topic that name servers do not know although they list brokers."""

    def __init__(self, longest_s: float, registrations: Registrations) -> None:
        self._topic_s = min(longest_s, _REGISTRATION_S)
        self._servers_due = Deadline.after(longest_s)
        self._last_due = Deadline.after(longest_s + self._topic_s)
        """Ends the wait for a topic, however often the list of brokers changes."""
        self._registrations = registrations
        self.is_topic_missing = False
        """Whether a topic that was unknown at the last look is missing: all brokers had the time to register."""
        self._warned_of_topic: set[bool] = set()
        """Of which waits a warning told: of that for a topic (True), and of that for servers."""

    def note_brokers(self, names: frozenset[str]) -> None:
        """Note the brokers that name servers list now."""
        self.is_topic_missing = self._registrations.note(names) >= self._topic_s or self._last_due.expired

    def check(self, error: RocketMQError) -> None:
        """Raise the error if the time for what it says is over; else warn of the wait, once for each kind."""
        is_for_topic = isinstance(error, UNKNOWN_TOPIC)
        if self.is_topic_missing if is_for_topic else self._servers_due.expired:
            raise error
        if is_for_topic in self._warned_of_topic:
            return
        self._warned_of_topic.add(is_for_topic)
        if is_for_topic:
            text = "waiting up to %g s, within which brokers register at name servers that were just started: %s"
            _log.warning(text, self._topic_s, error)
        else:
            _log.warning("waiting up to %g s (sendTimeoutMs): %s", self._servers_due.seconds, error)


def creation_advice(topic: str, *, may_create: bool = True) -> str:
    """Return the advice for a missing topic; `may_create` says whether its first messages may create it."""
    command = f"create it: mqadmin updateTopic -n <name server> -c <cluster> -t {topic}"
    return command + ", or let brokers create topics (autoCreateTopicEnable=true)" * may_create


def _list_queues(
    cluster: Cluster, topic: str, waits: _Waits, *, may_create: bool, has_keys: bool
) -> Sequence[MessageQueue]:
    try:
        return _known_queues(cluster, topic)
    except UNKNOWN_TOPIC as error:
        waits.note_brokers(_registered_brokers(cluster, topic, error))
    new = _new_queues(cluster, topic) if may_create else ()
    # Brokers that were seen above may have registered after the first look, each with all its topics.
    try:
        return _known_queues(cluster, topic)
    except UNKNOWN_TOPIC as error:
        if new and (waits.is_topic_missing or not has_keys):
            _log.warning("topic %s does not exist; its first messages create it with %d queues", topic, len(new))
            return new
        raise _missing(error, topic, may_create=may_create, is_new=bool(new)) from error


def _missing(
    error: TopicNotFound | TopicUnconfirmed, topic: str, *, may_create: bool, is_new: bool
) -> TopicNotFound | TopicUnconfirmed:
    """Return the error for a topic that name servers do not know; with `is_new`, its first messages would create it."""
    if is_new:
        why, advice = "rows have keys, whose queues must not change later", "create it before, to save the wait"
    else:
        why = "no broker creates topics" if may_create else "ordering=key does not create those of a column"
        advice = creation_advice(topic, may_create=may_create)
    if isinstance(error, TopicUnconfirmed):
        advice = error.advice
    return type(error)(f"{error.what}, and {why}", advice=advice, topic=topic)


def _known_queues(cluster: Cluster, topic: str) -> Sequence[MessageQueue]:
    """Return the writable queues of a topic that exists; raise if there are none."""
    route = cluster.routes.route(topic)
    if not route.writable:
        advice = "give the topic write permission, or bring its brokers back"
        raise NoBrokerAvailable("no queue of the topic may be written now", advice=advice, topic=topic)
    return route.writable


def _new_queues(cluster: Cluster, topic: str) -> Sequence[MessageQueue]:
    """Return the queues that a missing topic gets from its first messages; none if no broker creates topics."""
    try:
        return cluster.writable.queues(topic)
    except UNKNOWN_TOPIC:
        return ()


def _registered_brokers(cluster: Cluster, topic: str, error: RocketMQError) -> frozenset[str]:
    """Return the names of the registered brokers; raise if there are none: then any topic may exist."""
    names = frozenset(broker.broker_name for broker in cluster.name_servers.fetch_brokers())
    if not names:
        advice = "start the brokers, or check that they register at these name servers"
        raise NoBrokerAvailable("no broker is registered", advice=advice, topic=topic) from error
    return names


def _warn_of_old_brokers(cluster: Cluster, topic: str) -> None:
    """Warn if brokers would ignore the times of rows: those before 5.0, which do not know a request for topics."""
    header = GetTopicConfigRequestHeader(topic=topic)
    deadline = Deadline.after(cluster.settings.net.request_timeout_s)
    try:
        cluster.brokers.ask_any(topic, header, deadline=deadline)
    except RequestCodeNotSupported:
        text = "the brokers of topic %s seem to be older than 5.0, which deliver rows at once, whatever their column "
        _log.warning(text + "deliverTimeMs says; use delayTimeLevel", topic)
    except RocketMQError as error:
        _log.debug("the release of the brokers of topic %s is not known: %s", topic, error)
