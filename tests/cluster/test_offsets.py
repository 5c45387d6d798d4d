"""Offsets are fetched in bursts and checked; positions are committed at masters."""

from __future__ import annotations

from typing import Any

import pytest

from pyspark_rocketmq.cluster.cluster import Cluster
from pyspark_rocketmq.cluster.names import Namespace
from pyspark_rocketmq.cluster.queue_offsets import ReportedPosition
from pyspark_rocketmq.errors import ConnectionLost, MalformedFrame, NoBrokerAvailable
from pyspark_rocketmq.model import Address, MessageQueue, QueueBounds
from pyspark_rocketmq.wire.codes import ResponseCode
from pyspark_rocketmq.wire.header import Command
from pyspark_rocketmq.wire.record import Record, encode_record
from tests.cluster.scripted import ScriptedLinks, Server, answer, cluster_of, raising, route_of, unsupported

VERSION_4_9_7 = 407
A, B = (MessageQueue("T", name, 0) for name in ("a", "b"))
ABSENT = answer(ResponseCode.QUERY_NOT_FOUND)


def two_brokers(**handlers: Command) -> tuple[Cluster, ScriptedLinks]:
    """Return a scripted cluster with a topic of two queues at each of two masters, which have the same handlers."""
    links = ScriptedLinks()
    links.serve("ns:1", GET_ROUTEINFO_BY_TOPIC=route_of(a={0: "a:1"}, b={0: "b:1"}))
    for address in ("a:1", "b:1"):
        links.serve(address, **handlers)
    return cluster_of(links), links


def statistics(broker_name: str, *numbers: int) -> Command:
    """Return a response with statistics of a broker's queues; the queue with id `number` holds `[-1, 10 + number)`."""
    bounds = {"minOffset": -1, "lastUpdateTimestamp": 0}
    table = {MessageQueue("T", broker_name, n): {**bounds, "maxOffset": 10 + n} for n in numbers}
    return answer(body={"offsetTable": table})


def test_bounds_of_all_queues_take_one_request_a_broker() -> None:
    """Bounds of all queues take one request per broker; a queue that never held a message begins at 0."""
    cluster, links = two_brokers()
    for name in ("a", "b"):
        links.serve(f"{name}:1", GET_TOPIC_STATS_INFO=statistics(name, 0, 1))
    queues = cluster.routes.route("T").readable
    bounds = cluster.offsets.fetch_bounds(queues)
    assert list(bounds) == list(queues) and bounds[A] == QueueBounds(0, 10) == bounds[B]
    assert links.bursts == [2]


def test_where_statistics_are_refused_each_queue_is_asked() -> None:
    """If a broker refuses its statistics, it gets two requests per queue, and the refusal is remembered."""
    cluster, links = two_brokers(
        GET_TOPIC_STATS_INFO=unsupported(), GET_MIN_OFFSET=answer(offset=3), GET_MAX_OFFSET=answer(offset=9)
    )
    for _ in range(2):
        assert cluster.offsets.fetch_bounds([A, B]) == {A: QueueBounds(3, 9), B: QueueBounds(3, 9)}
    assert len(links.asked("GET_TOPIC_STATS_INFO")) == 2 and links.bursts == [2, 4, 0, 4]


def test_a_queue_that_statistics_leave_out_is_asked_for_itself() -> None:
    """If a queue is missing from a broker's statistics, its bounds are fetched by requests of its own."""
    cluster, links = two_brokers(GET_MIN_OFFSET=answer(offset=0), GET_MAX_OFFSET=answer(offset=4))
    links.serve("a:1", GET_TOPIC_STATS_INFO=statistics("a", 1))
    assert cluster.offsets.fetch_bounds([A]) == {A: QueueBounds(0, 4)}


@pytest.mark.parametrize("wrong", [{"topic": "U"}, {"broker_name": "b"}, {"queue_id": 1}])
def test_statistics_of_another_queue_are_not_taken(wrong: dict[str, Any]) -> None:
    """Statistics count only for the queue that they name: another topic, broker or number makes them another queue."""
    cluster, links = two_brokers(GET_MIN_OFFSET=answer(offset=3), GET_MAX_OFFSET=answer(offset=9))
    table = {A._replace(**wrong): {"minOffset": 0, "maxOffset": 500, "lastUpdateTimestamp": 0}}
    links.serve("a:1", GET_TOPIC_STATS_INFO=answer(body={"offsetTable": table}))
    assert cluster.offsets.fetch_bounds([A]) == {A: QueueBounds(3, 9)}


