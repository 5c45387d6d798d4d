"""Tests of `broker_stub.long_polling`."""

from __future__ import annotations

from broker_stub.clock import Clock
from broker_stub.filters import TagFilter
from broker_stub.long_polling import HeldPull, HeldPulls
from broker_stub.queue_scan import MessageFilter
from pyspark_rocketmq.wire.properties import java_hash

from .recording_channel import RecordingChannel

QUEUE = ("T", 0)
WANTED = TagFilter(frozenset({java_hash("A")}))


class Waiting:
    """Held pulls of a queue whose end the test sets, and the times at which they ran again."""

    def __init__(self) -> None:
        self.clock = Clock(frozen=True)
        self.end = 10
        self.ran: list[float] = []
        self.channel = RecordingChannel()
        self.held_pulls = HeldPulls(self.clock, lambda topic, queue_id: self.end)

    def hold(self, wait_ms: int, wanted: MessageFilter | None = None) -> None:
        """Hold a pull at the end of the queue for up to `wait_ms`."""
        run = lambda: self.ran.append(self.clock.elapsed_ms())  # noqa: E731  # shorter than a function in a function
        self.held_pulls.hold(QUEUE, HeldPull(self.channel, self.end, wanted, self.clock.elapsed_ms() + wait_ms, run))

    def arrive(self, tag: str | None = None) -> None:
        """Let a message with this tag arrive; without a tag, let many messages with unknown tags arrive."""
        self.end += 1
        self.held_pulls.message_arrived(QUEUE, None if tag is None else java_hash(tag), None)


def test_a_message_ends_the_wait() -> None:
    """If a message arrives, a held pull runs at once, and only once."""
    waiting = Waiting()
    waiting.hold(15_000)

    waiting.clock.advance(1_500)
    waiting.arrive("A")
    waiting.clock.advance(60_000)

    assert waiting.ran == [1_500]
    assert len(waiting.held_pulls) == 0


def test_the_wait_ends_when_its_time_is_up() -> None:
    """A held pull runs exactly when its time is up, even between two periodic checks."""
    waiting = Waiting()
    waiting.hold(12_000)

    waiting.clock.advance(11_999)
    assert waiting.ran == []
    waiting.clock.advance(1)

    assert waiting.ran == [12_000]


def test_a_message_with_another_tag_ends_the_wait_at_the_next_check() -> None:
    """If a message with another tag arrives, the pull runs at the next periodic check, which ignores tags."""
    waiting = Waiting()
    waiting.hold(15_000, WANTED)

    waiting.clock.advance(1_000)
    waiting.arrive("B")
    assert waiting.ran == []
    waiting.clock.advance(10_000)

    assert waiting.ran == [5_000]


def test_a_matching_tag_ends_the_wait() -> None:
    """If a message arrives whose tag the filter matches, the held pull runs at once."""
    waiting = Waiting()
    waiting.hold(15_000, WANTED)

    waiting.arrive("B")
    waiting.arrive("A")

    assert len(waiting.ran) == 1


def test_many_messages_at_once_end_every_wait() -> None:
    """If many messages arrive at once, every held pull runs, because any of the unknown tags may match."""
    waiting = Waiting()
    waiting.hold(15_000, WANTED)
    waiting.hold(15_000)

    waiting.arrive()

    assert len(waiting.ran) == 2


def test_a_pull_beyond_the_new_end_goes_on_waiting() -> None:
    """If a message arrives, but the queue still ends before the pull's offset, the pull keeps waiting."""
    waiting = Waiting()
    waiting.hold(15_000)
    waiting.end = 3

    waiting.arrive("A")

    assert waiting.ran == []


def test_a_client_that_has_gone_is_forgotten() -> None:
    """If its connection is closed, a held pull does not run again."""
    waiting = Waiting()
    waiting.hold(15_000)

    waiting.held_pulls.drop(waiting.channel)
    waiting.arrive("A")
    waiting.clock.advance(60_000)

    assert (waiting.ran, waiting.clock.wait_ms()) == ([], None)
