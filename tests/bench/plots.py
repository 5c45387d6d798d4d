"""Draw rates as SVG bar charts: each bar is a median, and a line across its end reaches from minimum to maximum."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from tests.bench.rounds import Spread

Bar = tuple[str, Spread]

_WIDTH, _LABELS, _VALUES = 860, 230, 190
_BAR, _GAP, _TOP = 18, 8, 34
_OWN, _OTHERS = "#2a7ab8", "#9aa5b1"


def bar_chart(title: str, bars: Sequence[Bar], *, others: Sequence[str] = ()) -> str:
    """Return an SVG image with one bar for each (label, spread), top down; bars named in `others` are grey."""
    most = max(spread.most for _, spread in bars)
    height = _TOP + len(bars) * (_BAR + _GAP)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" '
        f'font-family="sans-serif" font-size="12">',
        f'<rect width="{_WIDTH}" height="{height}" fill="white"/>',
        f'<text x="8" y="20" font-size="14" font-weight="bold">{escape(title)}</text>',
    ]
    for number, (label, spread) in enumerate(bars):
        parts.append(_bar(_TOP + number * (_BAR + _GAP), label, spread, most, _OTHERS if label in others else _OWN))
    return "\n".join([*parts, "</svg>", ""])


def _bar(y: int, label: str, spread: Spread, most: float, colour: str) -> str:
    room = _WIDTH - _LABELS - _VALUES
    median, least, furthest = (round(_LABELS + room * value / most) for value in spread)
    middle = y + _BAR // 2
    return "\n".join(
        (
            f'<text x="{_LABELS - 8}" y="{y + 13}" text-anchor="end">{escape(label)}</text>',
            f'<rect x="{_LABELS}" y="{y}" width="{median - _LABELS}" height="{_BAR}" fill="{colour}"/>',
            f'<line x1="{least}" y1="{middle}" x2="{furthest}" y2="{middle}" stroke="black"/>',
            f'<text x="{furthest + 8}" y="{y + 13}">{escape(str(spread))}</text>',
        )
    )
