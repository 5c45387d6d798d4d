"""Test that a condition narrows what a batch query reads, and never changes the rows."""

from __future__ import annotations

import logging
import operator
import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import accumulate, count
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker_stub import StubBroker, StubCluster
from pyspark_rocketmq.cluster.cluster import open_cluster
from pyspark_rocketmq.errors import OffsetBeforeEarliest, OptionError
from pyspark_rocketmq.options import condition_key
from pyspark_rocketmq.source.batch import BatchReader
from pyspark_rocketmq.source.narrowing import CLOCK_STEP_MS
from pyspark_rocketmq.source.partition import RangePartition
from pyspark_rocketmq.source.where import read_condition
from pyspark_rocketmq.wire.bodies import TopicConfig
from pyspark_rocketmq.wire.codes import ResponseCode

from .driving import TOPIC, batch_options_for, queue_of

COLUMNS = "topic,brokerName,queueId,queueOffset,tags,storeTimestamp"
MINUTE_MS = 60_000
Fields = Mapping[str, Any]


@pytest.fixture
def stub() -> Iterator[StubBroker]:
    """One broker with a topic of two queues, ten messages in each, one every ten minutes, with tags A and B in turn."""
    with StubBroker({TOPIC: 2}) as broker:
        for number in range(20):
            at = (number // 2 + 1) * 10 * MINUTE_MS
            broker.put(TOPIC, b"%d" % number, tags="AB"[number // 2 % 2], queue_id=number % 2, store_timestamp=at)
        yield broker


def instant(ms: float) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)


def time(ms: float, hours: int = 0) -> str:
    """Return the SQL of an instant, written in the zone that is some hours east."""
    zone = f"+{hours:02}:00" if hours else "Z"
    return f"TIMESTAMP '{instant(ms) + timedelta(hours=hours):%Y-%m-%d %H:%M:%S.%f}{zone}'"


class Query:
    """A query with a condition, run by the calls of Spark in their order; objects are pickled between processes."""

    def __init__(self, stub: StubCluster, condition: str, **options: str) -> None:
        given = {"columns": COLUMNS, **options, **condition_key(condition)}
        reader = BatchReader(batch_options_for(stub, **given))
        self.tasks: list[RangePartition] = pickle.loads(pickle.dumps(reader.partitions()))
        self._reader: BatchReader = pickle.loads(pickle.dumps(reader))

    @property
    def offsets(self) -> int:
        """The number of offsets in all ranges."""
        return sum(each.offset_count for task in self.tasks for each in task.ranges)

    @property
    def tags(self) -> set[str]:
        """The tags that brokers are asked for because of the condition."""
        return {tag for task in self.tasks for tag in task.tags}

    def rows(self) -> list[Fields]:
        """Return the rows that the reader gives to Spark."""
        return read(self._reader, self.tasks)


def read(reader: BatchReader, tasks: Sequence[RangePartition]) -> list[Fields]:
    """Return the rows of these tasks, sorted by topic, queue and offset."""
    rows = [row for task in tasks for batch in reader.read(task) for row in batch.to_pylist()]
    return sorted(rows, key=lambda row: (row["topic"], row["queueId"], row["queueOffset"]))


# --- rows are the same ------------------------------------------------------------------------------------------------


class Comparison(NamedTuple):
    """A comparison as SQL, and as a function of a row."""

    sql: str
    holds: Callable[[Fields], bool]


TAGS = ["A", "B", "Aa", "BB", " A", "a|b", "x||y", "*", "é", "-- A", "A AND B", ""]
TOPICS = [f"{TOPIC}-1", f"{TOPIC}-2"]
SIGNS: Mapping[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}
_fresh = count()

jitter = st.integers(0, CLOCK_STEP_MS)
steps = st.sampled_from([0, 1, 1_000, CLOCK_STEP_MS, 5 * CLOCK_STEP_MS])
messages = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 1), st.sampled_from(TAGS), steps, jitter), max_size=25)
times = st.builds(lambda us, hours: (us / 1000, hours), st.integers(0, 40 * CLOCK_STEP_MS * 1000), st.integers(0, 12))
huge = st.sampled_from([-(10**29), -(2**63) - 1, 2**63 - 1, 2**63, 10**29])


