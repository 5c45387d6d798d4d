"""How is a command's header written: as JSON text, or in RocketMQ's binary form?

Both forms carry the same fields; which one a peer uses is read from each frame's type byte, never assumed.
The JSON form is written as the Java client writes it (compact, keys in alphabetical order).
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
from .frame import MIN_FRAME_BYTES, PREFIX_BYTES, join_frame, read_sized, split_frame, write_sized

CLIENT_VERSION = 409
"""The release we say we are, 4.9.8: standard JSON routes, and no GO_AWAY on graceful shutdown."""

MOST_HEADER_BYTES = 1024 * 1024
"""Of a header that is read: its fields become objects, which take many times the space. Brokers' have 64 KiB."""

RESPONSE_FLAG = 1
ONEWAY_FLAG = 2


class HeaderType(IntEnum):
    """Value of a frame's type byte; the names are RocketMQ's."""

    JSON = 0
    ROCKETMQ = 1


# Looked up once: an enumeration's member costs as much to find as the field it says something of to read.
_JSON, _BINARY = HeaderType.JSON, HeaderType.ROCKETMQ


@dataclass(slots=True)
class Command:
    """One request or response. `fields` are the command's own header fields, always text on the wire."""

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
        """Whether this answers a request."""
        return bool(self.flag & RESPONSE_FLAG)

    @property
    def is_oneway(self) -> bool:
        """Whether nobody waits for an answer."""
        return bool(self.flag & ONEWAY_FLAG)


def encode_command(command: Command) -> bytes:
    """The whole frame of a command."""
    encode = _encode_json if command.header_type is HeaderType.JSON else _encode_binary
    try:
        header = encode(command)
    except (UnicodeEncodeError, struct.error) as cause:
        raise LocalProtocolError(
            f"unwritable header of command {command.code}: {cause}", advice="send valid text and 32-bit numbers"
        ) from cause
    return join_frame(command.header_type, header, command.body)


def decode_command(frame: memoryview) -> Command:
    """Read one whole frame; the body stays a view of it."""
    responses, _ = cut_pull_responses(frame, 0, len(frame), len(frame))
    return responses[0] if responses else decode_any_command(frame)


def decode_any_command(frame: memoryview) -> Command:
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
    """A text; a bare number or boolean is read as one, as the Java side reads it."""
    return value if isinstance(value, str) else json.dumps(value)


# --- JSON as brokers write it ----------------------------------------------------------------------------------------

_PREFIX = struct.Struct(">II")
"""Length; header type and header length as one number. JSON is type 0, so there it is the length of the header."""
_FLAGS, _OFFSET, _NUMBER = rb'"\d{1,18}"', rb'"(\d{1,18})"', rb"(?:0|[1-9]\d{0,8})"
_BOUND = rb'"(-1|\d{1,18})"'
_PULL_RESPONSE = re.compile(
    rb'(?s:.{%d})\{"code":0,"extFields":\{"suggestWhichBrokerId":"(\d{1,18})",(?:"groupSysFlag":%b,)?'
    rb'"nextBeginOffset":%b,"maxOffset":%b,"minOffset":%b(?:,"topicSysFlag":%b)?\},"flag":1,"language":"JAVA",'
    rb'"opaque":(%b),"remark":"\w+","serializeTypeCurrentRPC":"JSON","version":%b\}'
    % (MIN_FRAME_BYTES, _FLAGS, _OFFSET, _BOUND, _BOUND, _FLAGS, _NUMBER, _NUMBER)
)
"""A frame up to the end of its header. Numbers that can be no offsets are left to those who say what is wrong."""


