"""Provide behaviours of hostile servers, and wrappers that limit when they apply."""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from pyspark_rocketmq.wire.codes import RequestCode, ResponseCode
from pyspark_rocketmq.wire.header import Command, encode_command
from pyspark_rocketmq.wire.record import Record, decode_records, encode_record

from .server import Behaviour, Exchange, Greeting, HangUp, honest

PULLS = (RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE)
STATISTICS = RequestCode.GET_TOPIC_STATS_INFO
ROUTE = RequestCode.GET_ROUTEINFO_BY_TOPIC

# --- when ------------------------------------------------------------------------------------------------------------


def on(codes: int | Iterable[int], behaviour: Behaviour, otherwise: Behaviour = honest) -> Behaviour:
    """Apply a behaviour to requests with these codes only."""
    chosen = {int(codes)} if isinstance(codes, int) else set(map(int, codes))
    return lambda exchange: (behaviour if exchange.request.code in chosen else otherwise)(exchange)


def at_pulls(behaviour: Behaviour) -> Behaviour:
    """Apply a behaviour to pulls only."""
    return on(PULLS, behaviour)


def first(count: int, behaviour: Behaviour) -> Behaviour:
    """Apply a behaviour to the first requests, then respond honestly."""
    turns = itertools.count()
    return lambda exchange: (behaviour if next(turns) < count else honest)(exchange)


def after(count: int, behaviour: Behaviour) -> Behaviour:
    """Respond honestly to the first requests, then apply a behaviour."""
    turns = itertools.count()
    return lambda exchange: (honest if next(turns) < count else behaviour)(exchange)


def during(seconds: float, behaviour: Behaviour) -> Behaviour:
    """Apply a behaviour for some seconds from the first request on."""
    allowed: list[float] = []

    def respond(exchange: Exchange) -> Iterable[bytes]:
        if not allowed:
            allowed.append(time.monotonic() + seconds)
        return (behaviour if time.monotonic() < allowed[0] else honest)(exchange)

    return respond


def both(*behaviours: Behaviour) -> Behaviour:
    """Apply several behaviours to one response: each changes it, and the last one sends it."""

    def respond(exchange: Exchange) -> Iterable[bytes]:
        for behaviour in behaviours[:-1]:
            list(behaviour(exchange))
        return behaviours[-1](exchange)

    return respond


# --- headers and bodies ----------------------------------------------------------------------------------------------


def change(act: Callable[[Exchange], object]) -> Behaviour:
    """Change the response, then send it."""

    def respond(exchange: Exchange) -> Iterable[bytes]:
        act(exchange)
        return [exchange.honest()]

    return respond


def fields(**values: str | None) -> Behaviour:
    """Set header fields of the response; None removes one."""

    def act(exchange: Exchange) -> None:
        merged = {**(exchange.answer.fields or {}), **values}
        exchange.answer.fields = {name: value for name, value in merged.items() if value is not None}

    return change(act)


def refuse(code: int, remark: str = "hostile") -> Behaviour:
    """Respond with an error."""
    return lambda exchange: [encode_command(_with(exchange.answer, code=code, remark=remark, fields={}, body=b""))]


def body(content: bytes) -> Behaviour:
    """Respond with success and this body."""
    return change(lambda exchange: _set(exchange, code=0, body=content))


def rewrite(pattern: bytes, replacement: bytes | Callable[[re.Match[bytes]], bytes]) -> Behaviour:
    """Replace text in the body by a regular expression; the result of a replacement function is used unchanged."""
    return change(lambda exchange: _set(exchange, body=re.sub(pattern, replacement, bytes(exchange.answer.body))))


def header(text: str) -> Behaviour:
    """Respond with this header text, in which OPAQUE stands for the right number."""

    def respond(exchange: Exchange) -> Iterable[bytes]:
        written = text.replace("OPAQUE", str(exchange.request.opaque)).encode()
        length = 4 + len(written) + len(exchange.answer.body)
        return [length.to_bytes(4, "big") + len(written).to_bytes(4, "big") + written + bytes(exchange.answer.body)]

    return respond


def send_bytes(data: bytes) -> Behaviour:
    """Send these bytes instead of a response."""
    return lambda _: [data]


def _with(command: Command, **values: Any) -> Command:
    return replace(command, **values)


def _set(exchange: Exchange, **values: Any) -> None:
    exchange.answer = replace(exchange.answer, **values)


# --- records ---------------------------------------------------------------------------------------------------------


def records(act: Callable[[list[Record]], Iterable[Record]]) -> Behaviour:
    """Send other records than were found; the response's offsets stay."""

    def edit(exchange: Exchange) -> None:
        if exchange.answer.code == 0 and exchange.answer.body:
            found = decode_records(exchange.answer.body)
            _set(exchange, body=b"".join(map(encode_record, act(found))))

    return change(edit)


