"""Write the rows of a data frame, with the cause of their failure, to a topic of the user's.

A dead letter has what brokers take of its row. What they would refuse is left out or cut, as for the dead letters of a
write, because a row that cannot become a dead letter would stop its query for ever.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from threading import Lock
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, StringType

from ..encode.dead_letters import CAUSE, ORIGIN_TOPIC
from ..errors import OptionError
from ..options import batch_keys, parse_helper_options, parse_writer_options
from ..options.keys import find_option
from ..options.table import writing
from ..sink.identity import DriverQuery, find_query
from ..wire.properties import RESERVED_NAMES, TRANSIENT_PREFIX

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["dead_letter"]

_SINK_NAME = "retry-dead-letter"
_MOST_CAUSE, _MOST_TOPIC = 1000, 255
_MOST_OWN_BYTES = 27_000
"""The most bytes of a row's keys, tags and properties: brokers store 32,767, and there are our own and theirs, too."""
_PLACE = ("topic", "brokerName", "queueId", "queueOffset")
_OURS = [CAUSE, ORIGIN_TOPIC, *sorted(RESERVED_NAMES)]
_SEPARATORS = "\x01\x02"
_NOT_BLANK = r"(?U)[^\s\p{Z}\x1c-\x1f]"
_SENDING = frozenset(
    {
        writing.PRODUCER_GROUP,
        writing.ATTEMPT_TIMEOUT,
        writing.ROW_TIMEOUT,
        writing.MAX_ROWS_PER_SECOND,
        writing.SEND_RETRIES,
        writing.ACCEPTED_STATUSES,
        writing.MAX_IN_FLIGHT,
        writing.MAX_MESSAGE_SIZE,
        writing.COMPRESS_OVER,
        writing.COMPRESSION,
        writing.BATCH_ROWS,
    }
)
"""Options of writes that apply to dead letters, too."""
_MOST_RUNS = 1000
"""The most runs of queries whose last batch is remembered."""
_calls: dict[str, tuple[int, int]] = {}
"""{run of a query: (its last batch, number of that batch's calls with rows without a place)}, oldest first."""
_lock = Lock()


def dead_letter(
    rows: DataFrame,
    options: Mapping[str, str],
    cause: str | Column,
    batch_id: int | None = None,
    *,
    query_id: str | None = None,
) -> None:
    """Write rows to the topic that `deadLetterTopic` names; return when every row is acknowledged.

    Within `foreachBatch` a replay repeats the message ids of rows that have the columns `topic`, `brokerName`,
    `queueId` and `queueOffset`, if it repeats their causes, too. Rows without these columns need to be at the same
    places again, and the function must make its calls in the same order.

    Keys, tags and properties that no broker would take are left out, all of them if they are too long. An empty body
    becomes a space, and one above `maxMessageSize` is cut.

    Args:
        rows: Rows of the source, with at least `body`. Keys, tags and properties are written, too.
        options: The options of the reader, and `deadLetterTopic`; also options of writes that say how rows are sent.
        cause: The reason for all rows, or a column with that of each row; it becomes the property `CAUSE`.
        batch_id: The number of the batch, as the function for `foreachBatch` gets it. Needed with `query_id` only.
        query_id: A text that is the same in every run of the query and that no other query has. Over Spark Connect
            nothing else tells the query, so without it a replay has other message ids.
    """
    settings = parse_helper_options(options)
    query = _query_of(rows, batch_id, query_id)
    has_place = set(_PLACE) <= set(rows.columns)
    given = _passed_on(options) | {
        "nameServer": ";".join(map(str, settings.cluster.name_servers)),
        "topic": settings.require_dead_letter_topic(),
        "sinkName": _SINK_NAME if has_place else f"{_SINK_NAME}-{_count_call(query)}",
    }
    if query:
        given |= batch_keys(query.query_id, query.batch_id)
    most_bytes = parse_writer_options(given).encode.max_body_bytes
    letters = rows.select(*_columns(rows, F.lit(cause), most_bytes, has_place=has_place))
    letters.write.format("rocketmq").options(**given).mode("append").save()


def _query_of(rows: DataFrame, batch_id: int | None, query_id: str | None) -> DriverQuery | None:
    """Return the query and batch for which a function runs, as far as Spark or the caller tells."""
    found = find_query(rows.sparkSession)
    if query_id is None:
        return found
    batch_id = found.batch_id if found and batch_id is None else batch_id
    if batch_id is None:
        advice = "give it beside query_id, as the function for foreachBatch gets it"
        raise OptionError("batch_id", None, "Spark does not tell it", advice=advice, code="OPTION_MISSING")
    return DriverQuery(query_id, found.run_id if found else query_id, batch_id)