@pytest.mark.parametrize("topic", ["T", "NS%T"])
def test_statistics_name_topics_as_the_cluster_does(topic: str) -> None:
    """With a namespace, statistics are matched by the topic's name in the cluster, however the user spells it."""
    links = ScriptedLinks()
    links.serve("ns:1", GET_ROUTEINFO_BY_TOPIC=route_of(a={0: "a:1"}))
    table = {A._replace(topic="NS%T"): {"minOffset": 2, "maxOffset": 7, "lastUpdateTimestamp": 0}}
    links.serve("a:1", GET_TOPIC_STATS_INFO=answer(body={"offsetTable": table}))
    queue = A._replace(topic=topic)
    bounds = cluster_of(links, namespace=Namespace("NS")).offsets.fetch_bounds([queue])
    assert bounds == {queue: QueueBounds(2, 7)} and not links.asked("GET_MAX_OFFSET")


def test_bounds_from_a_replica_say_so() -> None:
    """Bounds from a replica are marked as such, since the replica may lag behind its master."""
    links = ScriptedLinks()
    links.serve("ns:1", GET_ROUTEINFO_BY_TOPIC=route_of(a={1: "replica:1"}))
    links.serve("replica:1", GET_TOPIC_STATS_INFO=statistics("a", 0))
    assert cluster_of(links).offsets.fetch_bounds([A])[A].from_replica


def test_no_queues_ask_nobody() -> None:
    """If bounds of no queues are fetched, no request is sent, not even to a name server."""
    cluster, links = two_brokers()
    assert not cluster.offsets.fetch_bounds([]) and not cluster.offsets.fetch_committed("g", [])
    assert not links.calls


def test_only_committed_queues_have_a_position() -> None:
    """Requests forbid brokers to return 0 for a missing position, unless the caller wants 0, as Java's consumers do."""
    cluster, links = two_brokers()
    links.serve("a:1", QUERY_CONSUMER_OFFSET=answer(offset=5))
    links.serve("b:1", QUERY_CONSUMER_OFFSET=ABSENT)
    assert cluster.offsets.fetch_committed("g", [A, B]) == {A: 5}
    cluster.offsets.fetch_committed("g", [A], zero_if_young=True)
    asked = [fields.get("setZeroIfNotFound") for fields in links.asked("QUERY_CONSUMER_OFFSET")]
    assert asked == ["false", "false", None]


def test_a_replica_that_knows_no_position_proves_nothing() -> None:
    """If only a replica replies and has no position, an error is raised, since the master may have one."""
    links = ScriptedLinks()
    links.serve("ns:1", GET_ROUTEINFO_BY_TOPIC=route_of(a={1: "replica:1"}))
    links.serve("replica:1", QUERY_CONSUMER_OFFSET=ABSENT)
    offsets = cluster_of(links).offsets
    for fetch in (offsets.fetch_committed, offsets.fetch_reported_positions):
        with pytest.raises(NoBrokerAvailable, match="no master"):
            fetch("g", [A])
    links.serve("replica:1", QUERY_CONSUMER_OFFSET=answer(offset=5))
    assert offsets.fetch_committed("g", [A]) == {A: 5}


def test_a_standing_says_whose_word_it_is() -> None:
    """A reported position names the broker process that reports it, and whether it is a replica."""
    links = ScriptedLinks()
    links.serve("ns:1", GET_ROUTEINFO_BY_TOPIC=route_of(a={0: "a:1"}, b={1: "replica:1"}))
    for address in ("a:1", "replica:1"):
        links.serve(address, QUERY_CONSUMER_OFFSET=answer(offset=5))
    assert cluster_of(links).offsets.fetch_reported_positions("g", [A, B]) == {
        A: ReportedPosition(5, Address("a", 1)),
        B: ReportedPosition(5, Address("replica", 1), from_replica=True),
    }


