"""Test how the reader of a range handles outcomes: messages, gaps, losses, resets and responses without progress."""

from __future__ import annotations

import pytest

from pyspark_rocketmq.cluster.cluster import open_cluster
from pyspark_rocketmq.cluster.routes import BrokerEndpoint
from pyspark_rocketmq.cluster.settings import ClusterSettings
from pyspark_rocketmq.errors import RocketMQError, TopicNotFound
from pyspark_rocketmq.model import Address, MessageQueue, QueueRange
from pyspark_rocketmq.pull.reader import QueueReader
from pyspark_rocketmq.pull.remoting import read_outcome
from pyspark_rocketmq.pull.settings import PullSettings, Subscription
from pyspark_rocketmq.wire.header import RESPONSE_FLAG, Command
from pyspark_rocketmq.wire.record import Record, encode_record

QUEUE = MessageQueue("orders", "broker-a", 0)
NOWHERE = Address("127.0.0.1", 1)
ALL = Subscription()
MASTER, REPLICA = BrokerEndpoint(0, NOWHERE), BrokerEndpoint(1, NOWHERE)


class Told:
    """A loss policy that notes every report."""

    def __init__(self) -> None:
        self.lost: list[tuple[int, int]] = []
        self.went_back: list[tuple[int, int]] = []
        self.resets: list[int] = []

    def begins_later(self, queue: MessageQueue, planned: int, minimum: int) -> None:
        """Note that messages from `planned` to `minimum` are gone."""
        self.lost.append((planned, minimum))

    def ends_earlier(self, queue: MessageQueue, planned_end: int, maximum: int) -> None:
        """Note that the queue ends at `maximum`."""
        self.went_back.append((planned_end, maximum))

    def vanished(self, rest: QueueRange) -> None:
        """Fail, because no test expects this report."""
        raise AssertionError

    def was_reset(self, queue: MessageQueue, planned: int, reset_to: int) -> None:
        """Note that an administrator reset the group's offset."""
        self.resets.append(reset_to)

    def lacks_messages(self, queue: MessageQueue, start: int, end: int, missing_count: int | None = None) -> None:
        """Fail, because no test expects this report."""
        raise AssertionError


def reader(told: Told, subscription: Subscription = ALL) -> QueueReader:
    """Return a reader of `[98, 200)`; it is connected to no broker."""
    brokers = open_cluster(ClusterSettings((NOWHERE,))).brokers
    return QueueReader(QueueRange(QUEUE, 98, 200), brokers, PullSettings(subscription=subscription), told)


def found(offset: int, minimum: int) -> Command:
    """Return a response with one message."""
    record = Record(
        topic="orders",
        queue_id=0,
        queue_offset=offset,
        physical_offset=0,
        born_timestamp=0,
        born_host=NOWHERE,
        store_timestamp=0,
        store_host=NOWHERE,
        body=b"x",
    )
    bounds = {"nextBeginOffset": str(offset + 1), "minOffset": str(minimum), "maxOffset": "200"}
    return Command(0, fields=bounds, body=encode_record(record), flag=RESPONSE_FLAG)


def pull(reading: QueueReader, answer: Command, now: float, place: BrokerEndpoint = MASTER) -> bool:
    """Take one pull from the reader and give it this response; return whether the range advanced."""
    (asked,) = reading.take_requests(1)
    return reading.accept(asked, place, read_outcome(answer), now)


@pytest.mark.parametrize(
    ("subscription", "place"),
    [(Subscription("a"), MASTER), (Subscription("x > 1", "SQL92"), MASTER), (Subscription(), REPLICA)],
)
def test_filters_and_replicas_may_leave_gaps(subscription: Subscription, place: BrokerEndpoint) -> None:
    """If a filtered pull or a replica's response begins at a later offset, the range advances without a report."""
    assert pull(reader(Told(), subscription), found(120, minimum=0), now=10.0, place=place)


# --- outcomes without progress ---------------------------------------------------------------------------------------


def nothing(next_offset: int, maximum: int, code: int = 0, remark: str = "") -> Command:
    """Return a response without messages, with these offsets in its header."""
    bounds = {"nextBeginOffset": str(next_offset), "minOffset": "0", "maxOffset": str(maximum)}
    return Command(code, fields=bounds, remark=remark, flag=RESPONSE_FLAG)


def pull_until_over(reading: QueueReader, answer: Command) -> tuple[int, float]:
    """Pull again after each pause until the reader raises; return the number of pulls and the sum of the pauses."""
    now, count = 0.0, 0
    while True:
        now = max(now, reading.resume_at)
        try:
            assert not pull(reading, answer, now)
        except RocketMQError as error:
            assert "queue 0, offset 98" in str(error)
            return count, now
        count += 1


@pytest.mark.parametrize("answer", [nothing(98, 200), nothing(98, 300, 20), nothing(98, 200, 19), nothing(98, 250, 21)])
def test_an_answer_that_does_not_lead_on_is_no_loss(answer: Command, caplog: pytest.LogCaptureFixture) -> None:
    """If responses bring no progress before the queue's end, pauses grow up to the timeout, and no loss is reported."""
    told = Told()

    count, passed_s = pull_until_over(reader(told), answer)

    assert (told.lost, told.went_back) == ([], [])
    assert 10 < count < 100 and passed_s == pytest.approx(PullSettings().stall_timeout_s)
    assert len(caplog.records) == 1


def test_a_queue_that_ends_before_the_planned_end_is_a_loss_told_once() -> None:
    """If the maximum offset is below the range's end, it is reported once; offsets before it are pulled with pauses."""
    told = Told()
    reading = reader(told)

    count, _ = pull_until_over(reading, nothing(98, 150, 21))

    assert told.went_back == [(200, 150)]
    assert count < 100 and not reading.cursor.is_finished


def test_a_reset_that_is_repeated_is_told_once() -> None:
    """If a broker repeats a reset with each response, the policy gets one report."""
    told = Told()

    count, _ = pull_until_over(reader(told), nothing(7, 200, 21, "OFFSET_RESET"))

    assert told.resets == [7] and count < 100


def test_time_spent_elsewhere_without_a_route_is_not_time_waited() -> None:
    """Without a route, the reader raises when its pauses add up to the timeout, even if far more time passes."""
    reading, now, count = reader(Told()), 0.0, 0

    with pytest.raises(TopicNotFound, match="offset 98"):
        while True:
            now += 3600.0
            reading.handle_unreachable(TopicNotFound("no such topic"), now)
            count += 1

    assert 100 < count < 200


def test_time_spent_elsewhere_is_not_time_waited() -> None:
    """If Spark stops the task for hours between two responses without progress, the reader does not raise."""
    reading = reader(Told())

    for now in (0.0, 3600.0, 7200.0):
        assert not pull(reading, nothing(98, 200), now)
