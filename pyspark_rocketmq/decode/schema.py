"""What are the Arrow types of the columns?

They must equal what Spark derives from its own schema to the letter (names, nullability, time zone), or
the first record batch is refused.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pyarrow as pa

from .layout import COLUMNS, ColumnType

__all__ = ["arrow_schema", "arrow_type"]

_HEADER = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])

_TYPES: dict[ColumnType, pa.DataType] = {
    ColumnType.STRING: pa.string(),
    ColumnType.INT: pa.int32(),
    ColumnType.BIGINT: pa.int64(),
    ColumnType.BINARY: pa.binary(),
    ColumnType.TIMESTAMP: pa.timestamp("us", tz="UTC"),
    ColumnType.MAP: pa.map_(pa.string(), pa.string()),
    ColumnType.HEADERS: pa.list_(pa.field("element", _HEADER)),
}


def arrow_type(name: str, properties_as_json: bool = False) -> pa.DataType:
    """Arrow type of one column."""
    if properties_as_json and name == "properties":
        return pa.string()
    return _TYPES[COLUMNS[name].type]


def arrow_schema(columns: Sequence[str], properties_as_json: bool = False, nullable: Collection[str] = ()) -> pa.Schema:
    """Arrow schema of a choice of columns; those of `nullable` are so whatever the table says."""
    return pa.schema(
        [
            pa.field(name, arrow_type(name, properties_as_json), COLUMNS[name].nullable or name in nullable)
            for name in columns
        ]
    )
