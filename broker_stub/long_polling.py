"""Hold pulls until a message arrives.

A pull that finds no new message may wait at its queue. It runs again when a message arrives that its filter matches, or
when its time is up. A check every five seconds also runs it if the queue has grown. This check does not know tags, so
it ends the wait even if no new message matches. A pull that runs again always responds.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from .clock import Clock, Timer
from .consume_queue import QueueKey
from .filters import matches
from .queue_scan import MessageFilter
from .requests import Channel

CHECK_INTERVAL_MS = 5_000


@dataclass(slots=True, eq=False)
class HeldPull:
    """A pull that waits for a message."""

    channel: Channel
    offset: int
    message_filter: MessageFilter | None
    due_ms: float
    """Elapsed time of the clock at which the wait ends."""
    run: Callable[[], None]
    """Runs the pull again, and sends its response."""
    timer: Timer = field(init=False)


class HeldPulls:
    """The held pulls of one broker."""

    def __init__(self, clock: Clock, max_offset: Callable[[str, int], int]) -> None:
        self._clock = clock
        self._max_offset = max_offset
        self._pulls: defaultdict[QueueKey, list[HeldPull]] = defaultdict(list)

    def __len__(self) -> int:
        return sum(map(len, self._pulls.values()))

    def hold(self, key: QueueKey, pull: HeldPull) -> None:
        """Hold a pull until a message arrives or its time is up."""
        self._pulls[key].append(pull)
        self._set_timer(key, pull)

    def message_arrived(self, key: QueueKey, tag_code: int | None, properties: Mapping[str, str] | None) -> None:
        """Run the held pulls whose filter may match a new message of this queue.

        A tag code or properties of None are unknown and match every filter.
        """
        if not (waiting := self._pulls.get(key)):
            return
        end = self._max_offset(*key)
        for pull in waiting.copy():
            if end > pull.offset and matches(pull.message_filter, tag_code, properties):
                self._run(key, pull)

    def drop(self, channel: Channel) -> None:
        """Remove the held pulls of a channel, and send no response to them."""
        for key, waiting in list(self._pulls.items()):
            for pull in [pull for pull in waiting if pull.channel is channel]:
                self._remove(key, pull)

    def _set_timer(self, key: QueueKey, pull: HeldPull) -> None:
        rest_ms = pull.due_ms - self._clock.elapsed_ms()
        pull.timer = self._clock.call_later(min(rest_ms, CHECK_INTERVAL_MS), lambda: self._check(key, pull))

    def _check(self, key: QueueKey, pull: HeldPull) -> None:
        if self._clock.elapsed_ms() >= pull.due_ms or self._max_offset(*key) > pull.offset:
            self._run(key, pull)
        else:
            self._set_timer(key, pull)

    def _run(self, key: QueueKey, pull: HeldPull) -> None:
        self._remove(key, pull)
        pull.run()

    def _remove(self, key: QueueKey, pull: HeldPull) -> None:
        pull.timer.cancel()
        self._pulls[key].remove(pull)
        if not self._pulls[key]:
            del self._pulls[key]
