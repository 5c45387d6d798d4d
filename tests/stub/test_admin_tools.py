"""Tests of the broker's and the name server's handlers for the requests of mqadmin."""

from __future__ import annotations

import json
from typing import Any

import pytest

from broker_stub import StubCluster
from broker_stub.admin_codes import AdminCode
from broker_stub.dispatcher import Dispatcher
from broker_stub.faults import FaultScript
from broker_stub.group_tables import Member
from broker_stub.handlers import BROKER_HANDLERS, NAME_SERVER_HANDLERS
from broker_stub.requests import ClientRequest
from pyspark_rocketmq.wire import fastjson
from pyspark_rocketmq.wire.bodies import ConsumerData, build_subscription
from pyspark_rocketmq.wire.codes import LanguageCode, RequestCode, ResponseCode
from pyspark_rocketmq.wire.header import Command
from pyspark_rocketmq.wire.record import decode_records

from .direct_broker import DirectBroker
from .recording_channel import RecordingChannel

QUEUE = {"brokerName": "broker-a", "queueId": 0, "topic": "T"}


@pytest.fixture
def direct() -> DirectBroker:
    direct = DirectBroker()
    direct.broker.cluster.brokers.append(direct.broker)
    direct.broker.topics.find_or_create("T", 1)
    for number in range(5):
        direct.put(TAGS="A", n=str(number))
    return direct


def ask(direct: DirectBroker, code: int, fields: dict[str, str] | None = None, body: bytes = b"") -> Command:
    """Send a request code with these fields to the broker, and return the response."""
    return serve(
        Dispatcher("broker-a", direct.broker, BROKER_HANDLERS, direct.broker.settings, FaultScript()),
        code,
        fields,
        body,
    )


def ask_name_server(
    direct: DirectBroker, code: int, fields: dict[str, str] | None = None, body: bytes = b""
) -> Command:
    """Send a request code with these fields to the name server, and return the response."""
    cluster = direct.broker.cluster
    return serve(
        Dispatcher("name server", cluster, NAME_SERVER_HANDLERS, cluster.settings, FaultScript()), code, fields, body
    )


def serve(dispatcher: Dispatcher[Any], code: int, fields: dict[str, str] | None, body: bytes) -> Command:
    """Send a request to a dispatcher, and return the response."""
    channel = RecordingChannel()
    dispatcher.serve(Command(code, fields=fields, body=body, version=479), channel)
    return channel.replies[0]


def join(direct: DirectBroker, client_id: str) -> RecordingChannel:
    """Register a client as consumer of T in group g, and return its channel."""
    channel = RecordingChannel()
    data = ConsumerData(
        group_name="g",
        consume_type="CONSUME_PASSIVELY",
        message_model="CLUSTERING",
        consume_from_where="CONSUME_FROM_FIRST_OFFSET",
        subscription_data_set=(build_subscription("T", "A"),),
    )
    direct.broker.consumer_groups.heartbeat(Member(channel, client_id, LanguageCode.JAVA, 479), data)
    return channel


# --- the broker ------------------------------------------------------------------------------------------------------


def test_offsets_are_cloned(direct: DirectBroker) -> None:
    """After a clone request, the second group has the committed offset of the first."""
    direct.broker.offsets.commit("g", "T", 0, 3)

    ask(direct, AdminCode.CLONE_GROUP_OFFSET, {"srcGroup": "g", "destGroup": "h", "topic": "T"})

    assert direct.broker.offsets.query("h", "T", 0) == 3


def test_a_groups_subscription_is_told(direct: DirectBroker) -> None:
    """The response has the group's subscription to the topic, or none if no member subscribes to it."""
    join(direct, "c1")

    known = json.loads(bytes(ask(direct, 345, {"group": "g", "topic": "T"}).body))
    other = json.loads(bytes(ask(direct, 345, {"group": "g", "topic": "U"}).body))

    assert known["subscriptionData"]["topic"] == "T" and known["subscriptionData"]["subString"] == "A"
    assert other == {"group": "g", "topic": "U"}


