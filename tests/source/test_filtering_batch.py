"""Test that the WHERE of a batch query narrows what is read, and never changes the rows."""

from __future__ import annotations

import logging
import operator
import os
import pickle
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta, timezone
from itertools import accumulate, count
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)

from broker_stub import StubBroker, StubCluster
from pyspark_rocketmq.cluster.cluster import open_cluster
from pyspark_rocketmq.errors import OffsetBeforeEarliest, OptionError
from pyspark_rocketmq.options import ReaderOptions
from pyspark_rocketmq.source.batch import BatchReader
from pyspark_rocketmq.source.filtering_batch import FilteringBatchReader
from pyspark_rocketmq.source.narrowing import CLOCK_STEP_MS
from pyspark_rocketmq.source.partition import RangePartition
from pyspark_rocketmq.wire.bodies import TopicConfig

from .driving import TOPIC, batch_options_for, queue_of

ANCHOR = GreaterThanOrEqual(("queueOffset",), 0)
COLUMNS = "topic,brokerName,queueId,queueOffset,tags,storeTimestamp"
MINUTE_MS = 60_000
Fields = Mapping[str, Any]


@pytest.fixture(autouse=True)
def private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give the tests a temporary directory of their own; return the path at which WHEREs are noted in it."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path / f"pyspark_rocketmq-{os.geteuid()}"


@pytest.fixture
def stub() -> Iterator[StubBroker]:
    """One broker with a topic of two queues, ten messages in each, one every ten minutes, with tags A and B in turn."""
    with StubBroker({TOPIC: 2}) as broker:
        for number in range(20):
            at = (number // 2 + 1) * 10 * MINUTE_MS
            broker.put(TOPIC, b"%d" % number, tags="AB"[number // 2 % 2], queue_id=number % 2, store_timestamp=at)
        yield broker


def among(column: str, *values: Any) -> Filter:
    """Return the condition IN as Spark passes it: with a list."""
    passed: Any = list(values)
    return In((column,), passed)


def instant(ms: float) -> datetime:
    """Return the instant as Spark passes it: with a zone."""
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)


class Query:
    """A query with a WHERE, run by the calls of Spark in their order, with its objects pickled between processes."""

    def __init__(self, options: ReaderOptions, *conditions: Filter, load_id: str = "", anchor: Filter = ANCHOR) -> None:
        reader = FilteringBatchReader(options, load_id=load_id or uuid4().hex)
        self.conditions = [anchor, *conditions]
        self.left = list(reader.pushFilters(self.conditions))
        function = pickle.dumps(reader)
        self.tasks: list[RangePartition] = pickle.loads(pickle.dumps(reader.partitions()))
        self._reader: FilteringBatchReader = pickle.loads(function)

    @property
    def offsets(self) -> int:
        """The number of offsets in all ranges."""
        return sum(each.offset_count for task in self.tasks for each in task.ranges)

    @property
    def tags(self) -> set[str]:
        """The tags that brokers are asked for because of the WHERE."""
        return {tag for task in self.tasks for tag in task.tags}

    def rows(self) -> list[Fields]:
        """Return the rows that are left when Spark has applied the conditions again."""
        return [row for row in read(self._reader, self.tasks) if all(holds(each, row) for each in self.left)]


def read(reader: BatchReader, tasks: Sequence[RangePartition]) -> list[Fields]:
    """Return the rows of these tasks, sorted by topic, queue and offset."""
    rows = [row for task in tasks for batch in reader.read(task) for row in batch.to_pylist()]
    return sorted(rows, key=lambda row: (row["topic"], row["queueId"], row["queueOffset"]))


COMPARISONS: Mapping[type[Filter], Callable[[Any, Any], bool]] = {
    EqualTo: operator.eq,
    GreaterThan: operator.gt,
    GreaterThanOrEqual: operator.ge,
    LessThan: operator.lt,
    LessThanOrEqual: operator.le,
    StringStartsWith: lambda value, start: str(value).startswith(start),
}


def holds(condition: Any, row: Fields) -> bool:
    """Return whether SQL finds a condition true for a row."""
    return truth(condition, row) is True


def truth(condition: Any, row: Fields) -> bool | None:
    """Return what SQL says about a condition for a row: true, false, or None for NULL, as in comparisons with NULL."""
    if isinstance(condition, Not):
        inner = truth(condition.child, row)
        return None if inner is None else not inner
    value = row[condition.attribute[0]]
    if isinstance(condition, IsNull | IsNotNull):
        return (value is None) is isinstance(condition, IsNull)
    if isinstance(condition, EqualNullSafe):
        return bool(value == condition.value)
    if value is None:
        return None
    if isinstance(condition, In):
        return True if value in condition.value else None if None in condition.value else False
    return None if condition.value is None else COMPARISONS[type(condition)](value, condition.value)


# --- rows are the same ------------------------------------------------------------------------------------------------

TAGS = ["A", "B", "Aa", "BB", " A", "a|b", "x||y", "*", "é", None]
TOPICS = [f"{TOPIC}-1", f"{TOPIC}-2"]
MAKES_ORDER = [EqualTo, EqualNullSafe, GreaterThan, GreaterThanOrEqual, LessThan, LessThanOrEqual]
_fresh = count()

jitter = st.integers(0, CLOCK_STEP_MS)
steps = st.sampled_from([0, 1, 1_000, CLOCK_STEP_MS, 5 * CLOCK_STEP_MS])
messages = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 1), st.sampled_from(TAGS), steps, jitter), max_size=25)
times = st.integers(0, 40 * CLOCK_STEP_MS * 1000).map(lambda us: instant(us / 1000))


