"""Tests of `broker_stub.sql92`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_stub.sql92 import SqlEvaluationError, SqlSyntaxError, compile_sql

VECTORS: dict[str, Any] = json.loads((Path(__file__).parents[1] / "golden" / "sql92.json").read_text())
PROPERTIES: dict[str, str] = VECTORS["properties"]


def outcome(expression: str, properties: dict[str, str]) -> bool | str | None:
    """Return the kind of error that compiling or evaluating an expression raises, or else its value."""
    try:
        value = compile_sql(expression).evaluate(properties)
    except SqlSyntaxError:
        return "compile error"
    except SqlEvaluationError:
        return "error"
    assert value is None or isinstance(value, bool)
    return value


@pytest.mark.parametrize("case", VECTORS["cases"], ids=lambda case: case["expression"])
def test_agrees_with_the_java_filter(case: dict[str, Any]) -> None:
    """For each recorded case, errors, values and matches are those of RocketMQ's Java filter."""
    recorded = "compile error" if case["compile"] == "error" else case["value"]
    assert outcome(case["expression"], PROPERTIES) == recorded
    if case["compile"] == "ok":
        assert compile_sql(case["expression"]).matches(PROPERTIES) is case["matched"]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("big <= 3L NOT CONTAINS ''", False),
        ("imin = -2147483648", True),
        ("imin = -2147483649", False),
        ("zero = -0.5", False),
        ("minus_zero < zero", True),
        ("hex = 8.0", True),
        ("infinite > 1.5", True),
        ("(a = 10) = 5", False),
        ("(a = 10) = 'true'", "error"),
        ("TRUE = 5", "compile error"),
        ("5 = TRUE", False),
        ("NULL IS NULL", True),
        ("a BETWEEN 'x' AND 5", "compile error"),
        ("a IN ('1', '2',\n'10') -- on two lines\n", True),
        ("a = 1_000", False),
        ("a NOT = 10", "compile error"),
        ("5", "compile error"),
        ("overflow > 1.5", True),
        ("(a = 10) = (a = 11)", False),
    ],
)
def test_follows_java_in_the_corners(expression: str, expected: bool | str) -> None:
    """In cases found by random comparison with the Java filter, the value equals that of the Java filter."""
    properties = {
        "a": "10",
        "imin": "-2147483648",
        "zero": "0.0",
        "minus_zero": "-0.0",
        "hex": "0x1p3",
        "overflow": "0x1p9999",
        "infinite": "Infinity",
        "big": "9223372036854775807",
    }
    assert outcome(expression, properties) == expected


def test_nesting_without_end_is_refused() -> None:
    """An expression that is nested too deeply to parse is a compile error."""
    with pytest.raises(SqlSyntaxError, match="nested too deeply"):
        compile_sql("(" * 100_000 + "a = 1" + ")" * 100_000)


def test_a_long_chain_too_deep_to_evaluate_keeps_nothing() -> None:
    """If a chain is too deep to evaluate, the message does not match, as in Java, where the stack overflows."""
    chain = compile_sql(" OR ".join(["a = '1'"] * 20_000))
    assert not chain.matches({"a": "1"})


@given(st.text(max_size=40), st.dictionaries(st.sampled_from("abc"), st.text(max_size=8)))
def test_any_text_compiles_or_is_refused(text: str, properties: dict[str, str]) -> None:
    """For any text, compiling and evaluating raise nothing but the two SQL errors."""
    assert outcome(text, properties) in (True, False, None, "error", "compile error")


@given(st.text(max_size=30), st.sampled_from(["a = 5", "a > 5", "a = 5.5", "a = 9223372036854775807", "a < b"]))
def test_any_property_value_is_compared_or_an_error(value: str, expression: str) -> None:
    """For any property value, a comparison has a result or raises an evaluation error."""
    assert outcome(expression, {"a": value, "b": "1"}) in (True, False, "error")
