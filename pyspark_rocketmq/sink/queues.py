"""List the writable queues of a topic once per batch.

All tasks of a batch then place a key alike, even if queues are added meanwhile. A topic that does not exist is created
by its first messages, as with RocketMQ's own producer, if brokers are set up for that (`autoCreateTopicEnable`); the
queues that it will have are known before.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from itertools import count

from ..broker_errors import RequestCodeNotSupported
from ..cluster.cluster import Cluster
from ..errors import BatchQueuesUnsupported, NoBrokerAvailable, RocketMQError, TopicNotFound
from ..model import MessageQueue
from ..net.deadline import Deadline
from ..wire.bodies import TopicConfig
from ..wire.commands import GetTopicConfigRequestHeader

__all__ = ["FrozenQueues", "freeze_queues"]

_PAUSE_S = 0.5
_QUEUE_TYPE, _BATCH_QUEUES = "queue.type", "BatchCQ"
_log = logging.getLogger(__name__)

Queues = Sequence[MessageQueue]


class NotWritable(NoBrokerAvailable):
    """A topic that may not be written although a master of it is up."""


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
        """Return the topic's queues; none if it is missing, or not writable, so that its rows are at fault.

        Raise if its brokers stay away, which is no fault of a row.
        """
        if topic not in self._known:
            self._known[topic] = self._freeze(topic)
        return self._known[topic]

    def _freeze(self, topic: str) -> Queues:
        try:
            return freeze_queues(self._cluster, topic, may_create=self._may_create, has_times=self._has_times)
        except (TopicNotFound, NotWritable) as error:
            _log.warning("rows for a topic cannot be sent: %s", error)
            return ()


def freeze_queues(cluster: Cluster, topic: str, *, may_create: bool = True, has_times: bool = False) -> Queues:
    """Return the topic's writable queues in the order of Java's client; for a missing topic, those that it will have.

    Wait for the topic's brokers if all of them are away, at most as long as the cluster's settings allow. Raise
    `TopicNotFound` if the topic is missing and no broker creates it, or if `may_create` is false; `NoBrokerAvailable`
    if brokers stay away, `NotWritable` if no queue is writable; and `BatchQueuesUnsupported` if its queues are batch
    consume queues.

    `has_times` says whether rows have times before which they are not delivered: brokers before 5.0 ignore them.
    """
    deadline = Deadline.after(cluster.settings.wait_for_brokers_s or 0.0)
    for number in count():
        try:
            queues = _list_queues(cluster, topic, may_create=may_create)
            break
        except NoBrokerAvailable as error:
            if deadline.expired or isinstance(error, NotWritable):
                raise
            if number == 0:
                _log.warning("waiting for a broker, up to %g s (sendTimeoutMs): %s", deadline.seconds, error)
        time.sleep(_PAUSE_S)
        cluster.routes.expire(topic)
    _check_kind(cluster, topic, has_times=has_times)
    return queues


def _list_queues(cluster: Cluster, topic: str, *, may_create: bool) -> Queues:
    try:
        return _known_queues(cluster, topic, may_create=may_create)
    except TopicNotFound as error:
        _require_brokers(cluster, topic, error)
        return _find_again(cluster, topic, may_create=may_create)


def _known_queues(cluster: Cluster, topic: str, *, may_create: bool) -> Queues:
    try:
        route = cluster.routes.route(topic)
    except TopicNotFound:
        if not may_create:
            raise
        queues = cluster.writable.queues(topic)
        _log.warning("topic %s does not exist; its first messages create it with %d queues", topic, len(queues))
        return queues
    if not route.writable:
        what = "no queue of the topic may be written now"
        if any(endpoint.is_master for broker in route.brokers.values() for endpoint in broker.endpoints):
            raise NotWritable(what, advice="give the topic write permission", topic=topic)
        raise NoBrokerAvailable(f"{what}: no broker has a master", advice="bring its brokers back", topic=topic)
    return route.writable


def _require_brokers(cluster: Cluster, topic: str, error: TopicNotFound) -> None:
    """Raise if no broker is registered: then a topic that is not found may exist."""
    if not cluster.name_servers.fetch_brokers():
        advice = "start the brokers, or check that they register at these name servers"
        raise NoBrokerAvailable("no broker is registered", advice=advice, topic=topic) from error


def _find_again(cluster: Cluster, topic: str, *, may_create: bool) -> Queues:
    """Return the queues of a topic that was not found before brokers were seen, which may have registered meanwhile."""
    try:
        return _known_queues(cluster, topic, may_create=may_create)
    except TopicNotFound as error:
        why = "no broker creates topics" if may_create else "ordering=key does not create those of a column"
        what = f"no name server knows the topic, and {why}"
        advice = f"create it: mqadmin updateTopic -n <name server> -c <cluster> -t {topic}"
        raise TopicNotFound(what, advice=advice, topic=topic) from error


# --- what brokers tell about the topic --------------------------------------------------------------------------------


def _check_kind(cluster: Cluster, topic: str, *, has_times: bool) -> None:
    """Raise if the topic has batch consume queues, as far as a broker tells.

    Releases before 5.0 have none, and do not know the request. Warn if they would ignore the times of rows.
    """
    header = GetTopicConfigRequestHeader(topic=topic)
    deadline = Deadline.after(cluster.settings.net.request_timeout_s)
    try:
        config = cluster.brokers.ask_any(topic, header, deadline=deadline).body(TopicConfig)
    except RocketMQError as error:
        if has_times and isinstance(error, RequestCodeNotSupported):
            text = (
                "the brokers of topic %s seem to be older than 5.0, which deliver rows at once, whatever their column "
            )
            _log.warning(text + "deliverTimeMs says; use delayTimeLevel", topic)
        _log.debug("the kind of queues of topic %s is not known: %s", topic, error)
        return
    if (config.attributes or {}).get(_QUEUE_TYPE) == _BATCH_QUEUES:
        raise BatchQueuesUnsupported(
            f"the topic has batch consume queues ({_QUEUE_TYPE}={_BATCH_QUEUES}), in which a batch without an id of "
            "its own is acknowledged and may never be readable",
            advice="write to a topic with ordinary queues",
            topic=topic,
        )
