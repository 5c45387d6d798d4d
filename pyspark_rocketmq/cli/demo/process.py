"""Start the Spark job of the demo in a process of its own, take its events, and end it with all that it has started."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import IO, Any

from ...boundary.releases import require_pyspark
from ...errors import RocketMQError
from ..java import OLDEST_JAVA, find_java, java_release

__all__ = ["SparkJob", "require_spark"]

_FOREIGN = ("SPARK_", "PYSPARK_", "HADOOP_CONF_DIR", "YARN_CONF_DIR")
"""Beginnings of names of environment variables by which Spark would be another one, or elsewhere."""
_ENDING_S = 5.0
_MOST_LINES = 50
_log = logging.getLogger(__name__)


def require_spark() -> None:
    """Raise if PySpark or Java is missing or too old."""
    require_pyspark()
    home = os.environ.get("JAVA_HOME", "").strip()
    java = find_java(os.environ)
    where = f"in JAVA_HOME ({home})" if home else "in the PATH"
    advice = f"Spark needs Java {OLDEST_JAVA} or newer: install it, or set JAVA_HOME; make demo fetches one"
    if java is None:
        raise RocketMQError(f"there is no Java {where}", advice=advice)
    release = java_release(java)
    if release is not None and release < OLDEST_JAVA:
        raise RocketMQError(f"the Java {where} is of release {release}", advice=advice)


class SparkJob:
    """The process of the Spark job, with the processes that it starts."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "pyspark_rocketmq.cli.demo.job"],
            env=_environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        self._events: SimpleQueue[dict[str, Any]] = SimpleQueue()
        self._said: deque[str] = deque(maxlen=_MOST_LINES)
        self._readers = [
            threading.Thread(target=read, args=(stream,), daemon=True)
            for read, stream in ((self._read_events, self._process.stdout), (self._read_log, self._process.stderr))
        ]
        for reader in self._readers:
            reader.start()
        assert self._process.stdin
        with suppress(BrokenPipeError):  # The process has ended; its events say why.
            self._process.stdin.write(json.dumps(settings) + "\n")
            self._process.stdin.flush()

    def __repr__(self) -> str:
        return f"<SparkJob {self._process.pid}>"

    def take_events(self) -> list[dict[str, Any]]:
        """Return the batches since the last call; raise if the job has failed."""
        events: list[dict[str, Any]] = []
        try:
            while True:
                event = self._events.get_nowait()
                if "error" in event:
                    raise RocketMQError(f"the Spark job has failed: {event['error']}", advice="--debug shows its log")
                events.append(event)
        except Empty:
            return events

    def close(self) -> None:
        """End the job's processes; return when all are gone, or have been killed."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            self._signal(number)
            for reader in self._readers:
                reader.join(_ENDING_S)  # Its stream ends when the last of the processes has ended.
            if not any(reader.is_alive() for reader in self._readers):
                break
        self._process.wait()
        assert self._process.stdin and self._process.stdout and self._process.stderr
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            with suppress(BrokenPipeError):
                stream.close()

    def _signal(self, number: int) -> None:
        try:
            os.killpg(self._process.pid, number)
        except ProcessLookupError:
            return

    def _read_events(self, stream: IO[str]) -> None:
        for line in stream:
            self._events.put(json.loads(line))
        self._events.put({"error": self._last_words()})

    def _read_log(self, stream: IO[str]) -> None:
        for line in stream:
            self._said.append(line.rstrip())
            _log.debug("Spark: %s", line.rstrip())

    def _last_words(self) -> str:
        """Return why the process ended without an event, as far as its log tells."""
        self._readers[1].join(1.0)
        return next((line for line in reversed(self._said) if line.strip()), "its process ended without a word")


def _environment() -> dict[str, str]:
    """Return the environment of the job: this Python, this package, and no settings of another Spark."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_FOREIGN)}
    root = str(Path(__file__).resolve().parents[3])
    path = os.pathsep.join(filter(None, (kept.get("PYTHONPATH"), root)))
    return {**kept, "PYTHONPATH": path, "PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
