"""Test that the header classes can hold the headers of real clients and servers."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping

import pytest

from pyspark_rocketmq.errors import MalformedFrame
from pyspark_rocketmq.wire.codes import RequestCode, ResponseCode
from pyspark_rocketmq.wire.commands import (
    GetMaxOffsetRequestHeader,
    HeartbeatResponseHeader,
    OffsetResponseHeader,
    PullMessageRequestHeader,
    PullMessageResponseHeader,
    RequestHeader,
    SearchOffsetRequestHeader,
    SendMessageRequestHeader,
    SendMessageRequestHeaderV2,
    from_fields,
    to_fields,
)
from tests.wire.exchanges import exchanges


def request_headers(base: type[RequestHeader] = RequestHeader) -> Iterator[type[RequestHeader]]:
    """Yield the classes of request headers that have a code, and so are no base classes."""
    for cls in base.__subclasses__():
        yield from request_headers(cls)
        if "code" in vars(cls):
            yield cls


HEADERS = {cls.code: cls for cls in request_headers()} | {
    RequestCode.LITE_PULL_MESSAGE: PullMessageRequestHeader,
    RequestCode.SEND_REPLY_MESSAGE_V2: SendMessageRequestHeaderV2,
}
"""The header class of each request code; two codes that only the stub serves share the header of another."""
RECORDED = sorted({exchange.request.code for exchange in exchanges()})
HOOK_FIELDS = {"ReqT", "AccessKey", "Signature"}
"""Fields that hooks of the Java client add to any request: a request type, and the signature."""
WHOLE_RESPONSES = {
    ResponseCode.SUCCESS,
    ResponseCode.PULL_NOT_FOUND,
    ResponseCode.PULL_RETRY_IMMEDIATELY,
    ResponseCode.PULL_OFFSET_MOVED,
}
"""Codes whose responses carry their header; refusals carry parts of it at most."""


def read_again(cls: type, fields: Mapping[str, str]) -> dict[str, str]:
    """Return the fields after decoding them to a header of this class and encoding that header."""
    return to_fields(from_fields(cls, fields))


@pytest.mark.parametrize("code", RECORDED, ids=lambda code: RequestCode(code).name)
def test_recorded_requests_come_back_whole(code: int) -> None:
    """Each recorded request header is decoded by its class and encoded again to the same fields."""
    for exchange in exchanges():
        if exchange.request.code == code:
            fields = {name: text for name, text in exchange.request.fields.items() if name not in HOOK_FIELDS}
            assert read_again(HEADERS[RequestCode(code)], fields) == fields, exchange.file


@pytest.mark.parametrize("code", RECORDED, ids=lambda code: RequestCode(code).name)
def test_recorded_answers_come_back_whole(code: int) -> None:
    """Each recorded response header is decoded by its request's response class and encoded again to the same fields."""
    header_class = HEADERS[RequestCode(code)].response
    for exchange in exchanges():
        response = exchange.response
        if exchange.request.code == code and response and response.code in WHOLE_RESPONSES:
            assert (read_again(header_class, response.fields) if header_class else {}) == response.fields, exchange.file


def test_every_request_knows_its_code() -> None:
    """Every class of request headers has a docstring, and a code that no other class has."""
    codes = [cls.code for cls in request_headers()]
    assert len(set(codes)) == len(codes) > 40
    assert all(cls.__doc__ for cls in request_headers())


def test_a_missing_required_field_is_named() -> None:
    """If a header lacks a required field, the error is `MalformedFrame` and states the class and the field."""
    with pytest.raises(MalformedFrame, match=r"GetMaxOffsetRequestHeader without queueId, topic"):
        from_fields(GetMaxOffsetRequestHeader, {"committed": "true"})
    with pytest.raises(MalformedFrame, match="OffsetResponseHeader without offset"):
        from_fields(OffsetResponseHeader, None)


@pytest.mark.parametrize("text", ["x", "1.0", "1_000", " 7", "0x7", "٣", "-", "+-1", "9223372036854775808", "9" * 5000])
def test_what_is_no_java_integer_is_malformed(text: str) -> None:
    """A text that Python would parse as an integer, but Java would not, raises `MalformedFrame`."""
    with pytest.raises(MalformedFrame, match=r"OffsetResponseHeader\.offset is '"):
        from_fields(OffsetResponseHeader, {"offset": text})


@pytest.mark.parametrize(("text", "value"), [("-9223372036854775808", -(2**63)), ("+7", 7), ("007", 7)])
def test_integers_span_64_bits(text: str, value: int) -> None:
    """The smallest and the largest integer of 64 bits are decoded."""
    assert from_fields(OffsetResponseHeader, {"offset": text}).offset == value


def test_only_true_is_true() -> None:
    """A boolean is true only if its text is `true`, in capital or small letters."""
    names = {"IS_SUPPORT_HEART_BEAT_V2": "TRUE", "IS_SUB_CHANGE": "yes"}
    header = from_fields(HeartbeatResponseHeader, names)
    assert (header.is_support_heart_beat_v2, header.is_sub_change) == (True, False)


def test_unknown_fields_are_ignored_and_absent_ones_not_written() -> None:
    """An unknown field is ignored when a header is decoded, and a field that is None is not encoded."""
    fields = {"topic": "T", "queueId": "3", "timestamp": "9", "fromTheFuture": "1"}
    header = from_fields(SearchOffsetRequestHeader, fields)
    assert header == SearchOffsetRequestHeader(topic="T", queue_id=3, timestamp=9)
    assert to_fields(header) == {"topic": "T", "queueId": "3", "timestamp": "9"}


def test_an_empty_number_counts_as_absent_but_an_empty_text_does_not() -> None:
    """An empty number counts as absent, because the binary form has no absent values; an empty text is kept."""
    required = {"suggestWhichBrokerId": "0", "nextBeginOffset": "1", "minOffset": "0", "maxOffset": "2"}
    assert from_fields(PullMessageResponseHeader, {**required, "forbiddenType": ""}).forbidden_type is None
    assert from_fields(SearchOffsetRequestHeader, {**SEARCH, "boundaryType": ""}).boundary_type == ""


SEARCH = {"topic": "T", "queueId": "0", "timestamp": "0"}


def test_both_send_forms_carry_the_same_header() -> None:
    """The header classes for sending, with full and with one-letter field names, have the same fields."""
    letters = dict(zip("abcdefghn", ["p", "T", "TBW102", "4", "1", "0", "5", "7", "broker-a"], strict=True))
    short = from_fields(SendMessageRequestHeaderV2, letters)
    long = SendMessageRequestHeader(**{field.name: getattr(short, field.name) for field in dataclasses.fields(short)})
    assert to_fields(short) == letters
    assert to_fields(long)["defaultTopicQueueNums"] == "4" and to_fields(long)["bname"] == "broker-a"


def test_headers_are_values() -> None:
    """Headers with equal fields are equal, and no field can be changed."""
    fields = next(exchange.request.fields for exchange in exchanges() if exchange.request.code == 11)
    header = from_fields(PullMessageRequestHeader, fields)
    assert header == from_fields(PullMessageRequestHeader, fields)
    with pytest.raises(dataclasses.FrozenInstanceError):
        header.queue_id = 3  # type: ignore[misc]  # the point of the test
