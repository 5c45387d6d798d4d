"""Encode and decode the headers of commands (requests and responses), as JSON or in RocketMQ's binary form.

Both forms have the same fields; the type byte of a frame states its form. JSON is written as the Java client writes
it: compact, with keys in alphabetical order.

Two operations that happen thousands of times a second have fast paths. `cut_responses` decodes responses to pulls and
sends whose headers have the usual form; compiled code could replace it. `PreparedRequest` encodes requests that differ
only in numbers and one text.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from reprlib import repr as shorten
from typing import Any

from ..errors import LimitExceeded, LocalProtocolError, MalformedFrame
from .codes import LanguageCode
from .frame import MIN_FRAME_BYTES, PREFIX_BYTES, frame_prefix, read_sized, split_frame, write_sized

CLIENT_VERSION = 409
"""Release that this client reports, 4.9.8.

Name servers then send routes as standard JSON, and brokers no GO_AWAY response at a graceful shutdown.
"""

MOST_HEADER_BYTES = 1024 * 1024
"""Limit of a received header, because its decoded fields take many times its size; the limit of brokers is 64 KiB."""

RESPONSE_FLAG = 1
ONEWAY_FLAG = 2


class HeaderType(IntEnum):
    """Header form, as in the type byte of a frame; the names are RocketMQ's."""

    JSON = 0
    ROCKETMQ = 1


# Looking up a member of an enum takes as long as reading a field of a header.
_JSON, _BINARY = HeaderType.JSON, HeaderType.ROCKETMQ


@dataclass(slots=True)
class Command:
    """One request or response; `fields` are the header fields that belong to its `code`, as texts."""

    code: int
    opaque: int = 0
    fields: dict[str, str] | None = None
    body: bytes | memoryview = b""
    remark: str | None = None
    flag: int = 0
    language: LanguageCode | None = LanguageCode.PYTHON
    version: int = CLIENT_VERSION
    header_type: HeaderType = HeaderType.JSON

    @property
    def is_response(self) -> bool:
        """Whether this is a response, and not a request."""
        return bool(self.flag & RESPONSE_FLAG)

    @property
    def is_oneway(self) -> bool:
        """Whether this is a one-way request, which gets no response."""
        return bool(self.flag & ONEWAY_FLAG)


def encode_command(command: Command) -> bytes:
    """Return the frame of a command; raise `LocalProtocolError` if a field cannot be encoded."""
    return b"".join((encode_head(command), command.body))


def encode_head(command: Command) -> bytes:
    """Return the frame of a command without its body, which must follow; raise as `encode_command` does."""
    encode = _encode_json if command.header_type is HeaderType.JSON else _encode_binary
    try:
        header = encode(command)
    except (UnicodeEncodeError, struct.error) as cause:
        raise LocalProtocolError(
            f"unwritable header of command {command.code}: {cause}", advice="send valid text and 32-bit numbers"
        ) from cause
    return frame_prefix(command.header_type, len(header), len(command.body)) + header


def decode_command(frame: memoryview) -> Command:
    """Return the command in one complete frame; its body is a view of the frame."""
    responses, _ = cut_responses(frame, 0, len(frame), len(frame))
    return responses[0] if responses else decode_any_command(frame)


def decode_any_command(frame: memoryview) -> Command:
    """Return the command in one complete frame, without the fast path for responses to pulls and sends."""
    header_type, header, body = split_frame(frame)
    if len(header) > MOST_HEADER_BYTES:
        raise LimitExceeded(
            f"a header of {len(header)} bytes, the limit is {MOST_HEADER_BYTES}",
            advice="look at the server's log; is it a RocketMQ server?",
        )
    try:
        if header_type == _JSON:
            return _decode_json(str(header, "utf-8"), body)
        if header_type == _BINARY:
            return _decode_binary(header, body)
    except (ValueError, TypeError, RecursionError, struct.error) as cause:
        raise MalformedFrame(f"unreadable {HeaderType(header_type).name} header: {cause}") from cause
    raise MalformedFrame(f"unknown header type {header_type}")


