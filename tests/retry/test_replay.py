"""Dead letters are sent back to where they came from: each at least once, under its id, and none without a record."""

from __future__ import annotations

import errno
import json
import random
import resource
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from broker_stub import Settings, StubCluster
from pyspark_rocketmq import retry
from pyspark_rocketmq.client import Message, Producer, ProducerSettings
from pyspark_rocketmq.client.audit_file import AuditFile, History
from pyspark_rocketmq.client.letters import LetterFilter
from pyspark_rocketmq.client.replay import ReplayReport, ReplaySettings, replay_letters
from pyspark_rocketmq.cluster.cluster import Cluster, open_cluster
from pyspark_rocketmq.cluster.names import Namespace
from pyspark_rocketmq.cluster.settings import ClusterSettings
from pyspark_rocketmq.errors import (
    BrokerError,
    NoBrokerAvailable,
    OptionError,
    RocketMQError,
    TopicNotFound,
    TransportError,
)
from pyspark_rocketmq.model import dead_letter_topic, parse_addresses
from pyspark_rocketmq.net.settings import NetSettings
from pyspark_rocketmq.wire.bodies import TopicConfig
from pyspark_rocketmq.wire.codes import RequestCode, ResponseCode
from pyspark_rocketmq.wire.record import Record
from tests.cli.fixtures import PROGRAM, ROOT, SECONDS, environment
from tests.flows.world import until

TOPIC, OTHER, GROUP, OWN = "orders", "refunds", "billing", "rejected"
DEAD = dead_letter_topic(GROUP)
SEND = RequestCode.SEND_MESSAGE_V2
COMPLAINTS: list[str] = []
WRITE = AuditFile.write


@pytest.fixture
def stub() -> Iterator[StubCluster]:
    """A stub with one broker and two topics."""
    with StubCluster(1, topics={TOPIC: 2, OTHER: 1}) as made:
        yield made


@pytest.fixture
def audit(tmp_path: Path) -> Path:
    """The path of an audit file that does not exist."""
    return tmp_path / "replays" / "audit.jsonl"


def cluster_of(stub: StubCluster, timeout_s: float = 3.0, namespace: str = "") -> Cluster:
    """Return a cluster that talks to a stub."""
    net, space = NetSettings(request_timeout_s=timeout_s), Namespace(namespace)
    return open_cluster(ClusterSettings(parse_addresses(stub.name_server), net=net, retries=0, namespace=space))


def bury(stub: StubCluster, *bodies: str, topic: str = TOPIC, **properties: str) -> list[str]:
    """Store messages and send them back as dead letters, as a consumer does; return their ids."""
    cluster, ids = cluster_of(stub), []
    for body in bodies:
        put = stub.put(topic, body.encode(), tags="t", keys=f"key-{body}", properties=properties)
        [record] = [each for each in stub.messages(topic, put.queue.queue_id) if each.queue_offset == put.offset]
        cluster.messages.send_back(GROUP, put.queue, record.physical_offset, delay_level=-1)
        ids.append(record.properties["UNIQ_KEY"])
    return ids


def reject(stub: StubCluster, body: str, cause: str, topic: str = TOPIC, store_timestamp: int | None = None) -> None:
    """Store a dead letter as Spark's tasks write it."""
    properties = {"CAUSE": cause, "ORIGIN_TOPIC": topic, "colour": "red"}
    stub.put(OWN, body.encode(), properties=properties, queue_id=0, store_timestamp=store_timestamp)


def revived(stub: StubCluster, topic: str = TOPIC, after: int = 0) -> list[Record]:
    """Return the messages of a topic, without the first ones, in the order in which they were stored."""
    return sorted(stub.messages(topic), key=lambda each: each.physical_offset)[after:]


def replay(stub: StubCluster, audit: Path, topic: str = DEAD, **more: Any) -> ReplayReport:
    """Replay letters, and keep the complaints."""
    COMPLAINTS.clear()
    told, apply = more.pop("told", lambda report: None), more.pop("apply", True)
    cluster = cluster_of(stub, more.pop("timeout_s", 3.0), more.pop("namespace", ""))
    settings = ReplaySettings(topic=topic, **more)
    return replay_letters(cluster, settings, audit, apply=apply, told=told, warn=COMPLAINTS.append)


def once_begun(act: Callable[[], None]) -> Callable[[ReplayReport], None]:
    """Return a callback for `told` that acts each time after the first letters."""
    return lambda report: act() if report.sent_count + report.sent_before else None


def lines(audit: Path, event: str) -> list[Any]:
    """Return the lines of one event in an audit file."""
    return [entry for entry in map(json.loads, audit.read_text().splitlines()) if entry["event"] == event]


# --- what is sent ----------------------------------------------------------------------------------------------------