def test_every_groups_progress_is_told(direct: DirectBroker) -> None:
    """The statistics have the offsets of each group, and the sum of the lags of all groups."""
    direct.broker.group_configs.find("g")
    direct.broker.offsets.commit("g", "T", 0, 3)

    oneways = fastjson.parse(ask(direct, AdminCode.GET_BROKER_CONSUME_STATS, {"isOrder": "false"}).body)

    (row,) = [row for row in oneways["consumeStatsList"] if "g" in row]
    (progress,) = row["g"][0]["offsetTable"].values()
    assert (progress["brokerOffset"], progress["consumerOffset"], oneways["totalDiff"]) == (5, 3, 2)


def test_queues_a_group_has_not_begun_count(direct: DirectBroker) -> None:
    """In a topic where a group has any offset, a queue without one counts with its whole length as lag."""
    direct.broker.topics.find_or_create("T", 2)
    direct.broker.group_configs.find("g")
    direct.broker.offsets.commit("g", "T", 1, 0)

    oneways = fastjson.parse(ask(direct, AdminCode.GET_BROKER_CONSUME_STATS, {"isOrder": "false"}).body)

    assert oneways["totalDiff"] == 5


def test_progress_in_ordered_topics_only(direct: DirectBroker) -> None:
    """If the request asks for ordered topics, other topics are left out of the statistics."""
    direct.broker.group_configs.find("g")
    direct.broker.offsets.commit("g", "T", 0, 3)

    oneways = fastjson.parse(ask(direct, AdminCode.GET_BROKER_CONSUME_STATS, {"isOrder": "true"}).body)

    assert ({"g": []} in oneways["consumeStatsList"], oneways["totalDiff"]) == (True, 0)


def test_several_groups_are_made(direct: DirectBroker) -> None:
    """If one group of a list is refused, the groups before it are created and the ones after it are not."""
    named = {"groupConfigList": [{"groupName": "a", "retryMaxTimes": 3}]}
    odd = {"groupConfigList": [{"groupName": "b"}, {"groupName": "c", "attributes": {"+x": "1"}}, {"groupName": "d"}]}
    code = AdminCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST

    assert ask(direct, code, None, json.dumps(named).encode()).code == 0
    refused = ask(direct, code, None, json.dumps(odd).encode())

    assert (refused.code, refused.remark) == (1, "java.lang.RuntimeException: unsupported key: x")
    assert direct.broker.group_configs.table["a"].retry_max_times == 3
    assert direct.broker.group_configs.table.keys() & set("bcd") == {"b"}


@pytest.mark.parametrize(
    ("attribute", "fault"),
    [("-x", "attempt to delete a nonexistent key: x"), ("x", "attempt to delete a nonexistent key: ")],
)
def test_a_group_has_no_attribute_to_delete(direct: DirectBroker, attribute: str, fault: str) -> None:
    """The deletion of a group's attribute is refused, whether its name has a minus sign or not."""
    direct.broker.group_configs.find("g")

    body = json.dumps({"groupName": "g", "attributes": {attribute: ""}}).encode()

    assert (ask(direct, 200, None, body).remark or "").endswith(fault)


def test_members_are_asked_how_far_they_are(direct: DirectBroker) -> None:
    """The response waits for all members, and a member that does not respond has no offsets in it."""
    members = join(direct, "c1"), join(direct, "c2")
    call = ClientRequest(
        Command(AdminCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, fields={"topic": "T", "group": "g"}), direct.channel
    )
    BROKER_HANDLERS.handlers[AdminCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS](direct.broker, call)

    body = b'{"messageQueueTable":{%s:7}}' % json.dumps(QUEUE).encode()
    members[0].requests[0][3](Command(0, body=body))
    assert direct.channel.replies == []
    members[1].requests[0][3](None)

    oneways = fastjson.parse(direct.channel.replies[0].body)["consumerTable"]
    assert (list(oneways["c1"].values()), oneways["c2"]) == ([7], {})


