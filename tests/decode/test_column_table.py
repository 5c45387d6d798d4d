"""Test the choice of columns."""

from __future__ import annotations

import pytest

from pyspark_rocketmq.decode.columns import COLUMNS, Layout, default_columns, parse_columns
from pyspark_rocketmq.decode.decoder import arrow_schema
from pyspark_rocketmq.errors import OptionError


def test_names_are_matched_without_regard_to_case() -> None:
    """A column may be written in any case and comes out under its own name."""
    assert parse_columns("TOPIC, queueid ,msgId", ()) == ("topic", "queueId", "msgId")


def test_star_is_the_default_set() -> None:
    """`*` means the columns of the layout."""
    defaults = default_columns(Layout.KAFKA)
    assert parse_columns("*", defaults) == defaults
    assert default_columns(Layout.KAFKA, include_headers=True) == (*defaults, "headers")


@pytest.mark.parametrize(("text", "told"), [("topic,colour", "unknown column 'colour'"), ("body,body", "named twice")])
def test_wrong_choices_are_refused(text: str, told: str) -> None:
    """An unknown or repeated column is refused with its name."""
    with pytest.raises(OptionError, match=told):
        parse_columns(text, ())


def test_identity_columns_are_not_nullable() -> None:
    """Exactly the four columns that identify a message are never null."""
    required = [field.name for field in arrow_schema(tuple(COLUMNS)) if not field.nullable]
    assert sorted(required) == ["brokerName", "queueId", "queueOffset", "topic"]
