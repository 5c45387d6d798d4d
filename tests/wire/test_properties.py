"""Test `wire.properties`."""

from __future__ import annotations

import pytest
from hypothesis import given

from pyspark_rocketmq.errors import DecodeError, LocalProtocolError
from pyspark_rocketmq.wire.properties import (
    RESERVED_NAMES,
    decode_properties,
    encode_properties,
    is_reserved,
    java_hash,
    join_properties,
    parse_properties,
)
from pyspark_rocketmq.wire.record import decode_records

from .recorded import recorded_bodies
from .strategies import clean_properties, property_texts


@given(clean_properties)
def test_decode_undoes_encode(properties: dict[str, str]) -> None:
    """Properties that may be sent are equal, and in the same order, after encoding and decoding."""
    assert list(decode_properties(encode_properties(properties)).items()) == list(properties.items())


@pytest.mark.parametrize(
    ("text", "properties"),
    [
        ("", {}),
        ("A\x011\x02", {"A": "1"}),
        ("A\x011", {"A": "1"}),
        ("A\x011\x02B\x01\x02C\x01x\x01y\x02D\x02EE\x01z", {"A": "1", "C": "x\x01y", "EE": "z"}),
        ("A\x011\x02A\x012\x02", {"A": "2"}),
        ("\x011\x02", {}),
        ("\x02\x02\x01\x02", {}),
        ("A\x01\x01\x02", {"A": "\x01"}),
        ("A\x01 \x02", {"A": " "}),
    ],
)
def test_text_is_read_by_the_rule_of_newer_brokers(text: str, properties: dict[str, str]) -> None:
    """Entries without name, separator or value are dropped.

    The last value of a name counts, and a value may hold \\x01.
    """
    assert parse_properties(text) == properties


@given(property_texts)
def test_what_was_read_can_be_stored_again(text: str) -> None:
    """If any property text is parsed and joined again, as a broker does, parsing gives the same properties."""
    read = parse_properties(text)

    assert parse_properties(join_properties(read)) == read


def test_recorded_texts_end_with_and_without_separator() -> None:
    """Texts with and without a last separator give the same properties; newer brokers write it, 4.9.7 does not."""
    texts = [record.properties_text for body in recorded_bodies() for record in decode_records(body)]

    assert {text.endswith(b"\x02") for text in texts} == {True, False}
    for text in texts:
        bare = text.removesuffix(b"\x02")
        assert len(decode_properties(bare)) > 0
        assert decode_properties(bare) == decode_properties(bare + b"\x02")


@pytest.mark.parametrize(
    ("properties", "reason"),
    [
        ({"": "v"}, "blank name of property ''"),
        ({" \t": "v"}, "blank name"),
        ({"n": ""}, "blank value of property 'n'; leave the property out"),
        ({"n": " \n"}, "blank value"),
        ({"a\x01b": "v"}, "name of property .* holds control character 1 or 2"),
        ({"n": "a\x02"}, "value of property 'n' holds control character 1 or 2"),
        ({"n": "\x01"}, "value of property 'n' holds control character"),
        ({"n": "\ud800"}, "no UTF-8 text"),
    ],
)
def test_what_would_not_come_back_is_refused(properties: dict[str, str], reason: str) -> None:
    """Properties that could not be read back, because there are no escapes, raise an error when they are encoded."""
    with pytest.raises(LocalProtocolError, match=reason):
        encode_properties({"good": "one", **properties})


def test_the_limit_counts_bytes() -> None:
    """Properties of more bytes than a signed 16-bit field can count raise an error."""
    assert len(encode_properties({"n": "ü" * 16382})) == 32767
    with pytest.raises(LocalProtocolError, match="properties of 32768 bytes, the limit is 32767"):
        encode_properties({"nn": "ü" * 16382})


def test_broken_utf8_is_an_error() -> None:
    """Stored properties that are not UTF-8 raise an error."""
    with pytest.raises(DecodeError, match="properties are no UTF-8 text"):
        decode_properties(b"n\x01\xff\x02")


def test_names_of_rocketmq_are_reserved() -> None:
    """Names of properties that brokers and clients add are reserved, and a user's names are not."""
    records = [record for body in recorded_bodies() for record in decode_records(body)]
    users = {name for record in records for name in record.properties if not is_reserved(name)}

    assert users == {"a", "b", "city", "Größe", "k", "x"}
    assert is_reserved("__RMQ.TRANSIENT.anything")
    assert not is_reserved("tags")
    assert {"TAGS", "KEYS", "UNIQ_KEY", "DELAY", "__CRC32#"} <= RESERVED_NAMES


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
    """The hash equals Java's `String.hashCode`, also with overflow, surrogate pairs and a lone surrogate."""
    assert java_hash(text) == expected