def test_nobody_to_ask_is_an_error(direct: DirectBroker) -> None:
    """If a group has no members, a request for their offsets is an error that names the group."""
    answer = ask(direct, AdminCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, {"topic": "T", "group": "g"})

    assert (answer.code, "[g]" in (answer.remark or "")) == (ResponseCode.SYSTEM_ERROR, True)


def test_producers_are_listed(direct: DirectBroker) -> None:
    """All producers are listed by group, with client id, language and address."""
    member = Member(direct.channel, "c1", LanguageCode.JAVA, 479)
    direct.broker.producer_groups.heartbeat(member, "p")

    oneways = fastjson.parse(ask(direct, AdminCode.GET_ALL_PRODUCER_INFO).body)["data"]

    assert oneways["p"][0]["clientId"] == "c1"
    assert (oneways["p"][0]["language"], oneways["p"][0]["remoteIP"]) == ("JAVA", f"/{direct.channel.remote}")


def test_a_request_mode_is_accepted(direct: DirectBroker) -> None:
    """A request mode is accepted for a topic and refused for a retry topic."""
    mode = {"topic": "T", "consumerGroup": "g", "mode": "PULL", "popShareQueueNum": 0}

    assert ask(direct, RequestCode.SET_MESSAGE_REQUEST_MODE, None, json.dumps(mode).encode()).code == 0
    retry = ask(direct, RequestCode.SET_MESSAGE_REQUEST_MODE, None, json.dumps({**mode, "topic": "%RETRY%g"}).encode())

    assert retry.code == ResponseCode.NO_PERMISSION


def test_a_consume_queue_is_shown(direct: DirectBroker) -> None:
    """The response has the queue's entries and bounds, and the subscription of the group that the request names."""
    join(direct, "c1")
    fields = {"topic": "T", "queueId": "0", "index": "3", "count": "9"}

    plain = fastjson.parse(ask(direct, RequestCode.QUERY_CONSUME_QUEUE, fields).body)
    group = fastjson.parse(ask(direct, RequestCode.QUERY_CONSUME_QUEUE, {**fields, "consumerGroup": "g"}).body)
    nobody = fastjson.parse(ask(direct, RequestCode.QUERY_CONSUME_QUEUE, {**fields, "consumerGroup": "h"}).body)

    assert (len(plain["queueData"]), plain["minQueueIndex"], plain["maxQueueIndex"]) == (2, 0, 5)
    assert group["subscriptionData"]["subString"] == "A"
    assert nobody["filterData"] == "h@T is not online!"


@pytest.mark.parametrize(
    ("queue_id", "index", "code", "remark"),
    [("7", "0", 1, "7@T is not exist!"), ("0", "99", 0, "Index 99 of 0@T is not exist!")],
)
def test_a_consume_queue_that_has_nothing_there(
    direct: DirectBroker, queue_id: str, index: str, code: int, remark: str
) -> None:
    """A query for a missing queue is an error; a query for a missing entry is a success with a remark."""
    fields = {"topic": "T", "queueId": queue_id, "index": index, "count": "1"}
    answer = ask(direct, RequestCode.QUERY_CONSUME_QUEUE, fields)

    assert (answer.code, answer.remark, bytes(answer.body)) == (code, remark, b"")


def test_figures_of_a_topic(direct: DirectBroker) -> None:
    """An existing topic has statistics whose rates are zero; for an unknown topic the request is an error."""
    known = ask(direct, AdminCode.VIEW_BROKER_STATS_DATA, {"statsName": "TOPIC_PUT_NUMS", "statsKey": "T"})
    unknown = ask(direct, AdminCode.VIEW_BROKER_STATS_DATA, {"statsName": "TOPIC_PUT_NUMS", "statsKey": "U"})

    assert fastjson.parse(known.body)["statsDay"] == {"avgpt": 0.0, "sum": 0, "tps": 0.0}
    assert unknown.code == ResponseCode.SYSTEM_ERROR


