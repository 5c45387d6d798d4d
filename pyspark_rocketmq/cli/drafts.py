"""Read the messages that are to be sent: from words of a command line, a file, or JSON lines.

A line of JSON is an object. `body` is required; `bodyFormat`, `topic`, `tags`, `keys`, `properties`, `queue`,
`delayLevel` and `deliverAt` outrank what the command line says about all messages. A message that brokers would refuse
or misread raises `OptionError`, which names the line and shows nothing of the body.
"""

from __future__ import annotations

import base64
import binascii
import codecs
import json
import re
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, Queue
from typing import Any, BinaryIO, NamedTuple

from ..errors import OptionError, RocketMQError
from ..model import Message, is_topic_name

__all__ = [
    "FORMATS",
    "LINE_MEMBERS",
    "STDIN",
    "Defaults",
    "Draft",
    "LineReader",
    "draft_body",
    "draft_file",
    "draft_lines",
]

STDIN = "-"
FORMATS = ("text", "json", "base64", "hex")
"""The formats in which a body may be given."""
LINE_MEMBERS = (
    "body",
    "bodyFormat",
    "topic",
    "tags",
    "keys",
    "properties",
    "queue",
    "delayLevel",
    "deliverAt",
)
"""The members that a line of JSON may have."""
MOST_LINE_BYTES = 32 * 2**20
"""Longest line: a body of 4 MiB takes up to six times as much when each of its characters is escaped."""
MOST_PORTION = 128
"""Most lines that are taken at once, and that wait to be taken."""
LARGE_LINE_BYTES = 256 * 1024
"""The length from which on a line is handed over before the next one is read, so that few are held at once."""
_HIGHEST_LEVEL = 18
_BLANKS = re.compile(r"[ \t\n\r]*")


@dataclass(frozen=True, slots=True)
class Defaults:
    """The parts that messages have unless their line says otherwise."""

    topic: str
    body_format: str = "text"
    tags: str = ""
    keys: tuple[str, ...] = ()
    properties: Mapping[str, str] | None = None
    queue: str | None = None
    delay_level: int = 0
    deliver_at_ms: int = 0


class Draft(NamedTuple):
    """A message to be sent."""

    place: str
    """The place where it was given, for example `line 3`."""
    message: Message
    queue: str | None
    """The queue as BROKER/ID; None: any."""


ReadTime = Callable[[str, str], int]
"""Gets the name of an option and a text, and returns the time in milliseconds since 1970."""


def draft_body(place: str, text: str, defaults: Defaults) -> Draft:
    """Return the message with this body, given as text; raise `OptionError` if it cannot be sent."""
    return _draft(place, _decode(place, text, defaults.body_format), defaults)


def draft_file(path: str, defaults: Defaults) -> Draft:
    """Return the message whose body is a file's content; raise `OptionError` if it cannot be read or sent."""
    try:
        return _draft(f"file {path}", Path(path).read_bytes(), defaults)
    except (OSError, ValueError) as cause:
        raise OptionError("--file", path, f"unreadable: {_reason(cause)}", advice="check the path") from None


def draft_line(place: str, line: bytes, defaults: Defaults, read_time: ReadTime) -> Draft:
    """Return the message that a line of JSON describes; raise `OptionError` if it describes none that can be sent."""
    text = _decode_line(place, line)
    given = _parse(place, text)
    for name in given:
        if name not in LINE_MEMBERS:
            raise OptionError(place, None, f"unknown member {name!r:.80}", advice=f"give {', '.join(LINE_MEMBERS)}")
    own = Defaults(
        topic=_text(place, given, "topic", defaults.topic),
        body_format=_text(place, given, "bodyFormat", defaults.body_format),
        tags=_text(place, given, "tags", defaults.tags),
        keys=_keys(place, given, defaults.keys),
        properties=_properties(place, given, defaults.properties or {}),
        queue=_text(place, given, "queue", defaults.queue or "") or None,
        delay_level=_level(place, given, defaults.delay_level),
        deliver_at_ms=_deliver_at(place, given, defaults.deliver_at_ms, read_time),
    )
    return _draft(place, _line_body(place, given, text, own.body_format), own)


# --- members of a line -----------------------------------------------------------------------------------------------


def _decode_line(place: str, line: bytes) -> str:
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError:
        raise OptionError(place, None, "not UTF-8", advice="write one JSON object per line") from None


def _parse(place: str, line: str) -> dict[str, Any]:
    from ..offsets.strict_json import parse_json

    try:
        given = parse_json(line, place)
    except OptionError as error:
        what = _describe(error.__cause__)  # Without the line, which may be long or private.
        raise OptionError(place, None, what, advice="write one JSON object per line") from None
    if not isinstance(given, dict):
        raise OptionError(place, None, "not a JSON object", advice='write one JSON object per line: {"body": "..."}')
    return given


