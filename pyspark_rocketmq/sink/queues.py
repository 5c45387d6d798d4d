"""List the writable queues of a topic once per batch.

All tasks of a batch then place a key alike, even if queues are added meanwhile. A topic that does not exist is created
by its first messages, as with RocketMQ's own producer, if brokers are set up for that (`autoCreateTopicEnable`); the
queues that it will have are known before.

A topic that cannot be written now, because name servers, its brokers or its write permission are away, is waited for.
Name servers that were started a moment ago know no topic until the brokers register there again, nor one whose brokers
are all away. Nobody can tell such a topic from one that does not exist, so a missing topic is no fault of a row.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence

from ..broker_errors import RequestCodeNotSupported
from ..cluster.cluster import Cluster
from ..errors import NoBrokerAvailable, RocketMQError, TopicNotFound, TransportError
from ..model import MessageQueue
from ..net.deadline import Deadline
from ..wire.commands import GetTopicConfigRequestHeader

__all__ = ["FrozenQueues", "creation_advice", "freeze_queues"]

_PAUSE_S = 0.5
_REGISTRATION_S = 35.0
"""The time within which each broker registers at the name servers again: every 30 s, and some time for the request."""
_log = logging.getLogger(__name__)

Queues = Sequence[MessageQueue]


class FrozenQueues:
    """The writable queues of topics; each topic's are listed when it is first asked for, and stay the same."""

    def __init__(
        self, cluster: Cluster, known: Queues = (), *, may_create: bool = True, has_times: bool = False
    ) -> None:
        self._cluster = cluster
        self._has_times = has_times
        self._may_create = may_create
        self._known: dict[str, Queues] = {known[0].topic: known} if known else {}

    def __call__(self, topic: str) -> Queues:
        """Return the topic's queues; raise if it is missing, or if its brokers or its write permission stay away."""
        if topic not in self._known:
            self._known[topic] = freeze_queues(
                self._cluster,
                topic,
                may_create=self._may_create,
                has_times=self._has_times,
                waits_for_topic=True,
            )
        return self._known[topic]


def freeze_queues(
    cluster: Cluster, topic: str, *, may_create: bool = True, has_times: bool = False, waits_for_topic: bool = False
) -> Queues:
    """Return the topic's writable queues in the order of Java's client; for a missing topic, those that it will have.

    Wait for name servers, for the topic's brokers if all of them are away, and for its write permission, at most as
    long as the cluster's settings allow; then raise `TransportError` or `NoBrokerAvailable`. Raise `TopicNotFound` if
    the topic is missing and no broker creates it, or if `may_create` is false; with `waits_for_topic` only after
    brokers had the time to register.

    `has_times` says whether rows have times before which they are not delivered: brokers before 5.0 ignore them.
    """
    longest_s = cluster.settings.wait_for_brokers_s or 0.0
    waits = _Waits(longest_s, min(longest_s, _REGISTRATION_S) if waits_for_topic else 0.0)
    while True:
        try:
            queues = _list_queues(cluster, topic, may_create=may_create)
            break
        except (NoBrokerAvailable, TopicNotFound, TransportError) as error:
            waits.check(error)
        time.sleep(_PAUSE_S)
        cluster.routes.expire(topic)
    if has_times:
        _warn_of_old_brokers(cluster, topic)
    return queues


class _Waits:
    """The time left to wait for servers, and for a missing topic, whose time begins when brokers are there."""

    def __init__(self, servers_s: float, topic_s: float) -> None:
        self._servers_due, self._topic_s = Deadline.after(servers_s), topic_s
        self._topic_due: Deadline | None = None
        self._has_warned = False

    def check(self, error: NoBrokerAvailable | TopicNotFound | TransportError) -> None:
        """Raise the error if the time for what it says is over; else warn of the wait, once."""
        if isinstance(error, TopicNotFound):
            due = self._topic_due = self._topic_due or Deadline.after(self._topic_s)
        else:
            due, self._topic_due = self._servers_due, None
        if due.expired:
            raise error
        if not self._has_warned:
            _log.warning("waiting up to %g s (sendTimeoutMs): %s", due.seconds, error)
        self._has_warned = True


def creation_advice(topic: str, *, may_create: bool = True) -> str:
    """Return the advice for a missing topic; `may_create` says whether its first messages may create it."""
    command = f"create it: mqadmin updateTopic -n <name server> -c <cluster> -t {topic}"
    return command + ", or let brokers create topics (autoCreateTopicEnable=true)" * may_create


def _list_queues(cluster: Cluster, topic: str, *, may_create: bool) -> Queues:
    try:
        return _known_queues(cluster, topic)
    except TopicNotFound as error:
        _require_brokers(cluster, topic, error)
    new = _new_queues(cluster, topic) if may_create else ()
    # Brokers that were seen above may have registered after the first look, each with all its topics.
    try:
        return _known_queues(cluster, topic)
    except TopicNotFound as error:
        if new:
            _log.warning("topic %s does not exist; its first messages create it with %d queues", topic, len(new))
            return new
        why = "no broker creates topics" if may_create else "ordering=key does not create those of a column"
        what = f"no name server knows the topic, and {why}"
        raise TopicNotFound(what, advice=creation_advice(topic, may_create=may_create), topic=topic) from error


def _known_queues(cluster: Cluster, topic: str) -> Queues:
    """Return the writable queues of a topic that exists; raise if there are none."""
    route = cluster.routes.route(topic)
    if not route.writable:
        advice = "give the topic write permission, or bring its brokers back"
        raise NoBrokerAvailable("no queue of the topic may be written now", advice=advice, topic=topic)
    return route.writable


def _new_queues(cluster: Cluster, topic: str) -> Queues:
    """Return the queues that a missing topic gets from its first messages; none if no broker creates topics."""
    try:
        return cluster.writable.queues(topic)
    except TopicNotFound:
        return ()


def _require_brokers(cluster: Cluster, topic: str, error: TopicNotFound) -> None:
    """Raise if no broker is registered: then a topic that is not found may exist."""
    if not cluster.name_servers.fetch_brokers():
        advice = "start the brokers, or check that they register at these name servers"
        raise NoBrokerAvailable("no broker is registered", advice=advice, topic=topic) from error


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
