"""Test the command line on real brokers: each command, and lag beside mqadmin's own."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from pyspark_rocketmq.cli.commands.lag import watch_lag
from pyspark_rocketmq.cli.connection import Wanted
from pyspark_rocketmq.cli.exits import Exit
from pyspark_rocketmq.cli.screen import Screen
from pyspark_rocketmq.cli.session import Session
from pyspark_rocketmq.cluster.clocks import broker_time_ms
from pyspark_rocketmq.errors import RocketMQError
from pyspark_rocketmq.model import MessageQueue, retry_topic
from pyspark_rocketmq.wire.bodies import TopicConfig
from tests.cli.fixtures import Ran, RunCommand
from tests.flows.world import World, now_ms, until
from tests.real.servers import ACCESS_KEY, CLUSTER_NAME, PKI, SECRET_KEY, RealCluster
from tests.real.worlds import real_world

pytestmark = pytest.mark.real

TLS = ("useTLS=true", f"tlsTrustCertPath={PKI / 'ca.pem'}", "connectTimeoutMillis=10s")
PATIENT = ("-o", "connectTimeoutMillis=10s", "-o", "mqClientApiTimeout=10s")


class Shell:
    """Runs commands on a real cluster."""

    def __init__(self, run: RunCommand, cluster: RealCluster, *options: str) -> None:
        self._run = run
        self._name_server = cluster.name_server
        self._options = [word for option in options for word in ("-o", option)]

    def run(self, *words: str) -> Ran:
        """Run a command, and return its outcome."""
        return self._run(*words, *PATIENT, *self._options, name_server=self._name_server)

    def document(self, *words: str, code: Exit = Exit.DONE) -> Any:
        """Return the document that a command prints, after the command's schema has accepted it."""
        ran = self.run(*words, "--json")
        assert ran.code == code and (ran.err == "" or "--apply" in words)
        jsonschema.validate(ran.document, self.run(*words, "--schema").document)
        return ran.document


@pytest.fixture
def world(real_cluster: RealCluster) -> World:
    """The scenario's view of the cluster."""
    return real_world(real_cluster)


@pytest.fixture
def shell(run_command: RunCommand, real_cluster: RealCluster) -> Shell:
    """A way to run commands on the real cluster."""
    return Shell(run_command, real_cluster)


def test_topics_and_routes(shell: Shell, world: World) -> None:
    """Topics are listed and shown with their queues, offsets and store times; routes have the broker's address."""
    queues = world.make_topic(3)
    before_ms = now_ms()
    world.fill(queues[1], 5)
    topic = queues[0].topic

    listed = {each["topic"]: each for each in shell.document("topics", "list", "--all")["topics"]}
    shown = shell.document("topics", "show", topic)
    routed = shell.document("routes", topic)

    assert (listed[topic]["kind"], listed[topic]["readQueues"], listed[topic]["permissions"]) == (
        "user",
        3,
        ["read", "write"],
    )
    assert listed["TBW102"]["kind"] == listed[CLUSTER_NAME]["kind"] == "system"
    assert [(each["minOffset"], each["maxOffset"]) for each in shown["queues"]] == [(0, 0), (0, 5), (0, 0)]
    assert abs(shown["queues"][1]["lastStored"]["ms"] - before_ms) < 60_000
    assert [(each["broker"], each["readableQueues"]) for each in routed["brokers"]] == [(queues[0].broker_name, 3)]
    assert shell.run("topics", "show", "no_such_topic").code == Exit.NOT_FOUND


def test_brokers(shell: Shell, world: World, real_cluster: RealCluster) -> None:
    """Brokers are listed with release, uptime and sizes."""
    until(lambda: runtime_info(world) is not None, "the broker reports figures, a second after its start")
    [broker] = shell.document("brokers")["brokers"]

    assert (broker["release"], broker["isMaster"], broker["answers"]) == (real_cluster.version, True, True)
    assert broker["address"] == str(real_cluster.broker.address)
    assert 0 < broker["upSeconds"] < 86_400 and 0 <= broker["diskUsed"] <= 1


def test_groups(shell: Shell, world: World) -> None:
    """Groups are listed, those of RocketMQ itself only with `--all`; one without members is shown with its settings."""
    group = world.make_group()

    listed = [each["group"] for each in shell.document("groups", "list")["groups"]]
    everything = [each["group"] for each in shell.document("groups", "list", "--all")["groups"]]
    shown = shell.document("groups", "show", group)

    assert group in listed and "TOOLS_CONSUMER" not in listed and "TOOLS_CONSUMER" in everything
    assert [name for name in listed if not name.startswith("flows_")] == []
    assert (shown["members"], shown["settings"][0]["retries"]) == ([], 16)
    assert shell.run("groups", "show", "no_such_group").code == Exit.NOT_FOUND


