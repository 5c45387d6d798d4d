"""Test the planning of streaming reads, batch by batch, on a cluster that changes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest

from broker_stub import StubBroker, StubCluster
from pyspark_rocketmq.cluster.cluster import open_cluster
from pyspark_rocketmq.errors import OffsetBeforeEarliest, OffsetBeyondEnd, OptionError, QueueVanished, TopicNotFound
from pyspark_rocketmq.options import ReaderOptions
from pyspark_rocketmq.source.planner import Planner
from pyspark_rocketmq.source.reports import parse_status
from pyspark_rocketmq.wire.bodies import TopicConfig
from pyspark_rocketmq.wire.codes import RequestCode
from tests.source.driving import (
    FRESH,
    TOPIC,
    Checkpoint,
    Row,
    Run,
    admin_of,
    batch_options_for,
    fresh_run,
    options_for,
    queue_of,
    read_batch,
    store_offsets,
)


@pytest.fixture
def stub() -> Iterator[StubBroker]:
    """One broker with a topic of four queues."""
    with StubBroker({TOPIC: 4}) as broker:
        yield broker


LASTING = replace(FRESH, bounds_s=3600.0)
"""Bounds are remembered for longer than a test lasts."""


def put(stub: StubCluster, *bodies: str, topic: str = TOPIC, broker: str | None = None) -> None:
    """Put one message per body; the broker chooses the queues in turn."""
    for body in bodies:
        stub.put(topic, body.encode(), broker=broker)


def bodies(rows: list[Row] | None) -> list[str]:
    """Return the bodies of the rows as text, sorted."""
    return sorted(row.body.decode() for row in rows or ())


def set_queues(stub: StubCluster, count: int, topic: str = TOPIC, broker: str = "broker-a", perm: int = 6) -> None:
    """Create the topic, or change it, so that it has `count` queues at one broker."""
    config = TopicConfig(topic_name=topic, read_queue_nums=count, write_queue_nums=count, perm=perm)
    admin_of(stub).admin.create_topic(config, (broker,))


# --- where a query begins --------------------------------------------------------------------------------------------


def test_the_begin_is_pinned_before_the_first_batch(stub: StubBroker) -> None:
    """After a crash in the first batch, a restart reads the batch as it was planned, without later messages."""
    put(stub, "a", "b")
    checkpoint = Checkpoint()
    with fresh_run(options_for(stub), checkpoint) as killed:
        killed.plan()
    put(stub, "c")
    with fresh_run(options_for(stub), checkpoint) as run:
        assert [bodies(run.trigger()), bodies(run.trigger())] == [["a", "b"], ["c"]]


def test_latest_is_pinned_by_an_empty_batch(stub: StubBroker) -> None:
    """With `startingOffsets=latest` the first batch is empty and stores the ends; a restart reads on from them."""
    put(stub, "old")
    options, checkpoint = options_for(stub, startingOffsets="latest"), Checkpoint()
    with fresh_run(options, checkpoint) as run:
        assert run.trigger() == []
    put(stub, "new")
    with fresh_run(options, checkpoint) as run:
        assert bodies(run.trigger()) == ["new"]


def test_the_start_is_resolved_once_for_a_run(stub: StubBroker) -> None:
    """If planning is repeated before its offset is logged, the start is the same, though messages were added."""
    options = options_for(stub, startingOffsets="latest")
    planner = Planner(open_cluster(options.cluster), options, FRESH)
    first = planner.latest(None)
    put(stub, "a")
    again = planner.latest(None)
    assert again.begin == first.begin


def test_a_query_may_begin_at_the_groups_position(stub: StubBroker) -> None:
    """With `startingOffsets=group` a queue starts at the group's position, or as `startingOffsetsDefault` says."""
    put(stub, "a", "b", "c", "d")
    store_offsets(stub, {queue_of(0): 1}, group="other")
    options = options_for(
        stub, startingOffsets="group", startingOffsetsDefault="earliest", consumerGroup="other", commitOffsets="none"
    )
    with fresh_run(options) as run:
        assert bodies(run.trigger()) == ["b", "c", "d"]


def after_the_target(stub: StubBroker, position: int, **given: str) -> Run:
    """Start an availableNow query, then add ten messages per queue and set the group's position in all queues."""
    group = {"startingOffsets": "group", "startingOffsetsDefault": "earliest", "consumerGroup": "other"}
    run = fresh_run(options_for(stub, **group, commitOffsets="none", **given), available_now=True, rhythm=LASTING)
    stub.fill(TOPIC, 40, 4)
    store_offsets(stub, {queue_of(number): position for number in range(4)}, group="other")
    return run


