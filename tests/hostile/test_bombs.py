"""Test small responses that expand: JSON references, compressed bodies, and numbers that set a list's length."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from pyspark_rocketmq.wire.codes import RequestCode
from pyspark_rocketmq.wire.compression import Compression, compress

from .behaviours import ROUTE, STATISTICS, at_pulls, body, first, on, records, refuse, rewrite, stored
from .scenarios import Allowed, Scenario, run_and_check, scenario_of
from .server import Behaviour

TOLERANT = {"mode": "PERMISSIVE"}
BOMB_BYTES = 2**27
"""Number of bytes to which the bodies unpack: twice the library's limit."""


def references(count: int, size: int) -> bytes:
    """Return a route with `count` brokers; their addresses are JSON references to the same map of `size` entries."""
    large = ",".join(f'"{number}":"127.0.0.1:9"' for number in range(size))
    brokers = ",".join(f'{{"brokerName":"b{number}","brokerAddrs":{{"$ref":"$.large"}}}}' for number in range(count))
    return f'{{"large":{{{large}}},"brokerDatas":[{brokers}],"queueDatas":[]}}'.encode()


def referring_brokers(count: int, size: int) -> bytes:
    """Return a list of `count` brokers; their addresses are JSON references to the same map of `size` entries."""
    large = ",".join(f'"{number}":"127.0.0.1:9"' for number in range(size))
    broker = '{"brokerName":"b","brokerAddrs":{"$ref":"$.large"}}'
    brokers = ",".join(f'"b{number}":{broker}' for number in range(count))
    return f'{{"large":{{{large}}},"brokerAddrTable":{{{brokers}}}}}'.encode()


def doubling(depth: int) -> bytes:
    """Return JSON in which each member refers twice to the previous one, so that it expands to 2^depth values."""
    steps = [f'"a{n}":[{{"$ref":"$.a{n - 1}"}},{{"$ref":"$.a{n - 1}"}}]' for n in range(1, depth)]
    return ('{"a0":["x"],' + ",".join(steps) + "}").encode()


@cache
def packed(compression: Compression) -> bytes:
    """Return a small compressed body that unpacks to many zeros."""
    return compress(bytes(BOMB_BYTES), compression)


def bomb(name: str, make: Callable[[], Behaviour], entry_point: str = "batch", **given: Any) -> Scenario:
    """Return a scenario that runs in a process of its own, so that its memory can be measured."""
    return scenario_of(name, make, entry_point, own_process=True, **given)


def packed_in_pulls(compression: Compression, count: int = 8) -> Callable[[], Behaviour]:
    """Return a function that makes a behaviour: each pull's first `count` messages get a body of compressed zeros."""
    return lambda: at_pulls(packed_ones(compression.sys_flag, packed(compression), count))


def packed_ones(sys_flag: int, content: bytes, count: int) -> Behaviour:
    """Return a behaviour that gives the first `count` messages of each response this body and this sysFlag."""
    return records(
        lambda found: [replace(each, body=content, sys_flag=sys_flag) for each in found[:count]] + found[count:]
    )


def many_queues(count: int) -> bytes:
    """Return the body of topic statistics that list `count` queues."""
    bounds = '{"lastUpdateTimestamp":0,"maxOffset":64,"minOffset":0}'
    queues = (f'{{"brokerName":"broker-a","queueId":{n},"topic":"orders"}}:{bounds}' for n in range(count))
    return ('{"offsetTable":{' + ",".join(queues) + "}}").encode()


def long_remark(size: int) -> Behaviour:
    """Return a behaviour that refuses every request with a remark of `size` characters."""
    return refuse(1, "x" * size)


