"""Confirm responses that cannot be counted: those to filtered pulls, and those of compacted topics.

A filter and compaction leave offsets out, so a response does not tell whether retention took messages that it should
hold: brokers delete the log first and raise the queue's minimum offset up to ten seconds later. But retention takes
from the front. So the responses of one broker process are gathered in an *interval*, and after the last of them a
*probe* pulls one message without the filter at the lowest offset of the interval. If its message is there, it was there
when the responses were made, and so was everything behind it. If not, messages of the interval may be missing.

Invariant: a response belongs to exactly one interval until a probe that was sent after it has been answered. Replicas
delete on their own, so each process has intervals of its own. Probes are ordinary pulls in flight, at most one a second
for each process, and one at the end of the range.

No decision rests on time, because a task may be stopped between two probes. Only the outcomes of probes decide.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ..cluster.broker import Brokers
from ..cluster.routes import MASTER_ID, BrokerEndpoint
from ..cluster.servers import ServerRequest
from ..errors import DataLossError
from ..model import MessageQueue, QueueRange
from ..net.deadline import Deadline
from ..wire.commands import GetMinOffsetRequestHeader, OffsetResponseHeader
from ..wire.scan import first_queue_offset
from .loss_policy import LossPolicy
from .port import PullOutcome
from .probe import Probe, has_found_further, is_readable, lowest_readable
from .recount import Tally, Unconfirmed, count_within
from .remoting import PULL_CODES, pull_header, read_outcome
from .settings import PullSettings, Subscription

__all__ = ["Probe", "Witness", "confirm_front"]

PROBE_INTERVAL_S = 1.0
_PROBES_OF_A_GAP = 10
"""Probes of a gap in a compacted topic, a second apart, before the minimum is asked for: brokers raise it within
`cleanResourceInterval`, 10 s by default."""
_RESET_PAUSE_S = 0.1
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Interval:
    """Offsets that responses of one process covered and no probe has confirmed."""

    first: int
    end: int
    since: float
    """The moment when the first of the responses came in."""
    gap_probes: int = 0
    """The number of probes that have found a gap at `first`."""
    tally: Tally = field(default_factory=Tally)
    """The messages handed out of it."""

    def join(self, other: Interval) -> None:
        """Span both; probes are counted anew where `first` changes."""
        if other.first < self.first:
            self.first, self.gap_probes = other.first, 0
        self.end, self.since = max(self.end, other.end), min(self.since, other.since)
        self.tally.join(other.tally)


class _ProcessIntervals:
    """The intervals of one broker process."""

    __slots__ = ("fresh", "last_found", "probed", "probed_at")

    def __init__(self) -> None:
        self.fresh: Interval | None = None
        """The responses since the last probe was sent."""
        self.probed: Interval | None = None
        """The responses that the probe in flight confirms."""
        self.probed_at = float("-inf")
        self.last_found: int | None = None
        """An offset whose message came in; better to probe than an offset that may be a gap."""

    def unconfirmed(self) -> list[Interval]:
        """Return the intervals that no probe has confirmed."""
        return [interval for interval in (self.probed, self.fresh) if interval]

    def reopen(self, interval: Interval) -> None:
        """Leave the interval of the probe in flight to the next probe."""
        self.probed = None
        self.add(interval)

    def add(self, interval: Interval) -> None:
        """Have the next probe confirm an interval, too."""
        if self.fresh:
            interval.join(self.fresh)
        self.fresh = interval


class Witness:
    """The confirmation of one reader's responses; reports to the policy what may be missing."""

    def __init__(self, wanted: QueueRange, brokers: Brokers, policy: LossPolicy) -> None:
        self._wanted = wanted
        self._queue = wanted.queue
        self._brokers = brokers
        self._policy = policy
        self._processes: dict[BrokerEndpoint, _ProcessIntervals] = {}
        self._last_endpoint: BrokerEndpoint | None = None
        self._last = _ProcessIntervals()
        """The intervals of the last endpoint; most responses come from there."""
        self._lowest_found: int | None = None
        """The lowest offset of a message that came in; kept for a range with an open front."""
        self._left = Tally()
        """What processes answered that are gone for good."""
        self._forgiven: list[tuple[BrokerEndpoint, Interval]] = []
        """Gaps before the lowest message, which are judged again when a lower message comes in."""

    def __repr__(self) -> str:
        pending = {str(endpoint.address): (each.probed, each.fresh) for endpoint, each in self._processes.items()}
        return f"<Witness of {self._queue}, {pending}>"

    @property
    def is_settled(self) -> bool:
        """Whether every response has been confirmed or judged."""
        return not any(each.fresh or each.probed for each in self._processes.values())

    # --- responses and probes ----------------------------------------------------------------------------------------

    def add_outcome(
        self, endpoint: BrokerEndpoint, wanted: QueueRange, starts: Sequence[int], outcome: PullOutcome, now: float
    ) -> None:
        """Add an outcome of which the `wanted` offsets are handed out; its records begin at `starts`."""
        process = self._last if endpoint is self._last_endpoint else self._process(endpoint)
        _, start, end, _ = wanted
        interval = process.fresh
        if interval is None or start < interval.first:
            interval = self._open(process, start, end, now)
        elif end > interval.end:
            interval.end = end
        interval.tally.add(start, end, count_within(outcome.body, starts, start, end))
        if outcome.body:
            process.last_found = outcome.next_offset - 1
            if self._wanted.is_front_open:
                self._note_found(first_queue_offset(outcome.body))

    def add_interval(self, endpoint: BrokerEndpoint, start: int, end: int) -> None:
        """Add offsets that a process has answered and nothing else is known of."""
        self._open(self._process(endpoint), start, end, 0.0)

    def next_probed(self, current: BrokerEndpoint | None, now: float, *, is_last: bool) -> BrokerEndpoint | None:
        """Return a process to probe now: one that is not read from any more, or whose interval is old enough."""
        for endpoint, process in self._processes.items():
            if process.fresh is None or process.probed:
                continue
            if is_last or (
                process.probed_at <= now - PROBE_INTERVAL_S
                and (endpoint != current or process.fresh.since <= now - PROBE_INTERVAL_S)
            ):
                return endpoint
        return None

    def take_probe(self, endpoint: BrokerEndpoint, now: float) -> Probe:
        """Return the probe that confirms all responses of a process until now, and count it as in flight."""
        process = self._processes[endpoint]
        interval = process.probed = process.fresh
        assert interval is not None, "nothing to confirm"
        process.fresh, process.probed_at = None, now
        probe = Probe(interval.first, interval.first + 1)
        probe.endpoint = endpoint
        return probe

    def retry(self, probe: Probe) -> None:
        """Have a probe sent again that brought no answer."""
        process = self._processes.get(probe.endpoint)
        if process and process.probed:
            process.reopen(process.probed)

    def _process(self, endpoint: BrokerEndpoint) -> _ProcessIntervals:
        process = self._processes.get(endpoint)
        if process is None:
            process = self._processes[endpoint] = _ProcessIntervals()
        self._last_endpoint, self._last = endpoint, process
        return process

    def _open(self, process: _ProcessIntervals, start: int, end: int, now: float) -> Interval:
        if process.fresh:
            process.fresh.join(Interval(start, end, now))
        else:
            process.fresh = Interval(self._first_to_probe(process, start), end, now)
        return process.fresh

    def _first_to_probe(self, process: _ProcessIntervals, start: int) -> int:
        """Return the offset to probe: compaction may have left a gap at `start`, so rather a message before it."""
        found = process.last_found
        if found is None or found >= start:
            return start
        return found if (self._queue.topic, self._queue.broker_name) in self._brokers.compacted.found else start

    # --- processes that are gone -------------------------------------------------------------------------------------

    def leave(self, gone: BrokerEndpoint, endpoint: BrokerEndpoint) -> None:
        """Give up a process that is gone for good: its responses are to be counted at another.

        Compaction changes counts, and keeps its messages apart from the log that retention deletes. So for a compacted
        topic another process is probed instead.
        """
        interval, self._last_endpoint = self._processes.pop(gone).fresh, None
        if interval is None:
            return
        if self._brokers.compacted.is_compacted(self._queue.topic, self._queue.broker_name):
            self._process(endpoint).add(interval)
        else:
            self._left.join(interval.tally)

    def leave_others(self, current: BrokerEndpoint) -> bool:
        """Give up all other processes that wait for a probe; return whether there were any."""
        processes = self._processes.items()
        others = [endpoint for endpoint, each in processes if endpoint != current and each.fresh and not each.probed]
        for endpoint in others:
            self.leave(endpoint, current)
        return bool(others)

    def unconfirmed(self) -> list[Unconfirmed]:
        """Return what processes answered that are gone for good, without the front of a range that is open there."""
        low = self._wanted.start
        if self._wanted.is_front_open:
            low = self._wanted.end if self._lowest_found is None else self._lowest_found
        return [
            Unconfirmed(QueueRange(self._queue, max(start, low), end), count)
            for start, end, count in self._left.parts()
            if end > low
        ]

    def give_up(self) -> None:
        """Report everything unconfirmed as a loss: no process can confirm it any more."""
        for process in self._processes.values():
            for interval in process.unconfirmed():
                self._policy.gap(self._queue, interval.first, interval.end)
        for wanted, _ in self.unconfirmed():
            self._policy.gap(self._queue, wanted.start, wanted.end)
        self._processes.clear()
        self._left = Tally()
        self._last_endpoint = None

    # --- judging -----------------------------------------------------------------------------------------------------

    def judge(self, probe: Probe, outcome: PullOutcome) -> float:
        """Judge an interval by its probe; return how long the queue is to pause before the next probe, in seconds."""
        process = self._processes.get(probe.endpoint)
        if process is None:
            return 0.0  # The queue was given up meanwhile.
        interval = process.probed
        assert interval is not None, "an outcome of no probe"
        pause_s = self._judge_interval(probe.endpoint, process, interval, outcome)
        process.probed = None
        return pause_s

    def _judge_interval(
        self, endpoint: BrokerEndpoint, process: _ProcessIntervals, interval: Interval, outcome: PullOutcome
    ) -> float:
        if outcome.was_reset:
            self._policy.was_reset(self._queue, interval.first, outcome.next_offset)
            process.reopen(interval)
            return _RESET_PAUSE_S
        if is_readable(interval.first, outcome):
            return 0.0
        if self._is_before_front(interval, outcome):
            self._forgive(endpoint, process, interval, outcome)
            return 0.0
        return self._confirm_gap(endpoint, process, interval, outcome)

    def _confirm_gap(
        self, endpoint: BrokerEndpoint, process: _ProcessIntervals, interval: Interval, outcome: PullOutcome
    ) -> float:
        """Confirm a gap that compaction has left, by more probes and then by the queue's minimum; report others."""
        compacted = self._brokers.compacted.is_compacted(self._queue.topic, self._queue.broker_name)
        if not compacted:
            self._report_gap(interval, outcome, is_policy_known=compacted is not None)
        elif interval.gap_probes < _PROBES_OF_A_GAP:
            interval.gap_probes += 1
            process.reopen(interval)
            return PROBE_INTERVAL_S
        elif interval.first < fetch_minimum(self._queue, endpoint, self._brokers):
            self._report_gap(interval, outcome, is_policy_known=True)
        return 0.0

    def _report_gap(self, interval: Interval, outcome: PullOutcome, *, is_policy_known: bool) -> None:
        end = interval.end
        if has_found_further(interval.first, outcome):
            end = min(lowest_readable(interval.first, outcome), end)
        try:
            self._policy.gap(self._queue, interval.first, end)
        except DataLossError as error:
            if not is_policy_known:
                error.advice += (
                    "; the broker did not tell whether the topic is compacted, which would make it no loss: grant "
                    "this user GET on the topic (request 351)"
                )
            raise

    # --- the front of a range ----------------------------------------------------------------------------------------

    def _is_before_front(self, interval: Interval, outcome: PullOutcome) -> bool:
        """Return whether what is missing lies before the first message found, in a range that begins with that."""
        if not self._wanted.is_front_open:
            return False
        return self._lowest_found is None or lowest_readable(interval.first, outcome) <= self._lowest_found

    def _forgive(
        self, endpoint: BrokerEndpoint, process: _ProcessIntervals, interval: Interval, outcome: PullOutcome
    ) -> None:
        """Forgive a gap at the open front; leave what may be readable of the interval to the next probe."""
        readable, found = lowest_readable(interval.first, outcome), self._lowest_found
        is_extent_known = has_found_further(interval.first, outcome)
        if found is not None and not is_extent_known and readable < interval.end:
            interval.first = readable
            process.reopen(interval)
            return
        end = min(readable, interval.end) if is_extent_known else interval.end
        self._forgiven.append((endpoint, Interval(interval.first, end, interval.since)))
        _log.info(
            "%s: the first message that can be read is at offset %d; the range was planned from %d (retention)",
            self._queue,
            readable if found is None else found,
            self._wanted.start,
        )

    def _note_found(self, offset: int) -> None:
        """Note the offset of a message; reopen forgiven gaps that do not lie before the lowest message any more."""
        if self._lowest_found is not None and offset >= self._lowest_found:
            return
        self._lowest_found = offset
        inside = [(endpoint, gap) for endpoint, gap in self._forgiven if gap.end > offset]
        self._forgiven = [(endpoint, gap) for endpoint, gap in self._forgiven if gap.end <= offset]
        for endpoint, gap in inside:
            self._open(self._process(endpoint), max(gap.first, offset), gap.end, gap.since)