def comparisons(column: str, values: st.SearchStrategy[Any]) -> st.SearchStrategy[Filter]:
    """Return conditions on a column of which there is an order."""
    one = st.builds(lambda kind, value: kind((column,), value), st.sampled_from(MAKES_ORDER), values)
    some = st.builds(lambda found: among(column, *found), st.lists(values | st.none(), min_size=1, max_size=4))
    return one | some


texts = st.sampled_from(["tags", "topic", "brokerName"]).flatmap(
    lambda column: comparisons(column, st.sampled_from([*TAGS[:-1], *TOPICS, "broker-a"]))
)
conditions = (
    texts
    | comparisons("queueId", st.integers(-1, 2))
    | comparisons("queueOffset", st.integers(-1, 12))
    | comparisons("storeTimestamp", times)
    | st.sampled_from([IsNull(("tags",)), IsNotNull(("tags",)), StringStartsWith(("tags",), "A")])
)
negatable = conditions | conditions.map(lambda each: Not(each))


@pytest.fixture(scope="module")
def world() -> Iterator[StubBroker]:
    """One broker for all examples; each makes topics of its own."""
    with StubBroker() as broker:
        yield broker


@settings(max_examples=60, deadline=None)
@given(messages, st.lists(negatable, max_size=3), st.sampled_from(["*", "A||BB", "C"]))
def test_no_where_changes_the_rows(
    world: StubBroker, sent: list[tuple[int, int, str | None, int, int]], where: list[Filter], tags: str
) -> None:
    """With any messages, conditions and option `tags`, rows are the same with and without narrowing, and as in SQL.

    Store times fall by at most `CLOCK_STEP_MS` in a queue.
    """
    topics = [f"{TOPIC}-{next(_fresh)}" for _ in range(2)]
    wanted = []
    for (topic, queue_id, tag, _, late_ms), at in zip(sent, accumulate(each[3] for each in sent), strict=True):
        stored = world.put(topics[topic], b"", tags=tag or "", queue_id=queue_id, store_timestamp=at + late_ms)
        wanted.append((topics[topic], queue_id, stored.offset, tag, instant(at + late_ms)))
    for name in topics:
        world.put(name, b"", tags="last", queue_id=3, store_timestamp=1)
    renamed = [_with_topics(each, dict(zip(TOPICS, topics, strict=True))) for each in where]
    options = batch_options_for(world, subscribe=",".join(topics), columns=COLUMNS, tags=tags)

    query, plain = Query(options, *renamed), BatchReader(options)

    rows = [row for row in read(plain, plain.partitions()) if all(holds(each, row) for each in query.conditions)]
    assert query.left == query.conditions and query.rows() == rows
    names = ("topic", "queueId", "queueOffset", "tags", "storeTimestamp")
    found = [tuple(row[name] for name in names) for row in rows if row["tags"] != "last"]
    asked = tags.split("||")
    assert found == sorted(
        each
        for each in wanted
        if (tags == "*" or each[3] in asked)
        and all(holds(one, {"brokerName": "broker-a", **dict(zip(names, each, strict=True))}) for one in renamed)
    ), "rows are as a filter in Python says"


