"""Test that dead letters are listed, read and replayed; nothing is sent without `--apply`."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker_stub import StubCluster
from pyspark_rocketmq.cli.exits import Exit
from pyspark_rocketmq.cluster.cluster import open_cluster
from pyspark_rocketmq.cluster.settings import ClusterSettings
from pyspark_rocketmq.model import parse_addresses
from pyspark_rocketmq.wire.bodies import SubscriptionGroupConfig
from pyspark_rocketmq.wire.codes import RequestCode
from tests.cli.fixtures import RunCommand

TOPIC, GROUP, OWN = "orders", "billing", "rejected"
DEAD = "%DLQ%billing"
SEND = RequestCode.SEND_MESSAGE_V2
STORED_MS = 1_700_000_000_000


@pytest.fixture
def stub() -> Iterator[StubCluster]:
    """A stub with a group that has two dead letters, and a topic with three letters of Spark's tasks."""
    with StubCluster(1, topics={TOPIC: 1}) as made:
        cluster = open_cluster(ClusterSettings(parse_addresses(made.name_server)))
        cluster.admin.create_group(SubscriptionGroupConfig(group_name="healthy"))
        for body in (b"one", b"two"):
            put = made.put(TOPIC, body, keys="k")
            place = made.messages(TOPIC)[put.offset].physical_offset
            cluster.messages.send_back(GROUP, put.queue, place, delay_level=-1)
        for number, cause in enumerate(("no id", "timeout", "no id")):
            properties = {"CAUSE": cause, "ORIGIN_TOPIC": TOPIC}
            at = STORED_MS + 1000 * number
            made.put(OWN, b'{"n": %d}' % number, properties=properties, queue_id=0, store_timestamp=at)
        yield made


@pytest.fixture
def run(stub: StubCluster, run_command: RunCommand) -> RunCommand:
    """A function that runs a command on the stub."""
    return lambda *words: run_command(*words, name_server=stub.name_server)


def bodies(stub: StubCluster, topic: str = TOPIC) -> list[bytes]:
    """Return the bodies of a topic's messages."""
    return [each.body for each in stub.messages(topic)]


# --- list, read ------------------------------------------------------------------------------------------------------


def test_letters_of_a_group_are_listed(run: RunCommand, stub: StubCluster) -> None:
    """A letter of a group has its place, its message's id and topic, and the number of deliveries, but no cause."""
    found = run("dlq", "list", GROUP, "--json").document

    first = found["letters"][0]
    origin = stub.messages(TOPIC)[0]
    assert (found["topic"], found["letterCount"]) == (DEAD, 2)
    assert (first["broker"], first["queueId"], first["offset"]) == ("broker-a", 0, 0)
    assert (first["origin"], first["messageId"]) == (TOPIC, origin.properties["UNIQ_KEY"])
    assert (first["cause"], first["count"]) == (None, 1)
    assert first["stored"]["ms"] == stub.messages(DEAD)[0].store_timestamp


def test_letters_of_tasks_are_listed_with_their_cause(run: RunCommand) -> None:
    """A letter of a Spark task has the cause and the topic that the task wrote into it."""
    found = run("dlq", "list", OWN, "--json").document

    assert [(each["origin"], each["cause"]) for each in found["letters"]] == [
        (TOPIC, "no id"),
        (TOPIC, "timeout"),
        (TOPIC, "no id"),
    ]


@pytest.mark.parametrize(
    ("words", "offsets", "count"),
    [
        (["-n", "2"], [1, 2], 3),
        (["--cause", "ID"], [0, 2], 2),
        (["--cause", "id", "-n", "1"], [2], 2),
        (["--since", str(STORED_MS + 1000)], [1, 2], 2),
        (["--until", str(STORED_MS + 1000)], [0], 1),
        (["--queue", "broker-a/1"], [], 0),
    ],
    ids=str,
)
def test_letters_are_filtered(run: RunCommand, words: list[str], offsets: list[int], count: int) -> None:
    """The last letters of the wanted queue, cause and time are listed; the others of these are counted."""
    found = run("dlq", "list", OWN, *words, "--json").document

    assert ([each["offset"] for each in found["letters"]], found["letterCount"]) == (offsets, count)


