"""Check the columns of a DataFrame to write, and give each column one type.

Text and bytes become texts with 64-bit offsets, lists and maps become one array of entries with the place at which the
entries of each row begin, and numbers become numpy arrays in which 0 stands for null.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as types

from ..errors import ColumnError
from .arrays import Integers, as_texts, constant, join, texts_of_rows, to_arrow

__all__ = ["COLUMNS", "Columns", "Entries", "NamedQueues", "check_schema", "read_columns"]


class Entries(NamedTuple):
    """The properties of all rows: those of row i are the entries `[starts[i], starts[i + 1])`."""

    starts: Integers
    names: pa.Array
    values: pa.Array


class NamedQueues(NamedTuple):
    """The queue that each row names: its number, or -1 for null, and its broker, if the DataFrame names brokers."""

    numbers: Integers
    broker_names: pa.Array | None


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of some rows; None for a column that the DataFrame does not have."""

    count: int
    body: pa.Array
    topic: pa.Array | pa.Scalar
    """The topic of each row, or the one topic of all rows."""
    tags: pa.Array | None
    keys: pa.Array | None
    properties: Entries | None
    sharding_key: pa.Array | None
    queues: NamedQueues | None
    delay_level: Integers | None
    deliver_ms: Integers | None
    flag: Integers | None
    row_id: pa.Array | None


# --- the table of columns --------------------------------------------------------------------------------------------


def _is_text(kind: pa.DataType) -> bool:
    return bool(types.is_string(kind) or types.is_large_string(kind))


def _is_text_or_bytes(kind: pa.DataType) -> bool:
    return _is_text(kind) or types.is_binary(kind) or types.is_large_binary(kind)


def _is_list(kind: pa.DataType) -> bool:
    return bool(types.is_list(kind) or types.is_large_list(kind))


def _are_keys(kind: pa.DataType) -> bool:
    return _is_text_or_bytes(kind) or (_is_list(kind) and _is_text(kind.value_type))


def _are_properties(kind: pa.DataType) -> bool:
    if types.is_map(kind):
        return _is_text(kind.key_type) and _is_text(kind.item_type)
    if not _is_list(kind) or not types.is_struct(kind.value_type):
        return False
    if sorted(field.name for field in kind.value_type) != ["key", "value"]:
        return False
    fields = {field.name: field.type for field in kind.value_type}
    return _is_text(fields["key"]) and _is_text_or_bytes(fields["value"])


def _is_time(kind: pa.DataType) -> bool:
    return bool(types.is_int64(kind) or (types.is_timestamp(kind) and kind.tz is not None))


_MILLISECONDS = {"s": (1000, 1), "ms": (1, 1), "us": (1, 1000), "ns": (1, 10**6)}
"""{unit of a timestamp: (factor, divisor) that make milliseconds of it}."""


class ColumnRule(NamedTuple):
    """The rule of one column: its types, in words and as a test function, and what its values and nulls mean."""

    wanted: str
    accepts: Callable[[pa.DataType], bool]
    meaning: str
    null: str
    """The meaning of a null, for the page for users."""
    alias: str | None = None
    """The column's other name."""


_ERROR = "the row cannot be sent"
COLUMNS: Mapping[str, ColumnRule] = {
    "body": ColumnRule(
        "BINARY or STRING",
        _is_text_or_bytes,
        "The message's body, required. An empty one cannot be sent.",
        _ERROR,
        "value",
    ),
    "topic": ColumnRule("STRING", _is_text, "The topic of each row, if the option `topic` is not given.", _ERROR),
    "tags": ColumnRule("STRING", _is_text, "One tag, without `|`.", "no tag"),
    "keys": ColumnRule(
        "STRING, BINARY or ARRAY<STRING>",
        _are_keys,
        "Keys to look messages up by, with spaces between them. With `ordering=key` a column named `key` is the "
        "sharding key, too.",
        "no keys; in an array it is left out",
        "key",
    ),
    "properties": ColumnRule(
        "MAP<STRING, STRING> or ARRAY<STRUCT<key: STRING, value: BINARY>>",
        _are_properties,
        "Properties of the user's. Blank names and values, control characters 1 and 2, and names of RocketMQ's own "
        "cannot be sent, nor more than 32767 bytes of properties.",
        "no properties; as a value it is left out",
        "headers",
    ),
    "shardingKey": ColumnRule(
        "STRING", _is_text, "Selects the queue; see `queueSelector` and `ordering`.", "no key: any queue"
    ),
    "queueId": ColumnRule(
        "INT",
        types.is_int32,
        "The queue, which must be writable. With `brokerName` if several brokers have the topic.",
        "the key's queue, without a key any",
        "partition",
    ),
    "brokerName": ColumnRule(
        "STRING", _is_text, "The broker of the queue; not without `queueId`.", "the only broker of the topic"
    ),
    "delayTimeLevel": ColumnRule(
        "INT", types.is_int32, "Delay level 1 to 18 of the broker; 0 is no delay.", "no delay"
    ),
    "deliverTimeMs": ColumnRule(
        "BIGINT (milliseconds) or TIMESTAMP",
        _is_time,
        "Time before which the message is not delivered; not together with a delay level. Brokers from 5.0 on.",
        "no delay",
    ),
    "flag": ColumnRule("INT", types.is_int32, "The message's flag.", "0"),
    "rowId": ColumnRule(
        "STRING",
        _is_text,
        "Identifies the row within its batch: makes its message id the same when a replay has the rows in another "
        "order.",
        "the row is known by its place and content",
    ),
}
"""All columns that a DataFrame to write may have, by name."""

_NAMES = {rule.alias or name: name for name, rule in COLUMNS.items()} | {name: name for name in COLUMNS}


