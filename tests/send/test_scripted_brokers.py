"""Brokers that follow a script: statuses, damaged responses, and masters that move."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import pytest

from pyspark_rocketmq.broker_errors import FlushDiskTimeout
from pyspark_rocketmq.errors import ConnectError, ConnectionLost, MalformedFrame, TopicNotFound
from pyspark_rocketmq.model import Address
from pyspark_rocketmq.net.pool import pool_for
from pyspark_rocketmq.net.settings import NetSettings
from pyspark_rocketmq.send.outcome import Outcome
from pyspark_rocketmq.send.pipeline import SendPipeline
from pyspark_rocketmq.send.settings import SendSettings
from pyspark_rocketmq.wire.codes import ResponseCode
from pyspark_rocketmq.wire.header import RESPONSE_FLAG, Command, encode_command
from tests.cluster.scripted import ScriptedLinks, cluster_of, route_of
from tests.net.fixtures import Peer, StartPeer, Talk
from tests.send.fixtures import number_of, place, single

Answer = Callable[[int, Command], Command | None]


def answering(answer: Answer) -> Callable[[Talk], None]:
    """Return a script that answers each request, counted from 0, with what `answer` returns; None ends the stream."""
    count = iter(range(10**6))

    def script(talk: Talk) -> None:
        while response := answer(next(count), request := talk.read()):
            response.opaque, response.flag = request.opaque, RESPONSE_FLAG
            talk.sock.sendall(encode_command(response))

    return script


def stored(offset: int = 5, code: int = 0, **more: str) -> Command:
    """Return the response to a send that was stored."""
    return Command(code, fields={"msgId": "AB", "queueId": "0", "queueOffset": str(offset), **more})


class Script:
    """A pipeline whose only broker follows a script."""

    def __init__(self, peer: Peer, **settings: object) -> None:
        self.links = ScriptedLinks()
        self.lead_to(peer)
        self.cluster = cluster_of(self.links)
        given = SendSettings(**{"producer_group": "g", **settings})  # type: ignore[arg-type]
        self.pipeline = SendPipeline(self.cluster, given, self.cluster.writable.queues)

    def lead_to(self, peer: Peer) -> None:
        """Let the name server name this peer as the master."""
        self.links.serve("ns:1", GET_ROUTEINFO_BY_TOPIC=route_of(**{"broker-a": {0: str(peer.address)}}))

    def send(self, *numbers: int) -> list[Outcome]:
        """Send requests of these numbers to queue 0 and return their outcomes."""
        for number in numbers:
            self.pipeline.submit(single(number, place(0)))
        self.pipeline.flush()
        return self.pipeline.take_outcomes()


@pytest.fixture
def make_script(start_peer: StartPeer) -> Iterator[Callable[..., Script]]:
    """Yield a function that starts a peer with these answers, and a pipeline to it."""
    made: list[Script] = []

    def make(answer: Answer, **settings: object) -> Script:
        made.append(Script(start_peer(answering(answer)), **settings))
        return made[-1]

    yield make
    for script in made:
        script.pipeline.close()
        pool_for(script.cluster.settings.net).close_all()


MakeScript = Callable[..., Script]


def test_a_status_that_is_not_accepted_is_an_error_with_a_receipt(make_script: MakeScript) -> None:
    """The master holds the request, which is not sent again; the outcome has the receipt, and advice on the option."""
    script = make_script(lambda number, _: stored(number, code=ResponseCode.FLUSH_DISK_TIMEOUT))
    [outcome] = script.send(0)

    assert outcome.receipt and not outcome.is_unknown
    assert (outcome.receipt.status, outcome.receipt.queue_offset) == (ResponseCode.FLUSH_DISK_TIMEOUT, 0)
    assert isinstance(outcome.error, FlushDiskTimeout) and outcome.error.where["broker"] == "broker-a"
    assert "the master has stored it" in str(outcome.error) and "acceptSendStatus" in str(outcome.error)
    assert script.pipeline.statistics.failed_rows == 1


def test_a_status_that_is_accepted_is_no_error(make_script: MakeScript) -> None:
    """With the status accepted, the request counts as sent."""
    accepted = frozenset({ResponseCode.SUCCESS, ResponseCode.FLUSH_SLAVE_TIMEOUT})
    script = make_script(lambda *_: stored(code=ResponseCode.FLUSH_SLAVE_TIMEOUT), accepted_statuses=accepted)
    [outcome] = script.send(0)

    assert outcome.error is None and outcome.receipt and outcome.receipt.status is ResponseCode.FLUSH_SLAVE_TIMEOUT


def test_success_without_a_receipt_may_be_stored(make_script: MakeScript) -> None:
    """A response of success without an offset is no receipt: the request is sent again, and its end is unknown."""
    script = make_script(lambda *_: Command(0, fields={"queueId": "0"}), retries=1)
    [outcome] = script.send(0)

    assert isinstance(outcome.error, MalformedFrame) and outcome.is_unknown and "(2 attempts)" in str(outcome.error)


@pytest.mark.parametrize("fields", [{"queueId": "3"}, {"queueOffset": "-1"}])
@pytest.mark.parametrize("more", [{}, {"recallHandle": "A"}])
def test_a_receipt_for_another_place_is_none(
    make_script: MakeScript, fields: dict[str, str], more: dict[str, str]
) -> None:
    """A response that names another queue than the request, or no offset, is no receipt: the end is unknown."""
    script = make_script(lambda *_: Command(0, fields={**(stored().fields or {}), **fields, **more}), retries=0)
    [outcome] = script.send(0)

    assert isinstance(outcome.error, MalformedFrame) and outcome.is_unknown and outcome.receipt is None
    assert "queue 0" in str(outcome.error)


def test_a_receipt_for_fewer_messages_is_none(make_script: MakeScript) -> None:
    """A batch of three rows whose receipt has two message ids has not landed; brokers return one for each message."""
    ids = iter(["A,B", "A,B,C"])
    script = make_script(lambda *_: Command(0, fields={**(stored().fields or {}), "msgId": next(ids)}), retries=0)
    for _ in range(2):
        script.pipeline.submit(single(0, place(0))._replace(is_batch=True, rows=[0, 1, 2]))
        script.pipeline.flush()
    short, whole = script.pipeline.take_outcomes()

    assert isinstance(short.error, MalformedFrame) and short.is_unknown and "2 message ids for 3" in str(short.error)
    assert whole.error is None


@pytest.mark.parametrize("code", [ResponseCode.FLUSH_DISK_TIMEOUT, None])
def test_a_failure_of_any_kind_ends_the_sends_behind_it(make_script: MakeScript, code: int | None) -> None:
    """With order kept, a status that is not accepted and a lost connection end the sends behind theirs unsent."""
    seen = list[bytes]()

    def answer(_: int, request: Command) -> Command | None:
        seen.append(bytes(request.body))
        return stored(code=code) if code is not None else None

    outcomes = make_script(answer, retries=0, keeps_order=True).send(*range(5))

    assert seen == [b"0"] and [number_of(outcome) for outcome in outcomes if outcome.error] == [0, 1, 2, 3, 4]


def test_a_connection_that_ends_leaves_the_end_unknown(make_script: MakeScript) -> None:
    """If the connection ends instead of the response to the last attempt, the request may be stored."""
    [outcome] = make_script(lambda *_: None, retries=0).send(0)
    assert isinstance(outcome.error, ConnectionLost) and outcome.is_unknown


def test_answers_in_another_order_reach_their_requests(make_script: MakeScript) -> None:
    """Receipts are matched by opaque, not by the order of the responses."""
    script = make_script(lambda _, request: stored(offset=int(bytes(request.body))))
    outcomes = script.send(*range(40))

    assert [outcome.receipt.queue_offset for outcome in outcomes if outcome.receipt] == list(range(40))
    assert all(outcome.request.rows == [number] for number, outcome in enumerate(outcomes))


def test_a_master_at_a_new_address_is_found(make_script: MakeScript, start_peer: StartPeer) -> None:
    """When the connection to a master ends and the route names another address, requests go there, unlost."""
    new = start_peer(answering(lambda *_: stored(7)))
    moved = threading.Event()

    def answer(number: int, _: Command) -> Command | None:
        if number < 3:
            return stored(number)
        script.lead_to(new)
        moved.set()
        return None

    script = make_script(answer)
    offsets = [outcome.receipt.queue_offset for outcome in script.send(*range(6)) if outcome.receipt]

    assert moved.is_set() and len(offsets) == 6 and set(offsets) <= {0, 1, 2, 7} and offsets.count(7) >= 3


def test_a_name_server_that_forgets_a_topic_for_a_moment(make_script: MakeScript, start_peer: StartPeer) -> None:
    """A name server that was just started does not know all topics: sends to a topic that had a route wait for it."""
    new = start_peer(answering(lambda *_: stored(7)))
    asked = iter(range(10**6))
    absent = Command(ResponseCode.TOPIC_NOT_EXIST, remark="No topic route info in name server")

    def route(_: Command) -> Command:
        return absent if next(asked) < 4 else route_of(**{"broker-a": {0: str(new.address)}})

    def answer(number: int, _: Command) -> Command | None:
        if number < 3:
            return stored(number)
        script.links.serve("ns:1", GET_ROUTEINFO_BY_TOPIC=route)
        return None

    script = make_script(answer, retries=1)
    outcomes = script.send(*range(6))

    assert next(asked) > 4 and [outcome.error for outcome in outcomes] == [None] * 6


def test_a_topic_that_no_name_server_knows_is_refused_at_once(make_script: MakeScript) -> None:
    """A topic that never had a route is not waited for."""
    script = make_script(lambda *_: stored())
    absent = Command(ResponseCode.TOPIC_NOT_EXIST, remark="No topic route info in name server")
    script.links.serve("ns:1", GET_ROUTEINFO_BY_TOPIC=absent)
    begun = time.monotonic()
    [outcome] = script.send(0)

    assert isinstance(outcome.error, TopicNotFound) and not outcome.is_unknown and time.monotonic() - begun < 2.0


def test_a_broker_that_cannot_be_connected_takes_little_time_from_others(deaf: Address, start_peer: StartPeer) -> None:
    """While connecting to one broker takes its whole timeout each time, the other one gets four fifths of the time."""
    peer = start_peer(answering(lambda *_: stored()))
    links = ScriptedLinks()
    masters = {"broker-a": {0: str(deaf)}, "broker-b": {0: str(peer.address)}}
    links.serve("ns:1", GET_ROUTEINFO_BY_TOPIC=route_of(**masters))
    cluster = cluster_of(links, net=NetSettings(connect_timeout_s=0.2))
    settings = SendSettings(producer_group="g", deadline_s=1.5)
    pipeline = SendPipeline(cluster, settings, cluster.writable.queues)
    begun = time.monotonic()
    for number in range(100):
        pipeline.submit(single(number, place(0, "ab"[number % 2])))
    landed = 0
    while landed < 50:
        landed += sum(outcome.error is None for outcome in pipeline.take_outcomes())
        assert time.monotonic() - begun < 1.0
    pipeline.flush()
    errors = {type(outcome.error) for outcome in pipeline.take_outcomes()}
    pipeline.close()

    assert errors == {ConnectError} and pipeline.statistics.connecting_s < 0.7
