"""A request reaches the broker that holds its queue, also after the broker has moved to another address."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from pyspark_rocketmq.broker_errors import NoPermission, QueryNotFound, SystemBusy
from pyspark_rocketmq.cluster.broker import RoutedRequest
from pyspark_rocketmq.cluster.links import Addressed, Result
from pyspark_rocketmq.errors import (
    AddressNotAllowed,
    ConnectError,
    NoBrokerAvailable,
    QueueMoved,
    RequestTimeout,
    TopicNotFound,
)
from pyspark_rocketmq.net.deadline import Deadline
from pyspark_rocketmq.wire.codes import ResponseCode
from pyspark_rocketmq.wire.commands import GetMaxOffsetRequestHeader, OffsetResponseHeader
from pyspark_rocketmq.wire.header import Command
from tests.cluster.scripted import ScriptedLinks, answer, cluster_of, raising, route_of

BUSY = answer(ResponseCode.SYSTEM_BUSY, remark="[OVERLOAD]")


def max_of(broker_name: str, queue_id: int = 0) -> RoutedRequest:
    """Return a request for the maximum offset of a queue of topic T."""
    return RoutedRequest("T", broker_name, GetMaxOffsetRequestHeader(topic="T", queue_id=queue_id))


def test_a_moved_broker_is_found_by_a_new_route() -> None:
    """If a broker's address refuses connections, the next attempt uses its new address, from a new route."""
    links = ScriptedLinks()
    links.serve("ns:1", GET_ROUTEINFO_BY_TOPIC=route_of(a={0: "old:1"}))
    cluster = cluster_of(links)
    cluster.routes.route("T")
    links.serve("ns:1", GET_ROUTEINFO_BY_TOPIC=route_of(a={0: "new:1"}))
    links.serve("new:1", GET_MAX_OFFSET=answer(offset=7))
    assert cluster.brokers.ask(max_of("a")).header(OffsetResponseHeader).offset == 7
    assert links.addresses("GET_MAX_OFFSET") == ["old:1", "new:1"]


def test_an_error_that_says_nothing_of_routes_keeps_the_route() -> None:
    """If a broker is busy, the request is repeated without a new route."""
    links = ScriptedLinks()
    links.serve("ns:1", GET_ROUTEINFO_BY_TOPIC=route_of(a={0: "a:1"}))
    links.serve("a:1", GET_MAX_OFFSET=BUSY)
    with pytest.raises(SystemBusy):
        cluster_of(links, retries=2).brokers.ask(max_of("a"))
    assert (len(links.asked("GET_MAX_OFFSET")), len(links.asked("GET_ROUTEINFO_BY_TOPIC"))) == (3, 1)


def test_a_refusal_is_not_asked_again() -> None:
    """If a broker refuses a request for good, the request is not repeated."""
    links = ScriptedLinks()
    links.serve("ns:1", GET_ROUTEINFO_BY_TOPIC=route_of(a={0: "a:1"}))
    links.serve("a:1", GET_MAX_OFFSET=answer(ResponseCode.NO_PERMISSION, remark="no"))
    with pytest.raises(NoPermission):
        cluster_of(links).brokers.ask(max_of("a"))
    assert len(links.asked("GET_MAX_OFFSET")) == 1


def test_only_what_failed_is_asked_again() -> None:
    """If some of many requests fail, only those are sent again."""

    def busy_once(request: Command) -> Command:
        first = len(links.asked("GET_MAX_OFFSET")) <= 3
        queue_id = (request.fields or {})["queueId"]
        return BUSY if first and queue_id == "1" else answer(offset=queue_id)

    links = ScriptedLinks()
    links.serve("ns:1", GET_ROUTEINFO_BY_TOPIC=route_of(3, a={0: "a:1"}))
    links.serve("a:1", GET_MAX_OFFSET=busy_once)
    answers = cluster_of(links).brokers.ask_all({number: max_of("a", number) for number in range(3)})
    assert {key: found.header(OffsetResponseHeader).offset for key, found in answers.items()} == {0: 0, 1: 1, 2: 2}
    assert links.bursts == [3, 1]