def _describe(cause: BaseException | None) -> str:
    """Return why a line is not JSON, with nothing of its content."""
    if isinstance(cause, json.JSONDecodeError):
        return f"not standard JSON ({cause.msg}: column {cause.colno})"
    if isinstance(cause, RecursionError):
        return "nested too deeply"
    return "not standard JSON (a name twice, NaN, or too large a number)"


def _text(place: str, given: Mapping[str, Any], name: str, default: str) -> str:
    value = given.get(name, default)
    return default if value is None else _require_text(place, name, value)


def _require_text(place: str, name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise OptionError(place, None, f"{name} is no text", advice=f'write "{name}": "..."')
    return value


def _keys(place: str, given: Mapping[str, Any], default: tuple[str, ...]) -> tuple[str, ...]:
    value = given.get("keys")
    if value is None:
        return default
    keys = value if isinstance(value, list) else _require_text(place, "keys", value).split()
    return tuple(_require_text(place, "keys", each) for each in keys)


def _properties(place: str, given: Mapping[str, Any], default: Mapping[str, str]) -> dict[str, str]:
    value = given.get("properties") or {}
    if not isinstance(value, dict):
        raise OptionError(place, None, "properties is no object", advice='write "properties": {"name": "value"}')
    return {**default, **{name: _require_text(place, f"property {name}", text) for name, text in value.items()}}


def _level(place: str, given: Mapping[str, Any], default: int) -> int:
    value = given.get("delayLevel")
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int):
        raise OptionError(place, None, "delayLevel is no integer", advice=f"give 1 to {_HIGHEST_LEVEL}")
    return value


def _deliver_at(place: str, given: Mapping[str, Any], default: int, read_time: ReadTime) -> int:
    value = given.get("deliverAt")
    return default if value is None else read_time(f"{place}, deliverAt", str(value))


def _line_body(place: str, given: Mapping[str, Any], line: str, form: str) -> bytes:
    body = given.get("body")
    if body is None:
        raise OptionError(place, None, "no body", advice='write {"body": "..."}')
    if isinstance(body, str) and form != "json":
        return _decode(place, body, form)
    if form not in ("text", "json"):
        raise OptionError(place, None, f"body is no text, as {form} must be", advice="give a string")
    return _encode(place, _find_member(line, "body"))


def _find_member(line: str, name: str) -> str:
    """Return the value of a member as it is written, which keeps all digits of numbers; the line is a JSON object."""
    decoder = json.JSONDecoder()
    at = line.index("{")
    while True:
        found, at = decoder.raw_decode(line, _after_blanks(line, at + 1))
        start = _after_blanks(line, _after_blanks(line, at) + 1)
        _, end = decoder.raw_decode(line, start)
        if found == name:
            return line[start:end]
        at = _after_blanks(line, end)


def _after_blanks(text: str, at: int) -> int:
    found = _BLANKS.match(text, at)
    return found.end() if found else at


# --- messages --------------------------------------------------------------------------------------------------------


def _decode(place: str, text: str, form: str) -> bytes:
    """Return the bytes of a body."""
    try:
        if form == "base64":
            return base64.b64decode(text, validate=True)
        if form == "hex":
            return bytes.fromhex(text)
    except (ValueError, binascii.Error):
        raise OptionError(place, None, f"the body is not {form}", advice="correct it, or give another format") from None
    if form not in FORMATS:
        raise OptionError(place, None, f"unknown bodyFormat {form!r:.80}", advice=f"give one of {', '.join(FORMATS)}")
    if form == "json":
        _require_json(place, text)
    return _encode(place, text)


def _require_json(place: str, text: str) -> None:
    from ..offsets.strict_json import parse_json

    try:
        parse_json(text, place)
    except OptionError:
        raise OptionError(place, None, "the body is not JSON", advice="correct it, or give another format") from None


