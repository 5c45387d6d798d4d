"""How does every queue of ours keep being pulled?

Each queue has one pull in flight at most. Its command goes round in the pull loop: look whether the queue may be
pulled, ask, and when the answer has come cache its messages, tell whoever consumes, and look again. A look that finds
an obstacle comes back a moment later; the round ends only when the queue is dropped.

Offsets outside a queue's bounds, and an administrator's reset, are answered with the offset to go on from. Listeners
may still be at work on what came before, so the queue is dropped, its position corrected and frozen, and the queue
taken anew (`correct`, on the timer loop).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass

from ..broker_errors import FlowControl
from ..cluster.cluster import Cluster
from ..cluster.requests import request_fields
from ..cluster.routes import Place
from ..errors import NoBrokerAvailable, RocketMQError, Where
from ..model import Address
from ..net.deadline import Deadline
from ..net.pool import SharedPool
from ..net.threaded import ThreadedConnection
from ..pull.outcome import Outcome, PullStatus, read_outcome
from ..wire.codes import RequestCode
from ..wire.commands import PullMessageRequestHeader
from ..wire.header import Command
from .assignment import Assigned
from .clock import Clock
from .loop import Loop
from .membership import Membership
from .message import Pulled, ReceivedMessage, read_messages
from .settings import MemberSettings
from .starting import Starting
from .state import MemberState
from .statistics import Statistics
from .stores import OffsetStore

__all__ = ["PullParts", "PullService"]

SUSPEND_MS = 15_000
TIMEOUT_S = 30.0
CACHE_FULL_PAUSE_S = 0.05
FLOW_CONTROL_PAUSE_S = 0.02
PAUSED_PAUSE_S = 1.0
NOTHING_CACHED = -1

_COMMIT_FLAG, _WAIT_FLAG, _SUBSCRIPTION_FLAG = 1, 2, 4
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class PullParts:
    """What the pull service works with."""

    cluster: Cluster
    pool: SharedPool
    """Carries the pulls; the cluster's own connections, or pulls would open more."""
    settings: MemberSettings
    state: MemberState
    membership: Membership
    store: OffsetStore
    starting: Starting
    clock: Clock
    statistics: Statistics
    orderly: bool
    consume: Callable[[Assigned, Sequence[ReceivedMessage], bool], object]
    """Takes messages that were cached, and whether a consumer must be started for the queue."""
    skip: Callable[[Assigned, int], object]
    """Takes note that nothing before an offset is left to do."""
    correct: Callable[[Assigned, int], object]
    """Drops a queue, has its position corrected and the queue taken anew."""
    reconnected: Callable[[], object]
    """Told that pulls go over a new connection: the broker behind it may not know us."""