@pytest.mark.parametrize(
    ("first", "is_silence"),
    [(raising(ConnectionLost("cut")), True), (answer(ResponseCode.SYSTEM_BUSY), False), (answer(offset=5), False)],
)
def test_a_standing_says_whether_there_was_silence(first: Server | Command, is_silence: bool) -> None:
    """A reported position has `after_silence` set if an earlier request got no response, but not after a refusal."""
    cluster, links = two_brokers()
    rest = iter([first])

    def serve(request: Command) -> Command:
        now = next(rest, answer(offset=5))
        return now if isinstance(now, Command) else now(request)

    links.serve("a:1", QUERY_CONSUMER_OFFSET=serve)
    links.serve("b:1", QUERY_CONSUMER_OFFSET=ABSENT)
    expected = ReportedPosition(5, Address("a", 1), after_silence=is_silence)
    assert cluster.offsets.fetch_reported_positions("g", [A, B]) == {A: expected}
    assert len(links.asked("QUERY_CONSUMER_OFFSET")) == 2 + (first != answer(offset=5))


def test_the_first_position_of_a_topic_is_stored_before_others_are_sent() -> None:
    """One position per topic and broker is committed before the others, since brokers may lose several first ones."""
    cluster, links = two_brokers(UPDATE_CONSUMER_OFFSET=answer())
    queues = [MessageQueue("T", name, number) for name in ("a", "b") for number in range(3)]
    cluster.offsets.commit("g", dict.fromkeys(queues, 7))
    hosts = [address.partition(":")[0] for address in links.addresses("UPDATE_CONSUMER_OFFSET")]
    queue_ids = [fields["queueId"] for fields in links.asked("UPDATE_CONSUMER_OFFSET")]
    committed = list(zip(hosts, queue_ids, strict=True))
    assert links.bursts == [2, 4] and committed[:2] == [("a", "0"), ("b", "0")]
    assert sorted(committed) == [(queue.broker_name, str(queue.queue_id)) for queue in queues]


def test_positions_are_committed_with_and_without_answer() -> None:
    """Commits with and without a response carry group and offset."""
    cluster, links = two_brokers(UPDATE_CONSUMER_OFFSET=answer())
    cluster.offsets.commit("g", {A: 7, B: 8})
    cluster.offsets.commit_oneway("g", {A: 9})
    commits = links.asked("UPDATE_CONSUMER_OFFSET")
    assert [(fields["consumerGroup"], fields["commitOffset"]) for fields in commits] == [
        ("g", "7"),
        ("g", "8"),
        ("g", "9"),
    ]


def test_empty_queues_have_no_earliest_time() -> None:
    """If a broker reports the earliest time -1, which means no message, the queue is left out."""
    cluster, links = two_brokers(GET_EARLIEST_MSG_STORETIME=answer(timestamp=-1))
    links.serve("a:1", GET_EARLIEST_MSG_STORETIME=answer(timestamp=77))
    assert cluster.offsets.fetch_earliest_times([A, B]) == {A: 77}


def offset_of(request: Command) -> int:
    """Return the offset that a pull requests."""
    return int((request.fields or {})["queueOffset"])


def stored_at(request: Command) -> Command:
    """Return a response with the message at the requested offset, stored at 100 times this offset in milliseconds."""
    host, offset = Address("127.0.0.1", 1), offset_of(request)
    record = Record(
        topic="T", queue_id=0, queue_offset=offset, physical_offset=0, born_timestamp=0, born_host=host,
        store_timestamp=100 * offset, store_host=host, body=b"x",
    )  # fmt: skip
    return answer(body=encode_record(record))


@pytest.mark.parametrize(("nearest", "first"), [(4, 5), (5, 5), (6, 5), (9, 5)])
def test_an_old_brokers_nearest_message_is_put_right(nearest: int, first: int) -> None:
    """If a broker before 5.1.1 reports a message near time 450, the first one at or after it is found by pulls."""
    cluster, links = two_brokers()
    links.serve("a:1", SEARCH_OFFSET_BY_TIMESTAMP=answer(offset=nearest, version=VERSION_4_9_7))
    links.serve("a:1", GET_TOPIC_STATS_INFO=statistics("a", 0))
    links.servers[Address("a", 1)][11] = stored_at
    assert cluster.offsets.fetch_first_since({A: 450}) == {A: first}


