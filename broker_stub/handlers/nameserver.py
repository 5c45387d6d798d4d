"""Handle the requests that arrive at the name server."""

from __future__ import annotations

from dataclasses import replace

from pyspark_rocketmq.wire.bodies import (
    BrokerData,
    ClusterInfo,
    KVTable,
    QueueData,
    TopicList,
    TopicRouteData,
    encode_body,
)
from pyspark_rocketmq.wire.codes import RequestCode, ResponseCode
from pyspark_rocketmq.wire.commands import (
    DeleteKVConfigRequestHeader,
    DeleteTopicFromNamesrvRequestHeader,
    GetKVConfigRequestHeader,
    GetKVConfigResponseHeader,
    GetKVListByNamespaceRequestHeader,
    GetRouteInfoRequestHeader,
    GetTopicsByClusterRequestHeader,
    PutKVConfigRequestHeader,
    RequestHeader,
    from_fields,
)
from pyspark_rocketmq.wire.value_classes import members

from ..admin_codes import AdminCode
from ..registry import handles_as_name_server
from ..requests import ClientRequest, HandlerResult, Refusal, response
from ..state import Broker, Cluster
from ..topic_table import WRITABLE

_FORBIDDEN = frozenset({"configBlackList", "configStorePath", "kvConfigPath"})
ORDER_NAMESPACE = "ORDER_TOPIC_CONFIG"
_FIRST_STANDARD_JSON_VERSION = 401


@handles_as_name_server(RequestCode.GET_ROUTEINFO_BY_TOPIC)
def get_route(cluster: Cluster, request: ClientRequest) -> HandlerResult:
    """Return the route of a topic; clients before 4.9.4 get JSON whose integer keys are not quoted."""
    fields = {"topic": "null", **(request.command.fields or {})}
    header = from_fields(GetRouteInfoRequestHeader, fields)
    route = find_route(cluster, header.topic)
    if route is None:
        raise Refusal(
            ResponseCode.TOPIC_NOT_EXIST,
            f"No topic route info in name server for the topic: {header.topic}\n"
            f"See {cluster.release.help_page} for further details.",
        )
    is_standard = header.accept_standard_json_only or request.command.version >= _FIRST_STANDARD_JSON_VERSION
    return response(body=encode_body(route, bare_integer_keys=not is_standard))


def find_route(cluster: Cluster, topic: str) -> TopicRouteData | None:
    """Return the route of a topic at the reachable brokers.

    Return None if none of them has the topic, or if the topic was deleted at the name server.
    """
    configs = {broker.name: config for broker in cluster.reachable_brokers() if (config := broker.topics.find(topic))}
    if not configs or cluster.is_forgotten(topic):
        return None
    return TopicRouteData(
        order_topic_conf=cluster.values.get(ORDER_NAMESPACE, {}).get(topic) if cluster.settings.order_topics else None,
        queue_datas=tuple(
            QueueData(
                broker_name=name,
                read_queue_nums=config.read_queue_nums,
                write_queue_nums=config.write_queue_nums,
                perm=config.perm & ~WRITABLE if name in cluster.read_only else config.perm,
                topic_sys_flag=config.topic_sys_flag,
            )
            for name, config in configs.items()
        ),
        broker_datas=tuple(data for data in broker_table(cluster).values() if data.broker_name in configs),
    )


def broker_table(cluster: Cluster) -> dict[str, BrokerData]:
    """Return the addresses of the reachable brokers, by broker name."""
    names: dict[str, list[Broker]] = {}
    for broker in cluster.reachable_brokers():
        names.setdefault(broker.name, []).append(broker)
    return {
        name: BrokerData(
            cluster=cluster.settings.cluster_name,
            broker_name=name,
            broker_addrs={broker.broker_id: str(broker.address) for broker in brokers},
            enable_acting_master=False if cluster.release.is_5x else None,
        )
        for name, brokers in names.items()
    }


@handles_as_name_server(RequestCode.GET_BROKER_CLUSTER_INFO)
def get_cluster_info(cluster: Cluster, request: ClientRequest) -> HandlerResult:
    """Return the reachable brokers of the cluster; as at real name servers, integer keys are not quoted."""
    brokers = broker_table(cluster)
    info = ClusterInfo(
        broker_addr_table=brokers, cluster_addr_table={cluster.settings.cluster_name: tuple(brokers)} if brokers else {}
    )
    return response(body=encode_body(info, bare_integer_keys=True))


