"""Send the rows of a data frame back to their brokers, or run a user's function on each row, on the executors.

`send_back` and `consume` do all their work before they return. They keep the outcome of each row (`localCheckpoint`),
so using the returned data frame sends nothing a second time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from ..cluster.cluster import worker_cluster
from ..cluster.names import READER_GROUP
from ..errors import OptionError, SendBackError
from ..options import HelperOptions, parse_helper_options
from .returning import DEAD_LETTER_LEVEL, Outcome, Returned, Returner, ReturnSettings
from .row_results import Listener, Result

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from ..decode.decoder import RecordBatch

__all__ = ["consume", "send_back"]

_NEEDED = {"topic": "string", "brokerName": "string", "commitLogOffset": "bigint", "msgId": "string"}
_NEEDED_IN_ORDER = {**_NEEDED, "queueId": "int", "queueOffset": "bigint"}
_LEVEL = "delayLevel"
_LEVEL_TYPES = ("tinyint", "smallint", "int", "bigint")
_PLACE = ("topic", "brokerName", "commitLogOffset")
_OUTCOMES = "topic string, brokerName string, commitLogOffset bigint, result string, accepted boolean, error string"
_REPORT = (*_PLACE, "accepted", "error")
_ATTEMPTS = 16
"""Default number of further deliveries of a row, as for RocketMQ's concurrent consumers."""
_SHORTEST_SUSPENSION_MS, _LONGEST_SUSPENSION_MS = 10, 30_000


def send_back(rows: DataFrame, options: Mapping[str, str], on_error: str = "raise") -> DataFrame:
    """Send rows back to their brokers, which deliver them again after a delay, or keep them as dead letters.

    Args:
        rows: Rows of the source, with at least `topic`, `brokerName`, `commitLogOffset` and `msgId`. A column
            `delayLevel` sets the delay of each row: a delay level of the broker, 0 for a delay that grows with each
            delivery, -1 for a dead letter.
        options: The options of the reader, and those for helper functions.
        on_error: `raise` raises `SendBackError` if a broker does not accept a row; `report` only returns the error.

    Returns:
        A data frame with the outcome of each row: `topic`, `brokerName`, `commitLogOffset`, `accepted`, `error`.
    """
    if on_error not in ("raise", "report"):
        raise OptionError("on_error", on_error, "unknown", advice="give raise or report")
    settings = parse_helper_options(options)
    sending = _settings_of(settings)
    _check(rows, _NEEDED)
    unanswered = F.lit(None).cast("string").alias("result")
    report = _report(rows.select(*_NEEDED, unanswered, _level_of(rows, settings)), settings, sending, _REPORT)
    if on_error == "raise":
        _raise_refusals(report)
    return report


def consume(
    batch: DataFrame,
    fn: Callable[[Any], object],
    options: Mapping[str, str],
    model: str = "concurrently",
    suspendCurrentQueueTimeMillis: int = 1000,
) -> DataFrame:
    """Run a function on each row as a RocketMQ consumer does, and send back the rows for which it failed.

    Raise `SendBackError` if a broker does not accept a row that is sent back.

    Args:
        batch: Rows of the source, with the columns that `send_back` needs; for `orderly` also `queueId` and
            `queueOffset`.
        fn: Takes a row and returns `SUCCESS` or `RECONSUME_LATER`, for `orderly` also `SUSPEND`. An exception is a
            failure.
        options: The options of the reader, and those for helper functions.
        model: `concurrently` sends failed rows back. `orderly` runs the function on the rows of a queue in order of
            their offsets and retries a failed row before the next one; after `maxReconsumeTimes` retries the row is a
            dead letter.
        suspendCurrentQueueTimeMillis: With `orderly`, the pause before a failed row is retried.

    Returns:
        A data frame as `send_back` returns it, with the column `result`; `accepted` is null for rows that succeeded.
    """
    settings = parse_helper_options(options)
    sending = _settings_of(settings)
    if model not in ("concurrently", "orderly"):
        raise OptionError("model", model, "unknown", advice="give concurrently or orderly")
    is_orderly = model == "orderly"
    _check(batch, _NEEDED_IN_ORDER if is_orderly else _NEEDED)
    listener = Listener(fn, sending.max_reconsume_times, _suspension_s(suspendCurrentQueueTimeMillis))
    rows, answer = (_in_order(batch), listener.in_order) if is_orderly else (batch, listener.concurrently)
    result = F.udf(answer, "string", useArrow=False).asNondeterministic()(F.struct("*")).alias("result")
    report = _report(rows.select(*_NEEDED, result, _level_of(rows, settings)), settings, sending, (*_REPORT, "result"))
    _raise_refusals(report)
    return report


# --- options and columns ----------------------------------------------------------------------------------------------


