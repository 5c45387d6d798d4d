"""Each rule of pulling holds: when a queue is pulled, from where, at which process, and what a pull carries."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pyspark_rocketmq.client.message import MessageBatch
from pyspark_rocketmq.client.pull_consumer import _Buffer
from pyspark_rocketmq.client.settings import Rhythm
from pyspark_rocketmq.client.stores import Progress
from pyspark_rocketmq.errors import AddressNotAllowed, ConnectionLost, NoBrokerAvailable, RequestTimeout, RocketMQError
from pyspark_rocketmq.pull.process_queue import FlowLimits
from pyspark_rocketmq.wire.bodies import build_subscription
from pyspark_rocketmq.wire.codes import ResponseCode
from tests.client.scripted_pulls import FIRST_OFFSET, ScriptedPulls
from tests.pull.scripted_queue import MASTER, REPLICA

FOUND, NO_NEW, NO_MATCH, MOVED = 0, 19, 20, 21
COMMIT_FLAG, WAIT_FLAG, SUBSCRIPTION_FLAG = 1, 2, 4
FLOW_PAUSE_S, PAUSED_PAUSE_S, FAILURE_PAUSE_S = 0.05, 1.0, 1.0


# --- the position of filtered messages -------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [NO_NEW, NO_MATCH])
def test_a_filtered_stretch_moves_the_position_only_past_an_empty_cache(code: int) -> None:
    """While a message is cached, a response without messages moves no position; afterwards it does."""
    pulls = ScriptedPulls()
    pulls.start()
    pulls.answer(FOUND, 6, [5])
    pulls.answer(code, 40)
    assert (pulls.sink.offsets, pulls.sink.skipped) == ([5], [])
    assert pulls.last.fields["queueOffset"] == "40"

    pulls.assigned.process_queue.remove([5])
    pulls.answer(code, 50)
    assert pulls.sink.skipped == [50]


def test_messages_of_other_tags_move_no_position() -> None:
    """If only the hash of the tag matches, the next pull goes on behind the messages, and no position moves."""
    pulls = ScriptedPulls()
    pulls.subscription = build_subscription("orders", "paid", sub_version=7)
    pulls.start()
    pulls.answer(FOUND, 7, [5, 6])

    assert (pulls.sink.offsets, pulls.sink.skipped) == ([], [])
    assert pulls.last.fields["queueOffset"] == "7"


def test_messages_are_cached_before_the_next_offset_passes_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """While a response is being cached, a pull consumer's first unread message is the first of that response."""
    pulls, buffer, unread = ScriptedPulls(), _Buffer(Progress(), auto_commit=True), list[int]()

    def cut(messages: MessageBatch) -> tuple[MessageBatch, ...]:
        unread.append(buffer.unread_offset(pulls.assigned))
        return (messages,)

    monkeypatch.setattr(pulls.sink, "cut", cut)
    pulls.start()
    pulls.answer(FOUND, 7, [5, 6])

    assert [*unread, buffer.unread_offset(pulls.assigned)] == [5, 5]
    assert pulls.last.fields["queueOffset"] == "7"


# --- locks -----------------------------------------------------------------------------------------------------------


def test_the_first_pull_under_a_lock_begins_at_the_groups_newest_position() -> None:
    """In order, the position is read again before the first pull, and only then: the last owner may have moved it."""
    pulls = ScriptedPulls(needs_locks=True)
    pulls.search = lambda _: 8
    pulls.start()
    assert pulls.last.fields["queueOffset"] == "8"

    pulls.answer(FOUND, 9, [8])
    assert pulls.last.fields["queueOffset"] == "9"
    assert len(pulls.searches) == 1


def test_without_locks_the_position_is_not_read_again() -> None:
    """A concurrent or broadcasting member pulls from the offset with which it took the queue."""
    pulls = ScriptedPulls()
    pulls.search = lambda _: 8
    pulls.start()

    assert pulls.last.fields["queueOffset"] == str(FIRST_OFFSET)
    assert pulls.searches == []


def test_a_position_that_is_not_reported_is_read_again_before_any_pull() -> None:
    """If the broker does not report the position, nothing is pulled, and the position is read again a second later."""
    pulls = ScriptedPulls(needs_locks=True)

    def refuse(_: object) -> int:
        raise NoBrokerAvailable("scripted")

    pulls.search = refuse
    pulls.start()
    assert pulls.sent == []

    pulls.search = lambda _: 9
    assert pulls.steps.run() == FAILURE_PAUSE_S
    assert pulls.last.fields["queueOffset"] == "9"


