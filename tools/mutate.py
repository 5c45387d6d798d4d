"""Change the code in small places, and count the changes that no test notices.

    python tools/mutate.py planning offsets      # 300 mutants of each of these rooms
    python tools/mutate.py                       # all rooms; `make mutants` runs this
    python tools/mutate.py --mutants 50 --seed 2 --jobs 2 pull

A mutant is killed if a test fails, the import fails, or the time limit ends the tests; else it survives. A failure or a
time-out counts only if it repeats, and if the test passes on the unchanged code, alone and after the same tests.

Survivors are listed with reasons in tests/mutants/<room>.toml, below the numbers of the last whole run. The exit status
is 1 if a room kills less than 85 % of its mutants, or has a survivor that is not listed; build/mutants/<room>.toml has
the numbers, and these survivors in the form of that list, without a reason.

build/mutants/<room>.jsonl has each result. A stopped run goes on there: a result is used again while the changed
function stays and, for a survivor that is not listed, the tests stay. The sample depends on the seed and on each
mutant's own text, so that an edit of a room changes little of it. Mutants run in the order of the draw, so a stopped
run has judged a smaller sample. Only tests that run the changed line are run, without Spark and real brokers.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import signal
import sys
import time
import tomllib
from collections import Counter, deque
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tools.mutant_runs import (  # noqa: E402  # the script runs from a plain checkout
    FAILED,
    FAILED_AGAIN,
    RUNNING,
    WRONG_USE,
    Chosen,
    Copy,
    Recording,
    copies,
    import_foreign_modules,
    record,
)
from tools.mutants import Key, Mutant, find_mutants  # noqa: E402

TESTS = {
    "planning": ("tests/planning",),
    "offsets": ("tests/offsets", "tests/options"),
    "pull": ("tests/pull", "tests/flows"),
    "decode": ("tests/decode",),
    "source": ("tests/source",),
    "client": ("tests/client",),
}
"""The rooms whose mutants are made, each with the folders of tests that judge it."""
FLOOR = 0.85
"""The share of a room's mutants that must be killed."""
KILLED = ("killed", "timeout")
MOST_KILLERS = 8
"""The number of tests that run first because they noticed other mutants of the file."""
REPEAT_FACTOR = 3.0
"""The factor of all time limits when a failure is repeated."""
NO_TESTS = 5
"""The exit status of pytest if none of the tests exists, because their names depend on what was changed."""

Row = dict[str, Any]
"""A line of a file of results."""


