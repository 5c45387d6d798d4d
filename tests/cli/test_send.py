"""Test the command `send`: bodies, files and lines of JSON, where messages land, failures and Ctrl-C."""

from __future__ import annotations

import base64
import json
import random
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import jsonschema
import pytest

from broker_stub import Settings, StubCluster
from pyspark_rocketmq.cli.drafts import LineReader
from pyspark_rocketmq.cli.exits import Exit
from pyspark_rocketmq.wire.codes import RequestCode, ResponseCode
from tests.cli.fixtures import PROGRAM, ROOT, SECONDS, Ran, RunCommand, environment
from tests.flows.world import until

TOPIC = "drafts"


@pytest.fixture
def stub() -> Iterator[StubCluster]:
    """A stub of one broker with an empty topic of two queues."""
    with StubCluster(topics={TOPIC: 2, "others": 1}) as made:
        yield made


@pytest.fixture
def send(stub: StubCluster, run_command: RunCommand) -> RunCommand:
    """A function that runs `send` to the topic."""
    return lambda *words: run_command("send", TOPIC, *words, name_server=stub.name_server)


@pytest.fixture
def send_lines(send: RunCommand, tmp_path: Path) -> Callable[..., Ran]:
    """A function that runs `send` with lines, each of them bytes or a JSON value."""

    def run(lines: list[Any], *words: str) -> Ran:
        given = [line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines]
        (tmp_path / "lines.jsonl").write_bytes(b"\n".join(given))
        return send("--lines", "lines.jsonl", *words)

    return run


def landed(ran: Ran) -> list[Any]:
    """Return the documents that `--json` printed, after checks."""
    assert (ran.code, ran.err) == (Exit.DONE, "")
    return [json.loads(line) for line in ran.out.splitlines()]


def bodies(stub: StubCluster, topic: str = TOPIC) -> list[bytes]:
    """Return the bodies of the stored messages by queue and offset."""
    return [record.unpacked_body() for record in stub.messages(topic)]


def test_messages_land_where_it_says(stub: StubCluster, send: RunCommand) -> None:
    """Each message has its tag, keys and properties, at the queue and offset and with the id that are printed."""
    words = ["one", "två", "--tags", "paid", "--key", "a", "--key", "b", "--property", "shop=Bergen"]
    documents = landed(send(*words, "--json"))
    stored = {(each.queue_id, each.queue_offset): each for each in stub.messages(TOPIC)}

    found = [stored[each["queueId"], each["offset"]] for each in documents]
    assert [each.body.decode() for each in found] == ["one", "två"]
    assert [each.properties["UNIQ_KEY"] for each in found] == [each["messageId"] for each in documents]
    assert {(each["broker"], each["status"], each["deliverAt"], each["delayLevel"]) for each in documents} == {
        ("broker-a", "SUCCESS", None, None)
    }
    for each in found:
        assert [each.properties[name] for name in ("TAGS", "KEYS", "shop")] == ["paid", "a b", "Bergen"]


def test_people_see_places_and_a_count(send: RunCommand) -> None:
    """Without `--json` each message is one line, and the last line counts them."""
    first, second, total = send("one", "two", "--queue", "broker-a/1").out.splitlines()

    assert first.startswith("drafts/broker-a/1 @ 0 · id ") and second.startswith("drafts/broker-a/1 @ 1 · id ")
    assert total == "2 messages landed, in 1 queue"