def test_letters_return_to_their_topics_as_they_were(stub: StubCluster, audit: Path) -> None:
    """A letter has the id, body, tags, keys and properties of its message, and nothing of its failure."""
    [first] = bury(stub, "a", colour="red", CAUSE="mine", __SHARDINGKEY="k")
    [second] = bury(stub, "b", topic=OTHER)

    report = replay(stub, audit)

    [again], [other] = revived(stub, after=1), revived(stub, OTHER, after=1)
    assert (again.body, other.body, again.reconsume_times) == (b"a", b"b", 0)
    assert [each.properties["UNIQ_KEY"] for each in (again, other)] == [first, second]
    told = {"TAGS": "t", "KEYS": "key-a", "colour": "red", "CAUSE": "mine", "__SHARDINGKEY": "k"}
    assert told.items() <= again.properties.items()
    assert not {"RETRY_TOPIC", "ORIGIN_MESSAGE_ID", "DELAY"} & set(again.properties)
    assert report.sent == {TOPIC: 1, OTHER: 1}
    assert len(stub.messages(DEAD)) == 2


@pytest.mark.parametrize("origin", [TOPIC, f"%RETRY%{GROUP}_{TOPIC}", f"%RETRY%{GROUP}+{TOPIC}"])
def test_origins_are_read_as_brokers_write_them(stub: StubCluster, audit: Path, origin: str) -> None:
    """A letter of a consumer that pops names a retry topic, in whose name the origin stands."""
    stub.put(DEAD, b"a", properties={"RETRY_TOPIC": origin}, queue_id=0)
    stub.put(DEAD, b"b", properties={"DLQ_ORIGIN_TOPIC": TOPIC}, queue_id=0)

    assert replay(stub, audit).sent == {TOPIC: 2}


def test_letters_of_tasks_lose_their_cause(stub: StubCluster, audit: Path) -> None:
    """A letter that a Spark task wrote goes to its ORIGIN_TOPIC, without the properties that the task added."""
    reject(stub, "a", "no order id")

    report = replay(stub, audit, OWN)

    [again] = revived(stub)
    assert (again.body, again.properties["colour"]) == (b"a", "red")
    assert not {"CAUSE", "ORIGIN_TOPIC"} & set(again.properties)
    assert again.properties["UNIQ_KEY"] == stub.messages(OWN)[0].properties["UNIQ_KEY"]
    assert report.sent == {TOPIC: 1}


def test_properties_that_a_producer_may_not_send_are_sent_again(stub: StubCluster, audit: Path) -> None:
    """A broker has stored them, from a producer that checks less."""
    stub.put(DEAD, b"a", tags=" ", properties={"blank": " ", "RETRY_TOPIC": TOPIC}, queue_id=0)

    assert replay(stub, audit).sent == {TOPIC: 1}
    [again] = revived(stub)
    assert (again.properties["blank"], again.properties["TAGS"]) == (" ", " ")


def test_compressed_bodies_stay_compressed(stub: StubCluster, audit: Path) -> None:
    """A compressed body is sent as it is stored, with the flag that says so."""
    stub.put(OWN, b"the first makes the topic")
    with Producer(stub.name_server, ProducerSettings(group="g", compress_over_bytes=100)) as producer:
        producer.send(Message(OWN, b"much " * 1000, properties={"ORIGIN_TOPIC": TOPIC}))

    replay(stub, audit, OWN)

    [again] = revived(stub)
    assert (len(again.body) < 1000, again.unpacked_body()) == (True, b"much " * 1000)


def test_a_namespace_gives_topics_no_second_name(audit: Path) -> None:
    """Letters of a namespace do not return to their own topic under its other name, and share no file with others."""
    with StubCluster(1, topics={TOPIC: 1, f"NS%{OWN}": 1, f"NS%{TOPIC}": 1}) as stub:
        for origin in (OWN, f"NS%{OWN}", "SCHEDULE_TOPIC_XXXX", f"NS%{TOPIC}"):
            stub.put(f"NS%{OWN}", b"x", properties={"CAUSE": "c", "ORIGIN_TOPIC": origin})

        report = replay(stub, audit, f"NS%{OWN}", namespace="NS")

        assert (report.topic, report.sent, report.failed_count) == (OWN, {TOPIC: 1}, 3)
        assert len(stub.messages(f"NS%{TOPIC}")) == 1 and not stub.messages(TOPIC)
        with pytest.raises(OptionError, match="namespace"):
            replay(stub, audit, OWN)


def test_letters_go_to_a_topic_of_choice(stub: StubCluster, audit: Path) -> None:
    """With `to`, letters without an origin and with one go to that topic."""
    bury(stub, "a")
    stub.put(DEAD, b"b", queue_id=0)

    report = replay(stub, audit, to=OTHER)

    assert sorted(each.body for each in revived(stub, OTHER)) == [b"a", b"b"]
    assert report.sent == {OTHER: 2}


