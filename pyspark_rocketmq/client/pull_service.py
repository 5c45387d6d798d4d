"""Keep every held queue pulled, with at most one pull in flight for each.

For each queue these steps repeat: check whether it may be pulled now, pull, cache the messages of the response, give
them to the sink. If the queue may not be pulled now, the check is repeated later. The loop ends when the queue is
dropped.

The thread that receives a response also sends the next pull, so a broker never waits for a switch of threads. That
thread must not wait, so delayed steps and the search for a first offset run in the pull loop, a thread of its own. No
thread waits for a connection (`PullConnections`): a queue without a connection is pulled once there is one.

If the offset of a pull is outside the queue's bounds, or an administrator has reset the group, the broker responds with
another offset. Listeners may still work on earlier messages, so the queue is dropped, its position is corrected and
frozen, and the queue is taken again (`Corrections`, on the timer loop).
"""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Protocol

from ..cluster.cluster import Cluster
from ..cluster.routes import MASTER_ID, BrokerEndpoint
from ..cluster.settings import ClusterSettings
from ..errors import NoBrokerAvailable, RocketMQError, Where
from ..model import MessageQueue
from ..net.deadline import Deadline
from ..pull.backoff_budget import BackoffBudget, explain_refusal
from ..pull.port import PullOutcome, PullStatus
from ..pull.remoting import PullTemplate, read_outcome
from ..wire.bodies import SubscriptionData
from ..wire.codes import RequestCode
from ..wire.commands import PullMessageRequestHeader
from ..wire.header import Command
from .assignment import Assigned
from .clock import Clock
from .corrections import Corrections
from .loop import Loop
from .message import MessageBatch, Pulled, ReceivedMessage, read_batch
from .pull_connections import PullConnections
from .running import MemberState
from .settings import MemberSettings
from .statistics import Statistics
from .stores import FirstOffsets, Progress

__all__ = ["PullRequests", "PullService", "Sink"]

TIMEOUT_S = 30.0
CACHE_FULL_PAUSE_S = 0.05
PAUSED_PAUSE_S = 1.0
SUSPEND_MS = 15_000
NOTHING_CACHED = -1

_COMMIT_FLAG, _WAIT_FLAG, _SUBSCRIPTION_FLAG = 1, 2, 4
_CHANGING = ("queueOffset", "commitOffset", "sysFlag")
_log = logging.getLogger(__name__)


class Sink(Protocol):
    """The consumer of pulled messages: the service of a push consumer, or the buffer of a pull consumer."""

    def start(self) -> None:
        """Begin to consume."""

    def finish(self) -> None:
        """Stop consuming; messages whose consuming ends later do not count as done."""

    def hand_over(self) -> None:
        """Release the held queues for other members, after their positions were persisted."""

    def cut(self, messages: MessageBatch) -> Sequence[MessageBatch]:
        """Divide the messages of one pull into batches, each of which is consumed and counts as done as a whole."""

    def submit(self, assigned: Assigned, batches: Sequence[MessageBatch], starts: bool) -> None:
        """Consume batches that are now in the process queue; `starts` is true if no thread consumes the queue now."""

    def skip(self, assigned: Assigned, offset: int) -> None:
        """Count messages before `offset` as done that were not received, because they do not match the filter."""

    def listen_to(self, messages: Sequence[ReceivedMessage]) -> object:
        """Call the listener with the messages and return its result, or raise what it raises."""


class PullRequests:
    """Makes the header fields of one member's pulls.

    From one pull of a queue to the next only the offsets and flags change. So the other fields of a queue are kept as a
    template until the member's subscription to the topic changes. A signature covers all fields and is added last.
    """

    def __init__(self, cluster: ClusterSettings, settings: MemberSettings, progress: Progress) -> None:
        self._cluster = cluster
        self._settings = settings
        self._progress = progress
        self._flags = _WAIT_FLAG | _SUBSCRIPTION_FLAG * settings.post_subscription_when_pull
        self._is_broadcasting = settings.is_broadcasting

    def fields(self, assigned: Assigned, subscription: SubscriptionData, endpoint: BrokerEndpoint) -> dict[str, str]:
        """Return the header fields of the next pull of a queue."""
        template = assigned.pull_template
        if template is None or template[0] is not subscription:
            template = assigned.pull_template = subscription, self._make_template(assigned.queue, subscription)
        committed = self._committed(assigned.queue)
        commits = committed > 0 and endpoint.broker_id == MASTER_ID
        return template[1].fields((assigned.next_offset, committed, self._flags | _COMMIT_FLAG * commits))

    def _make_template(self, queue: MessageQueue, subscription: SubscriptionData) -> PullTemplate:
        header = PullMessageRequestHeader(
            consumer_group=self._settings.group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            queue_offset=0,
            max_msg_nums=self._settings.pull_batch_size,
            sys_flag=_WAIT_FLAG,
            commit_offset=NOTHING_CACHED,
            suspend_timeout_millis=SUSPEND_MS,
            subscription=subscription.sub_string if self._settings.post_subscription_when_pull else None,
            sub_version=subscription.sub_version,
            expression_type=subscription.expression_type,
        )
        return PullTemplate(self._cluster, header, queue.broker_name, _CHANGING)

    def _committed(self, queue: MessageQueue) -> int:
        """Return the queue's position, which the next pull carries so that the broker commits it for the group.

        Return 0 in broadcasting, and `NOTHING_CACHED` (-1) if the member knows no position of the queue.
        """
        if self._is_broadcasting:
            return 0
        offset = self._progress.get(queue)
        return NOTHING_CACHED if offset is None else offset


