"""Confirm responses whose missing messages cannot be found by counting: with a filter, or in compacted topics.

Any other response must hold one message for each of its offsets. A filter and compaction leave offsets out, so a
message that is missing because retention deleted it is not noticed. Nor does the queue's minimum offset tell in time:
brokers delete the log first and raise the minimum up to ten seconds later. But retention deletes the lowest offsets
first. So the offsets that the responses of one broker process cover are gathered in an *interval*. After the last of
these responses, a *probe* pulls one message without the filter at the lowest offset of the interval. If its message is
there, it was there when the responses were made, and so were all messages at higher offsets. If not, messages of the
interval may be missing.

Invariant: a response belongs to exactly one interval until a probe that was sent after the response has an outcome.
Replicas delete independently of their master, so each broker process has intervals of its own. Probes are ordinary
pulls in flight, at most one a second for each process, and one at the end of the range.

In a compacted topic, a probe that does not find its message proves nothing, since compaction may have removed the
message. It is repeated up to ten times, once a second. If the message is still not there, the queue's minimum offset
decides: by then it is up to date.

A range with an *open front* begins at its first readable message: messages missing before that one are no loss.

No decision assumes that little time has passed between two probes, because a task may be stopped in between.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ..cluster.broker import Brokers
from ..cluster.file_heads import Pulled, is_file_head
from ..cluster.routes import MASTER_ID, BrokerEndpoint
from ..cluster.servers import ServerRequest
from ..errors import DataLossError
from ..model import MessageQueue, QueueRange
from ..net.deadline import Deadline
from ..wire.commands import GetMinOffsetRequestHeader, OffsetResponseHeader
from ..wire.scan import first_queue_offset
from .loss_policy import LossPolicy
from .port import PullOutcome
from .probe import Probe, find_stored, has_found_further, is_readable, lowest_readable
from .recount import Tally, Unconfirmed, count_within
from .remoting import pull_one
from .settings import PullSettings

__all__ = ["Probe", "Witness", "confirm_front"]

PROBE_INTERVAL_S = 1.0
_PROBES_OF_A_GAP = 10
"""The number of times that a probe of a gap in a compacted topic is repeated, once a second, before the minimum offset
is requested: by then a broker has raised it, because it does so every `cleanResourceInterval` (10 s by default)."""
_RESET_PAUSE_S = 0.1
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Interval:
    """Offsets `[first, end)` that responses of one broker process covered and that no probe has confirmed."""

    first: int
    end: int
    since: float
    """The moment when the first of these responses arrived."""
    gap_probes: int = 0
    """The number of probes that have found a gap at `first`."""
    tally: Tally = field(default_factory=Tally)
    """The numbers of messages that these responses brought."""

    def join(self, other: Interval) -> None:
        """Extend this interval so that it covers another one too, and add the other's message counts.

        If `first` changes, set `gap_probes` to 0, because it counts the probes of the old `first`.
        """
        if other.first < self.first:
            self.first, self.gap_probes = other.first, 0
        self.end, self.since = max(self.end, other.end), min(self.since, other.since)
        self.tally.join(other.tally)


class _ProcessIntervals:
    """The unconfirmed intervals of one broker process: at most one that is being probed, and one for the next probe."""

    __slots__ = ("fresh", "last_found", "probed", "probed_at")

    def __init__(self) -> None:
        self.fresh: Interval | None = None
        """The offsets covered by responses since the last probe was sent."""
        self.probed: Interval | None = None
        """The offsets that the probe in flight confirms."""
        self.probed_at = float("-inf")
        self.last_found: int | None = None
        """The last offset that the latest response with messages covered; a probe of it probably finds a message."""

    def unconfirmed(self) -> list[Interval]:
        """Return the intervals that no probe has confirmed."""
        return [interval for interval in (self.probed, self.fresh) if interval]

    def reopen(self, interval: Interval) -> None:
        """Have the next probe confirm `interval`, because the last probe has not confirmed it."""
        self.probed = None
        self.add(interval)

    def add(self, interval: Interval) -> None:
        """Have the next probe confirm an interval, together with the offsets covered since the last probe was sent."""
        if self.fresh:
            interval.join(self.fresh)
        self.fresh = interval


class Witness:
    """Confirms the responses that one reader received, by probes; reports a loss to the policy if a probe shows one."""

    def __init__(self, wanted: QueueRange, brokers: Brokers, policy: LossPolicy, group: str) -> None:
        self._wanted = wanted
        self._queue = wanted.queue
        self._brokers = brokers
        self._policy = policy
        self._group = group
        self._processes: dict[BrokerEndpoint, _ProcessIntervals] = {}
        self._last_endpoint: BrokerEndpoint | None = None
        self._last = _ProcessIntervals()
        """The intervals of `_last_endpoint`, from which most responses come; saves looking them up."""
        self._lowest_found: int | None = None
        """The lowest offset of a message received; noted only if the range has an open front."""
        self._left = Tally()
        """The message counts of unconfirmed responses from processes that have left the route or fail all requests."""
        self._forgiven: list[tuple[BrokerEndpoint, Interval]] = []
        """Gaps before the lowest message received; they are probed again if a message before their end arrives."""

    def __repr__(self) -> str:
        pending = {str(endpoint.address): (each.probed, each.fresh) for endpoint, each in self._processes.items()}
        return f"<Witness of {self._queue}, {pending}>"

    @property
    def is_settled(self) -> bool:
        """Whether no response awaits confirmation by a probe of its process."""
        return not any(each.fresh or each.probed for each in self._processes.values())

    # --- responses and probes ----------------------------------------------------------------------------------------

    def add_outcome(
        self, endpoint: BrokerEndpoint, wanted: QueueRange, starts: Sequence[int], outcome: PullOutcome, now: float
    ) -> None:
        """Have the next probe of a broker process confirm this response of the process, and count its messages.

        `wanted` is the part of the response's offsets that belongs to the range; only messages in this part are
        counted. `starts` are the byte positions of the records in the response's body.
        """
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
        """Have the next probe of a broker process confirm the offsets `[start, end)`; this probe is due at once.

        No messages are counted, so these offsets cannot be recounted.
        """
        self._open(self._process(endpoint), start, end, 0.0)

    def next_probed(self, current: BrokerEndpoint | None, now: float, *, is_last: bool) -> BrokerEndpoint | None:
        """Return a process that is due for a probe, or None.

        A process is due if it has unconfirmed responses, no probe in flight, and its last probe was sent a second or
        more ago. For `current`, the process that is read from, the first of these responses must be a second old, too.
        With `is_last`, both times are ignored.
        """
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
        """Return the probe that confirms all responses of a process so far, and count the probe as in flight."""
        process = self._processes[endpoint]
        interval = process.probed = process.fresh
        assert interval is not None, "nothing to confirm"
        process.fresh, process.probed_at = None, now
        probe = Probe(interval.first, interval.first + 1)
        probe.endpoint = endpoint
        return probe

    def retry(self, probe: Probe) -> None:
        """Have the offsets of a failed probe confirmed by the next probe of the same process."""
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
        """Return the offset to probe in order to confirm offsets from `start` on: usually `start`.

        In a compacted topic there may be no message at `start`. So return a lower offset that probably has one: the
        last that the latest response with messages covered. If that is not below `start`, return `start`.
        """
        found = process.last_found
        if found is None or found >= start:
            return start
        return found if (self._queue.topic, self._queue.broker_name) in self._brokers.compacted.found else start

    # --- processes that are gone -------------------------------------------------------------------------------------

    def leave(self, gone: BrokerEndpoint, endpoint: BrokerEndpoint) -> None:
        """Stop probing the process `gone`, and remember how many messages its unconfirmed responses had.

        They will be counted again at another process. But compaction changes the number of messages, so in a compacted
        topic the process `endpoint` is probed instead: retention does not delete compacted messages.
        """
        interval, self._last_endpoint = self._processes.pop(gone).fresh, None
        if interval is None:
            return
        if self._brokers.compacted.is_compacted(self._queue.topic, self._queue.broker_name):
            self._process(endpoint).add(interval)
        else:
            self._left.join(interval.tally)

    def leave_others(self, current: BrokerEndpoint) -> bool:
        """Stop probing all processes for which the next probe is still to be sent, except `current`.

        Return whether there were any. `leave` tells what happens to their unconfirmed responses.
        """
        processes = self._processes.items()
        others = [endpoint for endpoint, each in processes if endpoint != current and each.fresh and not each.probed]
        for endpoint in others:
            self.leave(endpoint, current)
        return bool(others)

    def unconfirmed(self) -> list[Unconfirmed]:
        """Return ranges of offsets that were pulled from a process which is not probed any more, with message counts.

        No probe will confirm that their responses were complete; see `leave`. If the whole range has an open front (it
        begins at its first readable message), offsets before the lowest message received are left out.
        """
        low = self._wanted.start
        if self._wanted.is_front_open:
            low = self._wanted.end if self._lowest_found is None else self._lowest_found
        return [
            Unconfirmed(QueueRange(self._queue, max(start, low), end), count)
            for start, end, count in self._left.parts()
            if end > low
        ]

    def give_up(self) -> None:
        """Report all unconfirmed offsets to the policy as losses, because no process can confirm them any more."""
        for process in self._processes.values():
            for interval in process.unconfirmed():
                self._policy.lacks_messages(self._queue, interval.first, interval.end)
        for wanted, _ in self.unconfirmed():
            self._policy.lacks_messages(self._queue, wanted.start, wanted.end)
        self._processes.clear()
        self._left = Tally()
        self._last_endpoint = None

    # --- judging -----------------------------------------------------------------------------------------------------

    def judge(self, probe: Probe, outcome: PullOutcome) -> float:
        """Judge by a probe's outcome: confirm the probed interval, report a loss in it, or have it probed again.

        Return how long the queue is to pause, in seconds.
        """
        process = self._processes.get(probe.endpoint)
        if process is None or process.probed is None:
            return 0.0  # `give_up` has reported these offsets already.
        pause_s = self._judge_interval(probe.endpoint, process, process.probed, outcome)
        process.probed = None
        return pause_s

    def _judge_interval(
        self, endpoint: BrokerEndpoint, process: _ProcessIntervals, interval: Interval, outcome: PullOutcome
    ) -> float:
        if outcome.was_reset:
            self._policy.was_reset(self._queue, interval.first, outcome.next_offset)
            process.reopen(interval)
            return _RESET_PAUSE_S
        if is_readable(interval.first, outcome) and not self._is_file_head(endpoint, interval.first, outcome):
            return 0.0
        if self._is_before_front(interval, outcome):
            self._forgive(endpoint, process, interval, outcome)
            return 0.0
        return self._confirm_gap(endpoint, process, interval, outcome)

    def _is_file_head(self, endpoint: BrokerEndpoint, offset: int, outcome: PullOutcome) -> bool:
        """Return whether a probe of `offset` found the first record of a log file instead of the message.

        Some brokers return such a *file head* in place of a deleted message (see `cluster.file_heads`).
        """

        def fetch_place(stated: int) -> int | None:
            there = pull_one(self._brokers, endpoint, self._queue, self._group, stated)
            stored = find_stored(there) if is_readable(stated, there) else None
            return stored.physical_offset if stored else None

        pulled = Pulled(offset, outcome.next_offset, outcome.max_offset, outcome.body)
        return is_file_head(self._queue, pulled, self._brokers.settings.namespace, fetch_place)

    def _confirm_gap(
        self, endpoint: BrokerEndpoint, process: _ProcessIntervals, interval: Interval, outcome: PullOutcome
    ) -> float:
        """Handle a probe that did not find its message; return how long the queue is to pause, in seconds.

        If the topic is not compacted, or if that is unknown, report a loss. Compaction leaves gaps, too, so in a
        compacted topic repeat the probe up to ten times, and then report a loss only if the queue's minimum offset is
        above the interval's first offset.
        """
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
            self._policy.lacks_messages(self._queue, interval.first, end)
        except DataLossError as error:
            if not is_policy_known:
                error.advice += (
                    "; the broker did not tell whether the topic is compacted, which would make it no loss: grant "
                    "this user GET on the topic (request 351)"
                )
            raise

    # --- the front of a range ----------------------------------------------------------------------------------------

    def _is_before_front(self, interval: Interval, outcome: PullOutcome) -> bool:
        """Return whether the gap that a probe found lies before the first message of the range, so that it is no loss.

        Only a range with an open front may have such a gap. If messages were received, all offsets of the gap must be
        below the lowest of them.
        """
        if not self._wanted.is_front_open:
            return False
        return self._lowest_found is None or lowest_readable(interval.first, outcome) <= self._lowest_found

    def _forgive(
        self, endpoint: BrokerEndpoint, process: _ProcessIntervals, interval: Interval, outcome: PullOutcome
    ) -> None:
        """Accept the gap that a probe found before the first message of a range with an open front: it is no loss.

        If the range has brought messages, but the probe found none, it is not known where the gap ends. Then the next
        probe is for the lowest offset that may have a message.
        """
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
        """Note `offset`, that of a message received, if it is the lowest so far.

        Only below the lowest message is a gap at the open front no loss. So if a gap that was accepted reaches beyond
        `offset`, have its offsets from there on probed again.
        """
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
    """Probe the first offset of a range at the master, until the range is confirmed or reported as a loss.

    A probe that finds its message confirms the responses for offsets of the range that were received before this call.
    """
    queue, start, end, _ = wanted
    broker = brokers.routes.route(queue.topic).broker(queue.broker_name)
    endpoint = BrokerEndpoint(MASTER_ID, broker.master())
    witness, stall = Witness(wanted, brokers, policy, settings.group), Deadline.after(settings.stall_timeout_s)
    witness.add_interval(endpoint, start, end)
    while not (witness.is_settled or stall.expired):
        probe = witness.take_probe(endpoint, now=0.0)
        outcome = pull_one(brokers, endpoint, queue, settings.group, probe.start)
        sleep(witness.judge(probe, outcome))
    witness.give_up()


def fetch_minimum(queue: MessageQueue, endpoint: BrokerEndpoint, brokers: Brokers) -> int:
    """Return the minimum offset of a queue, as a broker process reports it on request.

    Responses to pulls of a compacted topic have another minimum: that of the messages which compaction has kept.
    """
    header = GetMinOffsetRequestHeader(topic=queue.topic, queue_id=queue.queue_id)
    request = ServerRequest(endpoint.address, header, b"", queue.broker_name, endpoint.broker_id)
    return brokers.servers.ask(request).header(OffsetResponseHeader).offset
