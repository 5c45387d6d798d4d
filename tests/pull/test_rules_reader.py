"""Each rule of the reader of a range holds: which process it reads from, and when it may pull again."""

from __future__ import annotations

from typing import Any

import pytest

from pyspark_rocketmq.broker_errors import FlowControl
from pyspark_rocketmq.cluster.routes import BrokerEndpoint
from pyspark_rocketmq.errors import AddressNotAllowed, ConnectError, ConnectionLost, RocketMQError
from pyspark_rocketmq.model import QueueRange
from pyspark_rocketmq.pull.port import PullRequest
from pyspark_rocketmq.pull.process_queue import FlowLimits
from pyspark_rocketmq.pull.reader import QueueReader
from pyspark_rocketmq.pull.remoting import read_outcome
from pyspark_rocketmq.pull.settings import PullSettings
from pyspark_rocketmq.wire.header import RESPONSE_FLAG, Command
from tests.cluster.scripted import ScriptedLinks
from tests.pull.scripted_queue import (
    FOUND,
    MASTER,
    NO_MATCH,
    QUEUE,
    REPLICA,
    ScriptedQueue,
    Told,
    brokers_of,
    record_at,
)

NOW = 100.0


class Range:
    """The reader of `[0, 200)` of a queue with a master and a replica, whose pulls a test answers."""

    def __init__(self, **given: Any) -> None:
        queues = {place: ScriptedQueue(200, lambda _: True) for place in (MASTER, REPLICA)}
        brokers = brokers_of(queues, ScriptedLinks())
        self.reader = QueueReader(QueueRange(QUEUE, 0, 200), brokers, PullSettings(**given), Told())

    def answer(self, code: int, next_offset: int, *, suggests: int = 0) -> None:
        """Take one pull from the reader, and answer it with messages up to `next_offset`, or with none."""
        [request] = self.reader.take_requests(1)
        self._accept(request, self.reader.choose_endpoint(), code, next_offset, suggests)

    def prove(self) -> None:
        """Answer the probes, if any, that the reader sends before it reads from another process."""
        self.reader.choose_endpoint()
        while self.reader.may_probe(NOW) and (place := self.reader.choose_probed(NOW)):
            probe = self.reader.take_probe(place, NOW)
            self._accept(probe, place, FOUND, probe.start + 1, place.broker_id)

    def _accept(
        self, request: PullRequest, place: BrokerEndpoint, code: int, next_offset: int, suggested_id: int
    ) -> None:
        offsets = range(request.start, next_offset) if code == FOUND else ()
        numbers = {
            "nextBeginOffset": next_offset,
            "minOffset": 0,
            "maxOffset": 200,
            "suggestWhichBrokerId": suggested_id,
        }
        body = b"".join(record_at(offset, physical_offset=1000 * offset) for offset in offsets)
        fields = {name: str(value) for name, value in numbers.items()}
        outcome = read_outcome(Command(code, fields=fields, body=body, flag=RESPONSE_FLAG))
        self.reader.accept(request, place, outcome, NOW)

    def fail(self, now: float) -> None:
        """Take one pull from the reader, and end its connection."""
        [request] = self.reader.take_requests(1)
        self.reader.handle_failure(request, ConnectionLost("scripted"), now, MASTER)


# --- the process to read from ----------------------------------------------------------------------------------------


def test_the_suggested_process_is_read_from_next() -> None:
    """Pulls go to the process that the last response suggests, and back again."""
    reading = Range()
    assert reading.reader.choose_endpoint() == MASTER
    reading.answer(FOUND, 8, suggests=1)
    reading.prove()
    assert reading.reader.choose_endpoint() == REPLICA
    reading.answer(FOUND, 16, suggests=0)
    assert reading.reader.choose_endpoint() == MASTER


def test_suggestions_are_followed_only_if_the_user_allows_it() -> None:
    """Without `follow_suggestions`, every pull goes to the master."""
    reading = Range(follow_suggestions=False)
    reading.answer(FOUND, 8, suggests=1)
    reading.prove()

    assert reading.reader.choose_endpoint() == MASTER


def test_a_replica_that_brings_no_progress_is_left_for_the_master() -> None:
    """If a replica answers without progress, the master is read next, whatever the response suggests."""
    reading = Range()
    reading.answer(FOUND, 8, suggests=1)
    reading.prove()
    reading.answer(NO_MATCH, 8, suggests=1)

    assert reading.reader.choose_endpoint() == MASTER