@pytest.mark.parametrize("fatal", ["true", "false"])
def test_the_groups_position_may_be_younger_than_bounds(stub: StubBroker, fatal: str) -> None:
    """If the group's position is beyond the remembered end, but not the current one, the query starts there."""
    with after_the_target(stub, 10, failOnDataLoss=fatal) as run:
        assert run.drain() == []
        assert run.checkpoint.last["next"] == {TOPIC: {"broker-a": dict.fromkeys("0123", 10)}}


def test_a_group_that_stands_beyond_the_end_is_still_told_of(stub: StubBroker) -> None:
    """If the group's position is beyond the current end, the query fails with an error that names that end."""
    with after_the_target(stub, 11) as run, pytest.raises(OffsetBeyondEnd, match="11 lies beyond the queue's end 10"):
        run.plan()


def test_an_unknown_topic_fails_the_first_planning(stub: StubBroker) -> None:
    """If the topic does not exist, the first planning fails with an error that names the topic."""
    with fresh_run(options_for(stub, subscribe="nowhere")) as run, pytest.raises(TopicNotFound, match="nowhere"):
        run.plan()


def test_a_topic_without_readable_queues_fails_the_first_planning(stub: StubBroker) -> None:
    """If no queue of the topic may be read, the first planning fails."""
    set_queues(stub, 4, perm=2)
    with (
        fresh_run(options_for(stub)) as run,
        pytest.raises(OptionError, match=r"subscribe = 'orders': no queue .* perm"),
    ):
        run.plan()


# --- how far a batch goes --------------------------------------------------------------------------------------------


def test_nothing_new_is_the_same_offset(stub: StubBroker) -> None:
    """If nothing is new, planning returns the same offset object, since Spark starts a batch if the text differs."""
    put(stub, "a")
    with fresh_run(options_for(stub)) as run:
        run.trigger()
        assert run.trigger() is None
        start = run.checkpoint.last
        assert run.reader.latestOffset(start, run.reader.getDefaultReadLimit()) is start


def test_caps_hold_in_every_batch(stub: StubBroker) -> None:
    """With `maxOffsetsPerTrigger=30`, 100 messages come in batches of at most 30, each message once."""
    stub.fill(TOPIC, 100, 10)
    with fresh_run(options_for(stub, maxOffsetsPerTrigger="30")) as run:
        batches = list(iter(run.trigger, None))
    assert [len(batch or ()) for batch in batches] == [30, 30, 30, 10]
    assert len({(row.queue, row.offset) for batch in batches for row in batch or ()}) == 100


def test_trigger_once_ignores_caps_and_floor(stub: StubBroker) -> None:
    """With the trigger once, one batch has all messages: `minOffsetsPerTrigger` does not hold them back."""
    stub.fill(TOPIC, 100, 10)
    options = options_for(stub, maxOffsetsPerTrigger="300", minOffsetsPerTrigger="200")
    with fresh_run(options, once=True) as run:
        assert len(run.trigger() or ()) == 100


def test_a_floor_holds_data_back_until_enough_came(stub: StubBroker) -> None:
    """With `minOffsetsPerTrigger` the first batch stores the start and is empty; the next waits for enough messages."""
    put(stub, "a")
    with fresh_run(options_for(stub, minOffsetsPerTrigger="3")) as run:
        assert run.trigger() == []
        assert run.checkpoint.last["begin"] == run.checkpoint.last["next"]
        assert run.trigger() is None
        put(stub, "b", "c")
        assert bodies(run.trigger()) == ["a", "b", "c"]


def test_a_floor_gives_in_after_its_delay(stub: StubBroker) -> None:
    """After `maxTriggerDelay` since the last batch, a batch is planned though `minOffsetsPerTrigger` is not reached."""
    now = [0.0]
    options = options_for(stub, minOffsetsPerTrigger="3", maxTriggerDelay="60s")
    planner = Planner(open_cluster(options.cluster), options, replace(FRESH, clock=lambda: now[0]))
    start = planner.latest(None)
    put(stub, "a")
    now[0] = 59.0
    assert planner.latest(start) is start
    now[0] = 60.0
    assert sum(planner.latest(start).next.values()) == 1


