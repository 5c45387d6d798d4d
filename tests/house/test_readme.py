"""Check what README.md promises: that its guarantees have tests, its commands exist, and its extras are there."""

from __future__ import annotations

import configparser
import re
import shlex
import subprocess

import pytest

from pyspark_rocketmq.cli.program import PROGRAM
from pyspark_rocketmq.cli.table import SUMMARIES
from tests.house.test_docs import section
from tools.page_blocks import ROOT, find_blocks

README = ROOT / "README.md"
GUARANTEES = 5


def commands() -> list[str]:
    """Return every shell command of README.md, from code blocks and from running text."""
    in_text = re.findall(rf"`((?:\w+=\S+ )?(?:make|{PROGRAM})(?: [^`\n]*)?)`", README.read_text())
    in_blocks = [block.text.splitlines() for block in find_blocks(README) if block.language == "sh"]
    return [line for lines in in_blocks for line in lines] + in_text


def extras() -> set[str]:
    """Return the extras that setup.cfg defines."""
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    return set(config["options.extras_require"])


@pytest.mark.parametrize("command", commands())
def test_commands_of_the_readme_exist(command: str) -> None:
    """Each command in README.md is a target of the Makefile, ours, pip with extras of setup.cfg, or sets up a shell."""
    words = [word for word in shlex.split(command) if "=" not in word]

    if words[0] == "make":
        subprocess.run([*words, "--dry-run"], cwd=ROOT, capture_output=True, timeout=30, check=True)
    elif words[0] == PROGRAM:
        assert words[1:] == [] or words[1] in SUMMARIES
    elif words[:2] == ["pip", "install"]:
        assert set(re.findall(r"\w+", words[2].partition("[")[2])) <= extras()
    else:
        assert words in (["export"], ["python3", "-m", "venv", "venv"], [".", "venv/bin/activate"])


def test_every_extra_of_users_is_listed() -> None:
    """The table of extras has each extra but those of developers."""
    listed = re.findall(r"^\| `(\w+)` \|", section(README, "Install it"), flags=re.MULTILINE)

    assert set(listed) == {"spark", "cli", "monitor", "grpc", "all"} <= extras()


def test_every_guarantee_is_held_by_a_test() -> None:
    """Each guarantee names a test, and the linked file defines that test."""
    lines = re.findall(r"^\d\. .*$", section(README, "What it guarantees"), flags=re.MULTILINE)
    named = [re.search(r"\]\((\S+\.py)\) `(\w+)`$", line) for line in lines]

    assert len(named) == GUARANTEES
    assert all(found and f"def {found[2]}(" in (ROOT / found[1]).read_text() for found in named)


def test_every_place_is_tested_or_says_that_it_is_not() -> None:
    """Each row of the table of places links a test, names the command that tests it, or says *not tested*."""
    rows = re.findall(r"^\| [^|-][^|]* \|[^|]*\| (.*) \|$", section(README, "Where it works"), flags=re.MULTILINE)

    assert len(rows) > 8
    assert [
        row for row in rows[1:] if not re.search(r"\]\(tests/\S+\.py\)|`make |`REAL=all make |not tested", row)
    ] == []
