"""A member's positions are kept in memory, at brokers and in files."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path
from typing import Any

import pytest

from pyspark_rocketmq.client import durable_file
from pyspark_rocketmq.client.settings import MessageModel
from pyspark_rocketmq.client.stores import LocalStore, Progress, RemoteStore, offset_file
from pyspark_rocketmq.cluster.broker import Brokers
from pyspark_rocketmq.cluster.queue_offsets import Offsets
from pyspark_rocketmq.errors import OptionError
from pyspark_rocketmq.model import MessageQueue
from pyspark_rocketmq.wire.bodies import SubscriptionGroupConfig
from pyspark_rocketmq.wire.codes import RequestCode, ResponseCode
from tests.client.fixtures import GROUP, TIMEOUT_S, TOPIC, Group, Log, queue, until

JAVA_TEXT = """{
	"offsetTable":{{
			"brokerName":"broker-a",
			"queueId":1,
			"topic":"orders"
		}:12,{
			"brokerName":"broker-a",
			"queueId":0,
			"topic":"orders"
		}:11
	}
}"""


class SlowOffsets(Offsets):
    """Offset requests that are not sent until a test allows it."""

    def __init__(self, brokers: Brokers) -> None:
        super().__init__(brokers)
        self.is_sending, self.may_send = threading.Event(), threading.Event()

    def commit_oneway(self, *args: Any, **more: Any) -> None:
        """Wait until the test allows it, then send the commit."""
        self.is_sending.set()
        assert self.may_send.wait(TIMEOUT_S)
        super().commit_oneway(*args, **more)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the path of a local store's file."""
    return offset_file(tmp_path, "10.0.0.1@DEFAULT", GROUP)


def test_progress_goes_back_only_when_told_to() -> None:
    """An update with `only_forward` never decreases an offset; an update without it may."""
    progress = Progress()
    progress.update(queue(0), 5, only_forward=True)
    progress.update(queue(0), 3, only_forward=True)
    assert progress.get(queue(0)) == 5

    progress.update(queue(0), 3, only_forward=False)
    assert progress.get(queue(0)) == 3


def test_frozen_progress_stays_until_it_is_forgotten() -> None:
    """A frozen offset ignores updates until it is forgotten, so late results of listeners do not undo a correction."""
    progress = Progress()
    progress.freeze(queue(0), 10)
    progress.update(queue(0), 99, only_forward=True)
    assert progress.get(queue(0)) == 10

    progress.forget(queue(0))
    progress.update(queue(0), 99, only_forward=True)
    assert progress.get(queue(0)) == 99


def test_a_remote_store_commits_what_is_ours_and_forgets_the_rest(group: Group) -> None:
    """`persist_all` commits the offsets of the given queues and removes all others; without queues it does nothing."""
    store = RemoteStore(group.cluster().offsets, GROUP)
    group.cluster().admin.create_group(SubscriptionGroupConfig(group_name=GROUP))
    store.progress.update(queue(0), 3, only_forward=True)
    store.progress.update(queue(1), 4, only_forward=True)
    store.persist_all([])
    assert store.progress.get(queue(1)) == 4

    store.persist_all([queue(0)])
    until(lambda: group.committed().get(0) == 3)
    assert store.progress.get(queue(1)) is None
    assert store.read(queue(0)) == 3


def test_each_offset_is_read_when_it_is_sent(group: Group) -> None:
    """If a slow broker delays a commit and the offsets change meanwhile, the broker ends up with the new offsets."""
    cluster = group.cluster()
    cluster.admin.create_group(SubscriptionGroupConfig(group_name=GROUP))
    offsets = SlowOffsets(cluster.brokers)
    store = RemoteStore(offsets, GROUP)
    for number in range(2):
        store.progress.update(queue(number), 1, only_forward=True)
    round_ = threading.Thread(target=store.persist_all, args=([queue(0), queue(1)],))
    round_.start()
    assert offsets.is_sending.wait(TIMEOUT_S)
    moved = {queue(number): 150 for number in range(2)}
    commits = threading.Thread(target=store.write, args=(moved,))
    commits.start()
    until(lambda: store.progress.get(queue(1)) == 150)
    offsets.may_send.set()
    for thread in (round_, commits):
        thread.join(TIMEOUT_S)
    store.read(queue(0))  # The response shows that all earlier requests of this connection have arrived.
    assert group.committed() == {0: 150, 1: 150}


def test_a_file_gets_what_stands_when_it_is_written(path: Path) -> None:
    """If another thread writes a newer offset while `persist_all` runs, the file keeps the newer one."""
    store = LocalStore(path)
    store.progress.update(queue(0), 1, only_forward=True)

    class Held(list[MessageQueue]):
        """A list of queues that writes a newer offset, as another thread would, whenever a queue is searched in it."""

        def __contains__(self, wanted: object) -> bool:
            store.write({queue(0): 150})
            return super().__contains__(wanted)

    store.persist_all(Held([queue(0)]))
    assert LocalStore(path).read(queue(0)) == 150


