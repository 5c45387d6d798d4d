"""Test when a member asks brokers for its group's positions, and which positions it commits, with scripted brokers."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, cast

import pytest

from pyspark_rocketmq.client.assignment import Assigned
from pyspark_rocketmq.cluster.queue_offsets import Offsets, ReportedPosition
from pyspark_rocketmq.errors import ConnectError
from pyspark_rocketmq.model import Address, MessageQueue
from pyspark_rocketmq.net.backoff import Backoff
from pyspark_rocketmq.offsets.position import Positions
from pyspark_rocketmq.source.group_positions import GroupPositions
from pyspark_rocketmq.source.rhythm import PlannerRhythm
from tests.source.driving import GROUP, queue_of

FIRST, SECOND = queue_of(0), queue_of(1)
PLACE = Address("10.0.0.1", 10911)


class Clock:
    """A clock that a test moves."""

    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


class Brokers:
    """Stands for the brokers: holds the group's positions, and notes which brokers are asked and told."""

    def __init__(self) -> None:
        self.stored: dict[MessageQueue, int] = {}
        self.from_replica = self.after_silence = self.is_down = False
        self.asked: list[str] = []
        self.commits: list[dict[MessageQueue, int]] = []

    def fetch_reported_positions(
        self, group: str, queues: Collection[MessageQueue], deadline: object = None
    ) -> dict[MessageQueue, ReportedPosition]:
        """Return the stored positions of these queues."""
        self.asked += sorted({queue.broker_name for queue in queues})
        self._require_up()
        known = {queue: self.stored[queue] for queue in queues if queue in self.stored}
        return {q: ReportedPosition(at, PLACE, self.from_replica, self.after_silence) for q, at in known.items()}

    def commit(self, group: str, offsets: Mapping[MessageQueue, int], deadline: object = None) -> None:
        """Store positions."""
        self._require_up()
        self.commits.append(dict(offsets))
        self.stored |= offsets

    def _require_up(self) -> None:
        if self.is_down:
            raise ConnectError("refused")


class Facts:
    """Tells that queues begin at offset 0, and where they end."""

    def __init__(self, **ends: int) -> None:
        self._end = ends.get("end", 1000)

    def first_offsets(self, queues: Collection[MessageQueue]) -> Positions:
        """Return offset 0 for each queue."""
        return dict.fromkeys(queues, 0)

    def ends_before(self, positions: Positions) -> Positions:
        """Return the end of each queue whose position is behind it."""
        return {queue: self._end for queue, offset in positions.items() if self._end < offset}


class Member:
    """The group's positions as a member's planner uses them, with brokers and a clock that a test moves."""

    def __init__(self, *owned: MessageQueue, **rhythm: Any) -> None:
        self.clock, self.brokers, self.connection = Clock(), Brokers(), object()
        self.positions = GroupPositions(
            cast(Offsets, self.brokers),
            GROUP,
            min_interval_s=0.0,
            rhythm=PlannerRhythm(clock=self.clock, **rhythm),
            note_progress=lambda queue, offset: None,
            connection_to=lambda address: self.connection,
        )
        self.owned = {queue: Assigned(queue, 0, orderly=False, clock=self.clock) for queue in owned}

    def plan(self, known: Positions, facts: Facts | None = None) -> dict[MessageQueue, int]:
        """Fetch positions and return the starts of the next batch, as planning does, then let a minute pass."""
        self.positions.keep(self.owned)
        self.positions.fetch()
        starts = self.positions.choose_starts(self.owned, known, facts or Facts())
        self.clock.now_s += 60.0
        return starts

    def finish(self, done: Positions, rewound: Positions | None = None) -> dict[MessageQueue, int]:
        """Acknowledge `done` and commit; return what was committed. Then let a minute pass."""
        self.positions.keep(self.owned)
        self.positions.fetch(at_once=True)
        self.positions.note_done(done, rewound or {})
        before = len(self.brokers.commits)
        self.positions.commit()
        self.clock.now_s += 60.0
        return {queue: at for commit in self.brokers.commits[before:] for queue, at in commit.items()}


def times_asked(member: Member, within_s: float, step_s: float = 0.25) -> list[float]:
    """Fetch at each step of time; return the times, from now, at which brokers were asked."""
    began_s, times = member.clock.now_s, []
    member.brokers.asked.clear()
    while member.clock.now_s <= began_s + within_s:
        before = len(member.brokers.asked)
        member.positions.fetch()
        times += [member.clock.now_s - began_s] * (len(member.brokers.asked) > before)
        member.positions.commit()
        member.clock.now_s += step_s
    return times


# --- times -----------------------------------------------------------------------------------------------------------


