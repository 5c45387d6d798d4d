"""Ask brokers for the offsets of queues, and for the positions of groups; commit positions.

Every request is made for many queues at once and leaves in one burst per broker. If the master is gone, a replica
replies, which may lag behind the master; `QueueBounds` and `ReportedPosition` say which one replied.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple

from ..broker_errors import NoPermission, QueryNotFound, RequestCodeNotSupported
from ..errors import BrokerError, MalformedFrame, NoBrokerAvailable
from ..model import Address, MessageQueue, QueueBounds
from ..net.deadline import Deadline
from ..wire.bodies import TopicStatsTable
from ..wire.commands import (
    GetEarliestMsgStoretimeRequestHeader,
    GetEarliestMsgStoretimeResponseHeader,
    GetMaxOffsetRequestHeader,
    GetMinOffsetRequestHeader,
    GetTopicStatsInfoRequestHeader,
    OffsetResponseHeader,
    QueryConsumerOffsetRequestHeader,
    RequestHeader,
    SearchOffsetRequestHeader,
    UpdateConsumerOffsetRequestHeader,
)
from .broker import Brokers, Errors, RoutedRequest, to_queue
from .routes import MASTER_ID
from .searches import SEARCHES_EXACTLY, fetch_first_readable, find_first_since, search_first_since
from .servers import Reply

LOWER, UPPER = "LOWER", "UPPER"
"""Names of the two boundaries of a search by time (since 5.1.1).

LOWER finds the first message at or after the time, UPPER the last one at or before it.
"""

_NONE = -1
_MakeHeader = Callable[[MessageQueue], RequestHeader]


class ReportedPosition(NamedTuple):
    """A group's position in a queue, and the broker process that reports it."""

    offset: int
    place: Address
    """Address of the broker process that reports the position."""
    from_replica: bool = False
    after_silence: bool = False
    """Whether an earlier request for the position got no response, as happens while a broker restarts."""


class _TopicAtBroker(NamedTuple):
    """The queues of one topic at one broker."""

    topic: str
    broker_name: str


