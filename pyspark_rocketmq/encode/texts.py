"""Write the properties of each row as one text, by joining arrays."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from .arrays import EMPTY, Integers, constant, join, sizes_of, texts_of_rows, to_arrow
from .columns import Columns, Entries

__all__ = ["join_entries", "property_texts", "with_id"]

_NAME_END, _ENTRY_END = constant(b"\x01"), constant(b"\x02")
_WAIT = constant(b"WAIT\x01true\x02")


def property_texts(columns: Columns) -> pa.Array:
    """Return the property text of each row, still without the property that holds the message id."""
    parts: list[pa.Array | pa.Scalar] = [_WAIT]
    if columns.properties is not None:
        parts.append(join_entries(columns.properties))
    for name, texts in (
        (b"TAGS", columns.tags),
        (b"KEYS", columns.keys),
        (b"__SHARDINGKEY", columns.sharding_key),
        (b"DELAY", _number_texts(columns.delay_level)),
        (b"TIMER_DELIVER_MS", _number_texts(columns.deliver_ms)),
    ):
        if texts is not None:
            parts += _property(name, texts)
    if len(parts) == 1:
        return pa.repeat(_WAIT, columns.count)
    return join(*parts)


def with_id(ids: pa.Array, texts: pa.Array) -> pa.Array:
    """Return the property text of each row with its message id put in front, as property UNIQ_KEY."""
    return join(constant(b"UNIQ_KEY\x01"), ids, _ENTRY_END, texts)


def join_entries(entries: Entries) -> pa.Array:
    """Return the user's properties of each row as one text."""
    texts = join(entries.names, _NAME_END, entries.values, _ENTRY_END)
    return texts_of_rows(entries.starts, texts)


def _property(name: bytes, texts: pa.Array) -> list[pa.Array | pa.Scalar]:
    """Return texts to join: the property `name` of each row with its separators.

    A row whose value is null or empty has no such property, so all its parts are empty.
    """
    begin, is_given = constant(name + b"\x01"), sizes_of(texts) > 0
    if is_given.all():
        return [begin, texts, _ENTRY_END]
    given = pc.if_else(to_arrow(is_given), texts, pa.scalar(None, EMPTY.type))
    return [pc.fill_null(join(begin, given, _ENTRY_END), EMPTY)]


def _number_texts(numbers: Integers | None) -> pa.Array | None:
    """Return the numbers as decimal texts, empty for 0, which stands for null; None if there are no numbers but 0."""
    if numbers is None or not numbers.any():
        return None
    texts = to_arrow(numbers).cast(pa.string()).cast(EMPTY.type)
    return pc.if_else(to_arrow(numbers == 0), EMPTY, texts)