def test_lag_is_mqadmins(shell: Shell, world: World, real_cluster: RealCluster) -> None:
    """Positions, ends and differences equal those of `mqadmin consumerProgress`; seconds are those since the store.

    A queue without a position is unknown here; mqadmin shows 0 for its position.
    """
    queues, group = world.make_topic(3), world.make_group()
    world.fill(queues[0], 7)
    stored_at = time.time()
    world.fill(queues[1], 4)
    world.fill(queues[2], 2)
    # mqadmin finds the group's brokers by the route of its retry topic.
    world.cluster.admin.create_topic(TopicConfig(topic_name=retry_topic(group), read_queue_nums=1, write_queue_nums=1))
    until(lambda: bool(world.route_names(retry_topic(group))), "the retry topic is routed")
    world.cluster.offsets.commit(group, {queues[0]: 2, queues[1]: 4})

    lag = shell.document("lag", group)
    age = time.time() - stored_at
    theirs = progress(real_cluster.admin("consumerProgress", "-g", group), queues[0].topic)

    ours = {each["queueId"]: each for each in lag["queues"]}
    for number in (0, 1):
        figures = [ours[number][name]["value"] for name in ("end", "position", "messages")]
        assert figures == theirs[number]
    assert theirs[2] == [2, 0, 2]
    assert abs(ours[0]["seconds"]["value"] - age) < 1
    assert (ours[1]["seconds"]["value"], ours[1]["bytes"]["value"]) == (0, 0)
    assert 5 * 80 < ours[0]["bytes"]["value"] < 5 * 500
    assert 0 < ours[0]["retentionSeconds"]["value"] <= 100 * 24 * 3600
    assert_unknown_unless_old(world, ours[2])


def assert_unknown_unless_old(world: World, lag: Any) -> None:
    """Check the lag of a queue in which the group has no position; brokers before 5.0 report 0 for a young queue."""
    if world.by_version({"4.": True, "5.": False}):
        assert lag["messages"]["value"] == 2
    else:
        assert "no position" in lag["messages"]["unknown"]


def progress(printed: str, topic: str) -> dict[int, list[int]]:
    """Return broker offset, consumer offset and difference of each queue, as mqadmin prints them."""
    found = re.findall(rf"^{topic}\s+\S+\s+(\d+)\s+(-?\d+)\s+(-?\d+)\s+(-?\d+)\s", printed, flags=re.MULTILINE)
    return {int(queue): list(map(int, figures)) for queue, *figures in found}


def test_a_group_without_positions_is_not_found(shell: Shell, world: World) -> None:
    """A group that never committed has no lag to show, unless a topic is named."""
    queue, group = world.make_queue(), world.make_group()

    assert shell.run("lag", group).code == Exit.NOT_FOUND
    assert [each["queueId"] for each in shell.document("lag", group, "--topic", queue.topic)["queues"]] == [0]


def test_positions_are_moved_and_moved_back(shell: Shell, world: World, tmp_path: Path) -> None:
    """Positions are shown, exported, moved to a time and to the end, and undone, as brokers then report them."""
    queues, group = world.make_topic(2), world.make_group()
    topic = queues[0].topic
    for queue in queues:
        world.fill(queue, 6)
    start = {queues[0]: 2, queues[1]: 5}
    world.cluster.offsets.commit(group, start)

    def committed() -> dict[MessageQueue, int]:
        return world.cluster.offsets.fetch_committed(group, queues)

    exported = shell.document("offsets", "export", group)
    only_shown = shell.document("offsets", "seek", group, "--topic", topic, "--to", "latest", code=Exit.NEEDS_APPLY)
    unmoved = committed()
    moved = shell.document("offsets", "seek", group, "--topic", topic, "--to", "-1h", "--apply")
    at_start = committed()
    undone = shell.document(*shlex.split(moved["undo"])[1:])

    broker = queues[0].broker_name
    assert exported["positions"] == {topic: {broker: {"0": 2, "1": 5}}}
    assert [each["after"] for each in only_shown["moves"]] == [6, 6] and unmoved == start
    assert at_start == dict.fromkeys(queues, 0)
    assert undone["applied"] and committed() == start
    assert [each["position"] for each in shell.document("offsets", "show", group)["queues"]] == [2, 5]
    latest = shell.document("offsets", "at", "latest", "--topic", topic)
    assert latest["startingOffsets"] == {topic: {broker: {"0": 6, "1": 6}}}


