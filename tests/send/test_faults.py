"""What brokers do to sends, and how each send ends."""

from __future__ import annotations

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from itertools import count, pairwise
from typing import Any

import pytest

from broker_stub import TlsFiles
from pyspark_rocketmq.broker_errors import InvalidParameter, MessageIllegal, NoPermission, SystemBusy
from pyspark_rocketmq.cluster.names import Namespace
from pyspark_rocketmq.cluster.signing import Credentials
from pyspark_rocketmq.errors import (
    AddressNotAllowed,
    ConnectError,
    FrameTooLarge,
    LocalProtocolError,
    RequestTimeout,
    TopicNotFound,
)
from pyspark_rocketmq.net.settings import NetSettings
from pyspark_rocketmq.send import pipeline as pipeline_module
from pyspark_rocketmq.send.outcome import Outcome
from pyspark_rocketmq.send.pipeline import SendPipeline
from pyspark_rocketmq.wire.codes import RequestCode, ResponseCode
from pyspark_rocketmq.wire.header import HeaderType
from tests.net.fixtures import PKI, TRUSTING
from tests.send.fixtures import TOPIC, MakeSender, Sender, batch, number_of, place, single

SEND, BATCH = RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE


def landed(outcomes: list[Outcome]) -> int:
    """Return how many requests were stored; raise the error of one that was not."""
    for outcome in outcomes:
        if outcome.error:
            raise outcome.error
    return len(outcomes)


def in_background(seconds: float, act: Callable[[], None]) -> threading.Timer:
    """Run a function after some seconds, in another thread."""
    timer = threading.Timer(seconds, act)
    timer.start()
    return timer


# --- pauses and retries ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "remark"),
    [
        (ResponseCode.FLOW_CONTROL, "flow control"),
        (ResponseCode.SYSTEM_BUSY, "[TIMEOUT_CLEAN_QUEUE]broker busy, start flow control for a while"),
        (ResponseCode.SYSTEM_ERROR, "[PCBUSY_CLEAN_QUEUE]broker busy, start flow control for a while"),
        (ResponseCode.GO_AWAY, "going away"),
    ],
)
def test_a_busy_broker_is_waited_for(sender: Sender, code: int, remark: str) -> None:
    """Busy answers are no failed attempts: a request without retries is stored after more of them."""
    fault = sender.stub.faults.answer(code, remark, on=SEND, times=4)
    pipeline = sender.pipeline(retries=0)
    pipeline.submit(single(0, place(0)))
    pipeline.flush()

    assert landed(pipeline.take_outcomes()) == 1 and sender.stored() == [b"0"]
    assert (fault.fired, pipeline.statistics.pauses, pipeline.statistics.retries) == (4, 4, 0)


def test_flow_control_for_seconds_gets_few_requests(sender: Sender) -> None:
    """A broker that refuses for a second gets a few probes, not one request after the other, and then everything."""
    fault = sender.stub.faults.flow_control(on=SEND, times=None)
    timer = in_background(1.0, sender.stub.faults.clear)
    outcomes = sender.send([single(number) for number in range(300)], retries=0, max_in_flight=16)
    timer.join()

    assert landed(outcomes) == 300 and len(sender.stored()) == 300
    assert fault.fired <= 16 + 12


def test_a_busy_broker_fails_a_request_at_its_deadline(sender: Sender) -> None:
    """If a broker stays busy, a request ends at its deadline with the broker's error, and is surely not stored."""
    sender.stub.faults.busy(on=SEND, times=None)
    begun = time.monotonic()
    [outcome] = sender.send([single(0)], deadline_s=0.5)

    assert 0.5 <= time.monotonic() - begun < 2.0
    assert isinstance(outcome.error, SystemBusy) and not outcome.is_unknown
    assert outcome.error.where.items() >= {"topic": TOPIC, "broker": "broker-a", "request": "SEND_MESSAGE_V2"}.items()
    assert "not stored within 0.5 s" in str(outcome.error)