class Offsets:
    """Requests about offsets of queues, and about positions of groups in queues."""

    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers
        self._without_statistics: set[_TopicAtBroker] = set()
        """Topics at brokers that refused to report the bounds of all queues by one request."""

    # --- bounds ------------------------------------------------------------------------------------------------------

    def fetch_bounds(
        self,
        queues: Collection[MessageQueue],
        deadline: Deadline | None = None,
        *,
        smallest: Mapping[MessageQueue, int] | None = None,
    ) -> dict[MessageQueue, QueueBounds]:
        """Return each queue's bounds: by one request per topic and broker, or by two per queue if the broker refuses.

        After a refusal, a queue in `smallest` needs one request, because its minimum offset is taken from `smallest`.
        """
        bounds = self._fetch_statistics(queues, deadline)
        if missing := [queue for queue in queues if queue not in bounds]:
            bounds |= self._fetch_bounds_singly(missing, smallest or {}, deadline)
        return {queue: bounds[queue] for queue in queues}

    def count_requests(
        self, queues: Collection[MessageQueue], smallest: Mapping[MessageQueue, int] | None = None
    ) -> int:
        """Return how many requests `fetch_bounds` would send to the broker that gets the most of them.

        That is one per topic. But if the broker has refused statistics of a topic before, it is two per queue, or one
        if the queue's minimum offset is known from `smallest`.
        """
        counts: Counter[str] = Counter()
        for part, held in _group_queues(queues).items():
            refused = part in self._without_statistics
            counts[part.broker_name] += sum(1 if queue in (smallest or {}) else 2 for queue in held) if refused else 1
        return max(counts.values(), default=0)

    def fetch_max(self, queues: Collection[MessageQueue], deadline: Deadline | None = None) -> dict[MessageQueue, int]:
        """Return the maximum offset of each queue, which its next message gets."""
        return self._fetch_offsets(queues, _max_header, deadline)

    def fetch_min(self, queues: Collection[MessageQueue], deadline: Deadline | None = None) -> dict[MessageQueue, int]:
        """Return the minimum offset of each queue."""
        return self._fetch_offsets(queues, _min_header, deadline)

    def fetch_first_readable(
        self, group: str, bounds: Mapping[MessageQueue, tuple[int, int]], deadline: Deadline | None = None
    ) -> dict[MessageQueue, int]:
        """Return the offset of the first readable message within each queue's bounds; the end if there is none."""
        return fetch_first_readable(self._brokers, group, bounds, deadline)

    # --- times -------------------------------------------------------------------------------------------------------

    def search(
        self, times_ms: Mapping[MessageQueue, int], boundary: str = LOWER, deadline: Deadline | None = None
    ) -> dict[MessageQueue, int]:
        """Return, for each queue, the offset that the broker's own search finds for a store time (ms since 1970).

        With LOWER the broker searches for the first message at or after the time, with UPPER for the last one at or
        before it.
        """
        replies = self._search(times_ms, boundary, deadline)
        return {queue: _offset(reply, _NONE) for queue, reply in replies.items()}

    def search_masters(
        self, times_ms: Mapping[MessageQueue, int], deadline: Deadline | None = None
    ) -> dict[MessageQueue, int]:
        """Return the offset of the first message stored at or after each queue's time, else the queue's next offset.

        Leave out queues without a master, since a replica may lack messages, and those of brokers before 5.1.1, whose
        search is inexact.
        """
        replies = self._search(times_ms, LOWER, deadline)
        exact = {
            queue: _offset(reply, _NONE)
            for queue, reply in replies.items()
            if reply.command.version >= SEARCHES_EXACTLY and not _is_from_replica(reply)
        }
        return {queue: offset for queue, offset in exact.items() if offset != _NONE}

    def fetch_first_since(
        self, times_ms: Mapping[MessageQueue, int], deadline: Deadline | None = None
    ) -> dict[MessageQueue, int]:
        """Return the offset of the first message stored at or after each queue's time, else the queue's next offset."""
        replies = self._search(times_ms, LOWER, deadline)
        nearest = {queue: _offset(reply, _NONE) for queue, reply in replies.items()}
        inexact = [queue for queue, reply in replies.items() if reply.command.version < SEARCHES_EXACTLY]
        bounds = self.fetch_bounds(inexact, deadline)
        searches = {
            queue: search_first_since(
                times_ms[queue], nearest[queue], bounds[queue].min_offset, bounds[queue].max_offset
            )
            for queue in inexact
        }
        found = find_first_since(self._brokers, searches, deadline)
        self._check_ends({queue: at for queue, at in found.items() if at == bounds[queue].max_offset}, deadline)
        return nearest | found

    def fetch_earliest_times(
        self, queues: Collection[MessageQueue], deadline: Deadline | None = None
    ) -> dict[MessageQueue, int]:
        """Return the store time of each queue's first message in milliseconds; leave out queues without messages."""
        replies = self._ask_queues(queues, _earliest_header, deadline)
        times = {
            queue: reply.header(GetEarliestMsgStoretimeResponseHeader).timestamp for queue, reply in replies.items()
        }
        return {queue: time for queue, time in times.items() if time >= 0}

    # --- groups ------------------------------------------------------------------------------------------------------

    def fetch_committed(
        self,
        group: str,
        queues: Collection[MessageQueue],
        *,
        zero_if_young: bool = False,
        deadline: Deadline | None = None,
    ) -> dict[MessageQueue, int]:
        """Return the group's position in each queue in which it has committed one.

        While a queue's first message is still in the broker's memory, the broker reports 0 for a missing position. With
        `zero_if_young`, as in Java's consumers, this 0 is returned. Without, the request forbids it, but brokers before
        5.0 report it all the same.
        """
        make = _committed_header(group, None if zero_if_young else False)
        replies = self._ask_queues(queues, make, deadline, absent=(QueryNotFound,))
        self._need_masters(queues, replies, deadline)
        return {queue: _offset(reply) for queue, reply in replies.items()}

    def fetch_reported_positions(
        self, group: str, queues: Collection[MessageQueue], deadline: Deadline | None = None
    ) -> dict[MessageQueue, ReportedPosition]:
        """Return the group's positions in the queues that have one, each with the broker process that reports it."""
        make = _committed_header(group, False)
        results = self._brokers.try_all(_requests(queues, make), any_copy=True, deadline=deadline)
        failed = [queue for queue, result in results.items() if not isinstance(result, (Reply, QueryNotFound))]
        silent = {queue for queue in failed if not isinstance(results[queue], BrokerError)}
        replies = {queue: result for queue, result in results.items() if isinstance(result, Reply)}
        replies |= self._ask_queues(failed, make, deadline, absent=(QueryNotFound,))
        self._need_masters(queues, replies, deadline)
        return {queue: _standing(reply, after_silence=queue in silent) for queue, reply in replies.items()}

    def commit(self, group: str, offsets: Mapping[MessageQueue, int], deadline: Deadline | None = None) -> None:
        """Commit the group's positions, the next offset to read of each queue, at the masters.

        One queue of each topic at each broker is committed before the others. A broker creates a table for a group and
        a topic when it gets their first position. If several first positions came at once, it would create several
        tables, and the positions in all but the last one would be lost.
        """
        first = {queues[0] for queues in _group_queues(offsets).values()}
        for goes_now in (first, offsets.keys() - first):
            chosen = [queue for queue in offsets if queue in goes_now]
            requests = _requests(chosen, lambda queue: _commit_header(group, queue, offsets[queue]))
            self._brokers.ask_all(requests, deadline=deadline)

    def commit_oneway(self, group: str, offsets: Mapping[MessageQueue, int], deadline: Deadline | None = None) -> None:
        """Commit the group's positions without waiting for a response."""
        for queue, offset in offsets.items():
            self._brokers.tell(to_queue(queue, _commit_header(group, queue, offset)), deadline=deadline)

    # --- requests ----------------------------------------------------------------------------------------------------

    def _fetch_statistics(
        self, queues: Iterable[MessageQueue], deadline: Deadline | None
    ) -> dict[MessageQueue, QueueBounds]:
        """Return the bounds of queues from their topics' statistics; leave out queues without statistics."""
        wanted = _group_queues(queues)
        requests = {
            part: RoutedRequest(*part, GetTopicStatsInfoRequestHeader(topic=part.topic))
            for part in wanted
            if part not in self._without_statistics
        }
        refusals = (RequestCodeNotSupported, NoPermission)
        replies = self._brokers.ask_all(requests, absent=refusals, any_copy=True, deadline=deadline)
        self._without_statistics.update(requests.keys() - replies.keys())
        bounds: dict[MessageQueue, QueueBounds] = {}
        for part, reply in replies.items():
            table = reply.body(TopicStatsTable).offset_table
            for queue in wanted[part]:
                if offsets := table.get(self._brokers.settings.namespace.wrap_queue(queue)):
                    bounds[queue] = _bounds(offsets.min_offset, offsets.max_offset, reply)
        return bounds

    def _fetch_bounds_singly(
        self, queues: Collection[MessageQueue], smallest: Mapping[MessageQueue, int], deadline: Deadline | None
    ) -> dict[MessageQueue, QueueBounds]:
        requests = {
            (queue, make): to_queue(queue, make(queue))
            for queue in queues
            for make in ((_max_header,) if queue in smallest else (_min_header, _max_header))
        }
        replies = self._brokers.ask_all(requests, any_copy=True, deadline=deadline)
        bounds = {}
        for queue in queues:
            low, high = replies.get((queue, _min_header)), replies[queue, _max_header]
            smallest_offset = _offset(low, _NONE) if low else smallest[queue]
            bounds[queue] = _bounds(smallest_offset, _offset(high, _NONE), high)
        return bounds

    def _check_ends(self, ends: Mapping[MessageQueue, int], deadline: Deadline | None) -> None:
        """Raise `NoBrokerAvailable` if a queue now ends before its end in `ends`, fetched before a search by time.

        In that case a lagging replica took part in the search. Where it lacks messages, the search took them for
        messages stored before the time, so its result is wrong.
        """
        for queue, (_, now, _) in self.fetch_bounds(ends, deadline).items():
            if now < ends[queue]:
                raise NoBrokerAvailable(
                    f"the search by time failed: the queue ends at offset {now}, but ended at {ends[queue]} when the "
                    "search began",
                    advice="bring the master back, and try again",
                    topic=queue.topic,
                    broker=queue.broker_name,
                    queue_id=queue.queue_id,
                )

    def _search(
        self, times_ms: Mapping[MessageQueue, int], boundary: str, deadline: Deadline | None
    ) -> dict[MessageQueue, Reply]:
        def make(queue: MessageQueue) -> RequestHeader:
            return SearchOffsetRequestHeader(
                topic=queue.topic, queue_id=queue.queue_id, timestamp=times_ms[queue], boundary_type=boundary
            )

        return self._ask_queues(times_ms, make, deadline)

    def _fetch_offsets(
        self, queues: Collection[MessageQueue], make: _MakeHeader, deadline: Deadline | None
    ) -> dict[MessageQueue, int]:
        return {queue: _offset(reply, _NONE) for queue, reply in self._ask_queues(queues, make, deadline).items()}

    def _need_masters(
        self, queues: Iterable[MessageQueue], known: Collection[MessageQueue], deadline: Deadline | None
    ) -> None:
        """Raise if one of these queues is not in `known`, since no position of it was found, and has no master.

        Then a replica has replied, which may not have copied the group's position yet.
        """
        for queue in queues:
            if queue not in known:
                self._brokers.routes.route(queue.topic, deadline).broker(queue.broker_name).master()

    def _ask_queues(
        self, queues: Collection[MessageQueue], make: _MakeHeader, deadline: Deadline | None, absent: Errors = ()
    ) -> dict[MessageQueue, Reply]:
        return self._brokers.ask_all(_requests(queues, make), absent=absent, any_copy=True, deadline=deadline)