def test_available_now_reads_to_the_ends_of_its_beginning(stub: StubBroker) -> None:
    """An availableNow run reads up to the ends at its start; later messages and queues wait for the next run."""
    stub.fill(TOPIC, 50, 10)
    options, checkpoint = options_for(stub, maxOffsetsPerTrigger="20", minOffsetsPerTrigger="15"), Checkpoint()
    with fresh_run(options, checkpoint, available_now=True) as run:
        first = run.trigger() or []
        set_queues(stub, 5)
        stub.put(TOPIC, b"late", queue_id=4)
        stub.put(TOPIC, b"late", queue_id=0)
        assert len(first + run.drain()) == 50
    with fresh_run(options, checkpoint, available_now=True) as run:
        assert bodies(run.drain()) == ["late", "late"]


def test_progress_shows_how_far_the_queues_go(stub: StubBroker) -> None:
    """`reportLatestOffset` returns the ends of the queues, even beyond the batch, and the planner's status."""
    stub.fill(TOPIC, 100, 10)
    with fresh_run(options_for(stub, maxOffsetsPerTrigger="4")) as run:
        run.trigger()
        report = run.reader.reportLatestOffset()
        assert parse_status(report) == run.reader.planner.status()
        assert {**report, "status": ...} == {
            "next": {TOPIC: {"broker-a": dict.fromkeys("0123", 25)}},
            "status": ...,
            "version": 1,
        }


def test_tasks_are_a_function_of_two_offsets(stub: StubBroker) -> None:
    """Two processes plan the same tasks for a batch, though the queues have grown, and the tasks cover it exactly."""
    stub.fill(TOPIC, 100, 10)
    options, checkpoint = options_for(stub, minPartitions="7"), Checkpoint()
    with fresh_run(options, checkpoint) as run:
        run.plan()
        tasks = run.partitions()
    stub.fill(TOPIC, 100, 10)
    with fresh_run(options, checkpoint) as other:
        assert other.partitions() == tasks
    assert len(tasks) == 7
    assert sum(part.offset_count for task in tasks for part in task.ranges) == 100


# --- new queues, brokers and topics ----------------------------------------------------------------------------------


def test_a_new_queue_is_read_from_its_first_message(stub: StubBroker) -> None:
    """A query that started at `latest` reads a queue that is added later from its first message."""
    with fresh_run(options_for(stub, startingOffsets="latest")) as run:
        run.trigger()
        set_queues(stub, 5)
        stub.put(TOPIC, b"first", queue_id=4)
        assert bodies(run.drain()) == ["first"]


def test_a_new_broker_is_read_from_its_first_message() -> None:
    """If another broker adds queues to the topic, they are read from their first messages."""
    with StubCluster(2) as stub:
        set_queues(stub, 2)
        with fresh_run(options_for(stub, startingOffsets="latest")) as run:
            run.trigger()
            set_queues(stub, 2, broker="broker-b")
            put(stub, "first", broker="broker-b")
            assert bodies(run.drain()) == ["first"]


def test_a_new_topic_of_the_pattern_is_read_from_its_first_message(stub: StubBroker) -> None:
    """With `subscribePattern` a topic that appears later is read from its first message; retry topics never match."""
    with fresh_run(options_for(stub, subscribePattern="events-.*|.*%.*|.*TRANS.*", startingOffsets="latest")) as run:
        assert run.trigger() == []
        put(stub, "first", topic="events-1")
        put(stub, "not this", topic="%RETRY%g")
        assert bodies(run.drain()) == ["first"]


# --- queues, brokers and topics that disappear -----------------------------------------------------------------------


def test_a_queue_missing_from_the_route_keeps_its_position(caplog: pytest.LogCaptureFixture) -> None:
    """While a broker is down, other queues are read, with one warning; then its queue is read on from its position."""
    with StubCluster(2, topics={TOPIC: 1}) as stub, fresh_run(options_for(stub)) as run:
        put(stub, "a", "b")
        run.drain()
        stub.faults.broker_down("broker-b")
        put(stub, "c", broker="broker-a")
        assert bodies(run.drain()) == ["c"]
        put(stub, "d", broker="broker-a")
        assert bodies(run.drain()) == ["d"]
        stub.faults.broker_up("broker-b")
        put(stub, "e", broker="broker-b")
        assert bodies(run.drain()) == ["e"]
    assert sum("missing from the route" in record.message for record in caplog.records) == 1


def test_a_query_outlives_the_absence_of_its_only_broker(stub: StubBroker) -> None:
    """While the only broker is down a query reads nothing; when it is back, the query reads on."""
    with fresh_run(options_for(stub)) as run:
        put(stub, "a")
        run.drain()
        stub.faults.broker_down()
        assert run.trigger() is None
        stub.faults.broker_up()
        put(stub, "b")
        assert bodies(run.drain()) == ["b"]


