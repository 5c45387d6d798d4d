"""Test that errors name the requests that they end, and that each request gets its own error."""

from __future__ import annotations

from pyspark_rocketmq.errors import ConnectionLost
from pyspark_rocketmq.net.deadline import Deadline
from pyspark_rocketmq.net.failures import for_requests, name_requests, timed_out


def test_requests_are_called_by_their_names() -> None:
    """Each request code is named once, and a code without a name is shown as its number."""
    assert name_requests([11, 31, 11, 9999]) == "9999, GET_MIN_OFFSET, PULL_MESSAGE"


def test_a_time_out_says_where_what_and_how_long() -> None:
    """The text of a timeout names the span, the address and the request."""
    text = str(timed_out("localhost:10911", [11], Deadline.after(3.0), unsent_bytes=0))

    assert text.startswith(
        "[REQUEST_TIMEOUT] no answer within 3 s (address localhost:10911, request PULL_MESSAGE); the request may"
    )


def test_a_time_out_tells_of_a_server_that_does_not_read() -> None:
    """If bytes are unsent, the text of a timeout tells how many the server has not accepted."""
    assert "take 70 bytes from us" in str(timed_out("localhost:10911", [11], Deadline.after(3.0), unsent_bytes=70))


def test_each_request_raises_a_copy_of_its_own() -> None:
    """A copy of an error names its request and keeps the cause, and the original does not change."""
    original = ConnectionLost("gone", address="localhost:10911")
    original.__cause__ = OSError("reset")
    twin = for_requests(original, [11])

    assert "request PULL_MESSAGE" in str(twin)
    assert twin.__cause__ is original.__cause__
    assert "PULL_MESSAGE" not in str(original)


def test_an_error_without_requests_names_none() -> None:
    """If a connection ends while no request is in flight, the error names no request."""
    assert "request" not in str(for_requests(ConnectionLost("gone"), []))
