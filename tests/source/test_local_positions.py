"""Test broadcasting queries, which keep the positions of their group in a file."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker_stub import StubBroker
from pyspark_rocketmq.client.membership import make_client_id
from pyspark_rocketmq.client.stores import LocalStore, offset_file
from pyspark_rocketmq.errors import OptionError
from pyspark_rocketmq.options import ReaderOptions
from tests.source.driving import GROUP, TOPIC, Checkpoint, Run, batch_options_for, options_for, queue_of, read_batch

BARE_KEYS = '{"offsetTable":{{"brokerName":"broker-a","queueId":0,"topic":"orders"}:2}}'
TEXT_KEYS = r'{"offsetTable":{"{\"brokerName\":\"broker-a\",\"queueId\":0,\"topic\":\"orders\"}":2}}'


@pytest.fixture
def stub() -> Iterator[StubBroker]:
    """One broker with a topic of two queues, and three messages in each queue."""
    with StubBroker({TOPIC: 2}) as broker:
        broker.fill(TOPIC, 6, 4)
        yield broker


@pytest.fixture
def given(tmp_path: Path) -> dict[str, str]:
    """Return the options by which a query broadcasts and keeps its positions below `tmp_path`."""
    return {"messageModel": "BROADCASTING", "consumerGroup": GROUP, "localOffsetStoreDir": str(tmp_path)}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return the path of the group's file of positions, which a Java client on this host uses, too."""
    return offset_file(tmp_path, make_client_id("DEFAULT"), GROUP)


def stored(file: Path) -> dict[int, int]:
    """Return the positions in the file, by queue id."""
    store = LocalStore(file)
    store.load()
    return {queue.queue_id: offset for queue, offset in store.progress.snapshot().items()}


def drain(options: ReaderOptions, checkpoint: Checkpoint | None = None) -> int:
    """Run a query until nothing is new, and return the number of its rows."""
    with Run(options, checkpoint, available_now=True) as run:
        return len(run.drain())


def test_finished_batches_are_written_to_the_file_and_to_no_broker(
    stub: StubBroker, given: dict[str, str], file: Path
) -> None:
    """A broadcasting query commits to its file and to no broker, and its checkpoint names no group."""
    checkpoint = Checkpoint()
    assert drain(options_for(stub, **given), checkpoint) == 6
    assert stored(file) == {0: 3, 1: 3} and stub.offsets(GROUP) == {}
    assert "group" not in checkpoint.last


def test_a_new_query_begins_where_the_file_says(stub: StubBroker, given: dict[str, str]) -> None:
    """With `startingOffsets=group` a new query starts at the positions in the file."""
    drain(options_for(stub, **given))
    stub.fill(TOPIC, 2, 4)
    assert drain(options_for(stub, **{**given, "startingOffsets": "group"})) == 2


@pytest.mark.parametrize("text", [BARE_KEYS, TEXT_KEYS])
def test_both_forms_of_the_file_are_read(stub: StubBroker, given: dict[str, str], file: Path, text: str) -> None:
    """A file in RocketMQ's own form or in standard JSON is read; other queues follow `startingOffsetsDefault`."""
    file.parent.mkdir(parents=True)
    file.write_text(text)
    more = {"startingOffsets": "group", "startingOffsetsDefault": "earliest"}
    rows = read_batch(batch_options_for(stub, **given, **more))
    assert sorted((row.queue.queue_id, row.offset) for row in rows) == [(0, 2), (1, 0), (1, 1), (1, 2)]


