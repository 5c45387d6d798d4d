"""Test how `translate` reads programs: comments, expressions, languages, and what a program does not spell out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pyspark_rocketmq.cli.exits import Exit
from tests.cli.fixtures import RunCommand

Read = Any
"""A function that translates a program and returns the document."""


@pytest.fixture
def translate_program(run_command: RunCommand, tmp_path: Path) -> Read:
    """A function that translates the text of a program, and returns the document."""

    def run(text: str, *words: str) -> Any:
        (tmp_path / "job").write_text(text)
        ran = run_command("translate", "--file", "job", *words, "--json")
        assert (ran.code, ran.err) == (Exit.DONE, "")
        return ran.document

    return run


def options(document: Any) -> dict[str, str]:
    """Return the options of the only job, without those that every read from Kafka has."""
    [job] = document["jobs"]
    return {name: value for name, value in job["options"].items() if name not in ("rowLayout", "nameServer")}


PYTHON = """
    df = (spark.readStream.format("kafka")
        .option("subscribe", "orders")  # don't (lose
        # .option("subscribe", "old")
        .option("startingOffsets",  # from the first
                "earliest")
        .load())
"""
SCALA = """
    val df = spark.readStream.format("kafka") // don't (lose
      .option("subscribe", "orders")
      // .option("subscribe", "old")
      /* .option("startingOffsets", "latest") */
      .option("startingOffsets", "earliest")
      .load()
"""
JAVA = """
    Dataset<Row> df = spark.readStream().format("kafka")
      .option("subscribe", "orders")
      .option("startingOffsets", "earliest").load();
"""


@pytest.mark.parametrize("text", [PYTHON, SCALA, JAVA], ids=["Python", "Scala", "Java"])
def test_comments_are_no_options(translate_program: Read, text: str) -> None:
    """An option in a comment does not count, and a quotation mark in a comment begins no text."""
    assert options(translate_program(text)) == {"subscribe": "orders", "startingOffsets": "earliest"}


def test_a_comment_in_sql_is_no_option(translate_program: Read) -> None:
    """An option in a comment of Flink's SQL does not count, and a quoted quotation mark ends no clause."""
    document = translate_program(
        """CREATE TABLE a WITH ('connector' = 'rocketmq', 'topic' = 'orders',
             -- 'topic' = 'old', it's over
             /* 'topic' = 'older' */
             'fieldDelimiter' = '''', 'lineDelimiter' = '\\', 'consumerGroup' = 'billing');
           CREATE TABLE b WITH ('connector' = 'jdbc', 'topic' = 'b'); CREATE TABLE c WITH (
             'connector' = 'kafka', 'topic' = 'c')"""
    )
    assert options(document) == {"subscribe": "orders", "consumerGroup": "billing"}
    assert document["skipped"] == ["Flink's jdbc", "Flink's kafka"]


@pytest.mark.parametrize(
    ("arguments", "value"),
    [
        ('subscribe=",".join(topics), minPartitions="8"', '",".join(topics)'),
        ('subscribe="a" if is_test else "b", minPartitions=8', '"a" if is_test else "b"'),
        ('**{"subscribe": f"{stage}-orders", "minPartitions": "8"}', 'f"{stage}-orders"'),
        ('subscribe=json.dumps({"minPartitions": 1}), minPartitions="8"', 'json.dumps({"minPartitions": 1})'),
    ],
    ids=["call", "condition", "f-string", "braces"],
)
def test_an_expression_stays_whole(translate_program: Read, arguments: str, value: str) -> None:
    """A value that begins with a text or holds others is no text: it stays the expression that it is."""
    document = translate_program(f'spark.readStream.format("kafka").options({arguments}).load()')

    assert options(document) == {"subscribe": value, "minPartitions": "8"}
    assert f'.option("subscribe", {value})' in document["jobs"][0]["program"]


def test_escapes_of_a_text_are_understood(translate_program: Read) -> None:
    """Escapes, raw texts and texts in several parts have the value that the program gives them."""
    document = translate_program(
        r"""spark.readStream.format("kafka").option("subscribePattern", r"a\d" "\x62\u00e9\\d").load()"""
    )
    assert options(document) == {"subscribePattern": r"a\dbé\d"}


@pytest.mark.parametrize(
    "text",
    [
        'spark.readStream.format("kafka").option("subscribe", "orders")\\\n.options(**more).load()',
        'spark.readStream.format("kafka").option("subscribe", "orders")\\\n.option(NAME, "tell-nobody").load()',
        'val a = spark.readStream.format("kafka").option("subscribe", "orders")\n.options(more).load()',
        'val a = spark.readStream.format("kafka").option("subscribe", "orders")\n.option(NAME, "tell-nobody").load()',
    ],
    ids=["Python map", "Python name", "Scala map", "Scala name"],
)
def test_options_that_are_not_spelt_out_are_told(translate_program: Read, text: str) -> None:
    """A map of options, or an option whose name is an expression, is told with its line."""
    document = translate_program(text)

    assert options(document) == {"subscribe": "orders"}
    assert any("not spelt out" in remark and "line 2" in remark for remark in document["jobs"][0]["remarks"])
    assert "tell-nobody" not in str(document)


def test_a_job_of_nothing_but_a_map_is_told(translate_program: Read) -> None:
    """A read whose options are all in a map elsewhere is shown as one of which nothing is known."""
    document = translate_program('spark.readStream.format("kafka").options(**more).load()')

    assert options(document) == {} and "not spelt out" in str(document["jobs"][0]["remarks"])


def test_a_map_of_scala_is_read(translate_program: Read) -> None:
    """The pairs of a map in Scala are options; what cannot be told apart is never shown as a name."""
    document = translate_program(
        'val a = spark.readStream.format("kafka").options(Map("kafka.sasl.password" -> "tell-nobody", '
        '"subscribe" -> "orders", "minPartitions" -> "8")).load()'
    )
    assert options(document) == {"subscribe": "orders", "minPartitions": "8"}
    assert "tell-nobody" not in str(document)


def test_reads_of_files_do_not_stand_in_the_way(translate_program: Read) -> None:
    """Reads of other formats are left out, also those that name their format by a method, and reads of plain files."""
    document = translate_program(
        'names = spark.read.option("header", True).csv("names.csv")\n'
        'orders = spark.readStream.format("kafka")\n'
        'text = open("x").read()\n'
        'orders = orders.option("subscribe", "orders").load()\n'
        'orders.write.option("compression", "zstd").mode("append").parquet("out")\n'
    )
    assert options(document) == {"subscribe": "orders"}
    assert document["skipped"] == ["csv", "parquet"]


def test_options_of_the_last_call_count(translate_program: Read) -> None:
    """Options that are given to `load`, `save` or `start` count, and so does the format."""
    document = translate_program(
        'spark.readStream.option("subscribe", "orders").load(format="kafka", schema=None, minPartitions=8, **more)\n'
        'df.writeStream.start(format="kafka", outputMode="append", topic="sums")'
    )
    read, write = document["jobs"]
    assert read["options"].items() >= {"subscribe": "orders", "minPartitions": "8"}.items()
    assert "line 1" in str(read["remarks"]) and "schema" not in str(read["notes"])
    assert write["options"] == {"topic": "sums"} and write["use"] == "writeStream"


def test_a_typed_map_of_scala_is_read(translate_program: Read) -> None:
    """A map with its types is read like one without."""
    text = 'val a = spark.readStream.format("kafka").options(Map[String, String]("subscribe" -> "orders")).load()'
    assert options(translate_program(text)) == {"subscribe": "orders"}
