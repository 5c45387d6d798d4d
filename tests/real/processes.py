"""Start and end the Java processes of tests.

A process runs in its own session and home, writes to a log that is kept, and never outlives its test run: a watchdog
holds a pipe from the test run, and kills the process when that pipe ends without a line.
"""

from __future__ import annotations

import atexit
import subprocess
import time
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path

from .artefacts import java_home_tool

_WATCHDOG = 'exec 3<&0; { read -r _ <&3 || kill -9 $$; } & exec 3<&-; exec "$@" </dev/null'
OPENED_MODULES = (
    "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED",
    "--add-opens=java.base/jdk.internal.ref=ALL-UNNAMED",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
)
QUICK_START = ("-XX:TieredStopAtLevel=1", "-Xshare:auto", "-XX:+UseSerialGC")
_STARTED: weakref.WeakSet[JavaProcess] = weakref.WeakSet()


class ProcessFailed(AssertionError):
    """The error of a process that ended or was not ready in time; its text has the last lines of the log."""


class JavaProcess:
    """A JVM with a name and a log file."""

    def __init__(self, name: str, arguments: Sequence[str], *, log: Path, environment: dict[str, str]) -> None:
        self.name = name
        self.log = log
        command = ["/bin/sh", "-c", _WATCHDOG, "sh", java_home_tool("java"), *QUICK_START, *OPENED_MODULES, *arguments]
        with log.open("ab") as out:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=out,
                cwd=log.parent,
                env=environment,
                start_new_session=True,
            )
        _STARTED.add(self)

    def __repr__(self) -> str:
        return f"<JavaProcess {self.name}, pid {self.pid}, {'running' if self.running else 'ended'}>"

    @property
    def pid(self) -> int:
        """The process id of the JVM."""
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether the process still runs."""
        return self._process.poll() is None

    def wait_until(self, ready: Callable[[], bool], timeout_s: float) -> None:
        """Wait until `ready()` is true; raise `ProcessFailed` if the process ends or the time is over."""
        deadline = time.monotonic() + timeout_s
        while not ready():
            if not self.running:
                raise ProcessFailed(f"{self.name} ended with {self._process.returncode}\n{self.log_tail()}")
            if time.monotonic() > deadline:
                raise ProcessFailed(f"{self.name} was not ready within {timeout_s} s\n{self.log_tail()}")
            time.sleep(0.1)

    def terminate(self, timeout_s: float = 30) -> None:
        """Ask the process to end, so that it saves its state; kill it at the timeout."""
        self._process.terminate()
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
        self._dismiss_watchdog()

    def kill(self) -> None:
        """Kill the process."""
        self._process.kill()
        self._process.wait()
        self._dismiss_watchdog()

    def log_tail(self, count: int = 40) -> str:
        """Return the last `count` lines of the process's log."""
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines() if self.log.exists() else []
        return "\n".join(lines[-count:])

    def _dismiss_watchdog(self) -> None:
        """Send the watchdog a line, so that it ends without a kill: the process id may be in use again."""
        if self._process.stdin and not self._process.stdin.closed:
            try:
                self._process.stdin.write(b"ended\n")
                self._process.stdin.close()
            except BrokenPipeError:
                self._process.stdin = None


@atexit.register
def _kill_leftovers() -> None:
    for process in list(_STARTED):
        if process.running:
            process.kill()