def compare(column: str, sign: str, value: Any, sql: str) -> Comparison:
    return Comparison(f"{column} {sign} {sql}", lambda row: row[column] is not None and SIGNS[sign](row[column], value))


def is_among(column: str, values: list[Any], sql: str) -> Comparison:
    return Comparison(f"{column} IN ({sql})", lambda row: row[column] in values)


def choices(column: str, values: st.SearchStrategy[Any], sql: Callable[[Any], str]) -> st.SearchStrategy[Comparison]:
    """Return comparisons of a column with `=` and IN."""
    one = values.map(lambda value: compare(column, "=", value, sql(value)))
    some = st.lists(values, min_size=1, max_size=4)
    return one | some.map(lambda found: is_among(column, found, ", ".join(map(sql, found))))


def orders(
    column: str, values: st.SearchStrategy[Any], sql: Callable[[Any], str], python: Callable[[Any], Any]
) -> st.SearchStrategy[Comparison]:
    """Return comparisons of a column of which there is an order."""

    def between(low: Any, high: Any) -> Comparison:
        limits = python(low), python(high)
        return Comparison(
            f"{column} between {sql(low)} and {sql(high)}", lambda row: limits[0] <= row[column] <= limits[1]
        )

    one = st.builds(
        lambda sign, each: compare(column, sign, python(each), sql(each)), st.sampled_from([*SIGNS]), values
    )
    some = st.lists(values, min_size=1, max_size=4)
    among = some.map(lambda found: is_among(column, [*map(python, found)], ",".join(map(sql, found))))
    return one | among | st.builds(between, values, values)


comparisons = (
    choices("tags", st.sampled_from(TAGS), "'{}'".format)
    | choices("topic", st.sampled_from([*TOPICS, "other"]), "'{}'".format)
    | choices("brokerName", st.sampled_from(["broker-a", "Broker-a", "broker-b"]), "'{}'".format)
    | choices("queueId", st.integers(-1, 3) | huge, str)
    | orders("queueOffset", st.integers(-1, 12) | huge, str, int)
    | orders("storeTimestamp", times, lambda each: time(*each), lambda each: instant(each[0]))
)


@pytest.fixture(scope="module")
def world() -> Iterator[StubBroker]:
    """One broker for all examples; each makes topics of its own."""
    with StubBroker() as broker:
        yield broker


@settings(max_examples=60, deadline=None)
@given(messages, st.lists(comparisons, min_size=1, max_size=3), st.sampled_from(["*", "A||BB", "C"]))
def test_no_condition_changes_the_rows(
    world: StubBroker, sent: list[tuple[int, int, str, int, int]], where: list[Comparison], tags: str
) -> None:
    """With any messages, condition and option `tags`, no row that meets the condition is left out.

    Store times fall by at most `CLOCK_STEP_MS` in a queue.
    """
    number = next(_fresh)
    names = {f"{TOPIC}-{each}": f"{TOPIC}-{number}-{each}" for each in (1, 2)}
    shown = {name: plain for plain, name in names.items()}
    topics, wanted = list(names.values()), []
    for (topic, queue_id, tag, _, late_ms), at in zip(sent, accumulate(each[3] for each in sent), strict=True):
        stored = world.put(topics[topic], b"", tags=tag, queue_id=queue_id, store_timestamp=at + late_ms)
        wanted.append((TOPICS[topic], queue_id, stored.offset, tag or None, instant(at + late_ms)))
    for name in topics:
        world.put(name, b"", tags="last", queue_id=3, store_timestamp=1)
    sql = " AND ".join(each.sql for each in where)
    for plain, name in names.items():
        sql = sql.replace(f"'{plain}'", f"'{name}'")

    query = Query(world, sql, subscribe=",".join(topics), tags=tags)

    rows = [{**row, "topic": shown[row["topic"]]} for row in query.rows()]
    columns = ("topic", "queueId", "queueOffset", "tags", "storeTimestamp")
    kept = [tuple(row[name] for name in columns) for row in rows if all(each.holds(row) for each in where)]
    asked = tags.split("||")
    assert [each for each in kept if each[3] != "last"] == sorted(
        each
        for each in wanted
        if (tags == "*" or each[3] in asked)
        and all(one.holds({"brokerName": "broker-a", **dict(zip(columns, each, strict=True))}) for one in where)
    )