def _requests(queues: Iterable[MessageQueue], make: _MakeHeader) -> dict[MessageQueue, RoutedRequest]:
    return {queue: to_queue(queue, make(queue)) for queue in queues}


def _group_queues(queues: Iterable[MessageQueue]) -> dict[_TopicAtBroker, list[MessageQueue]]:
    parts: defaultdict[_TopicAtBroker, list[MessageQueue]] = defaultdict(list)
    for queue in queues:
        parts[_TopicAtBroker(queue.topic, queue.broker_name)].append(queue)
    return parts


def _bounds(min_offset: int, max_offset: int, reply: Reply) -> QueueBounds:
    """Check and return the bounds of a queue; brokers report -1 as the minimum if the queue never held a message."""
    for name, offset in (("minOffset", min_offset), ("maxOffset", max_offset)):
        _require_offset(name, offset, _NONE, reply)
    return QueueBounds(max(0, min_offset), max(0, max_offset), _is_from_replica(reply))


def _standing(reply: Reply, *, after_silence: bool) -> ReportedPosition:
    return ReportedPosition(_offset(reply), reply.request.address, _is_from_replica(reply), after_silence)


def _is_from_replica(reply: Reply) -> bool:
    return reply.request.broker_id != MASTER_ID


def _offset(reply: Reply, smallest: int = 0) -> int:
    """Return the offset in a reply; raise if it is below `smallest`.

    `smallest` is 0 for positions, else -1 (`_NONE`), which brokers report for a queue without messages.
    """
    offset = reply.header(OffsetResponseHeader).offset
    _require_offset("offset", offset, smallest, reply)
    return offset