def _encode_json(command: Command) -> bytes:
    header: dict[str, Any] = {"code": command.code}
    if command.fields is not None:
        header["extFields"] = command.fields
    header["flag"] = command.flag
    if command.language is not None:
        header["language"] = command.language.name
    header["opaque"] = command.opaque
    if command.remark is not None:
        header["remark"] = command.remark
    header["serializeTypeCurrentRPC"] = "JSON"
    header["version"] = command.version
    return json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()


def _decode_json(header: str, body: memoryview) -> Command:
    parsed = _object("header", json.loads(header))
    fields, remark = parsed.get("extFields"), parsed.get("remark")
    return Command(
        code=_integer("code", parsed.get("code")),
        opaque=_integer("opaque", parsed.get("opaque")),
        fields=None if fields is None else _texts(_object("extFields", fields)),
        body=body,
        remark=None if remark is None else _text(remark),
        flag=_integer("flag", parsed.get("flag", 0)),
        language=LanguageCode.__members__.get(parsed.get("language", "")),
        version=_integer("version", parsed.get("version", 0)),
        header_type=HeaderType.JSON,
    )


def _object(name: str, value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{name} is no object: {shorten(value)}")
    return value


def _integer(name: str, value: object) -> int:
    if type(value) is not int or not -(2**31) <= value < 2**31:
        raise ValueError(f"{name} is no 32-bit integer: {shorten(value)}")
    return value


def _texts(fields: dict[str, Any]) -> dict[str, str]:
    return {name: _text(value) for name, value in fields.items() if value is not None}


def _text(value: object) -> str:
    """Return a header field's value as text; a JSON number or boolean becomes its text, as in Java."""
    return value if isinstance(value, str) else json.dumps(value)


# --- responses to pulls and sends ------------------------------------------------------------------------------------

_PREFIX = struct.Struct(">II")
"""The first 8 bytes of a frame: its length, and header type and header length as one number.

For JSON, whose type is 0, this number is the header length.
"""
_FLAGS, _OFFSET, _NUMBER = rb'"\d{1,18}"', rb'"(\d{1,18})"', rb"(?:0|[1-9]\d{0,8})"
_BOUND = rb'"(-1|\d{1,18})"'
_PULL_RESPONSE = re.compile(
    rb'(?s:.{%d})\{"code":0,"extFields":\{"suggestWhichBrokerId":"(\d{1,18})",(?:"groupSysFlag":%b,)?'
    rb'"nextBeginOffset":%b,"maxOffset":%b,"minOffset":%b(?:,"topicSysFlag":%b)?\},"flag":1,"language":"JAVA",'
    rb'"opaque":(%b),"remark":"\w+","serializeTypeCurrentRPC":"JSON","version":%b\}'
    % (MIN_FRAME_BYTES, _FLAGS, _OFFSET, _BOUND, _BOUND, _FLAGS, _NUMBER, _NUMBER)
)
"""A usual response to a pull, up to the end of its header: compact JSON without escapes, with numbers in range."""
_ID = rb'"msgId":"([0-9A-F,]+)",'
_SEND_RESPONSE = re.compile(
    rb'(?s:.{%d})\{"code":0,"extFields":\{"queueId":"(\d{1,9})",(?:"transactionId":"([ !#-\[\]-~]+)",)?(?:%b)?'
    rb'"TRACE_ON":"\w+","MSG_REGION":"\w+",(?:%b)?"queueOffset":%b\},"flag":1,"language":"JAVA",'
    rb'"opaque":(%b),"serializeTypeCurrentRPC":"JSON","version":%b\}'
    % (MIN_FRAME_BYTES, _ID, _ID, _OFFSET, _NUMBER, _NUMBER)
)
"""A usual response to a send, up to the end of its header. Brokers of 4.9 and 5 write the message id in two places."""


def cut_responses(data: memoryview, start: int, end: int, max_frame_bytes: int) -> tuple[list[QuickResponse], int]:
    """Return the responses at the beginning of `data[start:end]`, and the position where the last one ends.

    They must be responses to pulls that found messages, or to sends that were stored, and have a header as brokers 4.9
    to 5.5 write it. Stop at the first frame that is anything else, larger than `max_frame_bytes`, or incomplete.
    """
    responses: list[QuickResponse] = []
    while end - start >= MIN_FRAME_BYTES:
        length, header_bytes = _PREFIX.unpack_from(data, start)
        frame_end = start + PREFIX_BYTES + length
        if frame_end > end or frame_end - start > max_frame_bytes:
            break
        make: type[QuickResponse] = PullResponse
        header = _PULL_RESPONSE.match(data, start, frame_end)
        if header is None:
            make, header = SendResponse, _SEND_RESPONSE.match(data, start, frame_end)
        if header is None or header.end() - start != header_bytes + MIN_FRAME_BYTES:
            break
        responses.append(make(data[start:frame_end], data[header.end() : frame_end], header.groups()))
        start = frame_end
    return responses, start


class QuickResponse(Command):
    """A successful response with a header as brokers 4.9 to 5.5 write it.

    Thousands arrive each second. Of the header, only the opaque and what subclasses need is decoded at once; other
    fields are rarely used, and are decoded when they are accessed.
    """

    __slots__ = ("_frame",)
    code = 0
    flag = RESPONSE_FLAG
    language = LanguageCode.JAVA
    header_type = HeaderType.JSON

    def __init__(self, frame: memoryview, body: memoryview, values: Sequence[bytes]) -> None:
        self._frame, self.body, self.opaque = frame, body, int(values[-1])

    def __eq__(self, other: object) -> bool:
        return other == self.plain()

    @property
    def fields(self) -> dict[str, str] | None:  # type: ignore[override]  # received commands are not changed
        """Header fields of the response, decoded on each access."""
        return self.plain().fields

    @property
    def remark(self) -> str | None:  # type: ignore[override]  # as above
        """Remark of the broker about the result, decoded on each access."""
        return self.plain().remark

    @property
    def version(self) -> int:  # type: ignore[override]  # as above
        """Release number of the broker, decoded on each access."""
        return self.plain().version

    def plain(self) -> Command:
        """Return the response as a `Command` with all fields decoded."""
        return decode_any_command(self._frame)


class PullResponse(QuickResponse):
    """A response to a pull that found messages."""

    __slots__ = ("numbers",)

    def __init__(self, frame: memoryview, body: memoryview, values: Sequence[bytes]) -> None:
        broker_id, following, maximum, minimum, opaque = values
        self._frame, self.body, self.opaque = frame, body, int(opaque)
        self.numbers = int(following), int(minimum), int(maximum), int(broker_id)
        """Next, minimum and maximum offset, and the id of the broker process to pull from next."""


class SendResponse(QuickResponse):
    """A response to a send that was stored."""

    __slots__ = ("stored",)

    def __init__(self, frame: memoryview, body: memoryview, values: Sequence[bytes]) -> None:
        queue_id, transaction_id, early_id, late_id, offset, opaque = values
        self._frame, self.body, self.opaque = frame, body, int(opaque)
        message_id = str(late_id or early_id or b"", "ascii")
        self.stored = int(queue_id), int(offset), message_id, str(transaction_id, "ascii") if transaction_id else None
        """Queue number, offset, message id (empty if the response has none), and transaction id."""


# --- requests that differ in few fields -------------------------------------------------------------------------------

json_text = json.JSONEncoder(ensure_ascii=False).encode
"""Returns a text as a JSON string. Unlike `json.dumps` with these options, it makes no encoder for each call."""


@lru_cache  # Headers differ only in digits, so there are few lengths.
def _prefix(header_bytes: int) -> bytes:
    return _PREFIX.pack(header_bytes + 4, header_bytes)


class PreparedRequest:
    """A template of requests with a JSON header, which differ only in numbers, in one text, and in their bodies.

    The numbers are the opaque and the header fields that `changing` names; `text` names the header field with the text,
    if there is one. All else is encoded once.
    """

    def __init__(self, code: int, fields: Mapping[str, str], changing: Sequence[str], text: str | None = None) -> None:
        forms = dict.fromkeys(changing, b'"%d"') | ({text: b"%b"} if text else {})
        kept = {name: value for name, value in fields.items() if name not in forms}
        header = encode_command(Command(code, 0, kept | dict.fromkeys(forms, "0")))[MIN_FRAME_BYTES:]
        # Both places are searched from the right, because no text of the caller follows the fields.
        fields_end = header.rindex(b'},"flag":')
        opaque_at = header.rindex(b'"opaque":0,') + len(b'"opaque":')
        names = {json_text(name).encode(): form for name, form in forms.items()}
        zeros = b",".join(name + b':"0"' for name in names)
        self._text = b"".join(
            (
                _literal(header[:fields_end].removesuffix(zeros)),
                b",".join(_literal(name) + b":" + form for name, form in names.items()),
                _literal(header[fields_end:opaque_at]),
                b"%d",
                _literal(header[opaque_at + 1 :]),
            )
        )

    def head(self, values: tuple[int | bytes, ...], body_bytes: int) -> bytes:
        """Return the frame of a request with a body of `body_bytes`, without the body, which must follow.

        `values` are those of the changing fields in their order, the text as a JSON string, and the opaque.
        """
        header = self._text % values
        return _PREFIX.pack(len(header) + 4 + body_bytes, len(header)) + header

    def frames(self, numbers: Iterable[tuple[int, ...]]) -> list[bytes]:
        """Return one request frame without a body for each row of numbers.

        A row has the values of the changing fields in their order, then the opaque.
        """
        headers = [self._text % row for row in numbers]
        return [_prefix(len(header)) + header for header in headers]


def _literal(text: bytes) -> bytes:
    return text.replace(b"%", b"%%")


# --- the binary form -------------------------------------------------------------------------------------------------

_LANGUAGES = {language.value: language for language in LanguageCode}
_FIXED = struct.Struct(">hbhii")  # code, language, version, opaque, flag


def _encode_binary(command: Command) -> bytes:
    language = LanguageCode.OTHER if command.language is None else command.language
    if not -0x8000 <= command.code < 0x8000:
        raise LocalProtocolError(f"code {command.code} does not fit a binary header", advice="use JSON for it")
    remark = write_sized((command.remark or "").encode(), 4, "a remark")
    fields = write_sized(b"".join(map(_encode_entry, (command.fields or {}).items())), 4, "header fields")
    return _FIXED.pack(command.code, language, command.version, command.opaque, command.flag) + remark + fields


def _encode_entry(entry: tuple[str, str]) -> bytes:
    name, value = entry
    return write_sized(name.encode(), 2, "a field's name") + write_sized(value.encode(), 4, "a field's value")


def _decode_binary(header: memoryview, body: memoryview) -> Command:
    code, language, version, opaque, flag = _FIXED.unpack_from(header)
    remark, at = read_sized(header, _FIXED.size, 4)
    fields, at = read_sized(header, at, 4)
    return Command(
        code=code,
        opaque=opaque,
        fields=_decode_entries(fields) if fields else None,
        body=body,
        remark=str(remark, "utf-8") or None,
        flag=flag,
        language=_LANGUAGES.get(language),
        version=version,
        header_type=HeaderType.ROCKETMQ,
    )


def _decode_entries(entries: memoryview) -> dict[str, str]:
    """Return the fields of a binary header; the last value counts if a name occurs twice.

    Empty values are kept, although Java treats them as absent.
    """
    fields, at = {}, 0
    while at < len(entries):
        key, at = read_sized(entries, at, 2)
        value, at = read_sized(entries, at, 4)
        fields[str(key, "utf-8")] = str(value, "utf-8")
    return fields
