"""Fuzz what becomes state of the library: routes, statistics, positions in Spark's log or in a file, and options."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple, cast

from pyspark_rocketmq.client.stores import LocalStore
from pyspark_rocketmq.cluster.broker import Brokers, RoutedRequest
from pyspark_rocketmq.cluster.credentials_file import parse_credentials
from pyspark_rocketmq.cluster.queue_offsets import Offsets
from pyspark_rocketmq.cluster.routes import AddressMap, all_broker_endpoints, make_route
from pyspark_rocketmq.cluster.servers import Reply, ServerRequest
from pyspark_rocketmq.cluster.settings import ClusterSettings
from pyspark_rocketmq.model import Address, MessageQueue
from pyspark_rocketmq.offsets.position import batch_ranges, parse_position, position_json
from pyspark_rocketmq.offsets.strict_json import LAST_OFFSET
from pyspark_rocketmq.options import parse_helper_options, parse_reader_options
from pyspark_rocketmq.options.queue_json import read_assignment, read_offsets, read_queue_lists, read_times
from pyspark_rocketmq.options.table import OPTIONS
from pyspark_rocketmq.options.values import OptionText
from pyspark_rocketmq.wire.bodies import ClusterInfo, TopicRouteData, decode_body
from pyspark_rocketmq.wire.header import Command
from tests.offsets.fixtures import GOLDEN

from .mutations import Mutator
from .runner import Target, outcome

QUEUES = tuple(MessageQueue("T", "broker-a", number) for number in range(3))

ADDRESS = Address("10.0.0.1", 10911)

# --- routes ----------------------------------------------------------------------------------------------------------

ROUTE = (
    '{"brokerDatas":[{"brokerAddrs":{0:"10.0.0.1:10911",1:"[::1]:10911"},"brokerName":"broker-a","cluster":"c"},'
    '{"brokerAddrs":{"0":"h:1"},"brokerName":"broker-b","cluster":"c"}],"filterServerTable":{},"orderTopicConf":'
    '"broker-a:4;broker-b:2","queueDatas":[{"brokerName":"broker-a","perm":6,"readQueueNums":4,"topicSysFlag":0,'
    '"writeQueueNums":4},{"brokerName":"broker-b","perm":4,"readQueueNums":2,"writeQueueNums":2}]}'
)
CLUSTER = (
    '{"brokerAddrTable":{"broker-a":{"brokerAddrs":{0:"10.0.0.1:10911"},"brokerName":"broker-a","cluster":"c"}},'
    '"clusterAddrTable":{"c":["broker-a"]}}'
)


def make_route_text(mutator: Mutator) -> bytes:
    """Return a damaged route, with or without an order configuration, sometimes with a damaged text in it."""
    text = ROUTE.replace('"orderTopicConf"', mutator.pick(('"orderTopicConf"', '"unknown"')))
    if mutator.chance(0.3):
        text = text.replace(
            mutator.pick(("10.0.0.1:10911", "broker-a:4")), mutator.pick(("", ":", "h:-1", "a:b", "x:1e9"))
        )
    return mutator.damage_json(text)


def check_route(text: bytes) -> None:
    """Build the snapshot of a route, and look up its brokers."""
    route = make_route("T", decode_body(TopicRouteData, text), AddressMap())
    assert route.weight >= len(route.readable)
    for broker in route.brokers.values():
        if broker.endpoints:
            broker.to_read(1)


def make_cluster_text(mutator: Mutator) -> bytes:
    """Return a damaged list of a cluster's brokers."""
    return mutator.damage_json(CLUSTER)


def check_cluster(text: bytes) -> None:
    """Find the processes of all brokers."""
    all_broker_endpoints(decode_body(ClusterInfo, text).broker_addr_table.values(), AddressMap())


# --- statistics ------------------------------------------------------------------------------------------------------

STATISTICS = (
    '{"offsetTable":{{"brokerName":"broker-a","queueId":0,"topic":"T"}:{"lastUpdateTimestamp":1,"maxOffset":9,'
    '"minOffset":2},{"brokerName":"broker-a","queueId":1,"topic":"T"}:{"maxOffset":0,"minOffset":-1},'
    '{"brokerName":"broker-a","queueId":2,"topic":"T"}:{"maxOffset":7,"minOffset":7}}}'
)


class Answer(NamedTuple):
    """The body and the header fields of a broker's responses."""

    body: bytes
    fields: dict[str, str]


class AnsweringBrokers:
    """Brokers that send the same response to every request."""

    def __init__(self, answer: Answer) -> None:
        self.settings = ClusterSettings(name_servers=(ADDRESS,))
        self._command = Command(0, fields=answer.fields, body=answer.body)

    def ask_all(self, requests: Mapping[Any, RoutedRequest], **_: Any) -> dict[Any, Reply]:
        """Return the response for each request."""
        return {
            key: Reply(ServerRequest(ADDRESS, asked.header, broker_name=asked.broker_name), self._command)
            for key, asked in requests.items()
        }


def make_statistics(mutator: Mutator) -> Answer:
    """Return damaged statistics of a topic, and damaged fields for requests about single queues."""
    return Answer(mutator.damage_json(STATISTICS), mutator.damage_fields({"offset": "7", "timestamp": "1"}))