def test_a_broker_is_asked_once_a_second() -> None:
    """A broker is asked at most once a second, or at the end of a query; in between, nothing is committed there."""
    member = Member(FIRST)
    member.plan({FIRST: 5})
    assert times_asked(member, 3.0) == [0.0, 1.0, 2.0, 3.0]

    member.positions.note_done({FIRST: 5}, {})
    member.positions.commit()
    assert member.brokers.commits == []
    member.positions.fetch(at_once=True)
    member.positions.commit()
    assert member.brokers.commits == [{FIRST: 5}]


def test_a_broker_with_many_queues_is_asked_less_often() -> None:
    """A broker with 250 of the member's queues is asked each 2.5 s, since each queue costs a request."""
    queues = [queue_of(number) for number in range(250)]
    member = Member(*queues)
    member.plan(dict.fromkeys(queues, 0))
    assert times_asked(member, 5.0) == [0.0, 2.5, 5.0]


def test_failures_are_followed_by_growing_pauses(caplog: pytest.LogCaptureFixture) -> None:
    """Each failure in a row is followed by a longer pause; after a success the interval is the usual one."""
    member = Member(FIRST, commit_backoff=Backoff(first_s=8.0, longest_s=64.0))
    member.plan({FIRST: 0})
    member.brokers.is_down = True
    first, second, third = times_asked(member, 45.0)[:3]
    assert first == 0.0 and 4.0 <= second <= 8.25 and 8.0 <= third - second <= 16.25
    assert member.positions.failure_count >= 3 and caplog.text.count("repeating later") >= 3

    member.clock.now_s += 64.0
    member.brokers.is_down = False
    assert times_asked(member, 2.0) == [0.0, 1.0, 2.0]
    member.clock.now_s += 64.0
    member.brokers.is_down = True
    assert times_asked(member, 8.25)[1] <= 8.25


def test_a_failed_commit_is_repeated_later() -> None:
    """If the broker goes away between a fetch and the commit, nothing is lost: a later commit has the same offset."""
    member = Member(FIRST)
    member.plan({FIRST: 7})
    member.positions.fetch(at_once=True)
    member.positions.note_done({FIRST: 7}, {})
    member.brokers.is_down = True
    member.positions.commit()
    assert member.positions.failure_count == 1

    member.brokers.is_down = False
    member.clock.now_s += 60.0
    member.positions.fetch()
    member.positions.commit()
    assert member.brokers.commits == [{FIRST: 7}]


# --- starts ----------------------------------------------------------------------------------------------------------


def test_gained_queues_begin_at_the_larger_position() -> None:
    """A gained queue begins at the larger of the group's position and the checkpoint's, or else at its first offset."""
    both, group_only, checkpoint_only, neither = (queue_of(number) for number in range(4))
    member = Member(both, group_only, checkpoint_only, neither)
    member.brokers.stored = {both: 30, group_only: 20}
    starts = member.plan({both: 10, checkpoint_only: 40})
    assert starts == {both: 30, group_only: 20, checkpoint_only: 40, neither: 0}

    # Later only the end of the last batch counts.
    assert member.plan({**starts, both: 31}) == {**starts, both: 31}


def test_a_queue_without_its_lock_has_no_start() -> None:
    """A gained queue is left out until it is ready."""
    member = Member(FIRST, SECOND)
    member.positions.keep(member.owned)
    assert member.positions.choose_starts([SECOND], {}, Facts()) == {SECOND: 0}
    assert member.positions.choose_starts([FIRST, SECOND], {SECOND: 4}, Facts()) == {FIRST: 0, SECOND: 4}


@pytest.mark.parametrize(("group", "checkpoint"), [(50, 20), (20, 50)])
def test_a_gained_queue_does_not_begin_beyond_its_end(
    caplog: pytest.LogCaptureFixture, group: int, checkpoint: int
) -> None:
    """If the larger position is beyond the queue's end, the queue begins at the smaller one; the log says which."""
    member = Member(FIRST)
    member.brokers.stored = {FIRST: group}
    assert member.plan({FIRST: checkpoint}, Facts(end=30)) == {FIRST: 20}
    assert ("position 50 of group" in caplog.text) == (group == 50)
    assert ("position 50 of the checkpoint" in caplog.text) == (checkpoint == 50)

    # The void position gives way to a smaller one, and only once.
    assert member.finish({FIRST: 20}) == ({FIRST: 20} if group == 50 else {})
    assert ("position 50 of group spark-orders is ahead of this query's 20" in caplog.text) == (group == 50)


@pytest.mark.parametrize("end", [19, 20])
def test_a_position_at_the_end_is_not_void(end: int) -> None:
    """If both positions lie beyond the end, neither gives way; the end itself is a good position."""
    member = Member(FIRST)
    member.brokers.stored = {FIRST: 50}
    assert member.plan({FIRST: 20}, Facts(end=end)) == {FIRST: 20 if end == 20 else 50}


# --- commits ---------------------------------------------------------------------------------------------------------


