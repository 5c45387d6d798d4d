"""Test groups of our members and official Java consumers, and the dead letters of both.

Every test runs on real brokers and on the stub, with official consumers of release 5.3.3 beside ours.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Sequence
from typing import Any

import pytest

from pyspark_rocketmq.client.consumer import PushConsumer
from pyspark_rocketmq.client.dead_letters import DeadLetters
from pyspark_rocketmq.client.message import ReceivedMessage
from pyspark_rocketmq.client.results import RECONSUME_LATER, SUCCESS, Consumed, Ordered, suspend
from pyspark_rocketmq.client.settings import MessageModel
from pyspark_rocketmq.model import Message, MessageQueue, dead_letter_topic
from tests.real.java_clients import JavaClients, eventually
from tests.real.java_fixtures import ScenarioServer
from tests.real.our_clients import Log, Ours, committed

pytest_plugins = ["tests.real.client_fixtures"]
pytestmark = pytest.mark.real

JAVA_LATER = {"status": "RECONSUME_LATER"}
JAVA_SUSPEND = {"status": "SUSPEND_CURRENT_QUEUE_A_MOMENT", "suspendMs": 100}
OWN_TO_A_DELIVERY = {"MIN_OFFSET", "MAX_OFFSET", "CONSUME_START_TIME", "UNIQ_KEY", "ORIGIN_MESSAGE_ID", "CLUSTER"}

MEMBER = """
import sys, time
from tests.real.our_clients import Ours
ours = Ours(sys.argv[1], sys.argv[2])
consumer = ours.member(sys.argv[3], lambda _: time.sleep(600), orderly=sys.argv[4] == "True")
print(consumer.client_id, flush=True)
time.sleep(600)
"""


@pytest.fixture
def java_server(mixed_server: ScenarioServer) -> ScenarioServer:
    """The server of these tests: a real broker of every version under test, then the stub."""
    return mixed_server


@pytest.fixture
def clients(mixed_clients: JavaClients) -> JavaClients:
    """Official clients of release 5.3.3, connected to the same server."""
    return mixed_clients


def queues_of(member: PushConsumer, topic: str) -> set[int]:
    """Return the ids of a topic's queues that our member holds."""
    return {queue.queue_id for queue in member.queues if queue.topic == topic}


def send(ours: Ours, *bodies: str) -> None:
    """Send one message for each body, to the four queues of the topic in turn."""
    producer = ours.producer()
    for number, body in enumerate(bodies):
        producer.send(Message(ours.topic, body.encode()), MessageQueue(ours.topic, "broker-a", number % 4))


def test_assignments_are_disjoint_and_complete(clients: JavaClients, ours: Ours, topic: str, unique: str) -> None:
    """Java members and ours hold each queue once; if a member leaves, the others take over its queues."""
    theirs = [clients.push_consumer(unique, {topic: "*"}) for _ in range(2)]
    mine = ours.member(unique, Log())

    def held() -> list[int]:
        java = [number for member in theirs for number in member.held_queues(topic)]
        return sorted([*java, *queues_of(mine, topic)])

    eventually(lambda: held() == [0, 1, 2, 3] and queues_of(mine, topic), "three members share")
    theirs.pop().shutdown()
    eventually(lambda: held() == [0, 1, 2, 3] and len(queues_of(mine, topic)) == 2, "two members share")
    mine.close()
    eventually(lambda: theirs[0].held_queues(topic) == {0, 1, 2, 3}, "the Java member inherits")


def test_every_message_is_consumed(clients: JavaClients, ours: Ours, topic: str, unique: str) -> None:
    """While Java members and ours join and leave, all messages are consumed and committed."""
    bodies = [f"m{number}" for number in range(120)]
    log, late = Log(), Log()
    java = clients.push_consumer(unique, {topic: "*"})
    first = ours.member(unique, log)
    eventually(lambda: queues_of(first, topic) and java.held_queues(topic), "both hold queues")
    send(ours, *bodies[:60])
    first.close()
    ours.member(unique, late)
    send(ours, *bodies[60:])

    cluster = ours.cluster()
    eventually(lambda: committed(ours, cluster, unique) == 120, "everything is committed")
    assert {*log.bodies, *late.bodies, *java.bodies} == set(bodies)


