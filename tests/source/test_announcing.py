"""A read says in one line what it reads, for which group, and where it starts."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker_stub import StubBroker
from pyspark_rocketmq.source.announcing import describe_work, list_names, log_together
from tests.source.driving import (
    GROUP,
    QUICK,
    TOPIC,
    Checkpoint,
    Run,
    admin_of,
    batch_options_for,
    fresh_run,
    options_for,
    queue_of,
    read_batch,
)

MEMBER = {"consumerGroup": GROUP, "groupMembership": "shared", "startingOffsets": "group"}
LOG = logging.getLogger("pyspark_rocketmq.source.test")


@pytest.fixture
def stub() -> Iterator[StubBroker]:
    """One broker with a topic of two queues, with three messages."""
    with StubBroker({TOPIC: 2}) as broker:
        broker.fill(TOPIC, 3, 10)
        yield broker


@pytest.fixture(autouse=True)
def info(caplog: pytest.LogCaptureFixture) -> None:
    """INFO lines in the log of each test."""
    caplog.set_level(logging.INFO, "pyspark_rocketmq")


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return the lines about starts."""
    return [line for line in caplog.messages if line.startswith("reads ")]


def test_a_new_query_says_once_where_it_starts(stub: StubBroker, caplog: pytest.LogCaptureFixture) -> None:
    """A run of several batches logs one line with queues, topic, group, start and what there is to read."""
    with fresh_run(options_for(stub, consumerGroup=GROUP, maxOffsetsPerTrigger="1")) as run:
        run.drain()

    assert told(caplog) == [
        f"reads 2 queues of orders; commits positions of group {GROUP}; starts at startingOffsets=earliest; "
        "at most 3 messages to read"
    ]


def test_a_query_with_a_checkpoint_says_that_it_wins(stub: StubBroker, caplog: pytest.LogCaptureFixture) -> None:
    """If options name a start and there is a checkpoint, one line says that the checkpoint outranks them."""
    checkpoint = Checkpoint()
    with fresh_run(options_for(stub), checkpoint) as run:
        run.drain()
    caplog.clear()
    for start in ("group", "latest"):
        options = options_for(stub, consumerGroup=GROUP, startingOffsets=start, startingOffsetsDefault="earliest")
        with fresh_run(options, checkpoint) as run:
            run.drain()

    first, second = told(caplog)
    assert "goes on from its checkpoint, which outranks startingOffsets=group, else " in first
    assert "; goes on from its checkpoint; at most 0 messages" in second


def test_a_member_with_a_checkpoint_says_that_the_group_counts_too(
    stub: StubBroker, caplog: pytest.LogCaptureFixture
) -> None:
    """A member that starts again goes on where its group stands, if that is after its checkpoint."""
    options, checkpoint = options_for(stub, **MEMBER), Checkpoint()
    with Run(options, checkpoint, rhythm=QUICK) as run:
        run.read_until(3)
        run.trigger()
    caplog.clear()
    with Run(options, checkpoint, rhythm=QUICK) as run:
        run.trigger()

    said = "goes on from its checkpoint or the group's positions, whichever are larger; at most 0 messages to read"
    [line] = told(caplog)
    assert line.endswith(f"; is a member of group {GROUP}; {said}")


def test_messages_of_queues_without_a_known_start_are_not_counted_as_none(
    stub: StubBroker, caplog: pytest.LogCaptureFixture
) -> None:
    """If another client holds the lock of a queue, the number of messages does not stand for that queue."""
    options = options_for(stub, ordering="queue", lockQueues="true", **MEMBER)
    admin_of(stub).groups.lock(GROUP, "10.0.0.9@other", [queue_of(0), queue_of(1)])
    with Run(options, rhythm=QUICK) as run:
        run.trigger()

    assert told(caplog)[0].endswith("at most 0 messages to read, beside those of 2 queues that cannot be read yet")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            {"startingTimestamp": "1700000000000", "startingOffsetsByTimestampStrategy": "latest"},
            "startingTimestamp=1700000000000, else startingOffsets=earliest",
        ),
        ({"startingOffsets": '{"orders":{"broker-a":{"0":1,"1":0}}}'}, "startingOffsets as given per queue"),
    ],
)
def test_every_option_of_the_start_is_named(
    stub: StubBroker, caplog: pytest.LogCaptureFixture, given: dict[str, str], said: str
) -> None:
    """Options that choose the start are named with their values, highest rank first."""
    with fresh_run(options_for(stub, **given)) as run:
        run.trigger()

    assert f"starts at {said}" in told(caplog)[0]


def test_a_batch_read_says_what_it_reads(stub: StubBroker, caplog: pytest.LogCaptureFixture) -> None:
    """A batch read names start, end, messages and tasks."""
    read_batch(batch_options_for(stub))

    [line] = told(caplog)
    assert line.startswith(
        "reads 2 queues of orders from startingOffsets=earliest to endingOffsets=latest; at most 3 mes"
    )


def test_a_stream_whose_pattern_matches_nothing_says_so_once(
    stub: StubBroker, caplog: pytest.LogCaptureFixture
) -> None:
    """If no topic matches, a stream waits for one, with one warning that names the topics that there are."""
    with fresh_run(options_for(stub, subscribePattern="order")) as run:
        run.trigger()
        run.trigger()

    [warning] = [line for line in caplog.messages if "no topic matches" in line]
    what = "no topic matches; there are 4 topics, such as orders; the query waits for a topic that matches"
    assert warning == f"subscribePattern = 'order': {what}"


def test_the_place_of_lines_names_topics_and_group(stub: StubBroker, tmp_path: Path) -> None:
    """The place names topics, or the pattern, and the group if the query has one."""
    assert describe_work(options_for(stub)) == "orders"
    assert describe_work(options_for(stub, subscribe="b,a", consumerGroup="g")) == "a, b, group g"
    assert describe_work(options_for(stub, subscribePattern="x.*")) == "pattern x.*"
    assert list_names([f"t{number}" for number in range(9)]) == "t0, t1, t2 and 6 more topics"


def test_one_event_of_many_queues_is_one_line(caplog: pytest.LogCaptureFixture) -> None:
    """An event of several queues is one line about the first and the number of the others; DEBUG names all."""
    log_together(LOG, logging.WARNING, "%s moved to %d", [])
    log_together(LOG, logging.WARNING, "%s moved to %d", [("a", 1)])
    log_together(LOG, logging.WARNING, "%s moved to %d", [("a", 1), ("b", 2), ("c", 3)])
    caplog.set_level(logging.DEBUG, "pyspark_rocketmq")
    log_together(LOG, logging.INFO, "%s moved to %d", [("a", 1), ("b", 2)])

    more = "; likewise %d more queues, which lines at DEBUG name"
    assert caplog.messages == ["a moved to 1", "a moved to 1" + more % 2, "a moved to 1" + more % 1, "b moved to 2"]