def main(arguments: Sequence[str]) -> int:
    """Run the mutants of the rooms that the arguments name; return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("rooms", nargs="*", help=f"any of {', '.join(TESTS)}; by default all")
    parser.add_argument("--mutants", type=int, default=300, help="mutants of each room")
    parser.add_argument("--seed", default="1")
    parser.add_argument("--jobs", type=int, default=1, help="processes at once")
    parser.add_argument("--seconds", type=float, default=60.0, help="tests that a mutant gets, by their recorded time")
    parser.add_argument("--root", type=Path, default=ROOT, help="the folder that has pyspark_rocketmq and tests")
    chosen = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # copies and processes are removed on the way out
    if unknown := set(chosen.rooms) - set(TESTS):
        parser.error(f"no such room: {', '.join(sorted(unknown))}")
    rooms = [Room(chosen.root.resolve(), name) for name in chosen.rooms or TESTS]
    are_good = [mutate_room(room, chosen.mutants, chosen.seed, chosen.jobs, chosen.seconds) for room in rooms]
    return 0 if all(are_good) else 1


@dataclass(frozen=True, slots=True)
class Room:
    """A room with its files: code, tests, results, and the list of survivors."""

    root: Path
    name: str

    @property
    def folder(self) -> Path:
        """The folder of the code, relative to the root."""
        return Path("pyspark_rocketmq") / self.name

    @property
    def tests(self) -> list[str]:
        """The files of tests that judge the room, relative to the root."""
        found = (path for folder in TESTS[self.name] for path in (self.root / folder).rglob("test_*.py"))
        return sorted(str(path.relative_to(self.root)) for path in found)

    def find(self) -> list[Mutant]:
        """Return all mutants of the room."""
        files = sorted(path.relative_to(self.root) for path in (self.root / self.folder).rglob("*.py"))
        return [mutant for file in files for mutant in find_mutants(str(file), (self.root / file).read_text())]

    def listed(self) -> dict[Key, str]:
        """Return the listed survivors with their reasons."""
        path = self.root / "tests" / "mutants" / f"{self.name}.toml"
        rows = tomllib.loads(path.read_text()).get("survivor", []) if path.exists() else []
        return {_key(row): row["reason"] for row in rows}

    def built(self, ending: str) -> Path:
        """Return the path of a file about the room in build/mutants, whose folder exists."""
        folder = self.root / "build" / "mutants"
        folder.mkdir(parents=True, exist_ok=True)
        return folder / f"{self.name}.{ending}"

    def digest(self, files: Iterable[str]) -> str:
        """Return a digest of the contents of files."""
        return digest(*((self.root / file).read_bytes() for file in files))


def digest(*parts: bytes) -> str:
    """Return a digest of several texts."""
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]


def _key(row: Mapping[str, Any]) -> Key:
    return Key(row["file"], row["function"], row["before"], row["after"], row.get("number", 0))


def mutate_room(room: Room, count: int, seed: str, jobs: int, most_test_s: float) -> bool:
    """Run a room's mutants that have no result yet, print the report, and return whether the room is good."""
    found = room.find()
    sample = choose(found, count, seed)
    tests = room.tests  # The copies have these, whatever is written meanwhile.
    results = Results(room, tests)
    left = [mutant for mutant in sample if not results.has(mutant)]
    left.sort(key=lambda mutant: _draw(mutant, seed))  # A stopped run has judged a smaller sample.
    print(f"==> {room.name}: {len(sample)} of {len(found)} mutants, {len(left)} to run", flush=True)
    if left:
        with copies(room.root, jobs) as made:
            recording = record_tests(room, tests, made[0], most_test_s)
            for copy in made:
                import_foreign_modules(copy, tests)
            for number, (mutant, row) in enumerate(run(recording, results, left, made), start=1):
                results.add(mutant, row)
                if number % 25 == 0:
                    print(f"    {number} of {len(left)} ran", flush=True)
    return report(room, seed, [results.rows[mutant.key] for mutant in sample], {mutant.key for mutant in found})


def choose(mutants: Collection[Mutant], count: int, seed: str) -> list[Mutant]:
    """Return the `count` mutants whose keys have the smallest digests with this seed, in their order."""
    chosen = {mutant.key for mutant in sorted(mutants, key=lambda mutant: _draw(mutant, seed))[:count]}
    return [mutant for mutant in mutants if mutant.key in chosen]


def _draw(mutant: Mutant, seed: str) -> str:
    return digest(seed.encode(), repr(tuple(mutant.key)).encode())


class Results:
    """The results of a room, in a file that grows by a line with each."""

    def __init__(self, room: Room, tests: Iterable[str]) -> None:
        self._path = room.built("jsonl")
        self._suite = room.digest(tests)
        self._listed = room.listed()
        lines = self._path.read_text().splitlines() if self._path.exists() else []
        self.rows = {_key(row): row for row in map(json.loads, lines)}

    def has(self, mutant: Mutant) -> bool:
        """Return whether there is a result that still holds."""
        row = self.rows.get(mutant.key)
        if row is None or row["code"] != digest(mutant.around.encode()):
            return False
        return row["verdict"] in KILLED or row["suite"] == self._suite or mutant.key in self._listed

    def killers(self, mutant: Mutant) -> list[str]:
        """Return the tests that noticed most mutants of the same file, those of the same function before others."""
        counts: Counter[str] = Counter()
        for key, row in self.rows.items():
            if key.file == mutant.key.file and row["verdict"] in KILLED:
                counts[row["by"]] += 10 if key.function == mutant.key.function else 1
        return [test for test, _ in counts.most_common(MOST_KILLERS)]

    def add(self, mutant: Mutant, row: Row) -> None:
        """Write a result."""
        about = {**mutant.key._asdict(), "line": mutant.line, "operator": mutant.operator}
        whole = {**about, **row, "code": digest(mutant.around.encode()), "suite": self._suite}
        self.rows[mutant.key] = whole
        with self._path.open("a") as file:
            file.write(json.dumps(whole, ensure_ascii=False) + "\n")