def test_a_replica_that_is_behind_does_not_move_a_time_to_the_end() -> None:
    """If a replica that lacks messages takes over during a search by time, the search raises an error."""
    links = ScriptedLinks()
    routes = [route_of(a={0: "a:1", 1: "replica:1"})]

    def die(request: Command) -> Command:
        routes[:] = [route_of(a={1: "replica:1"})]
        raise ConnectionLost("gone")

    def pull(request: Command) -> Command:
        return stored_at(request) if offset_of(request) < 3 else answer(ResponseCode.PULL_OFFSET_MOVED)

    bounds = bytes(statistics("a", 0).body).replace(b"10", b"3")
    links.serve("ns:1", GET_ROUTEINFO_BY_TOPIC=lambda call: routes[0])
    links.serve("a:1", GET_TOPIC_STATS_INFO=statistics("a", 0), PULL_MESSAGE=die)
    links.serve("a:1", SEARCH_OFFSET_BY_TIMESTAMP=answer(offset=4, version=VERSION_4_9_7))
    links.serve("replica:1", GET_TOPIC_STATS_INFO=answer(body=bounds), PULL_MESSAGE=pull)
    with pytest.raises(NoBrokerAvailable, match="ends at offset 3, but ended at 10") as raised:
        cluster_of(links).offsets.fetch_first_since({A: 450})
    assert raised.value.where["topic"] == "T"


def test_a_newer_brokers_answer_is_taken_as_it_is() -> None:
    """If the broker's own search by time is exact, no message is pulled."""
    cluster, links = two_brokers(SEARCH_OFFSET_BY_TIMESTAMP=answer(offset=5))
    assert cluster.offsets.fetch_first_since({A: 450, B: 450}) == {A: 5, B: 5}
    assert {fields["boundaryType"] for fields in links.asked("SEARCH_OFFSET_BY_TIMESTAMP")} == {"LOWER"}
    assert not links.asked("PULL_MESSAGE")


def test_replicas_are_not_told_positions() -> None:
    """If a broker has no master, a commit fails: a replica would lose the position when the master is back."""
    links = ScriptedLinks()
    links.serve("ns:1", GET_ROUTEINFO_BY_TOPIC=route_of(a={1: "a:2"}))
    links.serve("a:2", UPDATE_CONSUMER_OFFSET=answer())
    offsets = cluster_of(links).offsets
    for commit in (offsets.commit, offsets.commit_oneway):
        with pytest.raises(NoBrokerAvailable, match=r"no master.*broker a"):
            commit("g", {A: 7})
    assert not links.asked("UPDATE_CONSUMER_OFFSET")


# --- numbers that are no offsets -------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [10**30, 2**63, -2])
@pytest.mark.parametrize("name", ["minOffset", "maxOffset"])
def test_statistics_that_hold_no_offsets_are_refused(name: str, number: int) -> None:
    """If statistics hold a number that is no offset, the error names the field."""
    cluster, links = two_brokers()
    table = {A: {"minOffset": 0, "maxOffset": 5, "lastUpdateTimestamp": 0, name: number}}
    links.serve("a:1", GET_TOPIC_STATS_INFO=answer(body={"offsetTable": table}))
    with pytest.raises(MalformedFrame, match=f"{name}.*{number}.*topic T, broker a"):
        cluster.offsets.fetch_bounds([A])


@pytest.mark.parametrize("number", [10**30, 2**63, -2])
def test_answers_that_hold_no_offset_are_refused(number: int) -> None:
    """If a reply holds a number that is no offset, every kind of request raises an error."""
    cluster, _ = two_brokers(
        GET_MIN_OFFSET=answer(offset=number),
        GET_MAX_OFFSET=answer(offset=number),
        SEARCH_OFFSET_BY_TIMESTAMP=answer(offset=number),
        QUERY_CONSUMER_OFFSET=answer(offset=number),
    )
    ask = cluster.offsets
    for question in (
        lambda: ask.fetch_min([A]),
        lambda: ask.fetch_max([A]),
        lambda: ask.search({A: 0}),
        lambda: ask.fetch_committed("g", [A]),
        lambda: ask.fetch_reported_positions("g", [A]),
    ):
        with pytest.raises(MalformedFrame, match=f"offset.*{number}.*topic T, broker a"):
            question()


def test_a_group_stands_nowhere_before_0() -> None:
    """If a broker reports -1 as a group's position, an error is raised: only a bound of an empty queue may be -1."""
    cluster, _ = two_brokers(QUERY_CONSUMER_OFFSET=answer(offset=-1), GET_MIN_OFFSET=answer(offset=-1))
    assert cluster.offsets.fetch_min([A]) == {A: -1}
    with pytest.raises(MalformedFrame, match="offset is -1, which is not an offset"):
        cluster.offsets.fetch_committed("g", [A])
