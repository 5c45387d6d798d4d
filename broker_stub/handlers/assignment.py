"""Which queues does a broker assign to a consumer that leaves sharing to it?

The broker shares as clients do: both lists sorted, by one of two strategies. A group that is to pop is told to pull
all the same, because nothing is popped over remoting here; it gets its messages either way.
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
from ..requests import ClientRequest, HandlerResult, answer
from ..state import Broker
from ..topic_table import READABLE
from .nameserver import find_route

_AVERAGELY, _IN_TURN = "AVG", "AVG_BY_CIRCLE"


@handles(RequestCode.QUERY_ASSIGNMENT)
def query_assignment(broker: Broker, request: ClientRequest) -> HandlerResult:
    """A member's share of a topic; nothing is said about unknown topics, groups and strategies."""
    wish = decode_body(QueryAssignmentRequestBody, request.body)
    share = _share(broker, wish)
    if share is None:
        return answer(body=b"{}")
    assignments = tuple(MessageQueueAssignment(message_queue=queue) for queue in share)
    return answer(body=encode_body(QueryAssignmentResponseBody(message_queue_assignments=assignments)))


def _share(broker: Broker, wish: QueryAssignmentRequestBody) -> list[MessageQueue] | None:
    queues = _readable_queues(broker, wish.topic)
    if not queues or wish.message_model == BROADCASTING:
        return queues or None
    group = broker.consumer_groups.table.get(wish.consumer_group)
    if group is None or wish.strategy_name not in (_AVERAGELY, _IN_TURN):
        return None
    members = sorted(set(group.client_ids))
    if wish.client_id not in members:
        return []
    place = members.index(wish.client_id)
    if wish.strategy_name == _IN_TURN:
        return queues[place :: len(members)]
    size, larger = divmod(len(queues), len(members))
    start = place * size + min(place, larger)
    return queues[start : start + size + (place < larger)]


def _readable_queues(broker: Broker, topic: str) -> list[MessageQueue]:
    """All of the cluster, sorted."""
    route = find_route(broker.cluster, topic)
    return sorted(
        MessageQueue(topic, data.broker_name, queue_id)
        for data in (route.queue_datas if route else ())
        if data.perm & READABLE
        for queue_id in range(data.read_queue_nums)
    )
