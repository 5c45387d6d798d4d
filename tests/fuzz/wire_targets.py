"""Fuzz what decodes bytes of servers: frames, headers, bodies, ids, properties, compressed bodies, batches."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from functools import cache
from types import UnionType
from typing import Any, NamedTuple, cast, get_args, get_origin, get_type_hints

from pyspark_rocketmq.errors import RocketMQError
from pyspark_rocketmq.model import MessageQueue
from pyspark_rocketmq.wire import bodies, commands, fastjson
from pyspark_rocketmq.wire.batch import decode_batch
from pyspark_rocketmq.wire.bodies import Body, decode_body, encode_body
from pyspark_rocketmq.wire.commands import (
    Header,
    PullMessageResponseHeader,
    SendMessageResponseHeader,
    from_fields,
    to_fields,
)
from pyspark_rocketmq.wire.compression import Compression, compress, decompress
from pyspark_rocketmq.wire.frame import split_frame
from pyspark_rocketmq.wire.header import (
    Command,
    HeaderType,
    PullResponse,
    SendResponse,
    decode_any_command,
    decode_command,
    encode_command,
)
from pyspark_rocketmq.wire.message_id import decode_offset_message_id, decode_unique_id
from pyspark_rocketmq.wire.properties import decode_properties, encode_properties
from pyspark_rocketmq.wire.record import Record, decode_records, unwrap_inner_batch
from pyspark_rocketmq.wire.scan import first_queue_offset, record_starts
from pyspark_rocketmq.wire.session import Session
from pyspark_rocketmq.wire.value_classes import wire_name
from tests.wire.frames import join_frame
from tests.wire.recorded import recorded_batches, recorded_bodies, recorded_commands

from .mutations import Mutator
from .runner import Target, fault_of, outcome

UNPACKED_BYTES = 100_000


# --- frames ----------------------------------------------------------------------------------------------------------


class Stream(NamedTuple):
    """Bytes that a connection receives, and where they are cut into pieces."""

    data: bytes
    cuts: tuple[int, ...]


@cache
def _frames() -> tuple[bytes, ...]:
    return tuple(command.frame for command in recorded_commands() if len(command.frame) < 20_000)


def make_stream(mutator: Mutator) -> Stream:
    """Return up to three damaged frames."""
    data = mutator.damage(b"".join(mutator.pick(_frames()) for _ in range(1 + mutator.upto(2))))
    return Stream(data, tuple(sorted(mutator.upto(len(data)) for _ in range(mutator.upto(3)))))


def check_stream(stream: Stream) -> None:
    """Check that a session gets the same events from the whole stream and from its pieces."""
    pieces = [stream.data[start:end] for start, end in zip((0, *stream.cuts), (*stream.cuts, None), strict=True)]
    assert _events(pieces) == _events([stream.data]), "the pieces of the stream give other events"


def _events(pieces: list[bytes]) -> list[Any]:
    """Return the commands that a session receives; at the end, the class of the error that breaks the session."""
    session, events = Session(), list[Any]()
    session.request_as(0, 1_000, lambda opaques: [b"" for _ in opaques])
    try:
        for piece in pieces:
            for event in session.receive(piece):
                command = event.command
                events.append((command.code, command.opaque, command.fields, bytes(command.body), command.remark))
        session.end()
    except RocketMQError as error:
        assert not fault_of(error), fault_of(error)
        assert outcome(lambda: list(session.receive(b""))) is type(error), "a broken session can be used again"
        events.append(type(error))
    return events


def make_frame(mutator: Mutator) -> bytes:
    """Return one frame with damaged bytes or a damaged JSON header; its length is right."""
    frame = mutator.pick(_frames())
    if mutator.chance(0.5):
        rest = mutator.damage(frame[4:])
        return len(rest).to_bytes(4, "big") + rest
    return damage_header(mutator, decode_any_command(memoryview(frame)))


def damage_header(mutator: Mutator, command: Command) -> bytes:
    """Return the frame of a command with a damaged JSON header."""
    command.header_type = HeaderType.JSON
    _, header, body = split_frame(memoryview(encode_command(command)))
    return join_frame(HeaderType.JSON, mutator.damage_json(str(header, "utf-8")), body)


def check_frame(frame: bytes) -> None:
    """Check that the fast path for responses to pulls and sends agrees with the usual one."""
    usual = outcome(decode_any_command, memoryview(frame))
    fast = outcome(decode_command, memoryview(frame))
    assert fast == usual, "the two ways of decoding disagree"
    if isinstance(fast, PullResponse):
        header = from_fields(PullMessageResponseHeader, usual.fields)
        expected = header.next_begin_offset, header.min_offset, header.max_offset, header.suggest_which_broker_id
        assert fast.numbers == expected, "the fast path reads other numbers"
    if isinstance(fast, SendResponse) and fast.stored[2]:
        sent = from_fields(SendMessageResponseHeader, usual.fields)
        read = sent.queue_id, sent.queue_offset, sent.msg_id, sent.transaction_id
        assert fast.stored == read, "the fast path reads another receipt"


# --- headers ---------------------------------------------------------------------------------------------------------


class Fields(NamedTuple):
    """Header fields for a typed header, and the form in which they are sent."""

    cls: type[Header]
    fields: dict[str, str]
    form: HeaderType


_HEADERS: tuple[type[Header], ...] = tuple(
    found
    for found in vars(commands).values()
    if isinstance(found, type) and issubclass(found, Header) and is_dataclass(found)
)
_FIELD_TEXTS: dict[Any, str] = {str: "T", int: "3", bool: "true"}


def example_fields(cls: type[Header]) -> dict[str, str]:
    """Return legal fields of a header: all of its members."""
    hints = get_type_hints(cls)
    names = [field.name for field in fields(cast(Any, cls))]
    return {wire_name(cls, name): _FIELD_TEXTS[_plain(hints[name])] for name in names}


def make_fields(mutator: Mutator) -> Fields:
    """Return damaged fields of any header."""
    cls = mutator.pick(_HEADERS)
    return Fields(cls, mutator.damage_fields(example_fields(cls)), mutator.pick(list(HeaderType)))


def check_fields(given: Fields) -> None:
    """Check that fields arrive as they were sent, and that a header of them has the same fields when it is sent."""
    sent = encode_command(Command(0, fields=given.fields, header_type=given.form))
    arrived = decode_command(memoryview(sent)).fields
    assert (arrived or {}) == given.fields, "the fields change on their way"
    header = from_fields(given.cls, arrived)
    assert from_fields(given.cls, to_fields(header)) == header, "the header changes on its way"


# --- bodies ----------------------------------------------------------------------------------------------------------

_BODIES: tuple[type[Body], ...] = tuple(
    found
    for found in vars(bodies).values()
    if isinstance(found, type) and issubclass(found, Body) and found is not Body
)
_QUEUE = MessageQueue("T", "broker-a", 3)
_VALUES: dict[Any, Any] = {str: "T", int: 7, bool: True, float: 1.5, Any: {"a": [1]}, MessageQueue: _QUEUE}


class Text(NamedTuple):
    """The JSON text of a body, and the class by which it is read."""

    cls: type[Body]
    data: bytes


@cache
def example_json(cls: Any) -> str:
    """Return the text of a legal body in which every member has a value."""
    return fastjson.write(_example(cls)).decode()


def _example(annotation: Any) -> Any:
    """Return a value that can be written as JSON and read as this type."""
    plain, inner = _plain(annotation), get_args(_plain(annotation))
    if plain in _VALUES:
        return _VALUES[plain]
    if get_origin(plain) is tuple:
        return [_example(inner[0])] * 2
    if get_origin(plain) is dict:
        return {_VALUES[inner[0]]: _example(inner[1])}
    hints = get_type_hints(plain)
    return {wire_name(plain, field.name): _example(hints[field.name]) for field in fields(plain)}


def _plain(annotation: Any) -> Any:
    """Return a type without `| None`."""
    return get_args(annotation)[0] if get_origin(annotation) is UnionType else annotation


def make_body(mutator: Mutator) -> Text:
    """Return a damaged body of any class."""
    cls = mutator.pick(_BODIES)
    return Text(cls, mutator.damage_json(example_json(cast(Any, cls))))


def check_body(text: Text) -> None:
    """Check that a body that can be read is written with the same meaning; NaN and endless references have none."""
    body = decode_body(text.cls, text.data)
    again = decode_body(text.cls, encode_body(body))
    assert again == body or b"NaN" in text.data or b"$ref" in text.data, "the body changes when it is written"


# --- parts of messages -----------------------------------------------------------------------------------------------


def make_id(mutator: Mutator) -> str:
    """Return a damaged message id."""
    text = mutator.noise(28).hex() if mutator.chance(0.5) else mutator.pick((16, 28)) * "0A"
    return mutator.damage_text(text) if mutator.chance(0.5) else text


def check_id(text: str) -> None:
    """Read a text as both kinds of message id."""
    outcome(decode_offset_message_id, text)
    decode_unique_id(text, now_ms=1_700_000_000_000)


def make_properties(mutator: Mutator) -> bytes:
    """Return a damaged property text."""
    return mutator.damage(encode_properties({"TAGS": "a", "KEYS": "b c", "größe": "1", "INNER_NUM": "2"}))


class Packed(NamedTuple):
    """A compressed body."""

    data: bytes
    compression: Compression


@cache
def _packed(compression: Compression) -> tuple[bytes, ...]:
    plain = (b"", b"x", bytes(90_000), bytes(range(256)) * 40, bytes(1_000_000))
    return tuple(compress(body, compression) for body in plain)


def make_packed(mutator: Mutator) -> Packed:
    """Return a damaged compressed body, sometimes two of them in a row."""
    compression = mutator.pick(list(Compression))
    data = b"".join(mutator.pick(_packed(compression)) for _ in range(1 + mutator.chance(0.1)))
    return Packed(mutator.damage(data), compression)


def check_packed(packed: Packed) -> None:
    """Unpack a body, and check that it is not larger than the limit."""
    assert len(decompress(packed.data, packed.compression, UNPACKED_BYTES)) <= UNPACKED_BYTES


def make_batch(mutator: Mutator) -> bytes:
    """Return a damaged body of several messages."""
    return mutator.damage(mutator.pick(recorded_batches()))


def make_response(mutator: Mutator) -> bytes:
    """Return a damaged response to a pull."""
    return mutator.damage(mutator.pick(recorded_bodies()))


def check_response(data: bytes) -> None:
    """Read all records with all their parts; check that a scan finds the same records."""
    outcome(first_queue_offset, data)
    starts = outcome(record_starts, data)
    records = decode_records(data)
    at, expected = 0, list[int]()
    for record in records:
        expected.append(at)
        at += record.total_size
    assert list(starts) == expected, "the scan finds other records"
    for record in records:
        outcome(record.check_crc)
        outcome(_read_messages, record)


def _read_messages(record: Record) -> None:
    for message in unwrap_inner_batch(record, UNPACKED_BYTES):
        outcome(message.unpacked_body, UNPACKED_BYTES)
        outcome(decode_properties, message.properties_text)


TARGETS = (
    Target("stream", make_stream, check_stream),
    Target("frame", make_frame, check_frame),
    Target("header", make_fields, check_fields),
    Target("body", make_body, check_body, share=2),
    Target("message-id", make_id, check_id, share=0.3),
    Target("properties", make_properties, decode_properties, share=0.3),
    Target("compressed", make_packed, check_packed),
    Target("batch", make_batch, decode_batch, share=0.5),
    Target("response", make_response, check_response),
)
