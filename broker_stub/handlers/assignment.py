"""Assign queues to consumers that leave the assignment to the broker.

The broker assigns as clients do: it sorts queues and members, and applies one of two strategies. A group in pop mode is
told to pull instead, because the stub offers no pop over remoting; it gets the same messages.
"""

from __future__ import annotations

from pyspark_rocketmq.model import MessageQueue
from pyspark_rocketmq.wire.bodies import (
    MessageQueueAssignment,
    QueryAssignmentRequestBody,
    QueryAssignmentResponseBody,
    decode_body,
    encode_body,
)
from pyspark_rocketmq.wire.codes import RequestCode

from ..group_tables import BROADCASTING
from ..registry import handles
from ..requests import ClientRequest, HandlerResult, response
from ..state import Broker
from ..topic_table import READABLE
from .nameserver import find_route

_AVERAGELY, _IN_TURN = "AVG", "AVG_BY_CIRCLE"


@handles(RequestCode.QUERY_ASSIGNMENT)
def query_assignment(broker: Broker, request: ClientRequest) -> HandlerResult:
    """Return the queues of a topic that a member shall read; none for an unknown topic, group or strategy.

    A broadcasting member gets all readable queues.
    """
    query = decode_body(QueryAssignmentRequestBody, request.body)
    assigned = _assign(broker, query)
    if assigned is None:
        return response(body=b"{}")
    assignments = tuple(MessageQueueAssignment(message_queue=queue) for queue in assigned)
    return response(body=encode_body(QueryAssignmentResponseBody(message_queue_assignments=assignments)))


def _assign(broker: Broker, query: QueryAssignmentRequestBody) -> list[MessageQueue] | None:
    queues = _readable_queues(broker, query.topic)
    if not queues or query.message_model == BROADCASTING:
        return queues or None
    group = broker.consumer_groups.table.get(query.consumer_group)
    if group is None or query.strategy_name not in (_AVERAGELY, _IN_TURN):
        return None
    members = sorted(set(group.client_ids))
    if query.client_id not in members:
        return []
    place = members.index(query.client_id)
    if query.strategy_name == _IN_TURN:
        return queues[place :: len(members)]
    size, larger = divmod(len(queues), len(members))
    start = place * size + min(place, larger)
    return queues[start : start + size + (place < larger)]


def _readable_queues(broker: Broker, topic: str) -> list[MessageQueue]:
    """Return the readable queues of a topic at all reachable brokers, sorted."""
    route = find_route(broker.cluster, topic)
    return sorted(
        MessageQueue(topic, data.broker_name, queue_id)
        for data in (route.queue_datas if route else ())
        if data.perm & READABLE
        for queue_id in range(data.read_queue_nums)
    )