@pytest.mark.parametrize("orderly", [False, True], ids=["concurrent", "in order"])
def test_a_killed_java_member_is_replaced(
    clients: JavaClients, java_server: ScenarioServer, ours: Ours, topic: str, unique: str, orderly: bool
) -> None:
    """If a Java member is killed, ours gets its unfinished messages; an orderly one first waits for lock expiry."""
    log = Log()
    send(ours, *"abcd")
    with JavaClients(clients.version, java_server.name_server) as doomed:
        stuck = {body: [{"waitMs": 600_000}] for body in "abcd"}
        doomed.push_consumer(unique, {topic: "*"}, stuck, orderly=orderly).wait_for(4)
        mine = ours.member(unique, log, orderly=orderly)
        doomed.kill()
        eventually(lambda: queues_of(mine, topic) == {0, 1, 2, 3}, "all queues are ours")

    eventually(lambda: set(log.bodies) == set("abcd"), "every message is delivered again")


@pytest.mark.parametrize("orderly", [False, True], ids=["concurrent", "in order"])
def test_a_killed_member_of_ours_is_replaced(
    clients: JavaClients, java_server: ScenarioServer, ours: Ours, topic: str, unique: str, orderly: bool
) -> None:
    """If our member is killed, Java's gets its unfinished messages; an orderly one first waits for lock expiry."""
    send(ours, *"abcd")
    arguments = [sys.executable, "-c", MEMBER, java_server.name_server, topic, unique, str(orderly)]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as doomed:
        assert doomed.stdout is not None
        client_id = doomed.stdout.readline().strip()
        cluster = ours.cluster()
        eventually(lambda: client_id in cluster.groups.fetch_members(unique, topic), "it is a member")
        heir = clients.push_consumer(unique, {topic: "*"}, orderly=orderly)
        doomed.kill()

    eventually(lambda: set(heir.bodies) == set("abcd"), "everything came to the Java member")


@pytest.mark.parametrize("joins", ["java first", "ours first"])
def test_order_holds_across_both_kinds(clients: JavaClients, ours: Ours, topic: str, unique: str, joins: str) -> None:
    """If a member of the other kind joins an orderly one, each still consumes its queues in order."""
    bodies = [f"m{number}" for number in range(80)]
    order: list[tuple[int, int]] = []
    never_set = threading.Event()

    def answer(messages: Sequence[ReceivedMessage]) -> Consumed | Ordered:
        never_set.wait(0.02)
        if messages[0].offset % 7 == 3 and messages[0].failed_here == 0:
            return suspend(0.05)
        order.extend((message.queue.queue_id, message.offset) for message in messages)
        return SUCCESS

    script: dict[str, list[dict[str, Any]]] = {
        "m12": [JAVA_SUSPEND, {}],
        "m41": [JAVA_SUSPEND, {}],
        "m1": [{"waitMs": 300}],
    }
    log = Log(answer)
    send(ours, *bodies)
    cluster = ours.cluster()
    if joins == "ours first":
        ours.member(unique, log, orderly=True)
        eventually(lambda: len(order) > 4, "ours is at work")
        java = clients.push_consumer(unique, {topic: "*"}, script, orderly=True)
    else:
        java = clients.push_consumer(unique, {topic: "*"}, script, orderly=True)
        java.wait_for(4)
        ours.member(unique, log, orderly=True)
    eventually(lambda: committed(ours, cluster, unique) == 80, "everything is committed")

    assert {*log.bodies, *java.bodies} == set(bodies)
    for number in range(4):
        own = [offset for queue_id, offset in order if queue_id == number]
        theirs = [each["queueOffset"] for each in java.deliveries if each["queueId"] == number]
        # A new owner may repeat messages that the old one had not committed, so first deliveries count.
        for offsets in (list(dict.fromkeys(own)), list(dict.fromkeys(theirs))):
            assert offsets == sorted(offsets)


def test_dead_letters_are_the_same(clients: JavaClients, ours: Ours, topic: str, unique: str) -> None:
    """A message that always fails is delivered equally often to ours and Java's, and leaves equal dead letters."""
    log = Log(lambda _: RECONSUME_LATER)
    java = clients.push_consumer(f"{unique}_java", {topic: "*"}, {"poison": [JAVA_LATER]}, maxReconsumeTimes=2)
    ours.member(f"{unique}_ours", log, max_reconsume_times=2)
    ours.producer().send(Message(topic, b"poison", "tag", "key", {"colour": "red"}))
    java.wait_for(3)
    eventually(lambda: len(log.messages) == 3, "as many deliveries")

    [mine], [theirs] = (dead_letters(ours, f"{unique}_{kind}") for kind in ("ours", "java"))
    assert [message.reconsume_times for message in log.messages] == [0, 1, 2]
    assert [delivery["reconsumeTimes"] for delivery in java.deliveries] == [0, 1, 2]
    assert comparable(mine, unique) == comparable(theirs, unique)
    assert mine.properties["ORIGIN_MESSAGE_ID"] == theirs.properties["ORIGIN_MESSAGE_ID"]


