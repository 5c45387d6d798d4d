"""Test `wire.header`."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_rocketmq.errors import LocalProtocolError, MalformedFrame
from pyspark_rocketmq.wire.codes import LanguageCode
from pyspark_rocketmq.wire.header import Command, HeaderType, PullResponse, SendResponse, decode_command, encode_command

from .frames import join_frame
from .recorded import recorded_commands
from .strategies import commands

USUAL_RESPONSE = (
    b'{"code":0,"extFields":{"suggestWhichBrokerId":"0","groupSysFlag":"0","nextBeginOffset":"32","maxOffset":"90",'
    b'"minOffset":"0"},'
    b'"flag":1,"language":"JAVA","opaque":7,"remark":"FOUND","serializeTypeCurrentRPC":"JSON","version":479}'
)
SENT_4 = (
    b'{"code":0,"extFields":{"queueId":"3","TRACE_ON":"true","MSG_REGION":"DefaultRegion","msgId":"7F00AB",'
    b'"queueOffset":"12"},"flag":1,"language":"JAVA","opaque":7,"serializeTypeCurrentRPC":"JSON","version":408}'
)
SENT_5 = SENT_4.replace(b',"msgId":"7F00AB"', b"").replace(
    b'"TRACE_ON"', b'"transactionId":"k 1","msgId":"7F00AB,7F00AC","TRACE_ON"'
)
USUAL_RESPONSES = [USUAL_RESPONSE, SENT_4, SENT_5]
NUMBERS = ("nextBeginOffset", "minOffset", "maxOffset", "suggestWhichBrokerId")
ROUTE_REQUEST = Command(105, 7, {"topic": "TopicTest"})


def decode(header: bytes | str, header_type: int = HeaderType.JSON) -> Command:
    data = header.encode() if isinstance(header, str) else header
    return decode_command(memoryview(join_frame(header_type, data, b"")))


def as_read(command: Command) -> Command:
    """Return a `Command` with all attributes of the command.

    For a response that the fast path has decoded, check what it has read against the fields.
    """
    if isinstance(command, PullResponse):
        fields = command.fields or {}
        assert command.numbers == tuple(int(fields[name]) for name in NUMBERS)
    if isinstance(command, SendResponse):
        fields = command.fields or {}
        read = int(fields["queueId"]), int(fields["queueOffset"]), fields.get("msgId", ""), fields.get("transactionId")
        assert command.stored == read
    return Command(**{name: getattr(command, name) for name in Command.__slots__})


def outcome(header: bytes) -> Command | type[MalformedFrame]:
    try:
        return as_read(decode(header))
    except MalformedFrame:
        return MalformedFrame


def facts_of(command: Command) -> dict[str, Any]:
    return {
        "code": command.code,
        "language": None if command.language is None else command.language.name,
        "version": command.version,
        "opaque": command.opaque,
        "flag": command.flag,
        "serialize": command.header_type.name,
        "header": command.fields,
        "remark": command.remark,
    }


def test_recorded_commands_decode_to_their_recorded_fields() -> None:
    """Commands of real servers and clients are decoded to the recorded values, in both header forms."""
    for recorded in recorded_commands():
        command = decode_command(memoryview(recorded.frame))
        assert facts_of(command) == {name: recorded.facts[name] for name in facts_of(command)}, recorded.file
        assert command.body == recorded.body, recorded.file


def test_recorded_commands_encode_byte_for_byte() -> None:
    """Commands of real servers and clients are encoded again to the recorded bytes."""
    counts: Counter[HeaderType] = Counter()
    for recorded in recorded_commands():
        command = decode_command(memoryview(recorded.frame))
        assert encode_command(command) == recorded.frame, recorded.file
        counts[command.header_type] += 1

    assert counts.total() == 3021
    assert counts[HeaderType.ROCKETMQ] > 300


@given(commands())
def test_decode_undoes_encode(command: Command) -> None:
    """Any command that can be encoded is decoded to an equal command."""
    assert decode_command(memoryview(encode_command(command))) == command


_SAID = st.one_of(st.integers(-1, 2**40).map(str), st.sampled_from(["", "FOUND", '"', "\\", "é", " ", "a:b"]))
_PULL_FIELDS = (
    "suggestWhichBrokerId",
    "groupSysFlag",
    "nextBeginOffset",
    "maxOffset",
    "minOffset",
    "topicSysFlag",
)


@given(
    st.sets(st.sampled_from(_PULL_FIELDS), max_size=3),
    st.lists(st.integers(0, 2**63 - 1).map(str) | _SAID, min_size=6, max_size=6),
    _SAID,
    st.integers(-1, 2**31 - 1),
    st.just(0) | st.integers(0, 10**9),
)
def test_answers_to_pulls_are_read_as_any_json(
    left_out: set[str], said: list[str], remark: str, opaque: int, code: int
) -> None:
    """A response to a pull, or one that only resembles it, is decoded to the same command as without the fast path."""
    fields = {name: value for name, value in zip(_PULL_FIELDS, said, strict=True) if name not in left_out}
    response = Command(code, opaque, fields, b"", remark, 1, LanguageCode.JAVA, 479)
    frame = bytes(encode_command(response))

    read = decode_command(memoryview(frame))
    assert as_read(read) == decode(frame[8:] + b" ") == response == read


@pytest.mark.parametrize("optional", [b"", b',"topicSysFlag":"0"'])
def test_the_usual_answer_is_read_in_short(optional: bytes) -> None:
    """The fast path decodes the usual response to a pull, and the result equals a `Command` decoded without it."""
    header = USUAL_RESPONSE.replace(b'"minOffset":"0"', b'"minOffset":"0"' + optional)
    data = join_frame(HeaderType.JSON, header, b"messages")
    response = decode_command(memoryview(data))

    assert isinstance(response, PullResponse) and response.numbers == (32, 0, 90, 0)
    assert response == decode_command(memoryview(join_frame(HeaderType.JSON, header + b" ", b"messages")))
    assert encode_command(response) == data and response != ROUTE_REQUEST


def test_recorded_answers_to_sends_are_read_in_short() -> None:
    """The fast path decodes the responses to sends of real brokers of 4.9.7, 5.3.3 and 5.5.0."""
    found = Counter(
        recorded.facts["version"]
        for recorded in recorded_commands()
        if isinstance(decode_command(memoryview(recorded.frame)), SendResponse)
    )
    assert min(found[version] for version in (407, 479, 513)) >= 8, found


@pytest.mark.parametrize("usual", USUAL_RESPONSES)
@pytest.mark.parametrize(("header_type", "surplus"), [(HeaderType.ROCKETMQ, 0), (HeaderType.JSON, 1)])
def test_only_a_frame_that_says_so_has_the_usual_header(usual: bytes, header_type: HeaderType, surplus: int) -> None:
    """The fast path ignores a frame whose header type is binary, or whose header goes on after the usual text."""
    with pytest.raises(MalformedFrame):
        decode(usual + b"x" * surplus, header_type)


@given(st.sampled_from(USUAL_RESPONSES), st.integers(0, 300), st.sampled_from(b'",:{}\\0-9aA \x00\x80'))
def test_a_header_changed_anywhere_is_no_other_answer(usual: bytes, at: int, byte: int) -> None:
    """If one byte of a usual header changes, the fast path gives the same result as the JSON parser."""
    header = bytearray(usual)
    header[at % len(header)] = byte
    short, long = (outcome(bytes(header) + blank) for blank in (b"", b" "))

    assert short == long


def test_a_binary_header_as_documented() -> None:
    """A binary header is encoded to the bytes that the protocol's description shows."""
    command = replace(ROUTE_REQUEST, header_type=HeaderType.ROCKETMQ)

    assert encode_command(command).hex(" ", -4) == (
        "0000002d 01000029 00690301 99000000 07000000 00000000 00000000 14000574 6f706963 00000009 546f7069 63546573 74"
    )


