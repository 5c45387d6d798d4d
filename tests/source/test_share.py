"""Test queries that are members of their group: which queues they read, where they start, and what they commit."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from broker_stub import StubBroker, StubCluster
from broker_stub.offset_table import ConsumerOffsets
from pyspark_rocketmq.client.consumer import PushConsumer
from pyspark_rocketmq.client.membership import make_client_id
from pyspark_rocketmq.client.results import SUCCESS
from pyspark_rocketmq.client.running_info import STRATEGY_PROPERTY
from pyspark_rocketmq.client.settings import ConsumeFrom, ConsumerSettings, Rhythm
from pyspark_rocketmq.cluster.settings import ClusterSettings
from pyspark_rocketmq.errors import GroupError, LockRefused, OffsetBeyondEnd, OptionError
from pyspark_rocketmq.model import MessageQueue, parse_addresses, retry_topic
from pyspark_rocketmq.net.backoff import Backoff
from pyspark_rocketmq.offsets.position import Positions
from pyspark_rocketmq.options import ReaderOptions
from pyspark_rocketmq.pull.settings import Subscription
from pyspark_rocketmq.source.membership import QueryMember
from pyspark_rocketmq.source.strategy_check import StrategyCheck
from pyspark_rocketmq.source.stream import require_plain
from pyspark_rocketmq.wire.codes import RequestCode, ResponseCode
from tests.source.driving import (
    GROUP,
    QUICK,
    TOPIC,
    Checkpoint,
    Row,
    Run,
    admin_of,
    options_for,
    queue_of,
    quick_run,
    store_offsets,
    wait_for,
)

CONSUMER_RHYTHM = Rhythm(
    heartbeat_s=5, route_s=1, rebalance_s=1, rebalance_soonest_s=0.1, first_persist_s=0.1, persist_s=0.1
)
ALL = [queue_of(number) for number in range(4)]
LASTING = replace(QUICK, bounds_s=3600.0)
"""Bounds are remembered for longer than a test lasts."""
QUICK_RETRY = replace(QUICK, commit_backoff=Backoff(first_s=0.05, longest_s=0.05))
"""After a failed commit, the broker is asked again in 0.05 seconds."""
IMPATIENT = replace(QUICK, lock_timeout_s=0.2)


@pytest.fixture
def stub() -> Iterator[StubBroker]:
    """One broker with a topic of four queues, and one message in each queue."""
    with StubBroker({TOPIC: 4}) as broker:
        fill(broker)
        yield broker


def fill(stub: StubBroker, count: int = 1) -> None:
    """Add `count` messages to each queue."""
    stub.fill(TOPIC, 4 * count, 4)


def shared(stub: StubCluster, **given: str) -> ReaderOptions:
    """Return options of a query that is a member of its group."""
    raw = {"consumerGroup": GROUP, "groupMembership": "shared", "startingOffsets": "group", "rebalanceInterval": "1s"}
    return options_for(stub, **{**raw, **given})


def consumer(stub: StubBroker, **given: Any) -> PushConsumer:
    """Return a push consumer, without Spark, of the query's group; `given` replaces some of its settings."""
    common = {
        "group": GROUP,
        "subscriptions": {TOPIC: Subscription()},
        "consume_from": ConsumeFrom.FIRST_OFFSET,
        "rhythm": CONSUMER_RHYTHM,
    }
    settings = ConsumerSettings(**{**common, **given})
    return PushConsumer.concurrent(ClusterSettings(parse_addresses(stub.name_server)), settings, lambda _: SUCCESS)


def held(other: PushConsumer) -> set[MessageQueue]:
    """Return the queues of the topic that a consumer owns now."""
    return {queue for queue in other.queues if queue.topic == TOPIC}


def mine(run: Run) -> set[MessageQueue]:
    """Return the queues of the topic that the query's newest planned offset names."""
    ids = run.checkpoint.last["next"].get(TOPIC, {}).get("broker-a", {})
    return {queue_of(int(number)) for number in ids}


