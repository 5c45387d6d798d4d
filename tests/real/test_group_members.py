"""Test groups that consist of queries and official Java consumers.

Every test runs on a real broker and on the stub, with official consumers of release 5.3.3 beside a query that is driven
as Spark drives it. A query finishes a batch when it plans the next one; so rows may be repeated when a queue is handed
over, but none may be missing.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pyspark_rocketmq.client.stores import LocalStore
from pyspark_rocketmq.cluster.cluster import Cluster
from pyspark_rocketmq.errors import RocketMQError
from pyspark_rocketmq.model import Message, MessageQueue
from pyspark_rocketmq.options import ReaderOptions
from tests.real.java_clients import JavaClients, eventually
from tests.real.java_fixtures import ScenarioServer
from tests.real.our_clients import Ours
from tests.source.driving import Checkpoint, Row, Run, options_for

pytestmark = pytest.mark.real

QUERY = """
import sys, time
from types import SimpleNamespace
from tests.real.test_group_members import shared
from tests.source.driving import Run
run = Run(shared(SimpleNamespace(name_server=sys.argv[1]), sys.argv[2], sys.argv[3]))
run.plan()
print(run.reader.planner.role.member.client_id, flush=True)
time.sleep(600)
"""


def shared(server: ScenarioServer, topic: str, group: str, **given: str) -> ReaderOptions:
    """Return the options of a query that is a member of the group."""
    raw = {"subscribe": topic, "consumerGroup": group, "groupMembership": "shared", "startingOffsets": "group"}
    return options_for(server, **raw, rebalanceInterval="1s", **given)


def send(ours: Ours, *bodies: str) -> None:
    """Send one message for each body, to the four queues of the topic in turn."""
    producer = ours.producer()
    for number, body in enumerate(bodies):
        producer.send(Message(ours.topic, body.encode()), MessageQueue(ours.topic, "broker-a", number % 4))


def committed(cluster: Cluster, topic: str, group: str) -> int:
    """Return the sum of a group's committed offsets in a topic, or 0 if there is an error."""
    try:
        return sum(cluster.offsets.fetch_committed(group, cluster.routes.route(topic).readable).values())
    except RocketMQError:
        return 0


class Query:
    """A query that runs triggers while a test waits for a condition."""

    def __init__(self, options: ReaderOptions, topic: str, checkpoint: Checkpoint | None = None) -> None:
        self.run = Run(options, checkpoint)
        self.rows: list[Row] = []
        self._topic = topic

    def __enter__(self) -> Query:
        return self

    def __exit__(self, *_: object) -> None:
        self.run.__exit__()

    @property
    def bodies(self) -> list[str]:
        """The bodies of all rows so far."""
        return [row.body.decode() for row in self.rows]

    @property
    def queues(self) -> set[int]:
        """The ids of the topic's queues that the last offset contains."""
        if not self.run.checkpoint.offsets:
            return set()
        return {int(number) for ids in self.run.checkpoint.last["next"].get(self._topic, {}).values() for number in ids}

    def until(self, condition: Callable[[], object], what: str) -> None:
        """Run triggers and collect their rows until the condition is true."""

        def holds() -> object:
            self.rows.extend(self.run.trigger() or ())
            return condition()

        eventually(holds, what)


def saved_count(directory: Path) -> int:
    """Return the sum of the offsets in the local offset file below the directory; 0 without a file."""
    files = list(directory.rglob("offsets.json"))
    if not files:
        return 0
    store = LocalStore(files[0])
    store.load()
    return sum(store.progress.snapshot().values())


def test_assignments_are_disjoint_and_complete(
    clients: JavaClients, java_server: ScenarioServer, topic: str, unique: str
) -> None:
    """Two Java members and a query hold each queue once; if one leaves, the others take over its queues."""
    theirs = [clients.push_consumer(unique, {topic: "*"}) for _ in range(2)]
    with Query(shared(java_server, topic, unique), topic) as query:

        def held() -> list[int]:
            return sorted([number for member in theirs for number in member.held_queues(topic)] + [*query.queues])

        query.until(lambda: held() == [0, 1, 2, 3] and query.queues, "three members share")
        theirs.pop().shutdown()
        query.until(lambda: held() == [0, 1, 2, 3] and len(query.queues) == 2, "two members share")
    eventually(lambda: theirs[0].held_queues(topic) == {0, 1, 2, 3}, "the Java member inherits")


