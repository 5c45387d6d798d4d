"""Test the commands that read messages: the last and first ones, those that come, and those with a key, id or time."""

from __future__ import annotations

import io
import json
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from broker_stub import Settings, StubCluster
from pyspark_rocketmq.broker_errors import NoPermission
from pyspark_rocketmq.cli.commands.tail import Follower
from pyspark_rocketmq.cli.connection import Wanted
from pyspark_rocketmq.cli.exits import Exit
from pyspark_rocketmq.cli.screen import Screen
from pyspark_rocketmq.cli.session import Session
from pyspark_rocketmq.model import MessageQueue
from pyspark_rocketmq.pull.settings import Subscription
from pyspark_rocketmq.wire.codes import RequestCode
from tests.cli.fixtures import PROGRAM, ROOT, SECONDS, TOPIC, RunCommand, environment

STORED_MS = 1_700_000_000_000


@pytest.fixture
def stub() -> Iterator[StubCluster]:
    """A stub with one broker and the topic `events`; each of its messages is stored a second after the one before."""
    with StubCluster(topics={"events": 2}, settings=Settings(property_filter=True)) as made:
        for number in range(12):
            made.put(
                "events",
                b'{"n": %d}' % number,
                tags="even" if number % 2 == 0 else "odd",
                keys=f"k{number} all",
                properties={"n": str(number)},
                queue_id=number % 2,
                store_timestamp=STORED_MS + 1000 * number,
            )
        yield made


@pytest.fixture
def run(stub: StubCluster, run_command: RunCommand) -> RunCommand:
    """A function that runs a command on the stub."""
    return lambda *words: run_command(*words, name_server=stub.name_server)


def bodies(document: Any) -> list[str]:
    """Return the bodies of the messages in a document."""
    return [each["body"] for each in document["messages"]]


def show_words(value: object) -> str:
    """Return the words of a command line as the id of a test."""
    return " ".join(map(str, value)) if isinstance(value, list | range) else ""


def numbered(*numbers: int) -> list[str]:
    """Return the bodies of messages by number."""
    return [f'{{"n": {number}}}' for number in numbers]


@pytest.mark.parametrize(
    ("words", "numbers"),
    [
        ([], range(2, 12)),
        (["-n", "3"], [9, 10, 11]),
        (["-n", "100"], range(12)),
        (["-n", "2", "--queue", "broker-a/1"], [9, 11]),
        (["-n", "3", "--from", "earliest"], [0, 1, 2]),
        (["-n", "2", "--from", str(STORED_MS + 4500)], [5, 6]),
        (["-n", "2", "--from", "latest"], []),
        (["-n", "2", "--queue", "broker-a/0", "--offset", "4"], [8, 10]),
        (["-n", "2", "--queue", "broker-a/0", "--offset", "99"], []),
    ],
    ids=show_words,
)
def test_peek_shows_the_last_or_first_messages(run: RunCommand, words: list[str], numbers: list[int]) -> None:
    """`peek` shows messages of all queues in the order of their store times, from the place that is asked for."""
    assert bodies(run("peek", "events", *words, "--json").document) == numbered(*numbers)


def test_peeking_at_an_offset_that_is_gone_is_told(run: RunCommand, stub: StubCluster) -> None:
    """If messages from `--offset` on are deleted, the first that are left are shown, and the exit code is 7."""
    stub.expire("events", 0, 3)

    ran = run("peek", "events", "-n", "1", "--queue", "broker-a/0", "--offset", "1", "--json")
    shown = run("peek", "events", "-n", "1", "--queue", "broker-a/0", "--offset", "1").out

    assert (ran.code, bodies(ran.document), ran.document["gone"]) == (Exit.DATA_GONE, numbered(6), 2)
    assert ran.document["warnings"] == ["messages from 1 to 3 of events/broker-a/0 are gone"]
    assert "messages from 1 to 3 of events/broker-a/0 are gone" in shown


