"""Decide which send may go now, to which queue, and after which pause.

A `Schedule` knows neither sockets nor clocks: every method that needs the time gets it. A send that names its queue
waits at the queue's broker; any other waits at its topic, until a broker of the topic has room. Three rules keep
brokers from holding up each other:

    shares      Each broker has an equal share of the requests in flight, and a limit of bytes of its own.
    pauses      A broker that is busy, silent or out of reach pauses, longer each time; then it gets a single request,
                and more only after that one was stored. Sends that name no queue go to other brokers meanwhile.
    retries     A failed send without a queue is tried at another broker, others are tried again after a pause. A broker
                that refused a send for good does not get it again.

With `keeps_order`, the sends of one queue form a lane. Only the first of a lane may go, and it stays first until it has
ended, so a queue never stores two sends of a lane in another order than they were added. A send that names no queue
joins the lane of the queue whose turn it is. The lane of a send that has failed is closed: those behind it end, and
later ones are refused.

Every send ends at its deadline. If it is in flight then, it still counts as such until its attempt ends.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import count
from random import Random
from typing import TypeVar

from ..errors import NoBrokerAvailable, RequestTimeout, RocketMQError
from ..model import MessageQueue, SendRequest
from ..net.backoff import Backoff
from .failures import NextStep, earlier_send_failed_error, stopped_error
from .settings import SendSettings

__all__ = ["MOST_HELD_BYTES", "BrokerState", "ListQueues", "QueuedSend", "Schedule"]

ListQueues = Callable[[str], Sequence[MessageQueue]]
"""A function that returns the queues to which messages of a topic may be sent."""

MOST_HELD_BYTES = 32 * 2**20
"""Bytes of all sends that have not ended, in flight or waiting, at which no more are taken."""
_SEND_BYTES = 1024
"""The memory that a send takes besides its body, as `MOST_HELD_BYTES` counts it."""
_MOST_ENDED = 1024
"""The number of sends that are remembered after they have ended, besides as many as have not ended."""
_BROKER_PAUSE = Backoff(first_s=0.02, longest_s=3.0)
_SEND_PAUSE = Backoff(first_s=0.1, longest_s=3.0)
_REST_PER_COST = 4.0
"""The least pause of a broker, as a multiple of the time that the failed attempt to connect took.

So an unreachable broker takes at most a fifth of the time.
"""
_random = Random()
T = TypeVar("T")


class BrokerState:
    """A broker, as far as sends to it are concerned."""

    __slots__ = (
        "bytes_in_flight",
        "epoch",
        "error",
        "in_flight",
        "name",
        "pause_count",
        "paused_until",
        "ready",
        "room",
    )

    def __init__(self, name: str) -> None:
        self.name = name
        self.in_flight = 0
        self.bytes_in_flight = 0
        self.ready: deque[QueuedSend] = deque()
        """The sends that wait for room at this broker."""
        self.room = 0
        """The number of sends that may go now."""
        self.paused_until = -math.inf
        self.pause_count = 0
        """The number of pauses since the broker last stored a send that went out after the last pause."""
        self.error: RocketMQError | None = None
        """The reason for the last pause."""
        self.epoch = 0
        """The number of all pauses: attempts of an earlier epoch say nothing about the broker's present state."""

    def __repr__(self) -> str:
        return f"<BrokerState {self.name} {self.in_flight} in flight, {len(self.ready)} ready>"

    def update_room(self, now: float, share: int) -> None:
        """Compute how many sends may go now, if at most `share` may be in flight.

        After a pause, only one may be in flight until the broker has stored it. None may go while less than a quarter
        of the share is free.
        """
        most = 1 if self.pause_count else share
        room = most - self.in_flight
        self.room = room if now >= self.paused_until and room * 4 >= most else 0

    def fits(self, size: int, most_bytes: int) -> bool:
        """Return whether a send of this size may go now, if at most `most_bytes` may be in flight."""
        return self.room > 0 and (not self.in_flight or self.bytes_in_flight + size <= most_bytes)