def test_a_lost_reply_is_sent_again(sender: Sender) -> None:
    """A request without a response is sent again with the same id; it is stored twice, and has one outcome."""
    sender.stub.faults.drop_reply(on=SEND)
    outcomes = sender.send([single(number, place(0)) for number in range(5)], attempt_timeout_s=0.3)

    assert landed(outcomes) == 5 and {outcome.is_unknown for outcome in outcomes} == {False}
    records = sender.stub.messages(TOPIC)
    repeated = [key for key, n in Counter(record.properties["UNIQ_KEY"] for record in records).items() if n > 1]
    assert len(records) == 6 and len(repeated) == 1
    doubled = [outcome for outcome in outcomes if outcome.receipt and outcome.receipt.may_be_doubled]
    assert len(doubled) == 1


def test_an_unknown_end_is_told(sender: Sender) -> None:
    """If the response to the last attempt is lost while others come, the outcome says that it may be stored."""
    sender.stub.faults.drop_reply(on=BATCH, times=3)
    pipeline = sender.pipeline(attempt_timeout_s=0.1, retries=2, attempt_option="attemptOption")
    pipeline.submit(batch(0, place(1)))
    failed, limit = list[Outcome](), time.monotonic() + 10.0
    for number in count(1):
        pipeline.submit(single(number, place(2)))
        failed += [outcome for outcome in pipeline.wait() if outcome.error]
        if failed or time.monotonic() > limit:
            break

    [outcome] = failed
    assert isinstance(outcome.error, RequestTimeout) and outcome.is_unknown and outcome.receipt is None
    assert "(3 attempts)" in str(outcome.error) and outcome.error.where["queue_id"] == 1
    assert str(outcome.error).endswith("or raise attemptOption")
    assert sender.stored().count(b"0") == 3


# --- brokers that stand still -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("keeps_order", [False, True])
def test_a_broker_that_stands_still_is_waited_for(sender: Sender, keeps_order: bool) -> None:
    """While a broker sends nothing at all, attempts do not count: sends outlast more of them than they have retries."""
    fault = sender.stub.faults.drop_reply(on=SEND, times=None)
    timer = in_background(0.8, sender.stub.faults.clear)
    requests = [single(number, place(number % 4)) for number in range(40)]
    pipeline = sender.pipeline(attempt_timeout_s=0.1, retries=1, keeps_order=keeps_order)
    for request in requests:
        pipeline.submit(request)
    pipeline.flush()
    timer.join()

    assert landed(pipeline.take_outcomes()) == 40 and set(sender.stored()) == {b"%d" % number for number in range(40)}
    assert pipeline.statistics.pauses > 2 and pipeline.statistics.retries >= fault.fired
    assert not keeps_order or not inversions(sender)


def test_a_broker_that_stands_still_fails_its_sends_at_the_deadline(sender: Sender) -> None:
    """If it sends nothing until then, a send ends at its deadline, and may be stored."""
    sender.stub.faults.drop_reply(on=SEND, times=None)
    begun = time.monotonic()
    [outcome] = sender.send([single(0, place(0))], attempt_timeout_s=0.1, retries=0, deadline_s=0.6)

    assert 0.6 <= time.monotonic() - begun < 2.0 and len(sender.stored()) > 1
    assert isinstance(outcome.error, RequestTimeout) and outcome.is_unknown
    assert "not acknowledged within 0.6 s" in str(outcome.error)
    assert outcome.error.advice.startswith("it may be stored; ") and outcome.error.advice.endswith("sendTimeoutMs")


def test_a_send_that_only_waited_for_a_silent_broker_is_surely_not_stored(sender: Sender) -> None:
    """Its error does not repeat what is true of the sends for which the broker was found to be silent."""
    sender.stub.faults.drop_reply(on=SEND, times=None)
    requests = [single(number, place(number)) for number in range(3)]
    outcomes = sender.send(requests, attempt_timeout_s=0.4, deadline_s=0.6, max_in_flight=1)

    by_row = {number_of(outcome): outcome for outcome in outcomes}
    assert [by_row[number].is_unknown for number in range(3)] == [True, True, False]
    for outcome in outcomes:
        assert isinstance(outcome.error, RequestTimeout) and outcome.error.advice.endswith("or raise sendTimeoutMs")
        assert ("may be stored" in str(outcome.error)) == outcome.is_unknown
    assert "not stored within 0.6 s" in str(by_row[2].error)