@pytest.mark.parametrize("words", [["peek", "events"], ["find", "events", "--since", "earliest"]], ids=show_words)
def test_a_broker_that_answers_no_pull_is_waited_for_as_the_options_say(
    run: RunCommand, stub: StubCluster, words: list[str]
) -> None:
    """A broker that answers other requests and no pull ends the command after twice the timeout of requests."""
    stub.faults.drop_reply(on=RequestCode.PULL_MESSAGE, times=None)
    began = time.monotonic()

    ran = run(*words, "-o", "mqClientApiTimeout=200")

    assert (ran.code, ran.out) == (Exit.UNREACHABLE, "") and "broker-a" in ran.err
    assert time.monotonic() - began < 2


def test_peeking_behind_the_end_is_told(run: RunCommand) -> None:
    """An offset after the end is no mistake, but no reason to show nothing without a word either."""
    ran = run("peek", "events", "--queue", "broker-a/0", "--offset", "99")

    assert ran.code == Exit.DONE and "events/broker-a/0 ends at 6: nothing is stored at 99 yet" in ran.out


@pytest.mark.parametrize(
    "words",
    [
        ["peek", "events"],
        ["tail", "events", "--from", "earliest", "-n", "1"],
        ["find", "events", "--since", "earliest"],
    ],
    ids=lambda words: words[0],
)
def test_messages_are_not_read_under_the_users_group(run: RunCommand, words: list[str]) -> None:
    """A group of the options is not pulled with: brokers would create it, or take a pending reset from its members."""
    ran = run(*words, "-o", "consumerGroup=billing", "--json")

    assert ran.code == Exit.DONE and "events" in ran.out
    assert "billing" not in run("groups", "list", "--json").out


def test_a_message_has_all_its_parts(run: RunCommand) -> None:
    """A message has its place, id, tags, keys, times, properties and body."""
    [row] = run("peek", "events", "-n", "1", "--json").document["messages"]

    assert (row["topic"], row["broker"], row["queueId"], row["offset"]) == ("events", "broker-a", 1, 5)
    assert (row["tags"], row["keys"], row["bytes"]) == ("odd", ["k11", "all"], 9)
    assert row["stored"] == {"ms": STORED_MS + 11_000, "iso": "2023-11-14T22:13:31.000Z"}
    assert row["properties"]["n"] == "11" and row["messageId"] == row["properties"]["UNIQ_KEY"]


@pytest.mark.parametrize(
    ("stored", "form", "expected"),
    [
        (b"text", None, ("text", "text")),
        (b"\xff\x00", None, ("ff00", "hex")),
        (b"\xff\x00", "text", ("ff00", "hex")),
        (b"text", "hex", ("74657874", "hex")),
        (b'{"a": [1]}', "json", ({"a": [1]}, "json")),
        (b"text", "json", ("text", "text")),
        (b"text", "none", (None, "none")),
    ],
)
def test_bodies_have_the_wanted_format(
    run: RunCommand, stub: StubCluster, stored: bytes, form: str | None, expected: tuple[object, str]
) -> None:
    """A body is text, JSON or hexadecimal digits; one that is not what was asked for has the next possible format."""
    stub.put("bodies", stored)

    [row] = run("peek", "bodies", "--json", *(("--body", form) if form else ())).document["messages"]

    assert (row["body"], row["bodyFormat"]) == expected


def test_bodies_cannot_write_to_the_terminal(run: RunCommand, stub: StubCluster) -> None:
    """Control characters of a body are shown as escapes; its lines stay lines."""
    stub.put("bodies", b"one\ntwo \x1b[31m red")

    shown = run("peek", "bodies").out

    assert "  one\n  two \\x1b[31m red\n" in shown