def settle(*runs: Run) -> None:
    """Trigger the queries, which have nothing to read, until all have equally many queues."""

    def is_settled() -> bool:
        triggered = [run.trigger() for run in runs]
        return not any(triggered) and {len(mine(run)) for run in runs} == {4 // len(runs)}

    wait_for(is_settled, "all have their share")


def standing(stub: StubCluster) -> dict[int, int]:
    """Return the group's committed positions in the topic, by queue id."""
    return {queue.queue_id: offset for queue, offset in stub.offsets(GROUP).items() if queue.topic == TOPIC}


def test_a_query_alone_in_its_group_reads_and_publishes_all(stub: StubBroker) -> None:
    """A query that is the only member reads and commits all queues, and stays listed as a member until it ends."""
    with quick_run(shared(stub, instanceName="one")) as run:
        assert len(run.read_until(4)) == 4
        assert stub.groups()[GROUP] == (make_client_id("one"),)
        run.trigger()
        assert standing(stub) == dict.fromkeys(range(4), 1)
        assert retry_topic(GROUP) in run.checkpoint.last["next"]
    wait_for(lambda: GROUP not in stub.groups(), "the query has left")


# --- assignment ------------------------------------------------------------------------------------------------------


def test_two_queries_divide_the_queues(stub: StubBroker) -> None:
    """Two queries of a group read half of the queues each; when one leaves, the other gains its queues."""
    with quick_run(shared(stub)) as first:
        first.read_until(4)
        with quick_run(shared(stub)) as second:
            settle(first, second)
            assert mine(first) | mine(second) == set(ALL)
        settle(first)


def test_nothing_is_skipped_or_doubled_when_a_query_joins_in_peace(stub: StubBroker) -> None:
    """If a second query joins, it starts at the committed positions: every message is read exactly once."""
    with quick_run(shared(stub)) as first:
        first.read_until(4)
        with quick_run(shared(stub)) as second:
            settle(first, second)
            fill(stub, 5)
            rows = [*first.read_until(10), *second.read_until(10)]
            assert {(row.queue, row.offset) for row in rows} == {(queue, at) for queue in ALL for at in range(1, 6)}
            settle(first, second)
            assert standing(stub) == dict.fromkeys(range(4), 6)


def test_a_query_and_a_consumer_share(stub: StubBroker) -> None:
    """A query and a push consumer of one group own half of the queues each."""
    with consumer(stub) as other, quick_run(shared(stub)) as run:
        wait_for(lambda: not run.trigger() and len(mine(run)) == 2, "half is the query's")
        wait_for(lambda: held(other) == set(ALL) - mine(run), "the rest is the consumer's")


def test_a_query_without_a_share_reads_nothing(stub: StubBroker) -> None:
    """If a query joins four members on four queues, it gets no queue and reads nothing, without an error."""
    with consumer(stub), consumer(stub), consumer(stub), consumer(stub):
        wait_for(lambda: len(stub.groups().get(GROUP, ())) == 4, "four members")
        with quick_run(shared(stub, instanceName="~ comes last")) as run:
            assert run.trigger() == [] and mine(run) == set()


def test_config_gives_the_query_its_own_list(stub: StubBroker) -> None:
    """With the strategy CONFIG a query reads exactly the queues that its option `messageQueueList` lists."""
    lists = '[{"orders": {"broker-a": [1, 3]}}]'
    with quick_run(shared(stub, allocateMessageQueueStrategy="CONFIG", messageQueueList=lists)) as run:
        assert {row.queue for row in run.read_until(2)} == {queue_of(1), queue_of(3)}


def test_rooms_decide_who_reads_what(stub: StubBroker) -> None:
    """With the strategy MACHINE_ROOM_NEARBY only members in the broker's machine room read the broker's queues."""
    rooms = {
        "allocateMessageQueueStrategy": "MACHINE_ROOM_NEARBY",
        "brokerRooms": '{"broker-a": "east"}',
        "consumerRooms": '{"*@near": "east", "*": "west"}',
    }
    with (
        quick_run(shared(stub, **rooms, instanceName="far")) as far,
        quick_run(shared(stub, **rooms, instanceName="near")) as near,
    ):
        far.plan()
        assert {row.queue for row in near.read_until(4)} == set(ALL)
        wait_for(lambda: not far.trigger() and mine(far) == set(), "nothing is left for the other one")


def test_what_the_group_sent_back_is_read(stub: StubBroker) -> None:
    """A query that is a member also reads the messages of its group's retry topic."""
    with quick_run(shared(stub)) as run:
        run.read_until(4)
        stub.put(retry_topic(GROUP), b"again")
        assert [row.body for row in run.read_until(1)] == [b"again"]


# --- what members have in common -------------------------------------------------------------------------------------


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return the warnings so far that members of the group disagree."""
    return [record.getMessage() for record in caplog.records if "disagree" in record.getMessage()]


def test_members_that_subscribe_differently_are_reported(stub: StubBroker, caplog: pytest.LogCaptureFixture) -> None:
    """If another member has another filter, the query logs once what differs and what to do, and reads on."""
    with consumer(stub, subscriptions={TOPIC: Subscription("a")}) as other:
        wait_for(lambda: len(held(other)) == 4, "the consumer is a member")
        with quick_run(shared(stub)) as run:
            wait_for(lambda: not run.trigger() and len(mine(run)) == 2, "half is the query's")
            wait_for(lambda: "this member wants TAG '*'" in caplog.text, "the query has compared")

    (warning,) = [each for each in warnings_of(caplog) if "this member wants TAG '*'" in each]
    assert f"group {GROUP}" in warning and "let all members subscribe to the same" in warning
    assert f"others want TAG 'a' of {TOPIC}" in warning and f"some others are: {other.client_id}" in warning


def test_members_with_another_strategy_are_reported(stub: StubBroker, caplog: pytest.LogCaptureFixture) -> None:
    """If another member assigns queues by another strategy, the query logs that member and both strategies once."""
    with consumer(stub, allocation="AVG_BY_CIRCLE") as other, quick_run(shared(stub)) as run:
        run.plan()
        wait_for(lambda: bool(warnings_of(caplog)), "the query has asked")
        asked = stub.faults.delay(0, on=RequestCode.GET_CONSUMER_RUNNING_INFO, times=None)
        rounds = stub.faults.delay(0, on=RequestCode.GET_CONSUMER_LIST_BY_GROUP, times=None)
        wait_for(lambda: rounds.fired > 12, "further rounds")

    (warning,) = warnings_of(caplog)
    assert f"{other.client_id} assigns queues by 'AVG_BY_CIRCLE', this member by 'AVG'" in warning
    assert asked.fired == 0


def test_a_round_lists_members_once_for_each_topic(stub: StubBroker) -> None:
    """The check of strategies takes the members that rebalancing has listed, without a request of its own."""
    options = shared(stub)
    assert options.share
    member = QueryMember(options, options.share, QUICK)
    member._membership.refresh_routes()
    member._membership.heartbeat()
    member._run_round()
    listed = stub.faults.delay(0, on=RequestCode.GET_CONSUMER_LIST_BY_GROUP, times=None)
    member._run_round()
    topics = [topic for topic in member._membership.subscriptions if member._membership.queues(topic)]
    member.close()

    assert listed.fired == len(topics) > 0


def test_members_that_agree_are_not_reported(stub: StubBroker, caplog: pytest.LogCaptureFixture) -> None:
    """If all members have the same subscriptions and strategy, nothing is logged about them."""
    asked = stub.faults.delay(0, on=RequestCode.GET_CONSUMER_RUNNING_INFO, times=None)
    with consumer(stub), quick_run(shared(stub)) as run:
        run.plan()
        wait_for(lambda: asked.fired > 0, "the query has asked")

    assert not warnings_of(caplog)


def test_client_ids_of_others_are_logged_escaped(stub: StubBroker, caplog: pytest.LogCaptureFixture) -> None:
    """If a broker lists a member with a forged client id, the log shows it in one line, whether it reports or not."""
    reports = {"forged\nERROR 1": {STRATEGY_PROPERTY: "AVG_BY_CIRCLE"}}

    def fetch(_: str, client_id: str, **__: object) -> SimpleNamespace:
        if client_id in reports:
            return SimpleNamespace(properties=reports[client_id])
        raise GroupError("it is not there")

    check = StrategyCheck(
        cast(Any, SimpleNamespace(admin=SimpleNamespace(fetch_running_info=fetch))), GROUP, "me", "AVG"
    )
    with caplog.at_level(logging.INFO):
        for _ in range(2):
            check.ask_one(["forged\nERROR 1", "forged\nERROR 2"])

    assert len(caplog.messages) == 2 and all(each.isprintable() for each in caplog.messages)


def test_a_missing_retry_topic_is_no_warning(stub: StubBroker, caplog: pytest.LogCaptureFixture) -> None:
    """If the group's retry topic has no route, members are listed by a topic of the query, without a warning."""
    options = shared(stub, allocateMessageQueueStrategy="CONFIG", messageQueueList='[{"orders": {"broker-a": [1]}}]')
    assert options.share
    member = QueryMember(options, options.share, QUICK)
    with consumer(stub) as other, caplog.at_level(logging.INFO):
        wait_for(lambda: held(other) == set(ALL), "the consumer is a member")
        admin_of(stub).admin.delete_topic(retry_topic(GROUP))
        member._run_round()
    member.close()

    assert f"member {other.client_id} of group" in caplog.text  # It is asked, so it was listed.
    assert "could not list the members" not in caplog.text


# --- where a gained queue begins -------------------------------------------------------------------------------------


def test_a_gained_queue_begins_where_the_group_stands(stub: StubBroker) -> None:
    """A member reads a gained queue from the group's position, which the planned offset records as `begin`."""
    fill(stub, 9)
    store_offsets(stub, dict.fromkeys(ALL, 7))
    with quick_run(shared(stub)) as run:
        assert sorted(row.offset for row in run.read_until(12)) == sorted([7, 8, 9] * 4)
    assert '"begin"' in run.checkpoint.offsets[0]


def test_a_gained_queue_waits_for_its_last_owner(stub: StubBroker) -> None:
    """A member plans a gained queue only after `settle_s` seconds, so that the last owner can commit its position."""
    with quick_run(shared(stub), rhythm=replace(QUICK, settle_s=2.0)) as stays:
        with quick_run(shared(stub)) as leaves:
            settle(stays, leaves)
            kept = mine(stays)
        table = stays.reader.planner.role.member.running_info.table
        wait_for(lambda: len(table.queues(TOPIC)) == 4, "all queues are its own")
        stays.trigger()
        assert mine(stays) == kept and len(kept) == 2
        settle(stays)


def test_a_restart_begins_at_the_larger_of_both_positions(stub: StubBroker) -> None:
    """After a restart a member reads each queue from the larger of the checkpoint's and the group's positions."""
    options, checkpoint = shared(stub), Checkpoint()
    with quick_run(options, checkpoint, once=True) as run:
        run.trigger()
    assert standing(stub) == {}
    fill(stub, 4)
    store_offsets(stub, {queue_of(0): 3})
    with quick_run(options, checkpoint) as run:
        rows = run.read_until(4 * 3 + 2)
    assert min(row.offset for row in rows if row.queue == queue_of(0)) == 3
    assert min(row.offset for row in rows if row.queue == queue_of(1)) == 1


@pytest.mark.parametrize(("word", "offsets"), [("latest", []), ("earliest", [0])])
def test_queues_without_a_position_follow_the_default(stub: StubBroker, word: str, offsets: list[int]) -> None:
    """Queues without a committed position are read from where `startingOffsetsDefault` says."""
    with quick_run(shared(stub, startingOffsetsDefault=word), available_now=True) as run:
        assert sorted({row.offset for row in run.drain()}) == offsets


def test_queues_without_a_position_may_be_an_error(stub: StubBroker) -> None:
    """With `startingOffsetsDefault=error` a queue without a position fails the query."""
    with quick_run(shared(stub, startingOffsetsDefault="error")) as run, pytest.raises(OptionError, match="committed"):
        run.plan()


def test_a_query_that_may_not_read_its_topic_joins_no_group(stub: StubBroker) -> None:
    """If no queue of a topic may be read, a new query fails before it becomes a member."""
    stub.state.brokers[0].topics.find_or_create("closed", 1, perm=2)
    rhythm = replace(QUICK, join_timeout_s=2.0)
    with quick_run(shared(stub, subscribe=f"{TOPIC},closed"), rhythm=rhythm) as run:
        with pytest.raises(OptionError, match="no queue of the topic may be read"):
            run.plan()
        assert GROUP not in stub.groups()


def test_a_replayed_batch_reads_its_ranges_whoever_owns_them_now(stub: StubBroker) -> None:
    """A replayed batch reads all ranges of Spark's offset log, though other members now own some of the queues."""
    options, checkpoint = shared(stub), Checkpoint()
    with quick_run(options, checkpoint) as run:
        run.plan()
    lists = '[{"orders": {"broker-a": [1]}}]'
    moved = shared(stub, allocateMessageQueueStrategy="CONFIG", messageQueueList=lists)
    with quick_run(moved, checkpoint) as run:
        assert {row.queue for row in run.trigger() or ()} == set(ALL)
        wait_for(lambda: run.trigger() is None and mine(run) == {queue_of(1)}, "the others have left")


def test_available_now_reads_what_was_its_own_when_it_began(stub: StubBroker) -> None:
    """With the trigger availableNow, a queue that the query gains during the run is not read in this run."""
    with consumer(stub) as other:
        wait_for(lambda: held(other) == set(ALL), "all queues are the consumer's")
        with quick_run(shared(stub, startingOffsetsDefault="earliest"), available_now=True) as run:
            fill(stub)
            run.trigger()
            before = mine(run)
            other.close()
            wait_for(lambda: len(owned(run)) == 4, "all queues are the query's")
            run.drain()
            assert {queue for queue, offset in positions(run).items() if offset > 0} <= before


def owned(run: Run) -> set[MessageQueue]:
    """Return the queues of the topic that are assigned to the query now, even if no batch has planned them yet."""
    return {queue for queue in run.reader.planner.role.member.owned() if queue.topic == TOPIC}


def positions(run: Run) -> Positions:
    """Return the positions of the query's newest planned offset, by queue."""
    found = run.checkpoint.last["next"][TOPIC]["broker-a"]
    return {queue_of(int(number)): offset for number, offset in found.items()}


# --- commits ---------------------------------------------------------------------------------------------------------


def test_a_lost_queue_is_not_committed(stub: StubBroker) -> None:
    """A queue that goes to another member during a batch is not committed; the new owner reads its rows again."""
    with quick_run(shared(stub)) as run, quick_run(shared(stub)) as new_owner:
        run.plan()
        new_owner.plan()
        wait_for(lambda: len(owned(run)) == 2, "two queues are gone")
        kept = owned(run)
        assert {row.queue for row in run.trigger() or ()} == set(ALL)
        wait_for(lambda: not run.trigger() and mine(run) == kept, "the query goes on without them")
        assert standing(stub) == {queue.queue_id: 1 for queue in kept}
        wait_for(lambda: len(owned(new_owner)) == 2, "the new owner has them")
        assert {row.queue for row in new_owner.read_until(2)} == set(ALL) - kept


def test_a_failed_publication_is_made_good(stub: StubBroker, caplog: pytest.LogCaptureFixture) -> None:
    """If a commit fails, a warning is logged and the commit is repeated."""
    with quick_run(shared(stub)) as run:
        run.read_until(4)
        stub.faults.answer(ResponseCode.NO_PERMISSION, on=RequestCode.UPDATE_CONSUMER_OFFSET)
        run.trigger()
        assert "were not committed, repeating later" in caplog.text
        wait_for(lambda: run.trigger() is None and standing(stub) == dict.fromkeys(range(4), 1), "they are committed")


def test_the_end_publishes_what_is_finished(stub: StubBroker) -> None:
    """When a query stops, its finished batch is committed at once, though the interval of commits has not passed."""
    with quick_run(shared(stub), rhythm=replace(QUICK, exchange_s=60.0)) as run:
        run.read_until(4)
        run.trigger()
    assert standing(stub) == dict.fromkeys(range(4), 1)


# --- resets ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", [2, 8])
def test_an_administrators_reset_is_obeyed(stub: StubBroker, caplog: pytest.LogCaptureFixture, target: int) -> None:
    """If an administrator resets one queue, forward or back, the query reads on from there; other queues go on."""
    fill(stub, 5)
    with quick_run(shared(stub)) as run:
        run.read_until(24)
        run.trigger()
        stub.faults.reset_offset(GROUP, queue_of(0), target)
        fill(stub, 4)
        rows = run.read_until(3 * 4 + 10 - target)
        assert [row.offset for row in rows if row.queue == queue_of(0)] == list(range(target, 10))
        wait_for(lambda: run.trigger() is None and standing(stub) == dict.fromkeys(range(4), 10), "all is committed")
    assert "was moved from 6 to" in caplog.text


def test_a_reset_that_comes_by_way_of_the_member_is_obeyed(stub: StubBroker) -> None:
    """If a broker sends a reset to the member, as brokers before 5.2 do, the query reads on from the new offset."""
    fill(stub, 5)
    with quick_run(shared(stub)) as run:
        run.read_until(24)
        run.trigger()
        run.reader.planner.role.member.reset(TOPIC, {queue_of(0): 4})
        assert [(row.queue, row.offset) for row in run.read_until(2)] == [(queue_of(0), 4), (queue_of(0), 5)]


def test_an_own_commit_is_no_reset(stub: StubBroker, caplog: pytest.LogCaptureFixture) -> None:
    """If the response to the query's own commit is lost, the committed position is not mistaken for a reset."""
    impatient = {"mqClientApiTimeout": "1000", "fetchOffset.numRetries": "0"}
    with caplog.at_level(logging.WARNING), quick_run(shared(stub, **impatient)) as run:
        run.read_until(4)
        stub.faults.drop_reply(on=RequestCode.UPDATE_CONSUMER_OFFSET)
        for _ in range(3):
            fill(stub)
            run.read_until(4)
    assert "was moved" not in caplog.text


def rest(run: Run) -> None:
    """Trigger until no queue has anything new, after the bounds of the topic and of the retry topic were fetched."""
    known = {TOPIC, retry_topic(GROUP)}
    wait_for(lambda: run.trigger() is None and run.checkpoint.last["next"].keys() == known, "the query rests")


@pytest.mark.parametrize("fatal", ["true", "false"])
def test_a_skip_to_the_end_skips_what_was_not_seen_yet(stub: StubBroker, fatal: str) -> None:
    """If a reset is beyond the known end, bounds are fetched again and the query skips there without a loss."""
    with quick_run(shared(stub, failOnDataLoss=fatal, startingOffsetsDefault="earliest"), rhythm=LASTING) as run:
        rest(run)
        fill(stub, 10)
        asked = stub.faults.delay(1, on=RequestCode.GET_TOPIC_STATS_INFO, times=None)
        store_offsets(stub, dict.fromkeys(ALL, 11))
        assert [run.trigger() for _ in range(20)] == [[], *[None] * 19]
        assert positions(run) == dict.fromkeys(ALL, 11)
        assert asked.fired == 2  # One request for the topic, one for the retry topic.


def test_a_reset_beyond_the_end_is_still_told_of(stub: StubBroker) -> None:
    """If the group is reset beyond the end of a queue, the query fails with an error that names the current end."""
    with quick_run(shared(stub, startingOffsetsDefault="earliest"), rhythm=LASTING) as run:
        rest(run)
        fill(stub, 10)
        store_offsets(stub, {queue_of(0): 12})
        with pytest.raises(OffsetBeyondEnd, match="offset 12 lies beyond the queue's end 11"):
            run.trigger()


@pytest.mark.parametrize("count", [0, 10])
def test_without_failing_a_reset_beyond_the_end_goes_to_the_end(stub: StubBroker, count: int) -> None:
    """With `failOnDataLoss=false` a reset beyond the end moves the query to the current end of the queue."""
    with quick_run(shared(stub, failOnDataLoss="false", startingOffsetsDefault="earliest"), rhythm=LASTING) as run:
        rest(run)
        make_anew(stub, count)
        store_offsets(stub, {queue_of(0): 12})
        assert run.trigger() == []
        assert positions(run)[queue_of(0)] == count


def make_anew(stub: StubBroker, count: int) -> None:
    """Delete queue 0 with its messages, then create it again with `count` new messages."""
    stub.run(lambda: stub.state.brokers[0].store.queues.pop((TOPIC, 0)))
    for _ in range(count):
        stub.put(TOPIC, b"anew", queue_id=0)


def test_a_reset_to_what_was_made_anew_is_obeyed(stub: StubBroker) -> None:
    """If a queue is made anew, a reset to an offset below the old minimum moves the query to that offset."""
    fill(stub, 9)
    stub.expire(TOPIC, 0, 8)
    store_offsets(stub, dict.fromkeys(ALL, 10))
    with quick_run(shared(stub), rhythm=LASTING) as run:
        rest(run)
        make_anew(stub, 3)
        store_offsets(stub, {queue_of(0): 2})
        assert [(row.queue, row.offset, row.body) for row in run.trigger() or ()] == [(queue_of(0), 2, b"anew")]


# --- brokers that lose positions -------------------------------------------------------------------------------------


def one_queue(slaves: int = 0) -> StubCluster:
    """Return a broker with a topic of one queue, which holds ten messages."""
    stub = StubCluster(1, slaves, topics={TOPIC: 1})
    stub.fill(TOPIC, 10, 1)
    return stub


def read_all(run: Run, stub: StubCluster) -> None:
    """Read the ten messages, and trigger until their position is committed."""
    assert len(run.read_until(10)) == 10
    assert rows_until(run, lambda: standing(stub) == {0: 10}) == []


def rows_until(run: Run, condition: Callable[[], bool]) -> list[Row]:
    """Trigger until the condition holds, and twice more; return all rows that were read."""
    rows: list[Row] = []

    def holds() -> bool:
        rows.extend(run.trigger() or ())
        return condition()

    wait_for(holds, "the condition holds")
    return [*rows, *(run.trigger() or ()), *(run.trigger() or ())]


def give_table(stub: StubCluster, *stood: int, broker_id: int = 0) -> None:
    """Replace the positions that a broker process stores by `stood` for the group, or by none."""
    table = ConsumerOffsets()
    for offset in stood:
        table.commit(GROUP, TOPIC, 0, offset)
    stub.run(lambda: setattr(stub.state.broker("broker-a", broker_id), "offsets", table))


@pytest.mark.parametrize("stood", [(7,), ()])
def test_a_broker_that_was_killed_is_told_again(caplog: pytest.LogCaptureFixture, stood: tuple[int, ...]) -> None:
    """If a broker restarts with an older or empty table of positions, the query commits again and is not moved."""
    with one_queue() as stub, quick_run(shared(stub), rhythm=QUICK_RETRY) as run:
        read_all(run, stub)
        positions = run.reader.planner.role.positions
        stub.faults.broker_down()
        assert rows_until(run, lambda: positions.failure_count > 0) == []
        give_table(stub, *stood)
        stub.faults.broker_up()
        assert rows_until(run, lambda: standing(stub) == {0: 10}) == []
    assert "was moved" not in caplog.text


def test_a_broker_that_was_killed_while_nobody_asked_is_told_again(caplog: pytest.LogCaptureFixture) -> None:
    """If a broker restarts between two triggers with an older position, the query commits again and is not moved."""
    with one_queue() as stub, quick_run(shared(stub)) as run:
        read_all(run, stub)
        stub.faults.broker_down()
        give_table(stub, 7)
        stub.faults.broker_up()
        assert rows_until(run, lambda: standing(stub) == {0: 10}) == []
    assert "the broker reports offset 7 for group spark-orders, expected 10; committing again" in caplog.text


@pytest.mark.parametrize("batch_count", [1, 3])
def test_a_broker_that_forgot_a_reset_is_told_again(caplog: pytest.LogCaptureFixture, batch_count: int) -> None:
    """If a broker restarts with the position from before a reset, the query is not moved, and it commits again."""
    with one_queue() as stub, quick_run(shared(stub, maxOffsetsPerTrigger="2")) as run:
        read_all(run, stub)
        store_offsets(stub, {queue_of(0): 0})
        rows = run.read_until(2 * batch_count)
        stub.faults.broker_down()
        give_table(stub, 10)
        stub.faults.broker_up()
        rows += rows_until(run, lambda: standing(stub)[0] < 10)
        rows += rows_until(run, lambda: standing(stub)[0] == 10)
    assert [row.offset for row in rows] == list(range(10))
    assert "the broker reports offset 10 for group spark-orders, expected" in caplog.text


def test_what_comes_after_silence_is_no_reset(caplog: pytest.LogCaptureFixture) -> None:
    """If a connection breaks while positions are fetched, an older position in the retry is not taken for a reset."""
    with one_queue() as stub, quick_run(shared(stub)) as run:
        read_all(run, stub)
        give_table(stub, 7)
        stub.faults.cut_reply(on=RequestCode.QUERY_CONSUMER_OFFSET)
        assert rows_until(run, lambda: standing(stub) == {0: 10}) == []
    assert "the broker reports offset 7 for group spark-orders, expected 10; committing again" in caplog.text


@pytest.mark.parametrize("request_code", [RequestCode.QUERY_CONSUMER_OFFSET, RequestCode.UPDATE_CONSUMER_OFFSET])
def test_a_broker_that_refuses_has_not_been_killed(request_code: RequestCode) -> None:
    """If a broker refuses some requests, which is no sign of a restart, a later reset still moves the query."""
    with one_queue() as stub, quick_run(shared(stub), rhythm=QUICK_RETRY) as run:
        read_all(run, stub)
        stub.put(TOPIC, b"x")
        stub.faults.answer(ResponseCode.NO_PERMISSION, on=request_code, times=3)
        positions = run.reader.planner.role.positions
        wait_for(lambda: bool(run.trigger() or positions.failure_count), "it is refused")
        stub.faults.clear()
        store_offsets(stub, {queue_of(0): 7})
        assert {row.offset for row in run.read_until(4)} >= {7, 8, 9, 10}


def test_a_replica_moves_nobody(caplog: pytest.LogCaptureFixture) -> None:
    """An old position of a replica, or of a master that comes back, is not mistaken for a reset."""
    with one_queue(slaves=1) as stub, quick_run(shared(stub), rhythm=QUICK_RETRY) as run:
        read_all(run, stub)
        give_table(stub, 7, broker_id=1)
        stub.faults.broker_down("broker-a", 0)
        asked = stub.faults.delay(1, on=RequestCode.QUERY_CONSUMER_OFFSET, times=None)
        assert rows_until(run, lambda: asked.fired >= 4) == []
        give_table(stub, 5)
        stub.faults.broker_up("broker-a", 0)
        assert rows_until(run, lambda: standing(stub) == {0: 10}) == []
    assert "was moved" not in caplog.text


# --- locks -----------------------------------------------------------------------------------------------------------


def test_a_member_that_reads_in_order_locks_what_it_owns(stub: StubBroker) -> None:
    """A member with `ordering=queue` locks its queues, and waits for the lock of a queue that another client holds."""
    admin_of(stub).groups.lock(GROUP, "10.0.0.9@other", [queue_of(3)])
    with quick_run(shared(stub, ordering="queue", instanceName="one")) as run:
        run.read_until(3)
        assert mine(run) == set(ALL) - {queue_of(3)}
        assert stub.locks(GROUP)[queue_of(0)] == make_client_id("one")
        admin_of(stub).groups.unlock(GROUP, "10.0.0.9@other", [queue_of(3)])
        assert [row.queue for row in run.read_until(1)] == [queue_of(3)]


def test_a_queue_begins_where_the_last_holder_of_its_lock_stood(stub: StubBroker) -> None:
    """When a lock becomes free, the query starts at the group's position, even beyond the end that the query knows."""
    admin_of(stub).groups.lock(GROUP, "10.0.0.9@other", [queue_of(3)])
    with quick_run(shared(stub, ordering="queue", startingOffsetsDefault="earliest"), rhythm=LASTING) as run:
        rest(run)
        stub.put(TOPIC, b"read by the other", queue_id=3)
        store_offsets(stub, {queue_of(3): 2})
        admin_of(stub).groups.unlock(GROUP, "10.0.0.9@other", [queue_of(3)])
        wait_for(lambda: run.trigger() == [] and queue_of(3) in mine(run), "the queue is the query's")
        assert positions(run)[queue_of(3)] == 2


@pytest.mark.parametrize("has_news", [True, False])
def test_available_now_does_not_end_without_the_locks_of_its_share(stub: StubBroker, has_news: bool) -> None:
    """With availableNow the run fails if another client locks an assigned queue with unread messages."""
    admin_of(stub).groups.lock(GROUP, "10.0.0.9@other", [queue_of(3)])
    store_offsets(stub, {queue_of(3): 0 if has_news else 1})
    options = shared(stub, ordering="queue", startingOffsetsDefault="earliest")
    with quick_run(options, available_now=True, rhythm=IMPATIENT) as run:
        with pytest.raises(LockRefused, match="queue 3") if has_news else nullcontext():
            run.drain()
        assert mine(run) == set(ALL) - {queue_of(3)}


def test_available_now_waits_for_no_lock_of_what_it_has_read(stub: StubBroker) -> None:
    """With availableNow the run does not wait for the lock of a queue that it has read, committed or not."""
    options, checkpoint = shared(stub, ordering="queue", startingOffsetsDefault="earliest"), Checkpoint()
    with quick_run(options, checkpoint, once=True) as run:
        assert len(run.trigger() or ()) == 4
    wait_for(lambda: stub.locks(GROUP) == {}, "all locks are free")
    admin_of(stub).groups.lock(GROUP, "10.0.0.9@other", [queue_of(3)])
    with quick_run(options, checkpoint, available_now=True, rhythm=replace(QUICK, lock_timeout_s=0.0)) as run:
        assert run.drain() == []


def test_a_planned_batch_is_not_read_without_its_locks(stub: StubBroker) -> None:
    """If another client locks a queue of a planned batch, a restarted query fails instead of reading the batch."""
    options, checkpoint = shared(stub, ordering="queue"), Checkpoint()
    with quick_run(options, checkpoint) as run:
        run.plan()
    wait_for(lambda: stub.locks(GROUP) == {}, "all locks are free")
    admin_of(stub).groups.lock(GROUP, "10.0.0.9@other", [queue_of(3)])
    with quick_run(options, checkpoint, rhythm=IMPATIENT) as run, pytest.raises(LockRefused):
        run.trigger()


# --- two brokers, and a namespace ------------------------------------------------------------------------------------


def test_a_broker_that_goes_holds_up_nothing_elsewhere() -> None:
    """If one of two brokers stops, the other's queue is read; the stopped one's continues at the group's position."""
    with (
        StubCluster(2, topics={TOPIC: 1}) as stub,
        quick_run(shared(stub, heartbeatBrokerInterval="1s"), rhythm=QUICK_RETRY) as run,
    ):
        stays, leaves = queue_of(0), queue_of(0, "broker-b")
        wait_for(lambda: not run.trigger() and len(run.checkpoint.last["next"][TOPIC]) == 2, "both are the query's")
        stub.put(TOPIC, b"a", broker="broker-b")
        run.read_until(1)
        wait_for(lambda: not run.trigger() and stub.offsets(GROUP).get(leaves) == 1, "committed at both")
        stub.faults.broker_down("broker-b")
        stub.put(TOPIC, b"b", broker="broker-a")
        assert [row.body for row in run.read_until(1)] == [b"b"]
        wait_for(lambda: not run.trigger() and stub.offsets(GROUP).get(stays) == 1, "committed at the other")
        stub.faults.broker_up("broker-b")
        stub.put(TOPIC, b"c", broker="broker-b")
        assert [row.body for row in run.read_until(1)] == [b"c"]


def test_a_namespace_is_shared_by_its_own_names() -> None:
    """With `namespace=NS` brokers see group and topics with the prefix `NS%`; rows have topics without it."""
    with StubBroker({"NS%orders": 4}) as stub:
        stub.fill("NS%orders", 8, 4)
        with quick_run(shared(stub, namespace="NS")) as run:
            assert len(run.read_until(8)) == 8
            stub.put(retry_topic(f"NS%{GROUP}"), b"again")
            assert [row.queue.topic for row in run.read_until(1)] == [retry_topic(GROUP)]
            wait_for(lambda: run.trigger() is None and mine(run) == set(ALL), "all is committed")
            assert set(stub.groups()) == {f"NS%{GROUP}"}
            assert sum(stub.offsets(f"NS%{GROUP}").values()) == 8 + 1


# --- refusals --------------------------------------------------------------------------------------------------------


def test_a_member_that_hears_nothing_gives_up(stub: StubBroker) -> None:
    """If brokers do not list the group's members, planning fails after a timeout with an error that names the group."""
    stub.faults.answer(ResponseCode.SYSTEM_ERROR, on=RequestCode.GET_CONSUMER_LIST_BY_GROUP, times=None)
    with (
        quick_run(shared(stub), rhythm=replace(QUICK, join_timeout_s=0.5)) as run,
        pytest.raises(GroupError, match=GROUP),
    ):
        run.plan()


def test_sharing_needs_pyspark_4_2(stub: StubBroker) -> None:
    """Before PySpark 4.2, `groupMembership=shared` is refused with an error that names the needed version."""
    with pytest.raises(OptionError, match=r"groupMembership = 'shared': needs PySpark 4\.2"):
        require_plain(shared(stub))