def test_a_replica_that_lags_is_no_loss() -> None:
    """If only a lagging replica is up, the query waits, without a loss, and reads on when the master is back."""
    with StubCluster(1, slaves=1, topics={TOPIC: 1}) as stub, fresh_run(options_for(stub)) as run:
        put(stub, "a", "b", "c")
        run.drain()
        stub.faults.slave_lag(2)
        stub.faults.broker_down(broker_id=0)
        assert run.trigger() is None
        stub.faults.broker_up(broker_id=0)
        put(stub, "d")
        assert bodies(run.drain()) == ["d"]


# --- lost messages ---------------------------------------------------------------------------------------------------


def lose_below(stub: StubBroker) -> None:
    """Delete the messages below offset 3 of queue 0, while a query is at offset 1."""
    for body in "bcd":
        stub.put(TOPIC, body.encode(), queue_id=0)
    stub.expire(TOPIC, 0, 3)


def lose_above(stub: StubBroker) -> None:
    """Delete queue 0, so that a query at offset 1 is beyond its end."""
    stub.run(lambda: stub.state.brokers[0].store.queues.pop((TOPIC, 0)))


def test_a_position_below_the_minimum_is_loss(stub: StubBroker) -> None:
    """If the next message is gone, the query fails with an error that names queue, offset and `failOnDataLoss`."""
    with fresh_run(options_for(stub)) as run:
        stub.put(TOPIC, b"a", queue_id=0)
        run.drain()
        lose_below(stub)
        with pytest.raises(OffsetBeforeEarliest, match=r"offset 1 is gone.*topic orders, .*queue 0.*failOnDataLoss"):
            run.trigger()


def test_without_failing_the_query_goes_on_at_the_minimum(stub: StubBroker, caplog: pytest.LogCaptureFixture) -> None:
    """With `failOnDataLoss=false` the query goes on at the minimum, and warns with the number of lost offsets."""
    with fresh_run(options_for(stub, failOnDataLoss="false")) as run:
        stub.put(TOPIC, b"a", queue_id=0)
        run.drain()
        lose_below(stub)
        assert bodies(run.trigger()) == ["d"]
        assert run.checkpoint.last["begin"] == {TOPIC: {"broker-a": {"0": 3}}}
        assert run.trigger() is None
    assert [record.message for record in caplog.records if "(2 offsets)" in record.message]


def test_a_second_loss_in_a_queue_is_told_too(stub: StubBroker, caplog: pytest.LogCaptureFixture) -> None:
    """With `failOnDataLoss=false` each loss is warned of, even if the last planning found one in the same queue."""
    with fresh_run(options_for(stub, failOnDataLoss="false")) as run:
        stub.put(TOPIC, b"a", queue_id=0)
        run.drain()
        lose_below(stub)
        run.plan()
        run.trigger()
        stub.expire(TOPIC, 0, 4)
        for body in "efg":
            stub.put(TOPIC, body.encode(), queue_id=0)
        stub.expire(TOPIC, 0, 6)
        assert bodies(run.trigger()) == ["g"]
    told = [record.message for record in caplog.records if "(2 offsets)" in record.message]
    assert len(told) == 2


def test_a_position_above_the_maximum_is_loss(stub: StubBroker) -> None:
    """If a queue is made anew and ends before the query's position, the query fails."""
    with fresh_run(options_for(stub)) as run:
        stub.put(TOPIC, b"a", queue_id=0)
        run.drain()
        lose_above(stub)
        with pytest.raises(OffsetBeyondEnd, match="offset 1 lies beyond the queue's end 0"):
            run.trigger()


def test_without_failing_the_query_goes_on_at_the_maximum(stub: StubBroker) -> None:
    """With `failOnDataLoss=false` a query beyond the queue's end goes on at the end, and reads nothing twice."""
    with fresh_run(options_for(stub, failOnDataLoss="false")) as run:
        stub.put(TOPIC, b"a", queue_id=0)
        run.drain()
        lose_above(stub)
        assert run.trigger() == []
        stub.put(TOPIC, b"anew", queue_id=0)
        assert bodies(run.drain()) == ["anew"]


