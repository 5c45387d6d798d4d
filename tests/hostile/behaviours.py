"""Provide behaviours of hostile servers, and wrappers that limit to which requests a behaviour applies.

A behaviour gets one request with the stub's response, and yields the bytes that the client gets instead.
"""

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

# --- which requests a behaviour applies to ---------------------------------------------------------------------------


def on(codes: int | Iterable[int], behaviour: Behaviour, otherwise: Behaviour = honest) -> Behaviour:
    """Return a behaviour that applies `behaviour` to requests with these codes, and `otherwise` to all others."""
    chosen = {int(codes)} if isinstance(codes, int) else set(map(int, codes))
    return lambda exchange: (behaviour if exchange.request.code in chosen else otherwise)(exchange)


def at_pulls(behaviour: Behaviour) -> Behaviour:
    """Return a behaviour that applies `behaviour` to pull requests and responds honestly to all others."""
    return on(PULLS, behaviour)


def first(count: int, behaviour: Behaviour) -> Behaviour:
    """Return a behaviour that applies `behaviour` to the first `count` requests and then responds honestly."""
    turns = itertools.count()
    return lambda exchange: (behaviour if next(turns) < count else honest)(exchange)


def after(count: int, behaviour: Behaviour) -> Behaviour:
    """Return a behaviour that responds honestly to the first `count` requests and then applies `behaviour`."""
    turns = itertools.count()
    return lambda exchange: (honest if next(turns) < count else behaviour)(exchange)


def during(seconds: float, behaviour: Behaviour) -> Behaviour:
    """Return a behaviour that applies `behaviour` for `seconds` after the first request, and then responds honestly."""
    allowed: list[float] = []

    def respond(exchange: Exchange) -> Iterable[bytes]:
        if not allowed:
            allowed.append(time.monotonic() + seconds)
        return (behaviour if time.monotonic() < allowed[0] else honest)(exchange)

    return respond


def both(*behaviours: Behaviour) -> Behaviour:
    """Return a behaviour that applies all `behaviours` to one response; only the last one sends it."""

    def respond(exchange: Exchange) -> Iterable[bytes]:
        for behaviour in behaviours[:-1]:
            list(behaviour(exchange))
        return behaviours[-1](exchange)

    return respond


# --- headers and bodies ----------------------------------------------------------------------------------------------


def change(act: Callable[[Exchange], object]) -> Behaviour:
    """Return a behaviour that calls `act` to change the response, and then sends it."""

    def respond(exchange: Exchange) -> Iterable[bytes]:
        act(exchange)
        return [exchange.honest()]

    return respond


def fields(**values: str | None) -> Behaviour:
    """Return a behaviour that sets header fields of the response; a value of None removes the field."""

    def act(exchange: Exchange) -> None:
        merged = {**(exchange.answer.fields or {}), **values}
        exchange.answer.fields = {name: value for name, value in merged.items() if value is not None}

    return change(act)


def refuse(code: int, remark: str = "hostile") -> Behaviour:
    """Return a behaviour that responds with an error: this response code and remark, no fields and no body."""
    return lambda exchange: [encode_command(_with(exchange.answer, code=code, remark=remark, fields={}, body=b""))]


def body(content: bytes) -> Behaviour:
    """Return a behaviour that responds with success and this body."""
    return change(lambda exchange: _set(exchange, code=0, body=content))


def rewrite(pattern: bytes, replacement: bytes | Callable[[re.Match[bytes]], bytes]) -> Behaviour:
    """Return a behaviour that replaces text in the response's body by a regular expression."""
    return change(lambda exchange: _set(exchange, body=re.sub(pattern, replacement, bytes(exchange.answer.body))))


def header(text: str) -> Behaviour:
    """Return a behaviour that responds with this header text; OPAQUE in it is replaced by the request's opaque."""

    def respond(exchange: Exchange) -> Iterable[bytes]:
        written = text.replace("OPAQUE", str(exchange.request.opaque)).encode()
        length = 4 + len(written) + len(exchange.answer.body)
        return [length.to_bytes(4, "big") + len(written).to_bytes(4, "big") + written + bytes(exchange.answer.body)]

    return respond


def send_bytes(data: bytes) -> Behaviour:
    """Return a behaviour that sends these bytes instead of a response."""
    return lambda _: [data]


def _with(command: Command, **values: Any) -> Command:
    return replace(command, **values)


def _set(exchange: Exchange, **values: Any) -> None:
    exchange.answer = replace(exchange.answer, **values)


# --- records ---------------------------------------------------------------------------------------------------------


def records(act: Callable[[list[Record]], Iterable[Record]]) -> Behaviour:
    """Return a behaviour that sends the records that `act` makes of the found ones; offsets in the header stay."""

    def edit(exchange: Exchange) -> None:
        if exchange.answer.code == 0 and exchange.answer.body:
            found = decode_records(exchange.answer.body)
            _set(exchange, body=b"".join(map(encode_record, act(found))))

    return change(edit)