def test_a_send_without_replies_does_not_keep_others_from_going(sender: Sender) -> None:
    """If a broker never responds to one request, others to it are stored long before that one ends."""
    sender.stub.faults.drop_reply(on=BATCH, times=None)
    pipeline = sender.pipeline(attempt_timeout_s=0.1, deadline_s=5.0, max_in_flight=1)
    begun = time.monotonic()
    pipeline.submit(batch(0, place(0)))
    for number in range(1, 10):
        pipeline.submit(single(number, place(0)))
    outcomes = list[Outcome]()
    while len(outcomes) < 9:
        outcomes += pipeline.wait()

    assert landed(outcomes) == 9 and time.monotonic() - begun < 3.0
    sender.stub.faults.clear()


def test_an_attempt_in_flight_at_the_deadline_is_unknown(sender: Sender) -> None:
    """The deadline ends a request although its attempt has time left, and the outcome says that it may be stored."""
    sender.stub.faults.drop_reply(on=SEND)
    begun = time.monotonic()
    [outcome] = sender.send([single(0)], attempt_timeout_s=30.0, deadline_s=0.3)

    assert time.monotonic() - begun < 2.0 and outcome.is_unknown
    assert "not acknowledged within 0.3 s" in str(outcome.error)


def test_a_failed_send_without_a_queue_goes_to_another_broker(make_sender: MakeSender) -> None:
    """If a broker refuses sends for good, those without a queue are stored at the other, and those with one fail."""
    sender = make_sender(2)
    fault = sender.stub.faults.answer(ResponseCode.NO_PERMISSION, "no", on=SEND, at="broker-a", times=None)
    [bound] = sender.send([single(20, place(0, "a"))])
    assert isinstance(bound.error, NoPermission) and not bound.is_unknown and fault.fired == 1

    assert landed(sender.send([single(number) for number in range(20)])) == 20
    assert len(sender.stored(broker="broker-b")) == 20


@pytest.mark.parametrize("brokers", [1, 2])
def test_a_refusal_for_good_is_not_repeated_at_its_broker(make_sender: MakeSender, brokers: int) -> None:
    """A send without a queue that all brokers refuse for good was tried once at each, whatever retries are left."""
    sender = make_sender(brokers)
    fault = sender.stub.faults.answer(ResponseCode.NO_PERMISSION, "no", on=SEND, times=None)
    [outcome] = sender.send([single(0)], retries=5)
    assert isinstance(outcome.error, NoPermission) and fault.fired == brokers


def test_a_broker_that_takes_no_messages_is_left_alone(make_sender: MakeSender) -> None:
    """A broker whose disk is full gets few of the sends without a queue: it pauses after each refusal."""
    sender = make_sender(2)
    fault = sender.stub.faults.answer(
        ResponseCode.SERVICE_NOT_AVAILABLE, "disk full", on=SEND, at="broker-a", times=None
    )
    assert landed(sender.send([single(number) for number in range(400)], max_in_flight=8, retries=5)) == 400
    assert 0 < fault.fired < 40


def test_a_refusal_for_good_is_not_repeated(sender: Sender) -> None:
    """A request that the broker will never accept ends with the first response, and others are stored."""
    requests = [single(0, place(0)), single(1, place(99)), single(2, body=bytes(5 * 2**20)), single(3)]
    outcomes = {number_of(outcome): outcome.error for outcome in sender.send(requests)}

    assert {number: type(error) for number, error in outcomes.items() if error} == {
        1: InvalidParameter,
        2: MessageIllegal,
    }
    assert "queue 99" in str(outcomes[1]) and len(sender.stored()) == 2


