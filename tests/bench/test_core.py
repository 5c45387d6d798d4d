"""How fast are the readable decoder and one inline connection? Written to docs/benchmarks/core.md."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from pyspark_rocketmq.model import Address, MessageQueue
from pyspark_rocketmq.net.pool import pool_for
from pyspark_rocketmq.wire.properties import encode_properties
from pyspark_rocketmq.wire.record import Record, decode_records, encode_record
from tests.bench.draining import PULL_COUNT, drain
from tests.bench.report import MESSAGES, Report, per_second
from tests.flows.world import World
from tests.real.fixtures import ClusterKeeper
from tests.real.worlds import real_world

pytestmark = [pytest.mark.bench, pytest.mark.real]

BODY_BYTES = (100, 1024)
DEPTHS = (1, 4, 16, 32)
QUEUES = 8
ROOMY = {"mappedFileSizeCommitLog": str(256 * 2**20)}
BATCH_BYTES = 2**20
USUAL = {"TAGS": "t", "KEYS": "order-4711", "UNIQ_KEY": "7F000001" * 4, "CLUSTER": "DefaultCluster", "WAIT": "true"}


@pytest.fixture(scope="module")
def report() -> Iterator[Report]:
    """The page, written when both have been measured."""
    about = "Rates of single steps, in one process on the machine that runs the broker too; run by `make bench`."
    report = Report("core", "The client core", about)
    yield report
    report.write()


def test_readable_decoder(report: Report) -> None:
    """Records of one answer, decoded into objects, properties and bodies included."""
    rows = []
    for size in BODY_BYTES:
        answer = b"".join(encode_record(_record(number, size)) for number in range(PULL_COUNT))
        rounds = max(1, MESSAGES // 10 // PULL_COUNT)
        began = time.perf_counter()
        for _ in range(rounds):
            for record in decode_records(answer):
                _ = record.properties, record.unpacked_body()
        rows.append((size, per_second(rounds * PULL_COUNT, time.perf_counter() - began)))
    report.add_table("Readable decoder", ["body bytes", "messages a second"], rows)


def test_inline_connection(report: Report, real_clusters: ClusterKeeper) -> None:
    """A whole topic drained over one connection, with more and more pulls in flight."""
    world = real_world(real_clusters.cluster(options=ROOMY))
    rows = []
    for size in BODY_BYTES:
        queues = _filled_topic(world, size)
        with pool_for(world.settings.net).connection(world.master(queues[0])) as connection:
            drain(connection, queues, MESSAGES // QUEUES, max(DEPTHS))
            for depth in DEPTHS:
                got = drain(connection, queues, MESSAGES // QUEUES, depth)
                assert got.messages >= MESSAGES // QUEUES * QUEUES
                rate = per_second(got.messages, got.seconds)
                cpu_us = f"{got.cpu_seconds / got.messages * 1e6:.2f}"
                rows.append((size, depth, rate, f"{got.byte_count / got.seconds / 2**20:,.0f}", cpu_us))
    head = ["body bytes", "pulls in flight", "messages a second", "MiB a second", "CPU µs a message"]
    title = f"Inline connection, RocketMQ {world.version}, {QUEUES} queues, {MESSAGES:,} messages, not decoded"
    report.add_table(title, head, rows)


def _filled_topic(world: World, size: int) -> list[MessageQueue]:
    queues = world.make_topic(QUEUES)
    for queue in queues:
        left = MESSAGES // QUEUES
        while left:
            count = min(left, BATCH_BYTES // (size + 200))
            world.fill(queue, count, size=size, **USUAL)
            left -= count
    return queues


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
