"""Where is this queue now, may it be asked, and what does an answer mean for its range?

A `QueueReader` turns answers into progress of its cursor: messages, stretches without any, messages that are gone.
Whether gone messages are an error is not decided here but by the `LossPolicy` of whoever reads. What a replica says
about its bounds is never taken for loss, because it may be behind its master.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property, partial
from itertools import islice
from typing import Protocol

from ..cluster.broker import Brokers
from ..cluster.routes import MASTER_ID, Place, Route
from ..errors import (
    DataLossError,
    DecodeError,
    NoBrokerAvailable,
    QueueMoved,
    RemoteProtocolError,
    RocketMQError,
    TopicNotFound,
    Where,
)
from ..model import Block, MessageQueue, QueueRange
from ..wire.header import Command
from ..wire.scan import mismatch, record_starts
from ..wire.session import Writer
from .cursor import Cursor, Request
from .outcome import Outcome, PullStatus, read_outcome
from .patience import Patience, put_off
from .settings import PullSettings, Subscription
from .template import PullTemplate
from .witness import Look, Unvouched, Witness

__all__ = ["LossPolicy", "QueueReader"]

_LOOK_STEP_S = 0.1
"""How often it is seen whether a look is due; looks leave once a second."""
_log = logging.getLogger(__name__)


class LossPolicy(Protocol):
    """Says what to do about messages that should be there and are not; each may raise to end the reading."""

    def begins_later(self, queue: MessageQueue, planned: int, minimum: int) -> None:
        """Messages from `planned` to `minimum` are gone."""

    def ends_earlier(self, queue: MessageQueue, planned_end: int, maximum: int) -> None:
        """The queue ends at `maximum`, before the end of the range."""

    def vanished(self, rest: QueueRange) -> None:
        """The queue is not in the route any more."""

    def was_reset(self, queue: MessageQueue, planned: int, reset_to: int) -> None:
        """An admin moved the group; never a loss for a reader of ranges."""

    def gap(self, queue: MessageQueue, start: int, end: int, missing_count: int | None = None) -> None:
        """Messages within [start, end) are gone, so many if that is known; the bounds are no finer."""


class QueueReader:
    """Reads one range of one queue."""

    def __init__(self, wanted: QueueRange, brokers: Brokers, settings: PullSettings, policy: LossPolicy) -> None:
        self.queue = wanted.queue
        self.cursor = Cursor(wanted, settings.batch_size, orderly=settings.orderly)
        self._template = PullTemplate(brokers.settings, wanted.queue, settings)
        self._brokers = brokers
        self._settings = settings
        self._policy = policy
        self._suggested_id = MASTER_ID
        self._placed: tuple[Route, int, Place] | None = None
        """The last place, and the route and suggestion it comes from."""
        self._failures = 0
        self._patience = Patience(settings.stall_timeout_s)
        self._queue_end = wanted.end
        """Where the queue ends before the planned end, once that was told."""
        self._reset_to: int | None = None
        """Where an administrator moved the group, once that was told."""
        self._unrouted: RocketMQError | None = None
        """Why the route names no place to read from."""
        self._unrouted_s = 0.0
        """The sum of the pauses since the route names none."""
        self._takes_all = settings.subscription.for_topic(wanted.queue.topic) == Subscription()
        self._compacted = brokers.compacted.found
        """Grows when decoding finds holes in what was counted, and asks why."""
        self._witness = None if self._takes_all else Witness(wanted, brokers, policy)
        self._look_at = 0.0
        """No look is due before this moment, unless everything is answered."""
        self.resume_at = 0.0
        """No pull is sent before this moment."""

    def __repr__(self) -> str:
        return f"<QueueReader {self.cursor!r}, {self._failures} failures>"

    @property
    def _is_counted(self) -> bool:
        """Whether an answer must hold one message for each offset that it covers; decoding compares the counts."""
        return self._takes_all and not (
            self._compacted and (self.queue.topic, self.queue.broker_name) in self._compacted
        )

    @property
    def is_finished(self) -> bool:
        """Whether everything has been handed out, and vouched for where it cannot be counted."""
        return self.cursor.is_finished and self._is_vouched_for

    @property
    def has_more_to_ask(self) -> bool:
        """Whether some offsets are neither in flight nor answered, or what came in is still to be vouched for."""
        return self.cursor.has_more_to_ask or (self._is_all_answered and not self._is_vouched_for)

    @property
    def _is_all_answered(self) -> bool:
        return not self.cursor.has_more_to_ask and not self.cursor.in_flight_count

    @property
    def _is_vouched_for(self) -> bool:
        return self._witness is None or self._witness.is_settled

    # --- asking ------------------------------------------------------------------------------------------------------

    def place(self) -> Place:
        """Where to pull from now."""
        route, suggested_id = self._brokers.routes.route(self.queue.topic), self._suggested_id
        if self._placed is None or self._placed[0] is not route or self._placed[1] != suggested_id:
            self._placed = route, suggested_id, self._place_by(route, suggested_id)
            self._unrouted = None
        return self._placed[2]

    def _place_by(self, route: Route, suggested_id: int) -> Place:
        broker = route.broker(self.queue.broker_name)
        if not self._settings.follow_suggestions:
            return Place(MASTER_ID, broker.master())
        return broker.to_read(suggested_id)

    def allowance(self, most: int, now: float) -> int:
        """How many pulls may be sent: while it does not pause, and as many as there is room for what they may bring."""
        cursor = self.cursor
        if now < self.resume_at or not cursor.has_more_to_ask:
            return 0
        if self._settings.interval_s:
            if cursor.in_flight_count:
                return 0
            most = 1
        allowed = cursor.allowance(self._settings.limits, most)
        if not allowed:
            self.resume_at = now + self._settings.flow_control_pause_s
        return allowed

    def next_requests(self, most: int) -> list[Request]:
        """What to ask for next, now counted as in flight."""
        return list(islice(iter(self.cursor.next_request, None), most))

    def writer(self, requests: Sequence[Request]) -> Writer:
        """What writes the frames of requests."""
        return partial(self._template.frames, requests)

    def can_look(self, now: float) -> bool:
        """Whether somebody has to vouch for answers, perhaps now; asking for more costs more."""
        if self._witness is None or now < self.resume_at:
            return False
        return now >= self._look_at or self._is_all_answered

    def schedule_look(self, now: float) -> Place | None:
        """Return the process to which a look is to be sent now; if there is none, put the next check off.

        Processes that have left the route are given up first.
        """
        assert self._witness is not None, "whose answers are counted needs no witness"
        while place := self._place_to_look(self._witness, now):
            if self._is_routed(place):
                return place
            self._witness.leave(place, self.place())
        self._look_at = now + _LOOK_STEP_S
        return None

    def _place_to_look(self, witness: Witness, now: float) -> Place | None:
        current = self._placed[2] if self._placed else None
        return witness.place_to_look(current, now, is_last=self._is_all_answered)

    def look(self, place: Place, now: float) -> Look:
        """Return the look to be sent there, now counted as in flight."""
        assert self._witness is not None, "whose answers are counted needs no witness"
        return self._witness.look(place, now)

    def look_writer(self, look: Look) -> Writer:
        """Return what writes the frame of a look."""
        return partial(self._look_template.frames, [look])

    @cached_property
    def _look_template(self) -> PullTemplate:
        everything = replace(self._settings, subscription=Subscription())
        return PullTemplate(self._brokers.settings, self.queue, everything)

    def _is_routed(self, place: Place) -> bool:
        """Whether the route still names the process, be it by another number."""
        places = self._brokers.routes.route(self.queue.topic).broker(self.queue.broker_name).endpoints
        return any(each.address == place.address for each in places)

    # --- answers -----------------------------------------------------------------------------------------------------

    @property
    def unvouched(self) -> list[Unvouched]:
        """What was handed out, and for which nobody is left to vouch."""
        return self._witness.unvouched() if self._witness else []

    def take(self) -> list[Block]:
        """The blocks that are next in offset order."""
        return self.cursor.take()

    def answered(self, request: Request, place: Place, answer: Command, now: float) -> bool:
        """Take an answer in; whether it brought the range forward."""
        if type(request) is Look:
            return self._looked(request, place, answer, now)
        try:
            outcome = read_outcome(answer)
        except RocketMQError as error:
            self.failed(request, error.locate(address=str(place.address)), now, place)
            return False
        self._suggested_id = outcome.suggested_broker_id
        if outcome.next_offset <= request.start or outcome.status is PullStatus.OFFSET_MOVED:
            self._no_progress(request, place, outcome, now)
            return False
        try:
            return self._progress(request, place, outcome, now)
        except DecodeError as error:
            error.locate(**self._whence(request.start))
            raise

    def failed(self, request: Request, error: RocketMQError, now: float, place: Place | None = None) -> None:
        """A pull brought nothing: ask again after a pause, or raise if that is hopeless."""
        if isinstance(request, Look) and self._witness:
            self._witness.failed(request)
        else:
            self.cursor.failed(request.start)
        if now < self.resume_at:
            return  # One incident that hit several pulls in flight counts once.
        reason = put_off(error, from_master=place is None or place.is_master)
        if (reason or error).refresh_routes:
            self._brokers.routes.expire(self.queue.topic)
            self._suggested_id = MASTER_ID
        if reason:
            self._pause_patiently(reason, self.cursor.done, now)
        elif error.retriable:
            self._pause(error, request.start, now)
        elif self._has_left_the_route():
            self._give_up_vanished()
        else:
            raise error.locate(**self._whence(request.start))

    def unplaced(self, error: RocketMQError, now: float) -> None:
        """There is no place to read from, or no way to it: try again after a pause, or raise if that is hopeless.

        A broker that is away takes its routes along, and its topics where it is the only one. So what is not routed is
        waited for as long as a task may stand still: it was there when the range was planned.
        """
        if isinstance(error, QueueMoved | TopicNotFound):
            self._await_route(error, now)
        elif error.retriable:
            self._pause(error, self.cursor.done, now)
        else:
            raise error.locate(**self._whence(self.cursor.done))
        self._brokers.routes.expire(self.queue.topic)

    def give_up(self) -> None:
        """Nothing came for as long as a task may stand still: raise, or give the range up by the policy."""
        if isinstance(self._unrouted, QueueMoved):
            self._give_up_vanished()
            return
        reason = (
            self._unrouted
            or self._patience.verdict(self.cursor.done)
            or self._behind(f"no progress within {self._settings.stall_timeout_s:g} s, ")
        )
        raise reason.locate(**self._whence(self.cursor.done))

    def _await_route(self, error: RocketMQError, now: float) -> None:
        if self._unrouted is None:
            self._unrouted_s = 0.0
        self._unrouted, pause_s = error, self._settings.failure_pause.first_s
        if self._unrouted_s >= self._settings.stall_timeout_s:
            self.give_up()
        self._unrouted_s += pause_s
        self.resume_at = now + pause_s

    def _pause(self, error: RocketMQError, offset: int, now: float) -> None:
        """Wait and count, or raise what has been waited for often enough."""
        if self._failures >= self._settings.max_retries:
            if not (self._witness and self._witness.leave_others(self.place())):
                raise error.locate(**self._whence(offset))
            self._failures = 0  # What failed was perhaps a look, at a process from which nothing is read any more.
        self.resume_at = now + self._settings.failure_pause.delay_s(self._failures)
        self._failures += 1

    def _pause_patiently(self, reason: RocketMQError, offset: int, now: float) -> None:
        """Wait for a broker that is there but gives nothing, or raise that it has done so for too long."""
        if now >= self.resume_at:  # One incident that hit several pulls in flight counts once.
            self.resume_at = now + self._patience.next_pause_s(self.cursor.done, reason.locate(**self._whence(offset)))

    def _has_left_the_route(self) -> bool:
        """Whether a fresh route does not name the queue; brokers refuse numbers beyond a topic's queues."""
        self._brokers.routes.expire(self.queue.topic)
        return self.queue not in self._brokers.routes.route(self.queue.topic).readable

    def _give_up_vanished(self) -> None:
        if self._witness:
            self._witness.give_up()
        self._policy.vanished(QueueRange(self.queue, self.cursor.done, self.cursor.wanted.end))
        self.cursor.stop_at(self.cursor.done)

    def _progress(self, request: Request, place: Place, outcome: Outcome, now: float) -> bool:
        """Take messages in; that brought the range forward."""
        start, next_offset, body = request.start, outcome.next_offset, outcome.body
        if outcome.status is PullStatus.FOUND and not body and not self._is_counted:
            raise mismatch(self.queue, start, "says that messages were found, and holds none")
        # Without a filter, and without holes, there is at most one message for every offset.
        starts = () if self._takes_all else record_starts(body)
        message_count = next_offset - start if self._takes_all and body else len(starts)
        is_counted = self._is_counted
        wanted = self.cursor.answered(start, next_offset, body, message_count, is_counted)
        if wanted and not is_counted:
            self._witness = self._witness or Witness(self.cursor.wanted, self._brokers, self._policy)
            self._witness.took_in(place, wanted, starts, outcome, now)
        self._failures = 0
        if self._settings.interval_s and message_count:
            self.resume_at = now + self._settings.interval_s
        return True

    def _looked(self, look: Look, place: Place, answer: Command, now: float) -> bool:
        """Take the answer to a look in; whether there was one."""
        assert self._witness is not None, "whose answers are counted needs no witness"
        try:
            outcome = read_outcome(answer)
            pause_s = self._witness.answered(look, outcome)
        except DataLossError:
            raise
        except RocketMQError as error:
            self.failed(look, error.locate(address=str(place.address)), now, place)
            return False
        self._failures = 0
        self.resume_at = max(self.resume_at, now + pause_s)
        return not outcome.was_reset

    def _no_progress(self, request: Request, place: Place, outcome: Outcome, now: float) -> None:
        """Nothing at this offset: it is gone, or not there yet, or the broker wants to be asked elsewhere."""
        self.cursor.failed(request.start)
        if outcome.was_reset:
            self._tell_reset(request, outcome)
        elif place.is_master and outcome.status is not PullStatus.NO_MATCH:
            if request.start < outcome.min_offset:
                self._skip_to(outcome.min_offset)
                return
            if outcome.max_offset < self._queue_end:
                self._policy.ends_earlier(self.queue, self.cursor.wanted.end, outcome.max_offset)
                self._queue_end = outcome.max_offset
                self.cursor.stop_at(outcome.max_offset)
                return
        if not place.is_master:
            self._suggested_id = MASTER_ID  # Whatever the replica suggests: it may have deleted what the master has.
        if request.start < self._queue_end:
            reason = _no_way_on(place, outcome) if place.is_master else self._behind()
            self._pause_patiently(reason, request.start, now)

    def _tell_reset(self, request: Request, outcome: Outcome) -> None:
        """Brokers say it with one answer; who repeats it is not listened to."""
        if outcome.next_offset != self._reset_to:
            self._reset_to = outcome.next_offset
            self._policy.was_reset(self.queue, request.start, outcome.next_offset)

    def _skip_to(self, minimum: int) -> None:
        """What is missing below the minimum is gone; several pulls in flight may tell, in any order."""
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

    def _whence(self, offset: int) -> Where:
        return {
            "topic": self.queue.topic,
            "broker": self.queue.broker_name,
            "queue_id": self.queue.queue_id,
            "offset": offset,
            "group": self._settings.group,
        }


def _no_way_on(place: Place, outcome: Outcome) -> RemoteProtocolError:
    """The error for a master's answer by which reading cannot go on, though the queue has more."""
    status, _, low, high = outcome[:4]
    return RemoteProtocolError(
        f"the broker answers without progress: {status.name}, next offset {outcome.next_offset}, "
        f"the queue goes from {low} to {high}",
        advice="look at the broker's log, or raise pollTimeoutMs",
        address=str(place.address),
    )
