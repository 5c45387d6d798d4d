"""Serve the gRPC methods that return routes and assignments; in both, the address of every queue is the proxy's own."""

from __future__ import annotations

from typing import Any

from pyspark_rocketmq.grpc_v2.enums import Code, Permission
from pyspark_rocketmq.grpc_v2.schema import message_class
from pyspark_rocketmq.grpc_v2.translation import endpoints_of
from pyspark_rocketmq.wire.bodies import TopicConfig

from ..state import Broker
from ..topic_table import READABLE, WRITABLE
from .calls import OK, GrpcCall, StatusError
from .proxy import Proxy, serves
from .validation import accepted_types, check_group, check_topic

_RouteResponse, _AssignmentResponse = map(message_class, ("QueryRouteResponse", "QueryAssignmentResponse"))
_MessageQueue, _Assignment, _Broker = map(message_class, ("MessageQueue", "Assignment", "Broker"))

ANY_QUEUE = -1
_PERMISSIONS = {
    0: Permission.NONE,
    READABLE: Permission.READ,
    WRITABLE: Permission.WRITE,
    READABLE | WRITABLE: Permission.READ_WRITE,
}


@serves("QueryRoute")
def query_route(proxy: Proxy, call: GrpcCall) -> Any:
    """Return a topic's queues at each reachable master, and the same queues again at each of its reachable slaves."""
    topic = check_topic(call.request.topic)
    configs = {broker.name: config for broker, config in proxy.masters_of(topic)}
    queues = [
        _route_entry(proxy, broker, configs[broker.name], queue_id)
        for broker in proxy.cluster.reachable_brokers()
        if broker.name in configs
        for queue_id in range(max(configs[broker.name].read_queue_nums, configs[broker.name].write_queue_nums))
    ]
    return _RouteResponse(status=OK, message_queues=queues)


def _route_entry(proxy: Proxy, broker: Broker, config: TopicConfig, queue_id: int) -> Any:
    types = accepted_types(config, like_apache=proxy.options.like_apache)
    return _queue(proxy, broker, config, queue_id, _permission(config, queue_id), accept_message_types=types)


def _permission(config: TopicConfig, queue_id: int) -> Permission:
    readable = READABLE * (queue_id < config.read_queue_nums)
    writable = WRITABLE * (queue_id < config.write_queue_nums)
    return _PERMISSIONS[config.perm & (readable | writable)]


def _queue(
    proxy: Proxy, broker: Broker, config: TopicConfig, queue_id: int, permission: Permission, **more: Any
) -> Any:
    return _MessageQueue(
        topic={"name": config.topic_name},
        id=queue_id,
        permission=permission,
        broker=_Broker(name=broker.name, id=broker.broker_id, endpoints=endpoints_of([proxy.address])),
        **more,
    )


@serves("QueryAssignment")
def query_assignment(proxy: Proxy, call: GrpcCall) -> Any:
    """Return one assignment per broker (id -1: any queue), or one per queue if the group consumes in order."""
    topic, group = check_topic(call.request.topic), check_group(call.request.group)
    assignments = [
        _Assignment(message_queue=_queue(proxy, broker, config, queue_id, Permission.READ))
        for broker, config in proxy.masters_of(topic)
        if config.perm & READABLE and config.read_queue_nums
        for queue_id in _assigned_ids(broker, config, group)
    ]
    if not assignments:
        raise StatusError(Code.FORBIDDEN, f"topic {topic} has no queue to read")
    return _AssignmentResponse(status=OK, assignments=assignments)


def _assigned_ids(broker: Broker, config: TopicConfig, group: str) -> range:
    known = broker.group_configs.find(group)
    is_orderly = known is not None and known.consume_message_orderly
    return range(config.read_queue_nums) if is_orderly else range(ANY_QUEUE, ANY_QUEUE + 1)
