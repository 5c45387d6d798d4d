"""Read one range of one queue: choose a broker process, admit pulls, and turn outcomes into progress.

The outcome of a pull brings messages, covers offsets without messages (a gap), or shows that messages are gone (a
loss). The caller's `LossPolicy` decides whether a loss is an error. Only a master's bounds prove a loss, because a
replica may be behind its master.
"""

from __future__ import annotations

import logging

from ..cluster.broker import Brokers
from ..cluster.routes import MASTER_ID, BrokerEndpoint, Route
from ..errors import (
    AddressNotAllowed,
    DataLossError,
    DecodeError,
    NoBrokerAvailable,
    QueueMoved,
    RemoteProtocolError,
    RocketMQError,
    TopicNotFound,
    Where,
)
from ..model import Block, QueueRange
from ..wire.scan import mismatch, record_starts
from .backoff_budget import BackoffBudget, explain_refusal
from .cursor import Cursor
from .loss_policy import LossPolicy
from .port import PullOutcome, PullRequest, PullStatus
from .recount import Unconfirmed
from .replicas import Comparison, ReplicaCheck
from .settings import PullSettings, Subscription
from .witness import Probe, Witness

__all__ = ["QueueReader"]

_PROBE_STEP_S = 0.1
"""The interval at which the reader checks whether a probe is due; probes leave once a second."""
_log = logging.getLogger(__name__)


