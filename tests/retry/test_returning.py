"""Rows are sent back in bursts, with an outcome for each row, and without waiting for ever."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from broker_stub import StubBroker, StubCluster
from broker_stub.settings import Settings
from pyspark_rocketmq.cluster.cluster import open_cluster
from pyspark_rocketmq.cluster.links import BURST
from pyspark_rocketmq.errors import BrokerError, OptionError, RocketMQError
from pyspark_rocketmq.net.backoff import Backoff
from pyspark_rocketmq.options import parse_helper_options
from pyspark_rocketmq.retry.returning import Outcome, Returned, Returner, ReturnSettings
from pyspark_rocketmq.wire.codes import RequestCode, ResponseCode

TOPIC, GROUP = "orders", "spark-orders"
RETRY, DEAD = f"%RETRY%{GROUP}", f"%DLQ%{GROUP}"
LEVELS_S = [10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200]
"""The delays after which a broker delivers a row for the first, second ... retry."""
SEND_BACK = RequestCode.CONSUMER_SEND_MSG_BACK


@pytest.fixture
def stub() -> Iterator[StubBroker]:
    """Start one broker whose clock moves only when a test advances it."""
    with StubBroker({TOPIC: 1}, frozen_clock=True) as broker:
        yield broker


class Task:
    """A task that sends rows back, and the pauses that it made."""

    def __init__(self, stub: StubCluster, most: int = 16, retries: int = 3, **given: str) -> None:
        options = parse_helper_options({"nameServer": stub.name_server, **given}, env={})
        settings = replace(options.cluster, retries=retries, pause=Backoff(first_s=1.0, longest_s=1.0))
        self.pauses: list[float] = []
        self._returner = Returner(open_cluster(settings), ReturnSettings(GROUP, most), self.pauses.append)

    def send_back(self, *rows: Returned) -> list[Outcome]:
        """Send the rows back, and return their outcomes in order."""
        outcomes = self._returner.send_back(dict(enumerate(rows)))
        return [outcomes[number] for number in range(len(rows))]

    def fail(self, *rows: Returned) -> list[RocketMQError]:
        """Send the rows back, and return the errors of those that were not accepted."""
        return [error for error in self.send_back(*rows) if error]


def rows_of(stub: StubCluster, topic: str = TOPIC, *, broker: str = "broker-a", level: int = 0) -> list[Returned]:
    """Return a row for each message of a topic at a broker, as a reader would."""
    found = stub.messages(topic, broker=broker)
    unique = (record.properties.get("UNIQ_KEY", record.offset_message_id) for record in found)
    places = (record.physical_offset for record in found)
    return [Returned(topic, broker, place, name, level) for place, name in zip(places, unique, strict=True)]


def test_rows_come_again_after_the_levels_delay(stub: StubBroker) -> None:
    """A row is delivered again after the delay, with its body, properties, origin and number of deliveries."""
    stub.put(TOPIC, b"later", tags="t", keys="k", properties={"colour": "red"})
    assert Task(stub).send_back(*rows_of(stub)) == [None]
    stub.clock.advance(9_999)
    assert stub.messages(RETRY) == []
    stub.clock.advance(1)
    [retried], [first] = stub.messages(RETRY), stub.messages(TOPIC)
    assert (retried.body, retried.reconsume_times) == (b"later", 1)
    assert retried.properties["ORIGIN_MESSAGE_ID"] == first.offset_message_id
    told = {"TAGS": "t", "KEYS": "k", "colour": "red", "RETRY_TOPIC": TOPIC}
    assert told.items() <= retried.properties.items()


def test_delays_grow_and_end_among_the_dead_letters(stub: StubBroker) -> None:
    """A row is delivered again sixteen times, with growing delays, and then becomes a dead letter."""
    stub.put(TOPIC, b"poison")
    task, topic = Task(stub), TOPIC
    for times, delay_s in enumerate(LEVELS_S):
        assert task.send_back(rows_of(stub, topic)[-1]) == [None]
        stub.clock.advance(delay_s * 1000 - 1)
        assert len(stub.messages(RETRY)) == times
        stub.clock.advance(1)
        assert stub.messages(RETRY)[-1].reconsume_times == times + 1
        topic = RETRY
    assert stub.messages(DEAD) == [] and task.send_back(rows_of(stub, RETRY)[-1]) == [None]
    [letter] = stub.messages(DEAD)
    assert (letter.body, letter.reconsume_times, letter.properties["RETRY_TOPIC"]) == (b"poison", 17, TOPIC)


@pytest.mark.parametrize(("level", "most", "place"), [(-1, 16, DEAD), (0, 0, DEAD), (1, 16, RETRY)])
def test_a_row_may_have_a_level_of_its_own(stub: StubBroker, level: int, most: int, place: str) -> None:
    """A row becomes a dead letter with level -1 or if no retries are allowed; with level 1 it is delivered again."""
    stub.put(TOPIC, b"x")
    assert Task(stub, most).send_back(*rows_of(stub, level=level)) == [None]
    stub.clock.advance(1_000)
    assert [record.body for record in stub.messages(place)] == [b"x"]


def test_many_rows_go_to_all_brokers_at_once() -> None:
    """More rows than one burst are all sent back over one connection to each broker."""
    with StubCluster(2, topics={TOPIC: 1}, frozen_clock=True) as stub:
        count = BURST + 100
        for broker in ("broker-a", "broker-b"):
            stub.fill(TOPIC, count, 100, broker=broker)
        rows = [*rows_of(stub), *rows_of(stub, broker="broker-b")]
        assert Task(stub).send_back(*rows) == [None] * 2 * count
        assert len(stub.connections()) == 2
        stub.clock.advance(10_000)
        assert [len(stub.messages(RETRY, broker=name)) for name in ("broker-a", "broker-b")] == [count] * 2


def test_what_has_no_place_is_refused_by_row(stub: StubBroker) -> None:
    """If rows lack a column or have a wrong level, they get an `OptionError` each, and the other row is sent back."""
    stub.put(TOPIC, b"x")
    [row] = rows_of(stub)
    nothing: Any = None
    odd = [row._replace(**{name: nothing}) for name in ("topic", "broker_name", "physical_offset")]
    outcomes = Task(stub).send_back(*odd, row._replace(delay_level=19), row._replace(delay_level=-2), row)
    assert [str(error).split(":")[0] for error in outcomes if error] == [
        "[OPTION_VALUE] topic",
        "[OPTION_VALUE] brokerName",
        "[OPTION_VALUE] commitLogOffset",
        "[OPTION_VALUE] delayLevel = '19'",
        "[OPTION_VALUE] delayLevel = '-2'",
    ]
    assert all(isinstance(error, OptionError) for error in outcomes[:-1]) and outcomes[-1] is None


def test_a_message_that_is_gone_is_told_by_its_row(stub: StubBroker) -> None:
    """If the broker no longer has a row's message, the row gets its error, and the other row is sent back once."""
    stub.put(TOPIC, b"x")
    [row] = rows_of(stub)
    gone, taken = Task(stub).send_back(row._replace(physical_offset=10**9), row)
    assert isinstance(gone, BrokerError) and "look message by offset failed" in str(gone) and taken is None
    stub.clock.advance(10_000)
    assert len(stub.messages(RETRY)) == 1