class PullService:
    """Pulls the queues that one member holds."""

    def __init__(
        self,
        *,
        cluster: Cluster,
        settings: MemberSettings,
        subscription_of: Callable[[str], SubscriptionData | None],
        needs_locks: bool,
        state: MemberState,
        requests: PullRequests,
        connections: PullConnections,
        first_offsets: FirstOffsets,
        sink: Sink,
        corrections: Corrections,
        statistics: Statistics,
        loop: Loop,
        clock: Clock,
    ) -> None:
        self._routes = cluster.routes
        self._unwrap = cluster.settings.namespace.unwrap
        self._group = settings.group
        self._interval_s = settings.pull_interval_s
        self._failure_pause_s = settings.rhythm.failure_pause_s
        self._subscription_of = subscription_of
        self._needs_locks = needs_locks
        self._state = state
        self._requests = requests
        self._connections = connections
        self._first_offsets = first_offsets
        self._sink = sink
        self._corrections = corrections
        self._statistics = statistics
        self._loop = loop
        self._now_s = clock.now_s

    def begin(self, assigned: Assigned, delay_s: float) -> None:
        """Begin to pull a queue after a delay."""
        self._call_later(assigned, delay_s)

    def _call_later(self, assigned: Assigned, delay_s: float) -> None:
        self._loop.call_later(delay_s, lambda: self._step(assigned))

    # --- before the pull ---------------------------------------------------------------------------------------------

    def _step(self, assigned: Assigned) -> None:
        """Pull a queue, or plan the next attempt if it may not be pulled now."""
        if assigned.process_queue.dropped:
            return
        try:
            assigned.process_queue.last_pull_s = self._now_s()
            subscription = self._subscription_of(assigned.queue.topic)
            obstacle_s = self._failure_pause_s if subscription is None else self._obstacle_s(assigned)
            if subscription is None or obstacle_s is not None:
                self._call_later(assigned, obstacle_s or 0.0)
            else:
                self._pull(assigned, subscription)
        except RocketMQError as error:
            self._retry_failed(assigned, error)
        except Exception:
            _log.exception("a pull of %s failed and is repeated", assigned.queue)
            self._call_later(assigned, self._failure_pause_s)

    def _obstacle_s(self, assigned: Assigned) -> float | None:
        """Return None if the queue may be pulled now, else the seconds until the next check.

        The checks have the order of the Java client's.
        """
        state, process_queue = self._state, assigned.process_queue
        if not state.is_running:
            return self._failure_pause_s
        if state.is_paused or assigned.is_paused:
            return PAUSED_PAUSE_S
        if process_queue.held_by(state.limits):
            return CACHE_FULL_PAUSE_S
        return self._failure_pause_s if self._needs_locks and not process_queue.locked else None

    def _pull(self, assigned: Assigned, subscription: SubscriptionData) -> None:
        endpoint = self._find_endpoint(assigned)
        connection = self._connections.find(endpoint.address)
        if connection is None:
            self._connections.open(endpoint.address, partial(self._resume_connected, assigned))
            return
        if self._needs_locks and not assigned.started_in_order:
            # The previous owner may have committed until this member got the lock, so the position is read again.
            assigned.next_offset = self._first_offsets.find(assigned.queue)
            assigned.started_in_order = True
        fields = self._requests.fields(assigned, subscription, endpoint)
        future = connection.submit(RequestCode.PULL_MESSAGE, fields, b"", Deadline.after(TIMEOUT_S))
        take = partial(self._take, assigned, subscription, endpoint, assigned.next_offset, self._now_s())
        future.add_done_callback(partial(self._take_in_turn, take))

    def _take_in_turn(self, take: Callable[[Future[Command]], None], done: Future[Command]) -> None:
        """Call `take` with the response: at once, or later by the pull loop if that is the calling thread.

        The pull loop is the caller if the response arrives while the loop is still sending the pull. Then `take` runs
        as a later command of the loop.
        """
        if threading.current_thread() is self._loop.thread:
            self._loop.call_soon(partial(take, done))
        else:
            take(done)

    def _resume_connected(self, assigned: Assigned, failure: RocketMQError | None) -> None:
        if failure:
            self._retry_failed(assigned, failure)
        else:
            self._call_later(assigned, 0.0)

    def _find_endpoint(self, assigned: Assigned) -> BrokerEndpoint:
        """Return the broker process to pull from, by the cached routes; the timer loop refreshes them."""
        queue = assigned.queue
        broker = self._routes.known_brokers().get(queue.broker_name)
        if broker is None:
            raise NoBrokerAvailable("no cached route names the broker", topic=queue.topic, broker=queue.broker_name)
        return broker.to_read(assigned.suggested_broker_id)

    # --- the response ------------------------------------------------------------------------------------------------

    def _take(
        self,
        assigned: Assigned,
        subscription: SubscriptionData,
        endpoint: BrokerEndpoint,
        offset: int,
        began_s: float,
        done: Future[Command],
    ) -> None:
        if assigned.process_queue.dropped:
            return
        try:
            outcome = read_outcome(done.result())
            assigned.backoff = None
            assigned.suggested_broker_id = outcome.suggested_broker_id
            found = self._apply(assigned, subscription, offset, outcome)
            self._statistics.pulled(assigned.queue.topic, self._now_s() - began_s, found)
        except RocketMQError as error:
            self._retry_refused(assigned, endpoint, error.locate(**self._where(assigned, endpoint, offset)))
        except Exception:
            _log.exception("a response for %s was not understood; the pull is repeated", assigned.queue)
            self._call_later(assigned, self._failure_pause_s)

    def _apply(self, assigned: Assigned, subscription: SubscriptionData, offset: int, outcome: PullOutcome) -> int:
        """Cache a response's messages and return their number.

        If the broker rejected the pulled offset, move the queue to the offset that the broker gives instead; return 0.
        """
        if outcome.status is PullStatus.OFFSET_MOVED:
            _log.warning("the broker moves %s from offset %d to %d", assigned.queue, offset, outcome.next_offset)
            self._corrections.correct(assigned, outcome.next_offset)
            return 0
        is_found = outcome.status is PullStatus.FOUND
        batch = self._read(assigned, subscription, offset, outcome) if is_found else None
        if batch:
            batches = self._sink.cut(batch)
            starts = assigned.process_queue.put(batches, outcome.max_offset)
            # Not before: a thread that finds the cache empty takes this offset for that of the first unread message.
            assigned.next_offset = outcome.next_offset
            if self._interval_s:  # Pulls without messages are not followed by the user's interval.
                self._call_later(assigned, self._interval_s)
            else:
                self._step(assigned)
            self._sink.submit(assigned, batches, starts)
            return batch.message_count
        assigned.next_offset = outcome.next_offset
        if not is_found and not assigned.process_queue.message_count:
            # While messages are cached, this would commit offsets of messages that are not done yet.
            self._sink.skip(assigned, outcome.next_offset)
        self._step(assigned)
        return 0

    def _read(
        self, assigned: Assigned, subscription: SubscriptionData, offset: int, outcome: PullOutcome
    ) -> MessageBatch | None:
        """Return a response's messages whose tags match; None if there are none.

        Brokers compare only hashes of tags, and different tags, such as "Aa" and "BB", may have the same hash. If the
        subscription changed while the pull waited at the broker, a tag of the old or of the new one is enough.
        """
        pulled = Pulled(assigned.queue, outcome.body, outcome.min_offset, outcome.max_offset, self._unwrap)
        batch, now = read_batch(pulled, offset), self._subscription_of(assigned.queue.topic) or subscription
        if batch is None or not (subscription.tags_set and now.tags_set):
            return batch
        tags = subscription.tags_set if now is subscription else {*subscription.tags_set, *now.tags_set}
        wanted = [message for message in batch if message.tags in tags]
        return MessageBatch.of(wanted) if wanted else None

    def _retry_refused(self, assigned: Assigned, endpoint: BrokerEndpoint, error: RocketMQError) -> None:
        """Pull again after a failure; while the broker throttles, after growing pauses.

        If a replica refuses the pull, the next one goes to its master.
        """
        reason = explain_refusal(error, from_master=endpoint.is_master)
        if reason is None:
            self._retry_failed(assigned, error)
            return
        if reason.refresh_routes:
            self._routes.expire(assigned.queue.topic)
            assigned.suggested_broker_id = MASTER_ID
        assigned.backoff = assigned.backoff or BackoffBudget(math.inf)
        self._call_later(assigned, assigned.backoff.next_pause_s(assigned.next_offset, reason))

    def _retry_failed(self, assigned: Assigned, error: RocketMQError) -> None:
        """Log why a pull failed, and plan to pull the queue again after a pause.

        If the error says that the route is stale, fetch the route again and pull from the master.
        """
        _log.warning("a pull failed and is repeated in %g s: %s", self._failure_pause_s, error)
        if error.refresh_routes:
            self._routes.expire(assigned.queue.topic)
            assigned.suggested_broker_id = MASTER_ID
        self._call_later(assigned, self._failure_pause_s)

    def _where(self, assigned: Assigned, endpoint: BrokerEndpoint, offset: int) -> Where:
        queue = assigned.queue
        return {
            "address": str(endpoint.address),
            "topic": queue.topic,
            "broker": queue.broker_name,
            "queue_id": queue.queue_id,
            "offset": offset,
            "group": self._group,
        }