class QueuedSend:
    """A request on its way: the queue of its present or last attempt, and what became of earlier attempts.

    Most sends have one attempt, so the values of a new send are attributes of the class.
    """

    attempts = 0
    failures = 0
    """The number of attempts that count as failed."""
    delays = 0
    """The number of times when there was no way to its queue."""
    epoch = 0
    """The `epoch` of its broker when the last attempt began."""
    avoided: BrokerState | None = None
    """The broker of the last failed attempt, at which an unbound send is not tried again if there are others."""
    refused_by: tuple[BrokerState, ...] = ()
    """The brokers at which it must not be tried again."""
    error: RocketMQError | None = None
    """The reason why the last attempt failed, or why there was none."""
    is_unknown = False
    """Whether an attempt may have stored the request although it failed."""
    is_in_flight = False
    has_ended = False
    is_old = False
    """Whether many later sends have ended before this one."""
    holds_lane = False
    """Whether it is the first one in the lane of its queue."""

    def __init__(self, request: SendRequest, properties: bytes, due_at: float) -> None:
        self.request = request
        self.queue = request.queue
        self.is_bound = request.queue is not None
        """Whether each attempt must go to `queue`."""
        self.properties = properties
        """The properties as they are sent."""
        self.size = len(request.body) + len(properties)
        self.due_at = due_at

    def __repr__(self) -> str:
        return f"<QueuedSend to {self.queue or self.request.topic}, {self.attempts} attempts>"


class _TopicState:
    """The queues of a topic, in turn, and its sends that may go to any of them."""

    def __init__(self, source: Sequence[MessageQueue], brokers: dict[str, BrokerState], start: int) -> None:
        self.source = source
        self.brokers = tuple(brokers.values())
        self.ready: deque[QueuedSend] = deque()
        self._places = [(queue, brokers[queue.broker_name]) for queue in _interleave(source)]
        self._next = start

    def next_with_room(
        self, size: int, most_bytes: int, avoided: Sequence[BrokerState]
    ) -> tuple[MessageQueue, BrokerState] | None:
        """Return the next queue in turn whose broker has room for a send of this size and is not avoided, and that one.

        Return None if there is no such queue.
        """
        for _ in self._places:
            place = self._next_place()
            if place[1] not in avoided and place[1].fits(size, most_bytes):
                return place
        return None

    def _next_place(self) -> tuple[MessageQueue, BrokerState]:
        """Return the next queue in turn, and its broker."""
        self._next = (self._next + 1) % len(self._places)
        return self._places[self._next]

    def next_open_queue(self, now: float) -> MessageQueue:
        """Return the next queue in turn whose broker does not pause; if all brokers pause, the next one in turn."""
        for _ in self._places:
            queue, broker = self._next_place()
            if broker.paused_until <= now:
                return queue
        return self._next_place()[0]

    def has_other(self, send: QueuedSend) -> bool:
        """Return whether the topic has a broker that has not refused the send."""
        return any(broker not in send.refused_by for broker in self.brokers)

    def avoided(self, send: QueuedSend, now: float) -> tuple[BrokerState, ...]:
        """Return the brokers to which a failed send must not go now.

        These are those that refused it; and the one at which it failed last, if another one does not pause.
        """
        if not self.has_other(send):
            return ()
        others = [broker for broker in self.brokers if broker not in (*send.refused_by, send.avoided)]
        if send.avoided and any(broker.paused_until <= now for broker in others):
            return *send.refused_by, send.avoided
        return send.refused_by


