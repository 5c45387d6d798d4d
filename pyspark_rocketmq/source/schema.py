"""Make Spark's schema of the reader's columns, and check a schema that the user gives."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from ..decode.columns import COLUMNS, ColumnType
from ..errors import OptionError

__all__ = ["columns_declared_nullable", "columns_of", "spark_schema"]

_HEADER = StructType([StructField("key", StringType()), StructField("value", BinaryType())])

_TYPES: dict[ColumnType, DataType] = {
    ColumnType.STRING: StringType(),
    ColumnType.INT: IntegerType(),
    ColumnType.BIGINT: LongType(),
    ColumnType.BINARY: BinaryType(),
    ColumnType.TIMESTAMP: TimestampType(),
    ColumnType.MAP: MapType(StringType(), StringType()),
    ColumnType.HEADERS: ArrayType(_HEADER),
}


def spark_schema(columns: Sequence[str], properties_as_json: bool = False) -> StructType:
    """Return Spark's schema of these columns; `properties` is a string with `properties_as_json`, else a map."""
    return StructType([_field(name, properties_as_json) for name in columns])


def columns_of(schema: StructType, properties_as_json: bool = False) -> tuple[str, ...]:
    """Return the names of the columns in the user's schema; raise `OptionError` if the schema does not fit the reader.

    It does not fit if it names no column, names an unknown one, names one twice, gives one another type, or forbids
    nulls that may come.
    """
    if not schema.fields:
        raise OptionError("schema", None, "names no column", advice=f"columns are {', '.join(COLUMNS)}")
    for given in schema.fields:
        if schema.names.count(given.name) > 1:
            raise OptionError("schema", given.name, "is named twice", advice="name each column once")
        if given.name not in COLUMNS:
            raise OptionError("schema", given.name, "no such column", advice=f"columns are {', '.join(COLUMNS)}")
        ours = _field(given.name, properties_as_json)
        if given.dataType != ours.dataType:
            wanted = ours.dataType.simpleString()
            raise OptionError("schema", given.name, f"is {given.dataType.simpleString()}", advice=f"declare {wanted}")
        if ours.nullable and not given.nullable:
            raise OptionError("schema", given.name, "is NOT NULL, but may be null", advice="declare it nullable")
    return tuple(schema.names)


def columns_declared_nullable(schema: StructType) -> frozenset[str]:
    """Return the columns that are never null but that the user's schema declares nullable.

    Record batches must declare these nullable as well, because Spark compares both schemas.
    """
    return frozenset(given.name for given in schema.fields if given.nullable and not COLUMNS[given.name].nullable)


def _field(name: str, properties_as_json: bool) -> StructField:
    column = COLUMNS[name]
    as_text = properties_as_json and name == "properties"
    return StructField(name, StringType() if as_text else _TYPES[column.type], column.nullable)
