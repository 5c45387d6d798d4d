"""Read ranges from beginning to end.

    fill the window → wait for outcomes → put them into order → fill again → yield blocks, until every range is done

The window is the set of pulls in flight; its depth is the largest number of them. The readers take turns to send a few
pulls each, until the window is full. It is filled again after outcomes have arrived, so that requests leave in groups.
Enough bytes in flight keep brokers and this process busy, so the depth grows while responses are small, unless the user
has set it. When a reader's pause ends, the reader may send pulls at once, even while pulls of others are in flight.

Blocks are yielded as soon as they are next in offset order, so that their consumer finds them in the processor's cache.
While the consumer is busy, brokers answer the pulls in flight; the responses wait in the socket's buffer.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain

from ..cluster.broker import Brokers
from ..cluster.routes import BrokerEndpoint
from ..errors import NoBrokerAvailable, RocketMQError
from ..model import Block, QueueRange
from ..net.pool import ConnectionPool
from .loss_policy import LossPolicy
from .port import PullGroup, PullOutcome, PullPort
from .reader import QueueReader
from .recount import recount
from .remoting import RemotingPort
from .settings import PullSettings

__all__ = ["Window", "read_ranges"]

_SLEEP_S = 0.05
_RECOUNTS = 3
_TOGETHER = 4
"""The most pulls that one reader submits per turn. A turn costs as much as a pull, so it should submit several."""
_LEAST_DEPTH, _MOST_DEPTH = 32, 256
_WANTED_BYTES = 8 * 2**20
"""Bytes of responses to have in flight: as many as a record batch has, so that one batch arrives while the previous one
is decoded. The socket buffers of both sides hold nearly all of them; the remaining bytes stay in the broker's heap."""


def read_ranges(
    ranges: Sequence[QueueRange],
    brokers: Brokers,
    pool: ConnectionPool,
    policy: LossPolicy,
    settings: PullSettings | None = None,
    clock: Callable[[], float] = time.monotonic,
    recounts: int = _RECOUNTS,
) -> Iterator[Block]:
    """Yield every message of the ranges, in blocks; those of one queue in the order of their offsets.

    If a broker process is gone before it could confirm its responses, read the same offsets again at the end, from
    another process, and compare the numbers of messages. Such a recount may need a recount in turn; if one
    is still needed after `recounts` of them, raise NoBrokerAvailable.
    """
    settings = (settings or PullSettings()).for_queues(len({wanted.queue for wanted in ranges}))
    readers = [QueueReader(wanted, brokers, settings, policy) for wanted in ranges if wanted.offset_count > 0]
    port: RemotingPort[QueueReader] = RemotingPort(brokers.settings, pool, settings, clock)
    try:
        yield from _read_all(readers, Window(readers, port, settings, clock), settings, clock)
    finally:
        port.close()
    if unconfirmed := list(chain.from_iterable(reader.unconfirmed for reader in readers)):
        if not recounts:
            raise _endless_recount(unconfirmed[0].wanted)
        recount(
            unconfirmed,
            lambda again, filter_: read_ranges(
                again, brokers, pool, policy, replace(settings, subscription=filter_), clock, recounts - 1
            ),
            settings.subscription,
            policy,
        )


def _endless_recount(wanted: QueueRange) -> NoBrokerAvailable:
    return NoBrokerAvailable(
        "one broker process after the other goes away before it can confirm what it answered",
        advice="check the brokers, and let Spark retry the task",
        topic=wanted.queue.topic,
        broker=wanted.queue.broker_name,
        queue_id=wanted.queue.queue_id,
        offset=wanted.start,
    )


def _read_all(
    readers: list[QueueReader], window: Window, settings: PullSettings, clock: Callable[[], float]
) -> Iterator[Block]:
    stalled_at = clock() + settings.stall_timeout_s
    unfinished = dict.fromkeys(readers)
    window.fill()
    while unfinished:
        heard = window.drain(stalled_at) if window.in_flight else _rest(unfinished)
        blocks = list(chain.from_iterable(reader.take() for reader in heard))
        for reader in heard:
            if reader.is_finished:
                unfinished.pop(reader, None)
        window.fill()
        yield from blocks
        # The clock is read after the blocks were used, which may have taken long.
        if blocks or any(heard.values()):
            stalled_at = clock() + settings.stall_timeout_s
        elif clock() >= stalled_at:
            for reader in unfinished:
                reader.give_up()
            stalled_at = clock() + settings.stall_timeout_s


def _rest(unfinished: Iterable[QueueReader]) -> dict[QueueReader, bool]:
    """Sleep briefly; return {reader: False} for the readers that have finished; False says that they made no progress.

    This replaces a call of `Window.drain` while no pull is in flight.
    """
    time.sleep(_SLEEP_S)
    return {reader: False for reader in unfinished if reader.is_finished}


