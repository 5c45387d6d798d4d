"""Test that results become JSON, and that their schemas are made from their classes."""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import Enum

import jsonschema
import pytest

from pyspark_rocketmq.cli.documents import schema_of, write_json
from pyspark_rocketmq.cli.values import Moment, moment


class Colour(Enum):
    """A word of an enumeration."""

    RED = "red"


@dataclass(frozen=True)
class Inner:
    """A part of a result."""

    queue_id: int


@dataclass(frozen=True)
class Sample:
    """A result with members of every kind.

    Only the first line is the description.
    """

    text: str
    long_name: int
    ratio: float
    flag: bool
    maybe: str | None
    parts: tuple[Inner, ...]
    table: dict[str, int]
    colour: Colour
    at: Moment


SAMPLE = Sample("ü", 1, 0.5, True, None, (Inner(3),), {"a": 1}, Colour.RED, moment(1_700_000_000_123))


def test_members_are_in_camel_case_and_keep_their_types() -> None:
    """Attributes become members in camelCase, tuples arrays, dataclasses objects, and None null."""
    assert json.loads(write_json(SAMPLE)) == {
        "text": "ü",
        "longName": 1,
        "ratio": 0.5,
        "flag": True,
        "maybe": None,
        "parts": [{"queueId": 3}],
        "table": {"a": 1},
        "colour": "red",
        "at": {"ms": 1_700_000_000_123, "iso": "2023-11-14T22:13:20.123Z"},
    }


def test_the_schema_accepts_the_document() -> None:
    """A document is accepted by the schema that is made from the class of the result."""
    schema = schema_of(Sample, "sample")

    jsonschema.validate(json.loads(write_json(SAMPLE)), schema)
    assert schema["description"] == "A result with members of every kind."


@pytest.mark.parametrize(
    ("member", "value"),
    [("longName", "1"), ("parts", None), ("flag", 1.5), ("colour", "blue"), ("at", 5), ("extra", 1), ("maybe", 3)],
)
def test_the_schema_refuses_other_documents(member: str, value: object) -> None:
    """A member of another type, or one that the class does not have, is refused."""
    document = json.loads(write_json(SAMPLE)) | {member: value}

    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(document, schema_of(Sample, "sample"))


def test_no_text_acts_on_a_terminal() -> None:
    """Characters that are not printable are escaped, among them those that begin a control sequence."""
    text = "\x9b31m\x1b[2J\x7f\u202e\u2028\ud800\U000e0001ü😀"

    written = write_json({"text": text})

    assert written.isprintable() and "ü😀" in written
    assert json.loads(written) == {"text": text}


def test_a_stream_that_is_not_utf_8_gets_ascii() -> None:
    """Text for such a stream has escapes of JSON for all other characters."""
    assert write_json({"text": "ü😀"}, is_ascii=True) == r'{"text": "\u00fc\ud83d\ude00"}'


def test_json_has_no_infinite_number() -> None:
    """A number that JSON does not have is an error, not a word that programs cannot read."""
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json({"ratio": float("nan")})


def test_a_time_that_no_calendar_has_is_a_number() -> None:
    """A broker may report any number as a time; it never breaks a command."""
    assert moment(2**62) == Moment(2**62, None)