@handles_as_name_server(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
def get_all_topics(cluster: Cluster, request: ClientRequest) -> HandlerResult:
    """Return the topics of all reachable brokers."""
    topics = dict.fromkeys(config.topic_name for broker in cluster.reachable_brokers() for config in broker.topics)
    return response(body=encode_body(TopicList(topic_list=tuple(topics))))


@handles_as_name_server(RequestCode.GET_TOPICS_BY_CLUSTER)
def get_topics_by_cluster(cluster: Cluster, request: ClientRequest) -> HandlerResult:
    """Return all topics if the request names the stub's own cluster, else none."""
    if request.header(GetTopicsByClusterRequestHeader).cluster != cluster.settings.cluster_name:
        return response(body=encode_body(TopicList()))
    return get_all_topics(cluster, request)


@handles_as_name_server(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS)
def get_system_topics(cluster: Cluster, request: ClientRequest) -> HandlerResult:
    """Return the system topics that are named after the cluster and its brokers, and the address of one broker."""
    brokers = broker_table(cluster)
    address = next((str(broker.address) for broker in cluster.reachable_brokers()), None)
    names = TopicList(broker_addr=address, topic_list=(cluster.settings.cluster_name, *brokers))
    return response(body=encode_body(names))


@handles_as_name_server(RequestCode.DELETE_TOPIC_IN_NAMESRV)
def delete_topic(cluster: Cluster, request: ClientRequest) -> HandlerResult:
    """Leave a topic out of routes until a broker that still has the topic registers again."""
    cluster.forget(request.header(DeleteTopicFromNamesrvRequestHeader).topic)
    return response()


# --- the name server itself ------------------------------------------------------------------------------------------


@handles_as_name_server(RequestCode.GET_NAMESRV_CONFIG)
def get_config(cluster: Cluster, request: ClientRequest) -> HandlerResult:
    """Return the name server's settings, including those that clients stored."""
    return response(body="".join(f"{name}={value}\n" for name, value in sorted(cluster.config.items())).encode())


@handles_as_name_server(RequestCode.UPDATE_NAMESRV_CONFIG)
def update_config(cluster: Cluster, request: ClientRequest) -> HandlerResult:
    """Store settings of the name server, without effect; refuse changes of file paths and of the black list."""
    pairs = (line.partition("=") for line in request.body.decode(errors="replace").splitlines() if "=" in line)
    changes = {name.strip(): value.strip() for name, _, value in pairs}
    if _FORBIDDEN & changes.keys():
        raise Refusal(ResponseCode.NO_PERMISSION, "Can not update config in black list.")
    cluster.config.update(changes)
    return response()


@members
class WritePermOfBrokerRequestHeader(RequestHeader):
    """Header of a request that removes or restores the write permission of a broker's topics."""

    broker_name: str


@handles_as_name_server(RequestCode.WIPE_WRITE_PERM_OF_BROKER)
def wipe_write_permission(cluster: Cluster, request: ClientRequest) -> HandlerResult:
    """Show all topics of a broker in routes without write permission; return the number of these topics."""
    name = request.header(WritePermOfBrokerRequestHeader).broker_name
    cluster.read_only.add(name)
    return response(fields={"wipeTopicCount": str(_topic_count(cluster, name))})


@handles_as_name_server(AdminCode.ADD_WRITE_PERM_OF_BROKER)
def add_write_permission(cluster: Cluster, request: ClientRequest) -> HandlerResult:
    """Show a broker's topics in routes with their own permissions again; return the number of these topics."""
    name = request.header(WritePermOfBrokerRequestHeader).broker_name
    cluster.read_only.discard(name)
    return response(fields={"addTopicCount": str(_topic_count(cluster, name))})


def _topic_count(cluster: Cluster, broker_name: str) -> int:
    return sum(len(broker.topics) for broker in cluster.masters() if broker.name == broker_name)


# --- key-value configuration -----------------------------------------------------------------------------------------


@handles_as_name_server(RequestCode.PUT_KV_CONFIG)
def put_value(cluster: Cluster, request: ClientRequest) -> HandlerResult:
    """Store a value of the key-value configuration under a namespace and a key."""
    header = request.header(PutKVConfigRequestHeader)
    cluster.values.setdefault(header.namespace, {})[header.key] = header.value
    if header.namespace == ORDER_NAMESPACE:
        _mark_ordered(cluster, header.key)
    cluster.on_values_changed()
    return response()


def _mark_ordered(cluster: Cluster, topic: str) -> None:
    """Set the order flag in a topic's configuration at all masters.

    A real broker sets the flag later, when it registers at the name server again.
    """
    for broker in cluster.masters():
        if (config := broker.topics.find(topic)) and not config.order:
            broker.topics.create(replace(config, order=True))


@handles_as_name_server(RequestCode.GET_KV_CONFIG)
def get_value(cluster: Cluster, request: ClientRequest) -> HandlerResult:
    """Return the value under a namespace and a key of the key-value configuration."""
    header = request.header(GetKVConfigRequestHeader)
    value = cluster.values.get(header.namespace, {}).get(header.key)
    if value is None:
        remark = f"No config item, Namespace: {header.namespace} Key: {header.key}"
        raise Refusal(ResponseCode.QUERY_NOT_FOUND, remark, {})
    return response(fields=GetKVConfigResponseHeader(value=value))


@handles_as_name_server(RequestCode.DELETE_KV_CONFIG)
def delete_value(cluster: Cluster, request: ClientRequest) -> HandlerResult:
    """Delete the value under a namespace and a key of the key-value configuration."""
    header = request.header(DeleteKVConfigRequestHeader)
    cluster.values.get(header.namespace, {}).pop(header.key, None)
    cluster.on_values_changed()
    return response()


@handles_as_name_server(RequestCode.GET_KVLIST_BY_NAMESPACE)
def get_values(cluster: Cluster, request: ClientRequest) -> HandlerResult:
    """Return all keys and values of a namespace."""
    namespace = request.header(GetKVListByNamespaceRequestHeader).namespace
    if namespace not in cluster.values:
        raise Refusal(ResponseCode.QUERY_NOT_FOUND, f"No config item, Namespace: {namespace}")
    return response(body=encode_body(KVTable(table=cluster.values[namespace])))
