"""Test that the user of a trapped job reads a sentence of the library: first, and last where Spark lets it be."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.errors.exceptions.base import PySparkException

from broker_stub import StubBroker
from tests.spark.fixtures import ROOT, spark_environment
from tests.spark.queries import TOPIC, Sink, batch, given, run_to_end, stream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

LINE = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} (\w+) rocketmq \[(.*?)\]: (.*)")


@pytest.fixture(scope="module")
def stub() -> Iterator[StubBroker]:
    """A stub with one broker and a topic of four queues with a message each."""
    with StubBroker({TOPIC: 4}) as broker:
        for number in range(4):
            broker.put(TOPIC, b"a", queue_id=number)
        yield broker


def require_short(error: PySparkException, sentence: str) -> None:
    """Check that an error has the sentence once, and no frames of the library."""
    text = str(error)
    assert text.count(sentence) == 1
    for noise in ("Traceback", "site-packages", "UnboundLocalError", "direct cause", "During handling"):
        assert noise not in text


def test_a_wrong_option_is_one_line_of_load(spark: SparkSession, stub: StubBroker) -> None:
    """If an option is misspelt, the error of `load` is Spark's words and the sentence."""
    with pytest.raises(AnalysisException) as refused:
        batch(spark, stub, subscibe="x")

    require_short(refused.value, "OptionError: [OPTION_UNKNOWN] subscibe")
    assert len(str(refused.value).splitlines()) <= 2


def test_a_pattern_that_matches_nothing_names_what_there_is(spark: SparkSession, stub: StubBroker) -> None:
    """If a batch read's pattern matches no topic, the error names the topics that there are."""
    options = given(stub) | {"subscribePattern": "order"}
    del options["subscribe"]
    with pytest.raises(PySparkException) as refused:
        spark.read.format("rocketmq").options(**options).load().collect()

    require_short(
        refused.value, "[OPTION_VALUE] subscribePattern = 'order': no topic matches; there are 4 topics, such as orders"
    )


def test_a_namespace_that_hides_a_topic_is_named(spark: SparkSession, stub: StubBroker, tmp_path: Path) -> None:
    """If a namespace is set, the error names the topic that was sought in the cluster."""
    with pytest.raises(StreamingQueryException) as refused:
        run_to_end(stream(spark, stub, namespace="prod"), Sink(), tmp_path)

    require_short(refused.value, "[TOPIC_NOT_FOUND] no name server knows the topic")
    assert "it was sought as prod%orders" in str(refused.value)


def test_a_stream_with_options_of_a_batch_is_refused_by_its_own_error(
    spark: SparkSession, stub: StubBroker, tmp_path: Path
) -> None:
    """If a stream is refused when its reader is made, Spark shows that error and not its own."""
    with pytest.raises(StreamingQueryException) as refused:
        run_to_end(stream(spark, stub, endingOffsets="latest"), Sink(), tmp_path)

    require_short(refused.value, "[OPTION_SCOPE] endingOffsets")


def test_a_task_that_fails_is_one_line(spark: SparkSession, stub: StubBroker) -> None:
    """If a task fails, the error has the sentence without frames of the library."""
    frame = spark.createDataFrame([("no body",)], "text STRING").selectExpr("CAST(NULL AS STRING) AS body")
    with pytest.raises(PySparkException) as refused:
        frame.write.format("rocketmq").options(nameServer=stub.name_server, topic=TOPIC).mode("append").save()

    require_short(refused.value, "BadRow: [SINK_ROW]")


@pytest.mark.parametrize("mode", ["errorifexists", "overwrite", "ignore"])
def test_modes_that_are_not_built_name_one_that_is(spark: SparkSession, stub: StubBroker, mode: str) -> None:
    """A DataFrame is appended to a topic; an error of another mode names that one."""
    frame = spark.createDataFrame([("a",)], "body STRING")
    with pytest.raises(PySparkException, match=r"(?i)append"):
        frame.write.format("rocketmq").options(nameServer=stub.name_server, topic=TOPIC).mode(mode).save()


def test_a_plain_script_reads_our_lines(stub: StubBroker, tmp_path: Path) -> None:
    """A script that works shows one line per start; one that fails shows the sentence first, and at the end."""
    environment = {**os.environ, **spark_environment()}
    command = [sys.executable, "-m", "tests.spark.plain_job", stub.name_server, str(tmp_path)]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)

    works, goes_on, fails = re.split(r"--- .*\n", done.stderr)[1:]
    [begun] = [found.groups() for found in map(LINE.match, works.splitlines()) if found and "reads" in found[3]]
    assert begun[0] == "INFO" and begun[1] == "driver, orders"
    assert begun[2].startswith(
        "reads 4 queues of orders; commits no positions; starts at startingOffsets=earliest; at most 4 "
    )
    assert "goes on from its checkpoint, which outranks startingOffsets=earliest" in goes_on
    sentence = "[TOPIC_NOT_FOUND] no name server knows the topic"
    lines = fails.splitlines()
    first = next(line for line in lines if " ERROR " in line)
    last = next(line for line in reversed(lines) if line.startswith("pyspark.errors."))
    assert LINE.match(first) and sentence in first and sentence in last, fails
    assert len(lines) - lines.index(last) < 10 and len(lines) < 60 and "/pyspark_rocketmq/" not in fails
