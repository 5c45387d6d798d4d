"""Test the official admin client on a real broker and on the stub."""

from __future__ import annotations

import time

import pytest

from tests.real.java_clients import JavaClients, JavaError, JavaObject, Json, eventually, message, queue
from tests.real.java_fixtures import ScenarioServer
from tests.real.servers import CLUSTER_NAME

pytestmark = pytest.mark.real


def send_in_order(clients: JavaClients, topic: str, *bodies: str, **properties: str) -> list[Json]:
    """Send one message for each body to queue 0; return the send results."""
    producer = clients.producer(f"{topic}_producers")
    return [producer.call("send", message(topic, body, **properties), queue(topic, "broker-a", 0)) for body in bodies]


def progress(admin: JavaObject, group: str, topic: str) -> tuple[int, int]:
    """Return (end of queue 0, committed offset of the group in it); -1 for both without statistics."""
    table = admin.call("examineConsumeStats", group)["offsetTable"]
    found = table.get(f"{topic}/broker-a/0", {"brokerOffset": -1, "consumerOffset": -1})
    return found["brokerOffset"], found["consumerOffset"]


def test_topics_are_made_changed_and_deleted(clients: JavaClients, java_server: ScenarioServer, unique: str) -> None:
    """A created topic has configuration, route and statistics; after its deletion it has no route."""
    admin, broker = clients.admin(), str(java_server.broker)

    admin.call("createAndUpdateTopicConfig", broker, {"topicName": unique, "readQueueNums": 3, "writeQueueNums": 2})
    route = eventually(lambda: admin.call("examineTopicRouteInfo", unique), "the topic is routed")
    config = admin.call("examineTopicConfig", broker, unique)
    statistics = admin.call("examineTopicStats", unique)

    assert (config["readQueueNums"], config["writeQueueNums"], config["perm"]) == (3, 2, 6)
    assert [(data["brokerName"], data["readQueueNums"]) for data in route["queueDatas"]] == [("broker-a", 3)]
    assert statistics["offsetTable"][f"{unique}/broker-a/0"]["maxOffset"] == 0
    assert unique in admin.call("fetchAllTopicList")["topicList"]
    assert unique in admin.call("fetchTopicsByCLuster", CLUSTER_NAME)["topicList"]
    assert admin.call("getTopicClusterList", unique) == [CLUSTER_NAME]

    admin.call("deleteTopicInBroker", [broker], unique)
    admin.call("deleteTopicInNameServer", [java_server.name_server], unique)
    with pytest.raises(JavaError) as gone:
        admin.call("examineTopicRouteInfo", unique)
    assert gone.value.code == 17


def test_groups_are_made_and_deleted(clients: JavaClients, java_server: ScenarioServer, unique: str) -> None:
    """A subscription group that the admin creates is listed with its configuration until it is deleted."""
    admin, broker = clients.admin(), str(java_server.broker)
    given = {"groupName": unique, "retryMaxTimes": 5, "retryQueueNums": 2, "consumeEnable": True}

    admin.call("createAndUpdateSubscriptionGroupConfig", broker, given)
    config = admin.call("examineSubscriptionGroupConfig", broker, unique)
    listed = admin.call("getAllSubscriptionGroup", broker, 3000)["subscriptionGroupTable"]

    assert {key: config[key] for key in given} == given
    assert listed[unique]["retryMaxTimes"] == 5
    admin.call("deleteSubscriptionGroup", broker, unique)
    assert unique not in admin.call("getAllSubscriptionGroup", broker, 3000)["subscriptionGroupTable"]


def test_progress_of_a_group(clients: JavaClients, topic: str, unique: str) -> None:
    """The statistics of a group contain the end and committed offset of a queue, its topics and subscription."""
    send_in_order(clients, topic, "a", "b", "c")
    consumer = clients.push_consumer(unique, {topic: "*"})
    consumer.wait_for(3)
    admin = clients.admin()

    eventually(lambda: progress(admin, unique, topic) == (3, 3), "the offset is committed")
    send_in_order(clients, topic, "d")
    eventually(lambda: progress(admin, unique, topic) == (4, 4), "the next one, too")

    assert admin.call("queryTopicConsumeByWho", topic)["groupList"] == [unique]
    assert topic in admin.call("queryTopicsByConsumer", unique)["topicList"]
    assert admin.call("querySubscription", unique, topic)["subString"] == "*"
    spans = admin.call("queryConsumeTimeSpan", topic, unique)
    assert {span["messageQueue"]["queueId"] for span in spans} == {0, 1, 2, 3}


