"""Write the rows of a data frame, with the cause of their failure, to a topic of the user's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.types import StringType

from ..encode.dead_letters import CAUSE, ORIGIN_TOPIC
from ..errors import OptionError
from ..options import batch_keys, parse_helper_options
from ..options.keys import find_option
from ..options.table.writing import DEAD_LETTER_TOPIC
from ..sink.identity import find_query
from ..wire.properties import RESERVED_NAMES

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["dead_letter"]

_SINK_NAME = "retry-dead-letter"
_MOST_CAUSE = 1000
_PLACE = ("topic", "brokerName", "queueId", "queueOffset")
_OURS = [CAUSE, ORIGIN_TOPIC, *sorted(RESERVED_NAMES)]


def dead_letter(rows: DataFrame, options: Mapping[str, str], cause: str | Column) -> None:
    """Write rows to the topic that `deadLetterTopic` names; return when every row is acknowledged.

    Within `foreachBatch` a replay repeats the message ids of rows that have the columns `topic`, `brokerName`,
    `queueId` and `queueOffset`, if it repeats their causes, too.

    Args:
        rows: Rows of the source, with at least `body`. Keys, tags and properties are written, too.
        options: The options of the reader, and `deadLetterTopic`.
        cause: The reason for all rows, or a column with that of each row; it becomes the property `CAUSE`.
    """
    settings = parse_helper_options(options)
    given = _connection(options) | {
        "nameServer": ";".join(map(str, settings.cluster.name_servers)),
        "topic": settings.require_dead_letter_topic(),
        "sinkName": _SINK_NAME,
    }
    if query := find_query(rows.sparkSession):
        given |= batch_keys(query.query_id, query.batch_id)
    letters = rows.select(*_columns(rows, F.lit(cause)))
    letters.write.format("rocketmq").options(**given).mode("append").save()


def _connection(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options that helper functions and writes have in common: how the cluster is reached."""
    matches = {name: find_option(name) for name in options}
    return {
        name: options[name]
        for name, match in matches.items()
        if match and {"W", "H"} <= set(match.option.use) and match.option is not DEAD_LETTER_TOPIC
    }


def _columns(rows: DataFrame, cause: Column) -> list[Column]:
    """Return the columns of the dead letters; raise `OptionError` if the rows have no body."""
    if "body" not in rows.columns:
        advice = "keep it when selecting; it is a column of rowLayout=rocketmq"
        raise OptionError("rows", None, "without body", advice=advice, code="OPTION_MISSING")
    body = F.col("body").cast("binary")
    columns = [
        F.when(F.length(body) > 0, body).otherwise(F.lit(" ").cast("binary")).alias("body"),
        F.map_concat(_own_properties(rows), _new_properties(rows, cause)).alias("properties"),
        *(F.col(name) for name in ("keys", "tags") if name in rows.columns),
    ]
    if set(_PLACE) <= set(rows.columns):
        # A row may become a dead letter twice in a batch, for two causes.
        columns.append(F.concat_ws("/", *_PLACE, cause.cast("string")).alias("rowId"))
    return columns


def _own_properties(rows: DataFrame) -> Column:
    if "properties" not in rows.columns:
        return F.create_map().cast("map<string,string>")
    own = F.col("properties")
    if isinstance(rows.schema["properties"].dataType, StringType):
        own = F.from_json(own, "map<string,string>")
    kept = F.map_filter(own, lambda name, value: ~name.isin(_OURS) & value.isNotNull())
    return F.coalesce(kept, F.create_map().cast("map<string,string>"))


def _new_properties(rows: DataFrame, cause: Column) -> Column:
    """Return the properties that a dead letter has in addition; control characters would separate properties."""
    text = F.translate(F.substring(cause.cast("string"), 1, _MOST_CAUSE), "\x01\x02", "  ")
    pairs = [F.lit(CAUSE), F.when(F.length(F.trim(text)) > 0, text).otherwise(F.lit("unknown"))]
    if "topic" in rows.columns:
        pairs += [F.lit(ORIGIN_TOPIC), F.col("topic")]
    return F.create_map(*pairs)
