"""Check that two queries on one host cannot commit positions of the same queues for one group."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from broker_stub import StubBroker
from pyspark_rocketmq.errors import GroupReadTwice
from pyspark_rocketmq.source.rhythm import PlannerRhythm
from tests.source.driving import GROUP, TOPIC, Checkpoint, Run, options_for, wait_for

OTHER = "returns"
IMPATIENT = PlannerRhythm(claim_timeout_s=0.5)
FIRST, SECOND = (json.dumps({TOPIC: {"broker-a": [number]}}) for number in range(2))


@pytest.fixture(autouse=True)
def private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give the tests a temporary directory of their own; return the path at which claims are kept in it."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path / f"pyspark_rocketmq-{os.geteuid()}"


@pytest.fixture
def stub() -> Iterator[StubBroker]:
    """One broker with two topics of two queues."""
    with StubBroker({TOPIC: 2, OTHER: 2}) as broker:
        yield broker


@contextmanager
def another_query(stub: StubBroker, **given: str) -> Iterator[subprocess.Popen[str]]:
    """Run a query in a process of its own; yield the process once it has read, and end it afterwards."""
    command = [sys.executable, "-m", "tests.source.other_query", stub.name_server, json.dumps(given)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin and process.stdout and process.stdout.readline() == "reads\n"
        yield process
        process.stdin.close()


def test_a_group_is_not_read_twice(stub: StubBroker) -> None:
    """A second query of a group fails, with the first one's process in the error, unless it commits nothing."""
    with another_query(stub, consumerGroup=GROUP) as other:
        with (
            Run(options_for(stub, consumerGroup=GROUP), rhythm=IMPATIENT) as run,
            pytest.raises(GroupReadTwice) as told,
        ):
            run.plan()
        assert f"process {other.pid} (started by process " in str(told.value)
        for given in ({"consumerGroup": "other"}, {"consumerGroup": GROUP, "commitOffsets": "none"}):
            with Run(options_for(stub, **given), rhythm=IMPATIENT) as run:
                assert run.plan()


def test_reads_of_other_queues_are_another_matter(stub: StubBroker) -> None:
    """Two queries of a group may read different topics or different queues, but not the same queue."""
    with another_query(stub, consumerGroup=GROUP, assign=FIRST):
        for given in ({"subscribe": OTHER}, {"assign": SECOND}):
            with Run(options_for(stub, consumerGroup=GROUP, **given), rhythm=IMPATIENT) as run:
                assert run.plan()
        for given in ({"subscribe": TOPIC}, {"assign": FIRST}):
            with (
                Run(options_for(stub, consumerGroup=GROUP, **given), rhythm=IMPATIENT) as run,
                pytest.raises(GroupReadTwice),
            ):
                run.plan()


def test_the_next_run_waits_for_the_end_of_the_last(stub: StubBroker, caplog: pytest.LogCaptureFixture) -> None:
    """If the last run's process is still alive, the next run waits until it ends, and then plans."""
    options, checkpoint = options_for(stub, consumerGroup=GROUP), Checkpoint()
    with another_query(stub, consumerGroup=GROUP) as other, Run(options, checkpoint) as run:
        planning = threading.Thread(target=run.plan)
        planning.start()
        wait_for(lambda: f"process {other.pid}" in caplog.text, "the run waits")
        assert other.stdin
        other.stdin.close()
        planning.join(PlannerRhythm().claim_timeout_s)
    assert len(checkpoint.offsets) == 1


def test_a_process_that_is_killed_claims_nothing(stub: StubBroker) -> None:
    """If a query's process is killed, another query of the group can start at once."""
    with another_query(stub, consumerGroup=GROUP) as other:
        other.kill()
        other.wait()
        with Run(options_for(stub, consumerGroup=GROUP), rhythm=IMPATIENT) as run:
            assert run.plan()


def test_a_query_that_has_ended_claims_nothing(stub: StubBroker, private: Path) -> None:
    """When a query ends, its claims are given up, although its process lives on."""
    locks = "import fcntl, os, sys; fcntl.lockf(os.open(sys.argv[1], os.O_RDWR), fcntl.LOCK_EX | fcntl.LOCK_NB)"

    def another_process_gets_all() -> bool:
        (file,) = private.iterdir()
        return subprocess.run([sys.executable, "-c", locks, str(file)], stderr=subprocess.DEVNULL).returncode == 0

    with Run(options_for(stub, consumerGroup=GROUP)) as run:
        run.plan()
        assert not another_process_gets_all()
    assert another_process_gets_all()


@pytest.mark.parametrize("trap", ["link", "open to others"])
def test_no_directory_of_others_is_used(
    stub: StubBroker, private: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, trap: str
) -> None:
    """If the directory for claims is a link or open to others, it is not used, and the query reads with a warning."""
    target = tmp_path / "elsewhere"
    target.mkdir(mode=0o700)
    if trap == "link":
        private.symlink_to(target)
    else:
        private.mkdir()
        private.chmod(0o777)
    with Run(options_for(stub, consumerGroup=GROUP)) as run:
        assert run.plan()
    assert "two queries of one group are not kept apart" in caplog.text
    assert list(target.iterdir()) == [] and list(private.iterdir()) == []


def test_claims_are_private_to_their_user(stub: StubBroker, private: Path) -> None:
    """Only their user may read and write the claims and their directory."""
    with Run(options_for(stub, consumerGroup=GROUP)) as run:
        run.plan()
    assert private.stat().st_mode & 0o777 == 0o700
    assert [path.stat().st_mode & 0o777 for path in private.iterdir()] == [0o600]