def _with_topics(condition: Any, names: Mapping[str, str]) -> Any:
    """Return a condition with the names of topics replaced by others."""
    if isinstance(condition, Not):
        return Not(_with_topics(condition.child, names))
    value = getattr(condition, "value", None)
    if isinstance(value, str) and value in names:
        return type(condition)(condition.attribute, names[value])
    return condition


# --- what is left out -------------------------------------------------------------------------------------------------


def options_of(stub: StubCluster, **more: str) -> ReaderOptions:
    return batch_options_for(stub, columns=COLUMNS, **more)


@pytest.mark.parametrize(
    ("condition", "offsets", "rows"),
    [
        (EqualTo(("topic",), "other"), 0, 0),
        (EqualTo(("topic",), TOPIC), 20, 20),
        (EqualTo(("brokerName",), "broker-b"), 0, 0),
        (EqualTo(("queueId",), 1), 10, 10),
        (among("queueId", 1, None, 7), 10, 10),
        (EqualNullSafe(("queueId",), 0), 10, 10),
        (GreaterThan(("queueOffset",), 6), 6, 6),
        (LessThanOrEqual(("queueOffset",), 6), 14, 14),
        (among("queueOffset", 2, 5), 8, 4),
        (GreaterThanOrEqual(("storeTimestamp",), instant(50 * MINUTE_MS)), 12, 12),
        (LessThan(("storeTimestamp",), instant(50 * MINUTE_MS)), 10, 8),
        (EqualTo(("storeTimestamp",), instant(50 * MINUTE_MS)), 2, 2),
        (LessThan(("storeTimestamp",), instant(-2 * MINUTE_MS)), 20, 0),
        (GreaterThan(("storeTimestamp",), instant(9_000 * MINUTE_MS)), 0, 0),
        (Not(EqualTo(("queueId",), 1)), 20, 10),
        (IsNull(("tags",)), 20, 0),
        (EqualNullSafe(("tags",), None), 20, 0),
    ],
    ids=str,
)
def test_a_condition_leaves_out_what_it_can(stub: StubBroker, condition: Filter, offsets: int, rows: int) -> None:
    """A condition on a queue, offsets or times leaves out ranges; conditions that are not known leave out nothing."""
    query = Query(options_of(stub), condition)

    assert (query.offsets, len(query.rows())) == (offsets, rows)


def test_times_are_instants_in_any_zone(stub: StubBroker) -> None:
    """A time counts as an instant, whatever its zone; one without a zone leaves out nothing."""
    at = instant(50 * MINUTE_MS)
    east = at.astimezone(timezone(timedelta(hours=9)))

    assert [Query(options_of(stub), GreaterThan(("storeTimestamp",), when)).offsets for when in (at, east)] == [12, 12]
    assert Query(options_of(stub), EqualTo(("body",), b"")).offsets == 20


def test_no_row_is_lost_by_a_clock_that_was_set_back() -> None:
    """If the broker's clock was set back by a minute, rows before and after that are found by their times."""
    with StubBroker({TOPIC: 1}) as stub:
        hour, day = 60 * MINUTE_MS, 24 * 60 * MINUTE_MS
        for at in (0, hour, day, day + MINUTE_MS, day, day + 1, day + hour, 2 * day):
            stub.put(TOPIC, b"", queue_id=0, store_timestamp=at + 1)
        late = Query(options_of(stub), GreaterThanOrEqual(("storeTimestamp",), instant(day + MINUTE_MS + 1)))
        early = Query(options_of(stub), LessThanOrEqual(("storeTimestamp",), instant(day + 1)))

        assert [row["queueOffset"] for row in late.rows()] == [3, 6, 7]
        assert [row["queueOffset"] for row in early.rows()] == [0, 1, 2, 4]
        assert late.offsets < 8 > early.offsets


def test_the_kafka_layout_has_its_own_names(stub: StubBroker) -> None:
    """In the layout `kafka`, the columns partition, offset and timestamp narrow the read."""
    options = batch_options_for(stub, rowLayout="kafka")
    anchor = GreaterThanOrEqual(("offset",), 0)
    where = [
        EqualTo(("partition",), 1),
        LessThan(("offset",), 8),
        GreaterThan(("timestamp",), instant(50 * MINUTE_MS)),
    ]

    assert Query(options, *where, anchor=anchor).offsets == 4