def test_a_commit_that_fails_is_told_and_tried_again(group: Group, caplog: pytest.LogCaptureFixture) -> None:
    """If a broker is down, the failed commit is logged, and the next commit succeeds."""
    group.cluster().admin.create_group(SubscriptionGroupConfig(group_name=GROUP))
    store = RemoteStore(group.cluster().offsets, GROUP)
    store.progress.update(queue(0), 3, only_forward=True)
    group.stub.faults.broker_down()
    store.persist(queue(0))
    assert "was not committed" in caplog.text

    group.stub.faults.broker_up()

    def commit_again() -> bool:
        store.persist(queue(0))
        return group.committed().get(0) == 3

    until(commit_again)


def test_an_unreadable_position_is_an_error_and_not_absence(group: Group) -> None:
    """If the broker refuses to report the position, `read` raises; None would mean that there is no position."""
    store = RemoteStore(group.cluster().offsets, GROUP)
    group.stub.faults.answer(ResponseCode.NO_PERMISSION, on=RequestCode.QUERY_CONSUMER_OFFSET)

    with pytest.raises(Exception, match="16"):
        store.read(queue(0))


def test_a_local_store_reads_and_writes_javas_text(path: Path) -> None:
    """The store reads a file of the Java client and writes exactly the same text."""
    path.parent.mkdir(parents=True)
    path.write_text(JAVA_TEXT)
    store = LocalStore(path)
    store.load()
    assert store.progress.snapshot() == {queue(1): 12, queue(0): 11}

    path.unlink()
    store.persist_all([queue(0), queue(1)])
    assert path.read_text() == JAVA_TEXT


@pytest.mark.parametrize("name", ["broker,a", 'a","b', "{a}:[b]", "a\\", "größe"])
def test_a_file_may_name_any_broker_and_topic(path: Path, name: str) -> None:
    """Names with commas, quotes, brackets or backslashes are read from the file as they were written."""
    queues = MessageQueue(name, "broker-a", 0), MessageQueue("T", name, 1)
    LocalStore(path).write(dict.fromkeys(queues, 7))

    assert [LocalStore(path).read(each) for each in queues] == [7, 7]


def test_a_local_store_keeps_what_others_wrote(path: Path) -> None:
    """If a store writes one queue's offset, the file keeps the offsets of other queues."""
    store = LocalStore(path)
    store.progress.update(queue(0), 1, only_forward=True)
    store.persist_all([queue(0)])
    other = LocalStore(path)
    other.progress.update(queue(1), 2, only_forward=True)
    other.persist(queue(1))

    assert (store.read(queue(0)), store.read(queue(1)), store.read(queue(2))) == (1, 2, None)


NO_OFFSETS = [
    JAVA_TEXT.replace(":12", f":{value}")
    for value in ("null", "[1]", "1e999", '"x"', "-1", "true", str(2**63), "9" * 5000)
]


@pytest.mark.parametrize(
    "damage", ["", "{", '{"offsetTable":7}', "\x00\x01", '{"offsetTable":{"x":1}}', "[]", *NO_OFFSETS]
)
def test_a_damaged_file_gives_way_to_its_backup(path: Path, damage: str, caplog: pytest.LogCaptureFixture) -> None:
    """If the file is damaged, the offset is read from the backup, and the damage is logged."""
    store = LocalStore(path)
    for offset in (1, 2):
        store.progress.update(queue(0), offset, only_forward=True)
        store.persist_all([queue(0)])
    path.write_text(damage)

    assert LocalStore(path).read(queue(0)) == 1
    assert "offsets.json cannot be read" in caplog.text


