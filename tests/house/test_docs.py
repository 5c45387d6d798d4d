"""Check that the documentation agrees with the project that it describes."""

from __future__ import annotations

import configparser
import re
import subprocess
from pathlib import Path

import pytest

from pyspark_rocketmq import errors

ROOT = Path(__file__).parents[2]
ARCHITECTURE = ROOT / "docs" / "ARCHITECTURE.md"
GLOSSARY_LINES = 60
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]


def section(page: Path, title: str) -> str:
    """Return the text of the page below the heading `title`, up to the next heading of that level."""
    return page.read_text().split(f"\n## {title}\n")[1].split("\n## ")[0]


def test_help_lists_every_target() -> None:
    """The command `make` without a target lists every target that has a description."""
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z-]+):.*##", makefile, flags=re.MULTILINE))

    listed = subprocess.run(["make"], cwd=ROOT, capture_output=True, text=True, timeout=30, check=True).stdout

    assert targets == set(re.findall(r"^  make (\S+)", listed, flags=re.MULTILINE))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    """Every relative link of a page names an existing file."""
    links = re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text())

    assert [link for link in links if not (page.parent / link).exists()] == []


def test_the_glossary_is_short_and_sorted() -> None:
    """The glossary is the first section of ARCHITECTURE.md, is sorted and short, and explains each word once."""
    glossary = section(ARCHITECTURE, "Glossary")
    words = re.findall(r"^\| (.*?) \|", glossary, flags=re.MULTILINE)[1:]
    single = [word for entry in words for word in entry.split(", ")]

    assert ARCHITECTURE.read_text().index("## Glossary") == ARCHITECTURE.read_text().index("## ")
    assert len(glossary.strip().splitlines()) < GLOSSARY_LINES
    assert words == sorted(words, key=str.lower)
    assert len(set(single)) == len(single)


def test_the_map_shows_every_room() -> None:
    """The map and the import contract have the same packages and modules, in the same order of layers."""
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    layers = config["importlinter:contract:rooms"]["layers"].strip().splitlines()
    depth = {room: number for number, layer in enumerate(layers) for room in re.findall(r"\w+", layer)}
    rows = re.findall(r"^\| (`.*?) \|", section(ARCHITECTURE, "Map"), flags=re.MULTILINE)
    shown = [room for row in rows for room in re.findall(r"`(\w+)`", row)]

    assert sorted(shown) == sorted(depth)
    assert [depth[room] for room in shown] == sorted(depth.values())


def test_rooms_to_come_are_not_there_yet() -> None:
    """No package or module that the map marks as *to come* exists."""
    rows = re.findall(r"^\| (`.*?) \|", section(ARCHITECTURE, "Map"), flags=re.MULTILINE)
    promised = {room for row in rows if "to come" in row for room in re.findall(r"`(\w+)`", row)}
    package = ROOT / "pyspark_rocketmq"

    built = {path.stem for path in package.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}

    assert promised & built == set()


def test_the_failure_table_names_real_errors() -> None:
    """Each error in the table of failures is a class in `pyspark_rocketmq.errors`."""
    middle = re.findall(r"^\|[^|]*\|([^|]*)\|[^|]*\|$", section(ARCHITECTURE, "Failures"), flags=re.MULTILINE)
    named = {name for cell in middle for name in re.findall(r"`(\w+)`", cell)}

    assert named
    assert [name for name in named if not hasattr(errors, name)] == []


def test_every_invariant_is_held_by_a_test() -> None:
    """Each row of the table of invariants names a test, and the linked file defines that test."""
    table = section(ARCHITECTURE, "Invariants").strip().splitlines()[2:]
    rows = [re.fullmatch(r"\|.*\]\((\S+\.py)\) `(\w+)` \|", row) for row in table]

    held = [row for row in rows if row and f"def {row[2]}(" in (ARCHITECTURE.parent / row[1]).read_text()]

    assert len(held) == len(table) > 0


def test_every_dependency_has_its_reason() -> None:
    """Every package that the library or an extra installs is in the table of dependencies."""
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    extras = config["options.extras_require"]
    of_extras = "".join(extras[name] for name in ("spark", "grpc", "cli", "monitor"))
    wanted = config["options"]["install_requires"] + of_extras
    first = re.findall(r"^\|([^|]*)\|", section(ARCHITECTURE, "Dependencies"), flags=re.MULTILINE)
    explained = {name for cell in first for name in re.findall(r"[a-z0-9-]+", cell)}

    assert set(re.findall(r"^[a-z0-9-]+", wanted, flags=re.MULTILINE)) <= explained
