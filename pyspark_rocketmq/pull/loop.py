"""Read ranges from beginning to end.

    fill the window → wait for outcomes → put them into order → fill again → hand out blocks, until every range is done

The window is the set of pulls in flight. It is dealt round robin over the readers and refilled whenever outcomes came
in, so that requests leave in groups. Brokers and this process are kept busy by bytes in flight, so the window grows
while responses are small, unless the user has set its depth. A reader that pauses is asked again when its pause ends,
although another broker still owes responses.

Blocks are handed out as they come, so that their consumer finds them in the processor's cache. While the consumer is
busy, brokers answer what the full window has requested; the responses wait in the socket's buffer.
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
"""Pulls of one range that leave together: finding out whether and where it may pull costs as much as a pull."""
_LEAST_DEPTH, _MOST_DEPTH = 32, 256
_WANTED_BYTES = 8 * 2**20
"""Bytes to have in flight: as many as a record batch holds, so that one arrives while the one before is decoded. The
buffers of both sockets hold nearly all of it; the broker keeps the rest in its heap."""


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

    What no broker process could confirm is read and counted again in the end. That reading may itself need a recount,
    `recounts` levels deep; beyond that it raises.
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
    """Sleep while no reader may pull; return the readers that have given up their range and are finished with it."""
    time.sleep(_SLEEP_S)
    return {reader: False for reader in unfinished if reader.is_finished}


class Window:
    """The pulls in flight of some readers."""

    def __init__(
        self,
        readers: Sequence[QueueReader],
        port: PullPort[QueueReader],
        settings: PullSettings,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._turns = deque(readers)
        self._resting: set[QueueReader] = set()
        """Readers that have requested all they want; a short response or a failed pull wakes them."""
        self._port = port
        self._is_adaptive = not settings.depth
        self._depth = settings.depth or _LEAST_DEPTH
        self._clock = clock
        self._next_turn_at = math.inf
        """When the first pause ends of the readers for whom there was room."""

    def __repr__(self) -> str:
        return f"<Window {self.in_flight} of {self._depth} in flight, {len(self._resting)} readers rest>"

    @property
    def in_flight(self) -> int:
        """The number of pulls that await an outcome."""
        return self._port.in_flight

    # --- requests ----------------------------------------------------------------------------------------------------

    def fill(self) -> None:
        """Submit pulls, a few for each reader in turn, until the window is full or no reader may pull; send them.

        Wait until a quarter of the window is free, so that requests leave in groups.
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
        """Submit the pulls that a reader may send, at most `most`, and a probe if one is due; return their number."""
        probed = self._probe(reader, now) if reader.may_probe(now) else 0
        if not (admitted := reader.admit(most, now)):
            return probed
        if (endpoint := self._reach(reader, reader.choose_endpoint)) is None:
            return probed
        requests = reader.take_requests(admitted)
        self._port.submit(PullGroup(reader, reader.queue, endpoint, requests))
        return probed + len(requests)

    def _probe(self, reader: QueueReader, now: float) -> int:
        endpoint = self._reach(reader, lambda: reader.choose_probed(now))
        if endpoint is None:
            return 0
        probe = reader.take_probe(endpoint, now)
        self._port.submit(PullGroup(reader, reader.queue, endpoint, [probe], is_filtered=False))
        return 1

    def _reach(self, reader: QueueReader, choose: Callable[[], BrokerEndpoint | None]) -> BrokerEndpoint | None:
        """Return the process that `choose` names once pulls can be submitted to it; tell the reader if they cannot."""
        try:
            endpoint = choose()
            return endpoint if endpoint is not None and self._port.connect(endpoint.address) else None
        except RocketMQError as error:
            reader.handle_unreachable(error, self._clock())
            return None

    # --- outcomes ----------------------------------------------------------------------------------------------------

    def drain(self, until: float) -> dict[QueueReader, bool]:
        """Wait for outcomes until a moment of the clock; return each reader that got some, with whether it advanced.

        An empty dict means that it is time to fill the window.
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
        """Choose the depth at which responses of this size bring the wanted number of bytes."""
        self._depth = max(_LEAST_DEPTH, min(_WANTED_BYTES * body_count // body_bytes, _MOST_DEPTH))
