"""Hold the queues of a topic and the addresses of their brokers, at one moment.

A `Route` is an immutable snapshot of a name server's reply: queues that may be read, queues that may be written, and
the addresses of the brokers that hold them. Nothing here sends a request; a change gives a new `Route`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from reprlib import repr as shorten
from types import MappingProxyType
from typing import NamedTuple

from ..errors import (
    MOST_NAME,
    LimitExceeded,
    MalformedFrame,
    NoBrokerAvailable,
    OptionError,
    QueueMoved,
    StaticTopicUnsupported,
)
from ..model import Address, MessageQueue, parse_address, sort_queues
from ..wire.bodies import BrokerData, QueueData, TopicRouteData

MOST_QUEUES = 100_000
"""Largest number of queues of one topic: a name server reports only a number, but each queue becomes an object."""
MOST_ENDPOINTS = 10_000
"""Largest number of broker processes that one reply may name."""
MASTER_ID = 0
PERM_READ, PERM_WRITE = 4, 2
_MOST_DIGITS = 18


# --- addresses -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AddressMap:
    """Addresses to use instead of those that brokers advertise, where these cannot be reached from here."""

    entries: tuple[tuple[Address, Address], ...] = ()
    other: Address | None = None
    """Address of all brokers without an entry; None: use the address that they advertise."""

    def reach(self, advertised: Address) -> Address:
        """Return the address to use for a broker that advertises this address."""
        return dict(self.entries).get(advertised, self.other or advertised)

    @property
    def targets(self) -> tuple[Address, ...]:
        """The addresses that are used instead of advertised ones."""
        return (*(target for _, target in self.entries), *filter(None, [self.other]))


class BrokerEndpoint(NamedTuple):
    """One process of a broker: its number and its address."""

    broker_id: int
    address: Address

    @property
    def is_master(self) -> bool:
        """Whether this process is the master, which accepts writes."""
        return self.broker_id == MASTER_ID


@dataclass(frozen=True, slots=True)
class BrokerEndpoints:
    """The processes of one broker: the master, whose number is 0, and its replicas."""

    broker_name: str
    cluster: str
    endpoints: tuple[BrokerEndpoint, ...]
    """The processes, sorted by number."""

    def master(self) -> Address:
        """Return the master's address; raise `NoBrokerAvailable` if there is no master."""
        for place in self.endpoints:
            if place.is_master:
                return place.address
        raise NoBrokerAvailable(
            "the broker has no master now",
            advice="start it, or wait until a replica takes over",
            broker=self.broker_name,
        )

    def to_read(self, suggested_id: int = MASTER_ID) -> BrokerEndpoint:
        """Return the process to read from: the one with the number `suggested_id` (0: the master) if it exists.

        If that is a missing replica, return the one with the next higher number. If that is missing, too, or the
        missing process is the master, return the process with the lowest number.
        """
        by_id = {place.broker_id: place for place in self.endpoints}
        wanted = [suggested_id] if suggested_id == MASTER_ID else [suggested_id, suggested_id + 1]
        for broker_id in wanted:
            if broker_id in by_id:
                return by_id[broker_id]
        if self.endpoints:
            return self.endpoints[0]
        raise NoBrokerAvailable("no process of the broker is registered", advice="start it", broker=self.broker_name)


def broker_endpoints(data: BrokerData, address_map: AddressMap) -> BrokerEndpoints:
    """Return the processes of one broker, given its part of a name server's reply."""
    _require_name(data.broker_name)
    try:
        found = [
            BrokerEndpoint(number, address_map.reach(parse_address(text))) for number, text in data.broker_addrs.items()
        ]
    except OptionError as cause:
        raise MalformedFrame(
            f"the broker is registered with broken addresses: {shorten(data.broker_addrs)}",
            broker=data.broker_name,
        ) from cause
    return BrokerEndpoints(data.broker_name, data.cluster or "", tuple(sorted(found)))


def all_broker_endpoints(named: Iterable[BrokerData], address_map: AddressMap) -> tuple[BrokerEndpoints, ...]:
    """Return the processes of the brokers that a name server's reply names; raise if there are too many processes."""
    named = tuple(named)
    if (count := sum(len(data.broker_addrs) for data in named)) > MOST_ENDPOINTS:
        raise LimitExceeded(
            f"the reply names {count} broker processes, the limit is {MOST_ENDPOINTS}",
            advice="check which brokers are registered at the name server",
        )
    return tuple(broker_endpoints(data, address_map) for data in named)


