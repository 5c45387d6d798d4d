"""JSON that users type is parsed strictly."""

from __future__ import annotations

import pytest

from pyspark_rocketmq.errors import OptionError
from pyspark_rocketmq.offsets.strict_json import is_integer, is_queue_id, parse_json, shorten


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "Expecting value"),
        ("{'a': 1}", "property name"),
        ('{"a": 1, "b": 2, "a": 1}', "key 'a' appears twice"),
        ("[NaN]", "NaN is not a JSON number"),
        ("[-Infinity]", "-Infinity is not a JSON number"),
        ('{"a": 1} x', "Extra data"),
        ("[" * 100_000, "nested too deeply"),
        ("[1e999]", "1e999 is too large a number"),
        ("9" * 5000, "a number has too many digits; give one"),
    ],
)
def test_refusals(text: str, what: str) -> None:
    """If a text is not standard JSON, an error is raised that cuts a long text."""
    with pytest.raises(OptionError, match=what) as raised:
        parse_json(text, "assign")

    assert str(raised.value).startswith("[OPTION_VALUE] assign = ")
    assert len(str(raised.value)) < 500


def test_booleans_are_no_integers() -> None:
    """Neither true nor 1.0 in JSON counts as the integer 1."""
    values = [1, True, 1.0, "1", None, 6]

    assert [value for value in values if is_integer(value, 0, 5)] == [1]


def test_queue_ids() -> None:
    """A queue id is accepted in one spelling only: decimal, without a sign or leading zeros."""
    keys = ["0", "10", "2147483647", "2147483648", "01", "-1", "+1", "1.0", "", "٣", "*"]

    assert [key for key in keys if is_queue_id(key)] == ["0", "10", "2147483647"]


def test_two_hundred_characters_are_shown() -> None:
    """A text of up to 200 characters is shown whole; a longer one is cut, and 200 characters state its length, too."""
    assert shorten("x" * 200) == "x" * 200
    assert shorten("x" * 201) == "x" * 182 + "… (201 characters)"
    assert shorten("a\nb") == r"a\nb"