def test_what_cannot_be_sent_is_an_outcome(sender: Sender) -> None:
    """A request that fits no frame, or whose properties are no text, or without a topic, ends without being sent."""
    bad = [
        single(0, body=bytes(17 * 2**20)),
        single(1)._replace(properties="a\x01\ud800\x02"),
        single(2, place(0, topic="new", broker="nowhere")),
    ]
    sender.stub.run(lambda: sender.stub.state.brokers[0].topics.delete("TBW102"))
    # Without the template topic, no first message creates a topic.
    outcomes = sender.send([*bad, single(3), single(4, topic="missing")])

    assert {number_of(outcome): type(outcome.error) for outcome in outcomes} == {
        0: FrameTooLarge,
        1: LocalProtocolError,
        2: TopicNotFound,
        3: type(None),
        4: TopicNotFound,
    }


def test_stopping_sends_nothing_more(sender: Sender) -> None:
    """`stop` ends what waits as not sent, and waits for the attempts in flight, whose failures are not repeated."""
    sender.stub.faults.busy(on=SEND, times=2)
    sender.stub.faults.delay(200, on=SEND, times=2)
    pipeline = sender.pipeline(max_in_flight=4, keeps_order=True)
    for number in range(40):
        pipeline.submit(single(number, place(number % 4)))
    pipeline.take_outcomes()
    begun = time.monotonic()
    pipeline.stop()
    outcomes = pipeline.take_outcomes()

    assert time.monotonic() - begun < 2.0 and len(outcomes) == 40
    assert Counter(type(outcome.error) for outcome in outcomes)[LocalProtocolError] >= 36
    assert len(sender.stored()) == sum(outcome.receipt is not None for outcome in outcomes) <= 4


@pytest.mark.parametrize(
    ("owner", "name", "known"), [(SendPipeline, "_settle_stored", 7), (pipeline_module, "read_response", 0)]
)
def test_an_interrupted_pipeline_stops_at_once(
    sender: Sender, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, known: int
) -> None:
    """An interrupt while responses are settled loses one outcome; stopping does not wait for it, and it is unknown.

    An interrupt while they are taken loses more, and these are unknown, too.
    """
    calls, real = count(1), getattr(owner, name)

    def interrupt(*given: Any) -> Any:
        if next(calls) == 3:
            raise KeyboardInterrupt
        return real(*given)

    monkeypatch.setattr(owner, name, interrupt)
    sender.stub.faults.delay(100, on=SEND, times=8)
    pipeline = sender.pipeline(attempt_timeout_s=1.0)
    for number in range(8):
        pipeline.submit(single(number, place(number % 4)))
    with pytest.raises(KeyboardInterrupt):
        pipeline.flush()
    begun = time.monotonic()
    pipeline.stop()
    outcomes = pipeline.take_outcomes()

    assert time.monotonic() - begun < 3.0 and sorted(map(number_of, outcomes)) == list(range(8))
    assert all(outcome.receipt or outcome.is_unknown for outcome in outcomes)
    assert sum(outcome.receipt is not None for outcome in outcomes) >= known


def test_nothing_of_a_queue_is_stored_behind_a_failed_send(sender: Sender) -> None:
    """With order kept, the sends behind a failed one of their queue end unsent, and so do later ones."""
    sender.stub.faults.answer(ResponseCode.NO_PERMISSION, on=SEND)
    pipeline = sender.pipeline(keeps_order=True)
    for number in range(20):
        pipeline.submit(single(number, place(0)))
    pipeline.flush()
    pipeline.submit(single(20, place(0)))
    pipeline.submit(single(21, place(1)))
    pipeline.flush()
    failed, *others = pipeline.take_outcomes()

    assert number_of(failed) == 0 and isinstance(failed.error, NoPermission) and sender.stored() == [b"21"]
    behind = [outcome for outcome in others if outcome.error]
    assert [number_of(outcome) for outcome in behind] == list(range(1, 21))
    assert {"an earlier send to the queue" in str(outcome.error) for outcome in behind} == {True}
    assert not any(outcome.is_unknown for outcome in behind) and pipeline.statistics.failed_rows == 21


