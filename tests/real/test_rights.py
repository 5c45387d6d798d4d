"""Test on real brokers that docs/reference/rights.md names the rights that each operation needs, and no more.

With the rights of its row an operation succeeds; without any one of them it fails.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from pyspark_rocketmq.broker_errors import NoPermission
from pyspark_rocketmq.cli.exits import Exit
from pyspark_rocketmq.cluster.cluster import Cluster, open_cluster
from pyspark_rocketmq.cluster.signing import Credentials
from pyspark_rocketmq.errors import RocketMQError
from pyspark_rocketmq.lag.measure import measure_positions
from pyspark_rocketmq.model import MessageQueue, dead_letter_topic, retry_topic
from pyspark_rocketmq.source.commit import GroupCheck, OffsetWriter
from pyspark_rocketmq.wire.bodies import ConsumerData, HeartbeatData, SubscriptionData
from pyspark_rocketmq.wire.message_id import decode_offset_message_id
from tests.cli.fixtures import RunCommand
from tests.flows.world import World, fresh, now_ms, sending, until
from tests.real.servers import CLUSTER_NAME, RealCluster
from tests.real.test_cli import PATIENT
from tests.real.test_operators import send_back
from tests.real.test_sink_rights import CREATE_RIGHTS, CREATE_USER, SECRET, UPDATE_ACCOUNT, ask, write
from tests.real.worlds import real_world
from tests.source.driving import batch_options_for, read_batch
from tools.page_blocks import ROOT, find_blocks

pytestmark = pytest.mark.real

KINDS = ("topic", "group")
PAGE = ROOT / "docs" / "reference" / "rights.md"
Rights = Mapping[tuple[str, str], tuple[str, ...]]
"""{(kind of resource, its name): actions}."""


@dataclass(frozen=True)
class Site:
    """A topic with messages, a group with a position, a retry and a dead letter, and the cluster that has them."""

    cluster: RealCluster
    world: World
    queue: MessageQueue
    group: str
    place: int
    """The position of a message in the broker's log."""
    run_command: RunCommand
    folder: Path
    new: str
    """The name of a topic and of a group that do not exist yet."""

    @property
    def topic(self) -> str:
        """The topic that is read and written."""
        return self.queue.topic


@dataclass(frozen=True)
class User:
    """A user of the site."""

    site: Site
    name: str

    @property
    def client(self) -> Cluster:
        """A new client with the user's key."""
        return open_cluster(replace(self.site.world.settings, credentials=Credentials(self.name, SECRET)))

    def read(self, **options: str) -> int:
        """Run a batch read; return the number of rows."""
        keys = {"accessKey": self.name, "secretKey": SECRET, "fetchOffset.numRetries": "0"}
        return len(read_batch(batch_options_for(self.site.world, **keys, **options)))


def read(user: User) -> None:
    """Read the topic without a group."""
    assert user.read(subscribe=user.site.topic)


def read_for_group(user: User) -> None:
    """Read the topic for a group, from the group's position."""
    assert user.read(subscribe=user.site.topic, consumerGroup=user.site.group, startingOffsets="group")


def read_by_time(user: User) -> None:
    """Read the topic for a group, from a time on."""
    assert user.read(subscribe=user.site.topic, consumerGroup=user.site.group, startingTimestamp="-1h")


def commit(user: User) -> None:
    """Commit a position as a query does."""
    commit_for(user, user.site.group)


def use_a_new_group(user: User) -> None:
    """Read and commit for a group that does not exist yet."""
    assert user.read(subscribe=user.site.topic, consumerGroup=user.site.new)
    commit_for(user, user.site.new)


def commit_for(user: User, group: str) -> None:
    """Commit a position of a group."""
    client = user.client
    for failure in OffsetWriter(client, group, GroupCheck(client, group)).commit({user.site.queue: 3}):
        raise failure


def join(user: User) -> None:
    """Become a member of the group, ask for the others, and lock a queue."""
    client, site, me = user.client, user.site, f"{user.name}@1"
    topics = (site.topic, retry_topic(site.group))
    consumer = ConsumerData(
        group_name=site.group,
        consume_type="CONSUME_PASSIVELY",
        message_model="CLUSTERING",
        consume_from_where="CONSUME_FROM_LAST_OFFSET",
        subscription_data_set=tuple(SubscriptionData(topic=topic, sub_string="*") for topic in topics),
    )
    address = site.world.master(site.queue)
    try:
        client.groups.heartbeat(address, HeartbeatData(client_id=me, consumer_data_set=(consumer,)))
        assert client.groups.fetch_members(site.group, site.topic)
        assert client.groups.lock(site.group, me, [site.queue]).granted
    finally:
        site.world.cluster.groups.unlock(site.group, me, [site.queue])
        site.world.cluster.groups.unregister(address, me, consumer_group=site.group)