def test_a_replica_that_is_not_allowed_is_left_for_the_master() -> None:
    """If the suggested replica may not be connected to, the master is read without a pause; if that may not, raise."""
    reader = (reading := Range()).reader
    reading.answer(FOUND, 8, suggests=1)
    reading.prove()
    assert reader.choose_endpoint() == REPLICA
    reader.handle_unreachable(AddressNotAllowed("scripted"), NOW)

    assert reader.choose_endpoint() == MASTER
    assert reader.admit(1, NOW) == 1
    with pytest.raises(AddressNotAllowed, match=r"topic orders.*offset 8"):
        reader.handle_unreachable(AddressNotAllowed("scripted"), NOW)


@pytest.mark.parametrize("error", [AddressNotAllowed("scripted"), ConnectError("scripted")])
def test_a_comparison_that_cannot_be_sent_leaves_the_range_at_the_master(error: RocketMQError) -> None:
    """If a replica cannot be connected to, it is not compared, and the master is read without a pause or a failure."""
    reader = (reading := Range(max_retries=0)).reader
    reading.answer(FOUND, 8, suggests=1)
    assert reader.choose_endpoint() == MASTER
    assert reader.choose_probed(NOW) == reader.choose_probed(NOW) == REPLICA, "until the connection is there"
    reader.handle_unprobed(error, NOW)

    assert not reader.may_probe(NOW)
    assert (reader.choose_endpoint(), reader.admit(1, NOW)) == (MASTER, 1)


# --- pauses ----------------------------------------------------------------------------------------------------------


def test_the_interval_of_the_user_follows_messages() -> None:
    """With a pull interval one pull is in flight, and after messages the next one waits for the interval."""
    reader = (reading := Range(interval_s=2.5)).reader
    assert reader.admit(4, NOW) == 1
    [request] = reader.take_requests(1)
    assert reader.admit(4, NOW) == 0
    reader.cursor.retry(request.start)

    reading.answer(FOUND, 8)
    assert [reader.admit(4, NOW + later_s) for later_s in (0.0, 2.4, 2.5)] == [0, 0, 1]


def test_without_an_interval_pulls_go_on_at_once() -> None:
    """By default several pulls may be in flight, and no pause follows messages."""
    reader = (reading := Range()).reader
    assert reader.admit(4, NOW) == 4
    reading.answer(FOUND, 8)

    assert reader.admit(4, NOW) == 4


@pytest.mark.parametrize("pause_s", [0.0, 0.05])
def test_a_full_queue_pauses_as_the_user_wants(pause_s: float) -> None:
    """If a limit is exceeded, the reader admits no pull until the pause is over, by default until there is room."""
    reader = Range(limits=FlowLimits(message_count=32), flow_control_pause_s=pause_s).reader
    assert reader.admit(1, NOW) == 1
    reader.take_requests(2)
    assert reader.admit(1, NOW) == 0

    assert reader.resume_at == NOW + pause_s


def test_failures_pause_for_a_second_at_first_and_half_a_minute_at_most() -> None:
    """Each failure doubles the pause, from 1 s to 30 s, at random up to half shorter; the sixth one in a row is raised.

    Progress begins anew.
    """
    reading, now = Range(), NOW
    for longest_s in (1.0, 2.0, 4.0, 8.0, 16.0):
        reading.fail(now)
        pause_s = reading.reader.resume_at - now
        assert longest_s / 2 <= pause_s <= longest_s
        assert reading.reader.admit(1, now) == 0
        now = reading.reader.resume_at
    with pytest.raises(RocketMQError, match="CONNECTION_LOST"):
        reading.fail(now)


def test_only_failures_of_the_way_to_a_broker_change_the_process() -> None:
    """A replica that asks to slow down is read on; one whose connection ends is left for the master."""
    reading = Range()
    reading.answer(FOUND, 8, suggests=1)
    reading.prove()
    for error, place in ((FlowControl("scripted"), REPLICA), (ConnectionLost("scripted"), MASTER)):
        [request] = reading.reader.take_requests(1)
        reading.reader.handle_failure(request, error, reading.reader.resume_at + NOW, REPLICA)
        assert reading.reader.choose_endpoint() == place


def test_progress_forgets_failures() -> None:
    """After messages, the pause after a failure is again 1 s at most."""
    reading, now = Range(), NOW
    for _ in range(4):
        reading.fail(now)
        now = reading.reader.resume_at
    reading.answer(FOUND, 8)
    reading.fail(now)

    assert reading.reader.resume_at - now <= 1.0


def test_pauses_of_failures_end_at_half_a_minute() -> None:
    """With more retries the pause stays at 30 s at most."""
    reading, now = Range(max_retries=20), NOW
    for _ in range(12):
        reading.fail(now)
        pause_s, now = reading.reader.resume_at - now, reading.reader.resume_at
    assert 15.0 <= pause_s <= 30.0
