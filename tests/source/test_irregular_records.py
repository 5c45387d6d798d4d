"""Check that a task logs how many irregular records it has decoded one by one."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from broker_stub import StubBroker
from broker_stub.store import InnerMessage
from pyspark_rocketmq.model import QueueRange
from pyspark_rocketmq.source.partition import RangePartition, read_partition
from pyspark_rocketmq.wire.compression import Compression, compress
from tests.source.driving import TOPIC, options_for, queue_of

LOGGER = "pyspark_rocketmq.source.partition"


@pytest.fixture
def stub() -> Iterator[StubBroker]:
    """One broker with a topic of one queue."""
    with StubBroker({TOPIC: 1}) as broker:
        yield broker


def summary_of(stub: StubBroker, end: int, caplog: pytest.LogCaptureFixture) -> logging.LogRecord:
    """Read the offsets below `end` in a task, and return the line that it logs."""
    with caplog.at_level(logging.DEBUG, LOGGER):
        for _ in read_partition(RangePartition((QueueRange(queue_of(0), 0, end),)), options_for(stub)):
            pass
    (said,) = (record for record in caplog.records if record.name == LOGGER)
    return said


def test_packed_bodies_are_counted(stub: StubBroker, caplog: pytest.LogCaptureFixture) -> None:
    """If bodies are compressed, the line counts their records."""
    stub.fill(TOPIC, 5, 10)
    body = compress(b"hello", Compression.ZLIB)
    packed = InnerMessage(TOPIC, 0, body, sys_flag=Compression.ZLIB.sys_flag)
    for _ in range(2):
        stub.run(lambda: stub.state.brokers[0].put(packed))

    said = summary_of(stub, 7, caplog)
    assert said.levelno == logging.DEBUG
    assert said.getMessage().startswith("7 rows of 1 ranges; 2 records were read one by one")


def test_plain_messages_are_no_news(stub: StubBroker, caplog: pytest.LogCaptureFixture) -> None:
    """If all records are plain, the line has the level DEBUG."""
    stub.fill(TOPIC, 5, 10)

    said = summary_of(stub, 5, caplog)
    assert said.levelno == logging.DEBUG
    assert said.getMessage().startswith("5 rows of 1 ranges; 0 records")