# --- tags -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("condition", "given", "asked"),
    [
        (EqualTo(("tags",), "A"), {}, {"A"}),
        (among("tags", "A", "C", None), {}, {"A", "C"}),
        (EqualTo(("tags",), "A"), {"tags": "A||B"}, {"A"}),
        (EqualTo(("tags",), "A"), {"tags": "B"}, set()),
        (EqualTo(("tags",), "A"), {"sqlFilter": "a IS NULL"}, set()),
        (EqualTo(("tags",), "a|b"), {}, set()),
        (EqualTo(("tags",), " A"), {}, set()),
        (EqualTo(("tags",), "*"), {}, set()),
        (EqualTo(("tags",), ""), {}, set()),
        (among("tags", *map(str, range(33))), {}, set()),
        (StringStartsWith(("tags",), "A"), {}, set()),
    ],
    ids=str,
)
def test_brokers_are_asked_for_tags(
    stub: StubBroker, condition: Filter, given: dict[str, str], asked: set[str]
) -> None:
    """Brokers filter by the tags of a WHERE, within those of the option `tags`, if a list of tags can name them."""
    assert Query(options_of(stub, **given), condition).tags == asked


@pytest.mark.parametrize("attribute", [{"queue.type": "BatchCQ"}, {"cleanup.policy": "COMPACTION"}], ids=str)
def test_brokers_are_not_asked_about_special_topics(stub: StubBroker, attribute: dict[str, str]) -> None:
    """Brokers do not look at tags in batches, nor at compacted messages by time, so neither narrows such a topic."""
    special = TopicConfig(topic_name="special", attributes=attribute)
    open_cluster(options_of(stub).cluster).admin.create_topic(special)
    stub.put("special", b"", tags="A", queue_id=0, store_timestamp=1)
    late, red = GreaterThan(("storeTimestamp",), instant(90 * MINUTE_MS)), EqualTo(("tags",), "A")
    query = Query(options_of(stub, subscribe="special"), late, red)

    assert (query.offsets, query.tags) == (1, set())
    assert Query(options_of(stub), late, red).offsets == 4


# --- brokers that do not know -----------------------------------------------------------------------------------------


def test_brokers_that_search_inexactly_are_not_asked_for_times() -> None:
    """Brokers before 5.1.1 return the nearest message, so a time leaves out nothing there; tags are asked for."""
    with StubBroker({TOPIC: 1}, emulate="4.9.7") as stub:
        for number in range(5):
            stub.put(TOPIC, b"", tags="A", queue_id=0, store_timestamp=number * 10 * MINUTE_MS)
        query = Query(
            options_of(stub), GreaterThan(("storeTimestamp",), instant(30 * MINUTE_MS)), EqualTo(("tags",), "A")
        )

        assert (query.offsets, query.tags, len(query.rows())) == (5, {"A"}, 1)
        assert open_cluster(options_of(stub).cluster).offsets.search_masters({queue_of(0): 1}) == {}


def test_a_replica_is_not_asked_for_times() -> None:
    """While the master is away, a time leaves out nothing, because the replica may lack messages."""
    with StubCluster(1, slaves=1, topics={TOPIC: 1}) as stub:
        for number in range(5):
            stub.put(TOPIC, b"", queue_id=0, store_timestamp=number * 10 * MINUTE_MS)
        where = LessThan(("storeTimestamp",), instant(10 * MINUTE_MS))
        offsets = open_cluster(options_of(stub).cluster).offsets
        assert Query(options_of(stub), where).offsets == 2 and offsets.search_masters({queue_of(0): 1}) == {
            queue_of(0): 1
        }
        stub.faults.broker_down(broker_id=0)

        assert Query(options_of(stub), where).offsets == 5 and offsets.search_masters({queue_of(0): 1}) == {}


# --- losses -----------------------------------------------------------------------------------------------------------


