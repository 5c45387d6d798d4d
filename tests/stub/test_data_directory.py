"""Tests of `broker_stub.data_directory`."""

from __future__ import annotations

import json
import os
import resource
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from broker_stub import StubBroker, StubCluster
from broker_stub.commit_log import SEGMENT_BYTES
from broker_stub.config_files import Journal
from broker_stub.delayed_messages import recall_key
from broker_stub.offset_table import format_offsets, parse_offsets
from pyspark_rocketmq.errors import OptionError
from pyspark_rocketmq.wire.commands import (
    DeleteTopicRequestHeader,
    GetKVConfigRequestHeader,
    PutKVConfigRequestHeader,
    QueryConsumerOffsetRequestHeader,
    UpdateConsumerOffsetRequestHeader,
)

from .remoting_client import RemotingClient, pull_of

AS_WRITTEN_BY_5X = """{
	"dataVersion":{
		"counter":0,
		"stateVersion":0,
		"timestamp":0
	},
	"groupTopicMap":{
		"test-group":["%RETRY%test-group","test-topic"]
	},
	"offsetTable":{
		"test-topic@test-group":{0:88526,1:88528
		},
		"%RETRY%test-group@test-group":{0:3
		}
	}
}"""
OFFSETS = {"test-topic@test-group": {0: 88526, 1: 88528}, "%RETRY%test-group@test-group": {0: 3}}


def bodies(stub: StubBroker, topic: str = "T") -> list[bytes]:
    """Return the bodies of the messages that a stub has stored in a topic."""
    return [message.body for message in stub.messages(topic)]


def test_messages_survive_a_restart(tmp_path: Path) -> None:
    """After a restart messages have their old offsets, ids, tags and times, and a new message gets the next offset."""
    with StubBroker({"T": 2}, data=tmp_path) as stub:
        for number in range(5):
            stub.put("T", b"%d" % number, tags="A")
        before = stub.messages("T")

    with StubBroker(data=tmp_path) as stub:
        assert stub.messages("T") == before
        assert stub.put("T", b"next", queue_id=0).offset == 3
        with RemotingClient(stub.broker_address()) as client:
            assert client.ask(pull_of("T", queue_id=1)).code == 0


def test_offsets_and_name_server_values_survive(tmp_path: Path) -> None:
    """After a restart committed offsets and the name server's key-value settings are the same as before."""
    commit = UpdateConsumerOffsetRequestHeader(consumer_group="g", topic="T", queue_id=0, commit_offset=7)
    query = QueryConsumerOffsetRequestHeader(consumer_group="g", topic="T", queue_id=0)
    with StubBroker({"T": 1}, data=tmp_path) as stub:
        with RemotingClient(stub.broker_address()) as client, RemotingClient(stub.name_server) as names:
            client.ask(pull_of("T"))
            client.ask(commit)
            names.ask(PutKVConfigRequestHeader(namespace="n", key="k", value="v"))

    with StubBroker(data=tmp_path) as stub:
        with RemotingClient(stub.broker_address()) as client, RemotingClient(stub.name_server) as names:
            assert client.ask(query).fields == {"offset": "7"}
            assert names.ask(GetKVConfigRequestHeader(namespace="n", key="k")).fields == {"value": "v"}


def test_delayed_messages_are_delivered_after_a_restart(tmp_path: Path) -> None:
    """After a restart waiting messages are delivered when due, and delivered ones are not delivered again."""
    with StubBroker({"T": 1}, data=tmp_path) as stub:
        stub.put("T", b"first", properties={"DELAY": "1"})
        stub.clock.advance(2_000)
        stub.put("T", b"second", properties={"DELAY": "5"})

    with StubBroker(data=tmp_path) as stub:
        assert bodies(stub) == [b"first"]
        stub.clock.advance(65_000)
        assert bodies(stub) == [b"first", b"second"]


def test_what_expired_or_was_deleted_stays_gone(tmp_path: Path) -> None:
    """After a restart expired and deleted messages are still gone, although the log's files contain them."""
    with StubBroker({"T": 1, "U": 1}, data=tmp_path) as stub:
        for topic in ("T", "T", "T", "U"):
            stub.put(topic, b"old")
        stub.expire("T", 0, 2)
        with RemotingClient(stub.broker_address()) as client:
            client.ask(DeleteTopicRequestHeader(topic="U"))

    with StubBroker({"U": 1}, data=tmp_path) as stub:
        assert [message.queue_offset for message in stub.messages("T")] == [2]
        assert stub.put("T", b"x").offset == 3
        assert bodies(stub, "U") == []
        assert stub.put("U", b"new").offset == 0


