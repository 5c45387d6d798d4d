"""Write to topics of a real broker for which a user lacks the right, with the access control of every release.

Brokers of 4.9 check rights of single sends only, so rows are sent one by one there.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

import pyarrow as pa
import pytest

from pyspark_rocketmq.errors import WriteError
from pyspark_rocketmq.options import parse_writer_options
from pyspark_rocketmq.options.writer_options import GivenBatch
from pyspark_rocketmq.sink.plan import WritePlan, freeze
from pyspark_rocketmq.sink.report import WriteReport
from pyspark_rocketmq.sink.task import write_task
from tests.flows.world import World, fresh, until
from tests.real.servers import RealCluster
from tests.real.worlds import real_world

pytestmark = pytest.mark.real

SECRET = "visible-to-nobody"
CREATE_USER, CREATE_RIGHTS, UPDATE_ACCOUNT = 3001, 3006, 50
"""Requests of administrators: two of access control 2.0, and one of 1.0."""


def ask(cluster: RealCluster, code: int, fields: dict[str, str], body: object = None) -> None:
    """Send a request of an administrator; fail if it is refused."""
    response = cluster.broker.ask(code, fields, json.dumps(body).encode() if body else b"")
    assert response.code == 0, response.remark


def make_user(cluster: RealCluster, name: str, topic: str) -> None:
    """Make a user who may publish to this topic and to no other."""
    if cluster.site.release.acl != "2.0":
        rights = {"defaultTopicPerm": "DENY", "defaultGroupPerm": "DENY", "topicPerms": f"{topic}=PUB"}
        ask(cluster, UPDATE_ACCOUNT, {"accessKey": name, "secretKey": SECRET, "admin": "false", **rights})
        return
    user = {"username": name, "password": SECRET, "userType": "Normal", "userStatus": "enable"}
    ask(cluster, CREATE_USER, {"username": name}, user)
    entry = {"resource": f"Topic:{topic}", "actions": ["Pub"], "sourceIps": [], "decision": "Allow"}
    rights_of_user = {"subject": f"User:{name}", "policies": [{"policyType": "Custom", "entries": [entry]}]}
    ask(cluster, CREATE_RIGHTS, {"subject": f"User:{name}"}, rights_of_user)


def write(world: World, user: str, topics: list[str], **options: str) -> WriteReport:
    """Write a row to each of these topics in one task, as this user."""
    given: Mapping[str, str] = {"nameServer": world.name_server, "accessKey": user, "secretKey": SECRET, **options}
    batch = pa.RecordBatch.from_pydict({"topic": topics, "body": [b"%d" % row for row in range(len(topics))]})
    return write_task([batch], freeze(WritePlan(parse_writer_options(given, env={}))), GivenBatch(fresh("query"), 0), 0)


def singly(world: World) -> dict[str, str]:
    """Return the option with which this release checks rights."""
    return world.by_version({"4.9": {"sendBatchSize": "1"}, "5": {}})


@pytest.mark.parametrize("way", ["fail", "drop", "deadLetter"])
def test_a_right_that_lacks_fails_the_task(real_acl: RealCluster, way: str) -> None:
    """Rows of a topic that the user may not write to fail the task, whatever `onBadRow` says, and the others land.

    The error names code, user's right, topic and broker, counts the rows, and does not show the secret.
    """
    world = real_world(real_acl)
    mine, others = (world.make_queue() for _ in range(2))
    user, options = fresh("user"), singly(world) | {"onBadRow": way}
    options |= {"deadLetterTopic": mine.topic} if way == "deadLetter" else {}
    make_user(real_acl, user, mine.topic)

    with pytest.raises(WriteError) as caught:
        write(world, user, [mine.topic, others.topic, mine.topic], **options)

    text, error = str(caught.value), caught.value
    refused = world.by_version({"4.9": "BROKER_CREDENTIALS_REFUSED", "5": "BROKER_NO_PERMISSION"})
    assert text.startswith("[SINK_WRITE] partition 0: row 1 could not be sent: " + refused)
    assert f"topic {others.topic}, broker broker-a" in text and "check accessKey and secretKey" in text
    assert (error.landed, error.failed, error.unknown) == (2, 1, 0) and SECRET not in text
    assert sorted(record.body for record in world.await_messages(mine, 2)) == [b"0", b"2"] and not world.read(others)


def test_a_topic_for_dead_letters_without_the_right_fails_the_task(real_acl: RealCluster) -> None:
    """A row that cannot be sent, and whose dead letter may not be, fails the task: it is not lost."""
    world = real_world(real_acl)
    if world.version.startswith("4.9"):
        pytest.skip("4.9 checks no rights of batches, and dead letters are sent in batches")
    mine, others = (world.make_queue() for _ in range(2))
    user, dead = fresh("user"), {"onBadRow": "deadLetter", "deadLetterTopic": others.topic}
    make_user(real_acl, user, mine.topic)

    with pytest.raises(WriteError, match=rf"dead letter 0 could not be sent.*topic {others.topic}") as caught:
        write(world, user, [mine.topic, "no topic"], **dead)

    assert caught.value.failed >= 1 and caught.value.landed + caught.value.failed == 2 and not world.read(others)


def test_4_9_checks_no_right_of_a_batch(real_acl: RealCluster) -> None:
    """Brokers of 4.9 store a batch of a topic that its user may not write to; later ones refuse it, as single sends."""
    world = real_world(real_acl)
    mine, others = (world.make_queue() for _ in range(2))
    user = fresh("user")
    make_user(real_acl, user, mine.topic)

    try:
        write(world, user, [others.topic] * 3)
    except WriteError as error:
        assert "BROKER_NO_PERMISSION" in str(error)

    stored = world.by_version({"4.9": 3, "5": 0})
    until(lambda: len(world.read(others)) == stored, f"{stored} messages are stored")
