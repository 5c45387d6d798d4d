"""Tell rows that name a queue that does not exist from rows whose queue was away when the batch was planned.

The first are bad rows. The second are not: the broker of their queue may be back when the task is repeated, with a new
list of queues. So brokers are looked at once more before such rows are treated as bad ones.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..cluster.cluster import Cluster
from ..errors import NoBrokerAvailable, TopicNotFound
from ..model import MessageQueue

__all__ = ["require_missing"]

_ADVICE = "bring the broker back, or correct the column brokerName; a repetition of the task lists the queues again"


def require_missing(cluster: Cluster, queues: Iterable[MessageQueue]) -> None:
    """Raise `NoBrokerAvailable` for a queue that exists now, or whose broker is registered nowhere and so may be away.

    `queues` were not listed when the batch was planned.
    """
    wanted = sorted(set(queues))
    existing = {queue for topic in {each.topic for each in wanted} for queue in _writable(cluster, topic)}
    registered = {broker.broker_name for broker in cluster.name_servers.fetch_brokers()}
    for queue in wanted:
        if queue in existing:
            raise _error(queue, "was away when the batch was planned")
        if queue.broker_name not in registered:
            raise _error(queue, "cannot be written, because its broker is registered at no name server")


def _writable(cluster: Cluster, topic: str) -> tuple[MessageQueue, ...]:
    """Return the queues that can be written now, by a new route; none for a topic that does not exist yet."""
    cluster.routes.expire(topic)
    try:
        return tuple(cluster.routes.route(topic).writable)
    except TopicNotFound:
        return ()


def _error(queue: MessageQueue, what: str) -> NoBrokerAvailable:
    text = f"queue {queue.queue_id} of {queue.broker_name!r:.80}, which rows name, {what}"
    return NoBrokerAvailable(text, advice=_ADVICE, topic=queue.topic)
