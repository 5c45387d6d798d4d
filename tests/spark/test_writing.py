"""Test writes through Spark: of batches, of streams, and in functions for `foreachBatch`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F

from broker_stub import StubBroker
from broker_stub.faults import NAME_SERVER
from pyspark_rocketmq import retry, writing
from pyspark_rocketmq.errors import OptionError
from pyspark_rocketmq.wire.codes import RequestCode, ResponseCode
from tests.spark.fixtures import ROOT, spark_environment
from tests.spark.queries import TOPIC, WAIT_TIMEOUT_S, batch, run_to_end, stream

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

OUT = "out"
SINGLE = RequestCode.SEND_MESSAGE_V2


@pytest.fixture
def stub() -> Iterator[StubBroker]:
    """A stub with one broker and two topics of four queues."""
    with StubBroker({TOPIC: 4, OUT: 4}) as broker:
        yield broker


def target(stub: StubBroker, **options: str) -> dict[str, str]:
    """Return the options of a write to `OUT`."""
    return {"nameServer": stub.name_server, "topic": OUT, **options}


def write(frame: DataFrame, stub: StubBroker, **options: str) -> None:
    """Write a data frame to `OUT`."""
    frame.write.format("rocketmq").options(**target(stub, **options)).mode("append").save()


def write_stream(frame: DataFrame, stub: StubBroker, checkpoint: Path, **options: str) -> None:
    """Write what a stream has now to `OUT`; raise if its query fails."""
    writer = frame.writeStream.format("rocketmq").options(**target(stub, **options))
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    assert query.awaitTermination(int(WAIT_TIMEOUT_S)), "the query should have ended"


def found(stub: StubBroker, topic: str = OUT) -> list[tuple[str, str]]:
    """Return (body, message id) of all messages of a topic, sorted."""
    return sorted((record.body.decode(), record.properties["UNIQ_KEY"]) for record in stub.messages(topic))


# --- batches ----------------------------------------------------------------------------------------------------------


def test_a_batch_is_read_back_as_it_was_written(spark: SparkSession, stub: StubBroker) -> None:
    """Body, tags, keys, properties, sharding key and flag of rows are written, and read as they were."""
    columns = "value STRING, tags STRING, keys ARRAY<STRING>, properties MAP<STRING, STRING>, shardingKey STRING"
    rows = [("one", "new", ["k1", "k2"], {"vip": "yes"}, "a", 3), ("ü", None, None, None, None, None)]
    write(spark.createDataFrame(rows, f"{columns}, flag INT"), stub)
    chosen = "cast(body AS string)", "tags", "keys", "properties", "shardingKey", "flag"
    read = batch(spark, stub, subscribe=OUT, columns="body,tags,keys,properties,shardingKey,flag")
    assert sorted(map(tuple, read.selectExpr(*chosen).collect())) == [
        ("one", "new", "k1 k2", {"vip": "yes"}, "a", 3),
        ("ü", None, None, {}, None, 0),
    ]


def test_other_save_modes_say_what_to_use(spark: SparkSession, stub: StubBroker) -> None:
    """Spark itself names append as the mode to use instead of its default; overwriting is refused by this library."""
    writer = spark.range(1).selectExpr("cast(id AS string) AS body").write.format("rocketmq").options(**target(stub))
    for mode, text in (("errorifexists", '"Append"'), ("ignore", '"Append"'), ("overwrite", 'mode("append")')):
        with pytest.raises(Exception, match="cannot be") as refused:
            writer.mode(mode).save()
        assert text in str(refused.value)
    assert found(stub) == []


def test_a_bad_row_fails_the_write_with_our_words(spark: SparkSession, stub: StubBroker) -> None:
    """Spark's error contains our code, partition, row, topic, column and reason."""
    rows = spark.range(10, numPartitions=1).selectExpr("if(id = 7, '', 'x') AS body")
    with pytest.raises(Exception, match=r"\[SINK_ROW\] partition 0: row 7 .* column body: .*topic out") as refused:
        write(rows, stub)
    assert "onBadRow" in str(refused.value)


# --- streams ----------------------------------------------------------------------------------------------------------


def test_a_stream_writes_every_row_once(spark: SparkSession, stub: StubBroker, tmp_path: Path) -> None:
    """Two runs of a query write what each finds; no row is missing or repeated, and all ids differ."""
    for run in range(2):
        stub.fill(TOPIC, 100, 20)
        write_stream(stream(spark, stub).select("body"), stub, tmp_path)
        assert len({unique for _, unique in found(stub)}) == len(found(stub)) == 100 * (run + 1)
    sent, written = (Counter(record.body for record in stub.messages(topic)) for topic in (TOPIC, OUT))
    assert sent == written