def test_messages_are_shown_and_found(shell: Shell, world: World) -> None:
    """Messages are shown from the end and the start, followed, and found by key, ids, tag and time."""
    queue = world.make_queue()
    before_ms = now_ms()
    for number in range(4):
        receipt = world.send(
            queue, b"body %d" % number, KEYS=f"key-{number}", TAGS="even" if number % 2 == 0 else "odd"
        )
    topic = queue.topic

    def bodies(*words: str) -> list[str]:
        return [each["body"] for each in shell.document(*words)["messages"]]

    assert bodies("peek", topic, "-n", "2") == ["body 2", "body 3"]
    assert bodies("peek", topic, "-n", "1", "--from", "earliest") == ["body 0"]
    until(lambda: shell.run("find", topic, "--key", "key-3").code == Exit.DONE, "the last key is indexed")
    assert bodies("find", topic, "--key", "key-1") == ["body 1"]
    assert bodies("find", topic, "--id", receipt.message_id) == ["body 3"]
    assert bodies("find", topic, "--since", str(before_ms - 1000), "--tags", "odd") == ["body 1", "body 3"]
    followed = shell.run("tail", topic, "--from", "earliest", "-n", "2", "--tags", "even", "--json")
    assert [json.loads(line)["body"] for line in followed.out.splitlines()] == ["body 0", "body 2"]
    assert shell.run("find", topic, "--key", "no-such-key").code == Exit.NOT_FOUND


def test_messages_are_sent(shell: Shell, world: World) -> None:
    """Messages land where `send` says, with the ids by which they are found; a batch keeps its order."""
    queue = world.make_queue()
    topic, place = queue.topic, f"{queue.broker_name}/{queue.queue_id}"

    ran = shell.run("send", topic, "one", "två", "--tags", "paid", "--key", "k", "--queue", place, "--json")
    landed = [json.loads(line) for line in ran.out.splitlines()]
    stored = shell.document("peek", topic, "--queue", place)["messages"]

    assert (ran.code, ran.err) == (Exit.DONE, "")
    assert [(each["offset"], each["status"]) for each in landed] == [(0, "SUCCESS"), (1, "SUCCESS")]
    assert [(each["offset"], each["messageId"]) for each in stored] == [
        (each["offset"], each["messageId"]) for each in landed
    ]
    assert [(each["body"], each["tags"], each["keys"]) for each in stored] == [
        ("one", "paid", ["k"]),
        ("två", "paid", ["k"]),
    ]


def test_messages_are_delayed(shell: Shell, world: World) -> None:
    """A message comes after its level, or at its time; brokers before 5.0 have no times, and `send` refuses them."""
    topic = world.make_queue().topic

    def bodies() -> set[str]:
        return {each["body"] for each in shell.document("peek", topic)["messages"]}

    leveled = shell.run("send", topic, "level", "--delay-level", "1", "--json")
    timed = shell.run("send", topic, "time", "--deliver-at", "+2s", "--json")

    assert json.loads(leveled.out)["offset"] is None
    if world.by_version({"4.": True, "5.": False}):
        assert timed.code == Exit.USAGE and "older than 5.0" in timed.err
        until(lambda: bodies() == {"level"}, "the message has come")
    else:
        assert json.loads(timed.out)["offset"] is None
        until(lambda: bodies() == {"level", "time"}, "both messages have come")


@pytest.mark.spark
def test_the_demo_leaves_nothing_behind(shell: Shell, real_cluster: RealCluster) -> None:
    """On a real cluster the demo reads every order that it sends, and removes its topics at the end."""
    words = ["demo", "--seconds", "3", "--name-server", real_cluster.name_server, "--json"]
    ran = subprocess.run(
        [sys.executable, "-m", "pyspark_rocketmq", *words], capture_output=True, text=True, timeout=360, check=False
    )
    last = json.loads(ran.stdout.splitlines()[-1])

    assert (ran.returncode, ran.stderr) == (Exit.DONE, "")
    assert last["sent"] <= last["stored"] == last["total"]["orders"] and last["written"] > 0
    left = [each["topic"] for each in shell.document("topics", "list", "--all")["topics"]]
    assert [topic for topic in left if topic.startswith("pyspark-rocketmq-demo")] == []