def record_tests(room: Room, tests: Sequence[str], copy: Copy, most_test_s: float) -> Recording:
    """Return which test runs which line; only files of tests that changed since the last time are run."""
    path = room.built("tests.json")
    kept = json.loads(path.read_text()) if path.exists() else {}
    code = sorted(str(each.relative_to(room.root)) for each in (room.root / room.folder).rglob("*.py"))
    digests = {file: room.digest([file, *code]) for file in tests}
    stale = [file for file in tests if kept.get(file, {}).get("digest") != digests[file]]
    if stale:
        print(f"    recording {len(stale)} files of tests", flush=True)
        recorded = record(copy, room.folder, stale)
        for test in recorded["failed"]:
            print(f"    {test} fails without any change, and judges nothing")
        parts = {file: _part_of(recorded, file) for file in stale}
        kept |= {file: {"digest": digests[file], **part} for file, part in parts.items()}
        path.write_text(json.dumps(kept))
    recording = Recording(most_test_s)
    for file in tests:
        recording.add(file, kept[file], (room.root / file).read_text())
    return recording


def _part_of(recorded: dict[str, Any], file: str) -> dict[str, Any]:
    """Return what was recorded for one file of tests."""

    def own(names: Iterable[str]) -> list[str]:
        return [name for name in names if name.partition("::")[0] == file]

    seconds = {test: recorded["seconds"][test] for test in own(recorded["seconds"])}
    lines = {
        path: {line: names for line, each in lines.items() if (names := own(each))}
        for path, lines in recorded["lines"].items()
    }
    return {"seconds": seconds, "lines": lines}


def run(
    recording: Recording, results: Results, mutants: Iterable[Mutant], made: Sequence[Copy]
) -> Iterator[tuple[Mutant, Row]]:
    """Run the tests of each mutant, in as many processes as there are copies; yield the results."""
    waiting, running = deque(mutants), dict[Copy, Run]()
    fit: dict[str, bool] = {}
    while waiting or running:
        for copy in made:
            if copy in running and (row := running[copy].poll()):
                yield running.pop(copy).mutant, row
            while waiting and copy not in running:
                mutant = waiting.popleft()
                if tests := recording.tests_of(mutant, results.killers(mutant)):
                    running[copy] = Run(copy, mutant, recording.times_of(tests), fit)
                else:
                    yield mutant, {"verdict": "survived", "tests": 0, "seconds": 0.0, "by": ""}
        time.sleep(0.02)