def test_a_long_body_is_cut_for_people_only(run: RunCommand, stub: StubCluster) -> None:
    """People see the beginning of a long body and how much is left out; programs get all of it."""
    stub.put("bodies", b"x" * 10_000)

    assert "6000 more characters" in run("peek", "bodies").out
    assert bodies(run("peek", "bodies", "--json").document) == ["x" * 10_000]


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["peek", "events", "--queue", "broker-a/9"], "queues are: broker-a/0, broker-a/1"),
        (["peek", "events", "--offset", "3"], "needs --queue"),
        (["peek", "events", "-n", "0"], "at least 1"),
        (["peek", "events", "-n", "10001"], "at most 10000"),
        (["peek", "events", "--queue", "broker-a/0", "--offset", "-1"], "at least 0"),
        (["peek", "events", "--from", "group:billing"], "give earliest, latest or a time"),
        (["tail", "events", "--from", "group:billing"], "give earliest, latest or a time"),
        (["find", "events", "--since", "0", "--until", "group:billing"], "give earliest, latest or a time"),
        (["find", "events", "--since", "0", "--tags", ""], "names no tag"),
        (["tail", "events", "-n", "0"], "at least 1"),
        (["tail", "events", "--tags", "a", "--sql", "n > 1"], "not together with --sql"),
        (["find", "events"], "exactly one of --key, --id and --since"),
        (["find", "events", "--key", "k", "--id", "i"], "exactly one of --key, --id and --since"),
        (["find", "events", "--key", "k", "--tags", "a"], "go with --since only"),
        (["find", "events", "--key", " "], "is blank"),
        (["find", "events", "--id", ""], "is blank"),
        (["find", "events", "--since", "-1h", "--limit", "0"], "at least 1"),
    ],
    ids=show_words,
)
def test_contradictions_are_refused(run: RunCommand, words: list[str], complaint: str) -> None:
    """Parameters that do not fit together, and numbers out of range, are usage errors that say what to do."""
    ran = run(*words)

    assert ran.code == Exit.USAGE and complaint in ran.err and ran.out == ""


@pytest.mark.parametrize(
    ("words", "numbers"),
    [
        (["--tags", "odd"], [1, 3, 5, 7, 9, 11]),
        (["--tags", "odd || even"], range(12)),
        (["--sql", "n >= 9"], [9, 10, 11]),
    ],
    ids=show_words,
)
def test_tail_filters(run: RunCommand, words: list[str], numbers: list[int]) -> None:
    """`tail` prints only messages that the filter wants, and ends after the number that is asked for."""
    ran = run("tail", "events", "--from", "earliest", "-n", str(len(numbers)), *words, "--json")

    lines = [json.loads(line)["body"] for line in ran.out.splitlines()]
    assert sorted(lines) == sorted(numbered(*numbers))


@pytest.mark.parametrize("words", [["tail", "events"], ["find", "events", "--since", "0"]])
def test_an_illegal_condition_is_refused(run: RunCommand, words: list[str]) -> None:
    """A condition that brokers cannot read is refused: they would send all messages, without a word."""
    ran = run(*words, "--sql", "n >")

    assert (ran.code, ran.out) == (Exit.USAGE, "") and "sqlFilter = 'n >'" in ran.err


def test_tags_are_compared_as_text(run: RunCommand, stub: StubCluster) -> None:
    """A message whose tag only has the hash of a wanted one, as brokers compare them, is not shown."""
    for tag in ("BB", "Aa", "BB", "Aa"):
        stub.put("hashed", tag.encode(), tags=tag)

    found = run("find", "hashed", "--since", "0", "--tags", "Aa", "--json").document

    assert bodies(found) == ["Aa", "Aa"]


def test_tail_prints_what_comes(stub: StubCluster) -> None:
    """`tail` prints messages that are stored after it started, also those of new queues, until Ctrl-C."""
    command = [*PROGRAM, "tail", "events", "--json", "--from", str(STORED_MS + 11_000)]
    with subprocess.Popen(
        command, cwd=ROOT, env=environment(stub), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        first = json.loads(process.stdout.readline())["body"]
        stub.put("events", b"later", queue_id=0)
        second = json.loads(process.stdout.readline())["body"]
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=SECONDS)

    assert [first, second] == [*numbered(11), "later"]
    assert process.returncode == Exit.INTERRUPTED


