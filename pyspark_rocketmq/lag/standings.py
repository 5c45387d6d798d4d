"""Fetch where a group or a query stands in each queue, and where the queue ends.

One request per broker brings the positions of a group and the ends of its queues. It reports a missing position as 0.
So queues at 0 are asked again, one by one, whether they have a position.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import NamedTuple

from ..broker_errors import QueryNotFound
from ..cluster.broker import RoutedRequest, to_queue
from ..cluster.cluster import Cluster
from ..cluster.routes import BrokerEndpoints
from ..cluster.survey import answers_of
from ..errors import RocketMQError
from ..model import MessageQueue
from ..wire.bodies import OffsetWrapper, TopicOffset, TopicStatsTable
from ..wire.commands import GetTopicStatsInfoRequestHeader, QueryConsumerOffsetRequestHeader
from .figures import Figure

__all__ = ["GroupStandings", "Standing", "Standings", "fetch_group_standings", "fetch_query_standings"]

NO_POSITION = "the group has committed no position in this queue"


class Standing(NamedTuple):
    """The next offset to read in a queue, and the queue's end."""

    position: Figure
    end: Figure


Standings = dict[MessageQueue, Standing]


class GroupStandings(NamedTuple):
    """The standings of a group, and the errors of brokers that may have more of its queues."""

    queues: Standings
    unanswered: Mapping[str, RocketMQError]


def fetch_group_standings(
    cluster: Cluster, brokers: Iterable[BrokerEndpoints], group: str, topic: str | None = None
) -> GroupStandings:
    """Return where a group stands in the queues of a topic; without `topic`, in those of all topics of the group.

    Queues of a broker that does not answer are unknown; they are found by the routes of topics that others report. In
    topics that only this broker has, they cannot be found, so that it is `unanswered`. Raise the error of a broker if
    none answers.
    """
    found = cluster.survey.fetch_consume_stats(brokers, group, topic)
    failed = {name: each for name, each in found.items() if isinstance(each, RocketMQError)}
    offsets = {queue: each for table in answers_of(found).values() for queue, each in table.items()}
    missing = _find_missing(cluster, group, [queue for queue, each in offsets.items() if each.consumer_offset <= 0])
    standings = {queue: _standing(each, missing.get(queue)) for queue, each in offsets.items()}
    if topic is not None:
        # The route of the one topic has all of its brokers, so that no queue is missing.
        return GroupStandings(standings | _unanswered(cluster, topic, failed), {})
    for each in {queue.topic for queue in offsets}:
        with suppress(RocketMQError):
            standings |= _unanswered(cluster, each, failed)
    return GroupStandings(standings, failed)


def fetch_query_standings(cluster: Cluster, positions: Mapping[MessageQueue, int]) -> Standings:
    """Return the given positions with the ends of their queues."""
    parts = {(queue.topic, queue.broker_name) for queue in positions}
    requests = {part: RoutedRequest(*part, GetTopicStatsInfoRequestHeader(topic=part[0])) for part in sorted(parts)}
    ends: dict[tuple[str, str], Mapping[MessageQueue, TopicOffset] | RocketMQError] = {}
    for part, result in cluster.brokers.try_all(requests).items():
        ends[part] = result if isinstance(result, RocketMQError) else result.body(TopicStatsTable).offset_table
    wrap = cluster.settings.namespace.wrap_queue
    return {
        queue: Standing(Figure(position), _end(wrap(queue), ends[queue.topic, queue.broker_name]))
        for queue, position in positions.items()
    }


def _standing(offsets: OffsetWrapper, missing: str | None) -> Standing:
    position = Figure(unknown=missing) if missing else Figure(max(0, offsets.consumer_offset))
    return Standing(position, Figure(offsets.broker_offset))


def _find_missing(cluster: Cluster, group: str, queues: Iterable[MessageQueue]) -> dict[MessageQueue, str]:
    """Return why the position is unknown for those of the queues in which the group has none."""
    requests = {queue: to_queue(queue, _position_header(group, queue)) for queue in queues}
    results = cluster.brokers.try_all(requests)
    errors = {queue: each for queue, each in results.items() if isinstance(each, RocketMQError)}
    return {queue: NO_POSITION if isinstance(error, QueryNotFound) else str(error) for queue, error in errors.items()}


def _position_header(group: str, queue: MessageQueue) -> QueryConsumerOffsetRequestHeader:
    return QueryConsumerOffsetRequestHeader(
        consumer_group=group, topic=queue.topic, queue_id=queue.queue_id, set_zero_if_not_found=False
    )


def _unanswered(cluster: Cluster, topic: str, failed: Mapping[str, RocketMQError]) -> Standings:
    """Return the queues of a topic at brokers that failed, with the reason why they are unknown."""
    readable = cluster.routes.route(topic).readable if failed else ()
    unknown = {name: Figure(unknown=str(error)) for name, error in failed.items()}
    return {
        queue: Standing(unknown[queue.broker_name], unknown[queue.broker_name])
        for queue in readable
        if queue.broker_name in unknown
    }


def _end(queue: MessageQueue, found: Mapping[MessageQueue, TopicOffset] | RocketMQError) -> Figure:
    if isinstance(found, RocketMQError):
        return Figure(unknown=str(found))
    if queue not in found:
        return Figure(unknown="the broker does not report this queue")
    return Figure(max(0, found[queue].max_offset))
