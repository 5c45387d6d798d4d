"""Asynchronous sends: futures, limits, and the end of a producer."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from itertools import count
from typing import Any

import pytest

from broker_stub.faults import NAME_SERVER
from pyspark_rocketmq.client import async_sends
from pyspark_rocketmq.client.producer import Producer
from pyspark_rocketmq.client.settings import ProducerSettings
from pyspark_rocketmq.cluster.messages import Receipt
from pyspark_rocketmq.errors import LocalProtocolError, OptionError, SendError
from pyspark_rocketmq.model import Message
from pyspark_rocketmq.wire.codes import RequestCode, ResponseCode
from tests.client.fixtures import BROKER, TIMEOUT_S, TOPIC, Group, queue, until
from tests.net.fixtures import forks, in_child

SEND = RequestCode.SEND_MESSAGE_V2


def test_each_future_gets_its_receipt(group: Group) -> None:
    """Messages sent from several threads are stored once each, and each future has the receipt of its own message."""
    producer, futures = group.producer(), dict[bytes, Future[Receipt]]()

    def send(first: int) -> None:
        for number in range(first, first + 100):
            body = b"%d" % number
            futures[body] = producer.send_async(Message(TOPIC, body, tags="t"))

    threads = [threading.Thread(target=send, args=(first,)) for first in (0, 100, 200)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(TIMEOUT_S)

    assert len(futures) == 300
    for body, future in futures.items():
        receipt = future.result(TIMEOUT_S)
        record = group.stub.messages(TOPIC, receipt.queue.queue_id)[receipt.queue_offset]
        assert (record.body, record.offset_message_id) == (body, receipt.message_id)
    assert Counter(future.result().queue for future in futures.values()).keys() == {queue(n) for n in range(4)}


def test_a_lone_message_does_not_wait_for_others(group: Group) -> None:
    """A single asynchronous send is stored at once, also when the producer was idle."""
    producer = group.producer()
    for _ in range(3):
        begun = time.monotonic()
        assert producer.send_async(Message(TOPIC, b"x"), queue(2)).result(TIMEOUT_S).queue == queue(2)
        assert time.monotonic() - begun < 1.0
        time.sleep(0.02)


@pytest.mark.parametrize("way", ["send", "send_async"])
def test_a_selector_chooses_the_queue(group: Group, way: str) -> None:
    """The selector gets the topic's writable queues and the message, and the message goes where it says."""
    given = []

    def select(queues: object, message: Message) -> object:
        given.append((queues, message))
        return queues[3]  # type: ignore[index]

    message = Message(TOPIC, b"x")
    sent = getattr(group.producer(), way)(message, select=select)
    receipt = sent.result(TIMEOUT_S) if way == "send_async" else sent

    assert receipt.queue == queue(3) and given == [(tuple(queue(n) for n in range(4)), message)]


@pytest.mark.parametrize(
    "wrong", [{"select": lambda queues, _: 3}, {"select": 3}, {"select": lambda q, _: q[0], "queue": queue(0)}]
)
def test_a_wrong_selector_is_refused(group: Group, wrong: dict[str, object]) -> None:
    """A selector that returns no queue, is no function, or comes with a queue raises an error that names it."""
    producer = group.producer()
    for way in (producer.send, producer.send_async):
        with pytest.raises(OptionError, match="select"):
            way(Message(TOPIC, b"x"), **wrong)  # type: ignore[arg-type]


def test_a_failed_send_raises_in_its_future(group: Group) -> None:
    """A refusal is a `SendError` with one failed message; a lost response is one with an unknown message."""
    producer = group.producer(send_timeout_s=0.4, retries=0)
    group.stub.faults.answer(ResponseCode.MESSAGE_ILLEGAL, "no", on=SEND)
    with pytest.raises(SendError, match="not sent") as refused:
        producer.send_async(Message(TOPIC, b"x")).result(TIMEOUT_S)
    group.stub.faults.drop_reply(on=SEND)
    with pytest.raises(SendError, match="may be stored") as unknown:
        producer.send_async(Message(TOPIC, b"x")).result(TIMEOUT_S)

    assert (refused.value.failed, refused.value.unknown) == ((0,), ())
    assert (unknown.value.failed, unknown.value.unknown) == ((), (0,))
    assert refused.value.where["broker"] == BROKER


def test_a_busy_broker_is_waited_for(group: Group) -> None:
    """Busy answers are pauses, so that a message without retries is stored after three of them."""
    group.stub.faults.busy(on=SEND, times=3)
    receipt = group.producer(retries=0).send_async(Message(TOPIC, b"x")).result(TIMEOUT_S)
    assert receipt.status is ResponseCode.SUCCESS


@pytest.mark.parametrize("limit", [{"max_in_flight": 2}, {"max_bytes_in_flight": 20}])
def test_too_many_sends_wait_for_room(group: Group, limit: dict[str, int]) -> None:
    """With two sends in flight and room for two, the third one waits until one of them has ended."""
    group.stub.faults.delay(300, on=SEND, times=2)
    producer = group.producer(**limit)
    first = [producer.send_async(Message(TOPIC, bytes(10))) for _ in range(2)]
    assert not any(future.done() for future in first)
    third = producer.send_async(Message(TOPIC, bytes(10)))
    assert any(future.done() for future in first)
    assert third.result(TIMEOUT_S).status is ResponseCode.SUCCESS


