"""Test mqadmin, the official command line, on a real broker and on the stub.

One JVM runs all commands; each test checks words in their output.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.real.java_clients import JavaClients, Json, eventually, message, queue
from tests.real.java_fixtures import ScenarioServer
from tests.real.servers import CLUSTER_NAME

pytestmark = pytest.mark.real


def send_in_order(clients: JavaClients, topic: str, *bodies: str, **properties: str) -> list[Json]:
    """Send one message for each body to queue 0; return the send results."""
    producer = clients.producer(f"{topic}_producers")
    return [producer.call("send", message(topic, body, **properties), queue(topic, "broker-a", 0)) for body in bodies]


def rows(printed: str, *words: str) -> list[list[str]]:
    """Return the words of every printed line that begins with these words."""
    return [line.split() for line in printed.splitlines() if line.split()[: len(words)] == list(words)]


def test_topics_are_shown(clients: JavaClients, topic: str) -> None:
    """Commands print a topic's brokers, its cluster, and the bounds of its queues."""
    send_in_order(clients, topic, "a", "b")

    assert topic in clients.mqadmin("topicList").split()
    assert '"readQueueNums":4' in clients.mqadmin("topicRoute", "-t", topic)
    assert CLUSTER_NAME in clients.mqadmin("topicClusterList", "-t", topic).split()
    eventually(lambda: rows(_status(clients, topic), "broker-a", "0")[0][2:4] == ["0", "2"], "both are dispatched")
    assert len(rows(_status(clients, topic), "broker-a")) == 4


def _status(clients: JavaClients, topic: str) -> str:
    return clients.mqadmin("topicStatus", "-t", topic)


def test_topics_are_changed(clients: JavaClients, java_server: ScenarioServer, unique: str) -> None:
    """Commands create a topic, close it for writing, make it ordered, and delete it."""
    broker = str(java_server.broker)

    assert "success" in clients.mqadmin("updateTopic", "-b", broker, "-t", unique, "-r", "3", "-w", "3")
    eventually(lambda: '"readQueueNums":3' in clients.mqadmin("topicRoute", "-t", unique), "the topic is routed")
    assert "success" in clients.mqadmin("updateTopicPerm", "-b", broker, "-t", unique, "-p", "4")
    eventually(lambda: '"perm":4' in clients.mqadmin("topicRoute", "-t", unique), "the permission is routed")
    clients.mqadmin("updateOrderConf", "-m", "put", "-t", unique, "-v", "broker-a:3")
    assert "broker-a:3" in clients.mqadmin("updateOrderConf", "-m", "get", "-t", unique)
    assert "success" in clients.mqadmin("updateOrderConf", "-m", "delete", "-t", unique)
    assert "success" in clients.mqadmin("deleteTopic", "-c", CLUSTER_NAME, "-t", unique)
    assert "No topic route info" in clients.mqadmin("topicRoute", "-t", unique)


def test_several_are_made_at_once(
    clients: JavaClients, java_server: ScenarioServer, unique: str, tmp_path: Path
) -> None:
    """Commands create several topics and groups from a file."""
    broker, topics, groups = str(java_server.broker), tmp_path / "topics.json", tmp_path / "groups.json"
    topics.write_text(json.dumps([{"topicName": f"{unique}_t{n}", "readQueueNums": n} for n in (1, 2)]))
    groups.write_text(json.dumps([{"groupName": f"{unique}_g{n}", "retryMaxTimes": n} for n in (3, 4)]))

    assert "success" in clients.mqadmin("updateTopicList", "-b", broker, "-f", str(topics))
    assert "success" in clients.mqadmin("updateSubGroupList", "-b", broker, "-f", str(groups))

    admin = clients.admin()
    assert [admin.call("examineTopicConfig", broker, f"{unique}_t{n}")["readQueueNums"] for n in (1, 2)] == [1, 2]
    made = [admin.call("examineSubscriptionGroupConfig", broker, f"{unique}_g{n}") for n in (3, 4)]
    assert [group["retryMaxTimes"] for group in made] == [3, 4]


def test_groups_are_shown_and_changed(clients: JavaClients, java_server: ScenarioServer, unique: str) -> None:
    """Commands create and delete a group; they refuse attributes that do not exist."""
    broker = str(java_server.broker)

    assert "success" in clients.mqadmin("updateSubGroup", "-b", broker, "-g", unique, "-r", "7", "-q", "2")
    shown = clients.mqadmin("getConsumerConfig", "-g", unique)
    refused = clients.mqadmin("updateSubGroup", "-b", broker, "-g", unique, "--attributes", "+nonsense=1")
    deleted = clients.mqadmin("deleteSubGroup", "-b", broker, "-g", unique)

    assert rows(shown, "retryMaxTimes") == [["retryMaxTimes", "=", "7"]]
    assert rows(shown, "retryQueueNums") == [["retryQueueNums", "=", "2"]]
    assert "unsupported key: nonsense" in refused
    assert "success" in deleted


