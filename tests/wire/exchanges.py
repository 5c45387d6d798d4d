"""Read the headers and bodies of recorded requests and of their responses."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

FRAMES = Path(__file__).parents[1] / "golden" / "frames"
UNKNOWN_CODE = 9999


class Side(NamedTuple):
    """The header fields and the body of one request or one response."""

    code: int
    fields: dict[str, str]
    body: bytes
    remark: str


class Exchange(NamedTuple):
    """A recorded request and its response; the response is None if there was none."""

    file: str
    request: Side
    response: Side | None


@cache
def exchanges() -> tuple[Exchange, ...]:
    """Return all recorded exchanges, except requests that were sent with an unknown code on purpose."""
    return tuple(exchange for exchange in _read() if exchange.request.code != UNKNOWN_CODE)


def _read() -> Iterator[Exchange]:
    for path in sorted(FRAMES.rglob("*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            response = row["response"]
            yield Exchange(str(path.relative_to(FRAMES)), _side(row["request"]), response and _side(response))


def _side(row: dict[str, Any]) -> Side:
    body = base64.b64decode(row["body_b64"] or "")
    return Side(row["code"], row["header"] or {}, body, row["remark"] or "")