def test_nothing_happens_without_apply(stub: StubCluster, audit: Path) -> None:
    """Without `apply` the report says what would be done; nothing is sent, and no file is made."""
    bury(stub, "a", "b")
    stub.put(DEAD, b"c", queue_id=0)

    report = replay(stub, audit, apply=False)

    assert (report.applied, report.sent, report.failed_count) == (False, {TOPIC: 2}, 1)
    assert len(stub.messages(TOPIC)) == 2
    assert not audit.exists()


def test_letters_are_chosen_by_queue_cause_and_time(stub: StubCluster, audit: Path) -> None:
    """The filter leaves out other queues, causes and times, and counts what it leaves out."""
    for number, cause in enumerate(["Timeout of A", "no id", "timeout of B", "timeout of C"]):
        reject(stub, str(number), cause, store_timestamp=1000 * number)
    stub.put(OWN, b"other queue", properties={"CAUSE": "timeout", "ORIGIN_TOPIC": TOPIC}, queue_id=1)
    wanted = LetterFilter(queue="broker-a/0", cause="TIMEOUT", since_ms=0, until_ms=3000)

    report = replay(stub, audit, OWN, wanted=wanted)

    assert [each.body for each in revived(stub)] == [b"0", b"2"]
    assert (report.sent_count, report.unwanted) == (2, 2)


def test_the_rate_is_kept(stub: StubCluster, audit: Path) -> None:
    """With a rate, letters leave no faster."""
    bury(stub, *map(str, range(15)))
    begun = time.monotonic()

    replay(stub, audit, rate=50)

    assert time.monotonic() - begun >= (15 - 1) / 50 - 0.1
    assert len(revived(stub, after=15)) == 15


