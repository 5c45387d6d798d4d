"""Check when a query commits positions of its group, which positions, and what happens after failures."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from broker_stub import StubBroker, StubCluster
from broker_stub.offset_table import ConsumerOffsets
from broker_stub.topic_table import READABLE
from pyspark_rocketmq.cluster.cluster import open_cluster
from pyspark_rocketmq.errors import GroupInUse, RocketMQError, TransportError
from pyspark_rocketmq.model import MessageQueue, retry_topic
from pyspark_rocketmq.net.backoff import Backoff
from pyspark_rocketmq.offsets.position import Positions
from pyspark_rocketmq.source.commit import Committer, GroupCheck, OffsetWriter
from pyspark_rocketmq.source.rhythm import PlannerRhythm
from pyspark_rocketmq.source.roles import SoloRole
from pyspark_rocketmq.source.stream import PlainStreamReader
from pyspark_rocketmq.wire.codes import RequestCode
from tests.source.driving import (
    GROUP,
    TOPIC,
    Checkpoint,
    Run,
    admin_of,
    batch_options_for,
    join,
    options_for,
    queue_of,
    read_batch,
    store_offsets,
    wait_for,
)

QUICK = PlannerRhythm(commit_backoff=Backoff(first_s=0.01, longest_s=0.01))
BOTH = {queue_of(0): 1, queue_of(1): 1}


@pytest.fixture
def stub() -> Iterator[StubBroker]:
    """One broker with a topic of two queues, and a message in each."""
    with StubBroker({TOPIC: 2}) as broker:
        fill(broker)
        yield broker


@pytest.fixture
def restored_sigterm() -> Iterator[None]:
    """Restore the handler of SIGTERM after the test, since a reader that plans installs its own."""
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


def fill(stub: StubCluster) -> None:
    """Add one message to each queue."""
    for number in range(2):
        stub.put(TOPIC, b"x", queue_id=number)


def await_offsets(stub: StubCluster, wanted: Positions, group: str = GROUP) -> None:
    """Wait until the group's committed positions equal `wanted`."""
    wait_for(lambda: stub.offsets(group) == wanted, f"{wanted}, but {stub.offsets(group)}")


# --- when positions are committed ------------------------------------------------------------------------------------


def test_rocketmqs_tools_find_the_brokers_of_the_group(stub: StubBroker) -> None:
    """After the first commit each broker has the group's retry topic, by whose route tools find it, and it is empty."""
    with Run(options_for(stub, consumerGroup=GROUP)) as run:
        run.trigger()
        run.trigger()
        await_offsets(stub, BOTH)
        wait_for(lambda: has_topic(stub, retry_topic(GROUP)), "the retry topic exists")
        run.trigger()

    assert stub.messages(retry_topic(GROUP)) == []


def test_a_refused_retry_topic_changes_nothing(stub: StubBroker) -> None:
    """If a broker does not make the retry topic, positions are committed all the same."""
    stub.run(lambda: setattr(stub.state.brokers[0], "permission", READABLE))
    cluster = admin_of(stub)
    writer = OffsetWriter(cluster, GROUP, GroupCheck(cluster, GROUP))

    failures = [*writer.commit({queue_of(0): 1}), *writer.commit(BOTH)]

    assert (failures, stub.offsets(GROUP)) == ([], BOTH)
    assert not has_topic(stub, retry_topic(GROUP))


def has_topic(stub: StubBroker, topic: str) -> bool:
    """Return whether the broker has a topic."""
    return stub.run(lambda: stub.state.brokers[0].topics.find(topic)) is not None


def test_the_next_trigger_publishes_the_batch_before(stub: StubBroker) -> None:
    """A finished batch is committed at the next trigger, even if that finds nothing new, and not earlier."""
    with Run(options_for(stub, consumerGroup=GROUP)) as run:
        run.trigger()
        assert stub.offsets(GROUP) == {}
        assert run.trigger() is None
        await_offsets(stub, BOTH)