def test_a_send_that_is_never_sent_is_not_overtaken(sender: Sender) -> None:
    """With order kept, a send that fits no frame ends the later ones of its queue, and none before it."""
    requests = [single(number, place(0)) for number in range(6)]
    requests[3] = single(3, place(0), body=bytes(17 * 2**20))
    outcomes = sender.send(requests, keeps_order=True)

    assert sender.stored() == [b"0", b"1", b"2"]
    assert sorted(number_of(outcome) for outcome in outcomes if outcome.error) == [3, 4, 5]


def test_a_send_that_its_caller_passes_over_does_not_end_others(sender: Sender) -> None:
    """With order kept, the caller names the failures that do not count, because it puts those rows elsewhere."""
    sender.stub.faults.answer(ResponseCode.MESSAGE_ILLEGAL, on=SEND)
    pipeline = sender.pipeline(keeps_order=True)
    pipeline.pass_over(lambda request, error: isinstance(error, MessageIllegal) and not request.is_batch)
    for number in range(5):
        pipeline.submit(single(number, place(0)))
    pipeline.flush()

    assert [number_of(outcome) for outcome in pipeline.take_outcomes() if outcome.error] == [0]
    assert sender.stored() == [b"1", b"2", b"3", b"4"]


def test_nothing_is_stored_behind_a_send_that_ended_at_its_deadline(sender: Sender) -> None:
    """With order kept, the sends behind an overdue one end with it, and later ones are refused."""
    sender.stub.faults.delay(400, on=SEND)
    pipeline = sender.pipeline(deadline_s=0.2, keeps_order=True)
    for number in range(3):
        pipeline.submit(single(number, place(0)))
    pipeline.flush()
    pipeline.submit(single(3, place(0)))
    pipeline.submit(single(4, place(1)))
    pipeline.flush()
    outcomes = pipeline.take_outcomes()

    assert [(number_of(outcome), outcome.is_unknown) for outcome in outcomes if outcome.error] == [
        (0, True),
        (1, False),
        (2, False),
        (3, False),
    ]
    assert set(sender.stored()) <= {b"0", b"4"}


def test_nothing_is_sent_after_stopping(sender: Sender) -> None:
    """A pipeline that was stopped refuses further requests, so nothing is stored behind those that it has ended."""
    pipeline = sender.pipeline()
    pipeline.stop()
    pipeline.submit(single(0))
    [outcome] = pipeline.take_outcomes()

    assert isinstance(outcome.error, LocalProtocolError) and not outcome.is_unknown and not sender.stored()


@pytest.mark.parametrize("remark", ["message body size exceeded", "message size exceeded"])
def test_a_batch_that_is_too_large_is_refused_for_good(sender: Sender, remark: str) -> None:
    """Brokers of 5.x refuse a batch above their limit with code 1, and DLedger with another remark: not repeated."""
    text = f"java.lang.RuntimeException: {remark}, encode"
    fault = sender.stub.faults.answer(ResponseCode.SYSTEM_ERROR, text, on=SEND, times=None)
    [outcome] = sender.send([single(0)])

    assert isinstance(outcome.error, MessageIllegal) and not outcome.is_unknown and fault.fired == 1


def test_a_broker_that_is_not_allowed_gets_nothing(make_sender: MakeSender) -> None:
    """With a list of allowed brokers, sends without a queue go to those, and others fail without being sent."""
    sender = make_sender(2)
    allowed = f"{sender.stub.name_server}, {sender.stub.broker_address('broker-b')}"
    strict = Sender(sender.stub, allowed_brokers=allowed)
    requests = [*(single(number) for number in range(20)), single(20, place(0, "a"))]
    outcomes = {number_of(outcome): outcome.error for outcome in strict.send(requests)}
    strict.close()

    assert isinstance(outcomes.pop(20), AddressNotAllowed) and set(outcomes.values()) == {None}
    assert len(sender.stored(broker="broker-b")) == 20 and not sender.stored(broker="broker-a")