def cut_pull_responses(data: memoryview, start: int, end: int, max_frame_bytes: int) -> tuple[list[PullResponse], int]:
    """Cut the frames that begin at `start` and are responses to pulls; also return where the last of them ends.

    Stops at the first frame of another kind, too large, or not whole before `end`. Everything that is read of a
    usual response is read here, for as many as there are: compiled code can take this function's place.
    """
    responses: list[PullResponse] = []
    while end - start >= MIN_FRAME_BYTES:
        length, header_bytes = _PREFIX.unpack_from(data, start)
        frame_end = start + PREFIX_BYTES + length
        if frame_end > end or frame_end - start > max_frame_bytes:
            break
        header = _PULL_RESPONSE.match(data, start, frame_end)
        if header is None or header.end() - start != header_bytes + MIN_FRAME_BYTES:
            break
        responses.append(PullResponse(data[start:frame_end], data[header.end() : frame_end], header.groups()))
        start = frame_end
    return responses, start


class PullResponse(Command):
    """The answer to a pull that found messages, as brokers 4.9 to 5.5 write it.

    Thousands come each second, of which four numbers are wanted; so the rest is read when somebody asks.
    """

    __slots__ = ("_frame", "numbers")
    code = 0
    flag = RESPONSE_FLAG
    language = LanguageCode.JAVA
    header_type = HeaderType.JSON

    def __init__(self, frame: memoryview, body: memoryview, numbers: Sequence[bytes]) -> None:
        broker_id, following, maximum, minimum, opaque = numbers
        self._frame, self.body, self.opaque = frame, body, int(opaque)
        self.numbers = int(following), int(minimum), int(maximum), int(broker_id)
        """Next, minimum and maximum offset, and the broker to ask next."""

    def __eq__(self, other: object) -> bool:
        return other == self.plain()

    @property
    def fields(self) -> dict[str, str] | None:  # type: ignore[override]  # nobody changes what was received
        """The command's own header fields."""
        return self.plain().fields

    @property
    def remark(self) -> str | None:  # type: ignore[override]  # as above
        """The status in words."""
        return self.plain().remark

    @property
    def version(self) -> int:  # type: ignore[override]  # as above
        """The broker's release."""
        return self.plain().version

    def plain(self) -> Command:
        """The same, read as any other command."""
        return decode_any_command(self._frame)


# --- requests that differ in numbers only -----------------------------------------------------------------------------


@lru_cache  # Digits alone make a difference, so there are few lengths.
def _prefix(header_bytes: int) -> bytes:
    return _PREFIX.pack(header_bytes + 4, header_bytes)


class PreparedRequest:
    """A request with a JSON header and no body, of which the opaque and the `changing` fields are left open."""

    def __init__(self, code: int, fields: Mapping[str, str], changing: Sequence[str]) -> None:
        kept = {name: value for name, value in fields.items() if name not in changing}
        header = encode_command(Command(code, 0, kept | dict.fromkeys(changing, "0")))[MIN_FRAME_BYTES:]
        # Behind the fields stands nothing that a caller chose, so both ends are found from the right.
        fields_end = header.rindex(b'},"flag":')
        opaque_at = header.rindex(b'"opaque":0,') + len(b'"opaque":')
        names = [json.dumps(name, ensure_ascii=False).encode() for name in changing]
        zeros = b",".join(name + b':"0"' for name in names)
        self._text = b"".join(
            (
                _literal(header[:fields_end].removesuffix(zeros)),
                b",".join(_literal(name) + b':"%d"' for name in names),
                _literal(header[fields_end:opaque_at]),
                b"%d",
                _literal(header[opaque_at + 1 :]),
            )
        )

    def frames(self, numbers: Iterable[tuple[int, ...]]) -> list[bytes]:
        """Whole frames, one for each row of numbers: the changing fields in their order, then the opaque."""
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
    """Later duplicates win, as on the Java side (which also reads an empty value as absent; here it stays visible)."""
    fields, at = {}, 0
    while at < len(entries):
        key, at = read_sized(entries, at, 2)
        value, at = read_sized(entries, at, 4)
        fields[str(key, "utf-8")] = str(value, "utf-8")
    return fields