class Tail:
    """Follows a topic in this process; instead of a pause, one of the given steps is taken, and then it fails."""

    def __init__(self, stub: StubCluster, topic: str, positions: dict[MessageQueue, int], *options: str) -> None:
        self._said = io.StringIO()
        self._steps: list[Callable[[], object]] = []
        session = Session(Wanted(stub.name_server, None, options), Screen(err=self._said))
        session.sleep = self._take_step  # type: ignore[method-assign]
        self._messages = Follower(session, topic, positions, Subscription()).follow()

    def _take_step(self, seconds: float) -> None:
        self._steps.pop(0)()

    def read(self, *steps: Callable[[], object]) -> tuple[int, bytes]:
        """Return offset and body of the next message; a pause before it takes the next step."""
        self._steps = list(steps)
        message = next(self._messages)
        assert not self._steps, "it paused less often than was expected"
        return message.offset, message.body

    @property
    def said(self) -> list[str]:
        """The lines on stderr."""
        return self._said.getvalue().splitlines()


Q = MessageQueue("single", "broker-a", 0)


@pytest.fixture
def pair() -> Iterator[StubCluster]:
    """A stub of two brokers, each with a replica, with one queue of the topic `single` at each."""
    with StubCluster(2, 1, topics={"single": 1}) as made:
        for broker in ("broker-a", "broker-b"):
            for number in range(3):
                made.put("single", b"%d" % number, queue_id=0, broker=broker)
        yield made


def nothing() -> None:
    """Let time pass."""


def test_messages_that_are_gone_are_told(pair: StubCluster) -> None:
    """If retention takes messages before `tail` reads them, it tells which, and goes on."""
    pair.expire("single", 0, 2)

    tail = Tail(pair, "single", {Q: 0, Q._replace(broker_name="broker-b"): 3})

    assert tail.read() == (2, b"2")
    assert tail.said == ["messages from 0 to 2 of single/broker-a/0 are gone"]


def test_a_queue_that_was_made_again_is_read_from_its_beginning(pair: StubCluster) -> None:
    """If a topic was deleted and created again, no message of the new one is left out."""
    tail = Tail(pair, "single", {Q: 700, Q._replace(broker_name="broker-b"): 3})

    assert tail.read() == (0, b"0")
    assert tail.said == ["single/broker-a/0 ends at 3 now, before 700: it was made again, and is read from 0"]


def test_a_replica_that_lags_moves_no_position_back(pair: StubCluster) -> None:
    """While the master is away, its replica may end earlier; messages that were shown are not shown again."""
    other = Q._replace(broker_name="broker-b")
    tail = Tail(pair, "single", {Q: 3, other: 3})
    pair.faults.slave_lag(2, "broker-a")
    pair.faults.broker_down("broker-a", 0)

    def bring_back() -> None:
        pair.faults.slave_lag(0, "broker-a")
        pair.faults.broker_up("broker-a", 0)
        pair.put("single", b"new", queue_id=0, broker="broker-a")

    assert tail.read(nothing, nothing, bring_back) == (3, b"new")
    assert not any("made again" in line for line in tail.said)


def test_a_failure_does_not_end_the_tail(pair: StubCluster) -> None:
    """A server that fails for a while is told once, and read on when it answers again."""
    tail = Tail(pair, "single", {Q: 3, Q._replace(broker_name="broker-b"): 3})
    failing = pair.faults.cut_reply(on=RequestCode.GET_TOPIC_STATS_INFO, at="broker-a", times=None)

    def mend() -> None:
        pair.faults.clear()
        pair.put("single", b"new", queue_id=0, broker="broker-a")

    assert tail.read(nothing, nothing, mend) == (3, b"new")
    assert failing.fired > 2 and len(tail.said) == 1
    assert "[CONNECTION_LOST]" in tail.said[0] and tail.said[0].endswith("; going on")


