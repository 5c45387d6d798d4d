"""Test bytes that are no frames, malformed headers, and responses that belong to other requests."""

from __future__ import annotations

import pytest

from pyspark_rocketmq.wire.codes import RequestCode
from pyspark_rocketmq.wire.header import HeaderType

from .behaviours import (
    PULLS,
    ROUTE,
    STATISTICS,
    change,
    cut,
    fields,
    first,
    hang_up,
    header,
    on,
    repeat,
    resized,
    send_bytes,
)
from .scenarios import Allowed, Scenario, run_and_check, scenario_of
from .server import Behaviour, Exchange

PLACES = {"route": ROUTE, "statistics": STATISTICS, "pull": RequestCode.PULL_MESSAGE}
OK = '"flag":1,"language":"JAVA","opaque":OPAQUE,"serializeTypeCurrentRPC":"JSON","version":479'


def opaque(by: int) -> Behaviour:
    """Return a behaviour that adds `by` to the response's opaque, so that it belongs to another request."""

    def act(exchange: Exchange) -> None:
        exchange.answer.opaque += by

    return change(act)


def binary(exchange: Exchange) -> list[bytes]:
    """Respond with a binary header instead of JSON, which the protocol allows."""
    exchange.answer.header_type = HeaderType.ROCKETMQ
    return [exchange.honest()]


def as_request(exchange: Exchange) -> list[bytes]:
    """Send the response with its flag changed to that of a request."""
    exchange.answer.flag = 0
    return [exchange.honest()]


def binary_with(header_bytes: bytes) -> Behaviour:
    """Return a behaviour that sends a frame with these bytes as its binary header."""
    length = 4 + len(header_bytes)
    return send_bytes(length.to_bytes(4, "big") + b"\x01" + len(header_bytes).to_bytes(3, "big") + header_bytes)


WRONG: dict[str, Behaviour] = {
    "one byte too long": resized(1),
    "one byte too short": resized(-1),
    "a megabyte too long": resized(2**20),
    "2^31 too long": resized(2**31),
    "length zero": send_bytes(bytes(4)),
    "length three": send_bytes(b"\0\0\0\3abc"),
    "a header beyond the frame": send_bytes(b"\0\0\0\x08\0\xff\xff\xff{}{}"),
    "header type 7": send_bytes(b"\0\0\0\x06\x07\0\0\2{}"),
    "an empty header": send_bytes(b"\0\0\0\4\0\0\0\0"),
    "a web server": send_bytes(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"),
    "TLS": send_bytes(b"\x16\x03\x03\x00\x7a" + bytes(122)),
    "noise": send_bytes(bytes(range(256)) * 64),
    "the next request's answer": opaque(1),
    "a response without a request": opaque(10**6),
    "an answer below zero": opaque(-(10**6)),
    "a request": as_request,
    "no JSON": header("{code:"),
    "a JSON list": header("[1,2]"),
    "a JSON text": header('"hello"'),
    "code 1e999": header('{"code":1e999,' + OK + "}"),
    "code NaN": header('{"code":NaN,' + OK + "}"),
    "code of 4,400 digits": header('{"code":' + "9" * 4400 + "," + OK + "}"),
    "code 2^40": header('{"code":1099511627776,' + OK + "}"),
    "code in words": header('{"code":"zero",' + OK + "}"),
    "no code": header("{" + OK + "}"),
    "nested deeply": header('{"code":' + "[" * 100_000),
    "opaque 1e999": header('{"code":0,"flag":1,"opaque":1e999}'),
    "opaque true": header('{"code":0,"flag":1,"opaque":true}'),
    "keys twice": header('{"code":0,"code":1,"code":0,' + OK + "}"),
    "fields in a list": header('{"code":0,"extFields":[1],' + OK + "}"),
    "fields in fields": header('{"code":0,"extFields":{"nextBeginOffset":{"a":{}},"offset":[]},' + OK + "}"),
    "no UTF-8": send_bytes(b"\0\0\0\x08\0\0\0\x04\xff\xfe\xff\xfe"),
    "a remark of a megabyte": header('{"code":1,"remark":"' + "x" * 2**20 + '",' + OK + "}"),
    "a reference": header('{"code":0,"extFields":{"$ref":"$"},' + OK + "}"),
    "a binary header cut off": binary_with(b"\0\0\0\1"),
    "a binary header with a long remark": binary_with(bytes(13) + b"\x7f\xff\xff\xff"),
    "a binary header with a remark below zero": binary_with(bytes(13) + b"\xff\xff\xff\xff" + bytes(4)),
    "a frame cut off": cut(10),
    "a body cut off": cut(300),
    "nothing, and the end": hang_up,
}
LAWFUL: dict[str, Behaviour] = {
    "binary": binary,
    "answered twice": repeat(1),
    "with more fields": fields(surprise="x" * 5000, code="7", opaque="9"),
}


def at(place: str, name: str, wrong: Behaviour) -> Scenario:
    """Return the scenario of a batch read that gets a wrong response to every request of the kind `place`."""
    return scenario_of(f"{name} at the {place}", lambda: on(PLACES[place], wrong))


def everywhere(name: str) -> Scenario:
    """Return the scenario of servers that give unusual, but allowed responses to all requests."""
    return scenario_of(f"{name} everywhere", lambda: LAWFUL[name], allowed=Allowed.RIGHT)


def once(name: str) -> Scenario:
    """Return the scenario of servers whose first response only is wrong."""
    return scenario_of(f"{name}, once", lambda: on(PULLS, first(1, WRONG[name])))


SCENARIOS = [
    *(at("pull", name, wrong) for name, wrong in WRONG.items()),
    *(at("statistics", name, wrong) for name, wrong in WRONG.items()),
    *(at("route", name, wrong) for name, wrong in list(WRONG.items())[::3]),
    *map(everywhere, LAWFUL),
    *map(once, list(WRONG)[::4]),
    scenario_of("a cut frame for a member", lambda: on(PULLS, first(3, cut(50))), "consume", allowed=Allowed.RIGHT),
    scenario_of(
        "a web server for a member",
        lambda: on(PULLS, first(2, WRONG["a web server"])),
        "consume",
        allowed=Allowed.RIGHT,
    ),
    scenario_of(
        "a web server for a pull consumer",
        lambda: on(PULLS, first(2, WRONG["a web server"])),
        "poll",
        allowed=Allowed.RIGHT,
    ),
    scenario_of("noise for a producer", lambda: on((10, 310), WRONG["noise"]), "send", allowed=Allowed.ERROR),
    scenario_of("another opaque for a producer", lambda: on((10, 310), opaque(1)), "send", allowed=Allowed.ERROR),
    scenario_of("a cut frame for the engine", lambda: on(PULLS, first(2, cut(500))), "engine", allowed=Allowed.RIGHT),
    scenario_of(
        "noise at the topic's configuration", lambda: on(351, WRONG["noise"]), "topic config", allowed=Allowed.ERROR
    ),
]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=str)
def test_frames(scenario: Scenario) -> None:
    """If a response is malformed, the call ends in time, with the right result or with an error of the library."""
    run_and_check(scenario)
