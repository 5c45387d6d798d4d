"""The schedule keeps its bounds and its order, whatever becomes of the attempts."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from pyspark_rocketmq.broker_errors import SystemBusy
from pyspark_rocketmq.errors import (
    ConnectError,
    ConnectionLost,
    LocalProtocolError,
    NoBrokerAvailable,
    RequestTimeout,
)
from pyspark_rocketmq.model import MessageQueue, SendRequest
from pyspark_rocketmq.send.failures import NextStep
from pyspark_rocketmq.send.schedule import BrokerState, QueuedSend, Schedule
from pyspark_rocketmq.send.settings import SendSettings
from tests.send.fixtures import TOPIC, place, single

QUEUES = [place(number, broker) for broker in "abc" for number in range(2)]
ERROR = ConnectionLost("gone")
FAILURES = [NextStep.NONE, NextStep.ELSEWHERE, NextStep.AGAIN]
Attempt = tuple[BrokerState, QueuedSend]


def make(queues: Sequence[MessageQueue] = QUEUES, **given: Any) -> Schedule:
    """Return a schedule whose topic has these queues; the first queue gets the first turn."""
    return Schedule(SendSettings(producer_group="g", **given), lambda _: queues, lambda count: count - 1)


def add(schedule: Schedule, *requests: SendRequest, now: float = 0.0) -> list[QueuedSend]:
    return [schedule.add(request, request.properties.encode(), now) for request in requests]


def take(schedule: Schedule, now: float = 0.0) -> list[Attempt]:
    return [(broker, send) for broker, sends in schedule.take(now) for send in sends]


# --- single rules ----------------------------------------------------------------------------------------------------


def test_queues_take_turns_from_broker_to_broker() -> None:
    """Sends without a queue go to all queues in turn, and two in a row to different brokers."""
    schedule = make()
    sends = add(schedule, *(single(number) for number in range(6)))
    take(schedule)

    expected = [place(0, "a"), place(0, "b"), place(0, "c"), place(1, "a"), place(1, "b"), place(1, "c")]
    assert [send.queue for send in sends] == expected


def test_each_broker_has_an_equal_share() -> None:
    """If all sends in flight are answered by one broker only, the others still hold no more than their share."""
    schedule = make(max_in_flight=12)
    add(schedule, *(single(number, QUEUES[number % 6]) for number in range(60)))

    taken = take(schedule)
    assert sorted(broker.name for broker, _ in taken) == ["broker-a"] * 4 + ["broker-b"] * 4 + ["broker-c"] * 4
    for broker, send in taken:
        if broker.name == "broker-a":
            schedule.succeed(send, broker)
    assert {broker.name for broker, _ in take(schedule)} == {"broker-a"}


def test_no_more_are_in_flight_than_allowed_when_a_broker_is_new() -> None:
    """A broker that is named for the first time gets nothing while another one holds all that may be in flight."""
    schedule = make(QUEUES[:1], max_in_flight=4)
    add(schedule, *(single(number) for number in range(4)))
    taken = take(schedule)
    add(schedule, *(single(number, place(0, "z")) for number in range(4)))

    assert len(taken) == 4 and not take(schedule)
    schedule.succeed(taken[0][1], taken[0][0])
    assert [broker.name for broker, _ in take(schedule)] == ["broker-z"]


def test_a_lane_waits_until_an_overdue_attempt_has_ended() -> None:
    """With order kept, a send whose deadline passes in flight has ended, but its queue gets the next one only later."""
    schedule = make(QUEUES[:1], keeps_order=True, deadline_s=10.0)
    [first] = add(schedule, single(0))
    [second] = add(schedule, single(1), now=5.0)
    [(broker, _)] = take(schedule)

    assert schedule.expire(12.0) == [first] and not take(schedule, 12.0)
    assert not schedule.fail(first, broker, ERROR, 12.5, NextStep.AGAIN)
    assert [send for _, send in take(schedule, 12.5)] == [second]


def test_a_closed_lane_ends_only_the_sends_behind() -> None:
    """Closing the lane of an overdue send ends those behind it and refuses later ones, and the attempt can end."""
    schedule = make(keeps_order=True, deadline_s=10.0)
    [first] = add(schedule, single(0, place(0)))
    behind = add(schedule, single(1, place(0)), single(2, place(0)), now=5.0)
    [other] = add(schedule, single(3, place(1)), now=5.0)
    taken = take(schedule)
    assert schedule.expire(12.0) == [first] and schedule.close_lane(first) == behind

    with pytest.raises(LocalProtocolError, match="an earlier send to the queue has failed"):
        add(schedule, single(4, place(0)))
    assert not schedule.succeed(first, taken[0][0]) and schedule.count == 1 and not take(schedule, 12.0)
    assert schedule.succeed(other, taken[1][0]) and not schedule.in_flight and not schedule.count


@pytest.mark.parametrize("bound", [False, True])
def test_topics_and_brokers_take_turns(bound: bool) -> None:
    """A topic or broker with many waiting sends does not keep those of another from going."""
    schedule = make(max_in_flight=1)
    for number in range(10):
        queue = place(0, "ab"[number // 5]) if bound else None
        add(schedule, single(number, queue, topic="one" if number < 5 else "two"))
    seen = []
    for _ in range(4):
        for broker, send in take(schedule):
            seen.append(broker.name if bound else send.request.topic)
            schedule.succeed(send, broker)
    assert len(set(seen)) == 2


def test_sends_leave_in_groups() -> None:
    """A broker gets no more sends before a quarter of its share is free."""
    schedule = make(QUEUES[:1], max_in_flight=16)
    add(schedule, *(single(number) for number in range(40)))
    taken = take(schedule)
    for broker, send in taken[:3]:
        schedule.succeed(send, broker)
    assert not take(schedule)

    schedule.succeed(taken[3][1], taken[3][0])
    assert len(take(schedule)) == 4


def test_bytes_in_flight_are_bounded_for_each_broker() -> None:
    """A broker gets sends up to its limit of bytes; a send above the limit goes alone."""
    schedule = make(QUEUES[:1], max_bytes_in_flight=1000)
    add(schedule, *(single(number, body=bytes(size)) for number, size in enumerate([400, 400, 400, 2000])))

    rounds = []
    while taken := take(schedule):
        rounds.append([next(iter(send.request.rows)) for _, send in taken])
        for broker, send in taken:
            schedule.succeed(send, broker)
    assert rounds == [[0, 1], [2], [3]]


def test_a_failed_send_goes_to_another_broker() -> None:
    """A send without a queue is tried at once at another broker; with a queue it is tried there, after a pause."""
    schedule = make()
    free, bound = add(schedule, single(0), single(1, place(1, "b")))
    for broker, send in take(schedule):
        assert not schedule.fail(send, broker, ERROR, 0.0, NextStep.AGAIN)

    [(broker, send)] = take(schedule, 0.0)
    assert send is free and broker.name != "broker-a"
    [(broker, send)] = take(schedule, schedule.next_event(0.0))
    assert send is bound and send.queue == place(1, "b") and schedule.retries == 2


def test_retries_are_counted_for_each_send() -> None:
    """A send ends when its attempts have failed once more than there are retries; pauses do not count."""
    schedule = make(retries=2)
    add(schedule, single(0))
    now, ended = 0.0, []
    for throttles in (True, False, True, False, False):
        [(broker, send)] = take(schedule, now)
        if throttles:
            schedule.throttle(send, broker, SystemBusy("busy"), now)
        else:
            ended.append(schedule.fail(send, broker, ERROR, now, NextStep.AGAIN))
        now += 10.0
    assert ended == [False, False, True] and schedule.count == 0


def test_a_busy_broker_pauses_longer_each_time() -> None:
    """While a broker is busy its pauses grow; then it gets one send, and more after it has stored that one."""
    schedule = make(QUEUES[:1])
    add(schedule, *(single(number) for number in range(40)))
    now, pauses = 0.0, []
    taken = take(schedule, now)
    for _ in range(5):
        for broker, send in taken:
            schedule.throttle(send, broker, SystemBusy("busy"), now)
        assert not take(schedule, now)
        pauses.append(schedule.next_event(now) - now)
        now += pauses[-1]
        taken = take(schedule, now)
        assert len(taken) == 1

    assert all(longer > shorter for shorter, longer in zip(pauses, pauses[2:], strict=False)) and schedule.pauses == 5
    schedule.succeed(taken[0][1], taken[0][0])
    assert len(take(schedule, now)) == 39


@pytest.mark.parametrize("bound", [False, True])
def test_a_silent_broker_is_probed_with_another_send_each_time(bound: bool) -> None:
    """A send to which the broker does not respond is not the only one that can show that the broker is back."""
    schedule = make(QUEUES[:1])
    add(schedule, *(single(number, QUEUES[0] if bound else None) for number in range(3)))
    now, taken, probes = 0.0, take(schedule), set[QueuedSend]()
    for _ in range(3):
        for broker, send in taken:
            schedule.throttle(send, broker, RequestTimeout("silent"), now)
        now = schedule.next_event(now)
        [(_, probe)] = taken = take(schedule, now)
        probes.add(probe)
    assert len(probes) > 1 and schedule.retries == 5


def test_a_broker_that_refused_a_send_does_not_get_it_again() -> None:
    """A send goes to each broker once; it waits for one that pauses rather than go where it was refused."""
    schedule = make([place(0, "a"), place(0, "b")], retries=5)
    add(schedule, single(0))
    [(first, send)] = take(schedule)
    assert not schedule.fail(send, first, ERROR, 0.0, NextStep.ELSEWHERE)
    [(second, send)] = take(schedule)
    schedule.throttle(send, second, SystemBusy("busy"), 0.0)
    assert not take(schedule, 0.0)
    [(again, send)] = take(schedule, schedule.next_event(0.0))
    assert again is second is not first
    assert schedule.fail(send, second, ERROR, 10.0, NextStep.ELSEWHERE) and schedule.count == 0


def test_other_brokers_take_over_from_one_that_pauses() -> None:
    """While a broker pauses, sends without a queue go to the others."""
    schedule = make(max_in_flight=60)
    add(schedule, *(single(number) for number in range(9)))
    for broker, send in take(schedule):
        if broker.name == "broker-a":
            schedule.throttle(send, broker, SystemBusy("busy"), 0.0)
    assert brokers_of(take(schedule)) == {"broker-b", "broker-c"}


def brokers_of(taken: list[Attempt]) -> set[str]:
    return {broker.name for broker, _ in taken}


def test_a_broker_out_of_reach_rests_four_times_as_long_as_it_cost() -> None:
    """If an attempt to connect took 3 s, the broker is not tried again for 12 s, and the sends keep their attempts."""
    schedule = make(QUEUES[:1], retries=0)
    add(schedule, single(0))
    [(broker, send)] = take(schedule, 0.0)
    schedule.pause(broker, ERROR, 3.0, broker.epoch, 3.0)
    schedule.put_back([send], broker, ConnectError("refused"))

    assert not take(schedule, 14.9)
    assert [again for _, again in take(schedule, 15.0)] == [send] and send.attempts == 1


def test_a_send_without_a_way_rests_alone() -> None:
    """If there is no route to a queue now, its sends rest, while others go to the same broker."""
    schedule = make(QUEUES[:1])
    [waiting] = add(schedule, single(0, place(0)))
    [(broker, _)] = take(schedule)
    schedule.delay([waiting], broker, NoBrokerAvailable("no master"), 0.0)
    [other] = add(schedule, single(1, place(1)))

    assert [send for _, send in take(schedule, 0.0)] == [other]
    assert [send for _, send in take(schedule, schedule.next_event(0.0))] == [waiting]


def test_a_topic_without_queues_is_refused() -> None:
    """A send to a topic without writable queues raises an error that names the topic."""
    with pytest.raises(NoBrokerAvailable) as refused:
        add(make([]), single(0))
    assert refused.value.where["topic"] == TOPIC


def test_new_queues_get_their_turn() -> None:
    """When the function returns other queues, later sends go to them, and waiting sends are kept."""
    known = [QUEUES[:1]]
    schedule = Schedule(SendSettings(producer_group="g", max_in_flight=1), lambda _: known[0])
    add(schedule, single(0), single(1))
    taken = take(schedule)
    known[0] = [place(7, "z")]
    add(schedule, single(2))
    for _ in range(2):
        schedule.succeed(taken[-1][1], taken[-1][0])
        taken += take(schedule)

    assert [send.queue for _, send in taken] == [place(0), place(7, "z"), place(7, "z")]


def test_a_full_schedule_says_so() -> None:
    """A schedule is full while the sends that have not ended take too many bytes, their bookkeeping included."""
    schedule = make(QUEUES[:1])
    while not schedule.is_full:
        add(schedule, single(0, body=bytes(2**20)))
    assert schedule.count == 32
    [broker_and_send, *_] = take(schedule)
    schedule.succeed(broker_and_send[1], broker_and_send[0])
    assert not schedule.is_full


def test_a_send_that_waits_holds_no_memory_of_others() -> None:
    """While a send waits for its broker, the buffers of thousands of others, and of its own batch, can be freed."""
    schedule = make(max_in_flight=30)
    buffer = bytearray(100)
    stuck = single(0, place(0, "a"))._replace(body=memoryview(buffer)[:10])
    add(schedule, stuck)
    [(broker, send)] = take(schedule)
    schedule.delay([send], broker, NoBrokerAvailable("away"), 1e9)
    for number in range(5000):
        add(schedule, single(number, place(0, "b"))._replace(body=memoryview(buffer)))
        for other, sent in take(schedule):
            schedule.succeed(sent, other)
    for number in range(3000):
        add(schedule, single(number, place(0, "b")))
        for other, sent in take(schedule):
            schedule.succeed(sent, other)
    del stuck, sent
    assert bytes(send.request.body) == bytes(10)

    buffer.clear()  # It raises while views of it exist.


# --- any history -----------------------------------------------------------------------------------------------------


class History(RuleBasedStateMachine):
    """Any order of adding, sending, storing, failing, throttling and passing time."""

    keeps_order = False

    @initialize()
    def begin(self) -> None:
        """Make an empty schedule."""
        self.now = 0.0
        limits: dict[str, Any] = {"max_in_flight": 7, "max_bytes_in_flight": 700, "deadline_s": 30.0, "retries": 1}
        self.schedule = make(keeps_order=self.keeps_order, **limits)
        self.added: list[QueuedSend] = []
        self.in_flight: list[Attempt] = []
        self.ended: dict[int, str] = {}
        self.stored: dict[MessageQueue, list[int]] = defaultdict(list)
        self.closed: dict[MessageQueue, int] = {}
        self.refusals: list[Attempt] = []

    def end(self, send: QueuedSend, how: str) -> None:
        """Note the end of a send, which must be its first."""
        [number] = send.request.rows
        assert number not in self.ended, "a send has ended twice"
        self.ended[number] = how

    def pick(self, data: st.DataObject) -> Attempt:
        """Remove and return one of the attempts in flight."""
        return self.in_flight.pop(data.draw(st.integers(0, len(self.in_flight) - 1)))

    @rule(queue=st.none() | st.sampled_from(QUEUES), size=st.integers(1, 400))
    def add(self, queue: MessageQueue | None, size: int) -> None:
        """Add a send, unless its lane is closed."""
        try:
            self.added += add(self.schedule, single(len(self.added), queue, body=bytes(size)), now=self.now)
        except LocalProtocolError:
            assert self.closed and (queue is None or queue in self.closed)
        else:
            assert self.added[-1].queue not in self.closed

    @rule()
    def take(self) -> None:
        """Let sends go."""
        taken = take(self.schedule, self.now)
        for broker, send in taken:
            assert send.queue and broker.name == send.queue.broker_name and not send.has_ended
            assert not send.is_bound or send.request.queue in (None, send.queue)
            assert broker.paused_until <= self.now, "a pausing broker got a send"
            assert (broker, send) not in self.refusals, "a broker got a send that it has refused"
        self.in_flight += taken

    @precondition(lambda self: self.in_flight)
    @rule(data=st.data())
    def store(self, data: st.DataObject) -> None:
        """Let one attempt succeed."""
        broker, send = self.pick(data)
        assert send.queue is not None
        self.stored[send.queue] += send.request.rows
        if self.schedule.succeed(send, broker):
            self.end(send, "stored")

    @precondition(lambda self: self.in_flight)
    @rule(
        data=st.data(),
        next_step=st.sampled_from(FAILURES),
        pauses=st.booleans(),
    )
    def fail(self, data: st.DataObject, next_step: NextStep, pauses: bool) -> None:
        """Let one attempt fail."""
        broker, send = self.pick(data)
        if pauses:
            self.schedule.pause(broker, ERROR, self.now, send.epoch)
        if self.schedule.fail(send, broker, ERROR, self.now, next_step):
            self.end(send, "failed")
        elif next_step is NextStep.ELSEWHERE:
            self.refusals.append((broker, send))

    @precondition(lambda self: self.in_flight)
    @rule(data=st.data(), how=st.sampled_from(["throttle", "silence", "put_back", "delay"]))
    def return_(self, data: st.DataObject, how: str) -> None:
        """Let one send come back without an attempt that counts."""
        broker, send = self.pick(data)
        if how == "throttle":
            self.schedule.throttle(send, broker, SystemBusy("busy"), self.now)
        elif how == "silence":
            self.schedule.throttle(send, broker, RequestTimeout("silent"), self.now)
        elif how == "put_back":
            self.schedule.put_back([send], broker, None)
        else:
            self.schedule.delay([send], broker, NoBrokerAvailable("none"), self.now)

    @rule(seconds=st.sampled_from([0.01, 0.5, 5.0, 29.0]))
    def wait(self, seconds: float) -> None:
        """Let time pass, and end what is overdue."""
        self.now += seconds
        for send in self.schedule.expire(self.now):
            assert send.due_at <= self.now
            self.end(send, "expired")

    @invariant()
    def bounds_hold(self) -> None:
        """Check that no bound is exceeded, and that the counts agree with what is in flight."""
        counts: dict[BrokerState, list[int]] = defaultdict(list)
        for broker, send in self.in_flight:
            counts[broker].append(send.size)
        assert len(self.in_flight) == self.schedule.in_flight <= 7
        for broker, sizes in counts.items():
            assert (len(sizes), sum(sizes)) == (broker.in_flight, broker.bytes_in_flight)
            assert len(sizes) == 1 or sum(sizes) <= 700

    @invariant()
    def nothing_is_forgotten(self) -> None:
        """Check that every send that has not ended is counted, and that something will happen to it."""
        assert self.schedule.count == len(self.added) - len(self.ended)
        assert not self.schedule.count or self.schedule.next_event(self.now) < math.inf

    def teardown(self) -> None:
        """Store everything that is left, unless its deadline passes first: every send ends."""
        for _ in range(200):
            self.in_flight += take(self.schedule, self.now)
            while self.in_flight:
                broker, send = self.in_flight.pop(0)
                if self.schedule.succeed(send, broker):
                    self.end(send, "stored")
            if not self.schedule.count:
                break
            self.wait(min(3.0, max(0.0, self.schedule.next_event(self.now) - self.now)))
        assert len(self.ended) == len(self.added), "a send never ended"


class OrderedHistory(History):
    """The same with `keeps_order`."""

    keeps_order = True

    def end(self, send: QueuedSend, how: str) -> None:
        """Note the end of a send; close the lane of some that have failed."""
        super().end(send, how)
        [number] = send.request.rows
        if how != "stored" and number % 3 == 0:
            assert send.queue is not None
            self.closed.setdefault(send.queue, number)
            for behind in self.schedule.close_lane(send):
                super().end(behind, "behind")

    @invariant()
    def each_queue_has_one_in_flight(self) -> None:
        """Check that no queue has two sends in flight, and that it stores sends in the order of adding."""
        queues = [send.queue for _, send in self.in_flight]
        assert len(queues) == len(set(queues))
        for numbers in self.stored.values():
            assert numbers == sorted(numbers), "a queue stored sends in another order"

    @invariant()
    def nothing_is_stored_behind_a_failed_send(self) -> None:
        """Check that a closed lane stored nothing after the send that failed."""
        for queue, failed in self.closed.items():
            assert all(number <= failed for number in self.stored[queue])


EXAMPLES = hypothesis_settings(max_examples=60, stateful_step_count=60, deadline=None)


def test_any_history_keeps_the_bounds_and_ends_every_send() -> None:
    """No bound is exceeded, and every send ends once, by its deadline, whatever becomes of attempts."""
    run_state_machine_as_test(History, settings=EXAMPLES)


def test_any_history_keeps_the_order_of_each_queue() -> None:
    """With order kept, each queue has one send in flight, and stores its sends in the order of adding."""
    run_state_machine_as_test(OrderedHistory, settings=EXAMPLES)
