"""Render a notebook as a page: its texts, its code, and the outputs that are kept in it."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple


class NotebookPage(NamedTuple):
    """A notebook as Markdown, and the pictures that it shows by their file names."""

    text: str
    pictures: dict[str, bytes]


def render_notebook(path: Path) -> NotebookPage:
    """Return a notebook as a page; its pictures are to be put beside it."""
    cells = json.loads(path.read_text())["cells"]
    pictures: dict[str, bytes] = {}
    parts = [part for cell in cells for part in _render_cell(cell, path.stem, pictures)]
    return NotebookPage("\n\n".join(parts) + "\n", pictures)


def _render_cell(cell: dict[str, Any], name: str, pictures: dict[str, bytes]) -> Iterator[str]:
    source = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        yield source
    elif source:
        yield _fence("python", source)
        yield from (_render_output(output, name, pictures) for output in cell["outputs"])


def _render_output(output: dict[str, Any], name: str, pictures: dict[str, bytes]) -> str:
    """Return one output; a picture is added to `pictures`."""
    data = output.get("data", {})
    if "image/png" in data:
        picture = f"{name}-{len(pictures) + 1}.png"
        pictures[picture] = base64.b64decode("".join(data["image/png"]))
        return f"![Output of the code above]({picture})"
    return _fence("text", "".join(output.get("text") or data["text/plain"]))


def _fence(language: str, text: str) -> str:
    fence = "`" * 3
    while fence in text:
        fence += "`"
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"