def test_the_broker_listens_where_it_did(tmp_path: Path) -> None:
    """After a restart the broker listens at its old address; if the port is taken, it listens at another one."""
    with StubBroker(data=tmp_path) as stub:
        address = stub.broker_address()

    with StubBroker(data=tmp_path) as stub:
        assert stub.broker_address() == address
        with StubBroker(data=tmp_path) as other:
            assert other.broker_address() != address


def test_the_offsets_file_is_the_brokers() -> None:
    """`consumerOffset.json` equals a real broker's byte for byte, except for version and times."""
    assert format_offsets(OFFSETS, is_5x=True) == AS_WRITTEN_BY_5X
    assert parse_offsets(AS_WRITTEN_BY_5X.encode()) == OFFSETS
    assert parse_offsets(format_offsets(OFFSETS, is_5x=False).encode()) == OFFSETS


def test_offsets_can_be_brought_from_elsewhere(tmp_path: Path) -> None:
    """A `consumerOffset.json` in which numbers are quoted can be read, too."""
    config = tmp_path / "broker-a" / "config"
    config.mkdir(parents=True)
    (config / "consumerOffset.json").write_text(json.dumps({"offsetTable": {"T@g": {"3": 9}}}))

    with StubBroker({"T": 4}, data=tmp_path) as stub:
        assert [(queue.queue_id, offset) for queue, offset in stub.offsets("g").items()] == [(3, 9)]


# --- damage ----------------------------------------------------------------------------------------------------------


def kept(directory: Path, *bodies: bytes) -> Path:
    """Run a stub that keeps messages with these bodies in a directory, close it, and return the log's file."""
    with StubBroker({"T": 1}, data=directory) as stub:
        for body in bodies or (b"x",):
            stub.put("T", body)
    return directory / "broker-a" / "commitlog" / "00000000000000000000"


@pytest.mark.parametrize("name", ["consumerOffset.json", "topics.json", "queues.json", "delayOffset.json"])
@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"\xff\xfe", b'{"offsetTable":7,"topicConfigTable":7,"queues":7}']
)
def test_a_damaged_file_is_refused_by_its_name(tmp_path: Path, name: str, content: bytes) -> None:
    """If a file and its backup are damaged, the error names the file, and nothing is discarded silently."""
    kept(tmp_path)
    for path in (tmp_path / "broker-a" / "config").glob(f"{name}*"):
        path.write_bytes(content)

    with pytest.raises(OptionError, match=f"{name}'.*restore the file"):
        StubBroker(data=tmp_path)


def test_the_file_before_is_used_if_the_last_one_is_damaged(tmp_path: Path) -> None:
    """If a file is damaged, its backup is used, as at a real broker."""
    for _ in range(2):
        kept(tmp_path)
    (tmp_path / "broker-a" / "config" / "topics.json").write_text("{")

    with StubBroker(data=tmp_path) as stub:
        assert bodies(stub) == [b"x", b"x"]


@pytest.mark.parametrize("at", [0, 4, 28, 84, 88])
def test_a_damaged_log_is_refused_by_its_name(tmp_path: Path, at: int) -> None:
    """If a record is damaged and a complete one follows, the error names the file and the byte; nothing is cut."""
    overwrite(kept(tmp_path, b"x", b"y"), at, b"\x7f")

    with pytest.raises(OptionError, match=r"commitlog/0{20}': damaged at byte 0"):
        StubBroker(data=tmp_path)


def test_a_foreign_file_in_the_log_is_refused(tmp_path: Path) -> None:
    """If the log's directory contains a file of a wrong name, or a short one before the last, the start is refused."""
    path = kept(tmp_path)
    path.with_name("notes.txt").write_text("mine")
    with pytest.raises(OptionError, match=r"notes\.txt'.*was expected"):
        StubBroker(data=tmp_path)
    path.with_name("notes.txt").unlink()
    path.with_name(f"{SEGMENT_BYTES:020d}").touch()
    os.truncate(path, 1000)

    with pytest.raises(OptionError, match="1000 bytes long"):
        StubBroker(data=tmp_path)


def test_a_state_that_cannot_be_written_is_an_error_at_the_end(tmp_path: Path) -> None:
    """If the state cannot be written, closing the stub raises an error, and the stub's thread ends nevertheless."""
    before = threading.active_count()
    with pytest.raises(OptionError, match=r"topics\.json'.*cannot be written"):
        with StubBroker(data=tmp_path) as stub:
            (tmp_path / "broker-a" / "config" / "topics.json.new").mkdir()
            stub.put("U", b"x")

    assert threading.active_count() == before