def _settings_of(settings: HelperOptions) -> ReturnSettings:
    group = settings.require_group()
    if group == READER_GROUP:
        what, advice = "nothing is sent back for the tools group", "give a group of its own"
        raise OptionError("consumerGroup", group, what, advice=advice, code="OPTION_CONFLICT")
    most = settings.max_reconsume_times
    return ReturnSettings(group, _ATTEMPTS if most is None else most)


def _check(rows: DataFrame, needed: Mapping[str, str]) -> None:
    """Raise `OptionError` if the rows lack a needed column, or have it with another type."""
    types = {field.name: field.dataType.simpleString() for field in rows.schema.fields}
    if missing := [name for name in needed if name not in types]:
        advice = "keep them when selecting; all are columns of rowLayout=rocketmq"
        raise OptionError("rows", None, f"without {', '.join(missing)}", advice=advice, code="OPTION_MISSING")
    accepted = {name: (kind,) for name, kind in needed.items()} | {_LEVEL: _LEVEL_TYPES}
    for name, kinds in accepted.items():
        if types.get(name, kinds[0]) not in kinds:
            raise OptionError(name, types[name], "another type than needed", advice=f"give {' or '.join(kinds)}")


def _level_of(rows: DataFrame, settings: HelperOptions) -> Column:
    default = F.lit(settings.delay_level).cast("bigint")
    return (F.coalesce(rows[_LEVEL].cast("bigint"), default) if _LEVEL in rows.columns else default).alias(_LEVEL)


def _suspension_s(given_ms: int) -> float:
    if not _SHORTEST_SUSPENSION_MS <= given_ms <= _LONGEST_SUSPENSION_MS:
        advice = f"give {_SHORTEST_SUSPENSION_MS}..{_LONGEST_SUSPENSION_MS}"
        raise OptionError("suspendCurrentQueueTimeMillis", str(given_ms), "out of range", advice=advice)
    return given_ms / 1000


def _in_order(batch: DataFrame) -> DataFrame:
    """Return the rows, repartitioned so that one task has all rows of a queue, in order of their offsets."""
    queue = ("topic", "brokerName", "queueId")
    return batch.repartition(*queue).sortWithinPartitions(*queue, "queueOffset")


# --- on executors -----------------------------------------------------------------------------------------------------


def _report(rows: DataFrame, settings: HelperOptions, sending: ReturnSettings, columns: Sequence[str]) -> DataFrame:
    """Send rows back now, and return a data frame of their outcomes, which Spark keeps and does not compute again."""
    cluster = settings.cluster

    def run(batches: Iterator[RecordBatch]) -> Iterator[RecordBatch]:
        return return_rows(batches, Returner(worker_cluster(cluster), sending))

    return rows.mapInArrow(run, _OUTCOMES).select(*columns).localCheckpoint()


def return_rows(batches: Iterator[RecordBatch], returner: Returner) -> Iterator[RecordBatch]:
    """Send back the rows of one task, except those with the result `SUCCESS`, and yield the outcomes of all rows."""
    from ..decode.outcomes import read_columns, with_outcomes

    for batch in batches:
        values = enumerate(read_columns(batch, (*_NEEDED, "result", _LEVEL)))
        outcomes = returner.send_back({number: row for number, each in values if (row := _row_to_send_back(*each))})
        results = [_result_of(number, outcomes) for number in range(batch.num_rows)]
        yield with_outcomes(batch, (*_PLACE, "result"), results)


def _result_of(number: int, outcomes: Mapping[int, Outcome]) -> tuple[bool | None, str | None]:
    """Return (True, None) for row `number` if its broker accepted it, or (False, error text).

    Return (None, None) if the row was not sent back, so that `outcomes` has no entry for it.
    """
    if number not in outcomes:
        return None, None
    error = outcomes[number]
    return error is None, None if error is None else str(error)


def _row_to_send_back(
    topic: str, broker_name: str, physical_offset: int, message_id: str, result: str | None, delay_level: int
) -> Returned | None:
    """Return the request to send a row back, or None if its result is `SUCCESS`; `SUSPEND` makes it a dead letter."""
    if result == Result.SUCCESS:
        return None
    level = DEAD_LETTER_LEVEL if result == Result.SUSPEND else delay_level
    return Returned(topic, broker_name, physical_offset, message_id, level)


def _raise_refusals(report: DataFrame) -> None:
    """Raise `SendBackError` if any row was not accepted, with the number of rows and one error for each broker."""
    refused = report.where(~F.col("accepted")).groupBy("brokerName")
    found = refused.agg(F.count("*").alias("rows"), F.min("error").alias("reason")).collect()
    if not found:
        return
    found.sort(key=lambda row: str(row.brokerName))
    parts = [f"{row['rows']} of {row.brokerName} ({row.reason})" for row in found]
    raise SendBackError(
        f"rows were not accepted: {', '.join(parts)}",
        counts={str(row.brokerName): int(row["rows"]) for row in found},
        advice="a replay of the batch sends all its rows back once more; send_back(on_error='report') shows each row",
    )