def test_the_last_batch_of_available_now_is_published(stub: StubBroker) -> None:
    """With availableNow the last batch is committed before the run has ended."""
    options = options_for(stub, consumerGroup=GROUP, maxOffsetsPerTrigger="1")
    with Run(options, available_now=True) as run:
        run.drain()
    assert stub.offsets(GROUP) == BOTH


def test_a_batch_that_is_not_finished_is_never_published(stub: StubBroker) -> None:
    """A batch is not committed by its planning, its replay or the end of a run, as long as it is unfinished."""
    options, checkpoint = options_for(stub, consumerGroup=GROUP), Checkpoint()
    with Run(options, checkpoint) as killed:
        killed.plan()
        killed.read()
    with Run(options, checkpoint) as run:
        run.trigger()
    assert stub.offsets(GROUP) == {}


def test_the_next_run_repairs_what_the_last_one_missed(stub: StubBroker) -> None:
    """If a run ends before it commits its last batch, the next run commits it at its first planning."""
    options, checkpoint = options_for(stub, consumerGroup=GROUP), Checkpoint()
    with Run(options, checkpoint, once=True) as run:
        run.trigger()
    assert stub.offsets(GROUP) == {}
    with Run(options, checkpoint) as run:
        assert run.trigger() is None
    assert stub.offsets(GROUP) == BOTH


def test_the_commit_of_a_batch_tells_nothing_new(stub: StubBroker) -> None:
    """If Spark calls `commit` for a batch that the next trigger has already committed, nothing changes."""
    with Run(options_for(stub, consumerGroup=GROUP)) as run:
        run.trigger()
        run.trigger()
        await_offsets(stub, BOTH)
        run.reader.commit(run.checkpoint.last)
        run.reader.planner.role.committer.flush(5)
    assert stub.offsets(GROUP) == BOTH


def test_before_pyspark_4_2_only_the_commit_tells(stub: StubBroker, restored_sigterm: None) -> None:
    """Before PySpark 4.2 a batch is committed when Spark calls `commit`, not when the next batch is planned."""
    reader = PlainStreamReader(options_for(stub, consumerGroup=GROUP))
    end = reader.latestOffset()
    reader.partitions(reader.initialOffset(), end)
    assert reader.latestOffset() == end
    role = reader.planner.role
    assert isinstance(role, SoloRole) and role.committer and role.committer.flush(5)
    assert stub.offsets(GROUP) == {}
    reader.commit(end)
    reader.stop()
    assert stub.offsets(GROUP) == BOTH


# --- which positions are committed -----------------------------------------------------------------------------------


def test_the_first_publication_of_a_run_names_every_queue(stub: StubBroker) -> None:
    """The first commit of a run includes empty queues and queues without news, so that lag tools see all of them."""
    stub.state.brokers[0].topics.find_or_create("empty", 1)
    with Run(options_for(stub, subscribe=f"{TOPIC},empty", consumerGroup=GROUP)) as run:
        run.trigger()
        run.trigger()
        await_offsets(stub, {**BOTH, queue_of(0, topic="empty"): 0})


def test_a_run_repeats_a_publication_that_got_lost(stub: StubBroker) -> None:
    """If a broker loses the group's positions, the next run commits them again, though nothing new was read."""
    options, checkpoint = options_for(stub, consumerGroup=GROUP), Checkpoint()
    with Run(options, checkpoint) as run:
        run.drain()
    stub.run(lambda: stub.state.brokers[0].offsets.forget_group(GROUP))
    with Run(options, checkpoint) as run:
        run.drain()
    assert stub.offsets(GROUP) == BOTH


