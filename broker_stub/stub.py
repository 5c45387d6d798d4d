"""Start a stub cluster and act on it without a client.

    with StubBroker(topics={"orders": 8}) as broker:
        broker.put("orders", b"hello", tags="new")
        client = Client(broker.name_server)

By default all servers listen on free loopback ports. They are ready when the constructor returns, except the gRPC
proxy, which the first use of `endpoints` starts; they are gone when `close` returns. All methods may be called from any
thread.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from itertools import count
from os import PathLike
from pathlib import Path
from string import ascii_lowercase
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple, Self, TypedDict, TypeVar, Unpack

from pyspark_rocketmq.errors import BrokerError, ConnectError, OptionError
from pyspark_rocketmq.model import Address, MessageQueue
from pyspark_rocketmq.wire.record import Record

from .access_control import AccessControl
from .arguments import (
    LAST_PORT,
    check_body,
    check_brokers,
    check_count,
    check_instant,
    check_known,
    check_ms,
    check_texts,
    check_topic,
    check_topics,
    check_types,
    check_users,
    suggest,
)
from .bulk_fill import fill
from .clock import Clock
from .data_directory import BrokerFiles, NameServerFiles
from .dispatcher import Dispatcher
from .faults import NAME_SERVER, Faults, FaultScript
from .handlers import BROKER_HANDLERS, NAME_SERVER_HANDLERS
from .releases import find_release
from .requests import Channel, Refusal
from .server import Runtime, ServerSocket, TlsFiles, make_tls_context
from .settings import DEFAULT_SETTINGS, Settings
from .state import MASTER_ID, Broker, Cluster
from .store import NOWHERE, InnerMessage
from .topic import StubTopic

if TYPE_CHECKING:
    from .grpc_proxy import GrpcServer

T = TypeVar("T")

LOOPBACK = "127.0.0.1"
SAVE_INTERVAL_S = 5.0
"""Seconds between two writes of the data directory, as at a real broker."""
_LEGAL_BROKER = re.compile(r"(?!\.+\Z)[^/\\\x00-\x1f]{1,100}")
DEFAULT_QUEUES = 4
"""Number of queues of a topic that `put` or `fill` creates; a producer's default, too."""


class PutResult(NamedTuple):
    """The queue, offset and id of a message that `put` stored."""

    queue: MessageQueue
    offset: int
    message_id: str


class ClientConnection(NamedTuple):
    """The connection of one client to a broker."""

    broker_name: str
    address: Address
    client_ids: tuple[str, ...]
    """Client ids in the connection's heartbeats; empty if the client sent none."""


class StubClock:
    """The stub's clock, with methods that any thread may call."""

    def __init__(self, clock: Clock, run: Callable[[Callable[[], None]], None]) -> None:
        self._clock = clock
        self._run = run

    def __repr__(self) -> str:
        return repr(self._clock)

    def now_ms(self) -> int:
        """Return the wall time in milliseconds, with which messages are stamped."""
        return self._clock.now_ms()

    def advance(self, ms: int) -> None:
        """Move the time forward by `ms`; all timers that become due have run when this returns."""
        check_ms("ms", ms)
        self._run(lambda: self._clock.advance(ms))


class Options(TypedDict, total=False):
    """Options of `StubCluster` and `StubBroker`."""

    emulate: str
    """Release that the stub emulates: 5.3.3 or 4.9.7."""
    settings: Settings
    """Settings of the cluster's brokers."""
    host: str
    """Host at which all servers listen; default: loopback."""
    port: int
    """Port of the name server; default: 0, a free one."""
    tls: TlsFiles | None
    """Certificate and key.

    With them every port serves TLS clients and plain clients; the gRPC proxy serves TLS clients only.
    """
    acl: Mapping[str, str]
    """Secrets by access key; with them brokers and the gRPC proxy serve signed requests only."""
    data: str | Path | None
    """Directory in which the state is kept; without it the state is lost when the stub closes."""
    grpc_port: int
    """Port of the gRPC proxy; default: 0, a free one."""
    like_apache: bool
    """Whether the gRPC proxy has the limits of Apache's, which does not implement pulling."""
    frozen_clock: bool
    """Whether time passes only by `clock.advance`."""


