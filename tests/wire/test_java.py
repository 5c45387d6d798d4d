"""Tests of `wire.java`."""

from __future__ import annotations

import pytest

from pyspark_rocketmq.wire.java import java_hash


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0),
        ("a", 97),
        ("TagA", 2598919),
        ("polygenelubricants", -(2**31)),
        ("Grüße", 69215351),
        ("🚀", 1773027),
        ("\ud83d", 55357),
    ],
)
def test_hash_is_javas(text: str, expected: int) -> None:
    """Values that `String.hashCode` gave, with overflow, surrogate pairs and a lone surrogate."""
    assert java_hash(text) == expected
