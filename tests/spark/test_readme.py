"""Test that the Python blocks in README.md, one after the other, print what README.md shows."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.page_blocks import read_blocks
from tests.spark.fixtures import ROOT, spark_environment
from tools.page_blocks import find_blocks

pytestmark = pytest.mark.spark


def in_any_order(text: str) -> list[str]:
    """Return the lines of a text, sorted, since tasks give their rows in any order; empty ones are left out."""
    return sorted(line.rstrip() for line in text.splitlines() if line.strip())


def test_the_programs_of_the_readme_print_what_it_shows(tmp_path: Path) -> None:
    """The blocks are one program, which prints the tables that stand below them, and nothing else."""
    program = tmp_path / "readme.py"
    program.write_text("\n".join(read_blocks("README.md", __file__)))

    environment = {**os.environ, **spark_environment()}
    done = subprocess.run(
        [sys.executable, str(program)], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=180
    )

    assert done.returncode == 0, done.stderr[-2000:]
    shown = "".join(block.text for block in find_blocks(ROOT / "README.md") if block.language == "text")
    assert in_any_order(done.stdout) == in_any_order(shown)