def test_one_brokers_failure_keeps_no_other_from_saving(tmp_path: Path) -> None:
    """If files of two brokers cannot be written, the third is saved all the same, and the error names both files."""
    wrong = r"broker-{}/config/topics\.json': cannot be written"
    with pytest.raises(OptionError, match=f"{wrong.format('a')}.*{wrong.format('b')}"):
        with StubCluster(3, data=tmp_path) as stub:
            for broker in ("broker-a", "broker-b"):
                (tmp_path / broker / "config" / "topics.json.new").mkdir()
            stub.put("U", b"x")  # Creates the topic at each of them.

    assert "U" in json.loads((tmp_path / "broker-c" / "config" / "topics.json").read_text())["topicConfigTable"]


def test_a_journal_that_cannot_be_cleared_is_a_named_error(tmp_path: Path) -> None:
    """If the journal cannot be deleted, the error names it."""
    with pytest.raises(OptionError, match=r"changes\.jsonl'.*cannot be deleted"):
        with StubBroker(data=tmp_path):
            (tmp_path / "broker-a" / "config" / "changes.jsonl").mkdir()


@contextmanager
def files_limited_to(size: int) -> Iterator[None]:
    """Let no file of this process grow beyond `size` bytes; the last write below it is cut, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("rest", [0, 5])
def test_a_change_that_does_not_fit_leaves_no_trace(tmp_path: Path, rest: int) -> None:
    """If the disk has no room, or room for a part of a change, it is refused, and the next change is readable."""
    journal = Journal(tmp_path / "changes.jsonl")
    journal.append("commit", "T@g", 0, 1)
    with files_limited_to(journal.path.stat().st_size + rest):
        with pytest.raises(OptionError, match=r"changes\.jsonl'.*cannot be written"):
            journal.append("commit", "T@g", 0, 2)

    journal.append("commit", "T@g", 0, 3)

    assert [change[-1] for change in journal.read()] == [1, 3]


def test_a_file_in_place_of_the_directory_is_refused(tmp_path: Path) -> None:
    """If the path of the directory is a file, the error names it."""
    path = tmp_path / "file"
    path.write_text("")

    with pytest.raises(OptionError, match="not a directory to write to"):
        StubBroker(data=path)


# --- after the end of a process --------------------------------------------------------------------------------------


def overwrite(path: Path, at: int, data: bytes) -> None:
    """Write bytes into a file at a position."""
    with path.open("r+b") as file:
        file.seek(at)
        file.write(data)


def record_size(path: Path) -> int:
    """Return the size of the first record in a log's file."""
    with path.open("rb") as file:
        return int.from_bytes(file.read(4), "big")


@pytest.mark.parametrize(("at", "junk"), [(0, 0), (0, 0x7F), (4, 0), (28, 0x7F), (88, 0x7F)])
def test_a_torn_last_record_is_cut(tmp_path: Path, caplog: pytest.LogCaptureFixture, at: int, junk: int) -> None:
    """If the last record is torn, it is cut with a warning, and the queue goes on in its place."""
    path = kept(tmp_path, b"whole", b"torn!")
    size = record_size(path)
    overwrite(path, size + at, bytes([junk] * 4))

    with StubBroker(data=tmp_path) as stub:
        assert bodies(stub) == [b"whole"]
        assert stub.put("T", b"next").offset == 1
    with StubBroker(data=tmp_path) as stub:
        assert bodies(stub) == [b"whole", b"next"]

    (warning,) = [record.getMessage() for record in caplog.records]
    assert f"{path}: cut " in warning and f"bytes at byte {size}, an incomplete record" in warning


@pytest.mark.parametrize("size", [0, 1, 1000])
def test_a_last_file_of_any_size_is_completed(tmp_path: Path, caplog: pytest.LogCaptureFixture, size: int) -> None:
    """If the last file of the log is empty or short, its rest counts as empty, and a warning says so."""
    path = kept(tmp_path)
    last = path.with_name(f"{SEGMENT_BYTES:020d}")
    last.touch()
    os.truncate(last, size)

    with StubBroker(data=tmp_path) as stub:
        assert bodies(stub) == [b"x"]
        assert stub.put("T", b"y").offset == 1
    with StubBroker(data=tmp_path) as stub:
        assert bodies(stub) == [b"x", b"y"]

    (warning,) = [record.getMessage() for record in caplog.records]
    assert f"{last}: {size} of {SEGMENT_BYTES} bytes long" in warning