_FORMS: dict[str, tuple[tuple[type, ...], str]] = {
    "emulate": ((str,), "the name of a release"),
    "settings": ((Settings,), "Settings(...)"),
    "host": ((str,), "text"),
    "port": ((int,), "a number"),
    "tls": ((TlsFiles, type(None)), "TlsFiles(certificate, key)"),
    "acl": ((Mapping,), "{access key: secret}"),
    "data": ((str, PathLike, type(None)), "the path of a folder"),
    "grpc_port": ((int,), "a number"),
    "like_apache": ((bool,), "True or False"),
    "frozen_clock": ((bool,), "True or False"),
}
"""The types of `Options`, and what an error says to give."""


class StubCluster:
    """A name server and `brokers` masters, each with `slaves` slaves.

    `brokers` is the number of masters, which are then named broker-a, broker-b ..., or a sequence of their names, for
    example `room1@a`. `topics` gives the number of queues of each topic to create.
    """

    def __init__(
        self,
        brokers: int | Sequence[str] = 1,
        slaves: int = 0,
        *,
        topics: Mapping[str, int] | None = None,
        **options: Unpack[Options],
    ) -> None:
        self._check(brokers, slaves, options)
        settings = options.get("settings", DEFAULT_SETTINGS)
        release = find_release(options.get("emulate", "5.3.3"))
        check_topics({} if topics is None else topics, release)
        names = _usual_names(brokers) if isinstance(brokers, int) else _checked_names(brokers)
        self._options = options
        self._grpc_server: GrpcServer | None = None
        self._files: dict[Broker, BrokerFiles] = {}
        self._name_server_files: NameServerFiles | None = None
        self._script = FaultScript()
        self._put_turns: defaultdict[str, count[int]] = defaultdict(count)
        self._runtime = Runtime(Clock(frozen=options.get("frozen_clock", False)))
        self._server_sockets: dict[Broker, ServerSocket] = {}
        self.state = Cluster(replace(settings, release=release), self._runtime.clock)
        """The state of name server and brokers; only the stub's own thread may use it (see `run`)."""
        self.clock = StubClock(self._runtime.clock, self._runtime.call)
        self.faults = Faults(self.state, self._script, self)
        try:
            tls = options.get("tls")
            self._tls = make_tls_context(tls) if tls else None
            self._access_control = AccessControl(options["acl"], self.state.release) if options.get("acl") else None
            self.run(lambda: self._build(names, slaves, topics or {}))
        except BaseException:
            self._runtime.close()
            raise

    def _check(self, brokers: int | Sequence[str], slaves: int, options: Options) -> None:
        """Raise `OptionError` if an argument is unknown, or is not what it should be."""
        check_known(type(self).__name__, options, ["brokers", "slaves", "topics", *_FORMS])
        check_brokers(brokers)
        check_count("slaves", slaves, 0)
        check_types(options, _FORMS)
        check_users(options.get("acl", {}))
        for name in ("port", "grpc_port"):
            check_count(name, options.get(name, 0), 0, LAST_PORT)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name_server}, {len(self.state.brokers)} brokers>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
        if error is None:
            self._script.check_reached()

    def close(self) -> None:
        """Write the data directory, close all ports and connections, and end the stub's thread."""
        if self._runtime.is_running:
            try:
                if self._grpc_server:
                    self._grpc_server.close()
                self.run(self._save)
            finally:
                self._runtime.close()

    @property
    def name_server(self) -> str:
        """Address of the name server as text `HOST:PORT`, as clients take it."""
        return str(self._name_server_socket.address)

    @property
    def endpoints(self) -> str | None:
        """Address of the gRPC proxy; the first use starts it. None if grpcio is not installed."""
        if self._grpc_server is None and find_spec("grpc"):
            self._grpc_server = self._open_proxy()
        return str(self._grpc_server.address) if self._grpc_server else None

    def broker_address(self, broker: str | None = None) -> str:
        """Return the address of the named master as text `HOST:PORT`; without a name, that of the first master."""
        return str(self.run(lambda: self._masters(broker)[0].address))

    def topic(self, name: str, queues: int | None = None) -> StubTopic:
        """Return a topic; create it at each master that lacks it, with four queues unless `queues` is given.

        A topic that exists with another number of queues than the given one is refused.
        """
        check_topics({name: DEFAULT_QUEUES if queues is None else queues}, self.state.release)
        self.run(lambda: self._find_or_create(name, queues))
        return StubTopic(self, name)

    def topics(self) -> dict[str, int]:
        """Return the number of queues that messages can be sent to, over all brokers, of each topic of users."""
        return self.run(self._topics)

    # --- messages ----------------------------------------------------------------------------------------------------

    def put(
        self,
        topic: str,
        body: bytes,
        *,
        tags: str = "",
        keys: str = "",
        properties: Mapping[str, str] | None = None,
        queue_id: int | None = None,
        broker: str | None = None,
        store_timestamp: int | None = None,
    ) -> PutResult:
        """Store a message without a client, and return its queue, offset and id.

        Without `queue_id` the queues take turns. A missing topic is created. With `auto_create_topics` off, a name that
        is like the one of an existing topic is refused.
        """
        check_body(body)
        check_texts({"tags": tags, "keys": keys})
        check_texts({} if properties is None else properties)
        check_instant("store_timestamp", store_timestamp)
        given = {"TAGS": tags, "KEYS": keys, **(properties or {})}
        kept = {name: value for name, value in given.items() if value}
        return self.run(lambda: self._put(topic, body, kept, queue_id, broker, store_timestamp))

    def fill(self, topic: str, count: int, size: int, *, tags: str = "", broker: str | None = None) -> None:
        """Store `count` messages of `size` bytes at once, spread evenly over the topic's queues.

        A body begins with the message's number in ten digits; a shorter body has only the last digits.
        """
        check_count("count", count, 0)
        check_count("size", size, 0)
        check_texts({"tags": tags})
        self.run(lambda: self._fill(topic, count, size, tags, broker))

    def messages(self, topic: str, queue_id: int | None = None, *, broker: str | None = None) -> list[Record]:
        """Return the stored messages of a topic, ordered by broker, queue and offset."""
        return self.run(lambda: self._messages(topic, queue_id, broker))

    def expire(self, topic: str, queue_id: int, offset: int, *, broker: str | None = None) -> None:
        """Delete the messages of a queue before an offset, as retention does; without `broker`, at the first master."""
        check_count("offset", offset, 0)
        self.run(lambda: self._expire(self._masters(broker)[0], topic, queue_id, offset))

    def move_queue(self, topic: str, source: str, target: str) -> MessageQueue:
        """Move a topic's last queue, with its messages and their offsets, to another broker; return the new queue.

        The new queue is the topic's last queue at the other broker.
        """
        return self.run(lambda: self._move_queue(topic, self.state.broker(source), self.state.broker(target)))

    def remove_queue(self, topic: str, *, broker: str | None = None) -> None:
        """Remove the last queue of a topic, with its messages, at each master, or only at the master named `broker`."""
        self.faults.lose_queue(topic, broker)

    # --- groups, offsets, locks and connections ----------------------------------------------------------------------

    def groups(self) -> dict[str, tuple[str, ...]]:
        """Return the client ids of each consumer group's members, by group."""
        return self.run(self._groups)

    def offsets(self, group: str) -> dict[MessageQueue, int]:
        """Return a group's committed offsets, by queue."""
        return self.run(lambda: self._offsets(group))

    def locks(self, group: str) -> dict[MessageQueue, str]:
        """Return the client id that holds the lock of each locked queue of a group."""
        return self.run(
            lambda: {queue: owner for broker in self._masters() for queue, owner in broker.locks.owners(group).items()}
        )

    def connections(self) -> list[ClientConnection]:
        """Return the open client connections to all brokers."""
        return self.run(
            lambda: [
                _client_connection(broker, channel) for broker in self.state.brokers for channel in broker.channels
            ]
        )

    # --- the thread and the ports (what `Faults` acts through) -------------------------------------------------------

    def run(self, function: Callable[[], T]) -> T:
        """Run a function in the stub's thread, where it may use `state`, and return its result."""
        return self._runtime.call(function)

    def open(self, broker: Broker) -> None:
        """Accept connections to a broker."""
        dispatcher = Dispatcher(broker.name, broker, BROKER_HANDLERS, self.state.settings, self._script)
        dispatcher.on_open, dispatcher.on_close = broker.channels.add, broker.channel_closed
        dispatcher.authorize = self._access_control.check if self._access_control else None
        self._server_sockets[broker].open(dispatcher)

    def refuse(self, broker: Broker) -> None:
        """Refuse new connections to a broker."""
        self._server_sockets[broker].refuse()

    def shut(self, broker: Broker) -> None:
        """Refuse new connections to a broker and end the open ones."""
        self._server_sockets[broker].close()

    # --- building ----------------------------------------------------------------------------------------------------

    def _build(self, names: Sequence[str], slaves: int, topics: Mapping[str, int]) -> None:
        host = self._options.get("host", LOOPBACK)
        self._name_server_socket = self._runtime.listen(Address(host, self._options.get("port", 0)), self._tls)
        if data := self._options.get("data"):
            self._open_files(Path(data))
        for name in names:
            self._add_broker(name, slaves, host, topics)
        dispatcher = Dispatcher(NAME_SERVER, self.state, NAME_SERVER_HANDLERS, self.state.settings, self._script)
        dispatcher.ignores_unknown_codes = not self.state.release.is_5x
        self._save()
        self._name_server_socket.open(dispatcher)

    def _add_broker(self, name: str, slaves: int, host: str, topics: Mapping[str, int]) -> None:
        master = self._add_master(name, host)
        for topic, queues in topics.items():
            master.topics.find_or_create(topic, queues)
        for broker_id in range(MASTER_ID + 1, MASTER_ID + 1 + slaves):
            server_socket = self._runtime.listen(Address(host, 0), self._tls)
            self._start(Broker(self.state, name, broker_id, server_socket.address, master), server_socket)

    def _add_master(self, name: str, host: str) -> Broker:
        data = self._options.get("data")
        files = BrokerFiles(Path(data) / name) if data else None
        server_socket = self._listen_again(files.address() if files else None, host)
        log = files.open_log() if files else None
        broker = Broker(self.state, name, MASTER_ID, server_socket.address, log=log)
        if files:
            files.load(broker)
            self._files[broker] = files
        self._start(broker, server_socket)
        return broker

    def _listen_again(self, known: Address | None, host: str) -> ServerSocket:
        """Return a `ServerSocket` at the broker's last address `known`, or at a free port.

        A free port is taken if that address is in use or not on `host`. A broker keeps its address if it can, because
        message ids contain it.
        """
        if known and known.host == host:
            with suppress(ConnectError):
                return self._runtime.listen(known, self._tls)
        return self._runtime.listen(Address(host, 0), self._tls)

    def _start(self, broker: Broker, server_socket: ServerSocket) -> None:
        self._server_sockets[broker] = server_socket
        self.state.brokers.append(broker)
        self.open(broker)

    def _open_files(self, directory: Path) -> None:
        self._name_server_files = NameServerFiles(directory)
        self._name_server_files.load(self.state)
        self._runtime.call_repeatedly(SAVE_INTERVAL_S, self._save)

    def _save(self) -> None:
        """Write all files of the data directory. If that fails for a server, go on; at the end, raise all failures."""
        failures: list[OptionError] = []
        for save in self._saves():
            try:
                save()
            except OptionError as failure:
                failures.append(failure)
        if failures:
            failures[0].what = "; ".join(failure.what for failure in failures)
            raise failures[0]

    def _saves(self) -> Iterator[Callable[[], None]]:
        """Yield the functions that write the files of the name server and of each broker."""
        if self._name_server_files:
            yield partial(self._name_server_files.save, self.state)
        for broker, files in self._files.items():
            yield partial(files.save, broker)

    def _open_proxy(self) -> GrpcServer:
        from .grpc_proxy import ProxyOptions, open_proxy  # needs grpcio, which may be absent

        behaviour = ProxyOptions(
            self._options.get("like_apache", False),
            secrets=self._options.get("acl", {}),
            tls=self._options.get("tls"),
            script=self._script,
        )
        address = Address(self._options.get("host", LOOPBACK), self._options.get("grpc_port", 0))
        return open_proxy(self.state, self.run, address, behaviour)

    # --- in the stub's thread ----------------------------------------------------------------------------------------

    def _masters(self, name: str | None = None) -> list[Broker]:
        return [broker for broker in self.state.find_brokers(name) if broker.is_master]

    def _queues(self, topic: str, broker: str | None, queue_id: int | None = None) -> list[tuple[Broker, int]]:
        """Return master and id of each queue that `put` or `fill` may use; create the topic if no master has it."""
        masters = self._masters(broker)
        if not any(master.topics.find(topic) for master in masters):
            self._check_new(topic)
            for master in masters:
                master.topics.find_or_create(topic, min(DEFAULT_QUEUES, master.settings.default_topic_queues))
        queues = [
            (master, number)
            for master in masters
            if (config := master.topics.find(topic))
            for number in range(config.write_queue_nums)
            if queue_id in (None, number)
        ]
        if not queues:
            ids = {number for master in masters for number in range(_count_queues(master, topic))}
            what = f"topic {topic} has no such queue that takes messages"
            advice = f"its queues are 0 to {max(ids)}" if ids else "give it queues to write to"
            raise OptionError("queue_id", str(queue_id), what, advice=advice)
        return queues

    def _check_new(self, topic: str) -> None:
        """Raise `OptionError` for an illegal name, or a likely typo where clients cannot create topics."""
        check_topic("topic", topic, self.state.release)
        if not self.state.settings.auto_create_topics and (advice := suggest(topic, self._topics())):
            raise OptionError("topic", topic, "no broker has it, and auto_create_topics is off", advice=advice)

    def _topics(self) -> dict[str, int]:
        counts: dict[str, int] = defaultdict(int)
        for master in self._masters():
            for config in master.topics:
                if not master.topics.is_system(config.topic_name):
                    counts[config.topic_name] += config.write_queue_nums
        return dict(sorted(counts.items()))

    def _put(
        self,
        topic: str,
        body: bytes,
        properties: dict[str, str],
        queue_id: int | None,
        broker: str | None,
        store_timestamp: int | None,
    ) -> PutResult:
        queues = self._queues(topic, broker, queue_id)
        chosen, number = queues[next(self._put_turns[topic]) % len(queues)]
        message = self._message(chosen, topic, number, body, properties)
        try:
            stored = chosen.accept(replace(message, store_timestamp=store_timestamp))
        except Refusal as refusal:
            raise BrokerError(str(refusal), response_code=refusal.response.code, topic=topic) from None
        return PutResult(MessageQueue(topic, chosen.name, number), stored.queue_offset, stored.message_id)

    def _message(
        self, broker: Broker, topic: str, queue_id: int, body: bytes, properties: dict[str, str]
    ) -> InnerMessage:
        return InnerMessage(
            topic,
            queue_id,
            body,
            broker.complete_properties(properties),
            born_timestamp=broker.clock.now_ms(),
            born_host=NOWHERE,
        )

    def _find_or_create(self, topic: str, queues: int | None) -> None:
        for master in self._masters():
            made = master.topics.find_or_create(topic, queues or DEFAULT_QUEUES)
            if queues not in (None, made.write_queue_nums):
                what = f"{master.name} has the topic, with {made.write_queue_nums} queues"
                raise OptionError("queues", str(queues), what, advice="leave queues out, or use another topic")

    def _expire(self, master: Broker, topic: str, queue_id: int, offset: int) -> None:
        config = master.topics.find(topic)
        known = range(max(config.read_queue_nums, config.write_queue_nums) if config else 0)
        if queue_id not in known and (topic, queue_id) not in master.store.queues:
            what, advice = f"{master.name} has no such queue of topic {topic}", "name the broker, or another queue"
            raise OptionError("queue_id", str(queue_id), what, advice=advice)
        master.store.expire(topic, queue_id, offset)

    def _fill(self, topic: str, count: int, size: int, tags: str, broker: str | None) -> None:
        by_broker: dict[Broker, list[int]] = defaultdict(list)
        for owner, number in self._queues(topic, broker):
            by_broker[owner].append(number)
        body, given = (
            b"." * size,
            {"UNIQ_KEY": self.state.brokers[0].unique_ids.make(), **({"TAGS": tags} if tags else {})},
        )
        first, rest, left = 0, count, sum(map(len, by_broker.values()))
        for owner, numbers in by_broker.items():
            share = rest * len(numbers) // left
            fill(owner.store, self._message(owner, topic, 0, body, dict(given)), len(numbers), share, first)
            owner.wake_held_pulls(topic, numbers)
            first, rest, left = first + share, rest - share, left - len(numbers)

    def _messages(self, topic: str, queue_id: int | None, broker: str | None) -> list[Record]:
        return [
            record
            for master in self._masters(broker)
            for name, number in sorted(master.store.queues)
            if name == topic and queue_id in (None, number)
            for record in master.store.messages(topic, number)
        ]

    def _move_queue(self, topic: str, source: Broker, target: Broker) -> MessageQueue:
        config = source.topics.find(topic)
        if config is None or not config.write_queue_nums:
            raise OptionError("topic", topic, f"{source.name} has no queue of it", advice="name another topic")
        last = config.write_queue_nums - 1
        known = target.topics.find_or_create(topic, 0, config.perm)
        moved = MessageQueue(topic, target.name, known.write_queue_nums)
        for record in source.store.messages(topic, last):
            target.store.append_record(record, moved.queue_id)
        source.remove_queue(topic)
        target.topics.create(replace(known, read_queue_nums=moved.queue_id + 1, write_queue_nums=moved.queue_id + 1))
        return moved

    def _groups(self) -> dict[str, tuple[str, ...]]:
        members: dict[str, dict[str, None]] = defaultdict(dict)
        for broker in self.state.brokers:
            for name, group in broker.consumer_groups.table.items():
                members[name].update(dict.fromkeys(group.client_ids))
        return {name: tuple(ids) for name, ids in members.items()}

    def _offsets(self, group: str) -> dict[MessageQueue, int]:
        return {
            MessageQueue(topic, broker.name, queue_id): offset
            for broker in self._masters()
            for topic in broker.offsets.topics(group)
            for queue_id, offset in broker.offsets.queues(group, topic).items()
        }