def test_nothing_is_pulled_without_the_lock() -> None:
    """While another client holds the lock, the queue is looked at once a second and not pulled."""
    pulls = ScriptedPulls(needs_locks=True)
    pulls.assigned.process_queue.locked = False
    pulls.start()
    assert pulls.steps.run() == FAILURE_PAUSE_S
    assert pulls.sent == [] and pulls.searches == []

    pulls.assigned.process_queue.locked = True
    assert pulls.steps.run() == FAILURE_PAUSE_S
    assert len(pulls.sent) == 1


def test_a_lost_lock_ends_the_pulls_that_follow() -> None:
    """If the lock is lost while a pull is in flight, its messages are cached, and no further pull is sent."""
    pulls = ScriptedPulls(needs_locks=True)
    pulls.start()
    pulls.assigned.process_queue.locked = False
    pulls.answer(FOUND, 6, [5])

    assert pulls.sink.offsets == [5]
    assert len(pulls.sent) == 1 and pulls.steps.run() == FAILURE_PAUSE_S


def test_a_queue_without_locks_is_pulled_unlocked() -> None:
    """A member that needs no locks pulls a queue whatever its flag says."""
    pulls = ScriptedPulls()
    pulls.assigned.process_queue.locked = False
    pulls.start()

    assert len(pulls.sent) == 1


# --- pauses before a pull --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "limits",
    [FlowLimits(message_count=1), FlowLimits(body_mib=1), FlowLimits(span=5)],
    ids=["messages", "bytes", "span"],
)
def test_a_full_cache_is_looked_at_every_50_ms(limits: FlowLimits) -> None:
    """While a limit is exceeded, the queue is checked every 50 ms; each check counts as a sign that it is pulled."""
    pulls = ScriptedPulls(limits=limits)
    pulls.put(1, 8, body_bytes=2**20)
    pulls.start()
    pulls.clock.advance(500.0)
    assert pulls.steps.run() == FLOW_PAUSE_S
    assert pulls.sent == []
    assert not pulls.assigned.process_queue.is_pull_expired(120.0)

    pulls.assigned.process_queue.remove([1])
    assert pulls.steps.run() == FLOW_PAUSE_S
    assert len(pulls.sent) == 1


def _pause_member(pulls: ScriptedPulls) -> None:
    pulls.state.pause(True)


def _pause_queue(pulls: ScriptedPulls) -> None:
    pulls.assigned.is_paused = True


def _stop_member(pulls: ScriptedPulls) -> None:
    pulls.state.is_running = False


def _unsubscribe(pulls: ScriptedPulls) -> None:
    pulls.subscription = None


@pytest.mark.parametrize(
    ("stop", "pause_s"),
    [
        (_pause_member, PAUSED_PAUSE_S),
        (_pause_queue, PAUSED_PAUSE_S),
        (_stop_member, FAILURE_PAUSE_S),
        (_unsubscribe, FAILURE_PAUSE_S),
    ],
)
@pytest.mark.parametrize("failure_pause_s", [FAILURE_PAUSE_S, 7.0])
def test_what_may_not_be_pulled_is_looked_at_every_second(stop: Any, pause_s: float, failure_pause_s: float) -> None:
    """A paused queue is checked every second; without subscription, or unless running, after the pause of failures."""
    pulls = ScriptedPulls(rhythm=replace(Rhythm(), failure_pause_s=failure_pause_s))
    stop(pulls)
    pulls.start()

    wanted_s = failure_pause_s if stop in (_stop_member, _unsubscribe) else pause_s
    assert [pulls.steps.run() for _ in range(3)] == [wanted_s] * 3
    assert pulls.sent == []


def test_a_paused_queue_is_looked_at_every_second_even_if_its_cache_is_full() -> None:
    """A pause counts before a full cache, as in the Java client."""
    pulls = ScriptedPulls(limits=FlowLimits(message_count=1))
    pulls.put(1, 2)
    pulls.state.pause(True)
    pulls.start()

    assert pulls.steps.run() == PAUSED_PAUSE_S


# --- pauses after a response -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [ConnectionLost("scripted"), RequestTimeout("scripted")], ids=["lost", "late"])
def test_a_pull_without_an_answer_is_repeated_after_a_second(error: Any) -> None:
    """If no response comes, the pull is repeated a second later, with a route that is fetched anew."""
    pulls = ScriptedPulls()
    pulls.start()
    pulls.fail(error)
    assert pulls.steps.run() == FAILURE_PAUSE_S

    assert [each.fields["queueOffset"] for each in pulls.sent] == [str(FIRST_OFFSET)] * 2
    assert pulls.expired == ["orders"] * error.refresh_routes