def each_record(**values: Any) -> Behaviour:
    """Set fields of every record."""
    return records(lambda found: [replace(record, **values) for record in found])


def shifted(by: int, since: int = 0) -> Behaviour:
    """Store a wrong queue offset in each record from an offset on, as brokers do after a mis-stored message."""
    return records(
        lambda found: [
            replace(record, queue_offset=record.queue_offset + (by if record.queue_offset >= since else 0))
            for record in found
        ]
    )


def stored(act: Callable[[bytearray], object]) -> Behaviour:
    """Change the bytes of the records that were found."""

    def edit(exchange: Exchange) -> None:
        if exchange.answer.code == 0 and exchange.answer.body:
            data = bytearray(exchange.answer.body)
            act(data)
            _set(exchange, body=bytes(data))

    return change(edit)


def not_found(code: ResponseCode, next_offset: Callable[[int, int], int]) -> Behaviour:
    """Respond to a pull with another status; `next_offset` gets the asked offset and the maximum."""

    def act(exchange: Exchange) -> None:
        said = exchange.answer.fields or {}
        asked = int((exchange.request.fields or {})["queueOffset"])
        following = next_offset(asked, int(said.get("maxOffset", asked)))
        _set(exchange, code=int(code), body=b"", fields={**said, "nextBeginOffset": str(following)})

    return change(act)


# --- time and bytes --------------------------------------------------------------------------------------------------


def mute(_: Exchange) -> Iterable[bytes]:
    """Never respond."""
    return []


def slow(seconds: float) -> Behaviour:
    """Respond late."""

    def respond(exchange: Exchange) -> Iterator[bytes]:
        time.sleep(seconds)
        yield exchange.honest()

    return respond


def drip(pause_s: float, size: int = 1) -> Behaviour:
    """Send the response a few bytes at a time."""

    def respond(exchange: Exchange) -> Iterator[bytes]:
        frame = exchange.honest()
        for start in range(0, len(frame), size):
            yield frame[start : start + size]
            time.sleep(pause_s)

    return respond


def hang_up(exchange: Exchange) -> Iterable[bytes]:
    """Close the connection instead of responding."""
    raise HangUp


def cut(size: int) -> Behaviour:
    """Send the first bytes of the response, then close the connection."""

    def respond(exchange: Exchange) -> Iterator[bytes]:
        yield exchange.honest()[:size]
        raise HangUp

    return respond


def repeat(count: int) -> Behaviour:
    """Send the response, and repeat it a number of times."""

    def respond(exchange: Exchange) -> Iterator[bytes]:
        frame = exchange.honest()
        return itertools.repeat(frame, 1 + count)

    return respond


def resized(by: int) -> Behaviour:
    """Send the response with a wrong frame length."""

    def respond(exchange: Exchange) -> Iterable[bytes]:
        frame = exchange.honest()
        length = int.from_bytes(frame[:4], "big") + by
        return [(length % 2**32).to_bytes(4, "big") + frame[4:]]

    return respond


# --- unasked ---------------------------------------------------------------------------------------------------------


def flood(frame: bytes, seconds: float = 15.0, count: int | None = None) -> Greeting:
    """Send a frame repeatedly: a number of times on each connection, or for some seconds after the first one."""
    allowed: list[float] = []

    def greet() -> Iterator[bytes]:
        if count is not None:
            yield frame * count
            return
        allowed.append(time.monotonic() + seconds)
        block = frame * max(1, 2**16 // len(frame))
        while time.monotonic() < allowed[0]:
            yield block

    return greet


def request_frame(code: int, *, is_oneway: bool, body: bytes = b"", **values: str) -> bytes:
    """Return the frame of a server's own request."""
    return encode_command(Command(int(code), 7, values, body, flag=2 if is_oneway else 0))


def reply_frame(opaque: int, code: int = 0) -> bytes:
    """Return the frame of a response without a request."""
    return encode_command(Command(code, opaque, {}, flag=1))


# --- what was asked --------------------------------------------------------------------------------------------------


def change_requests(code_filter: Iterable[int], **values: str) -> Callable[[Command], None]:
    """Pass requests to the stub with other fields."""
    codes = set(map(int, code_filter))

    def change_request(command: Command) -> None:
        if command.code in codes and command.fields is not None:
            command.fields.update(values)

    return change_request


def stale() -> Behaviour:
    """Respond to each pull with the response to the previous one."""
    last: list[Command] = []

    def respond(exchange: Exchange) -> Iterable[bytes]:
        last.append(exchange.answer)
        return [encode_command(replace(last[-2:][0], opaque=exchange.request.opaque))]

    return respond