def test_offset_of_an_absent_group_is_set(
    clients: JavaClients, java_server: ScenarioServer, topic: str, unique: str
) -> None:
    """If the admin sets the offset of a group without members, its first consumer starts there."""
    send_in_order(clients, topic, "a", "b", "c")
    admin, broker = clients.admin(), str(java_server.broker)
    admin.call("createAndUpdateSubscriptionGroupConfig", broker, {"groupName": unique})

    admin.call("updateConsumeOffset", broker, unique, queue(topic, "broker-a", 0), 2)
    consumer = clients.push_consumer(unique, {topic: "*"})

    assert [delivery["body"] for delivery in consumer.wait_for(1)] == ["c"]


def test_reset_lets_a_running_group_read_again(clients: JavaClients, topic: str, unique: str) -> None:
    """If a group is reset to the beginning, its running consumer gets all messages again."""
    send_in_order(clients, topic, "a", "b")
    consumer = clients.push_consumer(unique, {topic: "*"})
    consumer.wait_for(2)
    admin = clients.admin()
    eventually(lambda: progress(admin, unique, topic) == (2, 2), "the group has committed")

    table = admin.call("resetOffsetByTimestamp", topic, unique, 0, True)

    assert table[f"{topic}/broker-a/0"] == 0
    consumer.wait_for_bodies("a", "a", "b", "b")
    eventually(lambda: progress(admin, unique, topic) == (2, 2), "the group commits again")


def test_reset_by_time_skips_what_is_older(
    clients: JavaClients, java_server: ScenarioServer, topic: str, unique: str
) -> None:
    """If a stopped group is reset to a time, its next consumer starts with the first message after it."""
    send_in_order(clients, topic, "old")
    first = clients.push_consumer(unique, {topic: "*"})
    stored_ms = first.wait_for(1)[0]["storeTimestamp"]
    eventually(lambda: java_server.committed(unique, topic) == 1, "the first one is committed")
    first.shutdown()
    eventually(lambda: time.time() * 1000 > stored_ms + 100, "time passes")
    (new,) = send_in_order(clients, topic, "new")
    admin = clients.admin()

    rollbacks = admin.call("resetOffsetByTimestampOld", unique, topic, stored_ms + 50, True)
    again = clients.push_consumer(unique, {topic: "*"})

    assert new["queueOffset"] == 1
    assert [found["rollbackOffset"] for found in rollbacks if found["queueId"] == 0] == [1]
    assert [delivery["body"] for delivery in again.wait_for(1)] == ["new"]


def test_connections_are_listed(clients: JavaClients, topic: str, unique: str) -> None:
    """The admin lists consumers and producers with client id and language, consumers also with subscriptions."""
    consumer = clients.push_consumer(unique, {topic: "red || blue"})
    producer = clients.producer(f"{unique}_producers")
    producer.call("send", message(topic, "hello"))
    admin = clients.admin()

    consumers = eventually(lambda: admin.call("examineConsumerConnectionInfo", unique), "the consumer is connected")
    producers = eventually(
        lambda: admin.call("examineProducerConnectionInfo", f"{unique}_producers", topic), "the producer is connected"
    )

    assert [found["clientId"] for found in consumers["connectionSet"]] == [consumer.call("buildMQClientId")]
    assert (consumers["messageModel"], consumers["consumeType"]) == ("CLUSTERING", "CONSUME_PASSIVELY")
    assert sorted(consumers["subscriptionTable"][topic]["tagsSet"]) == ["blue", "red"]
    assert [found["clientId"] for found in producers["connectionSet"]] == [producer.call("buildMQClientId")]
    assert {found["language"] for found in consumers["connectionSet"] + producers["connectionSet"]} == {"JAVA"}