def test_a_send_without_room_raises_at_its_timeout(group: Group) -> None:
    """If many threads wait for the room of one send, some raise at their timeout, say why, and send nothing."""
    fault = group.stub.faults.drop_reply(on=SEND, times=None)
    producer, errors = group.producer(max_in_flight=1, send_timeout_s=0.4, retries=0), list[SendError]()

    def send() -> None:
        try:
            producer.send_async(Message(TOPIC, b"x"))
        except SendError as error:
            errors.append(error)

    threads = [threading.Thread(target=send) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(TIMEOUT_S)
    producer.close()

    assert len(errors) >= 5 and fault.fired == 8 - len(errors)
    assert all(error.failed == (0,) and "raise max_in_flight" in str(error) for error in errors)


def test_a_callback_may_send_more(group: Group) -> None:
    """A callback of a future may send, although there is no room, because its thread is the one that makes room."""
    producer = group.producer(max_in_flight=1)
    more: list[Future[Receipt]] = []

    def again(done: Future[Receipt]) -> None:
        more.extend(producer.send_async(Message(TOPIC, b"%d" % number)) for number in range(5))

    producer.send_async(Message(TOPIC, b"first")).add_done_callback(again)
    until(lambda: len(more) == 5)
    assert {future.result(TIMEOUT_S).status for future in more} == {ResponseCode.SUCCESS}


def test_closing_waits_for_what_is_in_flight(group: Group) -> None:
    """`close` returns when all sends have their result, and later sends are refused."""
    producer = group.producer()
    group.stub.faults.delay(300, on=SEND, times=None)
    futures = [producer.send_async(Message(TOPIC, b"x")) for _ in range(20)]
    producer.close()

    assert all(future.done() and not future.exception() for future in futures)
    with pytest.raises(LocalProtocolError, match="closed"):
        producer.send_async(Message(TOPIC, b"x"))


def test_closing_ends_at_the_deadline(group: Group) -> None:
    """If responses stay away, `close` returns at the deadline of the sends, which then end as unknown."""
    producer = group.producer(send_timeout_s=0.4)
    group.stub.faults.drop_reply(on=SEND, times=None)
    future = producer.send_async(Message(TOPIC, b"x"))
    begun = time.monotonic()
    producer.close()

    assert time.monotonic() - begun < 3.0
    error = future.exception(0)
    assert isinstance(error, SendError) and error.unknown == (0,)


def test_a_producer_that_sends_nothing_asynchronously_has_no_thread_for_it(group: Group) -> None:
    """The thread starts with the first asynchronous send."""

    def names() -> set[str]:
        return {thread.name for thread in threading.enumerate()}

    producer: Producer = group.producer()
    producer.send(Message(TOPIC, b"x"))
    assert "sends shop" not in names()
    producer.send_async(Message(TOPIC, b"x")).result(TIMEOUT_S)
    assert "sends shop" in names()
    producer.close()
    until(lambda: "sends shop" not in names())


def test_an_idle_connection_that_the_broker_closed_costs_no_attempt(group: Group) -> None:
    """If the broker closes the idle connection, the next send opens a new one, and is not sent twice."""
    producer = group.producer(retries=0)
    producer.send_async(Message(TOPIC, b"1")).result(TIMEOUT_S)
    group.stub.faults.broker_down()
    group.stub.faults.broker_up()

    assert producer.send_async(Message(TOPIC, b"2")).result(TIMEOUT_S).status is ResponseCode.SUCCESS
    assert sorted(record.body for record in group.stub.messages(TOPIC)) == [b"1", b"2"]


def send_together(group: Group, producer: Producer, callback: Callable[[Future[Receipt]], object]) -> list[Any]:
    """Send 40 messages whose results arrive together, each with this callback; return their futures."""
    held = threading.Event()
    group.stub.faults.delay(100, on=SEND)
    producer.send_async(Message(TOPIC, b"first")).add_done_callback(lambda _: held.wait(TIMEOUT_S))
    futures = [producer.send_async(Message(TOPIC, b"%d" % number)) for number in range(40)]
    for future in futures:
        future.add_done_callback(callback)
    held.set()
    return futures


@pytest.mark.parametrize("error", [ValueError, SystemExit, KeyboardInterrupt])
def test_a_callback_that_raises_costs_no_result(group: Group, error: type[BaseException]) -> None:
    """If callbacks raise, even to end the program, every future gets its receipt, and later sends do, too."""

    def fail(_: Future[Receipt]) -> None:
        raise error

    producer = group.producer()
    futures = send_together(group, producer, fail)
    assert {future.result(TIMEOUT_S).status for future in futures} == {ResponseCode.SUCCESS}
    assert producer.send_async(Message(TOPIC, b"last")).result(TIMEOUT_S).status is ResponseCode.SUCCESS


def test_close_in_a_callback_waits_for_what_is_in_flight(group: Group) -> None:
    """If a callback closes the producer, sends that are in flight or in the inbox get their receipts before it ends."""
    producer, futures, are_done = group.producer(), list[Future[Receipt]](), list[bool]()

    def send_and_close(_: Future[Receipt]) -> None:
        futures.extend(producer.send_async(Message(TOPIC, b"%d" % number)) for number in range(5))
        producer.close()
        are_done.extend(future.done() for future in futures)

    group.stub.faults.delay(300, on=SEND)
    producer.send_async(Message(TOPIC, b"first")).add_done_callback(send_and_close)
    until(lambda: len(are_done) == 5)
    assert are_done == [True] * 5
    assert {future.result(0).status for future in futures} == {ResponseCode.SUCCESS}


def test_callbacks_may_all_close_the_producer(group: Group) -> None:
    """If each of many callbacks closes the producer, none of them waits for another, and every future has a receipt."""
    begun, producer = time.monotonic(), group.producer()
    futures = send_together(group, producer, lambda _: producer.close())
    assert {future.result(TIMEOUT_S).status for future in futures} == {ResponseCode.SUCCESS}
    assert time.monotonic() - begun < 4.0


def test_callbacks_may_close_while_another_thread_does(group: Group) -> None:
    """If callbacks close the producer while its user does, they do not wait, so that sends in flight get receipts."""
    begun, producer = time.monotonic(), group.producer(send_timeout_s=1.0)

    def close(_: Future[Receipt]) -> None:
        until(producer._closing.locked)
        producer.close()

    futures = send_together(group, producer, close)
    producer.close()
    assert {future.result(0).status for future in futures} == {ResponseCode.SUCCESS}
    assert time.monotonic() - begun < 4.0


def test_a_callback_that_blocks_keeps_no_result_back(
    group: Group, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """If a callback blocks for too long, `close` ends all futures: with a receipt if one has arrived, else as unknown.

    The thread ends in peace when the callback does.
    """
    monkeypatch.setattr(async_sends, "_LATE_S", 0.05)
    producer, is_free = group.producer(send_timeout_s=0.5), threading.Event()
    calls = count()
    futures = send_together(group, producer, lambda _: next(calls) or is_free.wait(TIMEOUT_S))
    until(lambda: any(future.done() for future in futures))
    futures.append(producer.send_async(Message(TOPIC, b"late")))
    producer.close()

    late = futures[-1].exception(0)
    assert isinstance(late, SendError) and late.unknown == (0,)
    assert all(future.done() for future in futures)
    is_free.set()
    until(lambda: "sends shop" not in {thread.name for thread in threading.enumerate()})
    assert "has failed" not in caplog.text


@forks
def test_a_forked_child_is_told_to_make_its_own_producer(group: Group) -> None:
    """In a forked child, which has no thread for them, asynchronous sends raise at once, and `close` returns."""
    producer = group.producer()
    producer.send_async(Message(TOPIC, b"parent")).result(TIMEOUT_S)

    def check() -> bool:
        with pytest.raises(LocalProtocolError, match=r"(?s)made in process.*make a producer in each process"):
            producer.send_async(Message(TOPIC, b"child"))
        producer.close()
        return True

    assert in_child(check)
    assert producer.send_async(Message(TOPIC, b"parent")).result(TIMEOUT_S).status is ResponseCode.SUCCESS


def test_an_error_names_the_setting_of_its_producer(group: Group) -> None:
    """The advice of a send that timed out names `send_timeout_s`, not an option of Spark."""
    group.stub.faults.drop_reply(on=SEND, times=None)
    error = group.producer(send_timeout_s=0.3).send_async(Message(TOPIC, b"x")).exception(TIMEOUT_S)
    assert "or raise send_timeout_s" in str(error)


def test_a_name_server_that_hangs_holds_up_only_unknown_topics(group: Group) -> None:
    """Only the caller waits for the queues of a topic; sends to known topics get their receipts meanwhile."""
    known = replace(group.cluster_settings, route_max_age_s=60.0)
    with Producer(known, ProducerSettings(group="shop", send_timeout_s=1.5)) as producer:
        producer.send_async(Message(TOPIC, b"first")).result(TIMEOUT_S)
        route = RequestCode.GET_ROUTEINFO_BY_TOPIC
        fault = group.stub.faults.drop_reply(on=route, at=NAME_SERVER, times=None)
        futures: list[Future[Receipt]] = []
        thread = threading.Thread(target=lambda: futures.append(producer.send_async(Message("unknown", b"x"))))
        thread.start()
        until(lambda: fault.fired)
        for number in range(10):
            producer.send_async(Message(TOPIC, b"%d" % number)).result(1.0)
        assert not futures
        thread.join(TIMEOUT_S)
        group.stub.faults.clear()
    error = futures[0].exception(0)
    assert isinstance(error, SendError) and error.failed == (0,)
