"""Make dead letters of rows that cannot be sent.

A dead letter has the row's body, keys, tags and properties as far as a broker takes them, and the properties CAUSE and
ORIGIN_TOPIC. A body that is null or empty becomes a space, and one that is too long is cut. Such rows are few, so they
are Python objects here.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa

from ..errors import shown
from ..model import CAUSE, ORIGIN_TOPIC, SendRequest
from ..wire.compression import compression_of, decompress
from ..wire.properties import is_reserved, is_utf8, parse_properties
from .columns import Columns, read_columns
from .faults import Fault

__all__ = ["CAUSE", "ORIGIN_TOPIC", "DeadLetter", "letter_of_request", "letters_of_rows", "to_batch"]

_MOST_CAUSE = 1000
_PROPERTY = pa.struct([("key", pa.string()), ("value", pa.binary())])


class DeadLetter(NamedTuple):
    """A row that cannot be sent, and the reason."""

    row_id: str
    """Differs for different rows, and is the same when a replay finds the same row at the same place."""
    body: bytes
    keys: str
    tags: str
    properties: Mapping[str, bytes]
    origin_topic: str
    cause: str


def letters_of_rows(
    batch: pa.RecordBatch, topic: str | None, faults: Mapping[int, Fault], place: str, first: int
) -> list[DeadLetter]:
    """Return the dead letters of the rows in `faults`, which has the form {number within the partition: fault}.

    `first` is the number of the batch's first row, and `place` says which partition it is.
    """
    numbers = sorted(faults)
    columns = read_columns(batch.take(pa.array([number - first for number in numbers])), topic)
    return [_letter_of_row(columns, index, f"{place}/{number}", faults[number]) for index, number in enumerate(numbers)]


def _letter_of_row(columns: Columns, index: int, place: str, fault: Fault) -> DeadLetter:
    topic = columns.topic if isinstance(columns.topic, pa.Scalar) else columns.topic[index]
    letter = DeadLetter(
        place,
        columns.body[index].as_py() or b"",
        _text(columns.keys, index),
        _text(columns.tags, index),
        _properties(columns, index),
        shown((topic.as_py() or b"").decode(errors="backslashreplace")),
        f"{fault.column}: {fault.what}",
    )
    # The cause may tell what the cluster is like now; a replay of the row finds it otherwise.
    content = hashlib.blake2b(
        repr(letter._replace(cause="")).encode("utf-8", "backslashreplace"), digest_size=16
    ).hexdigest()
    return letter._replace(row_id=f"{place}/{content}")


def _text(texts: pa.Array | None, index: int) -> str:
    text = b"" if texts is None else texts[index].as_py() or b""
    return text.decode() if is_utf8(text) else ""


def _properties(columns: Columns, index: int) -> dict[str, bytes]:
    if columns.properties is None:
        return {}
    starts, names, values = columns.properties
    own = slice(int(starts[index]), int(starts[index + 1]))
    pairs = zip(names[own].to_pylist(), values[own].to_pylist(), strict=True)
    return {name.decode(): value for name, value in pairs if name and is_utf8(name)}


def letter_of_request(request: SendRequest, cause: str) -> DeadLetter:
    """Return the dead letter of the one row of a request that a broker refused."""
    properties = parse_properties(request.properties)
    packing = compression_of(request.sys_flag)
    own = {name: value.encode() for name, value in properties.items() if not is_reserved(name)}
    return DeadLetter(
        properties["UNIQ_KEY"],
        bytes(request.body) if packing is None else decompress(request.body, packing),
        properties.get("KEYS", ""),
        properties.get("TAGS", ""),
        own,
        request.topic,
        cause,
    )


def to_batch(letters: Collection[DeadLetter], most_bytes: int, *, is_bare: bool = False) -> pa.RecordBatch:
    """Return dead letters as rows to be encoded, with bodies of at most `most_bytes`.

    With `is_bare`, leave out keys, tags and properties of the rows, because brokers would not take them.
    """
    columns = {
        "body": pa.array([letter.body[:most_bytes] or b" " for letter in letters], pa.binary()),
        "properties": pa.array([_entries(letter, is_bare) for letter in letters], pa.list_(_PROPERTY)),
        "rowId": pa.array([letter.row_id for letter in letters], pa.string()),
    }
    if not is_bare:
        columns["keys"] = pa.array([letter.keys for letter in letters], pa.string())
        columns["tags"] = pa.array([letter.tags for letter in letters], pa.string())
    return pa.RecordBatch.from_pydict(columns)


def _entries(letter: DeadLetter, is_bare: bool) -> Sequence[Mapping[str, object]]:
    properties = {} if is_bare else dict(letter.properties)
    properties[CAUSE] = shown(letter.cause, _MOST_CAUSE).encode()
    if letter.origin_topic.strip():
        properties[ORIGIN_TOPIC] = letter.origin_topic.encode()
    return [{"key": name, "value": value} for name, value in properties.items()]
