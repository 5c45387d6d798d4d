"""Test which changes tools/mutants.py makes, and how tools/mutate.py judges them in a small tree."""

from __future__ import annotations

import ast
import json
import signal
import subprocess
import sys
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tools import mutate as mutate_tool
from tools.mutant_runs import FAILED_AGAIN, Recording
from tools.mutants import find_mutants

ROOT = Path(__file__).parents[2]
CODE = '''"""Clip numbers."""

LIMIT = 10


def clip(value: int) -> int:
    """Return the value, but at most the limit."""
    if value > LIMIT:
        return LIMIT
    return value
'''
TESTS = '''"""Test the limit."""

from pyspark_rocketmq.planning.clip import clip


def test_clip() -> None:
    assert [clip(value) for value in (9, 10, 11, 12)] == [9, 10, 10, 10]
'''
DEPENDENT_TESTS = '''"""Test in an order that mutants do not keep: only the second test runs the code."""

from pyspark_rocketmq.planning.clip import clip

SEEN = []


def test_first() -> None:
    SEEN.append(1)


def test_second() -> None:
    assert SEEN and clip(9) == 9
'''
LATE = -signal.SIGPROF
EQUIVALENT = ("if value > LIMIT:", "if value >= LIMIT:")


def changes(text: str) -> list[str]:
    """Return the changed line of each mutant of a text."""
    return [mutant.key.after for mutant in find_mutants("a.py", text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x = a <= b", ["x = a < b", "x = a >= b"]),
        ("x = a is not b", ["x = a is b"]),
        ("x = a not in b", ["x = a in b"]),
        ("x = a + b", ["x = a - b"]),
        ("x -= y", ["x += y"]),
        ("x |= y", ["pass"]),
        ("x = a and b or c", ["x = a and b and c", "x = a or b or c"]),
        ("x = not a", ["x = a"]),
        ("x = 0", ["x = 1", "x = (-1)"]),
        ("x = True", ["x = False"]),
        ("return x", ["return None"]),
        ("f(x)", ["pass"]),
        ("break", ["continue"]),
        ("if a: x", ["if True: x", "if False: x"]),
        ("while a: x", ["while False: x"]),
        ("x = [a for a in b if c]", ["x = [a for a in b if True]", "x = [a for a in b if False]"]),
        ("x = min(a)", ["x = max(a)"]),
        ("def f(a=1): x", ["def f(a=2): x", "def f(a=0): x"]),
    ],
)
def test_changes(text: str, expected: list[str]) -> None:
    """Each operator changes the text that it is about, and nothing else."""
    assert changes(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        '"""A docstring."""',
        "x: Literal[1]",
        "def f(a: Literal[1]) -> Literal[2]: x",
        "__all__ = [1]",
        "def __repr__(): return 1",
        "raise E(1 if a > b else 2)",
        "_log.warning(a > b)",
        "assert a > b",
        "x = 'one word' if a > b else c",
        "x = f'{1 + 1}'",
        "x = a + 'b'",
        "Alias = int | Queue | None",
        "x = zip(a, strict=True)",
        "@f(1)\ndef g(): x",
        "if TYPE_CHECKING: x = 1",
    ],
)
def test_what_no_test_should_assert_stays(text: str) -> None:
    """Annotations, texts for people, decorators, assertions and logged lines are not changed."""
    assert changes(text) == []


def test_lines_keep_their_numbers() -> None:
    """A mutant has as many lines as the original, and can be compiled."""
    text = "if f(\n    a,\n    b,\n):\n    g(\n        1\n    )\nx = (\n    a\n    or\n    b\n)\n"

    mutants = find_mutants("a.py", text)

    assert {mutant.operator for mutant in mutants} == {"condition", "dropped", "constant", "and/or"}
    assert {mutant.text.count("\n") for mutant in mutants} == {text.count("\n")}
    assert all(ast.parse(mutant.text) for mutant in mutants)