def test_a_json_header_as_documented() -> None:
    """The example of a JSON header in the protocol's description is decoded.

    A field that is only informative is dropped.
    """
    header = '{"code":105,"extFields":{"topic":"TopicTest"},"flag":0,"language":"PYTHON","opaque":7,"version":409}'

    assert decode(header) == ROUTE_REQUEST


def test_json_is_read_as_leniently_as_java_reads_it() -> None:
    """In JSON, numbers and booleans become text, null counts as absent, and unknown members are ignored, as in Java."""
    command = decode('{"code":0,"opaque":1,"language":"COBOL","new":[1],"extFields":{"a":5,"b":true,"c":null,"d":1.5}}')

    assert command.fields == {"a": "5", "b": "true", "d": "1.5"}
    assert command.language is None
    assert command.version == 0


def test_the_flag_tells_requests_answers_and_oneways() -> None:
    """Bit 0 of the flag marks a response and bit 1 a one-way request; other bits have no effect."""
    assert [
        (command.is_response, command.is_oneway) for command in (Command(0, flag=flag) for flag in (0, 1, 2, 4))
    ] == [
        (False, False),
        (True, False),
        (False, True),
        (False, False),
    ]


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        ("", "Expecting value"),
        ("{", "Expecting property name"),
        ('{"code":1,"opaque":1} x', "Extra data"),
        (b'{"code":1,"opaque":1,"remark":"\xff"}', "invalid start byte"),
        ("[1]", "header is no object"),
        ("7", "header is no object"),
        ('{"opaque":1}', "code is no 32-bit integer: None"),
        ('{"code":1}', "opaque is no 32-bit integer: None"),
        ('{"code":"1","opaque":1}', "code is no 32-bit integer: '1'"),
        ('{"code":1.0,"opaque":1}', "code is no 32-bit integer"),
        ('{"code":true,"opaque":1}', "code is no 32-bit integer: True"),
        ('{"code":1,"opaque":2147483648}', "opaque is no 32-bit integer: 2147483648"),
        ('{"code":1,"opaque":1,"flag":null}', "flag is no 32-bit integer"),
        ('{"code":1,"opaque":1,"version":{}}', "version is no 32-bit integer"),
        ('{"code":1,"opaque":1,"language":[]}', "unhashable"),
        ('{"code":1,"opaque":1,"extFields":[]}', r"extFields is no object: \[\]"),
        pytest.param('{"code":1,"opaque":' + "9" * 5000 + "}", "Exceeds the limit", id="huge number"),
        pytest.param("[" * 100_000, "recursion", id="deep lists"),
        pytest.param('{"a":' * 100_000, "recursion", id="deep objects"),
    ],
)
def test_broken_json_headers_are_malformed(header: bytes | str, reason: str) -> None:
    """A broken JSON header raises `MalformedFrame` with the reason."""
    with pytest.raises(MalformedFrame, match=f"unreadable JSON header: .*{reason}"):
        decode(header)


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        ("", "requires a buffer of at least 13 bytes"),
        ("0069 03 0199 00000007 000000", "requires a buffer"),
        ("0069 03 0199 00000007 00000000", "a field of 0 bytes at 13 in 13"),
        ("0069 03 0199 00000007 00000000 00000005 61", "a field of 5 bytes at 13"),
        ("0069 03 0199 00000007 00000000 ffffffff 00000000", "a field of -1 bytes at 13"),
        ("0069 03 0199 00000007 00000000 00000001 ff 00000000", "invalid start byte"),
        ("0069 03 0199 00000007 00000000 00000000 7fffffff", "a field of 2147483647 bytes at 17"),
        ("0069 03 0199 00000007 00000000 00000000 00000003 0001 61", "a field of 0 bytes at 3 in 3"),
        ("0069 03 0199 00000007 00000000 00000000 00000007 8000 00000000 61", "a field of -32768 bytes at 0"),
    ],
)
def test_broken_binary_headers_are_malformed(header: str, reason: str) -> None:
    """A binary header with wrong lengths, or with text that is not UTF-8, raises `MalformedFrame`."""
    with pytest.raises(MalformedFrame, match=f"unreadable ROCKETMQ header: .*{reason}"):
        decode(bytes.fromhex(header), HeaderType.ROCKETMQ)