def test_what_is_expected_to_be_absent_is_left_out() -> None:
    """If a reply has an error that the caller expects, it is left out of the result and its request is not repeated."""
    links = ScriptedLinks()
    links.serve("ns:1", GET_ROUTEINFO_BY_TOPIC=route_of(a={0: "a:1"}))
    links.serve("a:1", GET_MAX_OFFSET=answer(ResponseCode.QUERY_NOT_FOUND))
    assert cluster_of(links).brokers.ask_all({1: max_of("a")}, absent=(QueryNotFound,)) == {}
    assert links.bursts == [1]


def test_a_master_that_is_gone_is_replaced_only_where_any_copy_will_do() -> None:
    """If the master is gone, a request that any copy can serve goes to the replica; a write fails without a master."""
    links = ScriptedLinks()
    links.serve("ns:1", GET_ROUTEINFO_BY_TOPIC=route_of(a={1: "replica:1"}))
    links.serve("replica:1", GET_MAX_OFFSET=answer(offset=5))
    brokers = cluster_of(links).brokers
    assert brokers.ask(max_of("a"), any_copy=True).request.broker_id == 1
    with pytest.raises(NoBrokerAvailable, match="no master"):
        brokers.ask(max_of("a"))


def test_a_broker_that_left_the_route_has_moved() -> None:
    """If every new route lacks the broker, the request fails with `QueueMoved`."""
    links = ScriptedLinks()
    links.serve("ns:1", GET_ROUTEINFO_BY_TOPIC=route_of(a={0: "a:1"}))
    with pytest.raises(QueueMoved, match="topic T, broker gone"):
        cluster_of(links, retries=2).brokers.ask(max_of("gone"))
    assert len(links.asked("GET_ROUTEINFO_BY_TOPIC")) == 3


def test_without_name_servers_an_unknown_route_fails_once() -> None:
    """If no name server replies, requests for many queues of an unknown topic cost one lookup in all."""
    links = ScriptedLinks()
    with pytest.raises(ConnectError, match="GET_ROUTEINFO_BY_TOPIC"):
        cluster_of(links, retries=2).brokers.ask_all({number: max_of("a", number) for number in range(100)})
    assert len(links.calls) == 3


def test_a_topic_that_is_deleted_meanwhile_is_looked_up_once_an_attempt() -> None:
    """If a topic is deleted, each attempt looks it up once, for any number of queues."""
    links = ScriptedLinks()
    links.serve("ns:1", GET_ROUTEINFO_BY_TOPIC=route_of(a={0: "a:1"}))
    links.serve("a:1", GET_MAX_OFFSET=answer(ResponseCode.TOPIC_NOT_EXIST))
    cluster = cluster_of(links)
    cluster.routes.route("T")
    links.serve("ns:1", GET_ROUTEINFO_BY_TOPIC=answer(ResponseCode.TOPIC_NOT_EXIST))
    with pytest.raises(TopicNotFound):
        cluster.brokers.ask_all({number: max_of("a", number) for number in range(100)})
    assert len(links.asked("GET_ROUTEINFO_BY_TOPIC")) == 2


def test_one_attempt_tells_of_each_broker_for_itself() -> None:
    """If one broker replies and two fail, a single attempt returns one reply and two errors."""
    links = ScriptedLinks()
    links.serve("ns:1", GET_ROUTEINFO_BY_TOPIC=route_of(a={0: "a:1"}, b={0: "b:1"}))
    links.serve("a:1", GET_MAX_OFFSET=answer(offset=1))
    results = cluster_of(links).brokers.try_all({name: max_of(name) for name in ("a", "b", "c")})
    assert results["a"].header(OffsetResponseHeader).offset == 1  # type: ignore[union-attr]  # An error has no header: the test fails.
    assert [type(results[name]) for name in ("b", "c")] == [ConnectError, QueueMoved]