# --- what is left out -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("condition", "offsets"),
    [
        ("topic = 'other'", 0),
        (f"topic = '{TOPIC}'", 20),
        ("brokerName = 'broker-b'", 0),
        ("queueId = 1", 10),
        ("QUEUEID in (1, 7)", 10),
        ("queueOffset > 6", 6),
        ("queueOffset <= 6", 14),
        ("queueOffset IN (2, 5)", 8),
        ("queueOffset BETWEEN 2 AND 5 AND queueId = 0", 4),
        ("queueOffset BETWEEN 5 AND 2", 0),
        (f"storeTimestamp >= {time(50 * MINUTE_MS)}", 12),
        (f"storeTimestamp >= {time(50 * MINUTE_MS, hours=9)}", 12),
        (f"storeTimestamp<{time(50 * MINUTE_MS)}", 10),
        (f"storeTimestamp = {time(50 * MINUTE_MS)}", 2),
        (f"storeTimestamp > {time(9_000 * MINUTE_MS)}", 0),
        ("storeTimestamp < TIMESTAMP '1969-01-01 00:00:00Z'", 20),
    ],
)
def test_a_condition_leaves_out_what_it_can(stub: StubBroker, condition: str, offsets: int) -> None:
    """A condition on a queue, offsets or times leaves out ranges."""
    assert Query(stub, condition).offsets == offsets


@pytest.mark.parametrize(
    "condition",
    [
        "",
        "queueId",
        "queueId =",
        "queueId = 1 OR queueId = 2",
        "queueId = 1 AND queueOffset > 2 OR tags = 'A'",
        "NOT queueId = 1",
        "queueId <> 1",
        "queueId <=> 1",
        "queueId > 1",
        "queueId = '1'",
        "queueId = 1.5",
        "queueId = 1 -- AND queueId = 2",
        "queueId = 2 - 1",
        "queueId = --1",
        "queueId IN ()",
        "queueId IN (1, NULL)",
        "queueId IN (SELECT 1)",
        "(queueId = 1)",
        "queueId = 1;",
        "queueOffset = 5L",
        "queueOffset > 1e2",
        "queueOffset NOT BETWEEN 1 AND 2",
        "queueOffset BETWEEN 1 AND tags",
        "keys = 'k'",
        "tags = lower('A')",
        "tags = NULL",
        'tags = "A"',
        "tags = 'A' 'B'",
        r"tags = '\x41'",
        "tags = 'it''s'",
        "tags = r'A'",
        "tags = '${env:HOME}'",
        "tags LIKE 'A%'",
        "storeTimestamp > TIMESTAMP '2026-01-31 10:00:00'",
        "storeTimestamp > TIMESTAMP '2026-02-31 10:00:00Z'",
        "storeTimestamp > TIMESTAMP_NTZ '2026-01-31 10:00:00'",
        "storeTimestamp > '2026-01-31 10:00:00Z'",
        "storeTimestamp > now()",
        "storeTimestamp > 5",
    ],
)
def test_what_narrows_no_read_is_refused(condition: str) -> None:
    """Only comparisons with values that mean the same in any session are taken, so that none is half understood."""
    with pytest.raises(OptionError, match=r"condition = .*|give SQL") as refused:
        read_condition(condition)
    assert "read_where returns" in str(refused.value)


def test_a_column_expression_is_refused() -> None:
    """A condition that is no text is refused with advice."""
    expression: Any = object()
    with pytest.raises(OptionError, match="is not a text; give SQL"):
        read_condition(expression)


def test_no_row_is_lost_by_a_clock_that_was_set_back() -> None:
    """If the broker's clock was set back by a minute, rows before and after that are found by their times."""
    with StubBroker({TOPIC: 1}) as stub:
        hour, day = 60 * MINUTE_MS, 24 * 60 * MINUTE_MS
        for at in (0, hour, day, day + MINUTE_MS, day, day + 1, day + hour, 2 * day):
            stub.put(TOPIC, b"", queue_id=0, store_timestamp=at + 1)
        late = Query(stub, f"storeTimestamp >= {time(day + MINUTE_MS + 1)}")
        early = Query(stub, f"storeTimestamp <= {time(day + 1)}")

        assert {3, 6, 7} <= {row["queueOffset"] for row in late.rows()}
        assert {0, 1, 2, 4} <= {row["queueOffset"] for row in early.rows()}
        assert late.offsets < 8 > early.offsets