def test_a_broken_file_is_told_and_its_backup_used(
    stub: StubBroker, given: dict[str, str], file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """If the file is damaged, its backup is read, with a warning."""
    file.parent.mkdir(parents=True)
    file.write_text('{"offsetTable":{{"bro')
    file.with_name("offsets.json.bak").write_text(BARE_KEYS)
    more = {"startingOffsets": "group", "startingOffsetsDefault": "latest"}
    assert drain(options_for(stub, **{**given, **more})) == 1
    assert f"{file} cannot be read" in caplog.text


@pytest.mark.parametrize("broken", ["offsets.json", "offsets.json.bak"])
def test_positions_that_cannot_be_read_fail_a_new_query(
    stub: StubBroker, given: dict[str, str], file: Path, broken: str
) -> None:
    """If the file or its backup is damaged and the other is missing, `startingOffsets=group` fails the query."""
    file.parent.mkdir(parents=True)
    file.with_name(broken).write_text('{"offsetTable":{{"bro')
    more = {"startingOffsets": "group", "startingOffsetsDefault": "latest"}
    with pytest.raises(OptionError, match="nor its backup can be read"):
        drain(options_for(stub, **{**given, **more}))
    assert file.with_name(broken).read_text() == '{"offsetTable":{{"bro'
    assert drain(options_for(stub, **given)) == 6
    assert stored(file) == {0: 3, 1: 3}


def test_queues_without_position_fail_a_new_query(stub: StubBroker, given: dict[str, str]) -> None:
    """If the file has no position of a queue, the query fails unless `startingOffsetsDefault` is given."""
    with pytest.raises(OptionError, match="startingOffsetsDefault"):
        drain(options_for(stub, **{**given, "startingOffsets": "group"}))


def test_the_checkpoint_decides_and_the_file_is_written_anew(
    stub: StubBroker, given: dict[str, str], file: Path
) -> None:
    """If the file is deleted, a query with a checkpoint reads on from the checkpoint, and writes the file again."""
    options, checkpoint = options_for(stub, **{**given, "startingOffsetsDefault": "earliest"}), Checkpoint()
    drain(options, checkpoint)
    file.unlink()
    file.with_name("offsets.json.bak").unlink(missing_ok=True)
    assert drain(options, checkpoint) == 0
    assert stored(file) == {0: 3, 1: 3}


def test_a_position_in_the_file_is_never_moved_back(
    stub: StubBroker, given: dict[str, str], file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A larger position in the file stays, with one warning, and so do the positions of other topics."""
    before, other = LocalStore(file), queue_of(7, topic="payments")
    for queue, offset in ((queue_of(0), 9), (other, 5)):
        before.progress.update(queue, offset, only_forward=False)
    before.persist_all([queue_of(0), other])
    with caplog.at_level(logging.WARNING), Run(options_for(stub, **given, maxOffsetsPerTrigger="2")) as run:
        run.drain()
    assert stored(file) == {0: 9, 1: 3, 7: 5}
    assert caplog.text.count("is ahead of this query's") == 1


def test_commits_none_leaves_no_file(stub: StubBroker, given: dict[str, str], tmp_path: Path) -> None:
    """With `commitOffsets=none` no file is written."""
    drain(options_for(stub, **given, commitOffsets="none"))
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_cannot_be_written_fails_the_query(
    stub: StubBroker, given: dict[str, str], tmp_path: Path
) -> None:
    """If `localOffsetStoreDir` is no directory that can be written, the query fails with an error that names it."""
    in_the_way = tmp_path / "file"
    in_the_way.write_text("")
    with pytest.raises(OptionError, match=f"localOffsetStoreDir = '{in_the_way}'"):
        drain(options_for(stub, **{**given, "localOffsetStoreDir": str(in_the_way)}))


def test_two_queries_of_a_host_are_told_apart_by_their_instance(
    stub: StubBroker, given: dict[str, str], tmp_path: Path
) -> None:
    """Two queries of one group with different `instanceName` write two files."""
    for name in ("one", "two"):
        drain(options_for(stub, **given, instanceName=name))
    paths = [offset_file(tmp_path, make_client_id(name), GROUP) for name in ("one", "two")]
    assert [stored(path) for path in paths] == [{0: 3, 1: 3}] * 2
