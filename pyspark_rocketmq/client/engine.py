"""What does every member of a group do, whoever takes its messages?

A `Member` puts the parts together: it joins the group, holds its share of the queues, keeps them pulled and writes
down how far it is. What was pulled goes to its `Sink`: the concurrent or orderly service of a push consumer, or the
buffer of a pull consumer. Starting brings everything up in the order that lets no message arrive before somebody can
take it; ending goes in the order that loses nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Protocol

from ..allocation.choice import build_strategy, room_in_name
from ..allocation.strategy import AllocateStrategy
from ..cluster.cluster import Cluster
from ..cluster.links import SharedLinks
from ..cluster.settings import ClusterSettings
from ..errors import RouteError
from ..model import Address, MessageQueue
from ..net.pool import SharedPool
from ..wire.header import Command
from .assignment import Assigned, AssignmentTable
from .clock import Clock
from .corrections import Corrections
from .locks import QueueLocks
from .loop import Loop, carry_out
from .membership import Membership, member_id
from .message import MessageBatch, ReceivedMessage
from .pull_service import PullParts, PullService
from .rebalance import Division, QueueListener, RebalanceParts, Rebalancer, Rounds
from .requests import MemberRequests
from .running_info import RunningInfo
from .settings import MemberSettings
from .starting import Starting
from .state import MemberState
from .statistics import Statistics
from .stores import LocalStore, OffsetStore, RemoteStore, offset_file

__all__ = ["Member", "Sink"]

HALF_AN_HOUR_MS = 30 * 60 * 1000
CLOSING_S = 5.0

_log = logging.getLogger(__name__)


class Sink(Protocol):
    """Takes what a member has pulled."""

    def start(self) -> None:
        """Begin."""

    def finish(self) -> None:
        """Come to an end: after this nothing more becomes done."""

    def hand_over(self) -> None:
        """Let others have the queues, whose positions are written down now."""

    def cut(self, messages: MessageBatch) -> Sequence[MessageBatch]:
        """Parts of what one pull brought, each of which is done as a whole."""

    def submit(self, assigned: Assigned, batches: Sequence[MessageBatch], starts: bool) -> None:
        """Take parts that were cached, and whether a consumer must be started for the queue."""

    def skip(self, assigned: Assigned, offset: int) -> None:
        """Take note that nothing before an offset is left to do: what lies there was filtered out."""

    def listen_to(self, messages: Sequence[ReceivedMessage]) -> object:
        """What the listener answers, or raises."""


class Member:
    """One member of a group, without whoever takes its messages."""

    def __init__(
        self,
        cluster_settings: ClusterSettings,
        settings: MemberSettings,
        clock: Clock,
        *,
        consume_type: str,
        orderly: bool = False,
        thread_count: int = 1,
    ) -> None:
        self.settings = settings
        self.clock = clock
        self.orderly = orderly
        self.client_id = member_id(settings)
        self.pool = SharedPool(cluster_settings.net, self._serve)
        self.cluster = Cluster(cluster_settings, SharedLinks(self.pool))
        self.membership = Membership(self.cluster, settings, self.client_id, clock, consume_type=consume_type)
        self.table = AssignmentTable()
        self.state = MemberState(settings.limits)
        self.statistics = Statistics(clock.now_s)
        self.timer = Loop(f"timer {settings.group}", clock)
        self._pulse = Loop(f"pulse {settings.group}", clock)
        """Heartbeats wait for nothing but each other: brokers expel a member that they do not hear for two minutes."""
        self.store = self._make_store()
        self.locks = self._make_locks()
        self.starting = self._make_starting()
        self.rebalancer = Rebalancer(self._rebalance_parts(), lambda delay_s: self.rounds.wake_later(delay_s))
        self.rounds = Rounds(self._run_round, self.timer, clock, settings.rhythm)
        self.corrections = Corrections(
            self.timer, self.table, self.store, self.rebalancer, self.state, self._retake, settings.rhythm
        )
        self.running_info = self._make_info(consume_type, thread_count)
        self._requests = MemberRequests(self, cluster_settings.namespace, clock)
        self._pull_loop = Loop(f"pull {settings.group}", clock)
        self.pulls = PullService(self._pull_parts(), self._pull_loop)
        self.queue_listener: QueueListener | None = None
        """Told when our share of a topic has changed."""
        self._sink: Sink | None = None
        self._is_joined = False

    def __repr__(self) -> str:
        return f"<Member {self.client_id} of {self.settings.group}, {len(self.table)} queues, {self.state!r}>"

    @property
    def sink(self) -> Sink:
        """Who takes the messages; set before the start."""
        assert self._sink is not None, "a member needs a sink before it starts"
        return self._sink

    @sink.setter
    def sink(self, sink: Sink) -> None:
        self._sink = sink

    # --- life --------------------------------------------------------------------------------------------------------

    def join(self) -> None:
        """Become a member. Raises if no name server answers, or if a filter is refused."""
        self._run()
        try:
            for topic in self.settings.subscriptions:
                self._need_name_server(topic)
            self.membership.check_filters()
        except BaseException:
            self.close()
            raise
        self._is_joined = True
        rhythm = self.settings.rhythm
        self._pulse.start()
        self._pulse.repeat(0.0, rhythm.heartbeat_s, self._introduce)
        self._pulse.call_soon(self.rounds.wake)  # After the first heartbeat, before which no broker lists us.
        self.timer.repeat(rhythm.route_s, rhythm.route_s, self.membership.refresh_routes)

    def run_alone(self) -> None:
        """Pull and commit without being a member: the queues are given, not shared out."""
        self._run()
        self.timer.repeat(self.settings.rhythm.route_s, self.settings.rhythm.route_s, self.membership.refresh_routes)

    def close(self) -> None:
        """Stop pulling, let the sink come to an end, write down where we stand, and leave."""
        was_running, self.state.is_running = self.state.is_running, False
        for loop in (self._pull_loop, self.timer, self._pulse):
            loop.stop(CLOSING_S)
        if was_running:
            self.sink.finish()
            self.store.persist_all(self.table.queues())
            for assigned in self.table.all():
                assigned.process_queue.dropped = True
            self.sink.hand_over()
            if self._is_joined:
                self.membership.leave()
        self.cluster.close()

    def _run(self) -> None:
        if isinstance(self.store, LocalStore):
            self.store.load()
        self.state.is_running = True
        self.timer.start()
        self._pull_loop.start()
        self.sink.start()
        rhythm = self.settings.rhythm
        self.timer.repeat(rhythm.first_persist_s, rhythm.persist_s, self.persist)

    def _need_name_server(self, topic: str) -> None:
        """A topic may come later, but somebody must be there to say so."""
        try:
            self.cluster.routes.route(topic)
        except RouteError as error:
            _log.warning("%s", error)

    # --- on the timer loop -------------------------------------------------------------------------------------------

    def persist(self) -> None:
        """Write down where we stand."""
        self.store.persist_all(self.table.queues())

    def _run_round(self) -> bool:
        return self.state.is_running and not self.state.is_paused and self.rebalancer.run_round()

    def _changed(self, topic: str, division: Division) -> None:
        """Our share has changed: brokers take a newer subscription only, limits of a topic are shared out anew."""
        self.membership.touch(topic)
        self._share_limits()
        self._pulse.call_soon(self.membership.heartbeat)
        if self.queue_listener:
            carry_out(partial(self.queue_listener, topic, division.all_queues, division.share))

    def _share_limits(self) -> None:
        settings = self.settings
        if held := len(self.table):
            self.state.limits = self.state.limits.divided(settings.topic_message_count, settings.topic_body_mib, held)

    # --- on the pulse loop -------------------------------------------------------------------------------------------

    def _introduce(self) -> None:
        """Look what others have said of the group before saying it ourselves."""
        self.membership.look_around()
        self.membership.heartbeat()

    # --- what brokers and administrators ask -------------------------------------------------------------------------

    def wake(self) -> None:
        """The group may have changed."""
        if self._is_joined:
            self.rounds.wake()

    def reset(self, topic: str, offsets: Mapping[MessageQueue, int]) -> None:
        """Move to these offsets."""
        self.corrections.reset(topic, offsets)

    def listen_to(self, messages: Sequence[ReceivedMessage]) -> object:
        """What the listener answers, or raises."""
        return self.sink.listen_to(messages)

    def _serve(self, address: Address, request: Command) -> Command | None:
        return self._requests.serve(address, request)

    def _retake(self, queue: MessageQueue, offset: int) -> None:
        """Have a queue back whose position was moved: a round finds it missing; without rounds it is taken here."""
        if self._is_joined:
            self.rounds.wake()
        else:
            self.take(queue, offset)

    def take(self, queue: MessageQueue, offset: int) -> None:
        """Hold a queue that is given to us, and pull it from an offset on."""
        assigned = Assigned(queue, offset, orderly=self.orderly, clock=self.clock.now_s)
        self.table.add(assigned)
        self.pulls.begin(assigned, 0.0)

    def _reconnected(self) -> None:
        """A broker that was started again knows nobody; members may have come and gone meanwhile, too."""
        if self._is_joined:
            self._pulse.call_soon(self.membership.heartbeat)
            self.rounds.wake()

    # --- parts -------------------------------------------------------------------------------------------------------

    def _make_store(self) -> OffsetStore:
        settings = self.settings
        if settings.is_broadcasting:
            return LocalStore(offset_file(settings.local_offset_dir, self.client_id, settings.group))
        return RemoteStore(self.cluster.offsets, settings.group)

    def _make_locks(self) -> QueueLocks | None:
        if not self.orderly or self.settings.is_broadcasting:
            return None
        return QueueLocks(self.cluster.groups, self.settings.group, self.client_id, self.table, self.clock)

    def _make_starting(self) -> Starting:
        since_ms = self.settings.consume_timestamp_ms
        if since_ms is None:
            since_ms = self.clock.wall_ms() - HALF_AN_HOUR_MS
        return Starting(self.cluster.offsets, self.store, self.settings.consume_from, since_ms)

    def _make_strategy(self) -> AllocateStrategy | None:
        if self.settings.is_broadcasting:
            return None
        rooms = self.settings.consumer_rooms
        return build_strategy(
            self.settings.allocation, lambda client_id: rooms.get(client_id) or room_in_name(client_id)
        )

    def _make_info(self, consume_type: str, thread_count: int) -> RunningInfo:
        return RunningInfo(
            cluster=self.cluster.settings,
            membership=self.membership,
            table=self.table,
            store=self.store,
            statistics=self.statistics,
            clock=self.clock,
            consume_type=consume_type,
            orderly=self.orderly,
            thread_count=thread_count,
            started_ms=self.clock.wall_ms(),
        )

    def _rebalance_parts(self) -> RebalanceParts:
        return RebalanceParts(
            membership=self.membership,
            strategy=self._make_strategy(),
            table=self.table,
            store=self.store,
            starting=self.starting,
            locks=self.locks,
            orderly=self.orderly,
            clock=self.clock,
            rhythm=self.settings.rhythm,
            dispatch=lambda assigned: self.pulls.begin(assigned, self.settings.rhythm.dispatch_s),
            changed=self._changed,
        )

    def _pull_parts(self) -> PullParts:
        return PullParts(
            cluster=self.cluster,
            pool=self.pool,
            settings=self.settings,
            state=self.state,
            membership=self.membership,
            store=self.store,
            starting=self.starting,
            clock=self.clock,
            statistics=self.statistics,
            orderly=self.orderly,
            cut=lambda messages: self.sink.cut(messages),
            consume=lambda assigned, batches, starts: self.sink.submit(assigned, batches, starts),
            skip=lambda assigned, offset: self.sink.skip(assigned, offset),
            correct=self.corrections.correct,
            reconnected=self._reconnected,
        )
