"""Test `wire.header.PreparedRequest`."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_rocketmq.errors import LocalProtocolError
from pyspark_rocketmq.wire.header import Command, PreparedRequest, encode_command, json_text

_texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
_hostile = st.sampled_from(['"', "%d", "%%", '},"flag":', '"opaque":0,', '"queueOffset":"0"', "\\", "größe"])
_fields = st.dictionaries(st.one_of(_texts, _hostile), st.one_of(_texts, _hostile), max_size=4)
_numbers = st.integers(-1, 2**63 - 1)


@given(st.integers(0, 400), _fields, st.integers(1, 2**31 - 1), st.dictionaries(_texts, _numbers, max_size=3))
def test_a_filled_in_request_is_the_one_written_anew(
    code: int, fields: dict[str, str], opaque: int, changing: dict[str, int]
) -> None:
    """A prepared request with new numbers equals the request encoded from scratch, whatever texts its fields hold."""
    prepared = PreparedRequest(code, fields, list(changing))
    rest = {name: value for name, value in fields.items() if name not in changing}
    whole = Command(code, opaque, rest | {name: str(value) for name, value in changing.items()})
    assert prepared.frames([(*changing.values(), opaque)] * 2) == [encode_command(whole)] * 2


@given(_fields, st.one_of(_texts, _hostile), st.dictionaries(_texts, _numbers, max_size=3), st.binary(max_size=9))
def test_a_text_and_a_body_may_change_too(
    fields: dict[str, str], text: str, changing: dict[str, int], body: bytes
) -> None:
    """The head of a request with new numbers and a new text, and its body, are the request encoded from scratch."""
    changing.pop("i", None)
    prepared = PreparedRequest(310, fields, list(changing), "i")
    rest = {name: value for name, value in fields.items() if name not in (*changing, "i")}
    numbers = {name: str(value) for name, value in changing.items()}
    whole = Command(310, 7, rest | numbers | {"i": text}, body)
    head = prepared.head((*changing.values(), json_text(text).encode(), 7), len(body))
    assert head + body == encode_command(whole)


def test_what_cannot_be_written_is_told_when_preparing() -> None:
    """A text that is not valid Unicode raises an error when the request is prepared."""
    with pytest.raises(LocalProtocolError, match="unwritable header"):
        PreparedRequest(11, {"topic": "\ud800"}, ["queueOffset"])