class Run:
    """Runs the tests of a mutant in a copy, until one of them fails without doubt.

    A failure or a time-out counts only if it repeats: a failed test runs again at once, one that was late runs again
    alone and with a longer time limit. The test must also pass on the unchanged code, after the same tests and alone.
    Else it judges nothing, and the tests after it go on.
    """

    def __init__(self, copy: Copy, mutant: Mutant, tests: Mapping[str, float], fit: dict[str, bool]) -> None:
        """Take tests with their seconds. `fit` tells of tests whether they pass alone; runs share and fill it."""
        self.mutant = mutant
        self._copy = copy
        self._tests = tests
        self._fit = fit
        self._began = time.monotonic()
        self._steps = self._judge()

    def poll(self) -> Row | None:
        """Return the result, or None while tests run; raise `RuntimeError` if they could not run."""
        try:
            next(self._steps)
        except StopIteration as end:
            row: Row = end.value
            return row
        return None

    def _judge(self) -> Generator[None, None, Row]:
        left = [test for test in self._tests if self._fit.get(test, True)]
        verdict, by = "survived", ""
        while left:
            verdict, by = yield from self._try(left)
            if verdict == "survived" or (yield from self._is_sure(verdict, by, left)):
                break
            left = left[left.index(by) + 1 :] if by else []
            verdict, by = "survived", ""
        spent = round(time.monotonic() - self._began, 2)
        return {"verdict": verdict, "tests": len(self._tests), "seconds": spent, "by": by}

    def _is_sure(self, verdict: str, by: str, tests: Sequence[str]) -> Generator[None, None, bool]:
        """Return whether the mutant's failure repeats, and is not one of the unchanged code.

        If no test is to blame (`by` is empty), the tests could not begin; only a time-out is in doubt then.
        """
        if not by:
            return verdict == "killed" or (yield from self._try(tests, REPEAT_FACTOR)) != ("survived", "")
        if self._copy.read(FAILED_AGAIN) != by and (yield from self._try([by], REPEAT_FACTOR)) == ("survived", ""):
            return False
        if by not in self._fit:
            yield from self._check_fitness(by, tests)
        return self._fit[by]

    def _check_fitness(self, test: str, tests: Sequence[str]) -> Generator[None, None, None]:
        """Note whether a test passes on the unchanged code, alone and after the tests that ran before it."""
        before = tests[: tests.index(test) + 1]
        self._fit[test] = (yield from self._passes_unchanged([test], test)) and (
            len(before) == 1 or (yield from self._passes_unchanged(before, test))
        )
        if not self._fit[test]:
            print(f"    {test} fails alone or in another order without any change, and judges nothing", flush=True)

    def _passes_unchanged(self, tests: Sequence[str], last: str) -> Generator[None, None, bool]:
        """Run tests on the unchanged code; return False if the last of them failed. Another that fails says nothing."""
        verdict, by = yield from self._try(tests, REPEAT_FACTOR, is_changed=False)
        return verdict == "survived" or by not in ("", last)

    def _try(
        self, tests: Sequence[str], time_factor: float = 1.0, *, is_changed: bool = True
    ) -> Generator[None, None, tuple[str, str]]:
        """Run tests, with `time_factor` times the usual time limit; return the verdict and the test that gave it."""
        for name in (FAILED, FAILED_AGAIN, RUNNING):
            (self._copy.folder / name).unlink(missing_ok=True)
        times = {test: self._tests[test] for test in tests}
        files = sorted({test.partition("::")[0] for test in tests})
        if is_changed:
            self._copy.change(self.mutant)
        timeout_s = (60 + 10 * sum(times.values())) * time_factor
        self._copy.start(["-x", *files], Chosen(self._copy, times, time_factor), timeout_s)
        try:
            while (status := self._copy.poll()) is None:
                if self._copy.end_hanging(times, time_factor):
                    raise TimeoutError
                yield
        except TimeoutError:
            status = -signal.SIGPROF
        finally:
            self._copy.restore(self.mutant)
        if status == WRONG_USE:
            raise RuntimeError(f"the tests of {self.mutant.key} could not run: {self._copy.output()}")
        if status in (0, NO_TESTS):
            return "survived", ""
        by = self._copy.read(FAILED) or self._copy.read(RUNNING)
        return "timeout" if status == -signal.SIGPROF else "killed", by


def report(room: Room, seed: str, rows: Sequence[Row], found: Collection[Key]) -> bool:
    """Print the share of killed mutants and the survivors; return whether it is enough and all of them are listed."""
    verdicts = Counter(row["verdict"] for row in rows)
    killed = sum(verdicts[verdict] for verdict in KILLED)
    share = killed / len(rows) if rows else 1.0
    listed = room.listed()
    survivors = [row for row in rows if row["verdict"] not in KILLED]
    strangers = [row for row in survivors if not listed.get(_key(row))]
    print(
        f"    {share:.1%} killed: {killed} of {len(rows)}, {verdicts['timeout']} of them by the time limit; "
        f"{len(survivors)} survived, {len(strangers)} of them not listed"
    )
    for row in strangers:
        place = f"{row['file']}:{row['line']}"
        print(f"    {place}: {row['operator']}: {row['before']}  ->  {row['after']}  ({row['tests']} tests)")
    _print_outdated(listed, rows, found)
    numbers = f"[run]\nseed = {json.dumps(seed)}\nmutants = {len(rows)}\nkilled = {killed}\n"
    room.built("toml").write_text("\n".join([numbers, *map(_stanza, strangers)]))
    return share >= FLOOR and not strangers


def _print_outdated(listed: Collection[Key], rows: Iterable[Row], found: Collection[Key]) -> None:
    killed = {_key(row) for row in rows if row["verdict"] in KILLED}
    for key in listed:
        if key in killed or key not in found:
            print(f"    {key.file}: listed, but {'killed' if key in killed else 'gone'}: {key.before}  ->  {key.after}")


def _stanza(row: Row) -> str:
    """Return a survivor as it stands in the list, without a reason."""
    names = ["file", "function", "before", "after", *(["number"] if row["number"] else [])]
    lines = [f"{name} = {json.dumps(row[name], ensure_ascii=False)}" for name in names]
    return "\n".join(["[[survivor]]", *lines, 'reason = ""', ""])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