def test_a_replayed_batch_repeats_its_ids(spark: SparkSession, stub: StubBroker, tmp_path: Path) -> None:
    """If a task fails after rows of its batch have landed, the replay repeats them with their ids, and adds the rest.

    A reader drops the repetitions by `dropDuplicatesWithinWatermark("msgId")`, and has exactly the input.
    """
    for number in range(120):
        stub.put(TOPIC, b"%d" % number)
    source = stream(spark, stub).select("body")
    stub.faults.answer(ResponseCode.NO_PERMISSION, on=SINGLE, times=1)
    with pytest.raises(Exception, match="SINK_WRITE"):
        write_stream(source, stub, tmp_path / "copy", sendBatchSize="1", retryTimesWhenSendFailed="0")
    first = found(stub)
    assert 0 < len(first) < 120
    write_stream(source, stub, tmp_path / "copy", sendBatchSize="1")
    every = found(stub)
    assert len(every) == len(first) + 120 and len(set(every)) == 120 and set(first) < set(every)
    seen: list[str] = []
    copy = stream(spark, stub, subscribe=OUT).withWatermark("storeTimestamp", "1 hour")
    run_to_end(
        copy.dropDuplicatesWithinWatermark(["msgId"]),
        lambda frame, _: seen.extend(row.body.decode() for row in frame.collect()),  # type: ignore[arg-type]
        tmp_path / "read",
    )
    assert sorted(seen, key=int) == [str(number) for number in range(120)]


def test_a_topic_that_no_broker_creates_fails_the_stream(spark: SparkSession, stub: StubBroker, tmp_path: Path) -> None:
    """If a stream's topic is missing and not created, Spark's error contains our code and the command to create it."""
    stub.faults.answer(ResponseCode.TOPIC_NOT_EXIST, on=RequestCode.GET_ROUTEINFO_BY_TOPIC, at=NAME_SERVER, times=None)
    rows = spark.readStream.format("rate").load().selectExpr("cast(value AS string) AS body")
    with pytest.raises(Exception, match=r"\[TOPIC_NOT_FOUND\] .*mqadmin updateTopic .* -t new"):
        write_stream(rows, stub, tmp_path, topic="new", sendTimeoutMs="1000")


# --- functions for foreachBatch ---------------------------------------------------------------------------------------


def test_send_in_foreach_batch_repeats_ids(spark: SparkSession, stub: StubBroker, tmp_path: Path) -> None:
    """A function that fails after its sends is run again with the batch: rows have the ids of their first copies.

    Sends to two sinks of one batch need names, and give rows different ids.
    """
    for number in range(20):
        stub.put(TOPIC, b"%d" % number)
    refusals: list[str] = []

    def handle(frame: DataFrame, batch_id: int) -> None:
        rows = frame.select("body")
        writing.send(rows, batch_id, target(stub))
        writing.send(rows, batch_id, target(stub, sinkName="audit"))
        try:
            writing.send(rows, batch_id, target(stub))
        except OptionError as error:
            refusals.append(str(error))
        if len(found(stub)) < 80:
            raise OSError("another sink failed")

    with pytest.raises(Exception, match="another sink failed"):
        run_to_end(stream(spark, stub), handle, tmp_path)  # type: ignore[arg-type]  # any writer of batches will do
    first = found(stub)
    run_to_end(stream(spark, stub), handle, tmp_path)  # type: ignore[arg-type]
    assert len(first) == len(set(first)) == 40 and Counter(found(stub)) == Counter(first * 2)
    assert len(refusals) == 2 and all("[OPTION_CONFLICT] sinkName" in text for text in refusals)


def test_send_elsewhere_needs_a_query(spark: SparkSession, stub: StubBroker) -> None:
    """Outside of a query, Spark does not tell one: it must be given, and stands for the query in message ids."""
    rows = spark.range(5).selectExpr("cast(id AS string) AS body")
    with pytest.raises(OptionError, match=r"\[OPTION_MISSING\] query_id"):
        writing.send(rows, 0, target(stub))
    for _ in range(2):
        writing.send(rows, 0, target(stub), query_id="mine")
    assert len(found(stub)) == 10 and len(set(found(stub))) == 5


def test_dead_letters_have_their_cause(spark: SparkSession, stub: StubBroker, tmp_path: Path) -> None:
    """Rows go to the user's topic with cause, origin, keys, tags and properties.

    A replay repeats their ids; a row that fails for another cause, too, has another id then. The origin of a row of a
    retry topic is the topic in which it began.
    """
    causes = ("no order id", "no order id", "too late")
    stub.put(TOPIC, b"broken", tags="new", keys="k", properties={"vip": "yes", "CAUSE": "earlier"})
    given = {"nameServer": stub.name_server, "subscribe": TOPIC, "deadLetterTopic": "dead", "tags": "*"}

    def handle(frame: DataFrame, batch_id: int) -> None:
        again = frame.selectExpr("* EXCEPT (topic)", "'%RETRY%etl' AS topic", f"'{TOPIC}' AS originTopic")
        for rows, cause in zip((frame, frame, again), causes, strict=True):
            retry.dead_letter(rows, given, cause=cause)

    run_to_end(stream(spark, stub), handle, tmp_path)  # type: ignore[arg-type]
    letters = stub.messages("dead")
    wanted = {"ORIGIN_TOPIC": TOPIC, "KEYS": "k", "TAGS": "new", "vip": "yes"}
    assert [{name: letter.properties[name] for name in wanted} for letter in letters] == [wanted] * 3
    assert sorted(letter.properties["CAUSE"] for letter in letters) == sorted(causes)
    assert len(set(found(stub, "dead"))) == 2 and letters[0].body == b"broken"
    with pytest.raises(OptionError, match=r"\[OPTION_MISSING\] deadLetterTopic"):
        retry.dead_letter(batch(spark, stub), {"nameServer": stub.name_server}, cause="x")