def confirm_front(
    wanted: QueueRange,
    brokers: Brokers,
    policy: LossPolicy,
    settings: PullSettings,
    sleep: Callable[[float], object] = time.sleep,
) -> None:
    """Probe the front of a range at the master, until it is confirmed or reported to the policy.

    That confirms every response that came before, from the start of the range on.
    """
    queue, start, end, _ = wanted
    broker = brokers.routes.route(queue.topic).broker(queue.broker_name)
    endpoint = BrokerEndpoint(MASTER_ID, broker.master())
    witness, stall = Witness(wanted, brokers, policy), Deadline.after(settings.stall_timeout_s)
    witness.add_interval(endpoint, start, end)
    while not (witness.is_settled or stall.expired):
        probe = witness.take_probe(endpoint, now=0.0)
        header = pull_header(queue, settings.group, Subscription(), probe.start, 1)
        request = ServerRequest(endpoint.address, header, b"", queue.broker_name, endpoint.broker_id)
        outcome = read_outcome(brokers.servers.ask(request, welcome=PULL_CODES).command)
        sleep(witness.judge(probe, outcome))
    witness.give_up()


def fetch_minimum(queue: MessageQueue, endpoint: BrokerEndpoint, brokers: Brokers) -> int:
    """Return the minimum offset of a queue by one process; pulls of a compacted topic name that of its survivors."""
    header = GetMinOffsetRequestHeader(topic=queue.topic, queue_id=queue.queue_id)
    request = ServerRequest(endpoint.address, header, b"", queue.broker_name, endpoint.broker_id)
    return brokers.servers.ask(request).header(OffsetResponseHeader).offset