class Window:
    """The pulls in flight of all readers, up to a depth."""

    def __init__(
        self,
        readers: Sequence[QueueReader],
        port: PullPort[QueueReader],
        settings: PullSettings,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._turns = deque(readers)
        self._resting: set[QueueReader] = set()
        """Readers without offsets to request; a short response or a failed pull puts them back into `_turns`."""
        self._port = port
        self._is_adaptive = not settings.depth
        self._depth = settings.depth or _LEAST_DEPTH
        self._clock = clock
        self._next_turn_at = math.inf
        """The earliest moment at which a reader's pause ends; infinite if no reader pauses or the window is full."""

    def __repr__(self) -> str:
        return f"<Window {self.in_flight} of {self._depth} in flight, {len(self._resting)} readers rest>"

    @property
    def in_flight(self) -> int:
        """The number of pulls that await an outcome."""
        return self._port.in_flight

    # --- requests ----------------------------------------------------------------------------------------------------

    def fill(self) -> None:
        """Send pulls, a few for each reader in turn, until the window is full or no reader may pull.

        Return without sending any while less than a quarter of the window is free, so that requests leave in groups.
        """
        self._next_turn_at = math.inf
        room = self._depth - self._port.in_flight
        if room * 4 < self._depth:
            return
        self._deal(room)
        self._port.send()

    def _deal(self, room: int) -> None:
        idle, now = 0, self._clock()
        while room > 0 and idle < len(self._turns):
            reader = self._turns.popleft()
            if not reader.has_more_to_pull:
                self._resting.add(reader)
                continue
            self._turns.append(reader)
            asked = self._submit_pulls(reader, min(room, _TOGETHER), now)
            room -= asked
            idle = 0 if asked else idle + 1
        if room > 0:
            self._next_turn_at = min((each.resume_at for each in self._turns if each.resume_at > now), default=math.inf)

    def _submit_pulls(self, reader: QueueReader, most: int, now: float) -> int:
        """Submit up to `most` pulls of a reader, and a probe if one is due; return the number of both together."""
        probed = self._probe(reader, now) if reader.may_probe(now) else 0
        if not (admitted := reader.admit(most, now)):
            return probed
        if (endpoint := self._reach(reader.choose_endpoint, reader.handle_unreachable)) is None:
            return probed
        requests = reader.take_requests(admitted)
        self._port.submit(PullGroup(reader, reader.queue, endpoint, requests))
        return probed + len(requests)

    def _probe(self, reader: QueueReader, now: float) -> int:
        endpoint = self._reach(lambda: reader.choose_probed(now), reader.handle_unprobed)
        if endpoint is None:
            return 0
        probe = reader.take_probe(endpoint, now)
        self._port.submit(PullGroup(reader, reader.queue, endpoint, [probe], is_filtered=False))
        return 1

    def _reach(
        self, choose: Callable[[], BrokerEndpoint | None], handle: Callable[[RocketMQError, float], None]
    ) -> BrokerEndpoint | None:
        """Connect to the broker process that `choose` returns, and return it; None if no pull can be sent to it now.

        If choosing or connecting fails, call `handle` with the error and the time, and return None. If `choose` returns
        None, return None.
        """
        try:
            endpoint = choose()
            return endpoint if endpoint is not None and self._port.connect(endpoint.address) else None
        except RocketMQError as error:
            handle(error, self._clock())
            return None

    # --- outcomes ----------------------------------------------------------------------------------------------------

    def drain(self, until: float) -> dict[QueueReader, bool]:
        """Wait for outcomes; return {reader: whether it made progress} for the readers that got any.

        The dict is empty if the moment `until`, or the end of a reader's pause, comes before any outcome.
        """
        heard: dict[QueueReader, bool] = {}
        deliveries = self._port.drain(min(until, self._next_turn_at))
        now, body_bytes, body_count = self._clock(), 0, 0
        for group, request, outcome in deliveries:
            reader = group.reader
            if type(outcome) is PullOutcome:
                if size := len(outcome.body):
                    body_bytes, body_count = body_bytes + size, body_count + 1
                has_advanced = reader.accept(request, group.endpoint, outcome, now)
            else:
                has_advanced = False
                reader.handle_failure(request, outcome, now, group.endpoint)
            if has_advanced or reader not in heard:
                heard[reader] = has_advanced
        if body_count and self._is_adaptive:
            self._adapt(body_bytes, body_count)
        for reader in heard:
            if reader in self._resting and reader.has_more_to_pull:
                self._resting.discard(reader)
                self._turns.append(reader)
        return heard

    def _adapt(self, body_bytes: int, body_count: int) -> None:
        """Set the depth, the most pulls in flight, so that about `_WANTED_BYTES` of responses are in flight.

        The latest `body_count` responses had `body_bytes` together; the next ones are expected to be as large.
        """
        self._depth = max(_LEAST_DEPTH, min(_WANTED_BYTES * body_count // body_bytes, _MOST_DEPTH))