def each_record(**values: Any) -> Behaviour:
    """Return a behaviour that sets these fields in every record of a response."""
    return records(lambda found: [replace(record, **values) for record in found])


def shifted(by: int, since: int = 0) -> Behaviour:
    """Return a behaviour that adds `by` to the queue offset of each record from the offset `since` on."""
    return records(
        lambda found: [
            replace(record, queue_offset=record.queue_offset + (by if record.queue_offset >= since else 0))
            for record in found
        ]
    )


def stored(act: Callable[[bytearray], object]) -> Behaviour:
    """Return a behaviour that lets `act` change the bytes of the found records."""

    def edit(exchange: Exchange) -> None:
        if exchange.answer.code == 0 and exchange.answer.body:
            data = bytearray(exchange.answer.body)
            act(data)
            _set(exchange, body=bytes(data))

    return change(edit)


def not_found(code: ResponseCode, next_offset: Callable[[int, int], int]) -> Behaviour:
    """Return a behaviour that responds to a pull with `code` and no messages.

    `next_offset` gets the requested offset and the queue's maximum, and returns the response's nextBeginOffset.
    """

    def act(exchange: Exchange) -> None:
        said = exchange.answer.fields or {}
        asked = int((exchange.request.fields or {})["queueOffset"])
        following = next_offset(asked, int(said.get("maxOffset", asked)))
        _set(exchange, code=int(code), body=b"", fields={**said, "nextBeginOffset": str(following)})

    return change(act)


# --- time and bytes --------------------------------------------------------------------------------------------------


def mute(_: Exchange) -> Iterable[bytes]:
    """Never respond to the request."""
    return []


def slow(seconds: float) -> Behaviour:
    """Return a behaviour that sends the honest response after `seconds`."""

    def respond(exchange: Exchange) -> Iterator[bytes]:
        time.sleep(seconds)
        yield exchange.honest()

    return respond


def drip(pause_s: float, size: int = 1) -> Behaviour:
    """Return a behaviour that sends the response in pieces of `size` bytes, with a pause after each piece."""

    def respond(exchange: Exchange) -> Iterator[bytes]:
        frame = exchange.honest()
        for start in range(0, len(frame), size):
            yield frame[start : start + size]
            time.sleep(pause_s)

    return respond


def hang_up(exchange: Exchange) -> Iterable[bytes]:
    """Close the connection instead of sending the response."""
    raise HangUp


def cut(size: int) -> Behaviour:
    """Return a behaviour that sends the first `size` bytes of the response and then closes the connection."""

    def respond(exchange: Exchange) -> Iterator[bytes]:
        yield exchange.honest()[:size]
        raise HangUp

    return respond


def repeat(count: int) -> Behaviour:
    """Return a behaviour that sends the response `1 + count` times."""

    def respond(exchange: Exchange) -> Iterator[bytes]:
        frame = exchange.honest()
        return itertools.repeat(frame, 1 + count)

    return respond


def resized(by: int) -> Behaviour:
    """Return a behaviour that adds `by` to the frame length which precedes the response."""

    def respond(exchange: Exchange) -> Iterable[bytes]:
        frame = exchange.honest()
        length = int.from_bytes(frame[:4], "big") + by
        return [(length % 2**32).to_bytes(4, "big") + frame[4:]]

    return respond


# --- frames that no client asked for ---------------------------------------------------------------------------------


def flood(frame: bytes, seconds: float = 15.0, count: int | None = None) -> Greeting:
    """Return a greeting that sends a frame `count` times on each connection, or without `count` for `seconds`.

    The seconds begin with the first connection, and are the same ones for all connections.
    """
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
    """Return the frame of a request that a server sends to a client."""
    return encode_command(Command(int(code), 7, values, body, flag=2 if is_oneway else 0))


def reply_frame(opaque: int, code: int = 0) -> bytes:
    """Return the frame of a response that carries this opaque, for which there may be no request."""
    return encode_command(Command(code, opaque, {}, flag=1))


# --- changed requests, old responses ---------------------------------------------------------------------------------


def change_requests(code_filter: Iterable[int], **values: str) -> Callable[[Command], None]:
    """Return a function that sets these fields in each request with one of these codes, before the stub gets it."""
    codes = set(map(int, code_filter))

    def change_request(command: Command) -> None:
        if command.code in codes and command.fields is not None:
            command.fields.update(values)

    return change_request


def stale() -> Behaviour:
    """Return a behaviour that responds to each request with the response to the previous one."""
    last: list[Command] = []

    def respond(exchange: Exchange) -> Iterable[bytes]:
        last.append(exchange.answer)
        return [encode_command(replace(last[-2:][0], opaque=exchange.request.opaque))]

    return respond
