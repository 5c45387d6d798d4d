"""If an option of another product is given, the error names what replaces it."""

from __future__ import annotations

import pytest

from pyspark_rocketmq.options.keys import find_option
from pyspark_rocketmq.options.refused import REFUSED, TRANSLATED, find_refusal
from tests.options.samples import LEAST, error_of

NAMES = [(name.replace("*", "x"), advice) for names, advice in REFUSED.items() for name in names]


@pytest.mark.parametrize(("name", "advice"), NAMES)
def test_a_refused_name_names_its_replacement(name: str, advice: str) -> None:
    """A refused name raises an error with its replacement, in every use and for any value."""
    for stream in (True, False, None):
        error = error_of(LEAST | {name: "some value"}, stream=stream)

        assert error.code == "OPTION_REFUSED"
        assert str(error) == f"[OPTION_REFUSED] {name} = '***': not supported; {advice}"


@pytest.mark.parametrize("name", ["autoCommit", "consumeTimeout", "numTasks"])
def test_also_with_prefix_and_in_any_case(name: str) -> None:
    """A refused name is refused with `rocketmq.` before it, too, and in any case."""
    assert error_of(LEAST | {f"rocketmq.{name}".upper(): "1"}).code == "OPTION_REFUSED"


@pytest.mark.parametrize(
    ("value", "ours"),
    [
        ("CONSUME_FROM_LAST_OFFSET", "use startingOffsets=group and startingOffsetsDefault=latest"),
        ("consume_from_first_offset", "use startingOffsets=group and startingOffsetsDefault=earliest"),
        ("CONSUME_FROM_TIMESTAMP", "use startingOffsets=group and startingTimestamp"),
    ],
)
def test_where_to_start_is_translated(value: str, ours: str) -> None:
    """If `consumeFromWhere` is given, the error names the options that mean the same as its value."""
    assert str(error_of(LEAST | {"consumeFromWhere": value})).endswith(f"= '{value}': not supported; {ours}")


def test_an_unknown_word_is_told_all_three() -> None:
    """If `consumeFromWhere` has an unknown value, the error names all three replacements."""
    text = str(error_of(LEAST | {"consumeFromWhere": "somewhere"}))

    assert all(ours in text for ours in ("=latest", "=earliest", "startingTimestamp"))


def test_a_clock_reading_becomes_iso_with_a_zone_to_fill_in() -> None:
    """If `consumeTimestamp` is given, the error shows its value as ISO-8601, to be completed by a time zone."""
    text = str(error_of(LEAST | {"consumeTimestamp": "20260131083000"}))

    assert "startingTimestamp=2026-01-31T08:30:00<zone>" in text and "2026-01-31T08:30:00Z" in text
    assert str(error_of(LEAST | {"consumeTimestamp": "soon"})).endswith("use startingTimestamp")


def test_no_refused_name_is_an_option() -> None:
    """No name is both accepted and refused."""
    names = [*TRANSLATED, *(name for names in REFUSED for name in names)]

    assert [name for name in names if find_option(name) or find_option(f"rocketmq.{name}")] == []


def test_other_names_are_not_refused() -> None:
    """If an option of Kafka is given without the prefix `kafka.`, it is not refused."""
    assert find_refusal("consumeFrom", "x") is None and find_refusal("kafkaConsumer.x", "x") is None