def _encode(place: str, text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise OptionError(place, None, "the body is no valid Unicode", advice="give it as base64 or hex") from None


def _draft(place: str, body: bytes, parts: Defaults) -> Draft:
    if any(key.split() != [key] for key in parts.keys):
        advice = "blanks separate keys: give each of them by itself"
        raise OptionError(place, None, "a key with a blank, or an empty one", advice=advice)
    message = Message(
        parts.topic,
        body,
        tags=parts.tags,
        keys=" ".join(parts.keys),
        properties=dict(parts.properties or {}),
        delay_level=parts.delay_level,
        deliver_at_ms=parts.deliver_at_ms,
    )
    _require_sendable(place, message)
    return Draft(place, message, parts.queue)


def _require_sendable(place: str, message: Message) -> None:
    """Raise `OptionError` if brokers would refuse or misread the message."""
    from ..wire.properties import encode_properties, is_reserved

    if not message.body:
        raise OptionError(place, None, "an empty body, which brokers refuse", advice="give a body")
    if not is_topic_name(message.topic):
        raise OptionError(place, message.topic, "not a topic's name", advice="check the name")
    if not 0 <= message.delay_level <= _HIGHEST_LEVEL:
        what = f"delay level {message.delay_level} is out of range"
        raise OptionError(place, None, what, advice=f"give 1 to {_HIGHEST_LEVEL}")
    if message.delay_level and message.deliver_at_ms:
        raise OptionError(place, None, "a delay level and a delivery time", advice="give one of the two")
    if reserved := next(filter(is_reserved, message.properties), None):
        raise OptionError(place, None, f"property {reserved} is RocketMQ's own", advice="choose another name")
    if "|" in message.tags:
        raise OptionError(place, None, "a tag with |, which no filter can name", advice="give one tag without |")
    named = {"TAGS": message.tags, "KEYS": message.keys}
    try:
        encode_properties({**message.properties, **{name: text for name, text in named.items() if text}})
    except RocketMQError as error:
        raise OptionError(place, None, error.what, advice=error.advice) from None


# --- lines -----------------------------------------------------------------------------------------------------------


class LineReader:
    """Reads lines in a thread, so that those which have come can be sent while others are waited for.

    The lines of a file need no waiting, so they come in full portions.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._is_file = path != STDIN and Path(path).is_file()
        self._lines: Queue[bytes | RocketMQError | None] = Queue(MOST_PORTION)
        """Lines; an error or None is the end."""
        self._is_over = False
        self._error: RocketMQError | None = None

    def __repr__(self) -> str:
        return f"<LineReader {self._path}>"

    def portions(self) -> Iterator[list[tuple[str, bytes]]]:
        """Yield the lines that have come with their places; wait while there are none. Blank lines are left out."""
        threading.Thread(target=self._read, name="lines", daemon=True).start()
        count = 0
        while lines := self._take():
            yield [(f"line {count + number}", line) for number, line in enumerate(lines, 1) if line.strip()]
            count += len(lines)

    def _take(self) -> list[bytes]:
        """Return the lines that have come, and wait for the first; at the end, raise the error or return nothing."""
        lines: list[bytes] = []
        while len(lines) < MOST_PORTION and not self._is_over:
            try:
                line = self._lines.get(block=self._is_file or not lines)
            except Empty:
                break
            self._lines.task_done()
            if not isinstance(line, bytes):
                self._is_over, self._error = True, line
                break
            lines.append(line)
            if len(line) >= LARGE_LINE_BYTES:
                break
        if not lines and self._error:
            raise self._error
        return lines

    def _read(self) -> None:
        try:
            with _open(self._path) as file:
                mark = codecs.BOM_UTF8
                while line := file.readline(MOST_LINE_BYTES + 1).removeprefix(mark):
                    mark = b""
                    if len(line) > MOST_LINE_BYTES:
                        what = f"a line of more than {MOST_LINE_BYTES} bytes"
                        raise OptionError("--lines", self._path, what, advice="send large bodies with --file")
                    self._lines.put(line)
                    if len(line) >= LARGE_LINE_BYTES:
                        self._lines.join()
            self._lines.put(None)
        except OptionError as error:
            self._lines.put(error)
        except (OSError, ValueError) as cause:
            what = f"unreadable: {_reason(cause)}"
            self._lines.put(OptionError("--lines", self._path, what, advice="check the path"))


def _reason(cause: OSError | ValueError) -> str:
    return cause.strerror or str(cause) if isinstance(cause, OSError) else str(cause)


def _open(path: str) -> BinaryIO:
    if path == STDIN and sys.stdin is None:  # Its number may have become that of a connection.
        raise OptionError("--lines", STDIN, "the standard input is closed", advice="give a file")
    return open(0 if path == STDIN else path, "rb", closefd=path != STDIN)


def draft_lines(
    portions: Iterator[Sequence[tuple[str, bytes]]], defaults: Defaults, read_time: ReadTime
) -> Iterator[list[Draft]]:
    """Yield the messages of lines; before an error, those of the lines before it."""
    for portion in portions:
        drafts = []
        try:
            for place, line in portion:
                drafts.append(draft_line(place, line, defaults, read_time))
        except RocketMQError:
            yield drafts
            raise
        yield drafts
