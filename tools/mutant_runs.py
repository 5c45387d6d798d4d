"""Run tests in copies of a tree: once to record which test runs which line, then for each mutant.

A process is forked for each run, from one that has imported pytest and all foreign packages, but nothing of the tree.
So a run costs little more than its tests.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import re
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import coverage
import pytest
from _pytest.runner import runtestprotocol

from tools.mutants import Mutant

MARKS = "not spark and not real and not chaos and not slow and not bench"
LEFT_OUT = shutil.ignore_patterns(".git", ".venv", ".cache", "build", "__pycache__", ".*_cache", ".hypothesis")
RECORD_S = 3600.0
"""The time limit for recording."""
MEMORY_BYTES = 4 << 30
"""The data segment of a process that runs the tests of a mutant, which may fill memory."""
LOOP_S = 5.0
"""The processor time of a test that is taken for an endless loop, above three times the time that was recorded."""
HANGING_S = 10.0
"""The time of a test that is taken for endless waiting, above five times the time that was recorded."""
FAILED, FAILED_AGAIN, RUNNING = "failed.txt", "failed_again.txt", "running.txt"
"""Files beside a copy with the name of the test that failed, and failed again, and of the one that runs."""
WRONG_USE = 70
"""The exit status of a process that could not run the tests of its copy."""


class Copy:
    """A copy of the tree in which one process at a time runs tests."""

    def __init__(self, original: Path) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="mutants-"))
        self.root = self.folder / "tree"
        self._original = original
        self._process = 0
        self._deadline = 0.0
        self._count = 0
        shutil.copytree(original, self.root, ignore=LEFT_OUT)

    def change(self, mutant: Mutant) -> None:
        """Write the changed module; its time in the future keeps Python from using old bytecode."""
        compile(mutant.text, mutant.key.file, "exec")
        self._count += 1
        path = self.root / mutant.key.file
        shutil.copy2(path, self.folder / "unchanged.py")
        path.write_text(mutant.text)
        os.utime(path, (2**31 + self._count, 2**31 + self._count))

    def restore(self, mutant: Mutant) -> None:
        """Put the module back, with its time, as it was when the copy was made."""
        unchanged = self.folder / "unchanged.py"
        if unchanged.exists():
            unchanged.replace(self.root / mutant.key.file)

    def start(self, arguments: Sequence[str], plugin: object, timeout: float, *, writes_bytecode: bool = False) -> None:
        """Fork a process that runs pytest with these arguments and plugin, and ends with its status."""
        self._deadline = time.monotonic() + timeout
        sys.stdout.flush()
        self._process = os.fork()
        if self._process == 0:
            status: int = WRONG_USE
            try:
                self._enter(writes_bytecode)
                status = pytest.ExitCode.INTERNAL_ERROR
                status = int(pytest.main([*self._options(), *arguments], plugins=[plugin]))
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(status)

    def _enter(self, writes_bytecode: bool) -> None:
        """Make this process the leader of a group, with the copy's modules, and a file for its output."""
        os.setsid()
        output = os.open(self.folder / "output.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        for target in (1, 2):
            os.dup2(output, target)
        os.chdir(self.root)
        sys.path[:] = [str(self.root), *(each for each in sys.path if Path(each).resolve() != self._original)]
        os.environ["PYTHONPATH"] = str(self.root)
        sys.dont_write_bytecode = not writes_bytecode
        if not writes_bytecode:
            os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
            resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))
        for name in [each for each in sys.modules if each.partition(".")[0] == "tools"]:
            del sys.modules[name]

    def _options(self) -> list[str]:
        settings = ["--rootdir", str(self.root), "-c", str(self.root / "setup.cfg"), "-p", "no:cacheprovider"]
        # Plugins of pytest are imported before its rewriting of assertions, which matters to none of them.
        quiet = "ignore:Module already imported:pytest.PytestAssertRewriteWarning"
        return ["-q", "-m", MARKS, "-W", quiet, *settings, "--basetemp", str(self.folder / "temporary")]

    def poll(self) -> int | None:
        """Return the exit status of the process, or None while it runs; raise `TimeoutError` if it had to be ended."""
        done, status = os.waitpid(self._process, os.WNOHANG)
        is_late = time.monotonic() > self._deadline
        if not done and not is_late:
            return None
        self._end()
        if not done:
            raise TimeoutError
        return os.waitstatus_to_exitcode(status)

    def end_hanging(self, seconds: Mapping[str, float], time_factor: float) -> bool:
        """End the process if the test that runs now waits for too long, given the recorded times; return whether."""
        test = self.read(RUNNING)
        if not test:
            return False
        spent_s = time.time() - (self.folder / RUNNING).stat().st_mtime
        is_hanging = spent_s > (HANGING_S + 5 * seconds.get(test, 0.0)) * time_factor
        if is_hanging:
            self._end()
        return is_hanging

    def wait(self) -> int:
        """Return the exit status of the process."""
        while (status := self.poll()) is None:
            time.sleep(0.02)
        return status

    def read(self, name: str) -> str:
        """Return the text of a file beside the copy; empty if there is none."""
        path = self.folder / name
        return path.read_text() if path.exists() else ""

    def output(self) -> str:
        """Return the end of what the last process wrote."""
        return (self.folder / "output.txt").read_text(errors="replace")[-4000:]

    def _end(self) -> None:
        """Kill the process and its children."""
        process, self._process = self._process, 0
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(process, 0)

    def remove(self) -> None:
        """End the process if it runs, and delete the copy."""
        if self._process:
            self._end()
        shutil.rmtree(self.folder, ignore_errors=True)