def test_progress_is_shown(clients: JavaClients, java_server: ScenarioServer, topic: str, unique: str) -> None:
    """Commands print the progress of one group and of all groups, and the connected members."""
    send_in_order(clients, topic, "a", "b", "c")
    consumer = clients.push_consumer(unique, {topic: "*"})
    eventually(lambda: java_server.committed(unique, topic) == 3, "all are committed")

    own = clients.mqadmin("consumerProgress", "-g", unique)
    everybody = clients.mqadmin("brokerConsumeStats", "-b", str(java_server.broker))
    connected = clients.mqadmin("consumerConnection", "-g", unique)

    assert rows(own, topic, "broker-a", "0")[0][3:6] == ["3", "3", "0"]
    assert rows(everybody, topic, unique, "broker-a", "0")[0][4:7] == ["3", "3", "0"]
    assert consumer.call("buildMQClientId") in connected
    assert unique in clients.mqadmin("consumerProgress").split()


def test_unconsumed_messages_count_as_lag(
    clients: JavaClients, java_server: ScenarioServer, topic: str, unique: str
) -> None:
    """If a group has consumed nothing of a queue, all messages in the queue count as its lag."""
    send_in_order(clients, topic, "a", "b")
    admin, broker = clients.admin(), str(java_server.broker)
    admin.call("createAndUpdateSubscriptionGroupConfig", broker, {"groupName": unique})
    admin.call("updateConsumeOffset", broker, unique, queue(topic, "broker-a", 1), 0)

    def lag() -> int:
        found = admin.call("fetchConsumeStatsInBroker", broker, False, 20_000)["consumeStatsList"]
        (stats,) = next(group[unique] for group in found if unique in group)
        return sum(place["brokerOffset"] - place["consumerOffset"] for place in stats["offsetTable"].values())

    eventually(lambda: lag() == 2, "both count")


def test_groups_are_moved(clients: JavaClients, java_server: ScenarioServer, topic: str, unique: str) -> None:
    """Commands set a group's offsets to those of another group, back to a time, and to the end."""
    send_in_order(clients, topic, "a", "b", "c")
    clone = f"{unique}_clone"
    clients.mqadmin("updateSubGroup", "-b", str(java_server.broker), "-g", clone)
    consumer = clients.push_consumer(unique, {topic: "*"})
    eventually(lambda: java_server.committed(unique, topic) == 3, "all are committed")
    consumer.shutdown()

    assert "success" in clients.mqadmin("cloneGroupOffset", "-s", unique, "-d", clone, "-t", topic)
    assert java_server.committed(clone, topic) == 3
    back = clients.mqadmin("resetOffsetByTime", "-g", clone, "-t", topic, "-s", "0")
    assert rows(back, "broker-a", "0")[0][2] == "0"
    assert java_server.committed(clone, topic) == 0
    skipped = clients.mqadmin("skipAccumulatedMessage", "-g", clone, "-t", topic, "-f", "true")
    assert rows(skipped, "broker-a", "0")[0][2] == "3"
    assert java_server.committed(clone, topic) == 3


def test_messages_are_shown(clients: JavaClients, topic: str) -> None:
    """Commands print messages by id, by key, by offset, and all of a topic or queue."""
    (sent,) = send_in_order(clients, topic, "wanted", TAGS="red", KEYS="order-7")

    eventually(lambda: sent["msgId"] in clients.mqadmin("queryMsgByKey", "-t", topic, "-k", "order-7"), "it is indexed")
    by_place = ("queryMsgByOffset", "-t", topic, "-b", "broker-a", "-i", "0", "-o", "0")
    for words in (("queryMsgById", "-t", topic, "-i", sent["offsetMsgId"]), by_place):
        assert rows(clients.mqadmin(*words), "Tags:") == [["Tags:", "[red]"]]
    assert "BODY: wanted" in clients.mqadmin("printMsg", "-t", topic, "-d", "true")
    assert "BODY: wanted" in clients.mqadmin(
        "consumeMessage", "-t", topic, "-b", "broker-a", "-i", "0", "-o", "0", "-c", "1"
    )
    entry = clients.mqadmin("queryCq", "-t", topic, "-q", "0", "-i", "0", "-c", "1")
    assert "max: 1, min: 0" in entry


def test_messages_are_sent(clients: JavaClients, java_server: ScenarioServer, single_queue_topic: str) -> None:
    """Commands send a message to a topic and test messages to a broker."""
    printed = clients.mqadmin("sendMessage", "-t", single_queue_topic, "-p", "typed", "-c", "red")
    measured = clients.mqadmin("sendMsgStatus", "-b", "broker-a", "-c", "1", "-s", "10")

    assert rows(printed, "broker-a", "0", "SEND_OK")
    assert "SEND_OK" in measured
    consumer = clients.push_consumer(f"{single_queue_topic}_readers", {single_queue_topic: "red"})
    assert consumer.wait_for(1)[0]["body"] == "typed"