def test_equal_changes_have_different_keys() -> None:
    """Two mutants with equal lines are numbered; a line further up changes no key."""
    text = "def f():\n    g()\n    g()\n"

    keys = [mutant.key for mutant in find_mutants("a.py", text)]

    assert [key.number for key in keys] == [0, 1]
    assert [mutant.key for mutant in find_mutants("a.py", f"x = y\n{text}")] == keys


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tree with one module, whose test leaves one mutant alive: the one that changes nothing."""
    root = tmp_path_factory.mktemp("tree")
    files = {
        "setup.cfg": "[tool:pytest]\naddopts = --import-mode=importlib\nfilterwarnings = error\n",
        "pyspark_rocketmq/__init__.py": "",
        "pyspark_rocketmq/planning/__init__.py": "",
        "pyspark_rocketmq/planning/clip.py": CODE,
        "tests/planning/test_clip.py": TESTS,
        "tests/planning/test_dependent.py": DEPENDENT_TESTS,
    }
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def mutate(root: Path) -> subprocess.CompletedProcess[str]:
    """Run all mutants of the tree's room that have no result yet."""
    command = [sys.executable, str(ROOT / "tools" / "mutate.py"), "--root", str(root), "planning"]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_survivors_need_a_reason(tree: Path) -> None:
    """A survivor fails the run until it is listed; results of a run are used again, and the tree is not changed."""
    first = mutate(tree)
    lines = (tree / "build/mutants/planning.jsonl").read_text().splitlines()
    survivors = [row for row in map(json.loads, lines) if row["verdict"] == "survived"]
    written = (tree / "build/mutants/planning.toml").read_text()
    (tree / "tests/mutants").mkdir()
    (tree / "tests/mutants/planning.toml").write_text(written.replace('""', '"Both return the limit."'))
    second = mutate(tree)

    assert "8 of 8 mutants, 8 to run" in first.stdout, first.stderr
    assert "87.5% killed" in first.stdout
    assert [(row["before"], row["after"]) for row in survivors] == [EQUIVALENT]
    assert (first.returncode, second.returncode) == (1, 0)
    assert "8 of 8 mutants, 0 to run" in second.stdout
    assert (tree / "pyspark_rocketmq/planning/clip.py").read_text() == CODE
    assert "test_dependent.py::test_second fails alone or in another order without any change" in first.stdout


class ScriptedCopy:
    """Stands for a copy of the tree in which each process ends as planned; the test `b` fails, if one does."""

    def __init__(self, folder: Path, fails_again: bool, statuses: list[int]) -> None:
        self.folder = folder
        self.fails_again = fails_again
        self.statuses = statuses
        self.is_changed = self.others_fail = False
        self.ran: list[tuple[bool, str]] = []

    def change(self, mutant: object) -> None:
        self.is_changed = True

    def restore(self, mutant: object) -> None:
        self.is_changed = False

    def start(self, arguments: list[str], chosen: Any, timeout: float) -> None:
        self.ran.append((self.is_changed, "".join(chosen.seconds)))

    def poll(self) -> int:
        return self.statuses.pop(0)

    def read(self, name: str) -> str:
        if name == FAILED_AGAIN and not self.fails_again:
            return ""
        return "a" if self.others_fail and not self.is_changed and self.ran[-1][1] == "ab" else "b"

    def output(self) -> str:
        return ""