def test_a_rate_may_be_as_low_as_one_likes(stub: StubCluster, audit: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wait between two letters that no clock can measure is cut into shorter ones."""

    def sleep(seconds: float) -> None:
        assert seconds < 1e6
        raise KeyboardInterrupt

    bury(stub, "a", "b")
    monkeypatch.setattr("pyspark_rocketmq.send.pipeline.time.sleep", sleep)
    with pytest.raises(KeyboardInterrupt):
        replay(stub, audit, rate=1e-300)

    assert len(lines(audit, "landed")) == 1


# --- going on --------------------------------------------------------------------------------------------------------


def test_a_letter_that_has_landed_is_not_sent_again(stub: StubCluster, audit: Path) -> None:
    """A second run with the same file sends only letters that are new."""
    bury(stub, "a", "b")
    replay(stub, audit)
    bury(stub, "c")

    report = replay(stub, audit)

    assert (report.sent_count, report.sent_before) == (1, 2)
    assert [each.body for each in revived(stub)] == [b"a", b"b", b"a", b"b", b"c", b"c"]


def test_every_letter_has_its_place_id_target_and_landing(stub: StubCluster, audit: Path) -> None:
    """The file says of each letter where it lies, which id it has, and where and when it landed."""
    [name] = bury(stub, "a")
    replay(stub, audit)

    [record] = revived(stub, after=1)
    [intended], [landed] = lines(audit, "intended"), lines(audit, "landed")
    place = {"broker": "broker-a", "queueId": 0, "offset": 0, "id": name, "target": TOPIC}
    assert place.items() <= intended.items() and place.items() <= landed.items()
    assert landed["landed"] == {"broker": "broker-a", "queueId": record.queue_id, "offset": record.queue_offset}
    assert intended["at"] <= landed["at"]
    assert audit.stat().st_mode & 0o777 == 0o600


def test_a_file_that_is_cut_anywhere_leads_on(stub: StubCluster, audit: Path) -> None:
    """If any part of the file's end is lost, the next run sends what is not recorded as landed, and no more."""
    bury(stub, "a", "b", "c")
    replay(stub, audit)
    whole = audit.read_bytes()
    for end in range(0, len(whole), 41):
        audit.write_bytes(whole[:end])
        before = len(stub.messages(TOPIC))
        kept = whole[:end].count(b'"event": "landed"') - (b'"landed"' in whole[:end].rpartition(b"\n")[2])
        report = replay(stub, audit)
        assert (report.sent_before, report.sent_count) == (kept, 3 - kept)
        assert len(stub.messages(TOPIC)) - before == 3 - kept
        assert len({each["offset"] for each in lines(audit, "landed")}) == 3


def test_a_repetition_has_the_same_id(stub: StubCluster, audit: Path) -> None:
    """If the response to a send is lost for good, the next run sends the letter again under the same id."""
    [name] = bury(stub, "a")
    stub.faults.drop_reply(on=SEND, times=None)
    with pytest.raises(TransportError):
        replay(stub, audit, timeout_s=0.3)
    stub.faults.clear()

    replay(stub, audit)

    ids = [each.properties["UNIQ_KEY"] for each in revived(stub, after=1)]
    assert len(ids) > 1 and set(ids) == {name}
    [failed] = lines(audit, "failed")
    assert failed["mayBeStored"] and failed["id"] == name


@pytest.mark.parametrize("kills", [3, pytest.param(10, marks=pytest.mark.slow)])
def test_a_replay_that_is_killed_goes_on(stub: StubCluster, audit: Path, kills: int) -> None:
    """Killed at random moments and begun again, it sends each letter, repeats it under its id, and records all."""
    chance = random.Random(kills)
    ids = bury(stub, *map(str, range(30 * kills)))
    before = len(ids)
    stub.faults.delay(30, on=SEND, times=None)
    for _ in range(kills):
        goal = len(stub.messages(TOPIC)) + chance.randrange(1, 25)
        process = begin_replay(stub, audit)
        until(lambda goal=goal: len(stub.messages(TOPIC)) >= goal, "letters arrive")  # type: ignore[misc]
        time.sleep(chance.random() / 10)
        process.kill()
        process.communicate(timeout=SECONDS)
    last = begin_replay(stub, audit)
    last.communicate(timeout=SECONDS)

    stored = {(each.queue_id, each.queue_offset): each for each in revived(stub, after=before)}
    found = Counter(each.properties["UNIQ_KEY"] for each in stored.values())
    landed = {each["offset"]: each for each in lines(audit, "landed")}
    assert last.returncode == 0
    assert set(found) == set(ids)
    assert sorted(landed) == list(range(len(ids)))
    for each in landed.values():
        record = stored[each["landed"]["queueId"], each["landed"]["offset"]]
        assert record.properties["UNIQ_KEY"] == each["id"] == ids[each["offset"]]
        assert record.body == str(each["offset"]).encode()
    assert len(stub.messages(DEAD)) == len(ids)


def begin_replay(stub: StubCluster, audit: Path, *before: str) -> subprocess.Popen[str]:
    """Begin a replay in a process of its own, by a command that gets its words behind its own."""
    words = ["dlq", "replay", GROUP, "--apply", "--audit", str(audit), "--rate", "60"]
    return subprocess.Popen(
        [*before, *PROGRAM, *words],
        cwd=ROOT,
        env=environment(stub),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_an_interrupted_replay_records_what_is_in_flight(stub: StubCluster, audit: Path) -> None:
    """Ctrl-C waits for the sends in flight, says how to go on, and leaves no letter that landed without a record."""
    ids = bury(stub, *map(str, range(60)))
    stub.faults.delay(30, on=SEND, times=None)
    process = begin_replay(stub, audit)
    until(lambda: len(stub.messages(TOPIC)) > 70, "letters arrive")
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=SECONDS)

    assert process.returncode == 130
    assert "go on with: pyspark-rocketmq dlq replay %DLQ%billing --apply" in said and str(audit) in said
    assert len(lines(audit, "landed")) == len(stub.messages(TOPIC)) - len(ids) < len(ids)


def test_a_replay_in_the_background_ignores_an_interrupt(stub: StubCluster, audit: Path) -> None:
    """A shell that begins it in the background has it ignore Ctrl-C, which is meant for another command."""
    bury(stub, *map(str, range(60)))
    process = begin_replay(stub, audit, "sh", "-c", "trap '' INT; exec \"$@\"", "sh")
    until(lambda: len(stub.messages(TOPIC)) > 65, "letters arrive")
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=SECONDS)

    assert (process.returncode, len(lines(audit, "landed"))) == (0, 60)


def test_a_replay_that_is_interrupted_first_sends_nothing(stub: StubCluster, audit: Path) -> None:
    """If it is interrupted while the first letters are read, none of them is sent."""
    bury(stub, "a", "b")
    calls = Counter[str]()

    def stop(report: ReplayReport) -> None:
        calls["told"] += 1
        if calls["told"] == 2:  # The first call comes before the letters are read.
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        replay(stub, audit, told=stop)

    assert (lines(audit, "intended"), len(stub.messages(TOPIC))) == ([], 2)


# --- what cannot be sent ---------------------------------------------------------------------------------------------