def test_servers_are_shown(clients: JavaClients, java_server: ScenarioServer, topic: str) -> None:
    """Commands print the cluster, a broker's statistics and settings, and the name server's settings."""
    broker = str(java_server.broker)

    assert rows(clients.mqadmin("clusterList"), CLUSTER_NAME, "broker-a", "0")[0][3:5] == [broker, "V5_3_3"]
    assert rows(clients.mqadmin("brokerStatus", "-b", broker), "brokerVersionDesc") == [
        ["brokerVersionDesc", ":", "V5_3_3"]
    ]
    shown = clients.mqadmin("getBrokerConfig", "-b", broker)
    assert rows(shown, "brokerRole") == [["brokerRole", "=", "ASYNC_MASTER"]]
    assert rows(shown, "brokerName") == [["brokerName", "=", "broker-a"]]
    assert java_server.name_server in clients.mqadmin("getNamesrvConfig")
    assert topic in clients.mqadmin("statsAll")


def test_servers_are_configured(clients: JavaClients, java_server: ScenarioServer) -> None:
    """A command changes a setting; a read-only setting is refused, and an invalid number is ignored."""
    broker = str(java_server.broker)

    def setting(name: str) -> str:
        return rows(clients.mqadmin("getBrokerConfig", "-b", broker), name)[0][2]

    clients.mqadmin("updateBrokerConfig", "-b", broker, "-k", "fileReservedTime", "-v", "48")
    assert setting("fileReservedTime") == "48"
    clients.mqadmin("updateBrokerConfig", "-b", broker, "-k", "fileReservedTime", "-v", "72")
    most = setting("maxMessageSize")
    assert "success" in clients.mqadmin("updateBrokerConfig", "-b", broker, "-k", "maxMessageSize", "-v", "abc")
    assert setting("maxMessageSize") == most
    forbidden = clients.mqadmin("updateBrokerConfig", "-b", broker, "-k", "brokerConfigPath", "-v", "x")
    assert "Can not update config in black list" in forbidden
    assert "success" in clients.mqadmin("updateNamesrvConfig", "-k", "clusterTest", "-v", "false")


def test_writing_is_forbidden_and_allowed_again(clients: JavaClients, topic: str) -> None:
    """Commands forbid and allow writing to all topics of a broker, by changing the routes of the name server."""

    def is_wiped() -> bool:
        clients.mqadmin("wipeWritePerm", "-b", "broker-a")
        return '"perm":4' in clients.mqadmin("topicRoute", "-t", topic)

    try:
        eventually(is_wiped, "nothing may be written")
    finally:
        allowed = clients.mqadmin("addWritePerm", "-b", "broker-a")

    assert "OK" in allowed
    assert '"perm":6' in clients.mqadmin("topicRoute", "-t", topic)


@pytest.mark.parametrize(
    ("command", "printed"),
    [
        ("cleanExpiredCQ", "success"),
        ("cleanUnusedTopic", "success"),
        ("deleteExpiredCommitLog", "success"),
        ("haStatus", "#SlaveNum\t0"),
        ("resetMasterFlushOffset -o 0", "success"),
        ("getColdDataFlowCtrInfo", '"configTable":{}'),
        ("updateColdDataFlowCtrGroupConfig -g g -v 1000", "success"),
        ("removeColdDataFlowCtrGroupConfig -g g", "success"),
        ("setCommitLogReadAheadMode -m 0", "success, mode: 0"),
        ("setConsumeMode -t any -g any -m PULL", "success"),
        ("exportPopRecord", "Export broker records,"),
        ("producer", "producer group"),
    ],
)
def test_upkeep_is_accepted(clients: JavaClients, java_server: ScenarioServer, command: str, printed: str) -> None:
    """Maintenance commands succeed, also if there is nothing to do."""
    clients.producer("sender").call("send", message("any", "x"))
    eventually(lambda: "sender" in clients.mqadmin("producer", "-b", str(java_server.broker)), "a producer is known")

    assert printed in clients.mqadmin(*command.split(), "-b", str(java_server.broker))


def test_metadata_is_exported(clients: JavaClients, java_server: ScenarioServer, topic: str, tmp_path: Path) -> None:
    """Commands write the topics, groups and settings of a cluster to files."""
    clients.mqadmin("exportMetadata", "-c", CLUSTER_NAME, "-f", str(tmp_path))
    clients.mqadmin("exportConfigs", "-c", CLUSTER_NAME, "-f", str(tmp_path))

    (metadata,) = tmp_path.rglob("metadata.json")
    (settings,) = tmp_path.rglob("configs.json")
    assert topic in json.loads(metadata.read_text())["topicConfigTable"]
    assert json.loads(settings.read_text())["brokerConfigs"]["broker-a"]["flushDiskType"] == "ASYNC_FLUSH"
