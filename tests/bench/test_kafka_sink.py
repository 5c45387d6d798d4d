"""Compare our sink with Spark's Kafka sink; write docs/benchmarks/kafka_sink.md.

`make bench BENCH=sink KAFKA=1` runs it after the part `sink`.
"""

from __future__ import annotations

from importlib.metadata import version

import pytest

from tests.bench.bench_broker import NO_RETENTION, open_bench_broker
from tests.bench.bench_settings import ROUNDS, Shape
from tests.bench.kafka import connector_jars, open_kafka
from tests.bench.report import report_of
from tests.bench.rounds import measure_in_rounds
from tests.bench.rows_to_write import kafka_rows
from tests.bench.sink_contenders import QUEUES, SIZES, SPARK_WRITE, Readable, Writing
from tests.bench.sink_sparks import our_sink, sink_options, spark_write
from tests.bench.sparks import open_spark
from tests.bench.test_kafka import SPARK_VERSION

pytestmark = [pytest.mark.bench, pytest.mark.real]

TOPIC = "bench_kafka_sink"
BATCH = 32
KAFKA_WRITE = "Kafka write"
ABOUT = (
    "Both write the same rows from one session of the same PySpark, with two tasks, to 8 queues or partitions: ours in "
    f"batches of {BATCH}, its default, Kafka's with its default settings. Kafka gets the two properties as headers, "
    "and no tag. Each broker is one node on the same machine. RocketMQ's log is emptied between runs, Kafka's grows."
)


def test_kafka_sink(real_version: str) -> None:
    assert version("pyspark").startswith(SPARK_VERSION), f"the connector needs PySpark {SPARK_VERSION}"
    jars = connector_jars()
    with (
        open_bench_broker(real_version, **NO_RETENTION) as bench_broker,
        report_of("kafka_sink", "Beside Spark's Kafka sink", ABOUT, RocketMQ=bench_broker.cluster.version) as report,
        open_spark(**{"spark.jars": ",".join(map(str, jars))}) as spark,
        open_kafka() as kafka,
    ):
        bench_broker.empty_topic(TOPIC, QUEUES)
        for size in SIZES:
            writing = Writing(BATCH, size)
            spark.session.catalog.clearCache()
            options = {"kafka.bootstrap.servers": kafka.servers, "topic": kafka.topic(Shape(QUEUES, size, 0))}
            own_options = sink_options(bench_broker, TOPIC, BATCH)
            ours = our_sink(spark, bench_broker, TOPIC, writing, SPARK_WRITE, own_options)
            theirs = spark_write(spark, writing, KAFKA_WRITE, "kafka", options, kafka.processes, kafka_rows)
            contenders = [Readable(bench_broker, TOPIC).watch(ours), theirs]
            report.add_measurements(str(writing), measure_in_rounds(contenders, ROUNDS), best_of=[KAFKA_WRITE])