def test_java_members_that_disagree_are_reported(
    clients: JavaClients, java_server: ScenarioServer, topic: str, unique: str, caplog: pytest.LogCaptureFixture
) -> None:
    """If Java members have another filter and another strategy, the query logs a warning about each difference."""
    named = "AllocateMessageQueueAveragelyByCircle"
    clients.push_consumer(unique, {topic: "a"}, allocateMessageQueueStrategy=named)
    clients.push_consumer(unique, {topic: "a"})
    with Query(shared(java_server, topic, unique), topic) as query:
        query.until(lambda: "'AVG_BY_CIRCLE'" in caplog.text, "the strategy is compared")
        query.until(lambda: "want TAG 'a'" in caplog.text, "the filter is compared")

    reports = [each.getMessage() for each in caplog.records if "assigns queues by" in each.getMessage()]
    assert len(reports) == 1 and "this member by 'AVG'" in reports[0]


def test_every_message_is_consumed(
    clients: JavaClients, java_server: ScenarioServer, ours: Ours, topic: str, unique: str
) -> None:
    """While a query and a Java member join and leave, all messages are consumed and committed."""
    bodies = [f"m{number}" for number in range(120)]
    cluster, checkpoint = ours.cluster(), Checkpoint()
    options = shared(java_server, topic, unique)
    with Query(options, topic, checkpoint) as query:
        send(ours, *bodies[:40])
        query.until(lambda: query.rows, "the query is at work")
        java = clients.push_consumer(unique, {topic: "*"})
        send(ours, *bodies[40:80])
        query.until(lambda: committed(cluster, topic, unique) == 80, "all sent messages are committed")
        first = query.bodies
    send(ours, *bodies[80:])
    with Query(options, topic, checkpoint) as query:
        query.until(lambda: committed(cluster, topic, unique) == 120, "everything is committed")
        assert {*first, *query.bodies, *java.bodies} == set(bodies)


def test_a_killed_java_member_is_replaced(
    clients: JavaClients, java_server: ScenarioServer, ours: Ours, topic: str, unique: str
) -> None:
    """If a Java member is killed, the query reads its unfinished messages."""
    send(ours, *"abcd")
    with JavaClients(clients.version, java_server.name_server) as doomed:
        doomed.push_consumer(unique, {topic: "*"}, {body: [{"waitMs": 600_000}] for body in "abcd"}).wait_for(4)
        with Query(shared(java_server, topic, unique), topic) as query:
            doomed.kill()
            query.until(lambda: query.queues == {0, 1, 2, 3}, "all queues are the query's")
            query.until(lambda: set(query.bodies) == set("abcd"), "every message is delivered again")


def test_a_killed_query_is_replaced(
    clients: JavaClients, java_server: ScenarioServer, ours: Ours, topic: str, unique: str
) -> None:
    """If a driver is killed after it planned a batch, a Java member gets the batch's messages."""
    send(ours, *"abcd")
    arguments = [sys.executable, "-c", QUERY, java_server.name_server, topic, unique]
    with subprocess.Popen(arguments, cwd=Path(__file__).parents[2], stdout=subprocess.PIPE, text=True) as doomed:
        assert doomed.stdout is not None
        client_id = doomed.stdout.readline().strip()
        cluster = ours.cluster()
        eventually(lambda: client_id in cluster.groups.fetch_members(unique, topic), "it is a member")
        heir = clients.push_consumer(unique, {topic: "*"})
        doomed.kill()

    assert sorted(delivery["body"] for delivery in heir.wait_for(4)) == list("abcd")