class Schedule:
    """All sends of one pipeline that have not ended."""

    def __init__(
        self, settings: SendSettings, queues: ListQueues, choose_start: Callable[[int], int] = _random.randrange
    ) -> None:
        self._settings = settings
        self._queues = queues
        self._choose_start = choose_start
        """Returns a number below its argument: which of a topic's queues gets the first send."""
        self._brokers: dict[str, BrokerState] = {}
        self._topics: dict[str, _TopicState] = {}
        self._lanes: dict[MessageQueue, deque[QueuedSend]] = {}
        """With `keeps_order`: the sends of each queue that has any; some behind the first one may have ended."""
        self._closed: set[MessageQueue] = set()
        """With `keeps_order`: the queues that get nothing more, because a send to them has failed."""
        self._delayed: list[tuple[float, int, QueuedSend]] = []
        """A heap of (time, number, send): the sends that wait for a time."""
        self._numbers = count()
        self._live: deque[QueuedSend] = deque()
        """The sends in the order of their deadlines; some of them may have ended."""
        self._held_bytes = 0
        self._turn = 0
        """The number of calls of `take`; each begins with another broker and another topic."""
        self.in_flight = 0
        self.count = 0
        """The number of sends that have not ended."""
        self.retries = self.pauses = 0
        self._is_stopped = False

    def __repr__(self) -> str:
        return f"<Schedule {self.count} sends, {self.in_flight} in flight, {len(self._brokers)} brokers>"

    @property
    def is_full(self) -> bool:
        """Whether no more sends may be added now."""
        return self._held_bytes >= MOST_HELD_BYTES

    @property
    def share(self) -> int:
        """The most sends in flight to one broker."""
        return max(1, self._settings.max_in_flight // max(1, len(self._brokers)))

    # --- adding ------------------------------------------------------------------------------------------------------

    def add(self, request: SendRequest, properties: bytes, now: float) -> QueuedSend:
        """Add a request, with its properties as they are sent.

        Raise the error of `queues` if the request names no queue and those of its topic are not known. Raise
        `LocalProtocolError` after `stop`, and if the lane of its queue is closed.
        """
        if self._is_stopped:
            raise stopped_error()
        send = QueuedSend(request, properties, now + self._settings.deadline_s)
        if not send.is_bound:
            topic = self._topic(request.topic)
            if not self._settings.keeps_order:
                topic.ready.append(send)
            else:
                send.queue, send.is_bound = topic.next_open_queue(now), True
        if send.is_bound:
            self._join(send)
        if len(self._live) > _MOST_ENDED + 2 * self.count:
            self._forget_ended()
        self._live.append(send)
        self._held_bytes += send.size + _SEND_BYTES
        self.count += 1
        return send

    def _forget_ended(self) -> None:
        """Forget the sends that have ended, and copy the bodies of those that were here the last time.

        A body may be part of a large buffer, which otherwise stays in memory as long as a single send of it waits.
        """
        self._live = deque(send for send in self._live if not send.has_ended)
        for send in self._live:
            if send.is_old and isinstance(send.request.body, memoryview):
                send.request = send.request._replace(body=bytes(send.request.body))
            send.is_old = True

    def _join(self, send: QueuedSend) -> None:
        """Let a bound send wait at its broker, or in the lane of its queue."""
        assert send.queue is not None
        if self._settings.keeps_order:
            if send.queue in self._closed:
                raise earlier_send_failed_error()
            lane = self._lanes.get(send.queue)
            if lane is None:
                lane = self._lanes[send.queue] = deque()
            lane.append(send)
            if len(lane) > 1:
                return
            send.holds_lane = True
        self._broker(send.queue.broker_name).ready.append(send)

    def _topic(self, name: str) -> _TopicState:
        """Return the state of a topic; make it anew if its queues have changed, but keep the waiting sends."""
        queues, known = self._queues(name), self._topics.get(name)
        if known is not None and known.source is queues:
            return known
        if not queues:
            advice = "give the topic write permission, or bring its brokers back"
            raise NoBrokerAvailable("no queue of the topic may be written now", advice=advice, topic=name)
        brokers = {queue.broker_name: self._broker(queue.broker_name) for queue in queues}
        topic = self._topics[name] = _TopicState(queues, brokers, self._choose_start(len(queues)))
        if known is not None:
            topic.ready = known.ready
        return topic

    def _broker(self, name: str) -> BrokerState:
        broker = self._brokers.get(name)
        if broker is None:
            broker = self._brokers[name] = BrokerState(name)
        return broker

    # --- sending -----------------------------------------------------------------------------------------------------

    def take(self, now: float) -> list[tuple[BrokerState, list[QueuedSend]]]:
        """Return the sends that may go now, by broker; they count as in flight from here on.

        A broker gets none while less than a quarter of its share is free, so that requests leave in groups.
        """
        self._wake(now)
        share = self.share
        for broker in self._brokers.values():
            broker.update_room(now, share)
        self._turn += 1
        taken: dict[BrokerState, list[QueuedSend]] = {}
        for broker in _rotate([broker for broker in self._brokers.values() if broker.ready], self._turn):
            self._take_bound(broker, taken)
        for topic in _rotate([topic for topic in self._topics.values() if topic.ready], self._turn):
            self._take_unbound(topic, taken, now)
        return list(taken.items())

    def _take_bound(self, broker: BrokerState, taken: dict[BrokerState, list[QueuedSend]]) -> None:
        ready, most = broker.ready, self._settings.max_bytes_in_flight
        while ready and self.in_flight < self._settings.max_in_flight:
            if ready[0].has_ended:
                ready.popleft()
            elif broker.fits(ready[0].size, most):
                self._begin(ready.popleft(), broker, taken)
            else:
                return

    def _take_unbound(self, topic: _TopicState, taken: dict[BrokerState, list[QueuedSend]], now: float) -> None:
        ready, most = topic.ready, self._settings.max_bytes_in_flight
        while ready and self.in_flight < self._settings.max_in_flight:
            send = ready[0]
            if send.has_ended:
                ready.popleft()
                continue
            avoided = topic.avoided(send, now) if send.avoided else ()
            place = topic.next_with_room(send.size, most, avoided)
            if place is None:
                return
            send.queue = place[0]
            self._begin(ready.popleft(), place[1], taken)

    def _begin(self, send: QueuedSend, broker: BrokerState, taken: dict[BrokerState, list[QueuedSend]]) -> None:
        send.attempts += 1
        send.epoch = broker.epoch
        send.is_in_flight = True
        broker.room -= 1
        broker.in_flight += 1
        broker.bytes_in_flight += send.size
        self.in_flight += 1
        if (group := taken.get(broker)) is None:
            taken[broker] = [send]
        else:
            group.append(send)

    # --- the ends of attempts ----------------------------------------------------------------------------------------

    def succeed(self, send: QueuedSend, broker: BrokerState) -> bool:
        """Note that a send was stored; return False if it had ended before, at its deadline."""
        self._release(send, broker)
        if broker.pause_count and send.epoch == broker.epoch:
            broker.pause_count = 0
        return self._end(send)

    def throttle(self, send: QueuedSend, broker: BrokerState, error: RocketMQError, now: float) -> bool:
        """Let a broker pause because it was too busy for a send, or silent; the send is sent again.

        This counts as no failed attempt. The next send goes first, so that one to which no broker responds does not
        keep others from showing that the broker is back. Return whether the send has ended, because the schedule was
        stopped.
        """
        self._release(send, broker)
        self.pause(broker, error, now, send.epoch)
        if self._is_stopped:
            send.error = error
            return self._end(send)
        if isinstance(error, RequestTimeout) and not send.has_ended:
            self.retries += 1  # The broker may have carried it out.
        self._return(send, broker, error, place=1)
        return False

    def fail(
        self, send: QueuedSend, broker: BrokerState, error: RocketMQError, now: float, next_step: NextStep
    ) -> bool:
        """Note that an attempt failed; return whether the send has ended by that.

        `next_step` is `AGAIN`, or `ELSEWHERE` if the broker must not get the send again, or `NONE`.
        """
        self._release(send, broker)
        send.error = error
        send.failures += 1
        if next_step is NextStep.ELSEWHERE:
            send.refused_by += (broker,)
        if self._may_repeat(send, next_step):
            if send.has_ended:
                self._end(send)
            else:
                self.retries += 1
                self._retry(send, broker, now)
            return False
        return self._end(send)

    def _may_repeat(self, send: QueuedSend, next_step: NextStep) -> bool:
        if self._is_stopped or send.failures > self._settings.retries:
            return False
        if next_step is NextStep.ELSEWHERE:
            return not send.is_bound and self._topics[send.request.topic].has_other(send)
        return next_step is NextStep.AGAIN

    def put_back(self, sends: Sequence[QueuedSend], broker: BrokerState, error: RocketMQError | None) -> None:
        """Take back sends that could not be written, because of `error` if it is given; this counts as no attempt."""
        for send in reversed(sends):
            self._release(send, broker)
            send.attempts -= 1
            self._return(send, broker, error)

    def delay(self, sends: Iterable[QueuedSend], broker: BrokerState, error: RocketMQError, now: float) -> None:
        """Take back sends for which there is no way to their queue now; try them again, together, after a pause."""
        until = 0.0
        for send in sends:
            until = until or now + _SEND_PAUSE.delay_s(send.delays)
            self._release(send, broker)
            send.attempts -= 1
            send.delays += 1
            send.error = error
            send.avoided = broker
            if send.has_ended:
                self._end(send)
            else:
                heapq.heappush(self._delayed, (until, next(self._numbers), send))

    def pause(self, broker: BrokerState, error: RocketMQError, now: float, epoch: int, cost_s: float = 0.0) -> None:
        """Let a broker pause because of an error, unless it has done so since the attempt, of this `epoch`, was sent.

        `cost_s` is the time that a failed attempt to connect took from all brokers.
        """
        if epoch == broker.epoch:
            pause_s = max(_BROKER_PAUSE.delay_s(broker.pause_count), _REST_PER_COST * cost_s)
            broker.paused_until = now + pause_s
            broker.error = error
            broker.pause_count += 1
            broker.epoch += 1
            self.pauses += 1

    def expire(self, now: float) -> list[QueuedSend]:
        """End the sends whose deadline has passed, and return them."""
        expired, live = list[QueuedSend](), self._live
        while live and (live[0].has_ended or live[0].due_at <= now):
            send = live.popleft()
            if send.has_ended:
                continue
            if send.is_in_flight:
                # The attempt still holds its lane.
                self._leave(send)
            else:
                self._end(send)
            expired.append(send)
        return expired

    def postpone(self, seconds: float) -> None:
        """Move the deadlines of all sends, because nothing could be sent or received for so long."""
        for send in self._live:
            send.due_at += seconds

    def close_queue(self, queue: MessageQueue) -> None:
        """Refuse later sends to a queue: a send to it has failed, and the order is kept."""
        self._closed.add(queue)

    def close_lane(self, failed: QueuedSend) -> list[QueuedSend]:
        """End the sends in the lane of one that has failed, which were never sent, and refuse later ones.

        Return those that have ended by that.
        """
        assert failed.queue is not None
        self.close_queue(failed.queue)
        lane = self._lanes.pop(failed.queue, ())
        behind = [send for send in lane if not send.has_ended]
        for send in lane:
            send.holds_lane = False
        for send in behind:
            self._leave(send)
        return behind

    def stop(self) -> list[QueuedSend]:
        """End the sends that are not in flight, and return them; those in flight get no further attempt."""
        self._is_stopped = True
        waiting = [send for send in self._live if not (send.has_ended or send.is_in_flight)]
        for send in waiting:
            self._leave(send)
        return waiting

    def end_rest(self) -> list[QueuedSend]:
        """End all sends, also those that count as in flight, and return them."""
        rest = [send for send in self._live if not send.has_ended]
        for send in rest:
            self._leave(send)
        return rest

    def reason(self, send: QueuedSend) -> RocketMQError | None:
        """Return why a send was not stored: its own last error, or that of a pausing broker for which it waits."""
        brokers: Iterable[BrokerState]
        if send.queue is not None:
            brokers = [self._broker(send.queue.broker_name)]
        else:
            brokers = self._topics[send.request.topic].brokers
        return send.error or next((broker.error for broker in brokers if broker.pause_count), None)

    def next_event(self, now: float) -> float:
        """Return the next moment at which a send may go, or ends at its deadline, although no response has come."""
        while self._live and self._live[0].has_ended:
            self._live.popleft()
        moments = [broker.paused_until for broker in self._brokers.values() if broker.paused_until > now]
        if self._live:
            moments.append(self._live[0].due_at)
        if self._delayed:
            moments.append(self._delayed[0][0])
        return min(moments, default=math.inf)

    # --- steps -------------------------------------------------------------------------------------------------------

    def _release(self, send: QueuedSend, broker: BrokerState) -> None:
        send.is_in_flight = False
        broker.in_flight -= 1
        broker.bytes_in_flight -= send.size
        self.in_flight -= 1

    def _end(self, send: QueuedSend) -> bool:
        """End a send that is not in flight, and let the next one of its lane go; return False if it had ended."""
        if send.holds_lane:
            self._advance_lane(send)
        if send.has_ended:
            return False
        self._leave(send)
        return True

    def _leave(self, send: QueuedSend) -> None:
        send.has_ended = True
        self.count -= 1
        self._held_bytes -= send.size + _SEND_BYTES

    def _advance_lane(self, send: QueuedSend) -> None:
        """Let the next send go that is in the lane of `send` and has not ended; forget the lane if there is none."""
        assert send.queue is not None
        send.holds_lane = False
        lane = self._lanes[send.queue]
        lane.popleft()
        while lane and lane[0].has_ended:
            lane.popleft()
        if lane:
            lane[0].holds_lane = True
            self._broker(send.queue.broker_name).ready.append(lane[0])
        else:
            del self._lanes[send.queue]

    def _retry(self, send: QueuedSend, broker: BrokerState, now: float) -> None:
        send.avoided = broker
        topic = None if send.is_bound else self._topics[send.request.topic]
        if topic is not None and topic.avoided(send, now):
            topic.ready.appendleft(send)
        else:
            until = now + _SEND_PAUSE.delay_s(send.failures - 1)
            heapq.heappush(self._delayed, (until, next(self._numbers), send))

    def _return(self, send: QueuedSend, broker: BrokerState, error: RocketMQError | None, place: int = 0) -> None:
        """Let a send wait again, with `place` others before it, or end if it is overdue."""
        send.error = error or send.error
        if send.has_ended:
            self._end(send)
        elif send.is_bound:
            broker.ready.insert(place, send)
        else:
            self._topics[send.request.topic].ready.insert(place, send)

    def _wake(self, now: float) -> None:
        """Let the sends go whose delay is over."""
        while self._delayed and self._delayed[0][0] <= now:
            send = heapq.heappop(self._delayed)[2]
            if send.has_ended:
                continue
            if send.is_bound:
                assert send.queue is not None
                self._broker(send.queue.broker_name).ready.append(send)
            else:
                self._topics[send.request.topic].ready.appendleft(send)


def _rotate(items: list[T], turn: int) -> list[T]:
    """Return a list that begins with another of the items in each turn."""
    at = turn % max(1, len(items))
    return items[at:] + items[:at]


def _interleave(queues: Sequence[MessageQueue]) -> list[MessageQueue]:
    """Return queues so that two in a row are of different brokers, as far as possible."""
    by_broker: dict[str, list[MessageQueue]] = {}
    for queue in queues:
        by_broker.setdefault(queue.broker_name, []).append(queue)
    longest = max(map(len, by_broker.values()))
    return [own[at] for at in range(longest) for own in by_broker.values() if at < len(own)]