def test_a_position_is_committed_once_and_never_moved_back() -> None:
    """A larger position than the brokers' is committed, an equal or smaller one is not."""
    member = Member(FIRST, SECOND)
    member.brokers.stored = {FIRST: 10, SECOND: 10}
    member.plan({})
    assert member.plan({FIRST: 15, SECOND: 10}) == {FIRST: 15, SECOND: 10}
    assert member.finish({FIRST: 15, SECOND: 10}) == {FIRST: 15}
    assert member.finish({FIRST: 15, SECOND: 10}) == {}
    member.plan({FIRST: 9})
    assert member.finish({FIRST: 9}) == {}


def test_a_queue_that_went_back_after_a_loss_is_committed_at_its_end() -> None:
    """If a queue ends before its known position, its end is committed, though brokers have a larger position."""
    member = Member(FIRST)
    member.brokers.stored = {FIRST: 80}
    assert member.plan({FIRST: 80}) == {FIRST: 80}
    assert member.finish({FIRST: 80}, {FIRST: 60}) == {FIRST: 60}


def test_a_lost_queue_is_not_committed() -> None:
    """A queue that the member lost, even if it has it again, is not committed with work from before."""
    member = Member(FIRST, SECOND)
    member.plan({FIRST: 5, SECOND: 5})
    member.owned[SECOND] = Assigned(SECOND, 0, orderly=False, clock=member.clock)
    assert member.finish({FIRST: 5, SECOND: 5}) == {FIRST: 5}
    del member.owned[FIRST]
    member.plan({SECOND: 5})
    assert member.finish({FIRST: 6, SECOND: 5}) == {SECOND: 5}


def test_only_what_the_last_batch_began_with_is_committed() -> None:
    """An acknowledged position that is not the start of the next batch is not committed: somebody moved the group."""
    member = Member(FIRST)
    member.plan({FIRST: 5})
    assert member.finish({FIRST: 4}) == {}


# --- who moved the group ---------------------------------------------------------------------------------------------


def test_a_position_that_somebody_else_set_is_obeyed(caplog: pytest.LogCaptureFixture) -> None:
    """If brokers hold another position than the committed one, the next batch starts there, forward or back."""
    member = Member(FIRST)
    member.plan({FIRST: 50})
    member.finish({FIRST: 50})
    for moved in (20, 70):
        member.brokers.stored[FIRST] = moved
        assert member.plan({FIRST: 50}) == {FIRST: moved}
        assert f"to {moved} by somebody else" in caplog.text
        assert member.finish({FIRST: 50}) == {}


def test_a_replica_moves_nobody() -> None:
    """A position that a replica reports is older than the master's, and is not compared."""
    member = Member(FIRST)
    member.plan({FIRST: 50})
    member.finish({FIRST: 50})
    member.brokers.stored[FIRST], member.brokers.from_replica = 20, True
    assert member.plan({FIRST: 50}) == {FIRST: 50}


@pytest.mark.parametrize("sign", ["silence", "connection"])
def test_a_killed_broker_is_told_again(caplog: pytest.LogCaptureFixture, sign: str) -> None:
    """If a broker that was away reports an earlier position, the query's own is committed again."""
    member = Member(FIRST)
    member.brokers.stored = {FIRST: 5}
    member.plan({})
    member.plan({FIRST: 50})
    member.finish({FIRST: 50})
    member.brokers.stored[FIRST] = 5
    if sign == "silence":
        member.brokers.after_silence = True
    else:
        member.connection = object()
    assert member.finish({FIRST: 50}) == {FIRST: 50}
    assert "reports offset 5 for group spark-orders, expected 50; committing again" in caplog.text


def test_a_larger_position_after_silence_is_somebodys(caplog: pytest.LogCaptureFixture) -> None:
    """A position that the group never had cannot be an old one, even after silence: the query goes there."""
    member = Member(FIRST)
    member.plan({FIRST: 50})
    member.finish({FIRST: 50})
    member.brokers.stored[FIRST], member.brokers.after_silence = 51, True
    assert member.plan({FIRST: 50}) == {FIRST: 51}


def test_the_first_position_that_appears_is_somebodys() -> None:
    """If a group without a position gets one from somebody else, the query goes there, even to offset 0."""
    member = Member(FIRST)
    member.plan({FIRST: 50})
    member.brokers.stored[FIRST] = 0
    assert member.plan({FIRST: 50}) == {FIRST: 0}


def test_resets_that_brokers_pass_on_are_committed_and_obeyed() -> None:
    """A reset of an owned queue is committed, and the next batch starts there; others' resets are ignored."""
    member = Member(FIRST)
    member.plan({FIRST: 50})
    member.positions.note_resets({FIRST: 20, SECOND: 1})
    assert member.plan({FIRST: 50}) == {FIRST: 20}
    assert member.brokers.commits == [{FIRST: 20}]
    assert member.finish({FIRST: 50}) == {}
    assert member.plan({FIRST: 25}) == {FIRST: 25}
    assert member.brokers.commits == [{FIRST: 20}]