def test_dead_letters_of_rows_without_a_place_have_ids_of_their_own(
    spark: SparkSession, stub: StubBroker, tmp_path: Path
) -> None:
    """Equal rows of two calls in a batch have different ids, and a replay repeats these."""
    for number in range(3):
        stub.put(TOPIC, b"%d" % number)
    given = {"nameServer": stub.name_server, "deadLetterTopic": "dead"}

    def handle(frame: DataFrame, batch_id: int) -> None:
        for _ in range(2):
            retry.dead_letter(frame.select("body"), given, cause="x")
        if len(stub.messages("dead")) < 12:
            raise OSError("another sink failed")

    with pytest.raises(Exception, match="another sink failed"):
        run_to_end(stream(spark, stub), handle, tmp_path)  # type: ignore[arg-type]
    first = found(stub, "dead")
    assert len(first) == len(set(first)) == 6
    run_to_end(stream(spark, stub), handle, tmp_path)  # type: ignore[arg-type]
    assert Counter(found(stub, "dead")) == Counter(first * 2)


def test_what_brokers_would_refuse_does_not_keep_a_row_from_becoming_a_dead_letter(
    spark: SparkSession, stub: StubBroker
) -> None:
    """Tags, keys and properties that no broker takes are left out, and a long body is cut: no row fails for ever."""
    map_of_rows = [
        ("tags", {}, "new|old", "k"),
        ("keys", {}, "new", "a\x01b"),
        ("names", {"__RMQ.TRANSIENT.a": "1", " ": "1", "a\x01": "1", "vip": "yes"}, "new", "k"),
        ("values", {"blank": " ", "separator": "a\x02b", "vip": "yes"}, "new", "k"),
        ("long", {"vip": "x" * 31_000, "more": "y"}, "new", "k"),
        ("b" * 2000, {}, None, None),
        (None, {}, None, None),
    ]
    columns = "body STRING, properties MAP<STRING, STRING>, tags STRING, keys STRING"
    rows = spark.createDataFrame(map_of_rows, columns).withColumn("topic", F.lit(" "))
    given = {"nameServer": stub.name_server, "deadLetterTopic": "dead", "maxMessageSize": "1k"}
    cause = F.concat(F.lit("bad\x01\t"), F.unhex(F.lit("FF")).cast("string"))
    retry.dead_letter(rows, given, cause=cause)

    names = "TAGS", "KEYS", "vip"
    letters = {record.body: tuple(map(record.properties.get, names)) for record in stub.messages("dead")}
    assert letters == {
        b"tags": (None, "k", None),
        b"keys": ("new", None, None),
        b"names": ("new", "k", "yes"),
        b"values": ("new", "k", "yes"),
        b"long": (None, None, None),
        b"b" * 1024: (None, None, None),
        b" ": (None, None, None),
    }
    assert {record.properties["CAUSE"] for record in stub.messages("dead")} == {"bad \t\ufffd"}


def test_a_query_of_dead_letters_has_batches(spark: SparkSession, stub: StubBroker) -> None:
    """Outside of a query, `query_id` needs a batch; with both, ids repeat."""
    rows = spark.range(5).selectExpr("cast(id AS string) AS body", "'t' AS topic", "'b' AS brokerName", "0 AS queueId")
    placed, given = rows.withColumn("queueOffset", F.expr("cast(body AS long)")), {"nameServer": stub.name_server}
    given["deadLetterTopic"] = "dead"
    with pytest.raises(OptionError, match=r"\[OPTION_MISSING\] batch_id"):
        retry.dead_letter(placed, given, "x", query_id="mine")
    for _ in range(2):
        retry.dead_letter(placed, given, "x", 0, query_id="mine")
    assert len(found(stub, "dead")) == 10 and len(set(found(stub, "dead"))) == 5


def test_it_works_over_connect(stub: StubBroker, tmp_path: Path) -> None:
    """Over Spark Connect batches and streams are written, and so are batches in `foreachBatch`.

    The client runs in a process of its own, because one process cannot have a classic session and a client.
    """
    stub.fill(TOPIC, 10, 20)
    command = [sys.executable, "-m", "tests.spark.connect_writing", stub.name_server, str(tmp_path)]
    environment: dict[str, Any] = {**os.environ, **spark_environment()}
    ended = subprocess.run(command, cwd=ROOT, env=environment, timeout=300, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr[-4000:]
    assert json.loads(ended.stdout.splitlines()[-1]) == "done"
    counts = [len(stub.messages(topic)) for topic in ("batch", "stream", "function", "dead")]
    assert counts == [5, 10, 20, 20]
    assert len(set(found(stub, "function"))) == len(set(found(stub, "dead"))) == 10
