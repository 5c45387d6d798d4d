"""An error holds everything in its text, survives pickling, and has flags for retry loops."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_rocketmq import broker_errors, errors
from pyspark_rocketmq.errors import (
    MOST_NAME,
    MOST_TEXT,
    BrokerError,
    OptionError,
    RocketMQError,
    SendError,
    shown,
)


def tree(root: type[RocketMQError]) -> Iterator[type[RocketMQError]]:
    """Return an error class of this library and all its subclasses."""
    yield root
    for child in root.__subclasses__():
        yield from tree(child)


TREE = [kind for kind in tree(RocketMQError) if kind.__module__ in (errors.__name__, broker_errors.__name__)]


def sample(kind: type[RocketMQError]) -> RocketMQError:
    """Return an error of this class with all its fields set."""
    if issubclass(kind, OptionError):
        return kind("pollTimeoutMs", "x", "not a number", advice="give milliseconds", code="OPTION_TYPE")
    if issubclass(kind, BrokerError):
        return kind("remark", advice="do this", topic="t", address="h:1", queue_id=3)
    if issubclass(kind, SendError):
        return kind("sending", landed=[0], failed=[1, 2], unknown=[3], advice="do this", broker="b")
    return kind("it broke", advice="do this", topic="t", offset=7)


@pytest.mark.parametrize("kind", TREE)
def test_every_error_survives_pickling(kind: type[RocketMQError]) -> None:
    """If an error is pickled and read back, its class, text and fields are the same."""
    error = sample(kind)

    copy = pickle.loads(pickle.dumps(error))

    assert type(copy) is kind
    assert str(copy) == str(error)
    assert vars(copy) == vars(error)


@pytest.mark.parametrize("kind", TREE)
def test_text_opens_with_the_code_and_ends_with_the_advice(kind: type[RocketMQError]) -> None:
    """An error's text begins with the code and ends with the advice, since only text is sure to reach the driver."""
    error = sample(kind)

    text = str(error)

    assert text.startswith(f"[{error.code}] ")
    assert text.endswith(f"; {error.advice}")


def test_codes_are_unique_below_the_base() -> None:
    """Each code belongs to one error class, so that a code in a log names the class."""
    codes = [kind.code for kind in TREE]

    assert sorted(codes) == sorted(set(codes))


def test_every_class_of_the_tree_is_documented() -> None:
    """Every error class has a docstring."""
    assert [kind.__name__ for kind in TREE if not kind.__doc__] == []


def test_the_tree_drawn_on_top_names_every_class() -> None:
    """The tree in the docstring of `errors` names every error class."""
    drawn = errors.__doc__ or ""

    missing = [kind.__name__ for kind in TREE if kind.__module__ == errors.__name__ and kind.__name__ not in drawn]

    assert missing == []


def test_places_are_named_in_one_order_whatever_the_call_said() -> None:
    """An error names parts in a fixed order: address, request, topic, broker, queue, offset, group."""
    error = RocketMQError(
        "it broke", group="g", offset=7, queue_id=3, broker="b", topic="t", request="PULL_MESSAGE", address="h:1"
    )

    assert str(error) == (
        "[ROCKETMQ] it broke (address h:1, request PULL_MESSAGE, topic t, broker b, queue 3, offset 7, group g)"
    )


def test_locate_fills_in_and_never_overwrites() -> None:
    """If an error already names a topic, `locate` does not change the topic, but adds other parts."""
    error = RocketMQError("it broke", topic="inner").locate(topic="outer", offset=0)

    assert error.where == {"topic": "inner", "offset": 0}


def test_an_option_error_shows_option_and_value_and_is_a_value_error() -> None:
    """An `OptionError` shows option and value, and is a `ValueError`."""
    error = OptionError("topic", "a b", "has a blank", advice="name one topic")

    assert isinstance(error, ValueError)
    assert str(error) == "[OPTION_VALUE] topic = 'a b': has a blank; name one topic"
    assert (error.option, error.value) == ("topic", "a b")


def test_a_missing_option_shows_no_value() -> None:
    """If an option was not given, its error shows no value."""
    assert str(OptionError("topic", None, "is required")) == "[OPTION_VALUE] topic: is required"


def test_a_time_out_is_also_the_standard_one() -> None:
    """A `RequestTimeout` is also Python's `TimeoutError`."""
    assert issubclass(errors.RequestTimeout, TimeoutError)


def test_a_broker_error_keeps_code_and_remark() -> None:
    """A server's code and an ordinary remark are unchanged in the error."""
    error = BrokerError("topic[x] not exist", response_code=17)

    assert (error.response_code, error.remark) == (17, "topic[x] not exist")
    assert str(error) == "[BROKER] response code 17: topic[x] not exist"


