"""Check that the script for the virtual environment reports a missing Python or venv before it installs anything."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "tools" / "make_venv.sh"


def make_venv(directory: Path, python: Path | str) -> subprocess.CompletedProcess[str]:
    """Run the script with this python as its only candidate, and return the process."""
    command = [str(SCRIPT), str(directory), str(python)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def python_that_fails_at(directory: Path, word: str) -> Path:
    """Write a python that fails if its code contains `word`, and return its path."""
    script = directory / "python"
    script.write_text(f'#!/bin/sh\ncase "$2" in *{word}*) exit 1;; esac\nexec {sys.executable} "$@"\n')
    script.chmod(0o755)
    return script


def test_an_old_python_is_named(tmp_path: Path) -> None:
    """If the only Python is too old, the script fails, names the needed version, and says how to choose another."""
    result = make_venv(tmp_path / "venv", python_that_fails_at(tmp_path, "version_info"))

    assert result.returncode == 1
    assert "needs Python 3.11 or newer" in result.stderr
    assert "PYTHON=" in result.stderr
    assert not (tmp_path / "venv").exists()


def test_a_python_without_venv_is_told_the_package(tmp_path: Path) -> None:
    """If the only Python lacks venv, the script fails before it makes anything, and names Debian's package."""
    result = make_venv(tmp_path / "venv", python_that_fails_at(tmp_path, "ensurepip"))

    assert result.returncode == 1
    assert "python3-venv" in result.stderr
    assert not (tmp_path / "venv").exists()