@pytest.mark.parametrize(
    "code",
    [ResponseCode.SYSTEM_ERROR, ResponseCode.SUBSCRIPTION_NOT_EXIST, ResponseCode.SUBSCRIPTION_NOT_LATEST],
)
def test_a_refused_pull_is_repeated_after_a_second(code: int) -> None:
    """If the broker responds with an error, the pull is repeated a second later."""
    pulls = ScriptedPulls()
    pulls.start()
    for _ in range(3):
        pulls.refuse(code)
        assert pulls.steps.run() == FAILURE_PAUSE_S
    assert len(pulls.sent) == 4


def test_a_throttled_pull_is_repeated_after_20_ms_and_then_less_often() -> None:
    """While the broker throttles, pauses double from 20 ms, at random up to half shorter; a response begins anew."""
    pulls = ScriptedPulls()
    pulls.start()
    pauses = []
    for _ in range(12):
        pulls.refuse(ResponseCode.FLOW_CONTROL)
        pauses.append(pulls.steps.run())
    wanted = [min(3.0, 0.02 * 2**attempt) for attempt in range(12)]
    assert all(most / 2 <= pause_s <= most for pause_s, most in zip(pauses, wanted, strict=True))

    pulls.answer(NO_NEW, FIRST_OFFSET)
    pulls.refuse(ResponseCode.FLOW_CONTROL)
    assert pulls.steps.run() <= 0.02


def test_the_interval_of_the_user_follows_only_messages() -> None:
    """With a pull interval, the next pull waits for it after messages, and leaves at once without any."""
    pulls = ScriptedPulls(pull_interval_s=2.5)
    pulls.start()
    pulls.answer(FOUND, 6, [5])
    assert len(pulls.sent) == 1
    assert pulls.steps.run() == 2.5

    pulls.answer(NO_MATCH, 40)
    assert [each.fields["queueOffset"] for each in pulls.sent] == ["5", "6", "40"]
    assert pulls.steps.planned == []


def test_without_an_interval_the_next_pull_leaves_at_once() -> None:
    """By default the next pull is sent before the messages of the last one are consumed."""
    pulls = ScriptedPulls()
    pulls.start()
    pulls.answer(FOUND, 6, [5])

    assert [each.fields["queueOffset"] for each in pulls.sent] == ["5", "6"]


# --- queues that were given up ---------------------------------------------------------------------------------------


def test_a_dropped_queue_is_not_pulled() -> None:
    """If a queue is given up before its pull is sent, nothing is sent and nothing planned."""
    pulls = ScriptedPulls()
    pulls.assigned.process_queue.dropped = True
    pulls.start()

    assert pulls.sent == [] and pulls.steps.planned == []


@pytest.mark.parametrize("code", [FOUND, NO_NEW, NO_MATCH, MOVED])
def test_a_response_for_a_dropped_queue_changes_nothing(code: int) -> None:
    """If a queue is given up while a pull is in flight, the response moves nothing and is not consumed."""
    pulls = ScriptedPulls()
    pulls.start()
    pulls.assigned.process_queue.dropped = True
    pulls.answer(code, 6, [5] if code == FOUND else [])

    assert (pulls.sink.offsets, pulls.sink.skipped, pulls.sink.moved) == ([], [], [])
    assert len(pulls.sent) == 1 and pulls.steps.planned == []


def test_a_rejected_offset_is_corrected_and_not_pulled_on() -> None:
    """If the broker rejects the offset, the queue is given up, and is pulled only after it was taken again."""
    pulls = ScriptedPulls()
    pulls.start()
    pulls.answer(MOVED, 3)

    assert pulls.sink.moved == [3]
    assert len(pulls.sent) == 1 and pulls.steps.planned == []


# --- what a pull carries ---------------------------------------------------------------------------------------------


def test_a_broker_may_hold_a_pull_for_15_s_and_its_client_waits_30_s() -> None:
    """A pull asks for up to 32 messages and lets the broker hold it for 15 s; it fails after 30 s."""
    pulls = ScriptedPulls()
    pulls.start()
    fields = pulls.last.fields

    assert (fields["suspendTimeoutMillis"], fields["maxMsgNums"]) == ("15000", "32")
    assert int(fields["sysFlag"]) & WAIT_FLAG
    assert pulls.last.timeout_s == 30.0


