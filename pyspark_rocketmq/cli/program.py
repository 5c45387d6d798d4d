"""Name the program: as help shows it, and as the user's shell starts it."""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

__all__ = ["COMPLETE_VARIABLE", "PROGRAM", "describe_steps", "name_program"]

PROGRAM = "pyspark-rocketmq"
COMPLETE_VARIABLE = "_PYSPARK_ROCKETMQ_COMPLETE"
"""The environment variable by which a shell asks for completions."""


def name_program(env: Mapping[str, str]) -> str:
    """Return the words that start the program of this Python in the user's shell."""
    script = Path(sys.executable).with_name(PROGRAM)
    found = shutil.which(PROGRAM, path=env.get("PATH"))
    if found and script.exists() and script.samefile(found):
        return PROGRAM
    return shlex.quote(_from_here(script)) if script.exists() else f"{shlex.quote(sys.executable)} -m pyspark_rocketmq"


def describe_steps(env: Mapping[str, str], *steps: tuple[str, str]) -> tuple[str, ...]:
    """Return commands with their meanings, as the user's shell can start them, from pairs of words and meaning."""
    program, width = name_program(env), max(len(words) for words, _ in steps) + 2
    return tuple(f"{program} {words:{width}}# {meaning}" for words, meaning in steps)


def _from_here(path: Path) -> str:
    """Return a path relative to the working directory, if it lies below that."""
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)