def test_a_broker_that_gave_no_remark_is_quoted_as_such() -> None:
    """If a server sends no remark, the error's text says so."""
    assert "response code 1: no remark" in str(BrokerError(None, response_code=1))


def test_a_send_error_lists_the_fate_of_every_message() -> None:
    """A `SendError` lists which messages were stored, which failed, and which have an unknown fate."""
    error = SendError("batch", landed=[0, 1], failed=[2], unknown=[3])

    assert (error.landed, error.failed, error.unknown) == ((0, 1), (2,), (3,))
    assert "2 landed, 1 failed, 1 unknown" in str(error)


@pytest.mark.parametrize(
    ("kind", "retriable", "refresh_routes"),
    [
        (errors.ConnectionLost, True, True),
        (errors.RequestTimeout, True, True),
        (errors.MalformedFrame, True, False),
        (errors.FrameTooLarge, False, False),
        (errors.LocalProtocolError, False, False),
        (errors.TopicNotFound, False, True),
        (errors.TopicUnconfirmed, True, True),
        (errors.QueueMoved, True, True),
        (errors.StaticTopicUnsupported, False, False),
        (errors.LockRefused, True, False),
        (errors.DataLossError, False, False),
    ],
)
def test_retry_loops_read_flags(kind: type[RocketMQError], retriable: bool, refresh_routes: bool) -> None:
    """Each error class has flags that say whether to retry, and whether to fetch routes again."""
    assert (kind.retriable, kind.refresh_routes) == (retriable, refresh_routes)


# --- texts of servers -------------------------------------------------------------------------------------------------

FORGED = "no\n2026-01-01 ERROR forged\r\x1b[31m\x07\x85\u2028\u2029\u202e\u200b\ufeff\ud800"


@given(st.text(st.characters()), st.integers(40, 300))
def test_any_text_is_shown_as_one_line_of_limited_length(text: str, most: int) -> None:
    """Any text is shown printable and within the limit; showing it again, or showing an ordinary text, changes none."""
    line = shown(text, most)
    assert line.isprintable() and len(line) <= most
    assert shown(line, most) == line
    assert line == text or not text.isprintable() or len(text) > most


def test_control_characters_are_shown_as_escapes() -> None:
    """Line ends, terminal sequences, marks of direction, zero-width characters and lone surrogates are escaped."""
    escaped = r"no\n2026-01-01 ERROR forged\r\x1b[31m\x07\x85\u2028\u2029\u202e\u200b\ufeff\ud800"
    assert shown(FORGED) == escaped and shown("Aufträge 订单 \\n") == "Aufträge 订单 \\n"


def test_a_long_text_is_cut_and_says_its_length() -> None:
    """A long text keeps its head and states its length; a name may have 255 characters."""
    assert shown("x" * 256) == "x" * 237 + "… (256 characters)" and shown("x" * 255) == "x" * 255


def test_a_remark_of_megabytes_makes_a_short_error() -> None:
    """A remark is cut and escaped in the error's text and arguments; the attribute has it as the server sent it."""
    remark = FORGED + "x" * 10_000_000
    error = broker_errors.error_for(1, remark, topic="t")
    assert error.remark == remark
    for text in (str(error), *error.args):
        assert r"no\n2026" in text and f"({len(remark)} characters)" in text and text.isprintable() and len(text) < 1500


def test_a_pickled_error_keeps_the_whole_remark() -> None:
    """A long remark with control characters survives pickling unchanged."""
    remark = "no\n" + "x" * 5000
    assert pickle.loads(pickle.dumps(broker_errors.error_for(1, remark))).remark == remark


def test_a_remark_is_judged_as_a_whole() -> None:
    """The class of an error with code 1 is chosen by the whole remark, not by its shown part."""
    assert type(broker_errors.error_for(1, "x" * 5000 + "AclException")) is broker_errors.CredentialsRefused


@pytest.mark.parametrize("part", ["address", "request", "topic", "broker", "group"])
def test_places_are_shown_within_limits(part: str) -> None:
    """A name in an error's text is cut to the limit of names and escaped; the attribute keeps it."""
    where: Any = {part: FORGED + "x" * 1_000_000}
    error = RocketMQError("it broke").locate(**where)
    assert str(error).isprintable() and len(str(error)) < MOST_NAME + 50
    assert error.where == where


def test_an_option_with_line_ends_makes_an_error_of_one_line() -> None:
    """Line ends in an option's value are shown as escapes, and long texts and advice are cut."""
    error = OptionError("sqlFilter", "a > 1\nAND b", "x" * 10_000, advice="y" * 10_000)
    assert r"sqlFilter = 'a > 1\nAND b'" in str(error) and str(error).isprintable()
    assert len(str(error)) < 2 * MOST_TEXT + 50
