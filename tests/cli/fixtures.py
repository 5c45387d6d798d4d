"""Provide a stub cluster on which every example of the command line can run, and a way to run commands in this process.

The stub has two brokers. The topic `orders` has two queues at each, with five messages in every queue; the group
`billing` has read some of them.
"""

from __future__ import annotations

import json
import os
import re
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from broker_stub import StubCluster
from pyspark_rocketmq.cli.main import main
from pyspark_rocketmq.cli.positions import nest
from pyspark_rocketmq.cluster.cluster import open_cluster
from pyspark_rocketmq.cluster.settings import ClusterSettings
from pyspark_rocketmq.model import MessageQueue, parse_addresses
from pyspark_rocketmq.wire.bodies import SubscriptionGroupConfig

ROOT = Path(__file__).parents[2]
PROGRAM = [sys.executable, "-m", "pyspark_rocketmq"]
ESCAPE = re.compile(r"\x1b\[[0-9;]*m")
SECONDS = 60
"""The longest time that a test waits for a process."""
TOPIC, GROUP = "orders", "billing"
PER_QUEUE = 5
POSITIONS = {
    MessageQueue(TOPIC, "broker-a", 0): 1,
    MessageQueue(TOPIC, "broker-a", 1): 2,
    MessageQueue(TOPIC, "broker-b", 0): 5,
    MessageQueue(TOPIC, "broker-b", 1): 0,
}
"""The positions of `billing`; it has 12 messages to read."""
CHANGING = {"send"}
"""First words of commands whose examples change the cluster."""
_SETTINGS = ("NAMESRV_ADDR", "PYSPARK_ROCKETMQ_PROFILE", "NO_COLOR", "COLUMNS")


class Ran(NamedTuple):
    """The outcome of a command."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """The JSON document on stdout."""
        return json.loads(self.out)

    @property
    def error(self) -> Any:
        """The JSON object on stderr."""
        return json.loads(self.err)


RunCommand = Callable[..., Ran]


def seed(stub: StubCluster) -> None:
    """Store the messages and positions that the examples of commands use."""
    for queue in POSITIONS:
        for number in range(PER_QUEUE):
            stub.put(
                TOPIC,
                b"order %d" % number,
                tags="new",
                keys=f"key-{number}",
                queue_id=queue.queue_id,
                broker=queue.broker_name,
            )
    cluster = open_cluster(ClusterSettings(parse_addresses(stub.name_server)))
    cluster.admin.create_group(SubscriptionGroupConfig(group_name=GROUP))
    cluster.offsets.commit(GROUP, POSITIONS)


@pytest.fixture(scope="session")
def cli_stub() -> Iterator[StubCluster]:
    """A stub of two brokers with messages and a group; tests do not change it."""
    with StubCluster(2, topics={TOPIC: 2}) as stub:
        seed(stub)
        yield stub


@pytest.fixture(scope="session")
def changed_stub() -> Iterator[StubCluster]:
    """A stub of two brokers with messages, a group and changes by the commands of `CHANGING`."""
    with StubCluster(2, topics={TOPIC: 2, "reminders": 1}) as stub:
        seed(stub)
        yield stub


@pytest.fixture
def run_command(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[RunCommand]:
    """A function that runs a command in this process, without settings of the user; it returns code, out and err.

    The folder has a file of positions, those of `billing`, a file of messages, and a program.
    """
    for name in _SETTINGS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "positions.json").write_text(json.dumps({"positions": nest(POSITIONS)}))
    (tmp_path / "kafka_job.py").write_text('spark.readStream.format("kafka").option("subscribe", "orders").load()')
    (tmp_path / "orders.jsonl").write_text('{"body": "two lattes", "keys": ["order-2"]}\n{"body": {"tea": 1}}\n')

    def run(*words: str, name_server: str | None = None) -> Ran:
        capsys.readouterr()
        if name_server is not None:
            monkeypatch.setenv("NAMESRV_ADDR", name_server)
        code = main(words)
        said = capsys.readouterr()
        return Ran(int(code), said.out, said.err)

    yield run


@pytest.fixture
def refusing_address() -> Iterator[str]:
    """An address at which connections are refused: a port that is taken, but not listened to."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{taken.getsockname()[1]}"


@pytest.fixture
def stub_for(cli_stub: StubCluster, changed_stub: StubCluster) -> Callable[[str], StubCluster]:
    """A function that gets the first word of a command, and returns the stub on which its examples run."""
    return lambda word: changed_stub if word in CHANGING else cli_stub


@pytest.fixture
def on_stub(run_command: RunCommand, stub_for: Callable[[str], StubCluster]) -> RunCommand:
    """A function that runs a command on the stub for it."""
    return lambda *words: run_command(*words, name_server=stub_for(words[0]).name_server)


def environment(stub: StubCluster, **more: str) -> dict[str, str]:
    """Return the environment of a process that runs a command on a stub."""
    kept = {name: value for name, value in os.environ.items() if name not in _SETTINGS}
    return {**kept, "NAMESRV_ADDR": stub.name_server, **more}
