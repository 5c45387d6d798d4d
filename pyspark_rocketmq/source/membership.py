"""Take part in a group as one of its members, and know which queues are assigned to this query.

This member acts as RocketMQ's consumers do: it sends heartbeats, rebalances at intervals and whenever a broker reports
a change of members, and assigns each topic's queues by the same strategy as every other member. It neither pulls nor
commits: the planner decides what is read and committed, each time Spark calls it.

Rebalancing has a thread of its own; the planning thread reads its result. Heartbeats have another thread, because
brokers remove a member without heartbeats after two minutes, and rebalancing waits for seconds for each topic whose
brokers do not answer. Before a periodic heartbeat the member compares its subscriptions with those of its group.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..allocation.choice import build_strategy
from ..allocation.strategy import AllocateStrategy, Members, Queues
from ..client.assignment import Assigned, AssignmentTable
from ..client.clock import Clock, SystemClock
from ..client.loop import Loop
from ..client.membership import PUSH, Membership, member_id
from ..client.message import ReceivedMessage
from ..client.rebalance import Rounds, assign_topic
from ..client.requests import MemberRequests
from ..client.running_info import RunningInfo
from ..client.settings import ConsumeFrom, MemberSettings, Rhythm
from ..client.statistics import Statistics
from ..client.stores import RemoteStore
from ..cluster.cluster import Cluster
from ..cluster.links import SharedLinks
from ..errors import GroupError, LocalProtocolError, RocketMQError, shown
from ..model import Address, MessageQueue
from ..net.pool import SharedPool
from ..offsets.requested import Keyword
from ..options.reader_options import ReaderOptions, ShareSettings
from ..planning.listed_queues import ListedQueues
from ..wire.header import Command
from .rhythm import PlannerRhythm
from .strategy_check import StrategyCheck

__all__ = ["QueryMember"]

_CLOSING_S = 1.0
_LEAST_ROUTE_S, _MOST_ROUTE_S = 1.0, 86_400.0
_log = logging.getLogger(__name__)


class QueryMember:
    """A query's membership in its group. Called by the planning thread, and by threads that serve brokers' requests."""

    def __init__(self, options: ReaderOptions, share: ShareSettings, rhythm: PlannerRhythm) -> None:
        self._clock: Clock = SystemClock()
        self._rhythm = rhythm
        self._settings = _member_settings(options, share)
        self.client_id = member_id(self._settings)
        self._pool = SharedPool(options.cluster.net, self._serve)
        self.cluster = Cluster(options.cluster, SharedLinks(self._pool))
        self._membership = Membership(self.cluster, self._settings, self.client_id, self._clock, consume_type=PUSH)
        self._strategy = _make_strategy(share)
        self._first_strategy = self._strategy if share.own_list else _Listed(self._strategy)
        """The strategy for the first assignment of each topic."""
        self._table = AssignmentTable()
        self._members: Sequence[str] = ()
        """The client ids of the group's members as last listed."""
        self._since_s: dict[MessageQueue, float] = {}
        self._unknown_topics = set(options.selection.topics)
        """Topics whose assignment is not known yet."""
        self._has_assignment = threading.Event()
        self._last_error: RocketMQError | None = None
        self._reset_lock = threading.Lock()
        self._resets: dict[MessageQueue, int] = {}
        self._timer = Loop(f"member {self._settings.group}", self._clock)
        self._heartbeats = Loop(f"heartbeats {self._settings.group}", self._clock)
        self._rounds = Rounds(self._run_round, self._timer, self._clock, self._settings.rhythm)
        self._strategies = StrategyCheck(self.cluster, self._settings.group, self.client_id, self._strategy.name)
        self._store = RemoteStore(self.cluster.offsets, self._settings.group)
        self.running_info = self._make_info()
        """The facts about this member that administrators may ask for."""
        self._requests = MemberRequests(self, options.cluster.namespace, self._clock)
        self._is_joined = False

    def __repr__(self) -> str:
        return f"<QueryMember {self.client_id} of {self._settings.group}, {len(self._table)} queues>"

    # --- life --------------------------------------------------------------------------------------------------------

    def join(self) -> None:
        """Start to send heartbeats and to rebalance; do not wait for an assignment."""
        self._is_joined = True
        rhythm = self._settings.rhythm
        self._timer.repeat(0.0, rhythm.route_s, self._membership.refresh_routes)
        self._timer.start()
        self._heartbeats.repeat(0.0, rhythm.heartbeat_s, self._send_heartbeat)
        self._heartbeats.call_soon(self._rounds.wake)  # After the first heartbeat: then brokers list this member.
        self._heartbeats.start()

    def wait(self) -> None:
        """Wait until the queues of every topic are assigned; raise `GroupError` after `join_timeout_s`."""
        if not self._has_assignment.wait(self._rhythm.join_timeout_s):
            topics, waited_s = ", ".join(sorted(self._unknown_topics)), self._rhythm.join_timeout_s
            raise GroupError(
                f"this member has no assignment of {topics} after {waited_s:g} s",
                advice="look at the warnings before this: brokers must be reachable, and allow the group",
                group=self._settings.group,
            ) from self._last_error
        time.sleep(self._rhythm.settle_s)

    def close(self) -> None:
        """Leave the group and close all connections."""
        for loop in (self._timer, self._heartbeats):
            loop.stop(_CLOSING_S)
        if self._is_joined:
            self._membership.leave()
        self.cluster.close()

    def _send_heartbeat(self) -> None:
        """Warn if the group's members have different subscriptions, then send a heartbeat."""
        self._membership.check_others()
        self._membership.heartbeat()

    # --- for the planning thread -------------------------------------------------------------------------------------

    def owned(self) -> dict[MessageQueue, Assigned]:
        """Return the assigned queues with their assignments.

        Leave out queues gained less than `settle_s` ago, so that their last owners can commit first.
        """
        before_s = self._clock.now_s() - self._rhythm.settle_s
        since_s = self._since_s
        return {each.queue: each for each in self._table.all() if since_s.get(each.queue, before_s + 1) <= before_s}

    def take_resets(self) -> dict[MessageQueue, int]:
        """Return and forget the offsets to which an administrator reset this member, as brokers have passed them on."""
        with self._reset_lock:
            resets, self._resets = self._resets, {}
            return resets

    def note_progress(self, queue: MessageQueue, offset: int) -> None:
        """Note the group's position in an owned queue, for administrators who ask for it."""
        self._store.progress.update(queue, offset, only_forward=False)

    def connection_to(self, address: Address) -> object | None:
        """Return the member's single connection to the broker process at an address; None if none works."""
        return self._pool.find(address)

    # --- for brokers and administrators ------------------------------------------------------------------------------

    def wake(self) -> None:
        """Rebalance soon, because the members of the group may have changed."""
        self._rounds.wake()

    def reset(self, topic: str, offsets: Mapping[MessageQueue, int]) -> None:
        """Note an administrator's reset, so that the next batch starts at these offsets."""
        _log.warning("an administrator resets %d queues of %s; the next batch starts there", len(offsets), shown(topic))
        with self._reset_lock:
            self._resets |= offsets

    def listen_to(self, messages: Sequence[ReceivedMessage]) -> object:
        """Raise `LocalProtocolError`, because a query has no listener that could get messages."""
        raise LocalProtocolError("a Spark query has no listener", advice="ask a push consumer of the group")

    def _serve(self, address: Address, request: Command) -> Command | None:
        return self._requests.serve(address, request)

    # --- rebalancing, in the timer's thread ---------------------------------------------------------------------------

    def _run_round(self) -> bool:
        outcomes = [self._rebalance(topic) for topic in self._membership.subscriptions]
        if self._unknown_topics:
            self._heartbeats.call_soon(self._membership.heartbeat)  # The first one may be lost.
        else:
            self._strategies.ask_one(self._members)
        return all(outcomes)

    def _rebalance(self, topic: str) -> bool:
        """Rebalance one topic; return whether the next round may wait for the usual interval.

        A failure is logged, and the topic keeps its assignment.
        """
        try:
            assignment = assign_topic(topic, self._membership, self._strategy_for(topic))
        except RocketMQError as error:
            _log.warning("could not rebalance %s, keeping its queues: %s", topic, error)
            self._last_error = error
            return False
        if assignment is None:
            return topic not in self._unknown_topics
        self._members = assignment.members
        if self._take_assignment(topic, set(assignment.own_queues)):
            self._membership.touch(topic)
            self._heartbeats.call_soon(self._membership.heartbeat)
        self._unknown_topics.discard(topic)
        if not self._unknown_topics:
            self._has_assignment.set()
        return True

    def _strategy_for(self, topic: str) -> AllocateStrategy:
        return self._first_strategy if topic in self._unknown_topics else self._strategy

    def _take_assignment(self, topic: str, assigned: set[MessageQueue]) -> bool:
        """Replace a topic's queues in the assignment table, and return whether they changed."""
        held = {each.queue: each for each in self._table.all(topic)}
        lost, gained = held.keys() - assigned, assigned - held.keys()
        for queue in lost:
            held[queue].process_queue.dropped = True
            self._table.remove(held[queue])
            self._store.progress.forget(queue)
        for queue in gained:
            self._since_s[queue] = self._clock.now_s()
            self._table.add(Assigned(queue, 0, orderly=False, clock=self._clock.now_s))
        if lost or gained:
            _log.info("%s: %d queues lost, %d gained, %d assigned", topic, len(lost), len(gained), len(assigned))
        return bool(lost or gained)

    def _make_info(self) -> RunningInfo:
        return RunningInfo(
            cluster=self.cluster.settings,
            membership=self._membership,
            table=self._table,
            store=self._store,
            statistics=Statistics(self._clock.now_s),
            clock=self._clock,
            consume_type=PUSH,
            orderly=False,
            thread_count=1,
            started_ms=self._clock.wall_ms(),
            strategy=self._strategy.name,
        )


