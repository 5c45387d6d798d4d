"""Start worker processes of the benchmarks, and give them tasks.

A JVM with the official clients and a Python process with ours accept the same tasks: one JSON object per line, answered
by a line with the number of messages and the seconds. So no contender runs in the process that measures.
"""

from __future__ import annotations

import hashlib
import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Self, cast

from tests.bench.bench_settings import ROOT
from tests.bench.rounds import Run
from tests.bench.usage import Groups, tree
from tests.real.artefacts import CACHE, CONF, DEFAULT_VERSION, class_path, java_home_tool
from tests.real.processes import OPENED_MODULES

ANSWER_S = 1000
_HEAP = ("-Xms1g", "-Xmx2g")


class WorkerProcess:
    """A process that gets a task as a line on its stdin and answers with a line on its stdout."""

    def __init__(
        self,
        label: str,
        command: Sequence[str],
        environment: Mapping[str, str] | None = None,
        folder: Path = ROOT,
    ) -> None:
        self.label = label
        self._log = tempfile.TemporaryFile("w+")
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            encoding="utf-8",
            cwd=folder,
            env={**os.environ, **(environment or {})},
            start_new_session=True,
        )
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    @property
    def processes(self) -> Groups:
        """The process and its descendants under its label, for a `Meter`."""
        return {self.label: lambda: tree(self.pid)}

    def ask(self, task: str, **parameters: object) -> dict[str, Any]:
        """Send the process a task and return its answer; an error or a late answer raises `AssertionError`."""
        stdin = cast("IO[str]", self._process.stdin)
        stdin.write(json.dumps({"task": task, **parameters}) + "\n")
        stdin.flush()
        try:
            line = self._lines.get(timeout=ANSWER_S)
        except queue.Empty:
            raise AssertionError(f"{self.label}: no answer to {task} within {ANSWER_S} s\n{self._log_tail()}") from None
        answer: dict[str, Any] = json.loads(line) if line else {"error": "the process ended"}
        assert "error" not in answer, f"{self.label}: {task} {parameters}: {answer['error']}\n{self._log_tail()}"
        return answer

    def drain(self, task: str, **parameters: object) -> Run:
        """Send the process a task that handles messages; return their number and the seconds."""
        answer = self.ask(task, **parameters)
        return Run(int(answer["messages"]), float(answer["seconds"]))

    def close(self) -> None:
        """Kill the process."""
        self._process.kill()
        self._process.wait()
        self._reader.join(timeout=5)
        for pipe in (self._process.stdin, self._process.stdout):
            cast("IO[str]", pipe).close()
        self._log.close()

    def _read(self) -> None:
        for line in cast("IO[str]", self._process.stdout):
            self._lines.put(line)
        self._lines.put("")

    def _log_tail(self) -> str:
        self._log.seek(0)
        return self._log.read()[-4000:]


def start_java_worker(name_server: str = "") -> WorkerProcess:
    """Start a JVM with the official clients, with the JVM settings of production and up to 2 GiB of memory."""
    home = tempfile.gettempdir()
    switches = [
        f"-Drmq.logback.configurationFile={CONF / 'logback.xml'}",
        f"-Drocketmq.client.logRoot={home}/rocketmqlogs",
    ]
    path = f"{compiled(Path(__file__).with_name('java'), class_path(DEFAULT_VERSION))}:{class_path(DEFAULT_VERSION)}"
    command = [java_home_tool("java"), *_HEAP, *OPENED_MODULES, *switches, "-cp", path, "Bench", name_server]
    return WorkerProcess("JVM", command)


def start_python_worker(name_server: str = "") -> WorkerProcess:
    """Start a Python process with our client."""
    command = [sys.executable, "-m", "tests.bench.worker", name_server]
    return WorkerProcess("Python", command, {"PYTHONPATH": str(ROOT)})


@contextmanager
def on_one_core() -> Iterator[None]:
    """Bind all processes that are started within the `with` block to the same core."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(before)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def compiled(sources: Path, classes: str) -> Path:
    """Return the directory of the classes compiled from these Java sources; compile them first if they have changed."""
    files = sorted(sources.glob("*.java"))
    stamp = hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:16]
    target = CACHE.parent / "bench" / f"{sources.name}-{stamp}"
    if not target.exists():
        target.mkdir(parents=True)
        command = [java_home_tool("javac"), "-nowarn", "-cp", classes, "-d", str(target), *map(str, files)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
    return target