def read_retries(user: User) -> None:
    """Read the group's retry topic beside the topic."""
    assert user.read(subscribe=user.site.topic, consumerGroup=user.site.group, readRetryTopic="true")


def read_dead_letters(user: User) -> None:
    """Read the group's dead letters."""
    assert user.read(subscribe=dead_letter_topic(user.site.group), consumerGroup=user.site.group)


def write_rows(user: User) -> None:
    """Write a row."""
    write(user.site.world, user.name, [user.site.topic], sendBatchSize="1")


def write_to_a_new_topic(user: User) -> None:
    """Write a row to a topic that does not exist yet."""
    write(user.site.world, user.name, [user.site.new], sendBatchSize="1")


def send_a_row_back(user: User) -> None:
    """Send a message back."""
    user.client.messages.send_back(user.site.group, user.site.queue, user.site.place, delay_level=18)


def measure_lag(user: User) -> None:
    """Measure how far a query is behind, as monitors and `progress.lag` do."""
    total = measure_positions(user.client, {user.site.queue: 0}, now_ms=now_ms()).total
    for figure in (total.messages, total.seconds, total.retention_seconds):
        if figure.unknown is not None:
            raise NoPermission(figure.unknown)


def command(*words: str) -> Callable[[User], None]:
    """Return an operation that runs a command for the topic `T` and the group `G`; a part that is unknown fails it."""

    def run(user: User) -> None:
        named = {"T": user.site.topic, "G": user.site.group, "AUDIT": str(user.site.folder / user.name)}
        keys = ("-o", f"accessKey={user.name}", "-o", f"secretKey={SECRET}", *PATIENT)
        ran = user.site.run_command(
            *(named.get(word, word) for word in words), *keys, "--json", name_server=user.site.world.name_server
        )
        text = ran.out + ran.err
        if ran.code not in (Exit.DONE, Exit.NEEDS_APPLY) or re.search("NO_PERMISSION|CREDENTIALS_REFUSED", text):
            raise NoPermission(text)

    return run


def seek(user: User) -> None:
    """Move the group from where it stands to the first messages."""
    user.site.world.cluster.offsets.commit(user.site.group, {user.site.queue: 2})
    command("offsets", "seek", "G", "--topic", "T", "--to", "earliest", "--apply")(user)


OPERATIONS: Mapping[str, Callable[[User], None]] = {
    "read, without `consumerGroup`": read,
    "read with `consumerGroup`": read_for_group,
    "start or end by time, with `consumerGroup`": read_by_time,
    "commit positions": commit,
    "read and commit, the first of the group `N`": use_a_new_group,
    "join a group (`groupMembership=shared`)": join,
    "read what was sent back (`readRetryTopic`)": read_retries,
    "read dead letters of a group": read_dead_letters,
    "write": write_rows,
    "write the first message of the topic `N`": write_to_a_new_topic,
    "send rows back": send_a_row_back,
    "`progress.lag`, `LagListener`": measure_lag,
    "`lag G`": command("lag", "G"),
    "`offsets show G`, `export G`": command("offsets", "show", "G"),
    "`offsets seek G`, `import G`": seek,
    "`topics show T`": command("topics", "show", "T"),
    "`groups show G`": command("groups", "show", "G"),
    "`peek T`, `tail T`": command("peek", "T"),
    "`find T --key K`": command("find", "T", "--key", "K"),
    "`send T`": command("send", "T", "hello"),
    "`dlq list G`, `read G`": command("dlq", "list", "G"),
    "`dlq replay G`, `retry.replay`": command("dlq", "replay", "G", "--apply", "--audit", "AUDIT"),
}


def rights_of(operation: str, acl: str, site: Site) -> Rights:
    """Return the rights that the page names for an operation, with the names of this site."""
    row = next(line for line in PAGE.read_text().splitlines() if line.startswith(f"| {operation} |"))
    cell = row.split(" | ")[1 if acl == "1.0" else 2]
    named = {"T": site.topic, "G": site.group, "N": site.new, "%DLQ%G": dead_letter_topic(site.group)}
    found = re.findall(r"(topic|group) `([^`]+)` ([A-Z]\w+(?:, [A-Z]\w+)*)", cell)
    return {(kind, named.get(name, name)): tuple(actions.split(", ")) for kind, name, actions in found}


