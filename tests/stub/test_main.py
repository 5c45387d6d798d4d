"""Tests of the stub's command line."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from broker_stub.__main__ import main, parse_topic, read_seeds
from pyspark_rocketmq.errors import OptionError
from pyspark_rocketmq.wire.commands import GetRouteInfoRequestHeader
from pyspark_rocketmq.wire.record import decode_records

from .remoting_client import RemotingClient, pull_of

ROOT = Path(__file__).parents[2]
READY = re.compile(r"nameServer=(127\.0\.0\.1:\d+) endpoints=(\S+)\n")


@contextmanager
def running(*arguments: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Run the stub's command; yield the name server's address and the process."""
    command = [sys.executable, "-m", "broker_stub", "--port", "0", "--grpc-port", "0", *arguments]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout
            ready = READY.fullmatch(process.stdout.readline())
            assert ready
            yield ready[1], process
        finally:
            process.kill()


def broker_of(name_server: str, topic: str) -> str:
    """Return the address of a topic's only broker, as its route gives it."""
    with RemotingClient(name_server) as client:
        route = json.loads(bytes(client.ask(GetRouteInfoRequestHeader(topic=topic)).body))
    address: str = route["brokerDatas"][0]["brokerAddrs"]["0"]
    return address


def test_it_serves_until_it_is_told_to_end(tmp_path: Path) -> None:
    """The first line shows the address, and SIGTERM ends the process with exit code 0."""
    seed = tmp_path / "seed.jsonl"
    seed.write_text('{"topic":"orders","queueId":1,"body":"hello","storeTimestamp":5}\n')
    with running("--topic", "orders:3", "--seed", str(seed)) as (name_server, process):
        with RemotingClient(broker_of(name_server, "orders")) as client:
            (record,) = decode_records(client.ask(pull_of("orders", queue_id=1)).body)
        process.send_signal(signal.SIGTERM)

        assert process.wait(10) == 0
    assert (record.body, record.store_timestamp) == (b"hello", 5)


def test_seeds_say_everything_about_a_message(tmp_path: Path) -> None:
    """A seed can set all parts of a message, with a body as text or base64; blank lines are skipped."""
    path = tmp_path / "seed.jsonl"
    row = '{"topic":"T","tags":"a","keys":"k","properties":{"n":1},"bodyBase64":"AA=="}'
    path.write_text(f'{row}\n\n{{"topic":"T","body":"é"}}\n', encoding="utf-8")

    assert list(read_seeds(path)) == [
        {"topic": "T", "body": b"\0", "properties": {"n": "1"}, "tags": "a", "keys": "k"},
        {"topic": "T", "body": "é".encode(), "properties": {}},
    ]


@pytest.mark.parametrize(
    "line", ["{", "[]", "{}", '{"topic":"T"}', '{"topic":"T","bodyBase64":"?"}', '{"topic":"T","body":1}']
)
def test_a_broken_seed_is_refused_by_file_and_line(tmp_path: Path, line: str) -> None:
    """If a seed is malformed, the error names the file, the line and the expected form."""
    path = tmp_path / "seed.jsonl"
    path.write_text(f'{{"topic":"T","body":""}}\n{line}\n')

    with pytest.raises(OptionError, match=r"seed\.jsonl, line 2'.*give \{topic"):
        list(read_seeds(path))


def test_topics_are_named_with_their_queues() -> None:
    """`parse_topic` reads `NAME:QUEUES`; without a name or a positive number the text is refused."""
    assert parse_topic("orders:8") == ("orders", 8)
    for text in ("orders", "orders:", ":8", "orders:0", "orders:x"):
        with pytest.raises(OptionError, match=r"--topic = .*NAME:QUEUES"):
            parse_topic(text)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--topic", "bad"], "--topic = 'bad'"),
        (["--acl", "user"], "--acl = 'user'"),
        (["--tls", "cert.pem"], "--tls = 'cert.pem'"),
        (["--seed", "nowhere.jsonl"], "--seed = 'nowhere.jsonl'"),
        (["--host", "nowhere.invalid"], "CONNECT"),
    ],
)
def test_bad_arguments_end_it_with_a_reason(
    arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """If an argument is wrong, the reason is printed to stderr and the exit code is a failure."""
    assert main(["--port", "0", *arguments]) == 2
    assert complaint in capsys.readouterr().err