def test_a_failure_is_told_once_while_messages_come(pair: StubCluster) -> None:
    """The text of a failure has the number of messages that wait; it is told once, however many come meanwhile."""
    other = Q._replace(broker_name="broker-b")
    tail = Tail(pair, "single", {Q: 3, other: 3}, "mqClientApiTimeout=100")
    failing = pair.faults.cut_reply(on=RequestCode.PULL_MESSAGE, at="broker-a", times=None)

    def store() -> None:
        pair.put("single", b"unread", queue_id=0, broker="broker-a")

    def mend() -> None:
        pair.put("single", b"new", queue_id=0, broker="broker-b")

    assert tail.read(store, store, store, mend) == (3, b"new")
    assert failing.fired > 2 and len(tail.said) == 1


def test_a_broker_that_fails_holds_up_no_other(pair: StubCluster) -> None:
    """Messages of the other brokers are printed while one does not answer."""
    tail = Tail(pair, "single", {Q: 3, Q._replace(broker_name="broker-b"): 1})
    pair.faults.cut_reply(at="broker-a", times=None)

    assert tail.read() == (1, b"1")


def test_no_message_is_repeated_after_a_failure(pair: StubCluster) -> None:
    """If reading fails in the middle, it begins again behind the messages that were printed."""
    tail = Tail(pair, "single", {Q: 0, Q._replace(broker_name="broker-b"): 0})
    pair.faults.cut_reply(on=RequestCode.PULL_MESSAGE, at="broker-b", times=None)

    before = [tail.read() for _ in range(3)]
    after = [tail.read(pair.faults.clear), tail.read(), tail.read()]
    pair.put("single", b"new", queue_id=0, broker="broker-a")

    assert before == after == [(0, b"0"), (1, b"1"), (2, b"2")]
    assert tail.read() == (3, b"new")


def test_a_refusal_ends_the_tail(pair: StubCluster) -> None:
    """An error that waiting does not mend ends the command."""
    tail = Tail(pair, "single", {Q: 0, Q._replace(broker_name="broker-b"): 0})
    pair.faults.answer(16, on=RequestCode.PULL_MESSAGE, times=None)

    with pytest.raises(NoPermission):
        tail.read()


def test_queues_that_leave_the_route_are_told(pair: StubCluster) -> None:
    """Queues of a broker that is not registered any more are not followed; one line says so."""
    tail = Tail(pair, "single", {Q: 3, Q._replace(broker_name="broker-b"): 3})
    pair.faults.broker_down("broker-b")

    def store() -> None:
        pair.put("single", b"new", queue_id=0, broker="broker-a")

    assert tail.read(nothing, nothing, store) == (3, b"new")
    assert [line for line in tail.said if "left the route" in line] == [
        "1 queue of broker-b left the route, to be read on when the route has it again"
    ]


@pytest.mark.parametrize(("key", "numbers"), [("k7", [7]), ("all", range(12))])
def test_messages_are_found_by_key(run: RunCommand, key: str, numbers: list[int]) -> None:
    """`find --key` returns every message with the key, in the order of store times."""
    found = run("find", "events", "--key", key, "--json").document

    assert bodies(found) == numbered(*numbers) and not found["isCut"]


def test_the_last_messages_with_a_key_are_found(run: RunCommand) -> None:
    """Brokers return the last messages with a key, so that `--limit` leaves out the first ones, and says so."""
    found = run("find", "events", "--key", "all", "--limit", "2", "--json").document

    assert (bodies(found), found["isCut"]) == (numbered(10, 11), True)