def test_dead_letters_of_orderly_members_are_the_same(
    clients: JavaClients, ours: Ours, topic: str, unique: str
) -> None:
    """Our orderly member leaves the same dead letter as Java's for a message that it suspends too often."""
    java = clients.push_consumer(
        f"{unique}_java", {topic: "*"}, {"poison": [JAVA_SUSPEND]}, orderly=True, maxReconsumeTimes=2
    )
    log = Log(lambda _: suspend(0.1))
    ours.member(f"{unique}_ours", log, orderly=True, max_reconsume_times=2)
    ours.producer().send(Message(topic, b"poison", "tag", "key", {"colour": "red"}))
    java.wait_for(3)
    eventually(lambda: len(log.messages) == 3, "as many deliveries")

    [mine], [theirs] = (dead_letters(ours, f"{unique}_{kind}") for kind in ("ours", "java"))
    assert comparable(mine, unique) == comparable(theirs, unique)
    assert mine.properties["ORIGIN_MESSAGE_ID"] == theirs.properties["ORIGIN_MESSAGE_ID"]


def dead_letters(ours: Ours, group: str) -> list[Any]:
    """Wait until a group has dead letters; return them."""
    letters = DeadLetters(ours.settings, group)
    eventually(lambda: list(letters.read()), f"{dead_letter_topic(group)} holds something")
    return list(letters.read())


def comparable(letter: ReceivedMessage, unique: str) -> tuple[Any, ...]:
    """Return the fields of a dead letter that must be equal for two groups."""
    own = {
        name: value.replace(f"{unique}_ours", unique).replace(f"{unique}_java", unique)
        for name, value in letter.properties.items()
        if name not in OWN_TO_A_DELIVERY
    }
    record = letter.record
    return letter.body, letter.topic, letter.reconsume_times, record.flag, record.sys_flag, own


def test_every_broadcasting_member_receives_everything(
    clients: JavaClients, ours: Ours, topic: str, unique: str, tmp_path: Any
) -> None:
    """In broadcasting mode Java's member and ours each receive all messages, and commit nothing to brokers."""
    log = Log()
    java = clients.push_consumer(unique, {topic: "*"}, messageModel="BROADCASTING")
    mine = ours.member(unique, log, message_model=MessageModel.BROADCASTING, local_offset_dir=tmp_path)
    eventually(lambda: queues_of(mine, topic) == java.held_queues(topic) == {0, 1, 2, 3}, "both hold all queues")
    send(ours, *"abcdefgh")

    java.wait_for(8)
    eventually(lambda: len(log.messages) == 8, "all came to ours")
    assert sorted(log.bodies) == sorted(java.bodies) == list("abcdefgh")
    assert committed(ours, ours.cluster(), unique) == 0


def test_the_official_admin_sees_and_moves_our_members(
    mixed_tools: JavaClients, ours: Ours, topic: str, unique: str
) -> None:
    """Java's admin reads the progress and state of our member, and our member follows its reset."""
    log = Log()
    mine = ours.member(unique, log)
    send(ours, *"abcd")
    admin = mixed_tools.admin()

    def progress() -> tuple[int, int]:
        table = admin.call("examineConsumeStats", unique)["offsetTable"]
        rows = [row for name, row in table.items() if name.startswith(f"{topic}/")]
        return sum(row["brokerOffset"] for row in rows), sum(row["consumerOffset"] for row in rows)

    eventually(lambda: progress() == (4, 4), "the admin sees our progress")
    info = admin.call("getConsumerRunningInfo", unique, mine.client_id, False)
    assert info["properties"]["PROP_CONSUME_TYPE"] == "CONSUME_PASSIVELY"
    admin.call("resetOffsetByTimestamp", topic, unique, 0, True)
    eventually(lambda: len(log.messages) >= 8, "every message is delivered again")
    eventually(lambda: progress() == (4, 4), "and is committed again")
