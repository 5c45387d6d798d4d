"""Run one member of a group: join, hold its queues, keep them pulled, persist positions, leave.

`Member` makes all parts and connects them. Pulled messages go to its `Sink`: the concurrent or orderly service of a
push consumer, or the buffer of a pull consumer. `Member` starts its parts in an order in which no message arrives
before its consumer is ready, and closes them in an order in which no finished message is left uncommitted.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from ..allocation.choice import AllocationSettings, build_strategy, room_in_name
from ..allocation.strategy import AllocateStrategy
from ..cluster.cluster import Cluster
from ..cluster.links import SharedLinks
from ..cluster.settings import ClusterSettings
from ..errors import LocalProtocolError, RouteError
from ..model import MessageQueue
from ..net.pool import SharedPool
from ..pull.settings import Subscription
from .assignment import Assigned, AssignmentTable
from .clock import Clock
from .corrections import Corrections
from .locks import QueueLocks
from .loop import Loop, carry_out
from .membership import Membership, member_id
from .message import ReceivedMessage
from .pull_connections import PullConnections
from .pull_service import PullRequests, PullService, Sink
from .rebalance import QueueHandover, QueueListener, Rebalancer, Rounds, TopicAssignment
from .registry import Names, register, unregister
from .requests import MemberRequests
from .running import MemberState
from .running_info import RunningInfo
from .settings import ConsumeFrom, MemberSettings
from .statistics import Statistics
from .stores import FirstOffsets, LocalStore, OffsetStore, RemoteStore, offset_file

__all__ = ["Member"]

HALF_AN_HOUR_MS = 30 * 60 * 1000
CLOSING_S = 5.0

_log = logging.getLogger(__name__)


class Member:
    """One member of a group; or, with `run_alone`, a consumer outside the group that reads the queues given to it."""

    def __init__(
        self,
        cluster_settings: ClusterSettings,
        settings: MemberSettings,
        clock: Clock,
        make_sink: Callable[[Member], Sink],
        *,
        consume_type: str,
        orderly: bool = False,
        thread_count: int = 1,
        queue_listener: QueueListener | None = None,
    ) -> None:
        self.settings = settings
        self.clock = clock
        self.orderly = orderly
        self.client_id = member_id(settings)
        self._made_in_pid = os.getpid()
        requests = MemberRequests(self, cluster_settings.namespace, clock)
        self.pool = SharedPool(cluster_settings.net, requests.serve)
        """Connections for all requests of the member, pulls included; separate ones would double their number."""
        self.cluster = Cluster(cluster_settings, SharedLinks(self.pool))
        self.membership = Membership(self.cluster, settings, self.client_id, clock, consume_type=consume_type)
        self.table = AssignmentTable()
        self.state = MemberState(settings.limits)
        self.statistics = Statistics(clock.now_s)
        self.timer = Loop(f"timer {settings.group}", clock)
        self._heartbeats = Loop(f"heartbeats {settings.group}", clock)
        """A separate loop, so that nothing delays heartbeats: brokers expel members after two silent minutes."""
        self._pull_loop = Loop(f"pull {settings.group}", clock)
        self._queue_listener = queue_listener
        self._is_joined = False
        self.store = _make_store(settings, self.cluster, self.client_id)
        self.running_info = self._make_running_info(consume_type, thread_count)
        self._connect_parts(make_sink)

    def _connect_parts(self, make_sink: Callable[[Member], Sink]) -> None:
        settings, rhythm = self.settings, self.settings.rhythm
        self.first_offsets = _make_first_offsets(settings, self.cluster, self.store, self.clock)
        needs_locks = self.orderly and not settings.is_broadcasting
        self.locks = (
            QueueLocks(self.cluster.groups, settings.group, self.client_id, self.table, self.clock)
            if needs_locks
            else None
        )
        self.handover = QueueHandover(
            table=self.table,
            store=self.store,
            first_offsets=self.first_offsets,
            locks=self.locks,
            orderly=self.orderly,
            clock=self.clock,
            unlock_delay_s=rhythm.unlock_delay_s,
        )
        self.corrections = Corrections(
            timer=self.timer,
            table=self.table,
            progress=self.store.progress,
            handover=self.handover,
            state=self.state,
            retake=self._retake,
            reset_pause_s=rhythm.reset_pause_s,
        )
        self.sink = make_sink(self)
        self.pulls = self._make_pulls(needs_locks)
        self.rounds = Rounds(self._run_round, self.timer, self.clock, rhythm)
        self.rebalancer = Rebalancer(
            membership=self.membership,
            strategy=_make_strategy(settings),
            table=self.table,
            handover=self.handover,
            dispatch=self.pulls.begin,
            changed=self._announce,
            wake_later=self.rounds.wake_later,
            rhythm=rhythm,
        )

    def _make_pulls(self, needs_locks: bool) -> PullService:
        return PullService(
            cluster=self.cluster,
            settings=self.settings,
            subscription_of=self.membership.subscription,
            needs_locks=needs_locks,
            state=self.state,
            requests=PullRequests(self.cluster.settings, self.settings, self.store.progress),
            connections=PullConnections(self.pool, self._schedule_heartbeat),
            first_offsets=self.first_offsets,
            sink=self.sink,
            corrections=self.corrections,
            statistics=self.statistics,
            loop=self._pull_loop,
            clock=self.clock,
        )

    def _make_running_info(self, consume_type: str, thread_count: int) -> RunningInfo:
        strategy = _make_strategy(self.settings)
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
            strategy=strategy.name if strategy else None,
        )

    def __repr__(self) -> str:
        return f"<Member {self.client_id} of {self.settings.group}, {len(self.table)} queues, {self.state!r}>"

    # --- life --------------------------------------------------------------------------------------------------------

    def join(self) -> None:
        """Join the group. Raise if no name server responds, or if a broker refuses a subscription's filter."""
        self._run()
        for topic in self.settings.wanted:
            self._need_name_server(topic)
        self.membership.check_filters()
        self._is_joined = True
        self._heartbeats.start()
        self._heartbeats.repeat(0.0, self.settings.rhythm.heartbeat_s, self._send_heartbeat)
        self._heartbeats.call_soon(self.rounds.wake)  # Runs after the first heartbeat, when brokers list the member.

    def run_alone(self) -> None:
        """Start to pull and commit without joining the group; the user gives the queues with `take`."""
        self._run()

    def close(self) -> None:
        """Stop pulling, let the sink finish, persist positions, leave the group, and free the client id for another."""
        try:
            self._stop()
        finally:
            unregister(self, self._names())
            self.cluster.close()

    def _stop(self) -> None:
        was_running, self.state.is_running = self.state.is_running, False
        for loop in (self._pull_loop, self.timer, self._heartbeats):
            loop.stop(CLOSING_S)
        if was_running:
            self.sink.finish()
            self.store.persist_all(self.table.queues())
            for assigned in self.table.all():
                assigned.process_queue.dropped = True
            self.sink.hand_over()
            if self._is_joined:
                self.membership.leave()

    def _run(self) -> None:
        self._require_own_process()
        register(self, self._names())
        if isinstance(self.store, LocalStore):
            self.store.load()
        self.state.is_running = True
        self.timer.start()
        self._pull_loop.start()
        self.sink.start()
        rhythm = self.settings.rhythm
        self.timer.repeat(rhythm.first_persist_s, rhythm.persist_s, self.persist)
        self.timer.repeat(rhythm.route_s, rhythm.route_s, self.membership.refresh_routes)

    def _names(self) -> Names:
        cluster = self.cluster.settings
        path = self.store.path if isinstance(self.store, LocalStore) else None
        return Names(cluster.name_servers, cluster.namespace, self.settings.group, self.client_id, path)

    def _require_own_process(self) -> None:
        """Raise in a forked child: other processes may have a copy of this member, with the same client id."""
        if os.getpid() != self._made_in_pid:
            raise LocalProtocolError(
                f"this consumer was made in process {self._made_in_pid} and cannot start in process {os.getpid()}: "
                f"another process could run a copy with the same client id {self.client_id}",
                advice="make the consumer in the process that starts it",
                group=self.settings.group,
            )

    def _need_name_server(self, topic: str) -> None:
        """Fetch a topic's route.

        Raise if no name server responds; warn if none knows the topic, which may be created later.
        """
        try:
            self.cluster.routes.route(topic)
        except RouteError as error:
            _log.warning("%s", error)

    # --- subscriptions and queues ------------------------------------------------------------------------------------

    def subscribe(self, topic: str, wanted: Subscription) -> None:
        """Subscribe to one more topic, or change the filter of a subscribed one.

        Raise if no name server responds, or if a broker refuses the filter.
        """
        self._require_joined("subscribe")
        self._need_name_server(topic)  # The route names the topic's brokers, which get heartbeats from now on.
        self.membership.check_filter(topic, wanted)
        self.membership.subscribe(topic, wanted)
        self._schedule_heartbeat()

    def unsubscribe(self, topic: str) -> None:
        """Stop consuming a topic; its queues are given up in the next round of rebalancing."""
        self._require_joined("unsubscribe")
        self.membership.unsubscribe(topic)
        self._schedule_heartbeat()

    def _require_joined(self, what: str) -> None:
        if not (self._is_joined and self.state.is_running):
            raise LocalProtocolError(
                f"{what} needs a running consumer that has subscriptions",
                advice="give the settings a first subscription, and call this between start and close",
                group=self.settings.group,
            )

    def take(self, queue: MessageQueue, offset: int) -> None:
        """Hold a queue that the user assigns, and pull it from `offset` on."""
        assigned = Assigned(queue, offset, orderly=self.orderly, clock=self.clock.now_s)
        self.table.add(assigned)
        self.pulls.begin(assigned, 0.0)

    def _retake(self, queue: MessageQueue, offset: int) -> None:
        """Take a queue again after its position was moved: in a group by a round of rebalancing, else at once."""
        if self._is_joined:
            self.rounds.wake()
        else:
            self.take(queue, offset)

    # --- on the timer loop -------------------------------------------------------------------------------------------

    def persist(self) -> None:
        """Persist the positions of all held queues."""
        self.store.persist_all(self.table.queues())

    def _run_round(self) -> bool:
        return self.state.is_running and not self.state.is_paused and self.rebalancer.run_round()

    def _announce(self, topic: str, assignment: TopicAssignment) -> None:
        """Send a heartbeat and call the user's queue listener, because this member has taken or lost queues of a topic.

        Also divide the settings' cache limits anew by the number of held queues.
        """
        self.membership.touch(topic)  # Brokers accept only a newer version.
        settings = self.settings
        if held := len(self.table):
            self.state.limits = self.state.limits.divided(settings.topic_message_count, settings.topic_body_mib, held)
        self._heartbeats.call_soon(self.membership.heartbeat)
        if self._queue_listener:
            carry_out(partial(self._queue_listener, topic, assignment.all_queues, assignment.own_queues))

    # --- on the heartbeat loop ---------------------------------------------------------------------------------------

    def _send_heartbeat(self) -> None:
        """Warn if the group's members have different subscriptions, then send a heartbeat."""
        self.membership.check_others()
        self.membership.heartbeat()

    def _schedule_heartbeat(self) -> None:
        """Send a heartbeat soon, and then plan a round of rebalancing.

        Called when subscriptions have changed, or when a new connection shows that a broker may have been restarted.
        """
        if self._is_joined:
            self._heartbeats.call_soon(self.membership.heartbeat)
            self._heartbeats.call_soon(self.rounds.wake)

    # --- requests of brokers and administrators ----------------------------------------------------------------------

    def wake(self) -> None:
        """Plan a round of rebalancing, because members of the group may have changed."""
        if self._is_joined:
            self.rounds.wake()

    def reset(self, topic: str, offsets: Mapping[MessageQueue, int]) -> None:
        """Move the positions of a topic's queues to these offsets, as an administrator wants."""
        self.corrections.reset(topic, offsets)

    def listen_to(self, messages: Sequence[ReceivedMessage]) -> object:
        """Call the listener with the messages and return its result, or raise what it raises."""
        return self.sink.listen_to(messages)


def _make_store(settings: MemberSettings, cluster: Cluster, client_id: str) -> OffsetStore:
    if settings.is_broadcasting:
        return LocalStore(offset_file(settings.local_offset_dir, client_id, settings.group))
    return RemoteStore(cluster.offsets, settings.group)


def _make_first_offsets(settings: MemberSettings, cluster: Cluster, store: OffsetStore, clock: Clock) -> FirstOffsets:
    since_ms = settings.consume_timestamp_ms
    if since_ms is None:
        since_ms = clock.wall_ms() - HALF_AN_HOUR_MS
    return FirstOffsets(cluster.offsets, store, ConsumeFrom(settings.consume_from), since_ms)


def _make_strategy(settings: MemberSettings) -> AllocateStrategy | None:
    if settings.is_broadcasting:
        return None
    assert isinstance(settings.allocation, AllocationSettings), "settings convert a strategy's name"
    rooms = settings.consumer_rooms
    return build_strategy(settings.allocation, lambda client_id: rooms.get(client_id) or room_in_name(client_id))