HUGE_MAXIMUM = rewrite(b'"maxOffset":64', b'"maxOffset":%d' % 2**62)
SCENARIOS = [
    bomb(
        "references to a large map in a route", lambda: on(ROUTE, body(references(2000, 40_000))), allowed=Allowed.ERROR
    ),
    bomb(
        "references to a large map for a producer",
        lambda: on(ROUTE, body(references(2000, 40_000))),
        "send",
        allowed=Allowed.ERROR,
    ),
    bomb(
        "references to a large map in brokers",
        lambda: on(106, body(referring_brokers(2000, 40_000))),
        "brokers",
        allowed=Allowed.ERROR,
    ),
    bomb("references that double", lambda: on(STATISTICS, body(doubling(40)))),
    bomb("a reference to itself", lambda: on(STATISTICS, body(b'{"offsetTable":{"$ref":"$"}}'))),
    bomb("a reference to its reference", lambda: on(STATISTICS, body(b'{"a":{"$ref":"$.a"},"offsetTable":{}}'))),
    bomb(
        "references in a circle",
        lambda: on(ROUTE, body(b'{"a":{"$ref":"$.b"},"b":{"$ref":"$.a"}}')),
        allowed=Allowed.ERROR,
    ),
    bomb("a long path", lambda: on(STATISTICS, body(b'{"$ref":"$' + b".a" * 10**6 + b'"}')), allowed=Allowed.ERROR),
    bomb("a million keys", lambda: on(STATISTICS, body(b"{" + b"1:1," * 10**6 + b"1:1}"))),
    bomb("statistics of 60,000 queues", lambda: on(STATISTICS, body(many_queues(60_000)))),
    bomb("16 MB of brackets", lambda: on(STATISTICS, body(b"[" * (2**24 - 1000))), allowed=Allowed.ERROR),
    bomb("16 MB of backslashes", lambda: on(STATISTICS, body(b'{"' + b"\\" * (2**24 - 1000))), allowed=Allowed.ERROR),
    bomb("16 MB of object keys", lambda: on(STATISTICS, body(b"{{{" * 5_000_000)), allowed=Allowed.ERROR),
    bomb(
        "a maximum of 2^62 in small tasks",
        lambda: on(STATISTICS, HUGE_MAXIMUM),
        options={"maxRecordsPerPartition": "1000"},
        allowed=Allowed.ERROR,
    ),
    bomb(
        "a maximum of 2^62 in many tasks",
        lambda: on(STATISTICS, HUGE_MAXIMUM),
        options={"minPartitions": "64"},
        allowed=Allowed.ERROR,
    ),
    bomb(
        "a maximum of 2^62 for a stream",
        lambda: on(STATISTICS, HUGE_MAXIMUM),
        "stream",
        options={"maxRecordsPerPartition": "1"},
        allowed=Allowed.ERROR,
    ),
    *(bomb(f"a {each.name} bomb", packed_in_pulls(each), allowed=Allowed.ERROR) for each in Compression),
    bomb("a ZLIB bomb for a tolerant reader", packed_in_pulls(Compression.ZLIB, 1), options=TOLERANT),
    bomb(
        "ZLIB bombs once for a member", lambda: at_pulls(first(1, packed_ones(1, packed(Compression.ZLIB), 8))), "poll"
    ),
    bomb("an answer of 16 MB", lambda: at_pulls(stored(lambda found: found.extend(bytes(found) * 2000)))),
    bomb("an answer of 15 MB of remark", lambda: at_pulls(long_remark(15_000_000))),
    bomb(
        "inner batches in packed bodies",
        lambda: at_pulls(packed_ones(0xC1, packed(Compression.ZLIB), 8)),
        allowed=Allowed.ERROR,
    ),
    bomb(
        "a message by key that unpacks to a lot",
        lambda: on(RequestCode.QUERY_MESSAGE, packed_ones(1, packed(Compression.ZLIB), 1)),
        "by key",
    ),
]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=str)
def test_bombs(scenario: Scenario) -> None:
    """If a small response would expand to a huge value, the call stays within its limits of memory and time."""
    run_and_check(scenario)