def test_a_retry_topic_that_takes_nothing_is_told(stub: StubBroker) -> None:
    """If the retry topic is not writable, the outcome is an error that names broker and group; the row is sent once."""
    stub.put(TOPIC, b"x")
    stub.state.brokers[0].topics.find_or_create(RETRY, 1, perm=4)
    task = Task(stub)
    [error] = task.fail(*rows_of(stub))
    assert error.code == "BROKER_NO_PERMISSION" and "broker-a" in str(error) and GROUP in str(error)
    assert task.pauses == []


def test_a_group_that_may_not_be_made_is_told() -> None:
    """If the group does not exist and the broker does not create it, the row is not accepted."""
    with StubBroker({TOPIC: 1}, settings=Settings(auto_create_groups=False)) as stub:
        stub.put(TOPIC, b"x")
        [error] = Task(stub).fail(*rows_of(stub))
        assert error.code == "BROKER_SUBSCRIPTION_GROUP_NOT_EXIST"


def test_a_broker_that_nobody_knows_is_given_up(stub: StubBroker) -> None:
    """If a broker is not in the route, rows are tried again until no pauses are left; later rows fail at once."""
    stub.fill(TOPIC, 3, 10)
    task = Task(stub)
    rows = [row._replace(broker_name="broker-z") for row in rows_of(stub)]
    assert {error.code for error in task.fail(*rows)} == {"QUEUE_MOVED"} and len(task.pauses) == 3
    assert len(task.fail(*rows)) == 3 and len(task.pauses) == 3