@dataclass(frozen=True, slots=True)
class _OwnList:
    """The strategy CONFIG: a member owns the queues that its user listed; `*` stands for all queues in the route."""

    listed: ListedQueues
    name: str = "CONFIG"

    def allocate(self, current: str, queues: Queues, members: Members) -> list[MessageQueue]:
        """Return those of `queues` that the user's list names, whichever members there are."""
        return self.listed.select(queues)

    def allocate_all(self, queues: Queues, members: Members) -> list[list[MessageQueue]]:
        """Return this member's listed queues, once for each of `members`: it does not know the lists of the others."""
        return [self.listed.select(queues) for _ in members]


@dataclass(frozen=True, slots=True)
class _Listed:
    """Wraps an allocation strategy until a topic is first assigned: raises while brokers do not list this member."""

    strategy: AllocateStrategy

    @property
    def name(self) -> str:
        """The name of the allocation strategy that this object wraps."""
        return self.strategy.name

    def allocate(self, current: str, queues: Queues, members: Members) -> list[MessageQueue]:
        """Return the queues of member `current`; raise `GroupError` if it is not among `members`."""
        if current not in members:
            what = f"brokers do not list {current} among the {len(members)} members"
            raise GroupError(what, advice="look whether they refuse heartbeats of this client")
        return self.strategy.allocate(current, queues, members)

    def allocate_all(self, queues: Queues, members: Members) -> list[list[MessageQueue]]:
        """Return the queues that the wrapped strategy gives to each member, in the order of `members`."""
        return self.strategy.allocate_all(queues, members)


