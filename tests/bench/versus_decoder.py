"""Decode stored responses with the decoder of any commit, for `versus.py`: both commits are driven alike.

The decoder of the checkout in `PYTHONPATH` is imported, whatever its modules are called there. All sides decode the
same file, and for each response they build as many fields of a block as their commit has.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from pyspark_rocketmq.model import Block, MessageQueue, QueueRange

NO_MAP = "no map"
_BLOCK_FIELDS, _RANGE_FIELDS = len(Block._fields) - 2, len(QueueRange._fields) - 1
_queue = cache(MessageQueue)
Stored = tuple[memoryview, tuple[Any, ...], tuple[Any, ...]]
"""A response's records, the fields of its range, and the other fields of its block."""


def find(name: str, *modules: str) -> Any:
    """Return a name of the package from the first of these modules that has it."""
    for module in modules:
        try:
            return getattr(import_module(f"pyspark_rocketmq.{module}"), name)
        except (ImportError, AttributeError):
            continue
    raise ImportError(f"no {name} in {', '.join(modules)}")


@cache
def load(file: str) -> list[Stored]:
    """Return the responses of a file that the worker's task `dump` wrote, with the fields that this commit has."""
    data, at, responses = Path(file).read_bytes(), 0, list[Stored]()
    for line in Path(f"{file}.coverage").read_text().splitlines():
        end = at + 4 + int.from_bytes(data[at : at + 4], "big")
        (queue, *wanted), *rest = json.loads(line)
        fields = (_queue(*queue), *wanted[:_RANGE_FIELDS])
        responses.append((memoryview(data[at + 4 : end]), fields, tuple(rest[:_BLOCK_FIELDS])))
        at = end
    return responses


@cache
def decoder_of(columns: str) -> Any:
    """Return a decoder of this commit for a choice of columns."""
    default = find("default_columns", "decode.columns", "decode.layout")(
        find("Layout", "decode.columns", "decode.layout").ROCKETMQ
    )
    chosen = tuple(name for name in default if columns != NO_MAP or name != "properties")
    content = find("Content", "decode.columns", "decode.rows")(system_properties=columns == "all properties")
    return find("ColumnDecoder", "decode.decoder", "decode.columns")(chosen, content)


def blocks(responses: list[Stored]) -> Iterator[Block]:
    """Yield a block for each response; blocks are built anew each time, as in a task."""
    for data, fields, rest in responses:
        yield Block(data, QueueRange(*fields), *rest)


def decode(file: str, count: int, columns: str) -> dict[str, float]:
    """Decode the responses of a file until `count` messages are decoded; return their number and the seconds."""
    responses, decoder, messages = load(file), decoder_of(columns), 0
    began = time.perf_counter()
    while messages < count:
        messages += sum(each.batch.num_rows for each in decoder.decode_all(blocks(responses)))
    return {"messages": messages, "seconds": time.perf_counter() - began}


def main() -> None:
    """Answer each line of stdin, a task as JSON, with a line of JSON."""
    for line in sys.stdin:
        task = json.loads(line)
        print(json.dumps(decode(task["file"], task["count"], task["columns"])), flush=True)


if __name__ == "__main__":
    main()