def test_damage_of_file_and_backup_is_told(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """If the file and its backup are damaged, the store has no offset, and the damage is logged."""
    path.parent.mkdir(parents=True)
    path.write_text("{")
    path.with_name("offsets.json.bak").write_text("{")
    store = LocalStore(path)
    store.load()

    assert store.read(queue(0)) is None
    assert caplog.text.count("cannot be read") >= 2


@pytest.mark.parametrize("name", ["x/../../evil", "..\\evil", "a\0b"])
def test_names_lead_to_no_other_directory(group: Group, tmp_path: Path, name: str) -> None:
    """An instance or unit name that would lead out of the directory of positions is refused, before a file is made."""
    for given in ({"instance_name": name}, {"unit_name": name}):
        with pytest.raises(OptionError, match=r"client id = .*instance name"):
            group.concurrent(Log(), message_model=MessageModel.BROADCASTING, **given)
    with pytest.raises(OptionError, match="group = "):
        offset_file(tmp_path, "10.0.0.1@DEFAULT", "..")
    assert list(tmp_path.rglob("*")) == []


def test_paths_of_other_names_are_those_of_java() -> None:
    """The path is that of Java's client: directory, client id, group, `offsets.json`."""
    path = offset_file("d", "10.0.0.1@..@my unit", "%RETRY%g|1")
    assert path == Path("d/10.0.0.1@..@my unit/%RETRY%g|1/offsets.json")


def test_a_prepared_link_is_not_followed(path: Path) -> None:
    """If links are prepared where files will be written, the files that they lead to stay as they are."""
    path.parent.mkdir(parents=True)
    victim = path.with_name("victim")
    victim.write_text("precious")
    for name in ("offsets.json", "offsets.json.tmp", "offsets.json.bak"):
        path.with_name(name).symlink_to(victim)
    store = LocalStore(path)
    for offset in (1, 2):
        store.progress.update(queue(0), offset, only_forward=True)
        store.persist_all([queue(0)])

    assert victim.read_text() == "precious"
    assert not path.is_symlink() and LocalStore(path).read(queue(0)) == 2


@pytest.mark.parametrize("name", ["offsets.json", "offsets.json.bak"])
@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("pipe", "it is not a regular file"),
        ("device", "it is not a regular file"),
        ("directory", "Is a directory"),
        ("large file", "it has more than"),
    ],
)
def test_only_a_regular_file_is_read(
    path: Path, name: str, kind: str, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A named pipe or a device is not waited for or read without end; it counts as damaged, like a file too large."""
    path.parent.mkdir(parents=True)
    place = path.with_name(name)
    if kind == "pipe":
        os.mkfifo(place)
    elif kind == "device":
        place.symlink_to("/dev/zero")
    elif kind == "directory":
        place.mkdir()
    else:
        place.touch()
        os.truncate(place, 2**40)  # Holds no data, so it takes no space on the disk.
    store = LocalStore(path)
    store.load()

    assert store.read(queue(0)) is None and store.is_damaged
    assert f"{place} cannot be read" in caplog.text and reason in caplog.text


def test_a_link_to_positions_is_read(path: Path) -> None:
    """If the file is a link to a file of positions, these are read; the next write replaces the link, not its file."""
    target = path.parent.parent / "elsewhere.json"
    path.parent.mkdir(parents=True)
    target.write_text(JAVA_TEXT)
    path.symlink_to(target)
    store = LocalStore(path)
    assert store.read(queue(1)) == 12

    store.write({queue(1): 13})
    assert LocalStore(path).read(queue(1)) == 13 and not path.is_symlink()
    assert target.read_text() == JAVA_TEXT


def test_a_link_with_the_name_of_the_new_file_is_not_followed(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If even the name of the new file is foreseen and a link prepared there, nothing is written through it."""
    monkeypatch.setattr(durable_file, "token_hex", lambda _: "known")
    store, victim = LocalStore(path), path.parent.parent / "victim"
    store.write({queue(0): 1})
    victim.write_text("precious")
    path.with_name("offsets.json.known.tmp").symlink_to(victim)
    store.write({queue(0): 2})
    assert victim.read_text() == "precious" and LocalStore(path).read(queue(0)) == 1


def test_positions_are_on_disk_before_the_old_file_goes(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file is synced before it takes the name of the old one, and the directory is synced after that."""
    store, steps, really_sync, really_rename = LocalStore(path), list[str](), os.fsync, os.replace

    def sync(descriptor: int) -> None:
        steps.append("sync directory" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "sync file")
        really_sync(descriptor)

    def rename(source: Path, target: Path) -> None:
        steps.append(f"make {target.name}")
        really_rename(source, target)

    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(os, "replace", rename)
    for offset in (1, 2):
        steps.clear()
        store.progress.update(queue(0), offset, only_forward=True)
        store.persist_all([queue(0)])
    assert steps == ["sync file", "make offsets.json.bak", "make offsets.json", "sync directory"]
    assert sorted(each.name for each in path.parent.iterdir()) == ["offsets.json", "offsets.json.bak"]


def test_positions_are_written_although_another_process_has_just_moved_the_file(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If another process makes the file its backup at the same moment, the positions of this one are written."""
    store, really_rename = LocalStore(path), os.replace
    store.write({queue(0): 1})

    def rename(source: Path, target: Path) -> None:
        if target.suffix == ".bak":
            really_rename(source, target)
        really_rename(source, target)

    monkeypatch.setattr(os, "replace", rename)
    store.write({queue(0): 2})
    assert LocalStore(path).read(queue(0)) == 2


def test_a_failed_write_leaves_the_old_file_and_no_other(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the disk fails while positions are written, the old file stays, and nothing is left beside it."""
    store = LocalStore(path)
    store.write({queue(0): 1})

    def fail(_: int) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(os, "fsync", fail)
    store.write({queue(0): 2})
    assert LocalStore(path).read(queue(0)) == 1
    assert [each.name for each in path.parent.iterdir()] == ["offsets.json"]


def test_a_broadcasting_member_goes_on_where_it_stopped(group: Group) -> None:
    """A restarted broadcasting member gets only messages sent since it stopped; brokers store no position for it."""
    model, first, second = MessageModel.BROADCASTING, Log(), Log()
    consumer = group.concurrent(first, message_model=model)
    until(lambda: len(consumer.queues) == 4)
    group.put("a", "b", queue_id=0)
    first.wait_for(2)
    consumer.close()
    group.put("c", queue_id=0)
    group.concurrent(second, message_model=model)

    second.wait_for(1)
    assert second.bodies == [b"c"]
    assert group.stub.offsets(GROUP) == {}
    assert not group.stub.messages("%RETRY%" + GROUP), TOPIC