def test_queues_of_a_killed_broker_are_unknown(real_two_brokers: RealCluster) -> None:
    """When a broker is killed, its queues that a watch has seen are unknown, and the total counts them."""
    world = real_world(real_two_brokers)
    queues, group = world.make_topic(1), world.make_group()
    for queue in queues:
        world.fill(queue, 3)
    world.cluster.offsets.commit(group, dict.fromkeys(queues, 1))
    watched = watch_lag(Session(Wanted(real_two_brokers.name_server), Screen(as_json=True)), group, None, 0.0)
    before = next(watched)
    world.servers.stop(queues[1].broker_name)
    try:
        after = next(watched)
    finally:
        world.servers.start(queues[1].broker_name)

    assert (before.total.messages.value, before.total.unknown_queues) == (4, 0)
    assert (after.total.messages.value, after.total.unknown_queues) == (2, 1)
    assert [each.broker for each in after.queues if each.messages.is_unknown] == [queues[1].broker_name]


def test_a_broker_that_hangs_is_unknown(run_command: RunCommand, real_two_brokers: RealCluster) -> None:
    """While a broker is registered and does not answer, `lag` calls its queues unknown, and the check fails."""
    world = real_world(real_two_brokers)
    queues, group = world.make_topic(1), world.make_group()
    for queue in queues:
        world.fill(queue, 3)
    world.cluster.offsets.commit(group, dict.fromkeys(queues, 1))
    hanging = next(each for each in real_two_brokers.brokers if each.broker_name == queues[1].broker_name)
    assert hanging.process
    os.kill(hanging.process.pid, signal.SIGSTOP)
    try:
        ran = run_command(
            "lag", group, "--max", "100", "--json", "-o", "mqClientApiTimeout=1s",
            name_server=real_two_brokers.name_server,
        )  # fmt: skip
    finally:
        os.kill(hanging.process.pid, signal.SIGCONT)

    lag = ran.document
    assert ran.code == Exit.CHECK_FAILED
    assert (lag["total"]["messages"]["value"], lag["total"]["messages"]["unknownQueues"]) == (2, 1)
    assert [(each["what"], each["code"]) for each in lag["troubles"]] == [(hanging.broker_name, "REQUEST_TIMEOUT")]


def test_a_broker_returns_64_messages_with_a_key(shell: Shell, world: World) -> None:
    """A broker returns the last 64 messages with a key, however many are asked for; `find` says that it is cut."""
    queue = world.make_queue()
    for number in range(100):
        world.send(queue, b"%d" % number, KEYS="same")

    def find() -> list[str]:
        ran = shell.run("find", queue.topic, "--key", "same", "--limit", "200", "--json")
        return [each["body"] for each in ran.document["messages"]] if ran.code == Exit.DONE else []

    until(lambda: find()[-1:] == ["99"], "the last message is indexed")

    assert find() == [str(number) for number in range(36, 100)]
    assert shell.document("find", queue.topic, "--key", "same", "--limit", "200")["isCut"]


def test_a_misspelt_group_is_not_created(shell: Shell, world: World) -> None:
    """A group that no broker knows gets no positions, also from brokers that would create it."""
    queue = world.make_queue()
    world.fill(queue, 3)

    ran = shell.run("offsets", "seek", "never_made", "--topic", queue.topic, "--to", "latest", "--apply")

    assert ran.code == Exit.NOT_FOUND and "no broker knows group never_made" in ran.err


def test_wrong_keys_are_not_permitted(run_command: RunCommand, real_acl: RealCluster) -> None:
    """A cluster with access control serves the right key; a wrong secret is refused with exit code 4, and not shown."""
    right = Shell(run_command, real_acl, "accessKey=" + ACCESS_KEY, "secretKey=" + SECRET_KEY)
    wrong = Shell(run_command, real_acl, "accessKey=" + ACCESS_KEY, "secretKey=wrong-secret")

    allowed, refused = right.run("topics", "list", "--all"), wrong.run("topics", "list")

    assert allowed.code == Exit.DONE and "TBW102" in allowed.out
    assert refused.code == Exit.NOT_PERMITTED
    assert "wrong-secret" not in refused.err + refused.out and SECRET_KEY not in allowed.err + allowed.out