def test_letters_are_read_with_their_bodies(run: RunCommand) -> None:
    """`dlq read` has the message of each letter, with the body in the wanted format."""
    found = run("dlq", "read", OWN, "-n", "1", "--body", "json", "--json").document
    shown = run("dlq", "read", OWN, "-n", "1").out

    [one] = found["letters"]
    assert (one["letter"]["cause"], one["message"]["body"]) == ("no id", {"n": 2})
    assert "from orders, cause: no id" in shown and '  {"n": 2}' in shown
    assert "2 older letters are not shown" in shown


def test_a_table_shows_each_letter(run: RunCommand) -> None:
    """People see a row for each letter, and `unknown` for an origin that is not known."""
    shown = run("dlq", "list", GROUP).out

    assert shown.count("broker-a/0 @ ") == 2 and TOPIC in shown
    assert run("dlq", "list", TOPIC).out.count("unknown") == 2


@pytest.mark.parametrize(
    ("name", "code", "said"),
    [
        ("healthy", Exit.DONE, "no dead letters in %DLQ%healthy"),
        ("nobody", Exit.NOT_FOUND, "neither a group nor a topic"),
        ("topic:nowhere", Exit.NOT_FOUND, "nowhere"),
    ],
)
def test_no_letters(run: RunCommand, name: str, code: Exit, said: str) -> None:
    """A group without dead letters is no error; a name that nothing has is one."""
    ran = run("dlq", "list", name)

    assert ran.code == code and said in ran.out + ran.err


def test_names_of_two_meanings_are_refused(run: RunCommand, stub: StubCluster) -> None:
    """If a topic has the name of a group with dead letters, the error gives a name for each of the two."""
    stub.put(GROUP, b"x", properties={"CAUSE": "c"})

    ran = run("dlq", "list", GROUP)

    assert ran.code == Exit.USAGE and "topic:billing" in ran.err and DEAD in ran.err
    assert run("dlq", "list", DEAD, "--json").document["letterCount"] == 2
    assert run("dlq", "list", "topic:billing", "--json").document["letterCount"] == 1


# --- replay ----------------------------------------------------------------------------------------------------------


def test_nothing_is_sent_without_apply(run: RunCommand, stub: StubCluster, tmp_path: Path) -> None:
    """`dlq replay` shows how many letters go where, and exits with 6; neither topics nor files change."""
    ran = run("dlq", "replay", GROUP, "--json")

    assert ran.code == Exit.NEEDS_APPLY
    assert (ran.document["applied"], ran.document["letterCount"]) == (False, 2)
    assert ran.document["targets"] == [{"topic": TOPIC, "letters": 2}]
    assert bodies(stub) == [b"one", b"two"]
    assert not (tmp_path / "state").exists()


def test_letters_are_sent_once(run: RunCommand, stub: StubCluster, tmp_path: Path) -> None:
    """With `--apply` letters are sent and stay; the same command again goes on with the same file by itself."""
    first = run("dlq", "replay", GROUP, "--apply")
    again = run("dlq", "replay", GROUP, "--apply", "--json")

    [audit] = (tmp_path / "state").rglob("*.jsonl")
    assert first.code == again.code == Exit.DONE
    assert str(audit) in first.err and "all letters stay in %DLQ%billing" in first.out
    assert bodies(stub) == [b"one", b"two", b"one", b"two"] and len(bodies(stub, DEAD)) == 2
    assert (again.document["letterCount"], again.document["sentBefore"]) == (0, 2)
    assert again.document["auditFile"] == str(audit)


def test_the_command_that_goes_on_has_any_cause(run: RunCommand, stub: StubCluster, run_command: RunCommand) -> None:
    """A cause that begins like an option is quoted so that the printed command takes it for a value."""
    stub.put(OWN, b"x", properties={"CAUSE": "--bad", "ORIGIN_TOPIC": TOPIC})
    stub.faults.answer(14, on=SEND, times=None)
    ran = run(
        "dlq", "replay", OWN, "--apply", "--audit", "mine.jsonl", "--cause=--bad", "-o", "mqClientApiTimeout=50ms"
    )
    stub.faults.clear()

    [command] = [line.partition("go on with: ")[2] for line in ran.err.splitlines() if "go on with" in line]
    done = run_command(*shlex.split(command)[1:], "-o", "mqClientApiTimeout=10s", "--json")
    assert (done.code, done.document["letterCount"]) == (Exit.DONE, 1), done.err