def test_an_unfinished_change_is_cut(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """If the last line of the journal is incomplete, it is cut with a warning; any other broken line is an error."""
    kept(tmp_path)
    path = tmp_path / "broker-a" / "config" / "changes.jsonl"
    path.write_bytes(b'["commit", "T@g", 0, 1]\n["commit", "T@g", 0, 2')

    with StubBroker(data=tmp_path) as stub:
        assert list(stub.offsets("g").values()) == [1]
    (warning,) = [record.getMessage() for record in caplog.records]
    assert f"{path}: cut 22 bytes at byte 24" in warning

    for broken in (b"x\n[]\n", b"[]\n", b'["no-kind", 1]\n', b'["commit", "T@g", {}, 1]\n'):
        path.write_bytes(broken)
        with pytest.raises(OptionError, match=r"changes\.jsonl'"):
            StubBroker(data=tmp_path)


def test_what_was_acknowledged_is_on_disk_already(tmp_path: Path) -> None:
    """A copy of the directory that is taken while the stub runs has all that the stub has acknowledged."""
    commit = UpdateConsumerOffsetRequestHeader(consumer_group="g", topic="T", queue_id=0, commit_offset=2)
    with StubBroker({"T": 1, "U": 1}, data=tmp_path / "live") as stub:
        for topic in ("T", "T", "T", "U"):
            stub.put(topic, b"old")
        with RemotingClient(stub.broker_address()) as client, RemotingClient(stub.name_server) as names:
            client.ask(pull_of("T"))
            client.ask(commit)
            client.ask(DeleteTopicRequestHeader(topic="U"))
            names.ask(PutKVConfigRequestHeader(namespace="n", key="k", value="v"))
        stub.expire("T", 0, 1)
        stub.put("made", b"new")
        stub.put("T", b"kept", properties={"TIMER_DELAY_SEC": "60"})
        shutil.copytree(tmp_path / "live", tmp_path / "killed")
        address = stub.broker_address()

    with StubBroker(data=tmp_path / "killed") as stub:
        assert stub.broker_address() == address
        assert [message.queue_offset for message in stub.messages("T")] == [1, 2]
        assert list(stub.offsets("g").values()) == [2]
        assert bodies(stub, "made") == [b"new"]
        assert stub.run(lambda: [stub.state.brokers[0].topics.find(name) for name in ("U", "made")])[0] is None
        assert stub.run(lambda: "g" in stub.state.brokers[0].group_configs.table)
        assert stub.run(lambda: stub.state.values) == {"n": {"k": "v"}}
        assert stub.put("U", b"again").offset == 0
        stub.clock.advance(62_000)
        assert bodies(stub)[-1] == b"kept"


def test_a_recall_survives_a_restart(tmp_path: Path) -> None:
    """A recalled message is not delivered after a restart, either."""
    with StubBroker({"T": 1}, data=tmp_path) as stub:
        stub.put("T", b"recalled", properties={"TIMER_DELAY_SEC": "60", "UNIQ_KEY": "A"})
        stub.put("T", b"0", properties={"TIMER_DELAY_SEC": "60", "TIMER_DEL_UNIQKEY": recall_key("T", "A")})
        stub.put("T", b"other", properties={"TIMER_DELAY_SEC": "60", "UNIQ_KEY": "B"})

    with StubBroker(data=tmp_path) as stub:
        stub.clock.advance(62_000)
        assert bodies(stub) == [b"other"]


def test_a_moved_queue_keeps_its_offsets(tmp_path: Path) -> None:
    """A queue that was moved to a broker begins at its old offsets, even if only the log knows it."""
    with StubCluster(2, topics={"T": 1}, data=tmp_path / "live") as stub:
        for _ in range(3):
            stub.put("T", b"x", broker="broker-a")
        stub.expire("T", 0, 2, broker="broker-a")
        moved = stub.move_queue("T", "broker-a", "broker-b")
        shutil.copytree(tmp_path / "live", tmp_path / "killed")

    with StubCluster(2, data=tmp_path / "killed") as stub:
        (message,) = stub.messages("T", moved.queue_id, broker="broker-b")
        assert message.queue_offset == 2
        assert stub.put("T", b"y", queue_id=moved.queue_id, broker="broker-b").offset == 3


def test_the_version_before_is_used_with_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """If a damaged file is replaced by its backup, a warning names both."""
    for _ in range(2):
        kept(tmp_path)
    path = tmp_path / "broker-a" / "config" / "queues.json"
    path.write_text("{")

    with StubBroker(data=tmp_path):
        pass

    warning = caplog.records[0].getMessage()
    assert f"{path} is damaged" in warning and f"{path}.bak" in warning