@contextlib.contextmanager
def copies(original: Path, count: int) -> Iterator[list[Copy]]:
    """Make copies of the tree, which are deleted at the end."""
    made: list[Copy] = []
    try:
        for _ in range(count):
            made.append(Copy(original))
        yield made
    finally:
        for each in made:
            each.remove()


# --- plugins of pytest ------------------------------------------------------------------------------------------------


class Repeatable:
    """Makes Hypothesis try the same examples in each run, and shrink none. Ends the process with the last test."""

    _status: int | None = None

    @pytest.hookimpl(trylast=True)
    def pytest_configure(self) -> None:
        """Load a profile after the suite has loaded its own."""
        from hypothesis import Phase, settings

        phases = (Phase.explicit, Phase.generate)
        settings.register_profile("mutants", settings.default, derandomize=True, database=None, phases=phases)
        settings.load_profile("mutants")

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, exitstatus: int) -> None:
        """Note the status of the tests."""
        self._status = int(exitstatus)

    @pytest.hookimpl(trylast=True)
    def pytest_unconfigure(self) -> None:
        """End the process: what a failed test leaves open would be an error that hides the status."""
        if self._status is not None:
            sys.stdout.flush()
            os._exit(self._status)


class Recorder(Repeatable):
    """Records which test runs which line below a folder, and its time; writes JSON at the end."""

    def __init__(self, folder: Path, target: Path) -> None:
        self._target = target
        self._coverage = coverage.Coverage(data_file=None, config_file=False, include=[f"{folder}/*"])
        self._seconds: dict[str, float] = {}
        self._failed: set[str] = set()
        self._skipped: set[str] = set()
        self._test = ""

    def pytest_sessionstart(self) -> None:
        """Begin before modules are imported."""
        self._coverage.start()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Count lines for the test that runs."""
        self._test = item.nodeid
        self._coverage.switch_context(self._test)
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any) -> Generator[None, object, object]:
        """Count the lines of a fixture for all tests of the file if they share it."""
        if fixturedef.scope == "function":
            return (yield)
        self._coverage.switch_context(file_of(self._test))
        try:
            return (yield)
        finally:
            self._coverage.switch_context(self._test)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add the time of a test's phase."""
        self._seconds[report.nodeid] = self._seconds.get(report.nodeid, 0.0) + report.duration
        if not report.passed:
            (self._failed if report.failed else self._skipped).add(report.nodeid)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, exitstatus: int) -> None:
        """Write the times of the tests that passed, those that failed, and who runs each line."""
        self._coverage.stop()
        data = self._coverage.get_data()
        lines = {os.path.relpath(path): data.contexts_by_lineno(path) for path in data.measured_files()}
        seconds = {test: spent for test, spent in self._seconds.items() if test not in self._failed | self._skipped}
        self._target.write_text(json.dumps({"seconds": seconds, "failed": sorted(self._failed), "lines": lines}))
        super().pytest_sessionfinish(exitstatus)


