"""Start a Kafka node, and provide Spark's Kafka source.

Maven fetches both in the versions that `conf/kafka` pins.
"""

from __future__ import annotations

import base64
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from string import Template
from uuid import uuid4

from tests.bench.bench_broker import AS_SHIPPED
from tests.bench.bench_settings import ROOT, Shape
from tests.bench.usage import Groups, tree
from tests.bench.worker_processes import compiled
from tests.real.artefacts import FETCH_SECONDS, MissingTool, java_home_tool
from tests.real.processes import JavaProcess
from tests.real.servers import HOST, free_ports

CONF = ROOT / "conf" / "kafka"
CACHE = ROOT / ".cache" / "kafka"
TOKEN_PROVIDER = os.environ.get("KAFKA_TOKEN_PROVIDER", "")
MEMORY = ("-Xms1g", "-Xmx2g")
READY_S = 60
FILL_S = 900


class Kafka:
    """A running Kafka node; its topics have the same messages as those of the RocketMQ broker."""

    def __init__(self, process: JavaProcess, port: int) -> None:
        self._process = process
        self.servers = f"{HOST}:{port}"

    @property
    def processes(self) -> Groups:
        """The node's processes under the label `broker`, for a `Meter`."""
        return {"broker": lambda: tree(self._process.pid)}

    def topic(self, shape: Shape) -> str:
        """Make a topic of this shape and fill it; return its name."""
        topic = f"bench_{shape.queues}x{shape.size}"
        classes = f"{fetched('broker')}/*"
        path = f"{compiled(Path(__file__).with_name('kafka_java'), classes)}:{classes}"
        arguments = [self.servers, topic, *map(str, (shape.queues, shape.messages, shape.size))]
        _run([java_home_tool("java"), "-cp", path, "FillKafka", *arguments], FILL_S)
        return topic


@contextmanager
def open_kafka() -> Iterator[Kafka]:
    """Start a Kafka node with an empty log; stop and remove it after the `with` block."""
    home = Path(tempfile.mkdtemp(prefix="kafka-bench-"))
    port, controller_port = free_ports(0), free_ports(0)
    settings = home / "server.properties"
    text = Template((CONF / "server.properties").read_text("utf-8"))
    settings.write_text(text.substitute(home=home, port=port, controller_port=controller_port), "utf-8")
    path = ["-cp", f"{fetched('broker')}/*"]
    storage = ["kafka.tools.StorageTool", "format", "-t", _cluster_id(), "-c", str(settings)]
    _run([java_home_tool("java"), *path, *storage], READY_S)
    arguments = [*AS_SHIPPED, *MEMORY, *path, "kafka.Kafka", str(settings)]
    process = JavaProcess("kafka", arguments, log=home / "out.log", environment=dict(os.environ))
    try:
        yield Kafka(process, port)
    finally:
        process.kill()
        shutil.rmtree(home, ignore_errors=True)


def connector_jars() -> list[Path]:
    """Return the jars of Spark's Kafka source."""
    return sorted(fetched("connector").glob("*.jar"))


def fetched(part: str) -> Path:
    """Return the directory of the jars that `conf/kafka/<part>.xml` pins; fetch them first if the pins have changed."""
    pom, directory = CONF / f"{part}.xml", CACHE / part
    wanted = f"{pom.read_text('utf-8')}{TOKEN_PROVIDER}"
    stamp = directory / "stamp"
    if not (stamp.exists() and stamp.read_text("utf-8") == wanted):
        print(f"fetching the jars of {pom.relative_to(ROOT)} with Maven", flush=True)
        shutil.rmtree(directory, ignore_errors=True)
        _fetch(pom, directory)
        stamp.write_text(wanted, encoding="utf-8")
    return directory


def _fetch(pom: Path, directory: Path) -> None:
    command = ["mvn", "-q", "-B", "-f", str(pom), "dependency:copy-dependencies"]
    command += ["-DincludeScope=runtime", f"-DoutputDirectory={directory}"]
    command += [f"-Dtoken.provider.version={TOKEN_PROVIDER}"] if TOKEN_PROVIDER else []
    try:
        _run(command, FETCH_SECONDS)
    except AssertionError as problem:
        raise MissingTool(f"Maven could not fetch what {pom.name} pins: {problem}") from problem


def _run(command: Sequence[str], timeout_s: float) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, (done.stdout + done.stderr)[-2000:]


def _cluster_id() -> str:
    return base64.urlsafe_b64encode(uuid4().bytes).decode().rstrip("=")