class StubBroker(StubCluster):
    """A stub cluster of a name server and one broker."""

    def __init__(self, topics: Mapping[str, int] | None = None, **options: Unpack[Options]) -> None:
        check_known("StubBroker", options, ["topics", *_FORMS])
        super().__init__(topics=topics, **options)


def _count_queues(broker: Broker, topic: str) -> int:
    """Return the number of a topic's queues at a broker to which messages can be sent."""
    config = broker.topics.find(topic)
    return config.write_queue_nums if config else 0


def _usual_names(count: int) -> list[str]:
    return [f"broker-{_letter_suffix(index)}" for index in range(count)]


def _checked_names(names: Sequence[str]) -> Sequence[str]:
    """Return brokers' names; raise OptionError for one that occurs twice, or that cannot name a directory."""
    for name in names:
        if not _LEGAL_BROKER.fullmatch(name) or names.count(name) > 1:
            advice = "give different names of 1 to 100 characters, without slashes"
            raise OptionError("brokers", name, "not a name for one broker", advice=advice)
    return names


def _letter_suffix(index: int) -> str:
    """Return the letters by which a broker is named: a, b, ... z, then ba, bb ..."""
    more, last = divmod(index, len(ascii_lowercase))
    return (_letter_suffix(more) if more else "") + ascii_lowercase[last]


def _client_connection(broker: Broker, channel: Channel) -> ClientConnection:
    members = [
        *(group.members for group in broker.consumer_groups.table.values()),
        *broker.producer_groups.table.values(),
    ]
    ids = dict.fromkeys(table[channel].client_id for table in members if channel in table)
    return ClientConnection(broker.name, channel.remote, tuple(ids))
