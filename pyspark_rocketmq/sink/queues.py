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


class FrozenQueues:
    """The writable queues of topics; each topic's are listed when it is first asked for, and stay the same."""

    def __init__(self, cluster: Cluster, known: Queues = (), *, may_create: bool = True) -> None:
        self._cluster = cluster
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
            return freeze_queues(self._cluster, topic, may_create=self._may_create)
        except (TopicNotFound, NoBrokerAvailable) as error:
            if isinstance(error, NoBrokerAvailable) and _is_away(self._cluster, topic):
                raise
            _log.warning("rows for a topic cannot be sent: %s", error)
            return ()


def freeze_queues(cluster: Cluster, topic: str, *, may_create: bool = True) -> Queues:
    """Return the topic's writable queues in the order of Java's client; for a missing topic, those that it will have.

    Wait for the topic's brokers if all of them are away, at most as long as the cluster's settings allow. Raise
    `TopicNotFound` if the topic is missing and no broker creates it, or if `may_create` is false; `NoBrokerAvailable`
    if no queue is writable; and `BatchQueuesUnsupported` if its queues are batch consume queues.
    """
    deadline = Deadline.after(cluster.settings.wait_for_brokers_s or 0.0)
    for number in count():
        try:
            queues = _list_queues(cluster, topic, may_create=may_create)
            break
        except NoBrokerAvailable as error:
            if deadline.expired or not _is_away(cluster, topic):
                raise
            if number == 0:
                _log.warning("waiting for a broker, up to %g s (sendTimeoutMs): %s", deadline.seconds, error)
        time.sleep(_PAUSE_S)
        cluster.routes.expire(topic)
    _refuse_batch_queues(cluster, topic)
    return queues


def _is_away(cluster: Cluster, topic: str) -> bool:
    """Return whether no broker of the topic has a master now; a topic without brokers has none either."""
    try:
        brokers = cluster.routes.route(topic).brokers.values()
    except TopicNotFound:
        return True
    return not any(endpoint.is_master for broker in brokers for endpoint in broker.endpoints)


def _list_queues(cluster: Cluster, topic: str, *, may_create: bool) -> Queues:
    try:
        queues = cluster.writable.queues(topic) if may_create else cluster.routes.route(topic).writable
    except TopicNotFound as error:
        if not cluster.name_servers.fetch_brokers():
            advice = "start the brokers, or check that they register at these name servers"
            raise NoBrokerAvailable("no broker is registered", advice=advice, topic=topic) from error
        why = "no broker creates topics" if may_create else "ordering=key does not create those of a column"
        what = f"no name server knows the topic, and {why}"
        advice = f"create it: mqadmin updateTopic -n <name server> -c <cluster> -t {topic}"
        raise TopicNotFound(what, advice=advice, topic=topic) from error
    if not queues:
        advice = "give the topic write permission, or bring its brokers back"
        raise NoBrokerAvailable("no queue of the topic may be written now", advice=advice, topic=topic)
    if cluster.writable.route_topic(topic) != topic:
        _log.warning("topic %s does not exist; its first messages create it with %d queues", topic, len(queues))
    return queues


# --- batch consume queues ---------------------------------------------------------------------------------------------


def _refuse_batch_queues(cluster: Cluster, topic: str) -> None:
    """Raise if the topic has batch consume queues, as far as a broker tells; releases before 5.0 have none."""
    header = GetTopicConfigRequestHeader(topic=topic)
    deadline = Deadline.after(cluster.settings.net.request_timeout_s)
    try:
        config = cluster.brokers.ask_any(topic, header, deadline=deadline).body(TopicConfig)
    except RocketMQError as error:
        _log.debug("the kind of queues of topic %s is not known: %s", topic, error)
        return
    if (config.attributes or {}).get(_QUEUE_TYPE) == _BATCH_QUEUES:
        raise BatchQueuesUnsupported(
            f"the topic has batch consume queues ({_QUEUE_TYPE}={_BATCH_QUEUES}), in which a batch without an id of "
            "its own is acknowledged and may never be readable",
            advice="write to a topic with ordinary queues",
            topic=topic,
        )
