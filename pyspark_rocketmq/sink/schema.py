"""Check the columns of a DataFrame to write, before anything is sent."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructField, StructType

from ..encode.columns import check_schema
from ..errors import ColumnError
from ..options import WriterOptions
from ..options.writer_options import QueueChoice

__all__ = ["check_columns"]

_KEY = "key"
"""The alias of the column `keys` that also serves as sharding key."""


def check_columns(schema: StructType, options: WriterOptions) -> WriterOptions:
    """Return the options for a DataFrame with these columns; raise `ColumnError` if it cannot be written."""
    names = check_schema(list(map(_arrow_field, schema.fields)), options.encode.topic).keys()
    key_is_sharding_key = options.send.keeps_order and "shardingKey" not in names and _KEY in schema.names
    has_key = key_is_sharding_key or "shardingKey" in names
    if options.send.keeps_order and not has_key:
        raise ColumnError("ordering=key without a key", advice="add a column shardingKey, or name the keys `key`")
    selector = options.queue_selector
    if selector is not QueueChoice.AUTO and "queueId" in names:
        what = f"a column queueId with queueSelector={selector.value}, which does not read it"
        raise ColumnError(what, advice="drop the column, or set queueSelector=auto")
    if selector is QueueChoice.HASH and not has_key:
        raise ColumnError("queueSelector=hash without a key", advice="add a column shardingKey")
    return replace(options, encode=replace(options.encode, key_is_sharding_key=key_is_sharding_key))


def _arrow_field(field: StructField) -> Any:
    """Return the field as Arrow has it; raise `ColumnError` for a type that Arrow has not."""
    try:
        return to_arrow_schema(StructType([field]), timezone="UTC")[0]
    except PySparkException as cause:
        what = f"column {field.name} has the type {field.dataType.simpleString()}"
        raise ColumnError(what, advice="drop it with `select`, or cast it") from cause
