"""Test the catalog, which finds the queues to read and remembers routes and lists of topics."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from broker_stub import NAME_SERVER, StubBroker
from pyspark_rocketmq.cluster.cluster import open_cluster
from pyspark_rocketmq.errors import OptionError, RocketMQError
from pyspark_rocketmq.options import ReaderOptions
from pyspark_rocketmq.source.catalog import QueueCatalog
from pyspark_rocketmq.source.rhythm import PlannerRhythm
from pyspark_rocketmq.wire.codes import RequestCode, ResponseCode
from tests.source.driving import TOPIC, options_for, queue_of

LIST = RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER


@pytest.fixture
def stub() -> Iterator[StubBroker]:
    """One broker with a topic of two queues."""
    with StubBroker({TOPIC: 2}) as broker:
        yield broker


class Clock:
    """A clock that stands still until it is moved."""

    now = 0.0

    def __call__(self) -> float:
        """Return the time in seconds."""
        return self.now


def catalog_of(options: ReaderOptions, clock: Clock) -> QueueCatalog:
    """Return a catalog that keeps lists of topics and routes for 30 seconds."""
    cluster = replace(options.cluster, route_max_age_s=30.0, retries=0)
    return QueueCatalog(open_cluster(cluster), options, PlannerRhythm(clock=clock))


def test_the_list_of_topics_is_renewed_when_it_has_come_of_age(stub: StubBroker) -> None:
    """With a pattern, the list of topics is requested again when it is 30 seconds old, and not before."""
    clock, asked = Clock(), stub.faults.delay(1, on=LIST, at=NAME_SERVER, times=None)
    catalog = catalog_of(options_for(stub, subscribePattern=f"{TOPIC}|new"), clock)
    catalog.queues()
    stub.put("new", b"")
    assert {queue.topic for queue in catalog.queues()} == {TOPIC}
    clock.now = 30.0
    assert {queue.topic for queue in catalog.queues()} == {TOPIC, "new"}
    assert asked.fired == 2


def test_an_old_list_of_topics_serves_while_there_is_no_newer_one(stub: StubBroker) -> None:
    """If a request for the list of topics fails, the expired list is still used; without any list the call fails."""
    clock, options = Clock(), options_for(stub, subscribePattern=TOPIC)
    catalog = catalog_of(options, clock)
    queues = catalog.queues()
    clock.now = 30.0
    stub.faults.busy(on=LIST, at=NAME_SERVER)
    assert catalog.queues() == queues
    stub.faults.busy(on=LIST, at=NAME_SERVER)
    with pytest.raises(RocketMQError, match="busy"):
        catalog_of(options, clock).queues()


def test_a_pattern_matches_inside_the_namespace_only() -> None:
    """With a namespace, the pattern matches names without its prefix, and topics of other namespaces are left out."""
    with StubBroker(dict.fromkeys(("NS%orders", "NS%bills", "old-orders", "OTHER%orders"), 1)) as stub:
        options = options_for(stub, namespace="NS", subscribePattern=".*orders")
        assert catalog_of(options, Clock()).queues() == [queue_of(0)]


def test_names_that_are_no_topics_never_reach_the_pattern(stub: StubBroker, caplog: pytest.LogCaptureFixture) -> None:
    """Listed names that no topic can have are not matched, and one warning shows an example of them in short."""
    topics = stub.state.brokers[0].topics
    for name in ("a\n\x1b[31mforged", "x" * 128, "y" * 200_000, "%RETRY%" + "g" * 300):
        topics.find_or_create(name, 1, perm=6)
    for name in ("room1@host", "ip-10-0-0-1.example", "my.cluster_REPLY_TOPIC"):  # Brokers make such topics.
        topics.find_or_create(name, 1, perm=6)
    clock = Clock()
    catalog = catalog_of(options_for(stub, subscribePattern="(?s:[^Db].*)"), clock)
    assert {queue.topic for queue in catalog.queues()} == {TOPIC}
    clock.now = 30.0
    assert {queue.topic for queue in catalog.queues()} == {TOPIC}
    [warning] = [each for each in caplog.messages if "that no topic can have" in each]
    assert r"list 3 names that no topic can have, which are not read, for example a\n\x1b[31mforged" in warning
    assert warning.isprintable() and len(warning) < 500


def test_a_server_that_lists_no_topics_is_told_of_by_the_option(stub: StubBroker) -> None:
    """If the server cannot list topics, `subscribePattern` is refused with an error that says so."""
    stub.faults.answer(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, on=LIST, at=NAME_SERVER)
    with pytest.raises(OptionError, match=r"subscribePattern = 'o.*': this server does not list topics; list"):
        catalog_of(options_for(stub, subscribePattern="o.*"), Clock()).queues()


def test_an_absent_topic_is_looked_for_when_routes_come_of_age(stub: StubBroker) -> None:
    """A topic without a route is asked for again when routes expire after 30 seconds, and not at every call."""
    clock = Clock()
    catalog = catalog_of(options_for(stub, subscribe=f"{TOPIC},gone"), clock)
    asked = stub.faults.delay(1, on=RequestCode.GET_ROUTEINFO_BY_TOPIC, at=NAME_SERVER, times=None)
    for second in (0.0, 29.0, 30.0, 31.0):
        clock.now = second
        assert catalog.queues({"gone"}) == [queue_of(0), queue_of(1)]
    assert asked.fired == 3


def test_queues_by_number_must_be_there(stub: StubBroker) -> None:
    """With `assign` only the listed queues are read; a queue id that is not in the route is refused."""
    known = options_for(stub, assign='{"orders": {"broker-a": [1]}}')
    catalog = catalog_of(known, Clock())
    assert catalog.queues() == [queue_of(1)] and not catalog.covers(queue_of(0))
    unknown = catalog_of(options_for(stub, assign='{"orders": {"broker-a": [2]}}'), Clock())
    with pytest.raises(OptionError, match="assign = 'orders/broker-a/2': not in the route"):
        unknown.require_known(unknown.queues())


def test_a_dead_letter_topic_that_may_not_be_read_says_why(stub: StubBroker) -> None:
    """If a dead letter topic may not be read, the error says that brokers before 4.9.2 create it this way."""
    stub.state.brokers[0].topics.find_or_create("%DLQ%g", 1, perm=2)
    catalog = catalog_of(options_for(stub, subscribe="%DLQ%g"), Clock())
    with pytest.raises(OptionError, match=r"%DLQ%g.*may be read.*before 4"):
        catalog.require_known(catalog.queues())