def test_what_cannot_be_sent_is_named_and_tried_again(stub: StubCluster, audit: Path) -> None:
    """Letters of no origin, of a missing topic, and that a broker refuses are failures by name; others are sent."""
    stub.put(DEAD, b"no origin", queue_id=0)
    stub.put(DEAD, b"to itself", properties={"RETRY_TOPIC": "%RETRY%billing"}, queue_id=0)
    stub.put(DEAD, b"nowhere", properties={"RETRY_TOPIC": "deleted"}, queue_id=0)
    bury(stub, "refused", "sent")
    stub.faults.answer(ResponseCode.MESSAGE_ILLEGAL, on=SEND)

    report = replay(stub, audit)
    with pytest.raises(TopicNotFound):
        cluster_of(stub).routes.route("deleted")
    stub.put("deleted", b"it is back")
    second = replay(stub, audit)

    assert (report.sent_count, report.failed_count) == (1, 4)
    assert [(each.place.offset, each.error.code) for each in report.failed] == [
        (0, "DECODE"),
        (1, "DECODE"),
        (2, "TOPIC_NOT_FOUND"),
        (3, "BROKER_MESSAGE_ILLEGAL"),
    ]
    assert [each["offset"] for each in lines(audit, "failed")][:4] == [0, 1, 2, 3]
    assert (second.sent_count, second.sent_before, second.failed_count) == (2, 1, 2)
    assert [each.body for each in revived(stub, "deleted", after=1)] == [b"nowhere"]


def test_a_topic_with_a_broken_route_stops_no_others(audit: Path) -> None:
    """If one target's route cannot be understood, its letters fail by name, and those of other targets are sent."""
    with StubCluster(1, topics={TOPIC: 1, OTHER: 1}, settings=Settings(order_topics=True)) as stub:
        stub.put(DEAD, b"a", properties={"RETRY_TOPIC": OTHER}, queue_id=0)
        stub.put(DEAD, b"b", properties={"RETRY_TOPIC": TOPIC}, queue_id=0)
        stub.run(lambda: stub.state.values.update({"ORDER_TOPIC_CONFIG": {OTHER: "broken"}}))

        report = replay(stub, audit)

        assert (report.sent, [each.error.code for each in report.failed]) == ({TOPIC: 1}, ["MALFORMED_FRAME"])


@pytest.mark.parametrize(
    ("code", "remark"),
    [
        (ResponseCode.SYSTEM_ERROR, "[REJECTREQUEST]system busy, start flow control for a while"),
        (ResponseCode.SERVICE_NOT_AVAILABLE, "the broker's disk is full"),
    ],
)
def test_a_broker_that_takes_nothing_ends_the_replay(stub: StubCluster, audit: Path, code: int, remark: str) -> None:
    """If a broker takes no messages now, the replay ends, and does not try all letters in vain."""
    for number in range(70):
        stub.put(DEAD, b"%d" % number, properties={"RETRY_TOPIC": TOPIC}, queue_id=0)
    stub.faults.answer(code, remark, on=SEND, times=None)

    with pytest.raises(BrokerError):
        replay(stub, audit, timeout_s=0.1)

    assert len(lines(audit, "failed")) == 64
    stub.faults.clear()
    assert replay(stub, audit).sent_count == 70


def test_a_status_of_doubt_ends_the_replay(stub: StubCluster, audit: Path) -> None:
    """If the broker's replica is away, few letters are sent that the next run repeats, and the advice fits."""
    for number in range(70):
        stub.put(DEAD, b"%d" % number, properties={"RETRY_TOPIC": TOPIC}, queue_id=0)
    stub.faults.status(ResponseCode.SLAVE_NOT_AVAILABLE, on=SEND, times=None)

    with pytest.raises(BrokerError) as raised:
        replay(stub, audit)

    assert len(stub.messages(TOPIC)) == 64
    assert all(each["mayBeStored"] for each in lines(audit, "failed"))
    assert "the next run sends the letter again" in raised.value.advice


def test_a_broker_that_is_away_ends_the_replay(audit: Path) -> None:
    """If the target's broker cannot be reached, the replay ends with the error, and the next one sends the rest."""
    with StubCluster(2, topics={}) as stub:
        stub.put(TOPIC, b"first", broker="broker-b")
        stub.put(DEAD, b"a", properties={"RETRY_TOPIC": TOPIC}, broker="broker-a")
        stub.faults.refuse("broker-b")
        with pytest.raises(RocketMQError):
            replay(stub, audit, timeout_s=0.2)
        stub.faults.broker_up("broker-b")
        report = replay(stub, audit)

        assert report.sent_count == 1 and [each.body for each in revived(stub)] == [b"first", b"a"]


@pytest.mark.slow
def test_letters_of_a_broker_that_goes_away_are_not_gone(audit: Path) -> None:
    """If the letters' broker goes away while it is read, the replay ends; the next one sends the rest."""
    with StubCluster(2, topics={}) as stub:
        stub.put(TOPIC, b"first", broker="broker-b")
        for number in range(100):
            stub.put(DEAD, b"%d" % number, properties={"RETRY_TOPIC": TOPIC}, broker="broker-a", queue_id=0)
        stub.put(DEAD, b"another", properties={"RETRY_TOPIC": TOPIC}, broker="broker-b")
        with pytest.raises(RocketMQError):
            replay(stub, audit, told=once_begun(lambda: stub.faults.broker_down("broker-a")), timeout_s=0.3)
        first = len(stub.messages(TOPIC))
        stub.faults.broker_up("broker-a")
        report = replay(stub, audit)

        assert (first, report.sent_count, report.gone_count) == (65, 37, 0)
        assert lines(audit, "gone") == []