# --- disks and replicas ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("mode", "code"), [("0", 0), ("1", 0), ("7", 29), (None, 1)])
def test_read_ahead_modes_are_checked(direct: DirectBroker, mode: str | None, code: int) -> None:
    """Read-ahead modes 0 and 1 are accepted; another mode, or a missing one, is refused."""
    fields = {} if mode is None else {"READ_AHEAD_MODE": mode}

    assert ask(direct, AdminCode.SET_COMMITLOG_READ_MODE, fields).code == code


def test_replication_is_shown() -> None:
    """The response of a master lists its slaves, and that of a slave lists none."""
    with StubCluster(slaves=1, topics={"T": 1}) as stub:
        stub.put("T", b"x")
        master, slave = (
            fastjson.parse(
                serve(Dispatcher("", broker, BROKER_HANDLERS, broker.settings, FaultScript()), 907, None, b"").body
            )
            for broker in stub.state.brokers
        )

    (connection,) = master["haConnectionInfo"]
    assert (master["master"], master["inSyncSlaveNums"], connection["diff"]) == (True, 1, 0)
    assert master["masterCommitLogMaxOffset"] == connection["slaveAckOffset"] > 0
    assert (slave["master"], slave["haConnectionInfo"]) == (False, [])


@pytest.mark.parametrize(
    ("code", "answered"),
    [
        (AdminCode.RESET_MASTER_FLUSH_OFFSET, 0),
        (AdminCode.UPDATE_COLD_DATA_FLOW_CTR_CONFIG, 0),
        (AdminCode.REMOVE_COLD_DATA_FLOW_CTR_CONFIG, 0),
        (AdminCode.GET_COLD_DATA_FLOW_CTR_INFO, 0),
        (AdminCode.POP_ROLLBACK, 0),
        (354, 3),
        (1007, 3),
    ],
)
def test_upkeep_without_effect(direct: DirectBroker, code: int, answered: int) -> None:
    """The responses to upkeep requests are those of a broker without disk limits, pops, RocksDB and controller."""
    assert ask(direct, code).code == answered


# --- the name server -------------------------------------------------------------------------------------------------


def route(direct: DirectBroker, version: int = 479) -> Command:
    """Return the name server's response to a route request for T by a client of this version."""
    cluster, channel = direct.broker.cluster, RecordingChannel()
    dispatcher = Dispatcher("name server", cluster, NAME_SERVER_HANDLERS, cluster.settings, FaultScript())
    dispatcher.serve(Command(RequestCode.GET_ROUTEINFO_BY_TOPIC, fields={"topic": "T"}, version=version), channel)
    return channel.replies[0]


def test_old_clients_get_bare_numbers_for_keys(direct: DirectBroker) -> None:
    """In a route for an old client integer keys are not quoted; a newer client gets standard JSON."""
    assert b'{0:"127.0.0.1:10911"}' in route(direct, version=399).body
    assert json.loads(bytes(route(direct).body))["brokerDatas"][0]["brokerAddrs"] == {"0": "127.0.0.1:10911"}


def test_a_topic_the_name_server_forgot_comes_back(direct: DirectBroker) -> None:
    """A topic deleted at the name server returns when a broker's topics change, or after half a minute."""
    for bring_back in (lambda: direct.clock.advance(30_000), lambda: direct.broker.topics.find_or_create("U", 1)):
        ask_name_server(direct, RequestCode.DELETE_TOPIC_IN_NAMESRV, {"topic": "T"})
        assert route(direct).code == ResponseCode.TOPIC_NOT_EXIST

        bring_back()

        assert route(direct).code == ResponseCode.SUCCESS


def test_a_broker_can_be_shown_as_not_to_be_written_to(direct: DirectBroker) -> None:
    """The write permission of a broker's topics can be removed and restored; responses count the topics."""

    def permission() -> int:
        perm: int = json.loads(bytes(route(direct).body))["queueDatas"][0]["perm"]
        return perm

    wiped = ask_name_server(direct, RequestCode.WIPE_WRITE_PERM_OF_BROKER, {"brokerName": "broker-a"})
    assert (permission(), wiped.fields) == (4, {"wipeTopicCount": str(len(direct.broker.topics))})
    ask_name_server(direct, AdminCode.ADD_WRITE_PERM_OF_BROKER, {"brokerName": "broker-a"})

    assert permission() == 6