def test_group_that_went_away_is_not_online(clients: JavaClients, topic: str, unique: str) -> None:
    """A request for the connections of a group without members fails with code 206."""
    clients.push_consumer(unique, {topic: "*"}).shutdown()
    admin = clients.admin()

    with pytest.raises(JavaError) as absent:
        admin.call("examineConsumerConnectionInfo", unique)

    assert absent.value.code == 206


def test_messages_are_found_by_key_and_id(clients: JavaClients, topic: str, unique: str) -> None:
    """Messages are found by key, by offset message id, and by the id that the producer gave them."""
    (sent,) = send_in_order(clients, topic, "wanted", KEYS="order-7 customer-3")
    send_in_order(clients, topic, "other", KEYS="order-8")
    admin = clients.admin()
    now_ms = int(time.time() * 1000)

    def by_key() -> list[Json]:
        return list(admin.call("queryMessage", topic, "customer-3", 32, 0, now_ms + 60_000)["messageList"])

    assert [found["body"] for found in eventually(by_key, "the key is indexed")] == ["wanted"]
    assert admin.call("viewMessage", topic, sent["offsetMsgId"])["body"] == "wanted"
    assert admin.call("viewMessage", topic, sent["msgId"])["body"] == "wanted"
    with pytest.raises(JavaError):
        admin.call("queryMessage", topic, "absent", 32, 0, now_ms + 60_000)


def test_consumer_tells_its_state(clients: JavaClients, topic: str, unique: str) -> None:
    """The broker passes a request for running information on to the consumer, and returns its answer."""
    send_in_order(clients, topic, "a")
    consumer = clients.push_consumer(unique, {topic: "*"})
    consumer.wait_for(1)
    client_id = consumer.call("buildMQClientId")

    info = clients.admin().call("getConsumerRunningInfo", unique, client_id, False)

    assert info["properties"]["PROP_CONSUMEORDERLY"] == "false"
    assert {found["topic"] for found in info["subscriptionSet"]} == {topic, f"%RETRY%{unique}"}
    assert info["mqTable"][f"{topic}/broker-a/0"]["commitOffset"] in (0, 1)
    assert topic in info["statusTable"]


def test_message_is_consumed_on_command(clients: JavaClients, topic: str, unique: str) -> None:
    """The admin lets a consumer consume one message again, and receives the listener's result."""
    (sent,) = send_in_order(clients, topic, "again")
    consumer = clients.push_consumer(unique, {topic: "*"})
    consumer.wait_for(1)
    client_id = consumer.call("buildMQClientId")

    result = clients.admin().call("consumeMessageDirectly", unique, client_id, topic, sent["offsetMsgId"])

    assert result["consumeResult"] == "CR_SUCCESS"
    assert [delivery["body"] for delivery in consumer.wait_for(2)] == ["again", "again"]


def test_cluster_is_described(clients: JavaClients, java_server: ScenarioServer) -> None:
    """The admin lists brokers with address and statistics, and changes a setting of a broker."""
    admin, broker = clients.admin(), str(java_server.broker)

    cluster = admin.call("examineBrokerClusterInfo")
    statistics = admin.call("fetchBrokerRuntimeStats", broker)["table"]
    admin.call("updateBrokerConfig", broker, {"maxMessageSize": "4194305"})
    changed = admin.call("getBrokerConfig", broker)
    admin.call("updateBrokerConfig", broker, {"maxMessageSize": "4194304"})

    assert cluster["clusterAddrTable"] == {CLUSTER_NAME: ["broker-a"]}
    assert cluster["brokerAddrTable"]["broker-a"]["brokerAddrs"] == {"0": broker}
    assert statistics["brokerVersionDesc"] == "V5_3_3"
    assert (changed["brokerName"], changed["maxMessageSize"]) == ("broker-a", "4194305")


def test_name_server_keeps_values(clients: JavaClients, unique: str) -> None:
    """The name server stores, returns, lists and deletes key-value pairs."""
    admin = clients.admin()

    admin.call("putKVConfig", unique, "colour", "red")
    admin.call("createAndUpdateKvConfig", unique, "size", "7")
    assert admin.call("getKVConfig", unique, "size") == "7"
    admin.call("deleteKvConfig", unique, "colour")

    assert admin.call("getKVListByNamespace", unique)["table"] == {"size": "7"}