class PullService:
    """Keeps queues being pulled, in the pull loop."""

    def __init__(self, parts: PullParts, loop: Loop) -> None:
        self._parts = parts
        self._loop = loop
        self._rhythm = parts.settings.rhythm
        self._connections: dict[Address, ThreadedConnection] = {}

    def begin(self, assigned: Assigned, delay_s: float) -> None:
        """Begin to pull a queue that was taken, after a pause in which brokers may learn of it."""
        self._again(assigned, delay_s)

    def _again(self, assigned: Assigned, delay_s: float) -> None:
        self._loop.call_later(delay_s, lambda: self._look(assigned))

    # --- before the pull ---------------------------------------------------------------------------------------------

    def _look(self, assigned: Assigned) -> None:
        """Ask if nothing is against it."""
        if assigned.process_queue.dropped:
            return
        try:
            assigned.process_queue.last_pull_s = self._parts.clock.now_s()
            obstacle_s = self._obstacle(assigned)
            if obstacle_s is None:
                self._ask(assigned)
            else:
                self._again(assigned, obstacle_s)
        except RocketMQError as error:
            self._failed(assigned, error)
        except Exception:
            _log.exception("a pull of %s failed", assigned.queue)
            self._again(assigned, self._rhythm.failure_pause_s)

    def _obstacle(self, assigned: Assigned) -> float | None:
        """After how long to look again, in RocketMQ's order; none if the queue may be pulled."""
        parts, process_queue = self._parts, assigned.process_queue
        if not parts.state.is_running:
            return self._rhythm.failure_pause_s
        if parts.state.is_paused or assigned.is_paused:
            return PAUSED_PAUSE_S
        if process_queue.held_by(parts.state.limits):
            return CACHE_FULL_PAUSE_S
        if parts.orderly and not parts.settings.is_broadcasting:
            if not process_queue.locked:
                return self._rhythm.failure_pause_s
            if not assigned.started_in_order:
                assigned.next_offset = parts.starting.find(assigned.queue)
                assigned.started_in_order = True
        known = parts.membership.subscription(assigned.queue.topic) is not None
        return None if known else self._rhythm.failure_pause_s

    def _ask(self, assigned: Assigned) -> None:
        place = self._place(assigned)
        fields = self._fields(assigned, place)
        asked = assigned.next_offset
        connection = self._connect(place.address)
        future = connection.submit(RequestCode.PULL_MESSAGE, fields, b"", Deadline.after(TIMEOUT_S))
        began_s = self._parts.clock.now_s()
        future.add_done_callback(
            lambda done: self._loop.call_soon(lambda: self._take(assigned, place, asked, began_s, done))
        )

    def _connect(self, address: Address) -> ThreadedConnection:
        connection = self._parts.pool.connection(address)
        if self._connections.get(address) is not connection:
            self._connections[address] = connection
            self._parts.reconnected()
        return connection

    def _place(self, assigned: Assigned) -> Place:
        """By the routes at hand: the timer loop renews them, pulling does not wait for a name server."""
        queue = assigned.queue
        broker = self._parts.cluster.routes.known_brokers().get(queue.broker_name)
        if broker is None:
            raise NoBrokerAvailable("no route names the broker now", topic=queue.topic, broker=queue.broker_name)
        return broker.to_read(assigned.suggested_broker_id)

    # --- the request -------------------------------------------------------------------------------------------------

    def _fields(self, assigned: Assigned, place: Place) -> dict[str, str]:
        parts, queue = self._parts, assigned.queue
        subscription = parts.membership.subscriptions[queue.topic]
        own = parts.settings.post_subscription_when_pull
        committed = self._committed(assigned)
        commits = committed > 0 and place.is_master
        header = PullMessageRequestHeader(
            consumer_group=parts.membership.group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            queue_offset=assigned.next_offset,
            max_msg_nums=parts.settings.pull_batch_size,
            sys_flag=_COMMIT_FLAG * commits | _WAIT_FLAG | _SUBSCRIPTION_FLAG * own,
            commit_offset=committed,
            suspend_timeout_millis=SUSPEND_MS,
            subscription=subscription.sub_string if own else None,
            sub_version=subscription.sub_version,
            expression_type=subscription.expression_type,
        )
        return request_fields(parts.cluster.settings, header, broker_name=queue.broker_name)

    def _committed(self, assigned: Assigned) -> int:
        """Where the group stands, told along with the pull."""
        if self._parts.settings.is_broadcasting:
            return 0
        offset = self._parts.store.progress.get(assigned.queue)
        return NOTHING_CACHED if offset is None else offset

    # --- the answer --------------------------------------------------------------------------------------------------

    def _take(self, assigned: Assigned, place: Place, asked: int, began_s: float, done: Future[Command]) -> None:
        if assigned.process_queue.dropped:
            return
        try:
            outcome = read_outcome(done.result())
            assigned.suggested_broker_id = outcome.suggested_broker_id
            found = self._act(assigned, asked, outcome)
            self._parts.statistics.pulled(assigned.queue.topic, self._parts.clock.now_s() - began_s, found)
        except RocketMQError as error:
            self._failed(assigned, error.locate(**self._where(assigned, place, asked)))
        except Exception:
            _log.exception("an answer for %s was not understood", assigned.queue)
            self._again(assigned, self._rhythm.failure_pause_s)

    def _act(self, assigned: Assigned, asked: int, outcome: Outcome) -> int:
        """Do what an answer calls for; how many messages it brought."""
        if outcome.status is PullStatus.OFFSET_MOVED:
            _log.warning("%s goes on at %d instead of %d", assigned.queue, outcome.next_offset, asked)
            self._parts.correct(assigned, outcome.next_offset)
            return 0
        messages = self._read(assigned, asked, outcome) if outcome.status is PullStatus.FOUND else []
        assigned.next_offset = outcome.next_offset
        if messages:
            starts = assigned.process_queue.put(messages, outcome.max_offset)
            self._parts.consume(assigned, messages, starts)
            self._pull_on(assigned)
            return len(messages)
        if outcome.status is not PullStatus.FOUND and not assigned.process_queue.message_count:
            # With messages still to be done this would commit them unseen, too.
            self._parts.skip(assigned, outcome.next_offset)
        self._look(assigned)
        return 0

    def _pull_on(self, assigned: Assigned) -> None:
        """A pause asked for by the user comes after messages only."""
        if self._parts.settings.pull_interval_s:
            self._again(assigned, self._parts.settings.pull_interval_s)
        else:
            self._look(assigned)

    def _read(self, assigned: Assigned, asked: int, outcome: Outcome) -> list[ReceivedMessage]:
        unwrap = self._parts.cluster.settings.namespace.unwrap
        pulled = Pulled(assigned.queue, outcome.body, outcome.min_offset, outcome.max_offset, unwrap)
        messages = read_messages(pulled, asked)
        tags = self._tags(assigned)
        return [message for message in messages if message.tags in tags] if tags else messages

    def _tags(self, assigned: Assigned) -> frozenset[str]:
        """The tags to compare again: brokers compare hashes, and "Aa" and "BB" have the same."""
        subscription = self._parts.membership.subscription(assigned.queue.topic)
        return frozenset(subscription.tags_set) if subscription else frozenset()

    def _failed(self, assigned: Assigned, error: RocketMQError) -> None:
        _log.warning("a pull failed: %s", error)
        if error.refresh_routes:
            self._parts.cluster.routes.expire(assigned.queue.topic)
        pause_s = FLOW_CONTROL_PAUSE_S if isinstance(error, FlowControl) else self._rhythm.failure_pause_s
        self._again(assigned, pause_s)

    def _where(self, assigned: Assigned, place: Place, offset: int) -> Where:
        queue = assigned.queue
        return {
            "address": str(place.address),
            "topic": queue.topic,
            "broker": queue.broker_name,
            "queue_id": queue.queue_id,
            "offset": offset,
            "group": self._parts.membership.group,
        }