def check_statistics(answer: Answer) -> None:
    """Check that the bounds of queues are offsets."""
    offsets = Offsets(cast(Brokers, AnsweringBrokers(answer)))
    for bounds in offsets.fetch_bounds(QUEUES).values():
        assert 0 <= bounds.min_offset <= LAST_OFFSET and 0 <= bounds.max_offset <= LAST_OFFSET, bounds


# --- positions -------------------------------------------------------------------------------------------------------


@cache
def _checkpoints() -> tuple[str, ...]:
    return tuple(path.read_text(encoding="utf-8") for path in sorted(GOLDEN.glob("v*.json")))


def make_checkpoint(mutator: Mutator) -> str:
    """Return a damaged offset of Spark's log."""
    return mutator.damage_json(mutator.pick(_checkpoints())).decode("utf-8", "replace")


def check_checkpoint(text: str) -> None:
    """Check that a position that can be read is written with the same meaning."""
    position = parse_position(text)
    assert parse_position(position_json(position)) == position, "the position changes when it is written"
    if position is not None:
        batch_ranges(None, position)


OFFSET_FILE = (
    '{\n\t"offsetTable":{{\n\t\t\t"brokerName":"broker-a",\n\t\t\t"queueId":0,\n\t\t\t"topic":"T"\n\t\t}:5,{\n\t\t\t'
    '"brokerName":"broker-a",\n\t\t\t"queueId":1,\n\t\t\t"topic":"T"\n\t\t}:9223372036854775807\n\t}\n}'
)


def make_offset_file(mutator: Mutator) -> bytes:
    """Return a damaged file of positions."""
    return mutator.damage_json(OFFSET_FILE) if mutator.chance(0.8) else mutator.damage(OFFSET_FILE.encode())


def check_offset_file(data: bytes) -> None:
    """Check that a file gives offsets only, and that they are read again after another one was written."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "offsets.json"
        path.write_bytes(data)
        store = LocalStore(path)
        store.load()
        found = store.progress.snapshot()
        assert all(0 <= offset <= LAST_OFFSET for offset in found.values())
        store.write({QUEUES[2]: 1})
        again = LocalStore(path)
        again.load()
        assert again.progress.snapshot() == {**found, QUEUES[2]: 1}, "the file loses offsets when it is written"


# --- options ---------------------------------------------------------------------------------------------------------

OFFSETS = '{"T":{"broker-a":{"0":5,"1":-1,"*":-2},"*":{"*":7}},"%RETRY%g":{"broker-a":{"0":0}}}'
TIMES = '{"T":{"broker-a":{"0":"2026-01-31T00:00:00Z","1":1700000000000}},"U":"-2h"}'
LISTS = '[{"T":{"broker-a":[0,1],"broker-b":"*"},"U":"*"}]'
CREDENTIALS = b"# a comment\naccessKey=key\nsecretKey: hush\n\nsecurityToken = token\n"


def make_option_json(mutator: Mutator) -> str:
    """Return a damaged JSON text of an option."""
    return mutator.damage_json(mutator.pick((OFFSETS, TIMES, LISTS, LISTS[1:-1]))).decode("utf-8", "replace")


def check_option_json(text: str) -> None:
    """Read a text as the value of each option that names queues."""
    given = OptionText("assign", text, 1_700_000_000_000)
    for read in (read_offsets, read_times, read_assignment, read_queue_lists):
        outcome(read, given)


def make_options(mutator: Mutator) -> dict[str, str]:
    """Return legal options of a reader and some with any texts."""
    options = {"nameServer": "10.0.0.1:9876", "subscribe": "T", "consumerGroup": "g"}
    for _ in range(1 + mutator.upto(2)):
        name = mutator.pick(OPTIONS).name
        options[name if mutator.chance(0.95) else mutator.damage_text(name)] = mutator.damage_text(
            mutator.pick((OFFSETS, TIMES, LISTS, "10m", "5", "1g", "true", "a,b", "h:1;i:2", "2026-01-31 10:00:00"))
        )
    return options


def check_options(options: dict[str, str]) -> None:
    """Read options for all uses."""
    for stream in (True, False, None):
        outcome(partial(parse_reader_options, stream=stream, env={}), options)
    parse_helper_options(options, env={})


def make_credentials(mutator: Mutator) -> bytes:
    """Return a damaged file of credentials."""
    return mutator.damage(CREDENTIALS)


def check_credentials(content: bytes) -> None:
    """Check that an error about a file of credentials does not show its text."""
    try:
        parse_credentials(content)
    except ValueError as error:
        assert "hush" not in str(error), "the error shows a secret"


TARGETS = (
    Target("route", make_route_text, check_route, share=1.5),
    Target("cluster", make_cluster_text, check_cluster, share=0.5),
    Target("statistics", make_statistics, check_statistics),
    Target("checkpoint", make_checkpoint, check_checkpoint),
    Target("offset-file", make_offset_file, check_offset_file, share=0.5),
    Target("option-json", make_option_json, check_option_json),
    Target("options", make_options, check_options),
    Target("credentials", make_credentials, check_credentials, share=0.2),
)