def test_a_published_position_never_goes_back(stub: StubBroker, caplog: pytest.LogCaptureFixture) -> None:
    """If another client has committed a larger position, it stays, with one warning, and the query reads on."""
    store_offsets(stub, {queue_of(0): 5})
    with Run(options_for(stub, consumerGroup=GROUP)) as run:
        assert len(run.drain()) == 2
        fill(stub)
        await_offsets(stub, {queue_of(0): 5, queue_of(1): 1})
        wait_for(lambda: run.trigger() is not None, "the next batch")
        run.trigger()
        await_offsets(stub, {queue_of(0): 5, queue_of(1): 2})
    assert caplog.text.count("ahead of this query's") == 1


def test_a_new_query_tells_which_messages_of_its_group_it_passes(
    stub: StubBroker, caplog: pytest.LogCaptureFixture
) -> None:
    """A query without checkpoint that starts past its group's position warns once, and names that position."""
    fill(stub)
    store_offsets(stub, BOTH)
    with Run(options_for(stub, consumerGroup=GROUP, startingOffsets="latest")) as run:
        run.trigger()
        run.trigger()
        await_offsets(stub, {queue_of(0): 2, queue_of(1): 2})
    assert caplog.text.count("starts at 2, so group spark-orders, which was at 1, does not get") == 1


@pytest.mark.parametrize("start", ["group", "earliest"])
def test_a_new_query_that_passes_nothing_says_nothing(
    stub: StubBroker, caplog: pytest.LogCaptureFixture, start: str
) -> None:
    """A query that starts at its group's position, or before it, passes no message of the group."""
    fill(stub)
    store_offsets(stub, BOTH)
    with Run(options_for(stub, consumerGroup=GROUP, startingOffsets=start)) as run:
        run.trigger()
        run.trigger()
        await_offsets(stub, {queue_of(0): 2, queue_of(1): 2})
    assert "does not get" not in caplog.text


def test_an_equal_position_is_no_news(stub: StubBroker, caplog: pytest.LogCaptureFixture) -> None:
    """If another client has committed just the query's position, there is nothing to warn of."""
    store_offsets(stub, BOTH)
    with Run(options_for(stub, consumerGroup=GROUP)) as run:
        run.trigger()
        run.trigger()
    assert stub.offsets(GROUP) == BOTH and "ahead of this query's" not in caplog.text


def test_afterwards_only_what_changed_is_published(stub: StubBroker) -> None:
    """After the first commit of a run, a commit sends only the queues whose positions have changed."""
    with Run(options_for(stub, consumerGroup=GROUP)) as run:
        run.drain()
        await_offsets(stub, BOTH)
        updates = stub.faults.delay(1, on=RequestCode.UPDATE_CONSUMER_OFFSET, times=None)
        stub.put(TOPIC, b"x", queue_id=1)
        wait_for(lambda: run.trigger() is not None, "the next batch")
        run.trigger()
        await_offsets(stub, {queue_of(0): 1, queue_of(1): 2})
    assert updates.fired == 1


def test_nothing_is_published_without_being_asked_for(stub: StubBroker) -> None:
    """A stream with `commitOffsets=none` commits nothing, and neither does a batch read."""
    with Run(options_for(stub, consumerGroup=GROUP, commitOffsets="none")) as run:
        run.drain()
    read_batch(batch_options_for(stub, consumerGroup=GROUP))
    assert stub.offsets(GROUP) == {}


# --- members of the group --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("broker", ["broker-a", "broker-b"])
def test_a_group_with_members_is_refused_at_the_start(broker: str) -> None:
    """If the group has a live member at any of the brokers, the query fails and commits nothing."""
    with StubCluster(2, topics={"a-only": 1, "b-only": 1}) as stub:
        first, second = stub.state.brokers
        stub.run(lambda: first.topics.delete("b-only"))
        stub.run(lambda: second.topics.delete("a-only"))
        join(stub, topic=f"{broker[-1]}-only", broker=broker)
        with Run(options_for(stub, subscribe="a-only,b-only", consumerGroup=GROUP)) as run:
            with pytest.raises(GroupInUse, match="1 live members"):
                run.plan()
        assert stub.offsets(GROUP) == {}