def test_an_unknown_header_type_is_malformed() -> None:
    """A frame whose header type is neither JSON nor binary raises `MalformedFrame`."""
    with pytest.raises(MalformedFrame, match="unknown header type 2"):
        decode("{}", 2)


def test_the_last_of_equal_binary_names_counts() -> None:
    """If a binary header has a name twice, the last value counts; Java servers write some fields twice."""
    entries = bytes.fromhex("0001 61 00000001 31 0001 61 00000001 32")
    header = bytes.fromhex("0000 00 0000 00000001 00000001 00000000") + len(entries).to_bytes(4, "big") + entries

    assert decode(header, HeaderType.ROCKETMQ).fields == {"a": "2"}


@pytest.mark.parametrize(("header_type", "told"), [(HeaderType.JSON, None), (HeaderType.ROCKETMQ, LanguageCode.OTHER)])
def test_a_language_may_be_unknown(header_type: HeaderType, told: LanguageCode | None) -> None:
    """A command without a language is decoded with None from JSON, and with OTHER from the binary form."""
    command = decode_command(memoryview(encode_command(Command(1, language=None, header_type=header_type))))

    assert command.language is told


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        (Command(200050, header_type=HeaderType.ROCKETMQ), "code 200050 does not fit"),
        (Command(1, version=2**15, header_type=HeaderType.ROCKETMQ), "unwritable header of command 1"),
        (Command(1, fields={"n" * 32_768: "v"}, header_type=HeaderType.ROCKETMQ), "a field's name of 32768 bytes"),
        (Command(1, fields={"n": "\ud800"}, header_type=HeaderType.ROCKETMQ), "surrogates not allowed"),
        (Command(1, remark="\ud800"), "surrogates not allowed"),
    ],
)
def test_what_cannot_be_written_is_refused(command: Command, reason: str) -> None:
    """A command that cannot be encoded raises `LocalProtocolError`."""
    with pytest.raises(LocalProtocolError, match=reason):
        encode_command(command)