def _require_name(broker_name: str) -> None:
    """Raise unless a broker's name is one line of limited length; RocketMQ has no other rule for it."""
    if not broker_name.isprintable() or len(broker_name) > MOST_NAME:
        raise MalformedFrame(
            f"a broker's name is longer than {MOST_NAME} characters or has control characters", broker=broker_name
        )


# --- routes ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Route:
    """The queues of a topic and the brokers that hold them, at one moment."""

    topic: str
    readable: tuple[MessageQueue, ...]
    """Queues that may be read, sorted as RocketMQ sorts them."""
    writable: tuple[MessageQueue, ...]
    """Queues that may be written, sorted. If the topic has an order configuration, these are the queues in it."""
    brokers: Mapping[str, BrokerEndpoints]

    @property
    def weight(self) -> int:
        """The memory that the route takes in a table of routes, counted in queues and broker processes."""
        return len(self.readable) + len(self.writable) + sum(len(broker.endpoints) for broker in self.brokers.values())

    def broker(self, broker_name: str) -> BrokerEndpoints:
        """Return the processes of a broker, by its name; raise `QueueMoved` if the route does not name this broker."""
        try:
            return self.brokers[broker_name]
        except KeyError:
            raise QueueMoved(
                "the route no longer names the broker",
                advice="check that it runs; it comes back into the route when it registers again",
                topic=self.topic,
                broker=broker_name,
            ) from None


def make_route(topic: str, data: TopicRouteData, address_map: AddressMap) -> Route:
    """Return the route that a name server's reply describes; `topic` is the user's name of the topic."""
    if data.topic_queue_mapping_by_broker:
        raise StaticTopicUnsupported(
            "the topic is static: its queue numbers and offsets are logical ones",
            advice="read a topic with ordinary queues",
            topic=topic,
        )
    brokers = {broker.broker_name: broker for broker in all_broker_endpoints(data.broker_datas, address_map)}
    return Route(
        topic=topic,
        readable=_queues(topic, "readQueueNums", _readable(data.queue_datas)),
        writable=_queues(topic, "orderTopicConf or writeQueueNums", _writable(topic, data, brokers)),
        brokers=MappingProxyType(brokers),
    )


_Held = Iterator[tuple[str, int]]
"""Pairs of a broker name and its number of queues."""


def _readable(held: Iterable[QueueData]) -> _Held:
    return ((data.broker_name, data.read_queue_nums) for data in held if data.perm & PERM_READ)


def _writable(topic: str, data: TopicRouteData, brokers: Mapping[str, BrokerEndpoints]) -> _Held:
    if data.order_topic_conf:
        return _ordered(topic, data.order_topic_conf)
    with_master = {name for name, broker in brokers.items() if any(place.is_master for place in broker.endpoints)}
    return (
        (held.broker_name, held.write_queue_nums)
        for held in data.queue_datas
        if held.perm & PERM_WRITE and held.broker_name in with_master
    )


def _ordered(topic: str, configuration: str) -> _Held:
    """Yield (broker name, count of queues) pairs from an order configuration such as `broker-a:4;broker-b:4`."""
    for entry in filter(None, configuration.split(";")):
        broker_name, colon, count = entry.partition(":")
        if not (colon and count.isascii() and count.isdigit() and len(count) <= _MOST_DIGITS):
            raise MalformedFrame(f"unreadable order configuration '{entry:.100}'", topic=topic)
        yield broker_name, int(count)


def _queues(topic: str, source: str, held: _Held) -> tuple[MessageQueue, ...]:
    """Return all queues of a topic, sorted, given (broker name, count of queues) pairs; errors name their `source`."""
    counts, total = list[tuple[str, int]](), 0
    for broker_name, count in held:
        _require_name(broker_name)
        counts.append((broker_name, count))
        total += max(0, count)
        if total > MOST_QUEUES:
            raise LimitExceeded(
                f"{source} make a route of at least {total} queues, the limit is {MOST_QUEUES}",
                advice="check the topic's configuration at this broker",
                topic=topic,
                broker=broker_name,
            )
    return tuple(sort_queues(MessageQueue(topic, name, number) for name, count in counts for number in range(count)))
