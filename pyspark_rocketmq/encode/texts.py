"""Write the properties of each row as one text, by joining arrays."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from .arrays import EMPTY, Integers, constant, join, sizes_of, texts_of_rows, to_arrow
from .columns import Columns, Entries

__all__ = ["join_entries", "property_texts", "with_id"]

_NAME_END, _ENTRY_END = constant(b"\x01"), constant(b"\x02")
_WAIT, _ID = constant(b"WAIT\x01true\x02"), constant(b"UNIQ_KEY\x01")
_TAGS, _KEYS, _SHARDING_KEY = constant(b"TAGS\x01"), constant(b"KEYS\x01"), constant(b"__SHARDINGKEY\x01")
_DELAY, _DELIVER = constant(b"DELAY\x01"), constant(b"TIMER_DELIVER_MS\x01")


def property_texts(columns: Columns) -> pa.Array:
    """Return the property text of each row, still without the property that holds the message id."""
    parts: list[pa.Array | pa.Scalar] = [_WAIT]
    if columns.properties is not None:
        parts.append(join_entries(columns.properties))
    for begin, texts in (
        (_TAGS, columns.tags),
        (_KEYS, columns.keys),
        (_SHARDING_KEY, columns.sharding_key),
        (_DELAY, _number_texts(columns.delay_level)),
        (_DELIVER, _number_texts(columns.deliver_ms)),
    ):
        if texts is not None:
            parts += _property(begin, texts)
    if len(parts) == 1:
        return pa.repeat(_WAIT, columns.count)
    return join(*parts)


def with_id(ids: pa.Array, texts: pa.Array) -> pa.Array:
    """Return the property text of each row with its message id put in front, as property UNIQ_KEY."""
    return join(_ID, ids, _ENTRY_END, texts)


def join_entries(entries: Entries) -> pa.Array:
    """Return the user's properties of each row as one text."""
    texts = join(entries.names, _NAME_END, entries.values, _ENTRY_END)
    return texts_of_rows(entries.starts, texts)


def _property(begin: pa.Scalar, texts: pa.Array) -> list[pa.Array | pa.Scalar]:
    """Return texts to join: one property of each row, with its separators; `begin` is its name and a separator.

    A row whose value is null or empty has no such property, so all its parts are empty.
    """
    is_given = sizes_of(texts) > 0
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
