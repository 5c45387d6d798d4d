"""Test responses that ask a reader to wait: the reader counts them neither as failures nor as losses."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator

import pytest

from broker_stub import Settings, StubBroker, StubCluster
from pyspark_rocketmq.broker_errors import FlowControl, SystemBusy
from pyspark_rocketmq.cluster.cluster import open_cluster
from pyspark_rocketmq.errors import ConnectionLost, NoBrokerAvailable, RocketMQError
from pyspark_rocketmq.model import MessageQueue
from pyspark_rocketmq.pull.reader import QueueReader
from pyspark_rocketmq.pull.remoting import pull_one, read_outcome
from pyspark_rocketmq.pull.settings import PullSettings
from pyspark_rocketmq.wire.codes import RequestCode, ResponseCode
from pyspark_rocketmq.wire.header import RESPONSE_FLAG, Command

from .reading import Reading, RecordingPolicy, offsets_of, read_all, whole
from .world import patient_settings, until

QUEUE = MessageQueue("T", "broker-a", 0)
EVERYTHING = {QUEUE: list(range(100))}
PULL = RequestCode.PULL_MESSAGE


@pytest.fixture
def stub() -> Iterator[StubBroker]:
    """A stub with a hundred messages in one queue."""
    with StubBroker({"T": 1}) as stub:
        stub.fill("T", 100, 50)
        yield stub


@pytest.fixture
def pair() -> Iterator[StubCluster]:
    """A stub with a master of a hundred messages and a slave that refuses reads, as slaves of 5.x do by default."""
    with StubCluster(1, 1, topics={"T": 1}, settings=Settings(slave_reads=False)) as pair:
        pair.fill("T", 100, 50)
        yield pair


def reading(stub: StubCluster, settings: PullSettings) -> Reading:
    """Return a `Reading` of the whole queue, with a new client."""
    return read_all(open_cluster(patient_settings(stub.name_server)), [whole(QUEUE, 100)], settings)


@pytest.mark.parametrize("fault", ["flow_control", "busy"])
def test_a_broker_that_asks_to_slow_down_is_no_failure(stub: StubBroker, fault: str) -> None:
    """Flow control that ends before `stall_timeout_s` uses up no retries, and all messages are read."""
    getattr(stub.faults, fault)(on=PULL, times=16)

    assert offsets_of(reading(stub, PullSettings(depth=2, max_retries=0, stall_timeout_s=50))) == EVERYTHING


@pytest.mark.parametrize(("fault", "error"), [("flow_control", FlowControl), ("busy", SystemBusy)])
def test_flow_control_that_lasts_ends_in_time(
    stub: StubBroker, fault: str, error: type[RocketMQError], caplog: pytest.LogCaptureFixture
) -> None:
    """If flow control does not end, pauses grow, one warning is logged, and the error states the number of refusals."""
    asked = getattr(stub.faults, fault)(on=PULL, times=None)

    with pytest.raises(error, match=r"\d+ \w+ in [\d.]+ s") as caught:
        list(reading(stub, PullSettings(depth=1, stall_timeout_s=2)))

    assert {"topic": "T", "broker": "broker-a", "queue_id": 0, "offset": 0}.items() <= caught.value.where.items()
    assert "pollTimeoutMs" in caught.value.advice
    assert asked.fired < 20
    [warning] = [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]
    assert "T" in warning and "2 s" in warning


def test_a_refusing_replica_is_left_for_its_master(pair: StubCluster) -> None:
    """If a slave refuses pulls while its master is down, reading waits and continues at the master."""
    blocks = iter(reading(pair, PullSettings(batch_size=10, depth=1, max_retries=2)))
    seen = [next(blocks)]
    pair.faults.broker_down("broker-a", 0)
    refused = pair.faults.busy(on=PULL, times=None)  # The same response as the slave's own, but counted.

    def come_back() -> None:
        until(lambda: refused.fired == 5, "the replica refuses some pulls")
        pair.faults.clear()
        pair.faults.broker_up("broker-a", 0)

    coming_back = threading.Thread(target=come_back)
    coming_back.start()

    assert offsets_of([*seen, *blocks]) == EVERYTHING
    coming_back.join()


def test_a_suggested_replica_that_fails_is_left_for_its_master(pair: StubCluster) -> None:
    """If a slave that the broker suggested fails in any way, the reader chooses the master again."""
    brokers = open_cluster(patient_settings(pair.name_server)).brokers
    reader = QueueReader(whole(QUEUE, 100), brokers, PullSettings(), RecordingPolicy())
    bounds = {"nextBeginOffset": "32", "minOffset": "0", "maxOffset": "100", "suggestWhichBrokerId": "1"}
    first, second = reader.take_requests(2)
    nothing_matches = Command(ResponseCode.PULL_RETRY_IMMEDIATELY, fields=bounds, flag=RESPONSE_FLAG)
    master = reader.choose_endpoint()
    reader.accept(first, master, read_outcome(nothing_matches), now=1.0)
    assert reader.choose_endpoint() == master, "until the slave's message is compared with the master's"
    while compared := reader.choose_probed(1.0):
        comparison = reader.take_probe(compared, 1.0)
        reader.accept(comparison, compared, pull_one(brokers, master, QUEUE, "g", comparison.start), 1.0)
    assert reader.choose_endpoint().broker_id == 1

    reader.handle_failure(second, ConnectionLost("gone"), 2.0, reader.choose_endpoint())

    assert reader.choose_endpoint().is_master


def test_a_refusing_replica_without_a_master_is_named(pair: StubCluster) -> None:
    """If a slave refuses pulls and no master returns, the error names the slave and `slaveReadEnable`."""
    cluster = open_cluster(patient_settings(pair.name_server))
    replica = cluster.routes.route("T").broker("broker-a").endpoints[1].address
    pair.faults.broker_down("broker-a", 0)

    with pytest.raises(NoBrokerAvailable, match="master") as caught:
        list(reading(pair, PullSettings(stall_timeout_s=1)))

    assert {"topic": "T", "broker": "broker-a", "offset": 0}.items() <= caught.value.where.items()
    assert str(replica) in str(caught.value) and "slaveReadEnable=true" in str(caught.value)
    assert "load" not in str(caught.value)