def test_a_loss_that_is_known_costs_no_more_questions(stub: StubBroker) -> None:
    """Bounds are fetched once more before a loss is reported, and not again while the query is idle."""
    options, checkpoint = options_for(stub, failOnDataLoss="false"), Checkpoint()
    with fresh_run(options, checkpoint) as run:
        stub.put(TOPIC, b"a", queue_id=0)
        run.drain()
    lose_above(stub)
    asked = stub.faults.delay(1, on=RequestCode.GET_TOPIC_STATS_INFO, times=None)
    with fresh_run(options, checkpoint, rhythm=LASTING) as run:
        assert [run.trigger() for _ in range(20)] == [[], *[None] * 19]
        assert checkpoint.last["next"][TOPIC]["broker-a"]["0"] == 0 and asked.fired == 2


def test_a_replica_that_lags_is_asked_no_oftener() -> None:
    """Bounds of a lagging replica are fetched once, and not confirmed by a second request, since they show no loss."""
    with StubCluster(1, slaves=1, topics={TOPIC: 1}) as stub:
        checkpoint = Checkpoint()
        with fresh_run(options_for(stub), checkpoint) as run:
            put(stub, "a", "b", "c")
            run.drain()
        stub.faults.slave_lag(2)
        stub.faults.broker_down(broker_id=0)
        asked = stub.faults.delay(1, on=RequestCode.GET_TOPIC_STATS_INFO, times=None)
        with fresh_run(options_for(stub), checkpoint, rhythm=LASTING) as run:
            assert [run.trigger() for _ in range(20)] == [None] * 20
            assert asked.fired == 1


@pytest.mark.parametrize("fatal", [True, False])
def test_a_planned_queue_that_vanished_is_loss(stub: StubBroker, fatal: bool) -> None:
    """If a broker goes away after planning, the task fails; with `failOnDataLoss=false` it skips the broker's range."""
    stub.put(TOPIC, b"a", queue_id=3)
    stub.put(TOPIC, b"b", queue_id=0)
    options = options_for(stub, failOnDataLoss=str(fatal), pullTimeoutMs="500", pollTimeoutMs="1000")
    with StubCluster(2, topics={TOPIC: 1}) as two, fresh_run(replace(options, cluster=options_for(two).cluster)) as run:
        put(two, "a", "b")
        run.plan()
        two.faults.broker_down("broker-b")
        if fatal:
            with pytest.raises(QueueVanished, match=r"broker-b.*failOnDataLoss"):
                run.read()
        else:
            assert bodies(run.read()) == ["a"]


# --- checkpoints that do not fit -------------------------------------------------------------------------------------


def checkpoint_of(options: ReaderOptions) -> Checkpoint:
    """Run one batch with these options, and return the checkpoint."""
    checkpoint = Checkpoint()
    with fresh_run(options, checkpoint) as run:
        run.trigger()
    return checkpoint


def test_a_checkpoint_of_another_topic_is_refused(stub: StubBroker) -> None:
    """If no topic of the checkpoint is to be read any more, the query fails instead of dropping all positions."""
    put(stub, "a", topic="bills")
    left = checkpoint_of(options_for(stub, subscribe="bills"))
    with (
        fresh_run(options_for(stub), left) as run,
        pytest.raises(OptionError, match="checkpoint has only queues of bills"),
    ):
        run.plan()


def test_a_checkpoint_of_another_group_is_refused(stub: StubBroker) -> None:
    """If the checkpoint belongs to another group, the query fails instead of committing its positions."""
    left = checkpoint_of(options_for(stub, consumerGroup="a"))
    with (
        fresh_run(options_for(stub, consumerGroup="b"), left) as run,
        pytest.raises(OptionError, match="is of group a"),
    ):
        run.plan()


def test_a_topic_that_is_given_up_leaves_the_checkpoint(stub: StubBroker, caplog: pytest.LogCaptureFixture) -> None:
    """If one of two topics is replaced, the old one is dropped with a warning, and the new one read from its start."""
    put(stub, "a", topic="bills")
    put(stub, "b")
    left = checkpoint_of(options_for(stub, subscribe=f"bills,{TOPIC}"))
    put(stub, "c", topic="added")
    with fresh_run(options_for(stub, subscribe=f"added,{TOPIC}"), left) as run:
        assert bodies(run.trigger()) == ["c"]
        assert sorted(run.checkpoint.last["next"]) == ["added", TOPIC]
    assert "of the checkpoint are not to be read any more" in caplog.text


