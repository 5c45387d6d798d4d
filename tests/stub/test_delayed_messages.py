"""Tests of `broker_stub.delayed_messages`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from broker_stub.clock import Clock
from broker_stub.delayed_messages import (
    DelayedMessages,
    RecallHandle,
    decode_recall_handle,
    maybe_recall_handle,
    recall_key,
)
from broker_stub.requests import Refusal
from broker_stub.store import InnerMessage, Store
from broker_stub.topic_table import SCHEDULE_TOPIC, TIMER_TOPIC
from pyspark_rocketmq.model import Address
from pyspark_rocketmq.wire.codes import ResponseCode
from pyspark_rocketmq.wire.record import Record

FRAMES = Path(__file__).parents[1] / "golden" / "frames"
LEVELS = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
DAY_MS = 24 * 3600 * 1000


class DirectBroker:
    """A store and its delayed messages, on a clock that only `advance` moves."""

    def __init__(self, timer_limit_ms: int | None = 3 * DAY_MS) -> None:
        self.clock = Clock(frozen=True)
        self.store = Store(self.clock, Address("127.0.0.1", 10911))
        self.timer_limit_ms = timer_limit_ms
        self.delayed_messages = self.make_delays()

    def make_delays(self) -> DelayedMessages:
        """Return new `DelayedMessages` over the same store, as after a broker's restart."""
        return DelayedMessages(self.clock, self.store, self.store.put, LEVELS, self.timer_limit_ms)

    def accept(self, body: bytes = b"x", /, **properties: str) -> InnerMessage:
        """Accept a message with these properties for queue 2 of topic T."""
        message = InnerMessage("T", 2, body, properties)
        self.delayed_messages.accept(message)
        return message

    def found(self, topic: str = "T", queue_id: int = 2) -> list[Record]:
        """Return the stored messages of a queue."""
        queue = self.store.queue(topic, queue_id)
        records = [self.store.message_at(physical) for _, physical, _ in queue]
        return [record for record in records if record]


def test_a_level_delays_by_its_time() -> None:
    """A message with a level waits in its level's queue until its time is over; its properties name both queues."""
    direct = DirectBroker()
    direct.accept(b"later", DELAY="2", TAGS="a")
    waiting = direct.found(SCHEDULE_TOPIC, 1)
    assert [record.body for record in waiting] == [b"later"]
    assert direct.store.queue(SCHEDULE_TOPIC, 1).codes[0] == waiting[0].store_timestamp + 5_000
    direct.clock.advance(4_999)
    assert direct.found() == []
    direct.clock.advance(1)
    (record,) = direct.found()
    assert record.properties == {"DELAY": "2", "TAGS": "a", "REAL_TOPIC": "T", "REAL_QID": "2"}


def test_messages_of_a_level_keep_their_order() -> None:
    """Messages with the same level are delivered in the order of their arrival."""
    direct = DirectBroker()
    for number in range(50):
        direct.accept(str(number).encode(), DELAY="1")
    direct.clock.advance(1_000)
    assert [record.body for record in direct.found()] == [str(number).encode() for number in range(50)]
    assert direct.delayed_messages.delivered == {1: 50}


def test_levels_end_at_the_highest() -> None:
    """A level above the highest one counts as the highest one."""
    direct = DirectBroker()
    direct.accept(DELAY="99")
    assert [record.properties["DELAY"] for record in direct.found(SCHEDULE_TOPIC, 17)] == ["18"]
    direct.clock.advance(2 * 3600 * 1000)
    assert len(direct.found()) == 1


@pytest.mark.parametrize("level", ["0", "-1"])
def test_no_level_is_no_delay(level: str) -> None:
    """A message with level 0 or a negative level, as dead letters have, is stored at once."""
    direct = DirectBroker()
    direct.accept(DELAY=level)
    assert len(direct.found()) == 1


def test_a_half_message_is_never_delayed() -> None:
    """A half message with a level is stored at once; only its commit is delayed."""
    direct = DirectBroker()
    direct.delayed_messages.accept(InnerMessage("T", 2, b"x", {"DELAY": "1"}, sys_flag=4))
    assert len(direct.found()) == 1


def test_a_level_that_is_no_number_is_refused() -> None:
    """A level that is no number is refused with a NumberFormatException, as in Java."""
    with pytest.raises(Refusal) as refused:
        DirectBroker().accept(DELAY="soon")
    assert refused.value.response.code == ResponseCode.SYSTEM_ERROR


@pytest.mark.parametrize(
    ("name", "value", "delay_ms"),
    [("TIMER_DELAY_SEC", "7", 7_000), ("TIMER_DELAY_MS", "1500", 1_500), ("TIMER_DELIVER_MS", None, 2_345)],
)
def test_a_timer_comes_within_a_second_of_its_time(name: str, value: str | None, delay_ms: int) -> None:
    """A message with a timer is delivered at its time or at most a second later, never earlier."""
    direct = DirectBroker()
    due_ms = direct.clock.now_ms() + delay_ms
    direct.accept(**{name: value or str(due_ms)})
    assert len(direct.found(TIMER_TOPIC, 0)) == 1
    direct.clock.advance(delay_ms - 1)
    assert direct.found() == []
    direct.clock.advance(1_001)
    (record,) = direct.found()
    assert due_ms <= record.store_timestamp <= due_ms + 1_000
    assert record.properties["TIMER_DEQUEUE_MS"] == str(record.store_timestamp)
    assert {"TIMER_OUT_MS", "TIMER_ENQUEUE_MS", "REAL_TOPIC", "REAL_QID", name} < record.properties.keys()