@pytest.mark.parametrize(
    ("words", "body"),
    [
        (["/wA=", "--body-format", "base64"], b"\xff\x00"),
        (["ff00", "--body-format", "hex"], b"\xff\x00"),
        (['{"a": 1}', "--body-format", "json"], b'{"a": 1}'),
        (["--", "-2h"], b"-2h"),
        (["-2h"], b"-2h"),
        (["\u22122h"], "\u22122h".encode()),
        (["--file", "body.bin"], b"\x00line\n\xff"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_bodies_are_sent_byte_by_byte(
    stub: StubCluster, send: RunCommand, tmp_path: Path, words: list[str], body: bytes
) -> None:
    """A body is text, base64, hexadecimal, JSON or a file's content, and is stored unchanged."""
    (tmp_path / "body.bin").write_bytes(b"\x00line\n\xff")

    assert send(*words).code == Exit.DONE
    assert bodies(stub) == [body]


@pytest.mark.parametrize(
    "body",
    [
        "12345678901234567.89",
        '{"p": 1.10, "z": -0, "e": 1E5,"b":[ true ]}',
        '"\\u00e9"',
        '[{"body": "\\ud800"}]',
        "1e-400",
    ],
)
def test_a_body_of_json_is_sent_as_it_is_written(stub: StubCluster, send_lines: Callable[..., Ran], body: str) -> None:
    """JSON as a body is not written anew: digits, blanks and escapes stay; a byte order mark and CRLF do no harm."""
    line = f'{{ "body" :{body} , "bodyFormat": "json", "tags": "{{}}"}}\r'

    landed(send_lines([b"\xef\xbb\xbf" + line.encode()], "--json"))

    assert bodies(stub) == [body.encode()]


def test_a_line_says_everything(stub: StubCluster, send_lines: Callable[..., Ran]) -> None:
    """The members of a line outrank the command line; a body that is no string is sent as JSON."""
    lines = [
        {"body": {"n": 1}, "tags": "own", "keys": ["x", "y"], "properties": {"b": "2"}, "queue": "broker-a/1"},
        {"body": base64.b64encode(b"\x00").decode(), "bodyFormat": "base64", "topic": "others", "keys": "z"},
        {"body": "plain"},
    ]

    landed(send_lines(lines, "--tags", "all", "--property", "a=1", "--queue", "broker-a/0", "--json"))

    in_topic = {each.queue_id: each for each in stub.messages(TOPIC)}
    assert in_topic[1].body == b'{"n": 1}' and in_topic[0].body == b"plain"
    assert [in_topic[1].properties[name] for name in ("TAGS", "KEYS", "a", "b")] == ["own", "x y", "1", "2"]
    assert in_topic[0].properties["TAGS"] == "all" and "b" not in in_topic[0].properties
    [other] = stub.messages("others")
    assert (other.body, other.queue_id, other.properties["KEYS"]) == (b"\x00", 0, "z")


def test_many_lines_stay_in_order(stub: StubCluster, send_lines: Callable[..., Ran]) -> None:
    """A queue stores lines in their order, whether they are sent in batches or alone; blank lines are left out."""
    lines: list[Any] = [{"body": f"{number} " + "x" * (20_000 if number % 100 == 0 else 10)} for number in range(600)]
    lines.insert(300, b"  ")

    documents = landed(send_lines(lines, "--queue", "broker-a/0", "--json"))

    assert [int(body.split()[0]) for body in bodies(stub)] == list(range(600))
    assert [each["offset"] for each in documents] == list(range(600))
    assert (documents[299]["place"], documents[300]["place"]) == ("line 300", "line 302")


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        (b"{'body': 1}", "not standard JSON"),
        (b'{"body": "a", "body": "b"}', "not standard JSON"),
        (b"\xff", "not UTF-8"),
        ([], "not a JSON object"),
        ({"bodyy": "secret"}, "unknown member 'bodyy'"),
        ({"tags": "x"}, "no body"),
        ({"body": ""}, "empty body"),
        ({"body": "x", "tags": 1}, "tags is no text"),
        ({"body": "x", "keys": [1]}, "keys is no text"),
        ({"body": "x", "properties": []}, None),
        ({"body": "x", "properties": ["a"]}, "properties is no object"),
        ({"body": "x", "properties": {"a": 1}}, "property a is no text"),
        ({"body": "x", "properties": {"TAGS": "a"}}, "property TAGS is RocketMQ's own"),
        ({"body": "x", "properties": {"a": "b\x01"}}, "control character"),
        ({"body": "x", "delayLevel": 19}, "delay level 19 is out of range"),
        ({"body": "x", "delayLevel": True}, "delayLevel is no integer"),
        ({"body": "x", "deliverAt": "tomorrow"}, "line 2, deliverAt = 'tomorrow': not a time"),
        ({"body": "x", "delayLevel": 1, "deliverAt": "+1h"}, "a delay level and a delivery time"),
        ({"body": "x", "deliverAt": 1_800_000_000}, "line 2, deliverAt = '1800000000': a time that is over"),
        ({"body": "x", "deliverAt": "-2h"}, "a time that is over"),
        ({"body": "x", "keys": ["a b"]}, "a key with a blank"),
        ({"body": "x", "keys": [""]}, "a key with a blank"),
        (b'{"body": {"secret": 1, "secret": 2}}', "not standard JSON (a name twice, "),
        (b'{"body": NaN}', "not standard JSON"),
        ({"body": "x", "properties": {"p" * 9_999: 1}}, "property pppp"),
        ({"body": "x", "queue": "broker-a/7"}, "no such writable queue"),
        ({"body": "x", "topic": "no topic"}, "not a topic's name"),
        ({"body": "zz", "bodyFormat": "hex"}, "the body is not hex"),
        ({"body": "=", "bodyFormat": "base64"}, "the body is not base64"),
        ({"body": "x", "bodyFormat": "yaml"}, "unknown bodyFormat 'yaml'"),
        ({"body": "\ud800"}, "no valid Unicode"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_wrong_line_is_named(
    stub: StubCluster, send_lines: Callable[..., Ran], line: Any, complaint: str | None
) -> None:
    """At a line that cannot be sent the command ends, names it and says what landed before; later lines stay."""
    ran = send_lines([{"body": "good"}, line, {"body": "later"}])

    if complaint is None:
        assert (ran.code, len(bodies(stub))) == (Exit.DONE, 3)
        return
    assert ran.code == Exit.USAGE and bodies(stub) == [b"good"]
    assert "line 2" in ran.err and complaint in ran.err and ran.err.count("\n") == 1
    assert "1 message landed, in 1 queue before" in ran.err and "secret" not in ran.err


def test_a_new_topic_is_told(stub: StubCluster, run_command: RunCommand) -> None:
    """A topic that its first message makes, perhaps because its name is misspelt, is told once before."""
    ran = run_command("send", "drafst", "x", "y", name_server=stub.name_server)

    assert (ran.code, bodies(stub, "drafst")) == (Exit.DONE, [b"x", b"y"])
    assert ran.err == "topic drafst does not exist; the brokers make it with its first message\n"


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ([], "give BODY, --file or --lines"),
        (["x", "--lines", "-"], "give BODY, --file or --lines"),
        (["--file", "nowhere"], "--file = 'nowhere': unreadable: No such file"),
        (["--file", "null\0"], "--file = 'null\\x00': unreadable: embedded null byte"),
        (["NaN", "--body-format", "json"], "the body is not JSON"),
        (["x", "--key", "a b"], "a key with a blank"),
        (["x", "--tags", "a||b"], "a tag with |"),
        (["x", "--deliver-at", "2001-01-01T00:00:00Z"], "a time that is over, so brokers would deliver at once"),
        (["--lines", "nowhere"], "--lines = 'nowhere': unreadable: No such file"),
        (["x", "--property", "shop"], "not of the form NAME=VALUE"),
        (["x", "--deliver-at", "+1y"], "--deliver-at"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_words_are_told(stub: StubCluster, send: RunCommand, words: list[str], complaint: str) -> None:
    """A wrong command line sends nothing and is explained in one line."""
    ran = send(*words)

    assert (ran.code, ran.out, bodies(stub)) == (Exit.USAGE, "", [])
    assert complaint in ran.err and ran.err.count("\n") == 1


def test_what_a_broker_refuses_is_named(stub: StubCluster, send_lines: Callable[..., Ran]) -> None:
    """A refused batch names its lines, the broker's reason and what landed; the error has the broker's code."""
    lines = [{"body": "a"}, {"body": "b", "delayLevel": 1}, {"body": "c"}, {"body": "d"}]
    stub.faults.answer(
        ResponseCode.NO_PERMISSION, "not for you", on=RequestCode.SEND_BATCH_MESSAGE, at="broker-a", times=9
    )

    ran = send_lines(lines)
    stub.faults.clear()

    assert ran.code == Exit.NOT_PERMITTED and bodies(stub) == [b"a"]
    *warnings, said = ran.err.splitlines()
    assert said.startswith("[BROKER_NO_PERMISSION] line 3 to line 4: not stored: ") and "not for you" in said
    assert "; 2 messages landed, in " in said
    assert all(each.startswith("a send failed and is tried at another queue") for each in warnings)


def test_a_batch_above_the_limit_of_a_broker_is_divided(run_command: RunCommand, tmp_path: Path) -> None:
    """A broker with a small limit gets messages in smaller batches and in order; one that is too large is named."""
    lines = [json.dumps({"body": f"{number:03} " + "x" * 1_000}) for number in range(50)]
    large = base64.b64encode(random.Random(1).randbytes(11_000)).decode()
    (tmp_path / "lines.jsonl").write_text("\n".join([*lines, json.dumps({"body": large}), lines[0]]))
    with StubCluster(topics={TOPIC: 1}, settings=Settings(max_message_bytes=8_192)) as stub:
        ran = run_command("send", TOPIC, "--lines", "lines.jsonl", "--json", name_server=stub.name_server)

        assert [int(body[:3]) for body in bodies(stub)] == list(range(50))
    assert [json.loads(line)["offset"] for line in ran.out.splitlines()] == list(range(50))
    assert ran.error["code"] == "BROKER_MESSAGE_ILLEGAL" and ran.error["what"].startswith("line 51: not stored: ")
    assert "; 50 messages landed, in 1 queue before" in ran.error["what"]


def test_a_batch_to_a_retry_topic_is_divided(stub: StubCluster, run_command: RunCommand) -> None:
    """Brokers take no batches for retry topics, so their messages go one by one."""
    ran = run_command("send", "%RETRY%billing", "a", "b", name_server=stub.name_server)

    assert ran.code == Exit.DONE and sorted(bodies(stub, "%RETRY%billing")) == [b"a", b"b"]


def test_a_lost_answer_is_no_failure(stub: StubCluster, send: RunCommand) -> None:
    """If a broker stores a message and its answers are lost, the error says that it may be stored."""
    stub.faults.drop_reply(on=RequestCode.SEND_MESSAGE_V2, at="broker-a", times=9)

    ran = send("x", "--queue", "broker-a/0")
    stub.faults.clear()

    assert ran.code == Exit.UNREACHABLE and bodies(stub) == [b"x"]
    assert "BODY 1: may be stored, or not: " in ran.err and "nothing was stored before" in ran.err


def test_a_message_that_may_be_stored_twice_is_told(run_command: RunCommand) -> None:
    """If an answer is lost and the message is sent again, its line says that it may be stored twice."""
    with StubCluster(2, topics={TOPIC: 1}) as stub:
        words = ["send", TOPIC, "x"]
        for broker in ("broker-a", "broker-b"):
            stub.faults.cut_reply(on=RequestCode.SEND_MESSAGE_V2, at=broker, times=1)
        ran = run_command(*words, name_server=stub.name_server)
        stub.faults.clear()
        [later] = landed(run_command(*words, "--json", name_server=stub.name_server))

        assert (ran.code, ran.err, bodies(stub)) == (Exit.DONE, "", [b"x"] * 4)
    assert " · may be stored twice · id " in ran.out and later["mayBeDoubled"] is False


def test_options_of_writes_count(stub: StubCluster, send: RunCommand) -> None:
    """The timeout, the attempts, the largest body and the group of `-o` or a profile are those of the sends."""
    fault = stub.faults.drop_reply(on=RequestCode.SEND_MESSAGE_V2, at="broker-a", times=9)
    begun = time.monotonic()
    slow = send("x", "-o", "sendMsgTimeout=300ms", "-o", "rocketmq.producerGroup=mine")
    assert time.monotonic() - begun < 2 and "no answer within 0." in slow.err and "group mine" in slow.err
    stub.faults.clear()
    refused = stub.faults.busy(on=RequestCode.SEND_MESSAGE_V2, at="broker-a", times=9)
    assert send("x", "-o", "retryTimesWhenSendFailed=0").code == Exit.FAILED
    stub.faults.clear()
    large = send("x" * 2_000, "-o", "maxMessageSize=1k")
    assert send(*["x" * 600] * 3, "-o", "maxMessageSize=1k").code == Exit.DONE

    assert (fault.fired, refused.fired) == (1, 1)
    assert "a body has 2000 bytes, the limit is 1024" in large.err


def test_times_and_levels_delay(run_command: RunCommand) -> None:
    """A message with a level or a time has no offset yet, and appears when its time has come."""
    with StubCluster(topics={TOPIC: 1}, frozen_clock=True) as stub:
        at_ms = stub.clock.now_ms() + 5_000
        words = ["send", TOPIC, "x", "--json"]
        [timed] = landed(run_command(*words, "--deliver-at", str(at_ms), name_server=stub.name_server))
        [leveled] = landed(run_command(*words, "--delay-level", "1", name_server=stub.name_server))
        before = bodies(stub)
        stub.clock.advance(10_000)

        assert (timed["offset"], timed["deliverAt"]["ms"], timed["delayLevel"]) == (None, at_ms, None)
        assert (leveled["offset"], leveled["deliverAt"], leveled["delayLevel"]) == (None, None, 1)
        assert (before, bodies(stub)) == ([], [b"x", b"x"])


def test_old_brokers_get_no_times(run_command: RunCommand) -> None:
    """Brokers before 5.0 would deliver at once, so a delivery time is refused for them."""
    with StubCluster(topics={TOPIC: 1}, emulate="4.9.7") as stub:
        ran = run_command("send", TOPIC, "x", "--deliver-at", "+1h", name_server=stub.name_server)

        assert ran.code == Exit.USAGE and "older than 5.0" in ran.err
        assert bodies(stub) == []


@pytest.mark.parametrize("words", [["--lines", "-"], ["x"]], ids=["lines", "body"])
def test_without_a_standard_input(stub: StubCluster, words: list[str]) -> None:
    """A closed standard input is told if it is to be read, and does not matter otherwise; nothing else is read."""
    ran = subprocess.run(
        ["sh", "-c", 'exec "$@" <&-', "sh", *PROGRAM, "send", TOPIC, *words],
        cwd=ROOT, env=environment(stub), capture_output=True, text=True, timeout=SECONDS, check=False,
    )  # fmt: skip

    if words == ["x"]:
        assert (ran.returncode, ran.stderr) == (Exit.DONE, "")
    else:
        assert ran.returncode == Exit.USAGE and "--lines = '-': the standard input is closed" in ran.stderr


def test_old_brokers_get_no_times_for_a_new_topic(run_command: RunCommand) -> None:
    """For a topic that does not exist, too, brokers before 5.0 are refused, and the topic is not made."""
    with StubCluster(topics={TOPIC: 1}, emulate="4.9.7") as stub:
        ran = run_command("send", "new", "x", "--deliver-at", "+1h", name_server=stub.name_server)

        assert ran.code == Exit.USAGE and "older than 5.0" in ran.err


def test_few_large_lines_are_held_at_once(tmp_path: Path) -> None:
    """The reader of lines does not read far ahead of large ones."""
    path = tmp_path / "lines.jsonl"
    path.write_bytes(b"".join(b"%d" % number + b"x" * 2**20 + b"\n" for number in range(20)))
    reader = LineReader(str(path))
    portions = reader.portions()

    first = next(portions)
    time.sleep(0.2)
    assert len(first) == 1 and reader._lines.qsize() <= 1
    assert len([line for portion in portions for line in portion]) == 19


def test_a_body_that_looks_like_an_option_is_a_body(stub: StubCluster, send: RunCommand) -> None:
    """After -- everything is a body, and changes nothing about the output."""
    ran = send("--", "--json")

    assert bodies(stub) == [b"--json"] and ran.out.startswith("drafts/")


def start_sending(stub: StubCluster, *words: str) -> subprocess.Popen[str]:
    """Start `send` with lines from a pipe."""
    return subprocess.Popen(
        [*PROGRAM, "send", TOPIC, "--lines", "-", *words],
        cwd=ROOT, env=environment(stub), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True,
    )  # fmt: skip


def write_line(pipe: IO[str] | None, line: str) -> None:
    """Write a line to a process at once."""
    assert pipe
    pipe.write(line + "\n")
    pipe.flush()


def test_lines_are_sent_as_they_come_and_an_interruption_says_what_landed(stub: StubCluster) -> None:
    """A line from a pipe is sent while the next one is waited for; Ctrl-C is one line with what landed."""
    with start_sending(stub, "--json") as process:
        write_line(process.stdin, '{"body": "first"}')
        assert process.stdout
        document = json.loads(process.stdout.readline())
        assert bodies(stub) == [b"first"]
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=SECONDS)

    assert document["place"] == "line 1"
    assert process.returncode == Exit.INTERRUPTED
    assert json.loads(said)["what"] == "interrupted; 1 message landed, in 1 queue"


def test_an_interruption_tells_of_messages_on_their_way(stub: StubCluster) -> None:
    """Ctrl-C while a broker's answer is awaited says that the message may be stored."""
    stub.faults.delay(60_000, on=RequestCode.SEND_MESSAGE_V2, at="broker-a", times=9)
    with start_sending(stub) as process:
        write_line(process.stdin, '{"body": "first"}')
        until(lambda: bool(bodies(stub)), "the message is stored")
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=SECONDS)
    stub.faults.clear()

    assert process.returncode == Exit.INTERRUPTED
    assert said == "interrupted; 0 messages landed; line 1 may be stored, too\n"


def test_a_closed_output_does_not_hide_what_landed(stub: StubCluster) -> None:
    """If nobody reads where messages landed, stderr says how many did."""
    with start_sending(stub, "--json") as process:
        assert process.stdin and process.stdout
        write_line(process.stdin, '{"body": "first"}')
        process.stdout.readline()
        process.stdout.close()
        write_line(process.stdin, '{"body": "second"}')
        process.stdin.close()
        assert process.wait(SECONDS) == Exit.OUTPUT_CLOSED
        assert process.stderr
        said = json.loads(process.stderr.read())

    assert len(bodies(stub)) == 2
    assert said["what"].startswith("the output was closed; 2 messages landed, in ")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device that is always full is Linux's")
def test_a_full_disk_does_not_hide_what_landed(stub: StubCluster) -> None:
    """If the output cannot be written, the error says how many messages landed."""
    with Path("/dev/full").open("w") as full:
        ran = subprocess.run(
            [*PROGRAM, "send", TOPIC, "x"],
            cwd=ROOT, env=environment(stub), stdout=full, stderr=subprocess.PIPE, text=True, timeout=SECONDS,
            check=False,
        )  # fmt: skip

    assert ran.returncode == Exit.FAILED and len(bodies(stub)) == 1
    assert "No space left on device; 1 message landed, in 1 queue; " in ran.stderr


def test_the_schema_accepts_delayed_messages(send: RunCommand) -> None:
    """The schema of the documents allows messages without an offset."""
    [document] = landed(send("x", "--delay-level", "3", "--json"))

    jsonschema.validate(document, send("--schema").document)