def test_any_broker_will_do_where_all_know_the_same() -> None:
    """If any broker can serve a request, the next one is tried after a dead one, but none after a refusal."""
    links = ScriptedLinks()
    links.serve("ns:1", GET_ROUTEINFO_BY_TOPIC=route_of(a={0: "a:1"}, b={0: "b:1"}))
    links.serve("b:1", GET_MAX_OFFSET=answer(offset=1))
    header = GetMaxOffsetRequestHeader(topic="T", queue_id=0)
    assert cluster_of(links).brokers.ask_any("T", header).request.broker_name == "b"
    links.serve("a:1", GET_MAX_OFFSET=answer(ResponseCode.NO_PERMISSION))
    with pytest.raises(NoPermission):
        cluster_of(links).brokers.ask_any("T", header)


def test_any_broker_that_may_be_connected_to_is_asked() -> None:
    """A broker that `allowed_brokers` does not list is passed over, but a retriable failure of another one counts."""
    links = ScriptedLinks()
    links.serve("ns:1", GET_ROUTEINFO_BY_TOPIC=route_of(a={0: "a:1"}, b={0: "b:1"}, c={0: "c:1"}))
    for address in ("a:1", "c:1"):
        links.serve(address, GET_MAX_OFFSET=raising(AddressNotAllowed("not listed")))
    links.serve("b:1", GET_MAX_OFFSET=answer(offset=1))
    header = GetMaxOffsetRequestHeader(topic="T", queue_id=0)
    assert cluster_of(links).brokers.ask_any("T", header).request.broker_name == "b"

    links.stop("b:1")
    with pytest.raises(ConnectError):
        cluster_of(links).brokers.ask_any("T", header)
    assert links.addresses("GET_MAX_OFFSET").count("b:1") > 2

    links.serve("b:1", GET_MAX_OFFSET=raising(AddressNotAllowed("not listed")))
    with pytest.raises(AddressNotAllowed):
        cluster_of(links).brokers.ask_any("T", header)


class _SilentLinks(ScriptedLinks):
    """Scripted links with their own clock; a request to a silent server moves it to the request's deadline."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0
        self.given_s: list[float] = []

    def call_all(self, requests: Sequence[Addressed], deadline: Deadline | None = None) -> list[Result]:
        """Record the remaining time, and send all requests."""
        assert deadline is not None
        self.given_s.append(deadline.remaining())
        results = super().call_all(requests, deadline)
        if any(isinstance(result, RequestTimeout) for result in results):
            self.now_s = deadline.at
        return results


def test_brokers_that_do_not_answer_leave_the_others_their_share_of_time() -> None:
    """If brokers are silent, each gets a part of the remaining time, and the last one all that remains."""
    links = _SilentLinks()
    links.serve("ns:1", GET_ROUTEINFO_BY_TOPIC=route_of(a={0: "a:1"}, b={0: "b:1"}, c={0: "c:1"}))
    for address in ("a:1", "b:1"):
        links.serve(address, GET_MAX_OFFSET=raising(RequestTimeout("no answer")))
    links.serve("c:1", GET_MAX_OFFSET=answer(offset=1))
    header, deadline = GetMaxOffsetRequestHeader(topic="T", queue_id=0), Deadline.after(3.0, lambda: links.now_s)

    assert cluster_of(links).brokers.ask_any("T", header, deadline=deadline).request.broker_name == "c"
    assert links.given_s == pytest.approx([1.0, 1.0, 1.0])


def test_a_route_without_brokers_serves_nobody() -> None:
    """If a route names no broker, the error names the topic."""
    links = ScriptedLinks()
    links.serve("ns:1", GET_ROUTEINFO_BY_TOPIC=route_of())
    with pytest.raises(NoBrokerAvailable, match="topic T"):
        cluster_of(links, retries=0).brokers.ask_each("T", GetMaxOffsetRequestHeader(topic="T", queue_id=0))