def test_a_loss_that_the_where_excludes_is_told(stub: StubBroker) -> None:
    """If messages that the options ask for are gone, the read fails, even if the WHERE excludes them."""
    stub.expire(TOPIC, 0, 3)
    options = options_of(stub, startingOffsets='{"orders": {"*": {"*": 0}}}')

    with pytest.raises(OffsetBeforeEarliest, match="offset 0 is gone"):
        Query(options, EqualTo(("queueId",), 1))


def test_what_expires_outside_the_where_is_no_loss(stub: StubBroker) -> None:
    """If messages expire after planning, and the WHERE excludes them, the read does not fail."""
    query = Query(options_of(stub), GreaterThanOrEqual(("queueOffset",), 5))
    stub.expire(TOPIC, 0, 5)

    assert len(query.rows()) == 10


# --- one plan for all queries of a DataFrame --------------------------------------------------------------------------


def test_each_query_needs_the_anchor(stub: StubBroker) -> None:
    """Without the condition `queueOffset >= 0` a query is refused, since Spark would reuse its plan unasked."""
    options = options_of(stub)
    with pytest.raises(OptionError, match=r"pushFilters = .true.*right behind load\(\)") as refused:
        Query(options, anchor=EqualTo(("queueId",), 1))
    assert refused.value.code == "OPTION_MISSING" and "BETWEEN" not in str(refused.value)
    with pytest.raises(OptionError, match=r"queueOffset BETWEEN N AND N"):
        Query(options, anchor=EqualTo(("queueOffset",), 1))
    with pytest.raises(OptionError, match="pushFilters"):
        FilteringBatchReader(options, load_id="x").partitions()


def test_two_wheres_of_one_dataframe_read_everything(stub: StubBroker, caplog: pytest.LogCaptureFixture) -> None:
    """A second WHERE of the same loaded DataFrame narrows nothing, with a warning; the same WHERE again does."""
    options, first = options_of(stub), EqualTo(("queueId",), 1)
    with caplog.at_level(logging.WARNING):
        assert [Query(options, first, load_id="one").offsets for _ in range(2)] == [10, 10] and not caplog.text
        assert Query(options, first, load_id="two").offsets == 10 and not caplog.text
        assert Query(options, EqualTo(("queueId",), 0), load_id="one").offsets == 20
        assert Query(options, first, load_id="one").offsets == 20
    assert "call load() for each WHERE" in caplog.text


def test_a_where_that_comes_while_another_is_planned_narrows_nothing(
    stub: StubBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If another process plans the same DataFrame with another WHERE meanwhile, both read everything."""
    options, plan = options_of(stub), BatchReader._plan
    others: list[int] = []

    def plan_late(reader: BatchReader, narrowing: Any) -> list[RangePartition]:
        monkeypatch.setattr(BatchReader, "_plan", plan)
        others.append(Query(options, EqualTo(("queueId",), 0), load_id="one").offsets)
        return plan(reader, narrowing)

    monkeypatch.setattr(BatchReader, "_plan", plan_late)

    assert (Query(options, EqualTo(("queueId",), 1), load_id="one").offsets, others) == (20, [20])


def test_notes_are_kept_for_a_day(stub: StubBroker, private: Path) -> None:
    """Notes of WHEREs that are older than a day are removed; other files stay."""
    options = options_of(stub)
    Query(options, EqualTo(("queueId",), 0), load_id="one")
    other = private / "group-x.lock"
    other.touch()
    for path in private.iterdir():
        os.utime(path, (time.time() - 25 * 3600,) * 2)

    assert Query(options, EqualTo(("queueId",), 1), load_id="two").offsets == 10
    assert [path.name[:9] for path in sorted(private.iterdir())] == ["group-x.l", "where-two"]


def test_without_a_private_directory_nothing_is_narrowed(
    stub: StubBroker, private: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """If WHEREs cannot be noted, everything is read, with a warning."""
    private.mkdir(mode=0o755)
    private.chmod(0o755)

    assert Query(options_of(stub), EqualTo(("queueId",), 1)).offsets == 20
    assert "cannot note it in" in caplog.text


def test_narrowing_is_logged(stub: StubBroker, caplog: pytest.LogCaptureFixture) -> None:
    """A log line says how much a WHERE leaves to be read."""
    with caplog.at_level(logging.INFO):
        Query(options_of(stub), EqualTo(("queueId",), 1), EqualTo(("tags",), "A"))

    assert "the WHERE leaves 10 of 20 offsets to be read, with tags ['A']" in caplog.text
