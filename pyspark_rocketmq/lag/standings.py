"""Fetch where a group or a query stands in each queue, and where the queue ends.

One request per broker brings the positions of a group and the ends of its queues. It reports a missing position as 0.
So queues at 0 are asked again, one by one, whether they have a position. So are queues that a broker leaves out.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping
from contextlib import suppress
from typing import NamedTuple, TypeVar

from ..broker_errors import NoPermission, QueryNotFound, RequestCodeNotSupported
from ..cluster.broker import RoutedRequest, to_queue
from ..cluster.cluster import Cluster
from ..cluster.routes import BrokerEndpoints
from ..cluster.servers import Reply
from ..cluster.survey import answers_of
from ..errors import RocketMQError, TopicNotFound
from ..model import MessageQueue
from ..wire.bodies import OffsetWrapper, TopicOffset, TopicStatsTable
from ..wire.commands import (
    GetMaxOffsetRequestHeader,
    GetTopicStatsInfoRequestHeader,
    OffsetResponseHeader,
    QueryConsumerOffsetRequestHeader,
)
from .figures import Figure

__all__ = ["NO_POSITION", "GroupStandings", "Standing", "Standings", "fetch_group_standings", "fetch_query_standings"]

K = TypeVar("K", bound=Hashable)

NO_POSITION = "the group has committed no position in this queue"
_REFUSALS = (RequestCodeNotSupported, NoPermission)


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

    A broker leaves out topics in which the group has no position there. Their queues are found by the routes of topics
    that others report. So are queues of a broker that does not answer, which are unknown. In topics that only this
    broker has, they cannot be found, so that it is `unanswered`. Raise the error of a broker if none answers.
    """
    found = cluster.survey.fetch_consume_stats(brokers, group, topic)
    failed = {name: each for name, each in found.items() if isinstance(each, RocketMQError)}
    answers = answers_of(found)
    offsets = {queue: each for table in answers.values() for queue, each in table.items()}
    asked = _fetch_positions(cluster, group, [queue for queue, each in offsets.items() if each.consumer_offset <= 0])
    standings = {queue: _standing(each, asked.get(queue)) for queue, each in offsets.items()}
    topics = {queue.topic for queue in offsets}
    standings |= _fetch_unreported(cluster, group, topics, offsets.keys(), answers)
    # The route of a single topic has all of its brokers, so that no queue is missing.
    unanswered = failed if topic is None else {}
    for each in topics if topic is None else {topic}:
        try:
            standings |= _unanswered(cluster, each, failed)
        except RocketMQError:
            unanswered = failed
    return GroupStandings(standings, unanswered)


def fetch_query_standings(cluster: Cluster, positions: Mapping[MessageQueue, int]) -> Standings:
    """Return the given positions with the ends of their queues."""
    ends = _fetch_ends(cluster, positions)
    return {queue: Standing(Figure(position), ends[queue]) for queue, position in positions.items()}


def _fetch_ends(cluster: Cluster, queues: Collection[MessageQueue]) -> dict[MessageQueue, Figure]:
    """Return the end of each queue: by one request per topic and broker, or by one per queue if the broker refuses."""
    parts = {(queue.topic, queue.broker_name) for queue in queues}
    requests = {part: RoutedRequest(*part, GetTopicStatsInfoRequestHeader(topic=part[0])) for part in sorted(parts)}
    tables = {part: _read_table(result) for part, result in _try_twice(cluster, requests).items()}
    wrap = cluster.settings.namespace.wrap_queue
    found = {queue: tables[queue.topic, queue.broker_name] for queue in queues}
    refused = [queue for queue, table in found.items() if isinstance(table, _REFUSALS)]
    return {queue: _end(wrap(queue), table) for queue, table in found.items()} | _fetch_ends_singly(cluster, refused)


def _fetch_ends_singly(cluster: Cluster, queues: Iterable[MessageQueue]) -> dict[MessageQueue, Figure]:
    requests = {
        queue: to_queue(queue, GetMaxOffsetRequestHeader(topic=queue.topic, queue_id=queue.queue_id))
        for queue in queues
    }
    return {queue: _read_offset(result) for queue, result in _try_twice(cluster, requests).items()}


def _try_twice(cluster: Cluster, requests: Mapping[K, RoutedRequest]) -> dict[K, Reply | RocketMQError]:
    """Send all requests, and those that failed with a retriable error once more; return replies and errors."""
    results = cluster.brokers.try_all(requests)
    failed = {key for key, each in results.items() if isinstance(each, RocketMQError) and each.retriable}
    return results | cluster.brokers.try_all({key: requests[key] for key in failed}) if failed else results


def _standing(offsets: OffsetWrapper, asked: Figure | None) -> Standing:
    """Return the standing that a broker reports; `asked` is the position by a request for it alone."""
    return Standing(asked or Figure(offsets.consumer_offset), Figure(offsets.broker_offset))


def _fetch_unreported(
    cluster: Cluster, group: str, topics: Iterable[str], reported: Collection[MessageQueue], answered: Collection[str]
) -> Standings:
    """Return the standings in queues of these topics that brokers have left out of their answers."""
    queues: list[MessageQueue] = []
    for topic in sorted(topics):
        with suppress(TopicNotFound):  # It has no further queues.
            queues += cluster.routes.route(topic).readable
    left_out = [queue for queue in queues if queue not in reported and queue.broker_name in answered]
    ends, positions = _fetch_ends(cluster, left_out), _fetch_positions(cluster, group, left_out)
    return {queue: Standing(positions[queue], ends[queue]) for queue in left_out}


def _fetch_positions(cluster: Cluster, group: str, queues: Iterable[MessageQueue]) -> dict[MessageQueue, Figure]:
    """Return the group's position in each queue; unknown, with the reason, where it has none."""
    requests = {queue: to_queue(queue, _position_header(group, queue)) for queue in queues}
    return {queue: _read_position(result) for queue, result in cluster.brokers.try_all(requests).items()}


def _read_position(result: Reply | RocketMQError) -> Figure:
    return Figure(unknown=NO_POSITION) if isinstance(result, QueryNotFound) else _read_offset(result)


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


_Table = Mapping[MessageQueue, TopicOffset]


def _read_table(result: Reply | RocketMQError) -> _Table | RocketMQError:
    if isinstance(result, RocketMQError):
        return result
    try:
        return result.body(TopicStatsTable).offset_table
    except RocketMQError as error:
        return error


def _read_offset(result: Reply | RocketMQError) -> Figure:
    if isinstance(result, RocketMQError):
        return Figure(unknown=str(result))
    try:
        return Figure(max(0, result.header(OffsetResponseHeader).offset))
    except RocketMQError as error:
        return Figure(unknown=str(error))


def _end(queue: MessageQueue, found: _Table | RocketMQError) -> Figure:
    if isinstance(found, RocketMQError):
        return Figure(unknown=str(found))
    if queue not in found:
        return Figure(unknown="the broker does not report this queue")
    return Figure(max(0, found[queue].max_offset))