def _require_offset(name: str, offset: int, smallest: int, reply: Reply) -> None:
    """Raise if the offset called `name` in a reply is below `smallest`; its upper limit was checked before."""
    if offset < smallest:
        raise MalformedFrame(f"{name} is {offset}, which is not an offset", **reply.request.where())


def _max_header(queue: MessageQueue) -> RequestHeader:
    return GetMaxOffsetRequestHeader(topic=queue.topic, queue_id=queue.queue_id)


def _min_header(queue: MessageQueue) -> RequestHeader:
    return GetMinOffsetRequestHeader(topic=queue.topic, queue_id=queue.queue_id)


def _earliest_header(queue: MessageQueue) -> RequestHeader:
    return GetEarliestMsgStoretimeRequestHeader(topic=queue.topic, queue_id=queue.queue_id)


def _committed_header(group: str, zero_if_absent: bool | None) -> _MakeHeader:
    return lambda queue: QueryConsumerOffsetRequestHeader(
        consumer_group=group,
        topic=queue.topic,
        queue_id=queue.queue_id,
        set_zero_if_not_found=zero_if_absent,
    )


def _commit_header(group: str, queue: MessageQueue, offset: int) -> RequestHeader:
    return UpdateConsumerOffsetRequestHeader(
        consumer_group=group, topic=queue.topic, queue_id=queue.queue_id, commit_offset=offset
    )
