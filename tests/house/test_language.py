"""Test tools/check_language.py on good and bad samples."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import check_language

GOOD = {
    "module": '"""Cut bytes into frames.\n\nWhy a copy? It frees the chunk.\n"""',
    "statement": '"""Frames.\n\nThe invariant:\n"""',
    "function": 'def f():\n    """Return the next frame; None if there is none."""',
    "verb that looks like a plural": 'def f():\n    """Press on."""',
    "verb before of": 'def f():\n    """Dispose of the connection."""',
    "property": '@property\ndef size(self):\n    """Size in bytes."""',
    "fixture": '@pytest.fixture()\ndef house():\n    """A copy of the packages."""',
    "class": 'class Gap:\n    """Offsets without messages."""',
    "attribute": 'LIMIT = 5\n"""Whether there is a limit, and which."""',
    "test": 'def test_it():\n    """`wait()` returns at its deadline."""',
    "test without a docstring": "def test_it():\n    pass",
    "name": "class DeadLetter:\n    look_up = 1",
}
BAD = {
    ("module", "question"): '"""How are bytes cut?"""',
    ("module", "no period"): '"""Cut bytes into frames"""',
    ("module", "question last"): '"""Cut bytes.\n\nAnd then?"""',
    ("function", "article"): 'def f():\n    """The next frame."""',
    ("function", "question word"): 'def f():\n    """Whether there is a frame."""',
    ("function", "third person"): 'def f():\n    """Returns the next frame."""',
    ("function", "participle"): 'def f():\n    """Waiting for a frame."""',
    ("function", "noun before of"): 'async def f():\n    """Frame of the session."""',
    ("function", "statement"): 'def f():\n    """Retention may remove it."""',
    ("function", "name"): 'def f():\n    """AvailableNow ends there."""',
    ("function", "code"): 'def f():\n    """`queue_id` as `queueId`."""',
    ("function", "method"): 'class Gap:\n    def f(self):\n        """Offsets without messages."""',
    ("noun", "class"): 'class Gap:\n    """What is not there."""',
    ("noun", "attribute"): 'LIMIT_S = 5\n"""How long it may take."""',
    ("noun", "property"): '@property\ndef size(self):\n    """How many bytes."""',
    ("test", "fragment"): 'def test_it():\n    """And only then."""',
    ("test", "no period"): 'def test_it():\n    """A frame is cut once"""',
    ("test", "no capital"): 'def test_it():\n    """a frame is cut once."""',
    ("test", "two words"): 'def test_it():\n    """Only once."""',
    ("retired", "class"): "class _Manner:\n    pass",
    ("retired", "word"): "def send_farewell():\n    pass",
    ("retired", "argument"): "def f(last_wish):\n    pass",
    ("phrase", "docstring"): 'class Gap:\n    """Offsets for whoever asks."""',
    ("phrase", "comment"): "# For want of a better word.",
}


def rules(folder: Path, text: str, path: str = "tests/pull/test_sample.py") -> list[str]:
    """Write the text to a file, and return the names of the rules that it breaks."""
    file = folder / path
    file.parent.mkdir(parents=True)
    file.write_text(text)
    return [finding.rule for finding in check_language.check_file(file, folder)]


@pytest.mark.parametrize("sample", GOOD.values(), ids=GOOD)
def test_good_samples_pass(tmp_path: Path, sample: str) -> None:
    """A sample that keeps all rules has no finding."""
    assert rules(tmp_path, sample) == []


@pytest.mark.parametrize(("broken", "sample"), BAD.items(), ids=" ".join)
def test_bad_samples_are_found(tmp_path: Path, broken: tuple[str, str], sample: str) -> None:
    """A sample that breaks one rule has exactly one finding, which names that rule."""
    assert rules(tmp_path, sample) == [broken[0]]


def test_pages_are_checked_for_phrases(tmp_path: Path) -> None:
    """A retired phrase in a Markdown page is found, with its line; one in quoted code is not."""
    page = tmp_path / "README.md"
    page.write_text("# What is it?\n\nA queue for whoever reads it, before `vouched`.\n")

    assert [str(finding) for finding in check_language.check_file(page, tmp_path)] == ["README.md:3: phrase: whoever"]


@pytest.mark.parametrize(("path", "expected"), [("pyspark_rocketmq/a.py", ["phrase"]), ("tests/a.py", [])])
def test_texts_are_checked_in_packages_only(tmp_path: Path, path: str, expected: list[str]) -> None:
    """A retired phrase in an error text is found in a package, but not in a test, which may quote it."""
    assert rules(tmp_path, 'raise ValueError("nobody knows")', path) == expected


def test_a_finding_names_its_room_and_line(tmp_path: Path) -> None:
    """A finding, as text, shows path, line, rule and the wrong text; its `room` is the package of its file."""
    (tmp_path / "pyspark_rocketmq" / "net").mkdir(parents=True)
    file = tmp_path / "pyspark_rocketmq" / "net" / "pool.py"
    file.write_text('\n\ndef lend():\n    """A connection."""\n')

    (finding,) = check_language.check_file(file, tmp_path)

    assert finding.room == "pyspark_rocketmq/net"
    assert str(finding) == "pyspark_rocketmq/net/pool.py:3: function: lend: A connection."


@pytest.mark.parametrize("name", ["HTTPServer_name", "httpServerName", "_HTTP_SERVER_NAME"])
def test_names_are_split_into_words(name: str) -> None:
    """A name is split into the same lower-case words in every style of writing."""
    assert check_language.words_of(name) == ["http", "server", "name"]


def test_the_project_has_no_findings(capsys: pytest.CaptureFixture[str]) -> None:
    """The language check finds nothing in the whole project."""
    assert check_language.main([]) == 0, capsys.readouterr().out


def test_counts_are_by_room_and_rule(capsys: pytest.CaptureFixture[str]) -> None:
    """The table of counts has a row per package with findings, a column per rule, and a row of sums."""
    findings = [check_language.Finding(room, "x.py:1", rule, "") for room, rule in [("a", "test"), ("b", "test")]]

    check_language.print_counts(findings)

    rows = {line.split()[0]: line.split()[1:7] for line in capsys.readouterr().out.splitlines()}
    assert rows["room"] == list(check_language.RULES)
    assert rows["a"] == ["0", "0", "0", "1", "0", "0"]
    assert rows["all"] == ["0", "0", "0", "2", "0", "0"]
