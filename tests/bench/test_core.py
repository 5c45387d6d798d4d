"""Measure the decoder of single records and the inline connection; write docs/benchmarks/core.md."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from pyspark_rocketmq.model import Address
from pyspark_rocketmq.net.pool import pool_for
from pyspark_rocketmq.wire.properties import encode_properties
from pyspark_rocketmq.wire.record import Record, decode_records, encode_record
from tests.bench.bench_broker import BenchBroker
from tests.bench.bench_settings import MESSAGES, QUARTER, Shape
from tests.bench.connection_drain import PULL_COUNT, drain
from tests.bench.report import Report, per_second, report_of
from tests.real.worlds import real_world

pytestmark = [pytest.mark.bench, pytest.mark.real]

DEPTHS = (1, 4, 16, 32)
SHAPES = (QUARTER, Shape(8, 100, QUARTER.messages))
ABOUT = "Rates of single steps, measured once each, in one process on the machine that also runs the broker."
USUAL = {"TAGS": "t", "KEYS": "order-4711", "UNIQ_KEY": "7F000001" * 4, "CLUSTER": "DefaultCluster", "WAIT": "true"}


def test_core(bench_broker: BenchBroker) -> None:
    with report_of("core", "The client core", ABOUT, RocketMQ=bench_broker.cluster.version) as report:
        _decode(report)
        _drain(report, bench_broker)


def _decode(report: Report) -> None:
    """Measure decoding the records of a response one by one, with properties and bodies; add a table to the report."""
    rows = []
    for shape in SHAPES:
        answer = b"".join(encode_record(_record(number, shape.size)) for number in range(PULL_COUNT))
        rounds = max(1, MESSAGES // 20 // PULL_COUNT)
        began = time.perf_counter()
        for _ in range(rounds):
            for record in decode_records(answer):
                _ = record.properties, record.unpacked_body()
        rows.append((shape.size, per_second(rounds * PULL_COUNT, time.perf_counter() - began)))
    report.add_table("Readable decoder", ["body bytes", "messages a second"], rows)


def _drain(report: Report, bench_broker: BenchBroker) -> None:
    """Measure pulling a topic over one connection with 1, 4, 16 and 32 pulls in flight; add a table to the report."""
    world = real_world(bench_broker.cluster)
    rows = []
    for shape in SHAPES:
        queues = list(world.cluster.routes.route(bench_broker.topic(shape)).readable)
        with pool_for(world.settings.net).connection(world.master(queues[0])) as connection:
            for depth in (max(DEPTHS), *DEPTHS):
                got = drain(connection, queues, shape.messages // shape.queues, depth)
                assert got.messages >= shape.messages
                rate = per_second(got.messages, got.seconds)
                mib = f"{got.byte_count / got.seconds / 2**20:,.0f}"
                rows.append((shape.size, depth, rate, mib, f"{got.cpu_seconds / got.messages * 1e6:.2f}"))
    head = ["body bytes", "pulls in flight", "messages a second", "MiB a second", "CPU µs a message"]
    report.add_table(f"Inline connection, {QUARTER.messages:,} messages, the first line to warm up", head, rows)


def _record(number: int, size: int) -> Record:
    host = Address("127.0.0.1", 10911)
    stored = Record(
        topic="orders",
        queue_id=0,
        queue_offset=number,
        physical_offset=number * 1000,
        born_timestamp=1_700_000_000_000,
        born_host=host,
        store_timestamp=1_700_000_000_001,
        store_host=host,
        body=b"x" * size,
    )
    return replace(stored, properties_text=encode_properties(USUAL))
