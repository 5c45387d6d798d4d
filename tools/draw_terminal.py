"""Draw what a program writes to a terminal as an SVG picture without outside resources."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from html import escape
from typing import NamedTuple

__all__ = ["THEMES", "Theme", "draw"]

_CELL, _LINE, _SIZE, _MARGIN = 8.4, 20, 14, 16
_ESCAPE = re.compile(r"\x1b\[([0-9;]*)m")
_WORDS = re.compile(r"\S+(?: \S+)*")
"""Words with single blanks between them; what stands farther apart keeps its own place."""


class Theme(NamedTuple):
    """The colours of a terminal."""

    background: str
    foreground: str
    colours: dict[int, str]
    """Colours by their number in escapes."""


THEMES = {
    "light": Theme(
        "#ffffff", "#24292f", {31: "#cf222e", 32: "#116329", 33: "#9a6700", 34: "#0969da", 35: "#8250df", 36: "#1b7c83"}
    ),
    "dark": Theme(
        "#0d1117", "#c9d1d9", {31: "#ff7b72", 32: "#3fb950", 33: "#d29922", 34: "#58a6ff", 35: "#bc8cff", 36: "#39c5cf"}
    ),
}


class _Run(NamedTuple):
    """Text of one style."""

    column: int
    text: str
    is_bold: bool
    colour: int | None


def draw(lines: Sequence[str], columns: int, theme: Theme) -> str:
    """Return the SVG of a terminal of this width with these lines, which may have escapes for bold and colours."""
    width, height = round(columns * _CELL + 2 * _MARGIN), len(lines) * _LINE + 2 * _MARGIN
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        f'font-family="ui-monospace, \'DejaVu Sans Mono\', Menlo, Consolas, monospace" font-size="{_SIZE}">'
    )
    frame = f'<rect width="{width}" height="{height}" rx="6" fill="{theme.background}"/>'
    texts = [_draw_run(run, row, theme) for row, line in enumerate(lines) for run in _runs(line)]
    return "\n".join([head, frame, *texts, "</svg>\n"])


def _runs(line: str) -> Iterator[_Run]:
    column, is_bold, colour = 0, False, None
    for number, part in enumerate(_ESCAPE.split(line)):
        if number % 2:
            for code in map(int, filter(None, part.split(";") if part else ["0"])):
                if code == 0:
                    is_bold, colour = False, None
                elif code == 1:
                    is_bold = True
                else:
                    colour = code
            continue
        for words in _WORDS.finditer(part):
            yield _Run(column + words.start(), words[0], is_bold, colour)
        column += len(part)


def _draw_run(run: _Run, row: int, theme: Theme) -> str:
    x, y = _MARGIN + run.column * _CELL, _MARGIN + row * _LINE + _SIZE
    colour = theme.foreground if run.colour is None else theme.colours[run.colour]
    weight = ' font-weight="bold"' if run.is_bold else ""
    length = f'textLength="{len(run.text) * _CELL:.1f}" lengthAdjust="spacingAndGlyphs"'
    return f'<text x="{x:.1f}" y="{y}" fill="{colour}"{weight} {length}>{escape(run.text)}</text>'
