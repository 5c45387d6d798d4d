"""Test stored records with inconsistent fields or unreadable bodies."""

from __future__ import annotations

import struct
import zlib
from dataclasses import replace
from typing import Any

import pytest

from pyspark_rocketmq.wire.batch import BatchEntry, encode_batch
from pyspark_rocketmq.wire.codes import SysFlag
from pyspark_rocketmq.wire.record import Record

from .behaviours import at_pulls, each_record, first, records, stored
from .scenarios import Allowed, Scenario, run_and_check, scenario_of
from .server import Behaviour

TOLERANT = {"mode": "PERMISSIVE"}
DROPPING = {"mode": "DROPMALFORMED"}
INNER = SysFlag.NEED_UNWRAP | SysFlag.INNER_BATCH


def overwritten(at: int, data: bytes) -> Behaviour:
    """Return a behaviour that overwrites bytes of each response's first record, from position `at` on."""

    def act(found: bytearray) -> None:
        found[at : at + len(data)] = data

    return stored(act)


def int_at(at: int, value: int) -> Behaviour:
    """Return a behaviour that overwrites a 32-bit field of each response's first record."""
    return overwritten(at, struct.pack(">i", value))


def tail(data: bytes) -> Behaviour:
    """Return a behaviour that appends bytes to the records of each response."""
    return stored(lambda found: found.extend(data))


def cut_by(count: int) -> Behaviour:
    """Return a behaviour that removes the last `count` bytes of each response's records."""

    def act(found: bytearray) -> None:
        del found[-count:]

    return stored(act)


def odd(name: str, behaviour: Behaviour, **given: Any) -> Scenario:
    """Return the scenario of brokers that store records as this behaviour changes them."""
    return scenario_of(name, lambda: at_pulls(behaviour), **given)


def batched(found: list[Record]) -> list[Record]:
    """Return records that each contain eight messages, as in batch consume queues."""
    groups = [found[start : start + 8] for start in range(0, len(found), 8)]
    return [
        replace(
            group[0], body=encode_batch(BatchEntry(r.body, r.properties_text, r.flag) for r in group), sys_flag=INNER
        )
        for group in groups
    ]


def short_batches(found: list[Record]) -> list[Record]:
    """Return records that each claim eight messages, but lack the last one."""
    return [record for start in range(0, len(found), 8) for record in batched(found[start : start + 8][:-1])]


def flag(bits: int) -> Behaviour:
    """Return a behaviour that sets bits of each record's sysFlag without adding the data that these bits announce."""
    return int_at(36, bits)


SCENARIOS = [
    odd("an unknown magic", int_at(4, 0x12345678), allowed=Allowed.ERROR),
    odd("size zero", int_at(0, 0), allowed=Allowed.ERROR),
    odd("size below zero", int_at(0, -200), allowed=Allowed.ERROR),
    odd("size one", int_at(0, 1), allowed=Allowed.ERROR),
    odd("size beyond the answer", int_at(0, 2**30), allowed=Allowed.ERROR),
    odd("size 2^31-1", int_at(0, 2**31 - 1), allowed=Allowed.ERROR),
    odd(
        "size of two records",
        stored(lambda found: found.__setitem__(slice(0, 4), struct.pack(">i", 2 * struct.unpack_from(">i", found)[0]))),
        allowed=Allowed.ERROR,
    ),
    odd("a body longer than the record", int_at(84, 10_000), allowed=Allowed.ERROR),
    odd("a body below zero", int_at(84, -1), allowed=Allowed.ERROR),
    odd("a queue below zero", int_at(12, -1), allowed=Allowed.ERROR),
    odd("an IPv6 flag without the host", flag(16), allowed=Allowed.ERROR),
    odd("both IPv6 flags without hosts", flag(48), allowed=Allowed.ERROR),
    odd("a packed flag without packing", flag(1), allowed=Allowed.ERROR),
    odd("an unknown packing", flag(0x701), allowed=Allowed.ERROR),
    odd("an inner batch that is none", flag(INNER), allowed=Allowed.ERROR),
    odd("all flags", flag(-1), allowed=Allowed.ERROR),
    odd("a prepared transaction", flag(4)),
    odd(
        "noise instead of records",
        stored(lambda found: found.__setitem__(slice(0, None), bytes(range(256)) * 8)),
        allowed=Allowed.ERROR,
    ),
    odd(
        "zeros instead of records",
        stored(lambda found: found.__setitem__(slice(0, None), bytes(len(found)))),
        allowed=Allowed.ERROR,
    ),
    odd("a byte too many", tail(b"\0"), allowed=Allowed.ERROR),
    odd("half a record too many", tail(bytes(60)), allowed=Allowed.ERROR),
    odd("a byte too few", cut_by(1), allowed=Allowed.ERROR),
    odd("a cut record, once", first(1, cut_by(50))),
    odd("a CRC of zero", int_at(8, 0)),
    odd("properties that are no text", each_record(properties_text=b"\xff\xfe\x01\xff\x02")),
    odd(
        "properties that are no text, tolerant",
        each_record(properties_text=b"\xff\xfe\x01\xff\x02"),
        options={**TOLERANT, "columns": "*"},
    ),
    odd("properties without separators", each_record(properties_text=b"x" * 30_000)),
    odd("properties of separators", each_record(properties_text=b"\x01\x02" * 16_000), options={"columns": "*"}),
    odd("properties of one name", each_record(properties_text=b"a\x01b\x02" * 8000), options={"columns": "*"}),
    odd(
        "delays in words",
        each_record(properties_text=b"DELAY\x01soon\x02RECONSUME_TIME\x01" + b"9" * 4400 + b"\x02"),
        options={"columns": "*"},
    ),
    odd("times beyond all calendars", each_record(born_timestamp=2**63 - 1, store_timestamp=-(2**63))),
    odd(
        "times beyond all calendars, all columns",
        each_record(born_timestamp=2**63 - 1, store_timestamp=-(2**63)),
        options={"columns": "*"},
    ),
    odd("a packed body cut off", each_record(body=zlib.compress(b"x" * 1000)[:-9], sys_flag=1), allowed=Allowed.ERROR),
    odd(
        "a packed body with a tail", each_record(body=zlib.compress(b"x") + b"more", sys_flag=1), allowed=Allowed.ERROR
    ),
    odd("a packed body, dropped", each_record(body=b"no zlib", sys_flag=1), options=DROPPING, allowed=Allowed.WARNED),
    odd("inner batches", records(batched), allowed=Allowed.RIGHT),
    odd("inner batches with a message missing", records(short_batches), allowed=Allowed.ERROR),
    odd(
        "inner batches in one task each",
        records(batched),
        options={"maxRecordsPerPartition": "10"},
        allowed=Allowed.RIGHT,
    ),
    odd("an inner batch without messages", each_record(body=b"", sys_flag=INNER), allowed=Allowed.ERROR),
    odd(
        "an inner batch of itself",
        each_record(body=encode_batch([BatchEntry(b"x")] * 3), sys_flag=INNER),
        allowed=Allowed.ERROR,
    ),
    odd("records within records", records(lambda found: [found[0], *found]), allowed=Allowed.ERROR),
]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=str)
def test_odd_messages(scenario: Scenario) -> None:
    """If a record is unreadable, an error or a warning says where it is, and no later record is dropped silently."""
    run_and_check(scenario)