def test_the_name_servers_settings_are_remembered(direct: DirectBroker) -> None:
    """Settings of the name server are stored and returned as lines of text, and paths of files are refused."""
    ask_name_server(direct, RequestCode.UPDATE_NAMESRV_CONFIG, body=b"a=b\nc = d\n")
    forbidden = ask_name_server(direct, RequestCode.UPDATE_NAMESRV_CONFIG, body=b"kvConfigPath=x\n")

    assert forbidden.code == ResponseCode.NO_PERMISSION

    lines = bytes(ask_name_server(direct, RequestCode.GET_NAMESRV_CONFIG).body).splitlines()
    assert {b"a=b", b"c=d", b"orderMessageEnable=false"} <= set(lines)


def test_order_configuration_is_in_routes_if_it_is_switched_on() -> None:
    """If the setting is on, routes contain the order configuration, as at a real name server."""
    for is_on, expected in ((True, "broker-a:1"), (False, None)):
        direct = DirectBroker(order_topics=is_on)
        direct.broker.cluster.brokers.append(direct.broker)
        direct.broker.topics.find_or_create("T", 1)
        value = {"namespace": "ORDER_TOPIC_CONFIG", "key": "T", "value": "broker-a:1"}
        ask_name_server(direct, RequestCode.PUT_KV_CONFIG, value)

        assert json.loads(bytes(route(direct).body)).get("orderTopicConf") == expected
        assert (config := direct.broker.topics.find("T")) and config.order


def test_unknown_clusters_have_no_topics(direct: DirectBroker) -> None:
    """A request for a cluster's topics returns none unless it names the stub's own cluster."""
    ours = fastjson.parse(
        ask_name_server(direct, RequestCode.GET_TOPICS_BY_CLUSTER, {"cluster": "DefaultCluster"}).body
    )
    other = fastjson.parse(ask_name_server(direct, RequestCode.GET_TOPICS_BY_CLUSTER, {"cluster": "other"}).body)
    system = fastjson.parse(ask_name_server(direct, RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS).body)

    assert ("T" in ours["topicList"], other["topicList"]) == (True, [])
    assert system["topicList"] == ["DefaultCluster", "broker-a"]


# --- topics and messages ---------------------------------------------------------------------------------------------


def create(direct: DirectBroker, **changes: str) -> Command:
    """Send a request that creates or changes a topic, and return the response."""
    plain = {
        "topic": "N",
        "defaultTopic": "TBW102",
        "readQueueNums": "1",
        "writeQueueNums": "1",
        "perm": "6",
        "topicFilterType": "SINGLE_TAG",
        "order": "false",
    }
    return ask(direct, RequestCode.UPDATE_AND_CREATE_TOPIC, {**plain, **changes})


def attributes(direct: DirectBroker) -> dict[str, str] | None:
    """Return the attributes of the topic N at the broker."""
    config = direct.broker.topics.find("N")
    return config.attributes if config else None


def test_attributes_are_added_and_taken_away(direct: DirectBroker) -> None:
    """A topic's change keeps all attributes that it does not mention."""
    create(direct, attributes="+message.type=FIFO,+reserve.time=5")
    create(direct, attributes="-message.type")

    assert attributes(direct) == {"reserve.time": "5"}


@pytest.mark.parametrize(
    ("changes", "remark"),
    [
        ({"attributes": "+colour=red"}, "unsupported key: colour"),
        (
            {"attributes": "+message.type=NOPE"},
            "value is not in set: [UNSPECIFIED, TRANSACTION, FIFO, MIXED, DELAY, NORMAL]",
        ),
        ({"attributes": "message.type=FIFO"}, "add/alter attribute format is wrong: message.type"),
        ({"attributes": "-message.type"}, "only add attribute is supported while creating topic. key: message.type"),
    ],
)
def test_illegal_attributes_are_refused(direct: DirectBroker, changes: dict[str, str], remark: str) -> None:
    """If a change of attributes is illegal, the request is refused and the topic is not created."""
    answer = create(direct, **changes)

    assert (answer.code, answer.remark, attributes(direct)) == (ResponseCode.SYSTEM_ERROR, remark, None)