# --- brokers that go and come ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("keeps_order", [False, True])
def test_a_broker_that_is_killed_and_started_again(make_sender: MakeSender, keeps_order: bool) -> None:
    """Sends that name queues of a broker that is away wait for it, at most until their deadline."""
    sender = make_sender(2)
    requests = [single(number, place(number % 4, "ab"[number % 2])) for number in range(400)]
    pipeline = sender.pipeline(keeps_order=keeps_order, max_in_flight=8)
    timers = [
        in_background(0.02, lambda: sender.stub.faults.broker_down("broker-a")),
        in_background(0.6, lambda: sender.stub.faults.broker_up("broker-a")),
    ]
    for request in requests:
        pipeline.submit(request)
        time.sleep(0.0005)
    pipeline.flush()
    for timer in timers:
        timer.join()

    assert landed(pipeline.take_outcomes()) == 400
    assert set(sender.stored()) == {b"%d" % number for number in range(400)}
    if keeps_order:
        assert not inversions(sender)


def inversions(sender: Sender) -> list[tuple[int, int]]:
    """Return pairs of neighbours in a queue whose first copies stand in the wrong order."""
    found = []
    by_queue: dict[tuple[str, int], list[int]] = defaultdict(list)
    for broker in sender.stub.state.brokers:
        for number in range(4):
            for record in sender.stub.messages(TOPIC, number, broker=broker.name):
                row = int(record.body)
                if row not in by_queue[broker.name, number]:
                    by_queue[broker.name, number].append(row)
    for rows in by_queue.values():
        found += [(one, next_) for one, next_ in pairwise(rows) if one > next_]
    return found


def test_sends_without_a_queue_do_not_wait_for_a_broker_that_is_away(make_sender: MakeSender) -> None:
    """If one of two brokers is down, all sends without a queue are stored at the other one at once."""
    sender = make_sender(2)
    pipeline = sender.pipeline()
    for number in range(50):
        pipeline.submit(single(number))
    pipeline.flush()
    sender.stub.faults.broker_down("broker-a")
    begun = time.monotonic()
    for number in range(50, 150):
        pipeline.submit(single(number))
    pipeline.flush()

    assert landed(pipeline.take_outcomes()) == 150 and time.monotonic() - begun < 5.0


def test_a_broker_out_of_reach_fails_its_sends_at_the_deadline(make_sender: MakeSender) -> None:
    """If a broker stays away, sends that name its queues fail at their deadline, and were surely not stored."""
    sender = make_sender(2)
    sender.cluster.writable.queues(TOPIC)
    sender.stub.faults.refuse("broker-a")
    requests = [single(number, place(0, "ab"[number % 2])) for number in range(20)]
    outcomes = sender.send(requests, deadline_s=0.6, retries=0)

    failed = [outcome for outcome in outcomes if outcome.error]
    assert {type(outcome.error) for outcome in failed} == {ConnectError} and len(failed) == 10
    assert not any(outcome.is_unknown for outcome in failed)
    assert len(sender.stored(broker="broker-b")) == 10


def test_a_slow_broker_does_not_hold_up_another(make_sender: MakeSender) -> None:
    """While one broker does not answer, hundreds of sends to the other are stored."""
    sender = make_sender(2)
    sender.stub.faults.delay(60_000, on=SEND, at="broker-a", times=None)
    pipeline = sender.pipeline(attempt_timeout_s=20.0)
    begun = time.monotonic()
    for number in range(600):
        pipeline.submit(single(number, place(number % 4, "ab"[number % 2])))
    outcomes: list[Outcome] = []
    while len(outcomes) < 300:
        outcomes += pipeline.take_outcomes()
        assert time.monotonic() - begun < 10.0, f"{len(outcomes)} of 300"
    assert {outcome.receipt.queue.broker_name for outcome in outcomes if outcome.receipt} == {"broker-b"}
    assert len(sender.stored(broker="broker-a")) == 32, "no more than the share of one broker is in flight"
    sender.stub.faults.clear()


# --- ways to send ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("header_type", list(HeaderType))
def test_signed_requests_are_accepted(make_sender: MakeSender, header_type: HeaderType) -> None:
    """With credentials each request is signed, its body included, in both header forms."""
    cluster = {
        "credentials": Credentials("writer-key", "writer-secret"),
        "net": NetSettings(header_type=header_type),
    }
    sender = make_sender(acl={"writer-key": "writer-secret"}, cluster=cluster)
    assert landed(sender.send([single(number) for number in range(20)])) == 20


