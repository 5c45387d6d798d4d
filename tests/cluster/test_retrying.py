"""What may be repeated is repeated so often, and not past the deadline."""

from __future__ import annotations

import pytest

from pyspark_rocketmq.cluster.retrying import Retrying
from pyspark_rocketmq.errors import ConnectionLost, DecodeError, RocketMQError
from pyspark_rocketmq.net.backoff import Backoff
from pyspark_rocketmq.net.deadline import Deadline


class Attempts:
    """Fails with these errors, then succeeds; remembers the pauses."""

    def __init__(self, *errors: RocketMQError) -> None:
        self.errors = list(errors)
        self.pauses: list[float] = []
        self.count = 0

    def __call__(self) -> str:
        self.count += 1
        if self.errors:
            raise self.errors.pop(0)
        return "done"

    def run(self, retries: int, deadline: Deadline | None = None) -> str:
        """Try with pauses of about a second."""
        return Retrying(retries, Backoff(1.0, 1.0), self.pauses.append).run(self, deadline)


def test_a_passing_failure_is_tried_again() -> None:
    """Each attempt but the first comes after a pause."""
    attempts = Attempts(ConnectionLost("once"), ConnectionLost("twice"))
    assert attempts.run(2) == "done" and attempts.count == 3
    assert [0.5 <= pause <= 1.0 for pause in attempts.pauses] == [True, True]


def test_the_last_error_is_raised() -> None:
    """When the retries are used up."""
    attempts = Attempts(ConnectionLost("first"), ConnectionLost("second"), ConnectionLost("third"))
    with pytest.raises(ConnectionLost, match="second"):
        attempts.run(1)


def test_what_cannot_pass_is_not_tried_again() -> None:
    """The error's own flag decides."""
    attempts = Attempts(DecodeError("broken"))
    with pytest.raises(DecodeError):
        attempts.run(9)
    assert attempts.count == 1 and not attempts.pauses


def test_no_pause_outlasts_the_deadline() -> None:
    """Rather than sleep past it, the error is raised now."""
    attempts = Attempts(ConnectionLost("slow"))
    with pytest.raises(ConnectionLost):
        attempts.run(9, Deadline.after(0.4))
    assert not attempts.pauses
