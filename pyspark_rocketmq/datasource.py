"""Provide the data source that Spark finds under the name `rocketmq`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from .boundary.arrival import travel_whole
from .boundary.calls import place_in_spark, runs_in_spark, spark_call
from .boundary.lines import show_lines
from .errors import OptionError, RocketMQError
from .options import WriterOptions, condition_key, parse_reader_options, parse_writer_options, require_topics
from .options.reader_options import ReaderOptions

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["RocketMQDataSource", "read_where", "register"]


class RocketMQDataSource(DataSource):
    """The data source for Apache RocketMQ topics, as a stream or as a batch."""

    @spark_call
    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        parse_reader_options(options, stream=None)

    def __reduce__(self) -> tuple[Any, ...]:
        return travel_whole(self)

    @classmethod
    def name(cls) -> str:
        """Return `rocketmq`, the name that users pass to `format`."""
        return "rocketmq"

    def place(self) -> str:
        """Return the place of log lines about options."""
        return "options"

    @spark_call
    def schema(self) -> StructType:
        """Return the schema of the columns that the options choose."""
        from .source.schema import spark_schema

        options = parse_reader_options(self.options, stream=None)
        require_topics(options)
        return spark_schema(options.columns, options.content.properties_as_json)

    @spark_call
    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader for `spark.read`."""
        from .source.batch import BatchReader
        from .source.schema import columns_declared_nullable

        return BatchReader(self._options(schema, stream=False), columns_declared_nullable(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return the reader for `spark.readStream`.

        Spark's planner hides an error of this method behind an error of its own. So there the reader is returned all
        the same, and its first call raises the error.
        """
        if not runs_in_spark():
            return self._make_stream_reader(schema)
        from .source.refused import RefusedStreamReader

        show_lines(place_in_spark(self.place()))
        try:
            return self._make_stream_reader(schema)
        except RocketMQError as error:
            return RefusedStreamReader(error)

    def _make_stream_reader(self, schema: StructType) -> DataSourceStreamReader:
        from .source.schema import columns_declared_nullable
        from .source.stream import make_stream_reader

        return make_stream_reader(self._options(schema, stream=True), columns_declared_nullable(schema))

    @spark_call
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return the writer for `df.write`, for which the queues of its topic are listed."""
        from .sink.identity import new_batch
        from .sink.plan import freeze, make_plan
        from .sink.writers import BatchWriter

        options = self._writer_options(schema, overwrite)
        plan = make_plan(options, schema.names, options.batch or new_batch())
        return BatchWriter(freeze(plan))

    @spark_call
    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """Return the writer of one batch for `df.writeStream`."""
        from .sink.plan import make_plan
        from .sink.writers import StreamWriter

        return StreamWriter(make_plan(self._writer_options(schema, overwrite), schema.names))

    def _writer_options(self, schema: StructType, overwrite: bool) -> WriterOptions:
        """Return the parsed options for a DataFrame with this schema; raise if it cannot be written."""
        from .sink.schema import check_columns

        options = parse_writer_options(self.options)
        if overwrite:
            advice = 'use mode("append"), for a stream outputMode("append")'
            raise OptionError("mode", "overwrite", "a topic cannot be overwritten", advice=advice)
        return check_columns(schema, options)

    def _options(self, schema: StructType, stream: bool) -> ReaderOptions:
        """Return the parsed options, with the columns of `schema`; raise if the option `columns` names others."""
        from .source.schema import columns_of

        options = parse_reader_options(self.options, stream=stream)
        columns = columns_of(schema, options.content.properties_as_json)
        if (given := self.options.get("columns")) and columns != options.columns:
            what = f"differs from the schema that was given ({', '.join(columns)})"
            raise OptionError("columns", given, what, advice="choose columns by one of the two", code="OPTION_CONFLICT")
        return replace(options, columns=columns)


def register(spark: SparkSession) -> None:
    """Register the format `rocketmq` in a session; raise `SparkSetupError` if its workers cannot run the source.

    A session that looks for installed packages finds the format by itself; Connect and Databricks may not. If this
    process has the session's driver, the Python that Spark starts for planners and workers is checked first.
    """
    from .boundary.worker_python import environment_of_workers, require_worker_python

    context = _context_here(spark)
    if context and context.pythonExec:
        packages = () if _travels_by_value() else ("pyspark_rocketmq",)
        require_worker_python(context.pythonExec, packages, environment_of_workers(context))
    spark.dataSource.register(RocketMQDataSource)


def read_where(spark: SparkSession, options: Mapping[str, str], condition: str) -> DataFrame:
    """Return the rows of a batch read that meet a condition; other messages are not read, as far as brokers can tell.

    `options` are those of the format `rocketmq`. The condition has comparisons of `topic`, `brokerName`, `queueId`,
    `queueOffset`, `storeTimestamp` and `tags` with values, joined by `AND`; raise `OptionError` if it has another one.

    The DataFrame is `spark.read ... load().where(condition)`, so all that is made from it has these rows, too. Spark
    keeps one plan of the read for each `load()`; this one suits all of them, since it depends on the condition alone.
    """
    from .source.where import read_condition

    read_condition(condition)
    reader = spark.read.format(RocketMQDataSource.name()).options(**{**options, **condition_key(condition)})
    return reader.load().where(condition)


def _context_here(spark: SparkSession) -> SparkContext | None:
    """Return the context that knows which Python Spark starts for planners and workers; None if that is not known here.

    Over Spark Connect a server starts it; Databricks manages the Python of workers in a way of its own.
    """
    if "DATABRICKS_RUNTIME_VERSION" in os.environ:
        return None
    try:
        return spark.sparkContext
    except AttributeError:  # A session of Spark Connect has no context.
        return None


def _travels_by_value() -> bool:
    """Return whether the user has chosen to send the package itself to Spark's processes."""
    from pyspark import cloudpickle

    pickler: Any = cloudpickle  # It has no types.
    return "pyspark_rocketmq" in pickler.list_registry_pickle_by_value()