def test_a_broker_whose_letters_may_not_be_read_is_told(audit: Path) -> None:
    """If one broker lets nobody read its letters, the replay ends unless it is to read a queue of another one."""
    with StubCluster(2, topics={TOPIC: 1}) as stub:
        stub.put(DEAD, b"a", properties={"RETRY_TOPIC": TOPIC}, broker="broker-a", queue_id=0)
        stub.put(DEAD, b"hidden", properties={"RETRY_TOPIC": TOPIC}, broker="broker-b", queue_id=0)
        cluster_of(stub).admin.create_topic(TopicConfig(topic_name=DEAD, perm=2), ["broker-b"])
        with pytest.raises(NoBrokerAvailable, match="may not be read now"):
            replay(stub, audit)

        assert replay(stub, audit, wanted=LetterFilter(queue="broker-a/0")).sent_count == 1


# --- losses ----------------------------------------------------------------------------------------------------------


def test_letters_that_retention_passes_are_told(stub: StubCluster, audit: Path) -> None:
    """If letters are deleted while a replay runs, the report and the file say which; the others are sent."""
    for number in range(150):
        stub.put(DEAD, b"%d" % number, properties={"RETRY_TOPIC": TOPIC}, queue_id=0)

    report = replay(stub, audit, told=once_begun(lambda: stub.expire(DEAD, 0, 100)))

    assert (report.sent_count, report.gone_count) == (64 + 50, 36)
    [gone] = lines(audit, "gone")
    assert (gone["start"], gone["end"]) == (64, 100)
    assert COMPLAINTS == ["dead letters from 64 to 100 of broker-a/0 are gone, and none is known to have landed"]


def test_letters_of_a_queue_without_a_route_are_not_gone(stub: StubCluster, audit: Path) -> None:
    """If the route loses the queue while it is read, the replay ends: what cannot be read is not known to be gone."""
    for number in range(150):
        stub.put(DEAD, b"%d" % number, properties={"RETRY_TOPIC": TOPIC}, queue_id=0)

    def hide() -> None:
        config = TopicConfig(topic_name=DEAD, read_queue_nums=1, write_queue_nums=1, perm=2)
        cluster_of(stub).admin.create_topic(config)

    with pytest.raises(RocketMQError):
        replay(stub, audit, told=once_begun(hide))

    assert lines(audit, "gone") == COMPLAINTS == []


def test_letters_that_have_landed_are_not_gone(stub: StubCluster, audit: Path) -> None:
    """Letters that landed in an earlier run are no loss if retention deletes them while the next run reads."""
    for number in range(150):
        stub.put(DEAD, b"%d" % number, properties={"RETRY_TOPIC": TOPIC}, queue_id=0)
    replay(stub, audit)

    report = replay(stub, audit, told=once_begun(lambda: stub.expire(DEAD, 0, 100)))

    assert (report.sent_before, report.gone_count) == (64 + 50, 0)
    assert lines(audit, "gone") == COMPLAINTS == []


def test_failed_letters_that_retention_takes_are_told_once(stub: StubCluster, audit: Path) -> None:
    """Letters that failed and are deleted before the next run are reported by that run in one, and by no later one."""
    stub.put(DEAD, b"no origin", queue_id=0)
    stub.put(DEAD, b"no origin", queue_id=0)
    bury(stub, "a")
    replay(stub, audit)
    stub.expire(DEAD, 0, 2)

    second, third = replay(stub, audit), replay(stub, audit)

    assert [(each.start, each.end) for each in second.gone] == [(0, 2)]
    assert (second.sent_before, second.failed_count, third.gone_count) == (1, 0, 0)


def test_unread_letters_of_a_killed_run_that_are_gone_are_told(stub: StubCluster, audit: Path) -> None:
    """Letters that a run was to read when it was killed, and that are deleted before the next, are reported."""
    bury(stub, *map(str, range(10)))
    stop_after_first_group(stub, audit)
    sent = len(lines(audit, "landed"))
    stub.expire(DEAD, 0, 8)
    report = replay(stub, audit)

    assert 0 < sent < 8
    assert [(each.start, each.end) for each in report.gone] == [(sent, 8)]
    assert report.sent_count == 2


def test_letters_behind_one_that_failed_are_told_when_gone(stub: StubCluster, audit: Path) -> None:
    """A letter that cannot be sent is recorded in its turn: the letters before it are not taken for read."""
    bury(stub, *map(str, range(10)))
    stub.put(DEAD, b"no origin", queue_id=0)
    stop_after_first_group(stub, audit)
    sent = len(lines(audit, "landed"))
    stub.expire(DEAD, 0, 8)

    report = replay(stub, audit)

    assert [(each.start, each.end) for each in report.gone] == [(sent, 8)]