def test_a_broker_returns_64_messages_with_a_key(run: RunCommand, stub: StubCluster) -> None:
    """If a broker may have more messages with a key than it may return, the result says so."""
    for number in range(100):
        stub.put("same", b"%d" % number, keys="one", queue_id=0)

    found = run("find", "same", "--key", "one", "--limit", "200", "--json").document
    shown = run("find", "same", "--key", "one", "--limit", "200").out

    assert (bodies(found), found["isCut"]) == ([str(number) for number in range(36, 100)], True)
    [warning] = found["warnings"]
    assert "only the last 64 messages with a key" in warning and warning in shown
    assert "--limit shows more" not in shown


def test_a_message_is_found_by_either_id(run: RunCommand, stub: StubCluster) -> None:
    """`find --id` takes the unique id of a producer and the id that a broker gave."""
    record = stub.messages("events", 0)[2]
    [expected] = numbered(4)

    unique = run("find", "events", "--id", record.properties["UNIQ_KEY"], "--json").document
    by_place = run("find", "events", "--id", record.offset_message_id, "--json").document

    assert bodies(unique) == bodies(by_place) == [expected]
    assert (by_place["messages"][0]["queueId"], by_place["messages"][0]["broker"]) == (0, "broker-a")


def test_ids_with_other_addresses_are_not_followed(run: RunCommand, stub: StubCluster) -> None:
    """An id that names an address of no broker of the topic is not found; nothing connects to that address."""
    elsewhere = stub.messages("events", 0)[2].offset_message_id.replace("7F000001", "C0000201")

    ran = run("find", "events", "--id", elsewhere)

    assert ran.code == Exit.NOT_FOUND and "[NOT_FOUND]" in ran.err


def test_messages_are_found_by_time(run: RunCommand) -> None:
    """`find --since --until` returns the messages stored in a half-open span, and says if it left some out."""
    span = ["--since", str(STORED_MS + 3000), "--until", str(STORED_MS + 8000)]

    everything = run("find", "events", *span, "--json").document
    some = run("find", "events", *span, "--tags", "odd", "--limit", "2", "--json").document
    shown = run("find", "events", *span, "--limit", "1").out

    assert (bodies(everything), everything["isCut"]) == (numbered(3, 4, 5, 6, 7), False)
    assert (bodies(some), some["isCut"]) == (numbered(3, 5), True)
    assert "there may be more; --limit shows more" in shown


def test_the_first_messages_since_a_time_are_found(run: RunCommand, stub: StubCluster) -> None:
    """With `--limit` the messages that were stored first are shown, whichever queue answers first."""
    for number in range(100):
        stub.put("late", b"late", queue_id=0, store_timestamp=STORED_MS + 1000 + number)
    for number in range(5):
        stub.put("late", b"early %d" % number, queue_id=1, store_timestamp=STORED_MS + number)

    found = run("find", "late", "--since", "0", "--limit", "3", "--json").document

    assert (bodies(found), found["isCut"]) == (["early 0", "early 1", "early 2"], True)


@pytest.mark.parametrize("words", [["--key", "nothing"], ["--id", "nothing"], ["--since", "2100-01-01T00:00:00Z"]])
def test_nothing_found_is_not_found(run: RunCommand, words: list[str]) -> None:
    """If no message fits, the exit code is 3, and the error says what was looked for."""
    ran = run("find", "events", *words)

    assert ran.code == Exit.NOT_FOUND and words[1] in ran.err


def test_nobodys_position_moves(cli_stub: StubCluster, on_stub: RunCommand) -> None:
    """Reading messages commits nothing and registers no member."""
    before = cli_stub.offsets("TOOLS_CONSUMER"), cli_stub.groups()

    on_stub("peek", TOPIC)
    on_stub("tail", TOPIC, "--from", "earliest", "-n", "3")
    on_stub("find", TOPIC, "--since", "-1h")

    assert (cli_stub.offsets("TOOLS_CONSUMER"), cli_stub.groups()) == before == ({}, {})