def test_order_holds_across_both_kinds(
    clients: JavaClients, java_server: ScenarioServer, ours: Ours, topic: str, unique: str
) -> None:
    """If a query with locks joins an orderly Java consumer, each queue is read once and in order."""
    bodies = [f"m{number}" for number in range(80)]
    send(ours, *bodies)
    slow = {body: [{"waitMs": 20}] for body in bodies}
    java = clients.push_consumer(unique, {topic: "*"}, slow, orderly=True)
    java.wait_for(4)
    cluster = ours.cluster()
    with Query(shared(java_server, topic, unique, ordering="queue"), topic) as query:
        query.until(
            lambda: committed(cluster, topic, unique) == 80 and query.queues,
            "everything is committed, and the queues are assigned",
        )
        send(ours, *(f"n{number}" for number in range(40)))
        query.until(lambda: committed(cluster, topic, unique) == 120, "later messages are committed, too")
    for number in range(4):
        theirs = [each["queueOffset"] for each in java.deliveries if each["queueId"] == number]
        own = [row.offset for row in query.rows if row.queue.queue_id == number]
        assert own == sorted(set(own)) and theirs == sorted(set(theirs))
        assert not own or not theirs or min(own) >= max(theirs)
    assert {*query.bodies, *java.bodies} == {*bodies, *(f"n{number}" for number in range(40))}


def test_the_official_admin_sees_and_moves_a_query(
    clients: JavaClients, java_server: ScenarioServer, ours: Ours, topic: str, unique: str
) -> None:
    """Java's admin reads the progress and state of a query, and the query follows its reset."""
    cluster, admin = ours.cluster(), clients.admin()
    with Query(shared(java_server, topic, unique, instanceName="one"), topic) as query:
        send(ours, *"abcd")
        query.until(lambda: committed(cluster, topic, unique) == 4, "everything is committed")
        table = admin.call("examineConsumeStats", unique)["offsetTable"]
        rows = [row for name, row in table.items() if name.startswith(f"{topic}/")]
        assert sum(row["brokerOffset"] for row in rows) == sum(row["consumerOffset"] for row in rows) == 4
        [client_id] = cluster.groups.fetch_members(unique, topic)
        info = admin.call("getConsumerRunningInfo", unique, client_id, False)
        assert client_id.endswith("@one") and info["properties"]["PROP_CONSUME_TYPE"] == "CONSUME_PASSIVELY"
        assert client_id.split("@")[0] in clients.mqadmin("consumerProgress", "-g", unique, "-s", "true")
        admin.call("resetOffsetByTimestamp", topic, unique, 0, True)
        query.until(lambda: len(query.rows) == 8, "everything comes again")
        query.until(lambda: committed(cluster, topic, unique) == 4, "and is committed again")


def test_the_java_client_goes_on_from_a_querys_file(
    clients: JavaClients, java_server: ScenarioServer, ours: Ours, topic: str, unique: str, tmp_path: Path
) -> None:
    """In broadcasting mode a Java client continues from a query's local offset file, and the reverse."""
    place = {"messageModel": "BROADCASTING", "consumerGroup": unique, "localOffsetStoreDir": str(tmp_path)}
    given = {"subscribe": topic, "instanceName": "one", **place, "startingOffsetsDefault": "earliest"}
    with Query(options_for(java_server, **given), topic) as query:
        send(ours, *"abcd")
        query.until(lambda: len(query.rows) == 4, "the query has read them")
        query.run.trigger()
    send(ours, *"efgh")
    with JavaClients(
        clients.version, java_server.name_server, **{"rocketmq.client.localOffsetStoreDir": str(tmp_path)}
    ) as java:
        member = java.push_consumer(unique, {topic: "*"}, messageModel="BROADCASTING", instanceName="one")
        assert sorted(each["body"] for each in member.wait_for(4)) == list("efgh")
        eventually(lambda: saved_count(tmp_path) == 8, "the Java client has saved it")
    send(ours, *"ijkl")
    again = options_for(java_server, **{**given, "startingOffsets": "group"})
    with Query(again, topic) as query:
        query.until(lambda: len(query.rows) >= 4, "the query goes on")
        assert sorted(query.bodies) == list("ijkl")
