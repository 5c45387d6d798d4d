"""How does every queue of ours keep being pulled?

Each queue has one pull in flight at most, and goes round: look whether it may be pulled, ask, and when the answer has
come cache its messages, tell whoever consumes, and look again. A look that finds an obstacle comes back a moment later;
the round ends only when the queue is dropped.

An answer is taken by the thread that received it, which asks for more at once: the broker is kept waiting for no other
thread's turn. That thread must not wait for anything itself, so what is due later happens in the pull loop, and so does
asking where to begin, once there is a connection to ask over. Nobody waits for a connection (`PullConnections`): a
queue without one comes back when it is there.

Offsets outside a queue's bounds, and an administrator's reset, are answered with the offset to go on from. Listeners
may still be at work on what came before, so the queue is dropped, its position corrected and frozen, and the queue
taken anew (`correct`, on the timer loop).
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial

from ..cluster.cluster import Cluster
from ..cluster.routes import MASTER_ID, Place
from ..errors import NoBrokerAvailable, RocketMQError, Where
from ..net.deadline import Deadline
from ..net.pool import SharedPool
from ..pull.backoff_budget import BackoffBudget, explain_refusal
from ..pull.port import PullOutcome, PullStatus
from ..pull.remoting import read_outcome
from ..wire.codes import RequestCode
from ..wire.header import Command
from .assignment import Assigned
from .clock import Clock
from .loop import Loop
from .membership import Membership
from .message import MessageBatch, Pulled, read_batch
from .pull_connections import PullConnections
from .pull_request import PullRequests
from .settings import MemberSettings
from .starting import Starting
from .state import MemberState
from .statistics import Statistics
from .stores import OffsetStore

__all__ = ["PullParts", "PullService"]

TIMEOUT_S = 30.0
CACHE_FULL_PAUSE_S = 0.05
PAUSED_PAUSE_S = 1.0

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
    cut: Callable[[MessageBatch], Sequence[MessageBatch]]
    """Parts of what one pull brought, each of which is done as a whole."""
    consume: Callable[[Assigned, Sequence[MessageBatch], bool], object]
    """Takes parts that were cached, and whether a consumer must be started for the queue."""
    skip: Callable[[Assigned, int], object]
    """Takes note that nothing before an offset is left to do."""
    correct: Callable[[Assigned, int], object]
    """Drops a queue, has its position corrected and the queue taken anew."""
    reconnected: Callable[[], object]
    """Told that pulls go over a new connection: the broker behind it may not know us."""


class PullService:
    """Keeps queues being pulled."""

    def __init__(self, parts: PullParts, loop: Loop) -> None:
        self._parts = parts
        self._loop = loop
        self._rhythm = parts.settings.rhythm
        self._requests = PullRequests(parts.cluster, parts.settings, parts.membership, parts.store)
        self._connections = PullConnections(parts.pool, parts.reconnected)

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
        if self._needs_lock and not process_queue.locked:
            return self._rhythm.failure_pause_s
        known = parts.membership.subscription(assigned.queue.topic) is not None
        return None if known else self._rhythm.failure_pause_s

    def _ask(self, assigned: Assigned) -> None:
        place = self._place(assigned)
        connection = self._connections.find(place.address)
        if connection is None:
            self._connections.open(place.address, partial(self._opened, assigned))
            return
        self._start_in_order(assigned)
        fields = self._requests.fields(assigned, place)
        future = connection.submit(RequestCode.PULL_MESSAGE, fields, b"", Deadline.after(TIMEOUT_S))
        take = partial(self._take, assigned, place, assigned.next_offset, self._parts.clock.now_s())
        future.add_done_callback(partial(self._answered, take))

    def _answered(self, take: Callable[[Future[Command]], None], done: Future[Command]) -> None:
        """An answer that is there already when the loop has asked waits for its turn: it must not ask within asking."""
        if self._loop.is_current:
            self._loop.call_soon(partial(take, done))
        else:
            take(done)

    def _opened(self, assigned: Assigned, failure: RocketMQError | None) -> None:
        if failure:
            self._failed(assigned, failure)
        else:
            self._again(assigned, 0.0)

    @property
    def _needs_lock(self) -> bool:
        return self._parts.orderly and not self._parts.settings.is_broadcasting

    def _start_in_order(self, assigned: Assigned) -> None:
        """Under the lock the first pull asks again where to begin: the last owner may have gone on until then."""
        if self._needs_lock and not assigned.started_in_order:
            assigned.next_offset = self._parts.starting.find(assigned.queue)
            assigned.started_in_order = True

    def _place(self, assigned: Assigned) -> Place:
        """By the routes at hand: the timer loop renews them, pulling does not wait for a name server."""
        queue = assigned.queue
        broker = self._parts.cluster.routes.known_brokers().get(queue.broker_name)
        if broker is None:
            raise NoBrokerAvailable("no route names the broker now", topic=queue.topic, broker=queue.broker_name)
        return broker.to_read(assigned.suggested_broker_id)

    # --- the answer --------------------------------------------------------------------------------------------------

    def _take(self, assigned: Assigned, place: Place, asked: int, began_s: float, done: Future[Command]) -> None:
        if assigned.process_queue.dropped:
            return
        try:
            outcome = read_outcome(done.result())
            assigned.patience = None
            assigned.suggested_broker_id = outcome.suggested_broker_id
            found = self._act(assigned, asked, outcome)
            self._parts.statistics.pulled(assigned.queue.topic, self._parts.clock.now_s() - began_s, found)
        except RocketMQError as error:
            self._refused(assigned, place, error.locate(**self._where(assigned, place, asked)))
        except Exception:
            _log.exception("an answer for %s was not understood", assigned.queue)
            self._again(assigned, self._rhythm.failure_pause_s)

    def _act(self, assigned: Assigned, asked: int, outcome: PullOutcome) -> int:
        """Do what an answer calls for; how many messages it brought."""
        if outcome.status is PullStatus.OFFSET_MOVED:
            _log.warning("%s goes on at %d instead of %d", assigned.queue, outcome.next_offset, asked)
            self._parts.correct(assigned, outcome.next_offset)
            return 0
        batch = self._read(assigned, asked, outcome) if outcome.status is PullStatus.FOUND else None
        assigned.next_offset = outcome.next_offset
        if batch:
            batches = self._parts.cut(batch)
            starts = assigned.process_queue.put(batches, outcome.max_offset)
            self._pull_on(assigned)
            self._parts.consume(assigned, batches, starts)
            return len(batch)
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

    def _read(self, assigned: Assigned, asked: int, outcome: PullOutcome) -> MessageBatch | None:
        unwrap = self._parts.cluster.settings.namespace.unwrap
        pulled = Pulled(assigned.queue, outcome.body, outcome.min_offset, outcome.max_offset, unwrap)
        batch, tags = read_batch(pulled, asked), self._tags(assigned)
        if batch is None or not tags:
            return batch
        wanted = [message for message in batch if message.tags in tags]
        return MessageBatch.of(wanted) if wanted else None

    def _tags(self, assigned: Assigned) -> frozenset[str]:
        """The tags to compare again: brokers compare hashes, and "Aa" and "BB" have the same."""
        subscription = self._parts.membership.subscription(assigned.queue.topic)
        return frozenset(subscription.tags_set) if subscription else frozenset()

    def _refused(self, assigned: Assigned, place: Place, error: RocketMQError) -> None:
        """A broker that only puts us off is asked again after pauses that grow; a replica is left for its master."""
        reason = explain_refusal(error, from_master=place.is_master)
        if reason is None:
            self._failed(assigned, error)
            return
        if reason.refresh_routes:
            self._parts.cluster.routes.expire(assigned.queue.topic)
            assigned.suggested_broker_id = MASTER_ID
        assigned.patience = assigned.patience or BackoffBudget(math.inf)
        self._again(assigned, assigned.patience.next_pause_s(assigned.next_offset, reason))

    def _failed(self, assigned: Assigned, error: RocketMQError) -> None:
        _log.warning("a pull failed: %s", error)
        if error.refresh_routes:
            self._parts.cluster.routes.expire(assigned.queue.topic)
        self._again(assigned, self._rhythm.failure_pause_s)

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
