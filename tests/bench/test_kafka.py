"""Compare our source with Spark's Kafka source; write docs/benchmarks/kafka.md.

`make bench KAFKA=1` runs it.
"""

from __future__ import annotations

from importlib.metadata import version

import pytest

from tests.bench.bench_broker import BenchBroker
from tests.bench.bench_settings import LARGE, ROUNDS, SMALL, Shape
from tests.bench.contenders import SPARK_NO_MAP, SPARK_STREAM
from tests.bench.kafka import Kafka, connector_jars, open_kafka
from tests.bench.report import report_of
from tests.bench.rounds import Contender, measure_in_rounds
from tests.bench.sparks import BenchSpark, open_spark

pytestmark = [pytest.mark.bench, pytest.mark.real]

SPARK_VERSION = "4.2"
KAFKA_BATCH, KAFKA_STREAM = "Kafka batch", "Kafka availableNow"
SHAPES = {"1 KiB": LARGE, "100 B": SMALL}
ABOUT = (
    "Both run in one session of the same PySpark, from 8 queues or partitions with the same bodies into `noop`: "
    "ours with its default columns without the map, Kafka's with its default columns, which have no headers. "
    "Each broker is one node on the same machine. Streams end by `availableNow` and include their start."
)


def test_kafka(bench_broker: BenchBroker) -> None:
    assert version("pyspark").startswith(SPARK_VERSION), (
        f"the connector needs PySpark {SPARK_VERSION}: make bench KAFKA=1"
    )
    jars = connector_jars()
    facts = {"RocketMQ": bench_broker.cluster.version, "Kafka's jars in Spark": ", ".join(jar.stem for jar in jars)}
    with (
        report_of("kafka", "Beside Spark's Kafka source", ABOUT, **facts) as report,
        open_spark(**{"spark.jars": ",".join(map(str, jars))}) as spark,
        open_kafka() as kafka,
    ):
        for setting, shape in SHAPES.items():
            contenders = [*_ours(spark, bench_broker, shape), *_theirs(spark, kafka, shape)]
            report.add_measurements(setting, measure_in_rounds(contenders, ROUNDS), best_of=[KAFKA_BATCH])


def _ours(spark: BenchSpark, bench_broker: BenchBroker, shape: Shape) -> list[Contender]:
    batch = spark.batch(bench_broker, shape, SPARK_NO_MAP, no_map=True)
    return [batch, spark.stream(bench_broker, shape, f"{SPARK_STREAM}, no map", no_map=True)]


def _theirs(spark: BenchSpark, kafka: Kafka, shape: Shape) -> list[Contender]:
    reading = {"kafka.bootstrap.servers": kafka.servers, "subscribe": kafka.topic(shape)}
    streaming = {**reading, "startingOffsets": "earliest"}
    return [
        spark.table(KAFKA_BATCH, "kafka", reading, shape.messages, kafka.processes),
        spark.ending_stream(KAFKA_STREAM, "kafka", streaming, shape.messages, kafka.processes),
    ]