@pytest.mark.parametrize("topic", ["broker-a", "TBW102", "rmq_sys_x", "a b"])
def test_topics_of_the_broker_itself_are_left_alone(direct: DirectBroker, topic: str) -> None:
    """Requests to change or delete a system topic, or one with an illegal name, are refused."""
    assert create(direct, topic=topic).code == ResponseCode.INVALID_PARAMETER
    assert ask(direct, RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": topic}).code == ResponseCode.INVALID_PARAMETER


def test_a_topic_of_an_unknown_kind_is_refused(direct: DirectBroker) -> None:
    """A topic is refused unless its filter type is one of the two that brokers know."""
    answer = create(direct, topicFilterType="HUH")

    assert (answer.code, "topicFilterType = [HUH] value invalid" in (answer.remark or "")) == (1, True)


def test_all_topics_are_described(direct: DirectBroker) -> None:
    """The list of all topics contains the system topics, whose names can also be requested alone."""
    every = fastjson.parse(ask(direct, RequestCode.GET_ALL_TOPIC_CONFIG).body)["topicConfigTable"]
    system = fastjson.parse(ask(direct, RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER).body)["topicList"]

    assert (every["T"]["readQueueNums"], every["TBW102"]["perm"]) == (1, 7)
    assert {"TBW102", "broker-a", "RMQ_SYS_TRACE_TOPIC"} <= set(system)
    assert "T" not in system


@pytest.mark.parametrize(("left_out", "remark"), [("queueId", "QueueId"), ("commitOffset", "Offset")])
def test_a_commit_without_a_number_is_refused(direct: DirectBroker, left_out: str, remark: str) -> None:
    """If a commit lacks its queue id or offset, 5.x refuses it with a remark that names the missing number."""
    fields = {"consumerGroup": "g", "topic": "T", "queueId": "0", "commitOffset": "1"}
    del fields[left_out]

    answer = ask(direct, RequestCode.UPDATE_CONSUMER_OFFSET, fields)

    assert (answer.code, answer.remark) == (ResponseCode.INVALID_PARAMETER, f"{remark} is null, topic is T")


def test_several_topics_are_made_or_none(direct: DirectBroker) -> None:
    """If one name of a list is illegal, no topic of the list is created."""
    good, bad = {"topicName": "L1"}, {"topicName": "L 2"}
    refused = ask(
        direct, RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, None, json.dumps({"topicConfigList": [good, bad]}).encode()
    )
    assert (refused.code, direct.broker.topics.find("L1")) == (ResponseCode.INVALID_PARAMETER, None)

    ask(direct, RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, None, json.dumps({"topicConfigList": [good]}).encode())

    assert direct.broker.topics.find("L1")


def test_messages_are_found_by_key_up_to_a_number(direct: DirectBroker) -> None:
    """If more messages have the key than requested, the latest are returned, in the order of arrival."""
    for number in range(4):
        direct.put(KEYS="k", body=b"%d" % number)
    fields = {"topic": "T", "key": "k", "maxNum": "2", "beginTimestamp": "0", "endTimestamp": str(2**60)}

    answer = ask(direct, RequestCode.QUERY_MESSAGE, fields)

    assert [record.body for record in decode_records(answer.body)] == [b"2", b"3"]


def test_all_offsets_are_told(direct: DirectBroker) -> None:
    """The response has the offsets of all groups, with keys that are not quoted, as in the broker's file."""
    direct.broker.offsets.commit("g", "T", 0, 3)

    assert b'"offsetTable":{"T@g":{0:3}}' in ask(direct, RequestCode.GET_ALL_CONSUMER_OFFSET).body