def test_what_may_succeed_later_is_asked_for_again(stub: StubBroker) -> None:
    """If a broker is busy for some rows, these are sent again after a pause, and every row is stored once."""
    stub.fill(TOPIC, 5, 10)
    stub.faults.busy(on=SEND_BACK, times=2)
    task = Task(stub)
    assert task.send_back(*rows_of(stub)) == [None] * 5 and len(task.pauses) == 1
    stub.clock.advance(10_000)
    assert len(stub.messages(RETRY)) == 5


def test_a_task_pauses_a_few_times_in_all(stub: StubBroker) -> None:
    """If a broker stays busy, the task makes three pauses in all its rounds together."""
    stub.put(TOPIC, b"x")
    stub.faults.answer(ResponseCode.SYSTEM_BUSY, on=SEND_BACK, times=None)
    task = Task(stub)
    assert [len(task.fail(*rows_of(stub))) for _ in range(4)] == [1, 1, 1, 1]
    assert len(task.pauses) == 3


def test_a_broker_that_does_not_answer_is_asked_no_more(stub: StubBroker) -> None:
    """If a broker does not answer, the first round waits for the timeout, and later rounds fail without a request."""
    stub.fill(TOPIC, BURST + 1, 10)
    asked = stub.faults.drop_reply(on=SEND_BACK, times=None)
    task, started = Task(stub, retries=0, mqClientApiTimeout="300"), time.monotonic()
    errors = task.fail(*rows_of(stub))
    assert len(errors) == BURST + 1 and {error.code for error in errors} == {"REQUEST_TIMEOUT"}
    assert asked.fired <= BURST and time.monotonic() - started < 5


def test_a_lost_answer_may_bring_a_row_twice(stub: StubBroker) -> None:
    """If the response to a row is lost, the row is sent again and delivered twice."""
    stub.put(TOPIC, b"x")
    stub.faults.drop_reply(on=SEND_BACK)
    assert Task(stub, mqClientApiTimeout="300").send_back(*rows_of(stub)) == [None]
    stub.clock.advance(10_000)
    assert [record.body for record in stub.messages(RETRY)] == [b"x", b"x"]


@pytest.mark.parametrize("lose", ["drop_reply", "cut_reply"])
def test_no_row_comes_oftener_than_twice(stub: StubBroker, lose: str) -> None:
    """If all responses are lost, a row is stored at most twice, even if the task may still pause."""
    stub.fill(TOPIC, 5, 10)
    getattr(stub.faults, lose)(on=SEND_BACK, times=None)
    task = Task(stub, mqClientApiTimeout="300")
    assert len(task.fail(*rows_of(stub))) == 5 and len(task.pauses) == 1
    stub.clock.advance(10_000)
    copies = Counter(record.properties["ORIGIN_MESSAGE_ID"] for record in stub.messages(RETRY))
    assert copies and max(copies.values()) <= 2


def test_what_was_surely_not_taken_is_asked_for_as_often_as_may_be(stub: StubBroker) -> None:
    """If a broker is busy before and after a lost response, the row is still sent again until it is accepted."""
    stub.put(TOPIC, b"x")
    stub.faults.busy(on=SEND_BACK)
    stub.faults.drop_reply(on=SEND_BACK)
    stub.faults.busy(on=SEND_BACK)
    task = Task(stub, mqClientApiTimeout="300")
    assert task.send_back(*rows_of(stub)) == [None] and len(task.pauses) == 3
    stub.clock.advance(10_000)
    assert len(stub.messages(RETRY)) == 2


def test_names_are_those_of_the_namespace() -> None:
    """With a namespace, the retry topic has the namespace before the group's name."""
    with StubBroker({"NS%orders": 1}, frozen_clock=True) as stub:
        stub.put("NS%orders", b"x")
        [row] = rows_of(stub, "NS%orders")
        assert Task(stub, namespace="NS").send_back(row._replace(topic=TOPIC)) == [None]
        stub.clock.advance(10_000)
        assert [record.body for record in stub.messages(f"%RETRY%NS%{GROUP}")] == [b"x"]