def test_the_kafka_layout_has_its_own_names(stub: StubBroker) -> None:
    """In the layout `kafka`, the columns partition, offset and timestamp narrow the read."""
    where = f"partition = 1 AND offset < 8 AND timestamp > {time(50 * MINUTE_MS)}"

    assert Query(stub, where, rowLayout="kafka", columns="value").offsets == 4


# --- tags -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("condition", "given", "asked"),
    [
        ("tags = 'A'", {}, {"A"}),
        ("tags IN ('A', 'C')", {}, {"A", "C"}),
        ("tags = 'A' AND tags IN ('A', 'C')", {}, {"A"}),
        ("tags = 'A'", {"tags": "A||B"}, {"A"}),
        ("tags = 'A'", {"tags": "B"}, set()),
        ("tags = 'A' AND tags = 'B'", {}, set()),
        ("tags = 'A'", {"sqlFilter": "a IS NULL"}, set()),
        ("tags = 'a|b'", {}, set()),
        ("tags = ' A'", {}, set()),
        ("tags = '*'", {}, set()),
        ("tags = ''", {}, set()),
        (f"tags IN ({', '.join(map(repr, map(str, range(33))))})", {}, set()),
    ],
)
def test_brokers_are_asked_for_tags(stub: StubBroker, condition: str, given: dict[str, str], asked: set[str]) -> None:
    """Brokers filter by the tags of a condition, within those of the option `tags`, if a list of tags can name them."""
    assert Query(stub, condition, **given).tags == asked


@pytest.mark.parametrize("attribute", [{"queue.type": "BatchCQ"}, {"cleanup.policy": "COMPACTION"}], ids=str)
def test_brokers_are_not_asked_about_special_topics(stub: StubBroker, attribute: dict[str, str]) -> None:
    """Brokers do not look at tags in batches, nor at compacted messages by time, so neither narrows such a topic."""
    special = TopicConfig(topic_name="special", attributes=attribute)
    open_cluster(batch_options_for(stub).cluster).admin.create_topic(special)
    stub.put("special", b"", tags="A", queue_id=0, store_timestamp=1)
    where = f"storeTimestamp > {time(90 * MINUTE_MS)} AND tags = 'A'"
    query = Query(stub, where, subscribe="special")

    assert (query.offsets, query.tags) == (1, set())
    assert Query(stub, where).offsets == 4


def test_brokers_are_not_asked_about_their_own_topics() -> None:
    """In the topic of delayed messages, brokers keep the time of delivery in place of the tag, so no tag narrows it."""
    topic = "SCHEDULE_TOPIC_XXXX"
    with StubBroker({topic: 1}) as stub:
        stub.put(topic, b"", tags="A", queue_id=0)
        query = Query(stub, "tags = 'A'", subscribe=topic)

        assert (query.tags, len(query.rows())) == (set(), 1)


# --- brokers that do not know -----------------------------------------------------------------------------------------


def test_brokers_before_5_are_not_asked() -> None:
    """Brokers before 5.1.1 return the nearest message, and do not tell the kind of a topic, so nothing is left out."""
    with StubBroker({TOPIC: 1}, emulate="4.9.7") as stub:
        for number in range(5):
            stub.put(TOPIC, b"", tags="A", queue_id=0, store_timestamp=number * 10 * MINUTE_MS)
        query = Query(stub, f"storeTimestamp > {time(30 * MINUTE_MS)} AND tags = 'A'")

        assert (query.offsets, query.tags) == (5, set())
        offsets = open_cluster(batch_options_for(stub).cluster).offsets
        assert offsets.search_masters({queue_of(0): 1}) == {}