def _count_call(query: DriverQuery | None) -> int:
    """Return the number of this call in its batch: equal rows of two calls must not share message ids."""
    if query is None:
        return 0  # The write has an identity of its own.
    with _lock:
        batch_id, count = _calls.pop(query.run_id, (query.batch_id, 0))
        count = count + 1 if batch_id == query.batch_id else 1
        _calls[query.run_id] = query.batch_id, count
        while len(_calls) > _MOST_RUNS:
            del _calls[next(iter(_calls))]
    return count


def _passed_on(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options that apply to the write: how the cluster is reached, and how rows are sent."""
    matches = {name: match.option for name in options if (match := find_option(name))}
    return {
        name: options[name]
        for name, option in matches.items()
        if option in _SENDING or ({"W", "H"} <= set(option.use) and option is not writing.DEAD_LETTER_TOPIC)
    }


# --- columns ----------------------------------------------------------------------------------------------------------


def _columns(rows: DataFrame, cause: Column, most_bytes: int, *, has_place: bool) -> list[Column]:
    """Return the columns of the dead letters; raise `OptionError` if the rows have no body."""
    if "body" not in rows.columns:
        advice = "keep it when selecting; it is a column of rowLayout=rocketmq"
        raise OptionError("rows", None, "without body", advice=advice, code="OPTION_MISSING")
    body, texts, own = F.col("body").cast("binary"), _texts(rows), _own_properties(rows)
    fits = _size(own, texts.values()) <= _MOST_OWN_BYTES
    columns = [
        F.when(F.length(body) > 0, F.substring(body, 1, most_bytes)).otherwise(F.lit(" ").cast("binary")).alias("body"),
        F.map_concat(F.when(fits, own).otherwise(_no_properties()), _new_properties(rows, cause)).alias("properties"),
        *(F.when(fits, text).alias(name) for name, text in texts.items()),
    ]
    if has_place:
        columns.append(_row_id(cause).alias("rowId"))
    return columns


def _row_id(cause: Column) -> Column:
    """Return what tells apart dead letters of a batch: place and cause, since a row may have two causes.

    It is null, so that the message id is made from the content, if a part of the place is.
    """
    parts = [F.coalesce(cause.cast("string"), F.lit("")), *map(F.col, reversed(_PLACE))]
    return F.concat(*(part for each in reversed(parts) for part in (each, F.lit("/"))))


def _texts(rows: DataFrame) -> dict[str, Column]:
    """Return {column: text} of keys and tags, as far as the rows have them; null where brokers would not take it."""
    types = {field.name: field.dataType for field in rows.schema.fields}
    texts: dict[str, Column] = {}
    if "keys" in types:
        keys = F.concat_ws(" ", "keys") if isinstance(types["keys"], ArrayType) else F.col("keys").cast("string")
        texts["keys"] = F.when(_is_sound(keys), keys)
    if "tags" in types:
        tags = F.col("tags").cast("string")
        texts["tags"] = F.when(_is_sound(tags) & ~tags.contains("|"), tags)
    return texts


def _own_properties(rows: DataFrame) -> Column:
    """Return the properties of each row that are the user's, and that brokers take."""
    if "properties" not in rows.columns:
        return _no_properties()
    own = F.col("properties")
    if isinstance(rows.schema["properties"].dataType, StringType):
        own = F.from_json(own, "map<string,string>")
    return F.coalesce(F.map_filter(own, _is_kept), _no_properties())


def _is_kept(name: Column, value: Column) -> Column:
    is_own = ~name.isin(_OURS) & ~name.startswith(TRANSIENT_PREFIX)
    return F.coalesce(is_own & _is_sound(name) & _is_sound(value), F.lit(False))


def _new_properties(rows: DataFrame, cause: Column) -> Column:
    """Return the properties that a dead letter has in addition."""
    text = F.make_valid_utf8(F.substring(cause.cast("string"), 1, _MOST_CAUSE))
    text = F.translate(text, _SEPARATORS, "  ")
    pairs = [F.lit(CAUSE), F.when(text.rlike(_NOT_BLANK), text).otherwise(F.lit("unknown"))]
    # A row of a retry topic has the topic in which it began as `originTopic`.
    if topics := [F.col(name).cast("string") for name in ("originTopic", "topic") if name in rows.columns]:
        topic = F.substring(F.coalesce(*topics), 1, _MOST_TOPIC)
        pairs += [F.lit(ORIGIN_TOPIC), F.when(_is_sound(topic), topic)]
    return F.create_map(*pairs)


def _no_properties() -> Column:
    return F.create_map().cast("map<string,string>")


def _is_sound(text: Column) -> Column:
    """Return whether brokers take a text: valid, not blank, and without the characters that separate properties."""
    return F.is_valid_utf8(text) & (F.translate(text, _SEPARATORS, "") == text) & text.rlike(_NOT_BLANK)


def _size(properties: Column, texts: Iterable[Column]) -> Column:
    """Return an upper bound of the bytes that properties and other texts of a row take."""
    joined = F.concat_ws("", F.map_keys(properties), F.map_values(properties), *texts)
    return F.octet_length(joined) + 2 * F.size(properties)