class QueueReader:
    """The reader of one range of one queue: its offsets, its broker process, its pauses and its probes."""

    def __init__(self, wanted: QueueRange, brokers: Brokers, settings: PullSettings, policy: LossPolicy) -> None:
        self.queue = wanted.queue
        self.cursor = Cursor(wanted, settings.batch_size, orderly=settings.orderly)
        self._brokers = brokers
        self._settings = settings
        self._policy = policy
        self.replicas = ReplicaCheck(wanted.queue, brokers)
        self._suggested_id = MASTER_ID
        self._chosen: tuple[Route, int, BrokerEndpoint] | None = None
        """The route, the suggested broker id, and the broker process that was chosen by both."""
        self._failures = 0
        self._budget = BackoffBudget(settings.stall_timeout_s)
        self._queue_end = wanted.end
        """The end of the range, or the end of the queue if a master has reported that it is lower."""
        self._reset_to: int | None = None
        """The offset to which an administrator has reset the group, if a broker has reported it."""
        self._unrouted: RocketMQError | None = None
        """The last error of looking up the route; None once the route names a broker process to read from."""
        self._unrouted_s = 0.0
        """The sum of the pauses since the route was lost, in seconds."""
        self._takes_all = settings.subscription.for_topic(wanted.queue.topic) == Subscription()
        self._compacted = brokers.compacted.found
        """The (topic, broker name) pairs known to be compacted; the set may grow while the range is read."""
        self._witness = None if self._takes_all else self._make_witness()
        self._probe_at = 0.0
        """The next moment to check whether a probe is due; ignored once every pull is answered."""
        self.resume_at = 0.0
        """No pull is sent before this moment."""

    def __repr__(self) -> str:
        return f"<QueueReader {self.cursor!r}, {self._failures} failures>"

    @property
    def _is_counted(self) -> bool:
        """Whether a response must hold one message for each offset that it covers: no filter, no compaction."""
        return self._takes_all and not (
            self._compacted and (self.queue.topic, self.queue.broker_name) in self._compacted
        )

    @property
    def is_finished(self) -> bool:
        """Whether `take` has returned all blocks of the range or returns the rest next, and no response awaits a probe.

        `unconfirmed` may still have ranges for a recount.
        """
        return self.cursor.is_finished and self._awaits_no_probe

    @property
    def has_more_to_pull(self) -> bool:
        """Whether offsets are still to be requested, or the probe at the end of the range is still to be answered."""
        return self.cursor.has_more_to_pull or (self._is_all_answered and not self._awaits_no_probe)

    @property
    def _is_all_answered(self) -> bool:
        return not self.cursor.has_more_to_pull and not self.cursor.in_flight_count

    @property
    def _awaits_no_probe(self) -> bool:
        return self._witness is None or self._witness.is_settled

    @property
    def unconfirmed(self) -> list[Unconfirmed]:
        """Ranges read from processes that cannot confirm them any more, with the numbers of messages read.

        Such a process has left the route or fails all requests.
        """
        return self._witness.unconfirmed() if self._witness else []

    # --- requests ----------------------------------------------------------------------------------------------------

    def choose_endpoint(self) -> BrokerEndpoint:
        """Return the broker process to pull from now; raise if the route names none."""
        route, suggested_id = self._brokers.routes.route(self.queue.topic), self._suggested_id
        if self._chosen is None or self._chosen[0] is not route or self._chosen[1] != suggested_id:
            self._chosen = route, suggested_id, self._endpoint_by(route, suggested_id)
            self._unrouted = None
        return self._chosen[2]

    def _endpoint_by(self, route: Route, suggested_id: int) -> BrokerEndpoint:
        broker = route.broker(self.queue.broker_name)
        if not self._settings.follow_suggestions:
            return BrokerEndpoint(MASTER_ID, broker.master())
        endpoint = broker.to_read(suggested_id)
        return endpoint if endpoint.is_master else self.replicas.choose(endpoint, broker, self.cursor.lowest_missing())

    def admit(self, most: int, now: float) -> int:
        """Return how many pulls may be sent now, at most `most`; pause the queue if its flow limits allow none."""
        cursor = self.cursor
        if now < self.resume_at or not cursor.has_more_to_pull:
            return 0
        if self._settings.interval_s:
            if cursor.in_flight_count:
                return 0
            most = 1
        admitted = cursor.allowance(self._settings.limits, most)
        if not admitted:
            self.resume_at = now + self._settings.flow_control_pause_s
        return admitted

    def take_requests(self, most: int) -> list[PullRequest]:
        """Return the next requests, at most `most`, and count them as in flight."""
        return self.cursor.take_requests(most)

    # --- probes and comparisons --------------------------------------------------------------------------------------

    def may_probe(self, now: float) -> bool:
        """Return whether a probe, or a pull that compares a replica with its master, may be due now.

        This is a cheap check. False is certain; after True, call `choose_probed` to know.
        """
        if (self._witness is None and not self.replicas.due) or now < self.resume_at:
            return False
        return now >= self._probe_at or bool(self.replicas.due) or self._is_all_answered

    def choose_probed(self, now: float) -> BrokerEndpoint | None:
        """Return the broker process to which a probe or comparison is to be sent now; None if none is due.

        If none is due, put off the next check by `_PROBE_STEP_S`. A process that has left the route is not probed any
        more; its responses are left to be confirmed or recounted at another process.
        """
        if self.replicas.due:
            return self.replicas.due[0]
        if self._witness is None:
            return None
        while endpoint := self._next_probed(self._witness, now):
            if self._is_routed(endpoint):
                return endpoint
            self._witness.leave(endpoint, self.choose_endpoint())
        self._probe_at = now + _PROBE_STEP_S
        return None

    def _next_probed(self, witness: Witness, now: float) -> BrokerEndpoint | None:
        current = self._chosen[2] if self._chosen else None
        return witness.next_probed(current, now, is_last=self._is_all_answered)

    def take_probe(self, endpoint: BrokerEndpoint, now: float) -> Probe | Comparison:
        """Return the probe to be sent to the process that `choose_probed` returned, and count it as in flight."""
        if self.replicas.due:
            return self.replicas.take_request()
        assert self._witness is not None, "counted responses need no witness"
        return self._witness.take_probe(endpoint, now)

    def _is_routed(self, endpoint: BrokerEndpoint) -> bool:
        """Return whether the route still names the address of the process, perhaps under another broker id."""
        endpoints = self._brokers.routes.route(self.queue.topic).broker(self.queue.broker_name).endpoints
        return any(each.address == endpoint.address for each in endpoints)

    # --- outcomes ----------------------------------------------------------------------------------------------------

    def take(self) -> list[Block]:
        """Return the blocks that are next in offset order; each block is returned only once."""
        return self.cursor.take()

    def accept(self, request: PullRequest, endpoint: BrokerEndpoint, outcome: PullOutcome, now: float) -> bool:
        """Process the outcome of a pull, a probe or a comparison.

        Return True if offsets of the range are done by a pull, or if a probe could be judged.
        """
        if type(request) is Probe:
            return self._accept_probe(request, endpoint, outcome, now)
        if type(request) is Comparison:
            return self._accept_comparison(request, endpoint, outcome)
        self._suggested_id = outcome.suggested_broker_id
        if outcome.next_offset <= request.start or outcome.status is PullStatus.OFFSET_MOVED:
            self._handle_standstill(request, endpoint, outcome, now)
            return False
        try:
            self._advance(request, endpoint, outcome, now)
        except DecodeError as error:
            error.locate(**self._where(request.start))
            raise
        return True

    def _advance(self, request: PullRequest, endpoint: BrokerEndpoint, outcome: PullOutcome, now: float) -> None:
        start, next_offset, body, is_counted = request.start, outcome.next_offset, outcome.body, self._is_counted
        if outcome.status is PullStatus.FOUND and not body and not is_counted:
            raise mismatch(self.queue, start, "has status FOUND, but holds no messages")
        # Without a filter, and without compaction, there is at most one message for every offset.
        starts = () if self._takes_all else record_starts(body)
        message_count = next_offset - start if self._takes_all and body else len(starts)
        wanted = self.cursor.accept(start, next_offset, body, message_count, is_counted)
        if wanted and not is_counted:
            self._witness = self._witness or self._make_witness()
            self._witness.add_outcome(endpoint, wanted, starts, outcome, now)
        self._failures = 0
        if self._settings.interval_s and message_count:
            self.resume_at = now + self._settings.interval_s

    def _make_witness(self) -> Witness:
        return Witness(self.cursor.wanted, self._brokers, self._policy, self._settings.group)

    def _accept_probe(self, probe: Probe, endpoint: BrokerEndpoint, outcome: PullOutcome, now: float) -> bool:
        """Let the witness judge a probe's outcome; return whether it could.

        It cannot if an administrator has reset the group's offset, or if a request fails that the witness sends for its
        judgement. Then the probe is sent again after a pause.
        """
        assert self._witness is not None, "counted responses need no witness"
        try:
            pause_s = self._witness.judge(probe, outcome)
        except DataLossError:
            raise
        except RocketMQError as error:
            self.handle_failure(probe, error.locate(address=str(endpoint.address)), now, endpoint)
            return False
        self._failures = 0
        self.resume_at = max(self.resume_at, now + pause_s)
        return not outcome.was_reset

    def _accept_comparison(self, request: Comparison, endpoint: BrokerEndpoint, outcome: PullOutcome) -> bool:
        """Accept an outcome of comparing a replica with its master; return False, because the range does not advance.

        If the replica has proved to have the master's messages, choose the broker process anew.
        """
        if self.replicas.accept(request, endpoint, outcome):
            self._chosen = None
        return False

    # --- standstill --------------------------------------------------------------------------------------------------

    def _handle_standstill(
        self, request: PullRequest, endpoint: BrokerEndpoint, outcome: PullOutcome, now: float
    ) -> None:
        """Handle an outcome without progress: a next offset not above the requested one, or the status OFFSET_MOVED.

        If an administrator has reset the group's offset, report that. If a master's bounds show a loss, report the loss
        and skip the lost offsets. Else pause, and read from the master if a replica answered; raise when the pauses
        have used up the stall timeout.
        """
        self.cursor.retry(request.start)
        if outcome.was_reset:
            self._report_reset(request, outcome)
        elif endpoint.is_master and outcome.status is not PullStatus.NO_MATCH:
            if request.start < outcome.min_offset:
                self._skip_to(outcome.min_offset)
                return
            if outcome.max_offset < self._queue_end:
                self._policy.ends_earlier(self.queue, self.cursor.wanted.end, outcome.max_offset)
                self._queue_end = outcome.max_offset
                self.cursor.stop_at(outcome.max_offset)
                return
        if not endpoint.is_master:
            self._suggested_id = MASTER_ID  # The replica may have deleted messages that the master still has.
        if request.start < self._queue_end:
            reason = _no_progress(endpoint, outcome) if endpoint.is_master else self._behind()
            self._pause_within_budget(reason, request.start, now)

    def _report_reset(self, request: PullRequest, outcome: PullOutcome) -> None:
        """Report to the policy that an administrator reset the group's offset, but only once for each new offset."""
        if outcome.next_offset != self._reset_to:
            self._reset_to = outcome.next_offset
            self._policy.was_reset(self.queue, request.start, outcome.next_offset)

    def _skip_to(self, minimum: int) -> None:
        """Continue the range at the queue's new minimum offset, and report the missing offsets before it as a loss.

        Messages missing at the open front of a range are only logged. Do nothing if no offset before `minimum` is
        missing: then the outcome of another pull has led to the same minimum before.
        """
        cursor, wanted = self.cursor, self.cursor.wanted
        missing = cursor.lowest_missing()
        if missing >= minimum:
            return
        if wanted.is_front_open and missing == wanted.start:
            _log.info("%s begins at offset %d now; the range was planned from %d", self.queue, minimum, missing)
            first = cursor.first_waiting()
            missing = minimum if first is None else cursor.lowest_missing(first)
        if missing < minimum:
            self._policy.begins_later(self.queue, missing, minimum)
        cursor.skip_to(minimum)

    # --- failures ----------------------------------------------------------------------------------------------------

    def handle_failure(self, request: PullRequest, error: RocketMQError, now: float, endpoint: BrokerEndpoint) -> None:
        """Have a failed pull or probe sent again after a pause; raise the error if retries cannot help.

        But if they cannot help because the route does not name the queue any more, raise nothing: report the unread
        rest of the range to the policy as vanished, and end the range.
        """
        if isinstance(request, Comparison):
            return  # The range is read from the master then.
        if isinstance(request, Probe) and self._witness:
            self._witness.retry(request)
        else:
            self.cursor.retry(request.start)
        if now < self.resume_at:
            return  # One incident that fails several pulls in flight counts once.
        refusal = explain_refusal(error, from_master=endpoint.is_master)
        if (refusal or error).refresh_routes:
            self._brokers.routes.expire(self.queue.topic)
            self._suggested_id = MASTER_ID
        if refusal:
            self._pause_within_budget(refusal, self.cursor.done, now)
        elif error.retriable:
            self._pause_or_raise(error, request.start, now)
        else:
            self._brokers.routes.expire(self.queue.topic)
            if self._is_readable():  # Brokers refuse queue numbers that a topic does not have any more.
                raise error.locate(**self._where(request.start))
            self._give_up_vanished()

    def handle_unprobed(self, error: RocketMQError, now: float) -> None:
        """Handle the error of connecting to the process that `choose_probed` returned, or of choosing it.

        A comparison that cannot be sent is given up without a pause: the range is read from the master.
        """
        if self.replicas.due:
            self.replicas.due.clear()
            _log.warning("reading from the master: %s", error.locate(**self._where(self.cursor.done)))
        else:
            self.handle_unreachable(error, now)

    def handle_unreachable(self, error: RocketMQError, now: float) -> None:
        """Pause because the route or the connection to the broker is missing; raise the error if it cannot be retried.

        When a broker is down, the name server drops its routes, and topics that only this broker serves have no route.
        So wait for a missing route up to the stall timeout: the route was there when the range was planned. If the
        broker suggested a replica whose address is not allowed, read from its master at once, without a pause.
        """
        if isinstance(error, AddressNotAllowed) and self._suggested_id != MASTER_ID:
            _log.warning("reading from the master: %s", error.locate(**self._where(self.cursor.done)))
            self._suggested_id = MASTER_ID
            return
        if isinstance(error, QueueMoved | TopicNotFound):
            self._await_route(error, now)
        elif error.retriable:
            self._pause_or_raise(error, self.cursor.done, now)
        else:
            raise error.locate(**self._where(self.cursor.done))
        self._brokers.routes.expire(self.queue.topic)

    def give_up(self) -> None:
        """End a range that made no progress within the stall timeout: raise the error that explains why.

        But if the route does not name the queue's broker any more, raise nothing: report the unread rest of the range
        to the policy as vanished.
        """
        if isinstance(self._unrouted, QueueMoved):
            self._give_up_vanished()
            return
        reason = (
            self._unrouted
            or self._budget.final_error(self.cursor.done)
            or self._behind(f"no progress within {self._settings.stall_timeout_s:g} s, ")
        )
        raise reason.locate(**self._where(self.cursor.done))

    def _await_route(self, error: RocketMQError, now: float) -> None:
        if self._unrouted is None:
            self._unrouted_s = 0.0
        self._unrouted, pause_s = error, self._settings.failure_pause.first_s
        if self._unrouted_s >= self._settings.stall_timeout_s:
            self.give_up()
        self._unrouted_s += pause_s
        self.resume_at = now + pause_s

    def _pause_or_raise(self, error: RocketMQError, offset: int, now: float) -> None:
        """Pause after a failure, before the next retry; raise the error if all retries are used up.

        Before raising, stop probing all processes except the current one. If any of them still awaited a probe, the
        failed request may have been one of these probes: do not raise, but begin the retries again.
        """
        if self._failures >= self._settings.max_retries:
            if not (self._witness and self._witness.leave_others(self.choose_endpoint())):
                raise error.locate(**self._where(offset))
            self._failures = 0  # The failed pull may have been a probe, at a process that is not read from any more.
        self.resume_at = now + self._settings.failure_pause.delay_s(self._failures)
        self._failures += 1

    def _pause_within_budget(self, reason: RocketMQError, offset: int, now: float) -> None:
        """Pause because of a response without progress; raise `reason` when the pauses reach the stall timeout."""
        if now >= self.resume_at:  # One incident that fails several pulls in flight counts once.
            self.resume_at = now + self._budget.next_pause_s(self.cursor.done, reason.locate(**self._where(offset)))

    def _is_readable(self) -> bool:
        """Return whether the current route lists the queue as readable."""
        return self.queue in self._brokers.routes.route(self.queue.topic).readable

    def _give_up_vanished(self) -> None:
        if self._witness:
            self._witness.give_up()
        self._policy.vanished(QueueRange(self.queue, self.cursor.done, self.cursor.wanted.end))
        self.cursor.stop_at(self.cursor.done)

    def _behind(self, since: str = "") -> NoBrokerAvailable:
        return NoBrokerAvailable(
            f"{since}{self.cursor.wanted.end - self.cursor.done} offsets are missing; "
            "the replica may be behind its master",
            advice="bring the master back, or raise pollTimeoutMs",
            topic=self.queue.topic,
            broker=self.queue.broker_name,
            queue_id=self.queue.queue_id,
            offset=self.cursor.done,
        )

    def _where(self, offset: int) -> Where:
        return {
            "topic": self.queue.topic,
            "broker": self.queue.broker_name,
            "queue_id": self.queue.queue_id,
            "offset": offset,
            "group": self._settings.group,
        }


def _no_progress(endpoint: BrokerEndpoint, outcome: PullOutcome) -> RemoteProtocolError:
    """Return the error for a master's outcome that brings no progress, although the queue has not ended."""
    status, _, low, high = outcome[:4]
    return RemoteProtocolError(
        f"the broker answers without progress: {status.name}, next offset {outcome.next_offset}, "
        f"the queue goes from {low} to {high}",
        advice="check the broker's log, or raise pollTimeoutMs",
        address=str(endpoint.address),
    )