def _make_strategy(share: ShareSettings) -> AllocateStrategy:
    if share.own_list:
        return _OwnList(share.own_list)
    return build_strategy(share.allocation, lambda client_id: _room_of(client_id, share.rooms))


def _room_of(client_id: str, rooms: Mapping[str, str]) -> str | None:
    """Return the machine room of a member; None if no pattern matches its client id.

    `rooms` gives a machine room for each pattern of client ids, the first match decides; `*` stands for any text.
    """
    parts = {pattern: map(re.escape, pattern.split("*")) for pattern in rooms}
    return next((rooms[each] for each, fixed in parts.items() if re.fullmatch(".*".join(fixed), client_id)), None)


def _member_settings(options: ReaderOptions, share: ShareSettings) -> MemberSettings:
    begins_last = options.start.default is Keyword.LATEST
    return MemberSettings(
        group=options.pull.group,
        subscriptions=dict.fromkeys(options.selection.topics, options.pull.subscription),
        consume_from=ConsumeFrom.LAST_OFFSET if begins_last else ConsumeFrom.FIRST_OFFSET,
        instance_name=options.client.instance_name,
        unit_name=options.client.unit_name,
        rhythm=Rhythm(
            heartbeat_s=share.heartbeat_s,
            rebalance_s=share.rebalance_s,
            route_s=min(_MOST_ROUTE_S, max(_LEAST_ROUTE_S, options.cluster.route_max_age_s)),
        ),
    )
