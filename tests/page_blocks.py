"""Take commands and programs from pages, so that tests run what readers see."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path

from tools.page_blocks import ROOT, name_of, runnable_blocks


def read_blocks(page: str, test: str | Path) -> list[str]:
    """Return the blocks of a page that the page says are run by this test file."""
    found = [block.text for block in runnable_blocks(ROOT / page) if block.test == name_of(Path(test))]
    assert found, f"{page} has no such block"
    return found


def fill_in(command: str, given: Mapping[str, str]) -> list[str]:
    """Return the words of a shell command, with the page's examples replaced; fail if it has not each of them."""
    words = shlex.split(command.replace("\\\n", " "))
    assert given.keys() <= set(words), f"not in the command: {given.keys() - set(words)}"
    return [given.get(word, word) for word in words]