def test_a_group_with_members_may_be_read_without_commits(stub: StubBroker) -> None:
    """With `commitOffsets=none` a query may use a group that has live members."""
    join(stub)
    with Run(options_for(stub, consumerGroup=GROUP, commitOffsets="none")) as run:
        assert len(run.drain()) == 2


def test_members_that_join_later_stop_the_publishing(stub: StubBroker, caplog: pytest.LogCaptureFixture) -> None:
    """If a member joins the group while the query runs, the query reads on without commits, with one warning."""
    with Run(options_for(stub, consumerGroup=GROUP), rhythm=PlannerRhythm(members_check_s=0.0)) as run:
        run.drain()
        await_offsets(stub, BOTH)
        join(stub)
        for _ in range(2):
            fill(stub)
            wait_for(lambda: run.trigger() is not None, "the next batch")
        run.trigger()
        assert run.reader.planner.role.committer.flush(5)
        assert run.reader.planner.role.committer.is_refused
    assert stub.offsets(GROUP) == BOTH
    assert caplog.text.count("not committed any more") == 1


def test_the_group_is_asked_about_once_a_minute(stub: StubBroker) -> None:
    """Brokers are asked for members once a minute, however often positions are committed."""
    now, cluster = [0.0], admin_of(stub)
    check = GroupCheck(cluster, GROUP, PlannerRhythm(clock=lambda: now[0]))
    asked = stub.faults.delay(1, on=RequestCode.GET_CONSUMER_LIST_BY_GROUP, times=None)
    for second in (0.0, 1.0, 59.0, 60.0, 61.0):
        now[0] = second
        check.require_no_members([TOPIC])
    assert asked.fired == 2


def test_a_question_that_failed_is_asked_again(stub: StubBroker) -> None:
    """If the request for the group's members fails, the next check sends it again instead of assuming no members."""
    settings = replace(options_for(stub).cluster, retries=0)
    check = GroupCheck(open_cluster(settings), GROUP)
    stub.faults.busy(on=RequestCode.GET_CONSUMER_LIST_BY_GROUP)
    with pytest.raises(RocketMQError):
        check.require_no_members([TOPIC])
    join(stub)
    with pytest.raises(GroupInUse):
        check.require_no_members([TOPIC])


# --- failures --------------------------------------------------------------------------------------------------------


def test_a_failure_is_warned_about_and_made_good(stub: StubBroker, caplog: pytest.LogCaptureFixture) -> None:
    """If a commit fails, the query goes on with a warning, and the commit is repeated even if no message comes."""
    with Run(options_for(stub, consumerGroup=GROUP, **{"fetchOffset.numRetries": "0"})) as run:
        stub.faults.busy(on=RequestCode.UPDATE_CONSUMER_OFFSET)
        run.trigger()
        assert run.trigger() is None
        await_offsets(stub, BOTH)
        assert run.reader.planner.role.committer.failure_count == 1
    assert "were not committed, repeating later" in caplog.text


def test_one_brokers_failure_does_not_hold_up_the_others() -> None:
    """If one broker refuses a commit, the positions of the other broker's queues are still committed."""
    with StubCluster(2, topics={TOPIC: 1}) as stub:
        cluster = admin_of(stub)
        writer = OffsetWriter(cluster, GROUP, GroupCheck(cluster, GROUP))
        stub.faults.answer(1, on=RequestCode.UPDATE_CONSUMER_OFFSET, at="broker-a", times=None)
        wanted = {queue_of(0): 1, queue_of(0, "broker-b"): 1}
        [failure] = writer.commit(wanted)
        assert (failure.where["broker"], stub.offsets(GROUP)) == ("broker-a", {queue_of(0, "broker-b"): 1})
        stub.faults.clear()
        assert (writer.commit(wanted), stub.offsets(GROUP)) == ([], wanted)