def make_user(site: Site, rights: Rights) -> User:
    """Make a user with these rights and no others."""
    user = User(site, fresh("user"))
    granted = {resource: actions for resource, actions in rights.items() if actions}
    if site.cluster.site.release.acl == "2.0":
        account = {"username": user.name, "password": SECRET, "userType": "Normal", "userStatus": "enable"}
        ask(site.cluster, CREATE_USER, {"username": user.name}, account)
        named = granted or {("topic", "no_such_topic"): ("Sub",)}
        entries = [_entry(f"{kind.title()}:{name}", actions) for (kind, name), actions in named.items()]
        body = {"subject": f"User:{user.name}", "policies": [{"policyType": "Custom", "entries": entries}]}
        ask(site.cluster, CREATE_RIGHTS, {"subject": f"User:{user.name}"}, body)
    else:
        account = {"accessKey": user.name, "secretKey": SECRET, "admin": "false"}
        account |= {"defaultTopicPerm": "DENY", "defaultGroupPerm": "DENY"}
        ask(site.cluster, UPDATE_ACCOUNT, account | {f"{kind}Perms": _texts(granted, kind) for kind in KINDS})
    return user


def _entry(resource: str, actions: tuple[str, ...]) -> object:
    return {"resource": resource, "actions": list(actions), "sourceIps": [], "decision": "Allow"}


def _texts(granted: Rights, kind: str) -> str:
    """Return the rights for one kind of resource as access control 1.0 writes them."""
    texts = [f"{name}={'|'.join(actions)}" for (which, name), actions in granted.items() if which == kind]
    return ",".join(texts or ["nothing=DENY"])


def without(rights: Rights, resource: tuple[str, str], action: str) -> Rights:
    """Return the rights without one of them."""
    return {**rights, resource: tuple(each for each in rights[resource] if each != action)}


@pytest.fixture
def site(real_acl: RealCluster, run_command: RunCommand, tmp_path: Path) -> Site:
    """The site on the cluster with access control."""
    world = real_world(real_acl)
    queue, group = world.make_queue(), world.make_group()
    world.fill(queue, 5, KEYS="K")
    until(lambda: world.cluster.messages.query_by_key(queue.topic, "K").messages, "the key is in the index")
    place = decode_offset_message_id(world.send(queue, b"back").message_id).physical_offset
    world.cluster.offsets.commit(group, {queue: 2})
    until(lambda: send_back(world, group, queue, place), "the broker makes a dead letter")
    world.cluster.messages.send_back(group, queue, place, delay_level=1)
    for topic in (retry_topic(group), dead_letter_topic(group)):
        until(lambda topic=topic: bool(world.route_names(topic)), f"{topic} is routed")  # type: ignore[misc]
        world.await_messages(queue._replace(topic=topic))
    return Site(real_acl, world, queue, group, place, run_command, tmp_path, fresh("new"))


@pytest.mark.parametrize("operation", OPERATIONS)
def test_the_page_names_the_rights_of_an_operation(site: Site, operation: str) -> None:
    """An operation succeeds with the rights that the page names, and fails without any one of them."""
    run = OPERATIONS[operation]
    rights = rights_of(operation, site.cluster.site.release.acl, site)
    run(make_user(site, rights))

    for resource, actions in rights.items():
        for action in actions:
            with pytest.raises(RocketMQError, match=r"PERMISSION|CREDENTIALS"):
                run(make_user(site, without(rights, resource, action)))


@pytest.mark.slow
def test_the_lines_of_the_page_grant_rights(real_acl: RealCluster) -> None:
    """The lines of `mqadmin` on the page make a user who reads and writes what the page says."""
    title = f"Access control {real_acl.site.release.acl}"
    blocks = [block for block in find_blocks(PAGE) if (block.heading, block.language) == (title, "sh")]
    lines = [line for block in blocks for line in block.text.splitlines()]
    world = real_world(real_acl)
    for topic in ("orders", "orders-copy"):
        real_acl.create_topic(topic, queues=1)
    queue = MessageQueue("orders", "broker-a", 0)
    world.fill(queue, 3)

    for line in lines:
        program, command, *words = shlex.split(line)
        assert (program, words[:4]) == ("mqadmin", ["-n", "localhost:9876", "-c", "DefaultCluster"])
        real_acl.admin(command, "-c", CLUSTER_NAME, *words[4:])

    given = {"accessKey": "etl-reader", "secretKey": "not-this-one", "subscribe": "orders", "consumerGroup": "etl"}
    assert len(read_batch(batch_options_for(world, **given))) >= 3
    client = open_cluster(replace(world.settings, credentials=Credentials("etl-reader", "not-this-one")))
    client.messages.send(sending(MessageQueue("orders-copy", "broker-a", 0), b"copy", {}))