def test_without_a_home_a_file_must_be_named(run: RunCommand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process without a home directory, as in some containers, has no default for the audit file."""

    def home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setattr(Path, "home", home)

    ran = run("dlq", "replay", GROUP)

    assert ran.code == Exit.USAGE and "no default" in ran.err
    assert run("dlq", "replay", GROUP, "--audit", str(tmp_path / "a")).code == Exit.NEEDS_APPLY


def test_targets_have_files_of_their_own(run: RunCommand, stub: StubCluster, tmp_path: Path) -> None:
    """A replay to a topic of choice does not count as one to the origins."""
    stub.put("trial", b"exists")
    run("dlq", "replay", GROUP, "--apply", "--to", "trial")
    home = run("dlq", "replay", GROUP, "--apply", "--json").document

    assert sorted(bodies(stub, "trial")) == [b"exists", b"one", b"two"] and home["letterCount"] == 2
    assert len(list((tmp_path / "state").rglob("*.jsonl"))) == 2


def test_a_letter_that_cannot_be_sent_fails_the_command(run: RunCommand, stub: StubCluster) -> None:
    """A letter without an origin is named with the reason; the others are sent, and the exit code is 1."""
    stub.put(DEAD, b"no origin", queue_id=0)

    ran = run("dlq", "replay", GROUP, "--apply")
    again = run("dlq", "replay", GROUP, "--apply", "--json")

    assert ran.code == again.code == Exit.FAILED
    assert "broker-a/0 @ 2" in ran.out and "--to TOPIC" in ran.out
    [failure] = again.document["failures"]
    assert (failure["offset"], failure["code"], failure["target"]) == (2, "DECODE", None)


def test_letters_that_are_gone_are_told(run: RunCommand, stub: StubCluster) -> None:
    """If retention takes a letter that an earlier run could not send, the exit code is 7."""
    stub.put(OWN, b"no origin", queue_id=1)
    run("dlq", "replay", OWN, "--apply")
    stub.expire(OWN, 1, 1)

    ran = run("dlq", "replay", OWN, "--apply", "--json")

    assert ran.code == Exit.DATA_GONE
    assert ran.document["gone"] == [{"broker": "broker-a", "queueId": 1, "start": 0, "end": 1}]
    assert "dead letters from 0 to 1 of broker-a/1 are gone" in ran.err


def test_a_replay_that_ends_says_how_to_go_on(run: RunCommand, stub: StubCluster, run_command: RunCommand) -> None:
    """If the brokers fail, a line has the command that goes on, with the same letters, file and cluster."""
    filters = ("--cause", "no id", "--queue", "broker-a/0", "--since", "2023-01-01T00:00:00Z", "--rate", "100")
    stub.faults.drop_reply(on=SEND, times=None)
    ran = run("dlq", "replay", OWN, "--apply", "--audit", "mine.jsonl", *filters, "-o", "mqClientApiTimeout=500ms")
    stub.faults.clear()
    stored = len(bodies(stub))

    assert ran.code == Exit.UNREACHABLE
    [command] = [line.partition("go on with: ")[2] for line in ran.err.splitlines() if "go on with" in line]
    program, *words = shlex.split(command)
    assert program == "pyspark-rocketmq"
    done = run_command(*words, "-o", "mqClientApiTimeout=10s", "--json")
    assert done.code == Exit.DONE, done.err
    assert (done.document["letterCount"], done.document["unwanted"]) == (2, 1)
    assert len(bodies(stub)) == stored + 2 and Path("mine.jsonl").exists()


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["list", GROUP, "-n", "0"], "at least 1"),
        (["list", GROUP, "--queue", "broker-a/9"], "queues are: broker-a/0"),
        (["list", GROUP, "--since", "yesterday"], "not a time"),
        (["replay", GROUP, "--rate", "-1"], "not above 0"),
        (["replay", GROUP, "--to", DEAD], "lie in this topic"),
        (["replay", GROUP, "--audit", "/"], "cannot be used"),
    ],
    ids=str,
)
def test_wrong_usage_is_refused(run: RunCommand, words: list[str], complaint: str) -> None:
    """Values that make no sense are usage errors that say what to do."""
    ran = run("dlq", *words)

    assert (ran.code, ran.out) == (Exit.USAGE, "") and complaint in ran.err