class Collector:
    """Writes the names of the foreign modules that collecting the tests has loaded."""

    def __init__(self, copy: Copy) -> None:
        self._copy = copy

    def pytest_sessionfinish(self) -> None:
        """Write the names. What belongs to the copy must not be imported before a fork."""
        inside = str(self._copy.root)
        files = {name: str(getattr(module, "__file__", None) or inside) for name, module in sys.modules.items()}
        names = [name for name, path in files.items() if not path.startswith(inside)]
        (self._copy.folder / "modules.txt").write_text("\n".join(names))


class Chosen(Repeatable):
    """Runs chosen tests in their order, each with a limit of processor time; writes which one runs and which failed."""

    def __init__(self, copy: Copy, seconds: Mapping[str, float], time_factor: float = 1.0) -> None:
        self._copy = copy
        self.seconds = seconds
        self._time_factor = time_factor
        self._rank = {test: number for number, test in enumerate(seconds)}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Have the process killed if the test computes for too long; a busy machine does not shorten this time."""
        (self._copy.folder / RUNNING).write_text(item.nodeid)
        signal.setitimer(signal.ITIMER_PROF, (LOOP_S + 3 * self.seconds[item.nodeid]) * self._time_factor)
        result = yield
        if self._copy.read(FAILED) == item.nodeid:
            self._repeat(item)
        return result

    def _repeat(self, item: pytest.Item) -> None:
        """Run a failed test again, and write its name if it fails again."""
        (self._copy.folder / RUNNING).write_text(item.nodeid)
        if isinstance(item, pytest.Function):
            item._initrequest()
        if any(report.failed for report in runtestprotocol(item, log=False)):
            (self._copy.folder / FAILED_AGAIN).write_text(item.nodeid)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Keep the chosen tests; end the process if the tests have imported another package than the copy's."""
        loaded = sys.modules.get("pyspark_rocketmq")
        if loaded and not str(loaded.__file__).startswith(str(self._copy.root)):
            os._exit(WRONG_USE)
        items[:] = sorted((i for i in items if i.nodeid in self._rank), key=lambda item: self._rank[item.nodeid])

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Write the name of a failed test."""
        if report.failed:
            (self._copy.folder / FAILED).write_text(report.nodeid)


# --- recording --------------------------------------------------------------------------------------------------------


def file_of(test: str) -> str:
    """Return the file of a test."""
    return test.partition("::")[0]


@dataclass(frozen=True, slots=True)
class Recording:
    """The tests that pass, with their seconds, and who runs each line: a test, or all tests of a file."""

    most_test_s: float = 60.0
    """The time of tests, as recorded, that one mutant gets; the slowest tests are left out."""
    seconds: dict[str, float] = field(default_factory=dict)
    runners: dict[str, dict[int, set[str]]] = field(default_factory=dict)
    imports: dict[str, set[str]] = field(default_factory=dict)
    """The modules from which each file of tests imports names."""

    def add(self, file: str, part: dict[str, Any], text: str) -> None:
        """Add what was recorded for one file of tests, which has this text."""
        self.imports[file] = set(re.findall(r"^from ([\w.]+) import", text, re.MULTILINE))
        self.seconds.update(part["seconds"])
        for path, lines in part["lines"].items():
            known = self.runners.setdefault(path, {})
            for line, names in lines.items():
                known.setdefault(int(line), set()).update(names)

    def tests_of(self, mutant: Mutant, likely: Sequence[str] = ()) -> list[str]:
        """Return the tests that run a mutant's lines, in the order in which they are expected to notice it soon.

        First come `likely` ones; then those whose names share words with the mutant's line, function and module, rare
        words above all; then files with fast tests; in a file fast tests first.
        """
        found = self._runners_at_import(mutant) if mutant.is_import_time else self._runners_of(mutant)
        tests = [test for test in self.seconds if test in found or file_of(test) in found]
        words = _words(f"{Path(mutant.key.file).stem} {mutant.key.function} {mutant.key.before}")
        counts = Counter(word for test in tests for word in words & _words(test))

        def rank(test: str) -> tuple[bool, float]:
            return test not in likely, -sum(1 / counts[word] for word in sorted(words & _words(test)))

        return self._in_order(tests, rank)

    def _runners_of(self, mutant: Mutant) -> set[str]:
        lines = self.runners.get(mutant.key.file, {})
        return _union(lines.get(line, set()) for line in mutant.lines)

    def _runners_at_import(self, mutant: Mutant) -> set[str]:
        """Return what runs any line of a module or imports it by name; if there is nothing, what runs the room."""
        module = mutant.key.file.removesuffix(".py").replace("/", ".")
        importers = {file for file, modules in self.imports.items() if module in modules}
        runners = _union(self.runners.get(mutant.key.file, {}).values()) | importers
        return runners or _union(_union(each.values()) for each in self.runners.values())

    def _in_order(self, tests: Sequence[str], rank: Callable[[str], tuple[bool, float]]) -> list[str]:
        spent = 0.0
        per_file: dict[str, float] = {}
        kept: list[str] = []
        for test in sorted(tests, key=lambda test: (rank(test), self.seconds[test])):
            if kept and spent + self.seconds[test] > self.most_test_s:
                continue
            kept.append(test)
            spent += self.seconds[test]
            per_file[file_of(test)] = per_file.get(file_of(test), 0.0) + self.seconds[test]
        return sorted(kept, key=lambda test: (rank(test), per_file[file_of(test)], file_of(test), self.seconds[test]))

    def times_of(self, tests: Sequence[str]) -> dict[str, float]:
        """Return the seconds that each of these tests took."""
        return {test: self.seconds[test] for test in tests}


@lru_cache(maxsize=10_000)
def _words(text: str) -> frozenset[str]:
    """Return the longer words of a text, without the endings of plurals."""
    return frozenset(word.removesuffix("s") for word in re.findall("[a-z]{4,}", text.lower()))


def _union(sets: Iterable[set[str]]) -> set[str]:
    return {each for one in sets for each in one}


def record(copy: Copy, folder: Path, files: Sequence[str]) -> dict[str, Any]:
    """Run these files of tests; return the seconds of each test and the runners of each line below `folder`."""
    target = copy.folder / "recording.json"
    copy.start(files, Recorder(copy.root / folder, target), RECORD_S, writes_bytecode=True)
    if copy.wait() not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        raise RuntimeError(f"the tests of {folder} could not run: {copy.output()}")
    recorded: dict[str, Any] = json.loads(target.read_text())
    return recorded


def import_foreign_modules(copy: Copy, files: Sequence[str]) -> None:
    """Import the foreign modules that these tests need, and leave bytecode of the tests in the copy."""
    copy.start(["--collect-only", *files], Collector(copy), RECORD_S, writes_bytecode=True)
    if copy.wait() != pytest.ExitCode.OK:
        raise RuntimeError(f"the tests could not be collected: {copy.output()}")
    for name in (copy.folder / "modules.txt").read_text().split():
        with contextlib.suppress(Exception):
            importlib.import_module(name)