@pytest.mark.parametrize(
    ("stored", "said"),
    [
        ({"version": 3, "next": {}}, "newer release"),
        ({"version": 1, "next": {TOPIC: {"broker-a": {"0": -1}}}}, "no position"),
        ({"version": 1, "next": {TOPIC: {"broker-a": {"0": 0.5}}}}, "no position"),
        ({"version": 1, "next": {TOPIC: {"broker-a": {"x": 1}}}}, "no position"),
    ],
)
def test_an_unreadable_checkpoint_is_refused(stub: StubBroker, stored: dict[str, object], said: str) -> None:
    """If an offset in the checkpoint has a newer version or no valid position, the query fails and says which."""
    log = Checkpoint([json.dumps(stored)], 1)
    with fresh_run(options_for(stub), log) as run, pytest.raises(OptionError, match=f"checkpointLocation.*{said}"):
        run.plan()


# --- which queues are read -------------------------------------------------------------------------------------------


def test_a_queue_missing_in_config_is_refused_at_first_and_joins_later(
    stub: StubBroker, caplog: pytest.LogCaptureFixture
) -> None:
    """With CONFIG, a queue missing from `messageQueueList` fails the first planning; added later, it is read."""
    slots = [{TOPIC: {"broker-a": [0, 1, 2]}}, {TOPIC: {"broker-a": [3]}}]
    given = {"allocateMessageQueueStrategy": "CONFIG", "messageQueueList": json.dumps(slots)}
    short = {**given, "messageQueueList": json.dumps(slots[:1])}
    with (
        fresh_run(options_for(stub, **short)) as run,
        pytest.raises(OptionError, match=r"messageQueueList.*not listed"),
    ):
        run.plan()
    with fresh_run(options_for(stub, **given)) as run:
        run.trigger()
        set_queues(stub, 5)
        for number in range(5):
            stub.put(TOPIC, b"x", queue_id=number)
        run.plan()
        dealt = [[part.queue.queue_id for part in task.ranges] for task in run.partitions()]
    assert dealt == [[0, 1, 2], [3, 4]]
    assert caplog.text.count("orders/broker-a/4 is not in messageQueueList") == 1


def name_brokers(stub: StubCluster, *names: str) -> None:
    """Give the masters these names, in order."""
    for broker, name in zip(stub.state.brokers, names, strict=True):
        broker.name = name


def test_queues_of_other_rooms_have_no_position(caplog: pytest.LogCaptureFixture) -> None:
    """With MACHINE_ROOM, queues of other machine rooms are not read and have no position; one warning names each."""
    given = {"allocateMessageQueueStrategy": "MACHINE_ROOM", "machineRooms": "east"}
    with StubCluster(2, topics={TOPIC: 1}) as stub:
        stub.run(lambda: name_brokers(stub, "east@a", "west@b"))
        put(stub, "a", "b")
        with fresh_run(options_for(stub, **given)) as run:
            assert bodies(run.drain()) == ["a"]
            assert run.checkpoint.last["next"] == {TOPIC: {"east@a": {"0": 1}}}
    assert caplog.text.count("orders/west@b/0 is not read") == 1


def test_rooms_without_a_broker_are_an_error_that_names_the_rooms_there_are() -> None:
    """If no broker is in `machineRooms`, the error names this option, its value, and the rooms and brokers found."""
    given = {"allocateMessageQueueStrategy": "MACHINE_ROOM", "machineRooms": "north, south"}
    raised = []
    with StubCluster(2, topics={TOPIC: 1}) as stub:
        stub.run(lambda: name_brokers(stub, "east@a", "west@b"))
        with fresh_run(options_for(stub, **given)) as run, pytest.raises(OptionError) as streaming:
            run.plan()
        raised.append(streaming.value)
        for wanted in ({"subscribe": TOPIC}, {"subscribePattern": "ord.*"}):
            with pytest.raises(OptionError) as batch:
                read_batch(batch_options_for(stub, **given, **wanted))
            raised.append(batch.value)
    for error in raised:
        assert error.option == "machineRooms" and "no broker of orders is in these rooms" in str(error)
        for part in ("'north,south'", "are in east, west", "east@a, west@b", "brokerRooms"):
            assert part in str(error)


def test_a_failing_request_is_repeated_and_then_ends_the_query(stub: StubBroker) -> None:
    """If a broker stays busy for more than `fetchOffset.numRetries` retries, planning fails."""
    with fresh_run(options_for(stub, **{"fetchOffset.numRetries": "2"})) as run:
        stub.faults.busy(on=RequestCode.GET_TOPIC_STATS_INFO, times=2)
        run.trigger()
        stub.faults.busy(on=RequestCode.GET_TOPIC_STATS_INFO, times=3)
        with pytest.raises(Exception, match="busy"):
            run.plan()
