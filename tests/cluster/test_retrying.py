"""Requests are repeated as often as allowed, but never past the deadline."""

from __future__ import annotations

import pytest

from pyspark_rocketmq.broker_errors import BrokerSystemError, FlowControl
from pyspark_rocketmq.cluster.retrying import Retrying
from pyspark_rocketmq.errors import ConnectionLost, DecodeError, QueueMoved, RocketMQError
from pyspark_rocketmq.net.backoff import Backoff
from pyspark_rocketmq.net.deadline import Deadline


class Attempts:
    """A function that raises these errors, one per call, and then succeeds; it records the pauses between calls."""

    def __init__(self, *errors: RocketMQError) -> None:
        self.errors = list(errors)
        self.pauses: list[float] = []
        self.count = 0

    def __call__(self) -> str:
        self.count += 1
        if self.errors:
            raise self.errors.pop(0)
        return "done"

    def run(self, retries: int, deadline: Deadline | None = None, wait_for_brokers_s: float | None = None) -> str:
        """Call the function through `Retrying` with pauses of about a second, on a clock that only pauses move."""
        pause = Backoff(1.0, 1.0)
        return Retrying(retries, pause, self.pauses.append, wait_for_brokers_s, lambda: sum(self.pauses)).run(
            self, deadline
        )


def test_a_passing_failure_is_tried_again() -> None:
    """If an attempt fails with a retriable error, it is repeated after a pause."""
    attempts = Attempts(ConnectionLost("once"), ConnectionLost("twice"))
    assert attempts.run(2) == "done" and attempts.count == 3
    assert [0.5 <= pause <= 1.0 for pause in attempts.pauses] == [True, True]


def test_the_last_error_is_raised() -> None:
    """If all retries are used up, the last error is raised."""
    attempts = Attempts(ConnectionLost("first"), ConnectionLost("second"), ConnectionLost("third"))
    with pytest.raises(ConnectionLost, match="second"):
        attempts.run(1)


def test_what_cannot_pass_is_not_tried_again() -> None:
    """If an error is not retriable, it is raised at once."""
    attempts = Attempts(DecodeError("broken"))
    with pytest.raises(DecodeError):
        attempts.run(9)
    assert attempts.count == 1 and not attempts.pauses


def test_no_pause_outlasts_the_deadline() -> None:
    """If the next pause would pass the deadline, the error is raised without a pause."""
    attempts = Attempts(ConnectionLost("slow"))
    with pytest.raises(ConnectionLost):
        attempts.run(9, Deadline.after(0.4))
    assert not attempts.pauses


def test_unreachable_brokers_are_waited_for_a_time() -> None:
    """If brokers are unreachable or throttle, attempts are repeated for a given time, not for a number of retries."""
    attempts = Attempts(*[ConnectionLost("away")] * 30)
    assert attempts.run(0, wait_for_brokers_s=60) == "done"
    endless = Attempts(*[FlowControl("slower")] * 300)
    with pytest.raises(FlowControl, match="repeated for 60 s"):
        endless.run(0, wait_for_brokers_s=60)
    assert 59 <= sum(endless.pauses) <= 60


def test_other_errors_count_as_retries_while_waiting() -> None:
    """While attempts wait for brokers, only other errors of brokers and errors of routes count as retries."""
    for answer in (BrokerSystemError("no such user"), QueueMoved("elsewhere")):
        attempts = Attempts(*[ConnectionLost("away")] * 5, *[answer] * 9)
        with pytest.raises(type(answer)):
            attempts.run(2, wait_for_brokers_s=60)
        assert attempts.count == 8
