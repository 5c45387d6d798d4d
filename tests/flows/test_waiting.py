"""Answers by which a broker puts a reader off: they are waited for, and are neither failures nor losses."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator

import pytest

from broker_stub import Settings, StubBroker, StubCluster
from pyspark_rocketmq.broker_errors import FlowControl, SystemBusy
from pyspark_rocketmq.cluster.cluster import open_cluster
from pyspark_rocketmq.errors import ConnectionLost, NoBrokerAvailable
from pyspark_rocketmq.model import MessageQueue
from pyspark_rocketmq.pull.reader import QueueReader
from pyspark_rocketmq.pull.remoting import read_outcome
from pyspark_rocketmq.pull.settings import PullSettings
from pyspark_rocketmq.wire.codes import RequestCode, ResponseCode
from pyspark_rocketmq.wire.header import RESPONSE_FLAG, Command

from .reading import Losses, Reading, offsets_of, read_all, whole
from .world import patient_settings, until

QUEUE = MessageQueue("T", "broker-a", 0)
EVERYTHING = {QUEUE: list(range(100))}
PULL = RequestCode.PULL_MESSAGE


@pytest.fixture
def stub() -> Iterator[StubBroker]:
    """A hundred messages in one queue."""
    with StubBroker({"T": 1}) as stub:
        stub.fill("T", 100, 50)
        yield stub


@pytest.fixture
def pair() -> Iterator[StubCluster]:
    """The same with a slave that refuses reads, as slaves of 5.x do by default."""
    with StubCluster(1, 1, topics={"T": 1}, settings=Settings(slave_reads=False)) as pair:
        pair.fill("T", 100, 50)
        yield pair


def reading(stub: StubCluster, settings: PullSettings) -> Reading:
    """The queue's messages, read by a client that has met no broker yet."""
    return read_all(open_cluster(patient_settings(stub.name_server)), [whole(QUEUE, 100)], settings)


@pytest.mark.parametrize("fault", ["flow_control", "busy"])
def test_a_broker_that_asks_to_slow_down_is_no_failure(stub: StubBroker, fault: str) -> None:
    """However often it does: that counts for no retries, while it lasts for less than pollTimeoutMs."""
    getattr(stub.faults, fault)(on=PULL, times=16)

    assert offsets_of(reading(stub, PullSettings(depth=2, max_retries=0, stall_timeout_s=50))) == EVERYTHING


@pytest.mark.parametrize(("fault", "error"), [("flow_control", FlowControl), ("busy", SystemBusy)])
def test_flow_control_that_lasts_ends_in_time(
    stub: StubBroker, fault: str, error: type[Exception], caplog: pytest.LogCaptureFixture
) -> None:
    """The pauses grow; the error says for how long and how often the broker refused, and the log says it once."""
    asked = getattr(stub.faults, fault)(on=PULL, times=None)

    with pytest.raises(
        error, match=r"\d+ answers in [\d.]+ s.*topic T, broker broker-a, queue 0, offset 0.*pollTimeoutMs"
    ):
        list(reading(stub, PullSettings(depth=1, stall_timeout_s=2)))

    assert asked.fired < 20
    [warning] = [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]
    assert "T" in warning and "up to 2 s" in warning


def test_a_refusing_replica_is_left_for_its_master(pair: StubCluster) -> None:
    """The master goes down and comes back: what the replica refuses meanwhile is no failure, and all rows arrive."""
    blocks = iter(reading(pair, PullSettings(batch_size=10, depth=1, max_retries=2)))
    seen = [next(blocks)]
    pair.faults.broker_down("broker-a", 0)
    refused = pair.faults.busy(on=PULL, times=None)  # What the replica answers by itself, but counted.

    def come_back() -> None:
        until(lambda: refused.fired == 5, "the replica refuses some pulls")
        pair.faults.clear()
        pair.faults.broker_up("broker-a", 0)

    coming_back = threading.Thread(target=come_back)
    coming_back.start()

    assert offsets_of([*seen, *blocks]) == EVERYTHING
    coming_back.join()


def test_a_suggested_replica_that_fails_is_left_for_its_master(pair: StubCluster) -> None:
    """Whatever the failure; a replica that died may be in the route for minutes."""
    brokers = open_cluster(patient_settings(pair.name_server)).brokers
    reader = QueueReader(whole(QUEUE, 100), brokers, PullSettings(), Losses())
    bounds = {"nextBeginOffset": "32", "minOffset": "0", "maxOffset": "100", "suggestWhichBrokerId": "1"}
    first, second = reader.take_requests(2)
    nothing_matches = Command(ResponseCode.PULL_RETRY_IMMEDIATELY, fields=bounds, flag=RESPONSE_FLAG)
    reader.accept(first, reader.choose_endpoint(), read_outcome(nothing_matches), now=1.0)
    assert reader.choose_endpoint().broker_id == 1

    reader.handle_failure(second, ConnectionLost("gone"), 2.0, reader.choose_endpoint())

    assert reader.choose_endpoint().is_master


def test_a_refusing_replica_without_a_master_is_named(pair: StubCluster) -> None:
    """The error names the replica, its setting and the missing master, and gives no advice about load."""
    cluster = open_cluster(patient_settings(pair.name_server))
    replica = cluster.routes.route("T").broker("broker-a").places[1].address
    pair.faults.broker_down("broker-a", 0)

    with pytest.raises(NoBrokerAvailable, match=r"refuses reads.*no master.*offset 0.*slaveReadEnable=true") as told:
        list(reading(pair, PullSettings(stall_timeout_s=1)))

    assert str(replica) in str(told.value)
    assert "load" not in str(told.value)