@pytest.mark.parametrize(
    ("fails_again", "statuses", "verdict", "by", "repeats"),
    [
        (True, [0], "survived", "", []),
        (True, [1, 0, 0], "killed", "b", [(False, "b"), (False, "ab")]),
        (True, [1, 1, 0], "survived", "", [(False, "b"), (True, "c")]),
        (True, [1, 0, 1, 0], "survived", "", [(False, "b"), (False, "ab"), (True, "c")]),
        (False, [1, 1, 0, 0], "killed", "b", [(True, "b"), (False, "b"), (False, "ab")]),
        (False, [1, 0, 0], "survived", "", [(True, "b"), (True, "c")]),
        (False, [LATE, LATE, 0, 0], "timeout", "b", [(True, "b"), (False, "b"), (False, "ab")]),
        (False, [LATE, 0, 0], "survived", "", [(True, "b"), (True, "c")]),
    ],
)
def test_only_what_repeats_counts(
    tmp_path: Path, fails_again: bool, statuses: list[int], verdict: str, by: str, repeats: list[tuple[bool, str]]
) -> None:
    """A failure or time-out must repeat, and vanish without the change; else the tests after it go on."""
    copy: Any = ScriptedCopy(tmp_path, fails_again, list(statuses))
    run = mutate_tool.Run(copy, find_mutants("a.py", "x = 0")[0], dict.fromkeys("abc", 0.1), {})

    row = run.poll()

    assert row and (row["verdict"], row["by"]) == (verdict, by)
    assert copy.ran == [(True, "abc"), *repeats]
    assert not copy.statuses


def test_another_test_that_fails_takes_no_blame_off_a_mutant(tmp_path: Path) -> None:
    """If on the unchanged code another test fails before the one in question, that one still counts."""
    copy: Any = ScriptedCopy(tmp_path, True, [1, 0, 1])
    copy.others_fail = True
    row = mutate_tool.Run(copy, find_mutants("a.py", "x = 0")[0], dict.fromkeys("abc", 0.1), {}).poll()

    assert row and (row["verdict"], row["by"]) == ("killed", "b")


def test_tests_that_speak_of_the_change_run_first() -> None:
    """First come likely tests, then those whose names share rare words with the change, then files with fast tests."""
    file = "pyspark_rocketmq/planning/clip.py"
    mutant = next(each for each in find_mutants(file, CODE) if each.key.function == "clip")
    seconds = {"tests/a.py::test_fast": 0.1, "tests/b.py::test_limit": 2.0, "tests/c.py::test_slow": 3.0}
    recording = Recording(seconds=seconds, runners={file: {mutant.line: set(seconds)}})

    fast, of_limit, slow = seconds
    assert recording.tests_of(mutant) == [of_limit, fast, slow]
    assert recording.tests_of(mutant, [slow]) == [slow, of_limit, fast]
    assert replace(recording, most_test_s=2.1).tests_of(mutant, [slow]) == [slow]
    assert replace(recording, most_test_s=2.1).tests_of(mutant) == [of_limit, fast]


def test_what_runs_at_import_is_judged_by_importers() -> None:
    """A constant is judged by tests that run its module, and by those that only import it."""
    file = "pyspark_rocketmq/planning/clip.py"
    mutant = next(each for each in find_mutants(file, CODE) if each.key.before == "LIMIT = 10")
    recording = Recording()
    recording.add("tests/a.py", {"seconds": {"tests/a.py::test_runs": 0.1}, "lines": {file: {"8": ["tests/a.py"]}}}, "")
    recording.add("tests/b.py", {"seconds": {"tests/b.py::test_imports": 0.2}, "lines": {}}, TESTS)
    recording.add("tests/c.py", {"seconds": {"tests/c.py::test_other": 0.3}, "lines": {}}, "")

    assert recording.tests_of(mutant) == ["tests/a.py::test_runs", "tests/b.py::test_imports"]


@pytest.mark.parametrize("path", sorted((ROOT / "tests" / "mutants").glob("*.toml")), ids=lambda path: path.stem)
def test_listed_survivors_have_reasons(path: Path) -> None:
    """Each list belongs to a room whose mutants are run, has enough of them killed, and has all others, complete."""
    listed = tomllib.loads(path.read_text())
    entries, run = listed["survivor"], listed["run"]

    assert path.stem in mutate_tool.TESTS
    assert run["killed"] / run["mutants"] >= mutate_tool.FLOOR
    assert len(entries) >= run["mutants"] - run["killed"]
    assert [entry for entry in entries if not entry.keys() >= {"file", "function", "before", "after"}] == []
    assert [entry for entry in entries if len(entry["reason"].split()) < 4] == []