def test_bodies_of_megabytes_pass_through_tls(make_sender: MakeSender) -> None:
    """Over TLS, requests with more bytes than the stream accepts at once arrive unharmed."""
    cluster = {"net": NetSettings(tls=TRUSTING)}
    sender = make_sender(tls=TlsFiles(str(PKI / "server.pem"), str(PKI / "server.key")), cluster=cluster)
    bodies = [bytes([number]) * 2**20 for number in range(12)]
    assert landed(sender.send([single(number, body=body) for number, body in enumerate(bodies)])) == 12
    assert sorted(sender.stored()) == bodies


def test_namespaces_are_added_and_taken_off(make_sender: MakeSender) -> None:
    """With a namespace, requests go to the topic of that namespace, and receipts and errors have the user's name."""
    sender = make_sender(topics={"SHOP%orders": 2}, cluster={"namespace": Namespace("SHOP")})
    outcomes = sender.send([single(0), single(1, place(1)), single(2, place(9))])

    receipts = {outcome.receipt.queue.topic for outcome in outcomes if outcome.receipt}
    assert receipts == {TOPIC} and len(sender.stored("SHOP%orders")) == 2
    assert [outcome.error.where["topic"] for outcome in outcomes if outcome.error] == [TOPIC]


def test_the_rate_limit_holds(sender: Sender) -> None:
    """With a limit of rows per second, requests are taken at that rate, and answers are served meanwhile."""
    begun = time.monotonic()
    pipeline = sender.pipeline(rows_per_second=200.0, deadline_s=0.3)
    for number in range(120):
        pipeline.submit(single(number))
    pipeline.flush()

    assert 0.45 <= time.monotonic() - begun < 3.0 and landed(pipeline.take_outcomes()) == 120
    assert pipeline.statistics.limited_s > 0.3


@pytest.mark.parametrize(("attempt_timeout_s", "deadline_s"), [(0.1, 0.3), (30.0, 0.2)])
def test_advice_names_the_option_of_the_caller(sender: Sender, attempt_timeout_s: float, deadline_s: float) -> None:
    """The error of a request that took too long says which of the caller's options to raise."""
    sender.stub.faults.drop_reply(on=SEND, times=None)
    given = {"attempt_option": "attemptOption", "deadline_option": "deadlineOption", "retries": 0}
    [outcome] = sender.send([single(0)], attempt_timeout_s=attempt_timeout_s, deadline_s=deadline_s, **given)
    assert str(outcome.error).endswith("or raise deadlineOption")
    assert ("if the broker is slow, raise attemptOption" in str(outcome.error)) == (attempt_timeout_s < deadline_s)


# --- a caller that is elsewhere --------------------------------------------------------------------------------------


def test_deadlines_stand_still_while_the_caller_is_elsewhere(sender: Sender) -> None:
    """Sends that were stored, or not yet sent, while the caller did something else for longer than the deadline, land.

    The first sixteen are stored at once, and their receipts wait in the socket. The others are sent afterwards.
    """
    away_s = 0.0
    pipeline = sender.pipeline(clock=lambda: time.monotonic() + away_s, deadline_s=5.0)
    for number in range(20):
        pipeline.submit(single(number))
    limit = time.monotonic() + 10.0
    while len(sender.stored()) < 16:
        assert time.monotonic() < limit
    away_s = 600.0
    pipeline.flush()

    assert landed(pipeline.take_outcomes()) == 20 and len(sender.stored()) == 20


def test_the_rate_limit_waits_without_work(sender: Sender) -> None:
    """A pipeline that waits for its rate limit, with nothing in flight, uses no processor time."""
    pipeline = sender.pipeline(rows_per_second=10.0)
    used, began = time.process_time(), time.monotonic()
    for number in range(8):
        pipeline.submit(single(number))
        pipeline.flush()
    assert landed(pipeline.take_outcomes()) == 8
    assert time.process_time() - used < 0.15 * (time.monotonic() - began)