@pytest.mark.parametrize("code", [ResponseCode.REQUEST_CODE_NOT_SUPPORTED, ResponseCode.TOPIC_NOT_EXIST])
def test_a_topic_counts_as_special_if_one_broker_does_not_tell(code: ResponseCode) -> None:
    """If one of two brokers does not tell the topic's configuration, no broker is asked for tags or times."""
    with StubCluster(2, topics={TOPIC: 1}) as stub:
        for number in range(6):
            stub.put(TOPIC, b"", tags="A", queue_id=0, store_timestamp=number * 10 * MINUTE_MS)
        where = f"storeTimestamp > {time(30 * MINUTE_MS)} AND tags = 'A'"
        assert Query(stub, where).tags == {"A"}
        stub.faults.answer(code, on="GET_TOPIC_CONFIG", at="broker-a", times=None)
        query = Query(stub, where)

        assert (query.offsets, query.tags) == (6, set())


def test_a_replica_is_not_asked_for_times() -> None:
    """While the master is away, a time leaves out nothing, because the replica may lack messages."""
    with StubCluster(1, slaves=1, topics={TOPIC: 1}) as stub:
        for number in range(5):
            stub.put(TOPIC, b"", queue_id=0, store_timestamp=number * 10 * MINUTE_MS)
        where = f"storeTimestamp < {time(10 * MINUTE_MS)}"
        offsets = open_cluster(batch_options_for(stub).cluster).offsets
        assert Query(stub, where).offsets == 2 and offsets.search_masters({queue_of(0): 1}) == {queue_of(0): 1}
        stub.faults.broker_down(broker_id=0)

        assert Query(stub, "tags = 'A'").tags == {"A"}, "a replica tells the topic's configuration, too"
        assert Query(stub, where).offsets == 5 and offsets.search_masters({queue_of(0): 1}) == {}


# --- with other options -----------------------------------------------------------------------------------------------


def test_a_condition_narrows_what_the_options_choose(stub: StubBroker) -> None:
    """A condition narrows a pattern of topics, and the range between the start and the end of the options."""
    stub.put("orders-late", b"", queue_id=0)
    ends = '{"orders": {"*": {"*": 8}}}'

    assert Query(stub, "topic = 'orders-late'", subscribePattern="orders.*").offsets == 1
    assert Query(stub, "queueOffset >= 5 AND queueId = 1", endingOffsets=ends).offsets == 3
    assert Query(stub, "queueOffset >= 9", endingOffsets=ends).rows() == []


def test_topics_of_a_namespace_have_their_own_names(stub: StubBroker) -> None:
    """A condition names topics as the column `topic` does, without the namespace."""
    stub.put("shop%orders", b"", tags="A", queue_id=0)
    query = Query(stub, "topic = 'orders' AND tags = 'A'", namespace="shop")

    assert [row["topic"] for row in query.rows()] == ["orders"]


def test_a_loss_that_the_condition_excludes_is_told(stub: StubBroker) -> None:
    """If messages that the options ask for are gone, the read fails, even if the condition excludes them."""
    stub.expire(TOPIC, 0, 3)

    with pytest.raises(OffsetBeforeEarliest, match="offset 0 is gone"):
        Query(stub, "queueId = 1", startingOffsets='{"orders": {"*": {"*": 0}}}')


def test_what_expires_outside_the_condition_is_no_loss(stub: StubBroker) -> None:
    """If messages expire after planning, and the condition excludes them, the read does not fail."""
    query = Query(stub, "queueOffset >= 5")
    stub.expire(TOPIC, 0, 5)

    assert len(query.rows()) == 10


def test_what_expires_inside_the_condition_is_a_loss(stub: StubBroker) -> None:
    """If messages that the condition keeps expire after planning, the read fails rather than leave them out."""
    query = Query(stub, "queueOffset >= 5 AND queueId = 0")
    stub.expire(TOPIC, 0, 6)

    with pytest.raises(OffsetBeforeEarliest):
        query.rows()


def test_narrowing_is_logged(stub: StubBroker, caplog: pytest.LogCaptureFixture) -> None:
    """A log line says how much a condition leaves to be read."""
    with caplog.at_level(logging.INFO):
        Query(stub, "queueId = 1 AND tags = 'A'")

    assert "the condition leaves 10 of 20 offsets to be read, with tags ['A']" in caplog.text
