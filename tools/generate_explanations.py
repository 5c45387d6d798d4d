"""Write the explanations of error codes that the command `explain` shows, from docs/troubleshooting.md.

With `--check` nothing is written; the exit status is 1 if the file is out of date.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tools.generated import keep  # noqa: E402  # the script runs from a plain checkout

SOURCE = ROOT / "docs" / "troubleshooting.md"
TARGET = ROOT / "pyspark_rocketmq" / "cli" / "explanations.json"
_CODE = re.compile(r"`([A-Z][A-Z_]+)`(?: \((\d+)\))?")
_LINK = re.compile(r"\[([^\]]+)\]\([^)]+\)")


def explanations(page: str) -> Iterator[dict[str, Any]]:
    """Yield the explanation of each code in the tables of the troubleshooting page."""
    for section in page.split("\n## ")[1:]:
        area, _, text = section.partition("\n")
        for line in text.splitlines():
            cells = [cell.strip() for cell in line.strip().strip("|").split(" | ")]
            if line.startswith("| `") and (codes := _CODE.findall(cells[0])):
                yield from (explanation(area, code, number, cells) for code, number in codes)


def explanation(area: str, code: str, number: str, cells: list[str]) -> dict[str, Any]:
    """Return the explanation of one code, from the cells of its row."""
    has_retries = len(cells) == 4
    return {
        "code": code,
        "response_code": int(number) if number else None,
        "area": area,
        "means": plain(cells[1]),
        "do": plain(cells[-1]),
        "is_retried": cells[2] == "yes" if has_retries else None,
    }


def plain(text: str) -> str:
    """Return a cell's text without the marks of Markdown; a link is replaced by its words."""
    return _LINK.sub(r"\1", text).replace("`", "").replace("\\|", "|")


def write() -> str:
    """Return the file's text, with one line for each code."""
    lines = (json.dumps(each, ensure_ascii=False) for each in explanations(SOURCE.read_text(encoding="utf-8")))
    return "[\n" + ",\n".join(lines) + "\n]\n"


if __name__ == "__main__":
    sys.exit(keep(TARGET, write()))
