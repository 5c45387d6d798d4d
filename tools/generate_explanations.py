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
_ENTRY = re.compile(
    r"\A`([A-Z][A-Z_]+)`\n\n"
    r"(?:Response code (\d+)\. (.+?)\n\n)?"
    r"(.+)\n\n"
    r"- \*\*Look at:\*\* (.+)\n"
    r"- \*\*Do:\*\* (.+)\Z",
    re.DOTALL,
)
"""The parts of an entry: code, response code and whether it is repeated, meaning, what to look at, what to do."""
_IS_RETRIED = {"Repeated automatically.": True, "Not repeated.": False, None: None}
_LINK = re.compile(r"\[([^\]]+)\]\([^)]+\)")


def explanations(page: str) -> Iterator[dict[str, Any]]:
    """Yield the explanation of each code, which has a heading of the third level; raise if one has another form."""
    for section in page.split("\n## ")[1:]:
        area, *entries = section.split("\n### ")
        yield from (explanation(area.partition("\n")[0], entry.strip()) for entry in entries)


def explanation(area: str, entry: str) -> dict[str, Any]:
    """Return the explanation in the text below one heading."""
    if not (found := _ENTRY.match(entry)):
        raise SystemExit(f"{SOURCE.name}: the entry {entry.partition(chr(10))[0]} lacks a meaning, *Look at* or *Do*")
    code, number, repeated, means, look, do = found.groups()
    return {
        "code": code,
        "response_code": int(number) if number else None,
        "area": area,
        "means": plain(means),
        "look_at": plain(look),
        "do": plain(do),
        "is_retried": _IS_RETRIED[repeated],
        "page": f"{SOURCE.relative_to(ROOT)}#{code.lower()}",
    }


def plain(text: str) -> str:
    """Return a text on one line, without the marks of Markdown; a link is replaced by its words."""
    return " ".join(_LINK.sub(r"\1", text).replace("`", "").replace("*", "").split())


def write() -> str:
    """Return the file's text, with one line for each code."""
    lines = (json.dumps(each, ensure_ascii=False) for each in explanations(SOURCE.read_text(encoding="utf-8")))
    return "[\n" + ",\n".join(lines) + "\n]\n"


if __name__ == "__main__":
    sys.exit(keep(TARGET, write()))