def test_a_lasting_failure_is_met_with_growing_pauses() -> None:
    """If commits keep failing, the pauses between attempts grow, however often Spark acknowledges."""
    attempts: list[float] = []

    def fail(_: Positions, _rewound: object) -> list[RocketMQError]:
        attempts.append(time.monotonic())
        return [TransportError("down")]

    committer = Committer(fail, rhythm=PlannerRhythm(commit_backoff=Backoff(first_s=0.1, longest_s=10.0)))
    begun = time.monotonic()
    while time.monotonic() < begun + 0.5:
        committer.acknowledge({queue_of(0): len(attempts) // 2})
    committer.close()
    assert 2 <= len(attempts) <= 6


def test_whatever_goes_wrong_the_thread_lives_on(caplog: pytest.LogCaptureFixture) -> None:
    """If a commit raises an unexpected exception, the committing thread survives and tries again."""
    seen: list[Positions] = []

    def stumble_once(positions: Positions, _rewound: object) -> list[RocketMQError]:
        seen.append(positions)
        if len(seen) == 1:
            raise ZeroDivisionError
        return []

    committer = Committer(stumble_once, rhythm=QUICK)
    committer.acknowledge({queue_of(0): 1})
    wait_for(lambda: len(seen) == 2, "another attempt")
    committer.close()


# --- intervals and shutdown ------------------------------------------------------------------------------------------


def test_publications_keep_their_distance_and_take_the_newest() -> None:
    """Within `min_interval_s` after a commit no other is sent; after it only the newest position is committed."""
    published: list[int] = []

    def publish(positions: Positions, _rewound: object) -> list[RocketMQError]:
        published.extend(positions.values())
        return []

    committer = Committer(publish, min_interval_s=0.2)
    committer.acknowledge({queue_of(0): 1})
    wait_for(lambda: published == [1], "the first")
    begun = time.monotonic()
    for number in range(2, 50):
        committer.acknowledge({queue_of(0): number})
    wait_for(lambda: published == [1, 49], "the newest")
    assert time.monotonic() - begun > 0.1
    committer.close()


def test_stopping_publishes_what_is_acknowledged(stub: StubBroker) -> None:
    """When a query stops, its finished batch is committed at once, though the interval of commits has not passed."""
    options = options_for(stub, consumerGroup=GROUP, persistConsumerOffsetInterval="10m")
    with Run(options) as run:
        run.drain()
        await_offsets(stub, BOTH)
        fill(stub)
        wait_for(lambda: run.trigger() is not None, "the next batch")
        run.trigger()
    assert stub.offsets(GROUP) == {queue_of(0): 2, queue_of(1): 2}


@pytest.mark.parametrize(("flush_s", "delay_ms", "is_told"), [(10.0, 0, False), (0.25, 1000, True)])
def test_a_last_commit_that_comes_too_late_is_told(
    stub: StubBroker, caplog: pytest.LogCaptureFixture, flush_s: float, delay_ms: int, is_told: bool
) -> None:
    """If the last commit of a query does not end in time, a warning says that the next start commits."""
    with Run(options_for(stub, consumerGroup=GROUP), rhythm=replace(QUICK, flush_s=flush_s)) as run:
        run.trigger()
        stub.faults.delay(delay_ms, on=RequestCode.UPDATE_CONSUMER_OFFSET, times=1)
        run.trigger()
    assert ("positions were not committed within 0.25 s; the query's next" in caplog.text) == is_told


def test_stopping_does_not_wait_for_ever() -> None:
    """If a commit hangs, `flush` returns False after its timeout."""
    end = threading.Event()

    def hang(_: Positions, _rewound: object) -> list[RocketMQError]:
        end.wait(10)
        return []

    committer = Committer(hang)
    committer.acknowledge({queue_of(0): 1})
    begun = time.monotonic()
    assert committer.flush(0.05) is False
    end.set()
    assert committer.flush(5.0) is True
    assert time.monotonic() - begun < 2


def test_sigterm_ends_the_planning_process_in_order(stub: StubBroker) -> None:
    """After a reader has planned, SIGTERM raises SystemExit; before that, the reader does not change its handler."""
    before = signal.getsignal(signal.SIGTERM)
    with Run(options_for(stub)) as run:
        assert signal.getsignal(signal.SIGTERM) is before
        run.plan()
        with pytest.raises(SystemExit):
            signal.raise_signal(signal.SIGTERM)


def test_a_queue_is_published_where_it_is() -> None:
    """The position of each queue is committed at the queue's own broker."""
    with StubCluster(2, topics={TOPIC: 1}) as stub:
        stub.put(TOPIC, b"x", broker="broker-b")
        with Run(options_for(stub, consumerGroup=GROUP)) as run:
            run.drain()
            await_offsets(stub, {MessageQueue(TOPIC, "broker-a", 0): 0, MessageQueue(TOPIC, "broker-b", 0): 1})


# --- brokers that lose positions -------------------------------------------------------------------------------------


def forget(stub: StubCluster, *stood: int) -> None:
    """Replace the positions that the broker stores for the group by `stood`, one number per queue, or by none."""
    table = ConsumerOffsets()
    for number, offset in enumerate(stood):
        table.commit(GROUP, TOPIC, number, offset)
    stub.run(lambda: setattr(stub.state.broker("broker-a", 0), "offsets", table))


@pytest.mark.parametrize("stood", [(), (0, 0)])
def test_an_idle_query_tells_a_broker_again_what_it_forgot(
    stub: StubBroker, caplog: pytest.LogCaptureFixture, stood: tuple[int, ...]
) -> None:
    """If a broker loses the group's positions while a query is idle, they are committed again without a trigger."""
    with Run(options_for(stub, consumerGroup=GROUP), rhythm=PlannerRhythm(commit_check_s=0.1)) as run:
        run.drain()
        await_offsets(stub, BOTH)
        forget(stub, *stood)
        await_offsets(stub, BOTH)
    assert "for group spark-orders, expected 1; committing again" in caplog.text


def test_a_broker_is_asked_once_a_minute_what_it_knows(stub: StubBroker) -> None:
    """Committed positions are compared with the broker's once a minute, and again after a failed commit."""
    now = [0.0]
    cluster = admin_of(stub)
    writer = OffsetWriter(cluster, GROUP, GroupCheck(cluster, GROUP), PlannerRhythm(clock=lambda: now[0]))
    writer.commit(BOTH)
    questions = stub.faults.delay(0, on=RequestCode.QUERY_CONSUMER_OFFSET, times=None)
    for now[0] in (30, 59, 60, 100):
        assert writer.commit(BOTH) == []
    assert questions.fired == len(BOTH)
    forget(stub)
    stub.faults.answer(1, on=RequestCode.UPDATE_CONSUMER_OFFSET, times=None)
    more = {queue_of(0): 2, queue_of(1): 1}
    assert len(writer.commit(more)) == 1
    stub.faults.clear()
    assert (writer.commit(more), stub.offsets(GROUP)) == ([], more)


def test_what_a_replica_knows_is_not_told_again(caplog: pytest.LogCaptureFixture) -> None:
    """While the master is away, an older position at its replica does not cause another commit."""
    now = [0.0]
    with StubCluster(1, slaves=1, topics={TOPIC: 2}) as stub:
        cluster = admin_of(stub)
        writer = OffsetWriter(cluster, GROUP, GroupCheck(cluster, GROUP), PlannerRhythm(clock=lambda: now[0]))
        writer.commit(BOTH)
        stub.run(lambda: stub.state.broker("broker-a", 1).offsets.commit(GROUP, TOPIC, 0, 0))
        stub.run(lambda: stub.state.broker("broker-a", 1).offsets.commit(GROUP, TOPIC, 1, 0))
        stub.faults.broker_down(broker_id=0)
        now[0] = 60.0
        writer.commit(BOTH)
    assert "committing again" not in caplog.text
