"""Tests of the stub's command line."""

from __future__ import annotations

import io
import signal
from pathlib import Path

import pytest

from broker_stub.__main__ import main, parse_topic, read_seeds, read_users
from pyspark_rocketmq.errors import OptionError
from pyspark_rocketmq.wire import fastjson
from pyspark_rocketmq.wire.codes import ResponseCode
from pyspark_rocketmq.wire.commands import GetBrokerClusterInfoRequestHeader
from pyspark_rocketmq.wire.record import decode_records

from .command import broker_of, running
from .remoting_client import RemotingClient, pull_of


def test_it_serves_until_it_is_told_to_end(tmp_path: Path) -> None:
    """The first line shows the address, and SIGTERM ends the process with exit code 0."""
    seed = tmp_path / "seed.jsonl"
    seed.write_text('{"topic":"orders","queueId":1,"body":"hello","storeTimestamp":5}\n')
    with running("--topic", "orders:3", "--seed", str(seed)) as (name_server, _, process):
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
        (["--acl-file", "nowhere"], "--acl-file = 'nowhere'"),
        (["--broker", "a/b"], "brokers = 'a/b'"),
        (["--tls", "cert.pem"], "--tls = 'cert.pem'"),
        (["--seed", "nowhere.jsonl"], "--seed = 'nowhere.jsonl'"),
        (["--host", "nowhere.invalid"], "CONNECT"),
        (["--port", "65536"], "--port = '65536': not a port"),
        (["--grpc-port", "-1"], "--grpc-port = '-1': not a port"),
    ],
)
def test_bad_arguments_end_it_with_a_reason(
    arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """If an argument is wrong, the reason is printed to stderr and the exit code is a failure."""
    assert main(["--port", "0", *arguments]) == 2
    assert complaint in capsys.readouterr().err


# --- users -----------------------------------------------------------------------------------------------------------


def test_users_come_from_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The file of `--acl-file` has one user per line; a file that others may read is used with a warning."""
    path = tmp_path / "users"
    path.write_text("user:secret:of:user\n\nother:x\n")
    path.chmod(0o600)
    assert read_users(str(path)) == {"user": "secret:of:user", "other": "x"}
    assert capsys.readouterr().err == ""

    path.chmod(0o644)
    assert len(read_users(str(path))) == 2
    assert f"{path}: other users may read the secrets (mode 644); run chmod 600" in capsys.readouterr().err


def test_users_come_from_the_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    """With `-` the users are read from the standard input."""
    monkeypatch.setattr("sys.stdin", io.StringIO("user:secret\n"))

    assert read_users("-") == {"user": "secret"}


@pytest.mark.parametrize("content", [b"", b"user:secret\nhidden\n", b"hidden:\n", b":hidden\n", b"hidden\xff"])
def test_a_broken_file_of_users_is_refused_without_secrets(tmp_path: Path, content: bytes) -> None:
    """If the file of users is malformed, the error names the file and the form, and shows no content."""
    path = tmp_path / "users"
    path.write_bytes(content)

    with pytest.raises(OptionError, match=r"--acl-file = .*users.*one KEY:SECRET per line") as raised:
        read_users(str(path))

    assert "hidden" not in str(raised.value)


@pytest.mark.parametrize("source", ["file", "-"])
def test_too_many_users_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str) -> None:
    """If the users take more than 1 Mi characters, they are refused; as many are accepted."""
    path = tmp_path / "users"
    path.touch(0o600)
    users = "user:" + "s" * (1024 * 1024 - 5)

    def read(content: str) -> dict[str, str]:
        path.write_text(content)
        monkeypatch.setattr("sys.stdin", io.StringIO(content))
        return read_users(source if source == "-" else str(path))

    assert sum(map(len, read(users).values())) == 1024 * 1024 - 5
    with pytest.raises(OptionError, match=r"--acl-file = .*more than 1048576 characters") as raised:
        read(users + "s")

    assert "sss" not in str(raised.value)


def test_only_users_of_the_file_are_served(tmp_path: Path) -> None:
    """With `--acl-file` brokers refuse unsigned requests, and the command line shows no secret."""
    path = tmp_path / "users"
    path.write_text("user:secret\n")
    path.chmod(0o600)
    with running("--acl-file", str(path), "--topic", "T:1") as (name_server, _, process):
        with RemotingClient(broker_of(name_server, "T")) as client:
            assert client.ask(pull_of("T")).code == ResponseCode.NO_PERMISSION
        assert "secret" not in Path(f"/proc/{process.pid}/cmdline").read_text()


def test_brokers_may_be_named() -> None:
    """`--broker` names the brokers, for example with the machine room before an `@`."""
    with running("--broker", "room1@a", "--broker", "room2@b", "--topic", "T:1") as (name_server, _, _):
        with RemotingClient(name_server) as client:
            info = fastjson.parse(client.ask(GetBrokerClusterInfoRequestHeader()).body)

    assert sorted(info["brokerAddrTable"]) == ["room1@a", "room2@b"]