def test_servers_of_another_kind_are_recognised(
    run_command: RunCommand, real_cluster: RealCluster, real_tls: RealCluster
) -> None:
    """`doctor` tells a broker's port from a name server's, and servers with TLS; these are content with their CA."""

    def found(address: str, *options: str) -> Any:
        words = [word for option in options for word in ("-o", option)]
        return run_command("doctor", "--json", *words, name_server=address).document

    [broker] = found(str(real_cluster.broker.address))["findings"]
    [plain] = found(real_tls.name_server)["findings"]
    until(lambda: found(real_tls.name_server, *TLS)["problems"] == 0, "the broker with TLS reports figures")
    trusted = [each["what"] for each in found(real_tls.name_server, *TLS)["findings"] if each["check"] == "certificate"]
    stranger = found(real_tls.name_server, "useTLS=true")["findings"][0]

    assert broker["what"] == "this is a broker, not a name server"
    assert plain["what"] == "the server speaks TLS" and "useTLS=true" in plain["advice"]
    assert len(trusted) == 2 and all("is trusted" in each for each in trusted)
    assert "certificate was refused" in stranger["what"] and "tlsTrustCertPath" in stranger["advice"]


def set_entries(cluster: RealCluster, user: str, secret: str, entries: Mapping[str, Sequence[str]]) -> None:
    """Give an account of access control 1.0 these entries, instead of those that it had."""
    words = [word for kind in entries if entries[kind] for word in (f"-{kind[0]}", ",".join(entries[kind]))]
    cluster.admin("updateAclConfig", "-c", CLUSTER_NAME, "-a", user, "-s", secret, *words)


def test_the_line_of_doctor_grants_what_lacks(run_command: RunCommand, real_acl: RealCluster) -> None:
    """`doctor` names each permission that a user lacks, and the line of `mqadmin` that grants it.

    For 4.x it names the entry of the account: a line of mqadmin would replace the account's other entries.
    """
    topic, user, secret = "granted", "reader_user", "reader_secret"
    real_acl.create_topic(topic)
    if real_acl.version.startswith("4."):
        set_entries(real_acl, user, secret, {"topic": ["elsewhere=SUB"]})
    else:
        real_acl.admin("createUser", "-c", CLUSTER_NAME, "-u", user, "-p", secret)
    shell = Shell(run_command, real_acl, f"accessKey={user}", f"secretKey={secret}")

    def refused() -> list[Any]:
        findings = shell.run("doctor", "--topic", topic, "--json").document["findings"]
        return [each for each in findings if each["check"] == "reading"]

    granted, entries = list[str](), {"topic": ["elsewhere=SUB"], "group": list[str]()}
    while findings := refused():
        [finding] = findings
        assert "ermission" in finding["what"] and finding["what"] not in granted and secret not in str(finding)
        if finding["command"]:
            program, command, *words = shlex.split(finding["command"])
            assert (program, words[:2]) == ("mqadmin", ["-n", real_acl.name_server])
            real_acl.admin(command, *words[2:])
        else:
            [(entry, kind)] = re.findall(r"add (\S+) to its (topic|group)Perms", finding["advice"])
            entries[kind].append(entry)
            set_entries(real_acl, user, secret, entries)
        granted.append(finding["what"])
        until(lambda: [each["what"] for each in refused()] != granted[-1:], "the permission is granted")

    assert any(f"topic {topic}" in each for each in granted), granted


def test_a_healthy_cluster_has_no_problems(shell: Shell, world: World) -> None:
    """`doctor` finds no problem in a healthy cluster, reads every broker's clock, and leaves no group behind."""
    queue, group = world.make_queue(), world.make_group()
    until(lambda: runtime_info(world) is not None, "the broker reports figures, a second after its start")

    report = shell.document("doctor", "--topic", queue.topic, "--group", group, "--recovery", "1h")
    shell.run("doctor", "--topic", queue.topic, "--group", "never_created")

    levels = {each["check"]: each["level"] for each in report["findings"]}
    assert (report["problems"], levels["broker"], levels["topic"], levels["group"]) == (0, "ok", "ok", "ok")
    assert "never_created" not in [each["group"] for each in shell.document("groups", "list", "--all")["groups"]]


def test_the_uptime_of_a_broker_gives_its_clock(world: World) -> None:
    """A broker reports its start and its uptime in the form that `doctor` reads; together they are its time."""
    until(lambda: runtime_info(world) is not None, "the broker reports figures, a second after its start")

    there_ms = broker_time_ms(runtime_info(world) or {})

    assert there_ms is not None and abs(there_ms - now_ms()) < 5000


def runtime_info(world: World) -> Mapping[str, str] | None:
    """Return the figures of the only broker; None if it does not report them yet."""
    survey = world.cluster.survey
    [info] = survey.fetch_runtime_infos(survey.fetch_brokers()).values()
    return None if isinstance(info, RocketMQError) else info
