"""Write a generated file, or with `--check` only compare it with the text that would be written."""

from __future__ import annotations

import sys
from pathlib import Path


def keep(target: Path, text: str) -> int:
    """Write the text, or with `--check` compare it with the file; return 1 if they differ, else 0."""
    if "--check" not in sys.argv:
        target.write_text(text)
    elif not target.exists() or target.read_text() != text:
        print(f"{target.name} is out of date: run {Path(sys.argv[0])}")
        return 1
    return 0