def test_timers_overtake_each_other() -> None:
    """If a later message has an earlier delivery time, it is delivered first."""
    direct = DirectBroker()
    direct.accept(b"second", TIMER_DELAY_SEC="20")
    direct.accept(b"first", TIMER_DELAY_SEC="10")
    direct.clock.advance(60_000)
    assert [record.body for record in direct.found()] == [b"first", b"second"]


@pytest.mark.parametrize("properties", [{"TIMER_DELAY_SEC": "259201"}, {"TIMER_DELIVER_MS": "soon"}])
def test_a_timer_too_far_ahead_is_refused(properties: dict[str, str]) -> None:
    """A timer of more than three days, or one that is no number, is refused."""
    with pytest.raises(Refusal) as refused:
        DirectBroker().accept(**properties)
    assert refused.value.response.code == ResponseCode.MESSAGE_ILLEGAL
    assert "259200000ms" in (refused.value.response.remark or "")


def test_a_timer_in_the_past_comes_at_once() -> None:
    """A message whose delivery time has passed is stored at once, unchanged."""
    direct = DirectBroker()
    direct.accept(TIMER_DELIVER_MS="1700000000000")
    assert [record.properties for record in direct.found()] == [{"TIMER_DELIVER_MS": "1700000000000"}]


def test_a_level_outdoes_a_timer() -> None:
    """If a message has both a level and a timer, the level applies and the timer's properties are dropped."""
    direct = DirectBroker()
    direct.accept(DELAY="1", TIMER_DELAY_SEC="50", TIMER_DELAY_MS="50", TIMER_DELIVER_MS="50")
    direct.clock.advance(1_000)
    assert [set(record.properties) for record in direct.found()] == [{"DELAY", "REAL_TOPIC", "REAL_QID"}]


def test_4_9_7_knows_no_timers() -> None:
    """At 4.9.7 the properties of a timer are stored and have no effect."""
    direct = DirectBroker(timer_limit_ms=None)
    direct.accept(TIMER_DELAY_SEC="50")
    assert [record.properties for record in direct.found()] == [{"TIMER_DELAY_SEC": "50"}]


def test_a_recall_drops_the_message_it_names() -> None:
    """Neither a recalled message nor its recall is delivered; other messages are."""
    direct = DirectBroker()
    direct.accept(b"back", TIMER_DELAY_SEC="5", UNIQ_KEY="A")
    direct.accept(b"kept", TIMER_DELAY_SEC="5", UNIQ_KEY="B")
    direct.accept(b"0", TIMER_DELAY_SEC="5", UNIQ_KEY="A", TIMER_DEL_UNIQKEY=recall_key("T", "A"))
    direct.clock.advance(10_000)
    assert [record.body for record in direct.found()] == [b"kept"]


def test_waiting_messages_survive_a_restart() -> None:
    """After a restart each waiting message is delivered exactly once."""
    direct = DirectBroker()
    direct.accept(b"done", DELAY="1")
    direct.clock.advance(1_000)
    direct.accept(b"level", DELAY="3")
    direct.accept(b"timer", TIMER_DELAY_SEC="10")
    old = direct.delayed_messages
    direct.clock = Clock(frozen=True)
    direct.store.clock = direct.clock
    direct.delayed_messages = direct.make_delays()
    direct.delayed_messages.resume(old.delivered, old.waiting_timers, old.timers_end)
    direct.clock.advance(30_000)
    assert sorted(record.body for record in direct.found()) == [b"done", b"level", b"timer"]


def recorded_sends(scenario: str) -> list[dict[str, Any]]:
    """Return the recorded sends of a scenario, each with its response."""
    lines = map(json.loads, (FRAMES / f"{scenario}.jsonl").read_text().splitlines())
    return [client for client in lines if client["request"]["name"] == "SEND_MESSAGE_V2"]


@pytest.mark.parametrize("scenario", ["send_timer_delay_ms", "send_timer_deliver_ms", "recall_message"])
def test_recall_handles_are_read_and_written_as_recorded(scenario: str) -> None:
    """A recorded handle decodes to topic, broker, time and unique id, and these encode to the same handle."""
    (send,) = recorded_sends(scenario)
    text = send["response"]["header"]["recallHandle"]
    handle = decode_recall_handle(text)
    assert handle and handle.encode() == text
    assert (handle.topic, handle.broker_name) == (send["request"]["header"]["b"], "broker-a")
    assert handle.unique_id == send["response"]["header"]["transactionId"]


def test_only_a_waiting_timer_has_a_handle() -> None:
    """Only a message that waits for a timer has a recall handle, whose time is the delivery second plus 1 ms."""
    direct = DirectBroker()
    message = direct.accept(TIMER_DELAY_SEC="5", UNIQ_KEY="A")
    out_ms = int(message.properties["TIMER_OUT_MS"])
    expected = RecallHandle("T", "broker-a", out_ms + 1, "A").encode()
    assert maybe_recall_handle(message, "broker-a") == expected
    assert maybe_recall_handle(direct.accept(DELAY="1"), "broker-a") is None


@pytest.mark.parametrize("text", ["", "%%%", "djIgYSBiIDEgYw==", "djEgYSBi"])
def test_a_malformed_handle_is_detected(text: str) -> None:
    """Text that is no base64, has another version or too few parts is no recall handle."""
    assert decode_recall_handle(text) is None