def test_losses_are_recorded_before_a_new_run_begins(
    stub: StubCluster, audit: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a run is killed while it begins, the next one knows what an earlier run has not read."""
    bury(stub, *map(str, range(10)))
    stop_after_first_group(stub, audit)
    sent = len(lines(audit, "landed"))
    stub.expire(DEAD, 0, 8)
    monkeypatch.setattr(AuditFile, "write", write_one_line_and_die)
    with pytest.raises(KeyboardInterrupt):
        replay(stub, audit)
    monkeypatch.undo()

    replay(stub, audit)

    assert [(each["start"], each["end"]) for each in lines(audit, "gone")] == [(sent, 8)]


def write_one_line_and_die(file: AuditFile, entries: Iterable[Any]) -> None:
    """Write the lines of one call, as a process does that is killed next."""
    WRITE(file, entries)
    raise KeyboardInterrupt


def test_letters_of_a_broker_without_a_route_are_told(audit: Path) -> None:
    """If the route loses queues that an interrupted run was to read, the next run says so, and does not succeed."""
    with StubCluster(2, topics={DEAD: 1}) as stub:
        stub.put(TOPIC, b"first", broker="broker-a")
        for broker in ("broker-a", "broker-b"):
            for number in range(10):
                stub.put(DEAD, b"%d" % number, properties={"RETRY_TOPIC": TOPIC}, broker=broker, queue_id=0)
        stop_after_first_group(stub, audit)
        stub.faults.broker_down("broker-b")

        report = replay(stub, audit)

        assert (report.failed_count, report.gone_count) == (10, 0)
        assert "10 letters" in COMPLAINTS[-1] and "no route has their queues now" in COMPLAINTS[-1]


def stop_after_first_group(stub: StubCluster, audit: Path) -> None:
    """Begin a replay, and end it after its first group of letters."""

    with pytest.raises(KeyboardInterrupt):
        replay(stub, audit, rate=30, told=once_begun(interrupt))
    assert lines(audit, "landed")


def interrupt() -> None:
    """End a replay as Ctrl-C does."""
    raise KeyboardInterrupt


def test_a_topic_that_was_created_again_has_other_letters(stub: StubCluster, audit: Path) -> None:
    """A letter at a place where another one has landed before is sent: it is not the same."""
    bury(stub, "a")
    replay(stub, audit)
    cluster_of(stub).admin.delete_topic(DEAD)
    bury(stub, "b")

    report = replay(stub, audit)

    assert (report.sent_count, report.sent_before) == (1, 0)
    assert revived(stub)[-1].body == b"b"


# --- the audit file --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("more", [{"topic": OWN}, {"to": OTHER}])
def test_a_file_of_another_replay_is_refused(stub: StubCluster, audit: Path, more: dict[str, str]) -> None:
    """A file belongs to one topic of letters and one target: with another one, letters would be left out by mistake."""
    bury(stub, "a")
    reject(stub, "b", "c")
    replay(stub, audit)

    with pytest.raises(OptionError, match="the file is of a replay with"):
        replay(stub, audit, **more)


def test_a_file_of_another_cluster_is_refused(stub: StubCluster, audit: Path) -> None:
    """Places of letters mean nothing at another cluster."""
    bury(stub, "a")
    replay(stub, audit)
    with StubCluster(1, topics={TOPIC: 1}) as other:
        bury(other, "a")
        with pytest.raises(OptionError, match="nameServers"):
            replay(other, audit)


def test_one_process_at_a_time_writes_a_file(stub: StubCluster, audit: Path) -> None:
    """A second replay with the same file is refused while the first one runs."""
    bury(stub, "a")
    with AuditFile(audit, lambda: "now"), pytest.raises(OptionError, match="another process"):
        replay(stub, audit)


@pytest.mark.parametrize(
    "content", ["notes without an end", "notes\n", '{"event": "landed"}\n', '{"event": "x"', "\0\0", "[]\n"]
)
def test_a_file_of_something_else_is_left_alone(stub: StubCluster, audit: Path, content: str) -> None:
    """A file that is no audit file is refused and keeps its content, unless it holds the torn beginning of one."""
    audit.parent.mkdir()
    audit.write_text(content)
    if content in ('{"event": "x"', "\0\0"):
        replay(stub, audit)
        return

    with pytest.raises(OptionError):
        replay(stub, audit)
    assert audit.read_text() == content


def test_nothing_is_sent_that_cannot_be_recorded(stub: StubCluster, audit: Path) -> None:
    """If the audit file cannot grow, the replay ends before it sends anything."""
    bury(stub, "a")
    replay(stub, audit)
    bury(stub, "b")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (audit.stat().st_size + 300, limits[1]))
    try:
        with pytest.raises(RocketMQError, match="cannot be written"):
            replay(stub, audit)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)

    assert len(stub.messages(TOPIC)) == 3
    assert replay(stub, audit).sent_count == 1


@pytest.mark.parametrize("is_replaced", [False, True])
def test_nothing_is_sent_once_the_file_is_away(stub: StubCluster, audit: Path, is_replaced: bool) -> None:
    """If the file is moved or deleted while a replay writes it, the replay ends: the next one would have no record."""
    for number in range(130):
        stub.put(DEAD, b"%d" % number, properties={"RETRY_TOPIC": TOPIC}, queue_id=0)

    def take_away() -> None:
        audit.unlink(missing_ok=True)
        if is_replaced:
            audit.touch()

    with pytest.raises(RocketMQError, match="cannot be written"):
        replay(stub, audit, told=once_begun(take_away))

    assert len(stub.messages(TOPIC)) == 64


def test_a_file_that_cannot_be_locked_is_refused(
    stub: StubCluster, audit: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some network file systems have no locks; two processes could write a file there."""

    def refuse(file: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", refuse)
    bury(stub, "a")

    with pytest.raises(OptionError, match="cannot be locked"):
        replay(stub, audit)


@pytest.mark.parametrize("apply", [False, True])
@pytest.mark.parametrize("name", ["x" * 300, "nul\0", "file/below"])
def test_paths_that_lead_nowhere_are_refused(stub: StubCluster, tmp_path: Path, name: str, apply: bool) -> None:
    """A path that no file can have is an error of the setting."""
    (tmp_path / "file").touch()
    bury(stub, "a")

    with pytest.raises(OptionError, match="cannot be used"):
        replay(stub, tmp_path / name, apply=apply)


def test_a_file_commands_no_terminal(stub: StubCluster, audit: Path) -> None:
    """An id is a text of a stranger; characters that a terminal or an editor obeys are escaped, and ids are equal."""
    stub.put(DEAD, b"a", properties={"UNIQ_KEY": "\x9b2J\u202e\u2028é", "RETRY_TOPIC": TOPIC}, queue_id=0)
    replay(stub, audit)

    assert audit.read_bytes().isascii() and len(lines(audit, "landed")) == 1
    assert replay(stub, audit).sent_before == 1


def test_a_history_can_be_read_while_a_replay_writes(stub: StubCluster, audit: Path) -> None:
    """Reading a file leaves out a line that is being written, and changes nothing."""
    bury(stub, "a")
    replay(stub, audit)
    with audit.open("a") as file:
        file.write('{"event": "lan')
    size = audit.stat().st_size

    assert len(History.read(audit).landed) == 1
    assert audit.stat().st_size == size


# --- the public function ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "topic"), [(GROUP, DEAD), (DEAD, DEAD), (OWN, OWN), (f"topic:{OWN}", OWN)])
def test_letters_are_named_by_group_or_topic(stub: StubCluster, audit: Path, name: str, topic: str) -> None:
    """`retry.replay` takes a group, or a topic of dead letters, and the reader's options."""
    bury(stub, "a")
    reject(stub, "b", "c")

    report = retry.replay(name, {"nameServer": stub.name_server, "subscribe": TOPIC}, audit=audit)

    assert (report.topic, report.sent) == (topic, {TOPIC: 1})


def test_a_name_of_both_is_ambiguous(stub: StubCluster, audit: Path) -> None:
    """A name that a topic and a group with dead letters share is refused, with the names to give."""
    bury(stub, "a")
    stub.put(GROUP, b"a topic of that name")

    with pytest.raises(OptionError, match="%DLQ%billing for those of the group, topic:billing"):
        retry.replay(GROUP, {"nameServer": stub.name_server}, audit=audit)


@pytest.mark.parametrize(
    ("more", "complaint"),
    [
        ({"to": DEAD}, "lie in this topic"),
        ({"to": "%RETRY%x"}, "belongs to a consumer group"),
        ({"to": "no topic"}, "no topic's name"),
        ({"to": "SCHEDULE_TOPIC_XXXX"}, "RocketMQ's own"),
        ({"to": f"NS%{DEAD}", "namespace": "NS"}, "lie in this topic"),
        ({"rate": 0.0}, "not above 0"),
        ({"wanted": LetterFilter(queue="broker-a/7")}, "queues are: broker-a/0"),
    ],
)
def test_wrong_settings_are_refused(stub: StubCluster, audit: Path, more: dict[str, Any], complaint: str) -> None:
    """Targets that would lead in a circle, rates and queues that are none are refused before anything is sent."""
    bury(stub, "a")

    with pytest.raises(OptionError, match=complaint):
        replay(stub, audit, **more)
    assert len(stub.messages(TOPIC)) == 1