def check_schema(schema: pa.Schema, topic: str | None) -> dict[str, int]:
    """Return {column: index in the schema}; raise `ColumnError` if a DataFrame with this schema cannot be written.

    `topic` is the topic of all rows; None if a column must name it.
    """
    places: dict[str, int] = {}
    for place, field in enumerate(schema):
        name = _NAMES.get(field.name)
        if name is None:
            raise ColumnError(f"no column {field.name!r} can be written", advice=_advice())
        if name in places:
            raise ColumnError(f"columns {name} and {COLUMNS[name].alias} are the same", advice="keep one of them")
        if not COLUMNS[name].accepts(field.type):
            what = f"column {field.name} has the type {field.type}"
            raise ColumnError(what, advice=f"cast it to {COLUMNS[name].wanted}")
        places[name] = place
    if "body" not in places:
        raise ColumnError("the frame has no column body", advice="name the column with the messages' bodies `body`")
    if topic is None and "topic" not in places:
        raise ColumnError("no topic is given", advice="set the option topic, or add a column topic")
    if "brokerName" in places and "queueId" not in places:
        raise ColumnError("a column brokerName without queueId", advice="add queueId, or drop brokerName")
    return places


def _advice() -> str:
    accepted = ", ".join(f"{name} {rule.wanted}" for name, rule in COLUMNS.items())
    return f"drop or rename it with `select`; accepted columns: {accepted}"


# --- reading ---------------------------------------------------------------------------------------------------------


def read_columns(batch: pa.RecordBatch, topic: str | None, *, key_is_sharding_key: bool = False) -> Columns:
    """Return the columns of a record batch. Raise `ColumnError` if the DataFrame cannot be written.

    With `key_is_sharding_key`, the keys serve as sharding keys if the DataFrame has none.
    """
    places = check_schema(batch.schema, topic)
    found = {name: batch.column(place) for name, place in places.items()}
    texts = {name: as_texts(found[name]) for name in _TEXTS & found.keys()}
    keys = _read_keys(found["keys"]) if "keys" in found else None
    return Columns(
        batch.num_rows,
        texts["body"],
        constant(topic.encode()) if topic is not None else texts["topic"],
        texts.get("tags"),
        keys,
        _read_entries(found["properties"]) if "properties" in found else None,
        texts.get("shardingKey", keys if key_is_sharding_key else None),
        NamedQueues(_read_numbers(found["queueId"], -1), texts.get("brokerName")) if "queueId" in found else None,
        _read_numbers(found["delayTimeLevel"]) if "delayTimeLevel" in found else None,
        _read_times(found["deliverTimeMs"]) if "deliverTimeMs" in found else None,
        _read_numbers(found["flag"]) if "flag" in found else None,
        texts.get("rowId"),
    )


_TEXTS = {"body", "topic", "tags", "shardingKey", "brokerName", "rowId"}


def _read_numbers(values: pa.Array, null: int = 0) -> Integers:
    numbers: Integers = pc.fill_null(values.cast(pa.int64()), null).to_numpy(zero_copy_only=False)
    return numbers


def _read_times(values: pa.Array) -> Integers:
    """Return times in milliseconds since 1970, rounded down."""
    if not types.is_timestamp(values.type):
        return _read_numbers(values)
    # Arrow's own rounding goes by local time, and fails in the hour that occurs twice.
    factor, divisor = _MILLISECONDS[values.type.unit]
    return _read_numbers(values) * factor // divisor


def _read_keys(values: pa.Array) -> pa.Array:
    """Return the keys of each row as one text; those of a list are joined by spaces, without nulls."""
    if not _is_list(values.type):
        return as_texts(values)
    starts, keys = _open_list(values)
    starts, kept = _keep(starts, pc.is_valid(keys))
    spaced = join(as_texts(keys.filter(kept)), constant(b" "))
    # Each key ends with a space, so the text of a row ends before its last space.
    return pc.binary_slice(texts_of_rows(starts, spaced), 0, -1) if len(keys) else texts_of_rows(starts, spaced)


def _read_entries(values: pa.Array) -> Entries:
    """Return the properties of each row, without those whose value is null."""
    starts, items = _open_list(values)
    # Unlike `field`, `flatten` leaves out what a slice has cut off, and the fields of a null.
    fields = dict(zip([field.name for field in items.type], items.flatten(), strict=True))
    names, texts = fields["key"], fields["value"]
    starts, kept = _keep(starts, pc.is_valid(texts))
    return Entries(starts, as_texts(names.filter(kept)), as_texts(texts.filter(kept)))


def _open_list(values: pa.Array) -> tuple[Integers, pa.Array]:
    """Split a column of lists or maps: return where each row's items begin, and the items of all rows in one array.

    One more index at the end of the first array is the number of all items.
    """
    if values.null_count or values.offset:
        # A null row may have items, and a slice keeps those of other rows; a copy has neither.
        values = values.take(to_arrow(np.arange(len(values))))
    starts = values.offsets.to_numpy().astype(np.int64)
    items = values.values
    if types.is_map(values.type):
        items = pa.StructArray.from_arrays([values.keys, values.items], ["key", "value"])
    return starts - starts[0], items.slice(starts[0], starts[-1] - starts[0])


def _keep(starts: Integers, kept: pa.Array) -> tuple[Integers, pa.Array]:
    """Return where the items of each row begin when only those that `kept` marks remain; also return `kept`.

    `starts` holds where they begin now. In `starts` and in the result, one more index at the end is the number of all
    items.
    """
    counts = np.zeros(len(kept) + 1, np.int64)
    np.cumsum(kept.to_numpy(zero_copy_only=False), out=counts[1:])
    return counts[starts], kept