@pytest.mark.parametrize(
    ("position", "committed", "flags"),
    [
        (None, "-1", WAIT_FLAG),
        (0, "0", WAIT_FLAG),
        (1, "1", WAIT_FLAG | COMMIT_FLAG),
        (77, "77", WAIT_FLAG | COMMIT_FLAG),
    ],
)
def test_the_position_travels_with_the_pull(position: int | None, committed: str, flags: int) -> None:
    """A pull at the master commits the position if it is above 0; without a position it carries -1."""
    pulls = ScriptedPulls(position=position)
    pulls.start()

    assert (pulls.last.fields["commitOffset"], int(pulls.last.fields["sysFlag"])) == (committed, flags)


def test_a_broadcasting_member_commits_nothing_with_a_pull() -> None:
    """The pulls of a broadcasting member carry 0 and no order to commit."""
    pulls = ScriptedPulls(position=77, message_model="BROADCASTING")
    pulls.start()

    assert (pulls.last.fields["commitOffset"], int(pulls.last.fields["sysFlag"])) == ("0", WAIT_FLAG)


def test_a_replica_is_not_told_the_position() -> None:
    """A pull at a replica has no order to commit; the next one at the master has it."""
    pulls = ScriptedPulls(position=77)
    pulls.start()
    pulls.answer(NO_MATCH, 6, suggests=1)
    assert pulls.last.address == REPLICA.address
    assert int(pulls.last.fields["sysFlag"]) == WAIT_FLAG

    pulls.answer(NO_MATCH, 7, suggests=0)
    assert pulls.last.address == MASTER.address
    assert int(pulls.last.fields["sysFlag"]) == WAIT_FLAG | COMMIT_FLAG


@pytest.mark.parametrize("code", [FOUND, NO_NEW, NO_MATCH])
def test_the_suggested_process_gets_the_next_pull(code: int) -> None:
    """The next pull goes to the process that the last response suggests, whatever its status."""
    pulls = ScriptedPulls()
    pulls.start()
    assert pulls.last.address == MASTER.address
    pulls.answer(code, 6, [5] if code == FOUND else [], suggests=1)
    assert pulls.last.address == REPLICA.address
    pulls.answer(code, 7, [6] if code == FOUND else [], suggests=0)
    assert pulls.last.address == MASTER.address


def test_a_replica_that_refuses_sends_the_reader_back_to_the_master() -> None:
    """If the suggested replica serves no reads, the next pull goes to the master."""
    pulls = ScriptedPulls()
    pulls.start()
    pulls.answer(NO_MATCH, 6, suggests=1)
    pulls.refuse(ResponseCode.SYSTEM_BUSY, "[REJECTREQUEST]the broker is a slave")
    pulls.steps.run()

    assert [each.address for each in pulls.sent] == [MASTER.address, REPLICA.address, MASTER.address]
    assert pulls.expired == ["orders"]


@pytest.mark.parametrize("error", [AddressNotAllowed("scripted"), ConnectionLost("scripted")])
def test_a_replica_that_cannot_be_reached_is_left_for_the_master(error: RocketMQError) -> None:
    """If the suggested replica may not be connected to, or is gone, the next pull goes to the master after a pause."""
    pulls = ScriptedPulls()
    pulls.start()
    pulls.answer(NO_MATCH, 6, suggests=1)
    pulls.fail(error)
    assert pulls.steps.run() == FAILURE_PAUSE_S

    assert [each.address for each in pulls.sent] == [MASTER.address, REPLICA.address, MASTER.address]
    assert pulls.expired == ["orders"]


def test_a_pull_carries_the_newest_subscription() -> None:
    """After a change of the subscription, pulls carry its version, type and, if wanted, its expression."""
    pulls = ScriptedPulls(post_subscription_when_pull=True)
    pulls.start()
    assert (pulls.last.fields["subVersion"], pulls.last.fields["subscription"]) == ("7", "*")
    pulls.answer(NO_MATCH, 6)
    assert pulls.last.fields["subVersion"] == "7"

    pulls.subscription = build_subscription("orders", "a > 1", expression_type="SQL92", sub_version=8)
    pulls.answer(NO_MATCH, 7)
    fields = pulls.last.fields
    assert (fields["subVersion"], fields["subscription"], fields["expressionType"]) == ("8", "a > 1", "SQL92")
    assert int(fields["sysFlag"]) & SUBSCRIPTION_FLAG


def test_by_default_the_expression_stays_in_heartbeats() -> None:
    """Without `post_subscription_when_pull` a pull carries the version alone."""
    pulls = ScriptedPulls()
    pulls.start()

    assert "subscription" not in pulls.last.fields
    assert not int(pulls.last.fields["sysFlag"]) & SUBSCRIPTION_FLAG
