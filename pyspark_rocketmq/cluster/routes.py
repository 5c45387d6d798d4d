"""Where are the queues of a topic, as of one moment?

A `Route` is an immutable snapshot of what a name server said: queues that may be read, queues that may be
written, and where the brokers that hold them listen. Nothing here asks anybody; a newer moment is a new `Route`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

from ..errors import MalformedFrame, NoBrokerAvailable, OptionError, QueueMoved, StaticTopicUnsupported
from ..model import Address, MessageQueue, parse_address, sort_queues
from ..wire.bodies import BrokerData, QueueData, TopicRouteData

MASTER_ID = 0
PERM_READ, PERM_WRITE = 4, 2


# --- addresses -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AddressMap:
    """How to reach brokers that advertise addresses which are of no use here."""

    entries: tuple[tuple[Address, Address], ...] = ()
    other: Address | None = None
    """Where all brokers without an entry are reached, if not where they say."""

    @classmethod
    def parse(cls, text: str, option: str = "brokerAddressMap") -> AddressMap:
        """Read a JSON object, advertised to reachable `host:port`; the key `*` stands for all others."""
        try:
            given = json.loads(text)
            pairs = [(str(key), parse_address(value, option)) for key, value in given.items()]
        except (ValueError, AttributeError) as cause:
            if isinstance(cause, OptionError):
                raise
            raise OptionError(
                option, text, "not a map of addresses", advice='give {"host:port": "host:port"}'
            ) from cause
        entries = tuple((parse_address(key, option), value) for key, value in pairs if key != "*")
        return cls(entries, dict(pairs).get("*"))

    def reach(self, advertised: Address) -> Address:
        """Where to find the broker that advertises this address."""
        return dict(self.entries).get(advertised, self.other or advertised)


class Place(NamedTuple):
    """One broker process of a broker name: its number and where it listens."""

    broker_id: int
    address: Address

    @property
    def is_master(self) -> bool:
        """Whether it takes writes."""
        return self.broker_id == MASTER_ID


@dataclass(frozen=True, slots=True)
class BrokerPlaces:
    """Where the processes of one broker name listen: the master, number 0, and its replicas."""

    broker_name: str
    cluster: str
    places: tuple[Place, ...]
    """In the order of their numbers."""

    def master(self) -> Address:
        """Where the master listens."""
        for place in self.places:
            if place.is_master:
                return place.address
        raise NoBrokerAvailable(
            "the broker has no master now",
            advice="start it, or wait until a replica takes over",
            broker=self.broker_name,
        )

    def to_read(self, suggested_id: int = MASTER_ID) -> Place:
        """Where to read when this process is suggested: there, else (for a replica) at the next, else anywhere."""
        by_id = {place.broker_id: place for place in self.places}
        wanted = [suggested_id] if suggested_id == MASTER_ID else [suggested_id, suggested_id + 1]
        for broker_id in wanted:
            if broker_id in by_id:
                return by_id[broker_id]
        if self.places:
            return self.places[0]
        raise NoBrokerAvailable("no process of the broker is registered", advice="start it", broker=self.broker_name)


def broker_places(data: BrokerData, address_map: AddressMap) -> BrokerPlaces:
    """The places a name server names for one broker."""
    try:
        found = [Place(number, address_map.reach(parse_address(text))) for number, text in data.broker_addrs.items()]
    except OptionError as cause:
        raise MalformedFrame(
            f"the broker is registered with addresses that are none: {data.broker_addrs}", broker=data.broker_name
        ) from cause
    return BrokerPlaces(data.broker_name, data.cluster or "", tuple(sorted(found)))


# --- routes ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Route:
    """The queues of a topic and the brokers that hold them, as of one moment."""

    topic: str
    readable: tuple[MessageQueue, ...]
    """Queues that may be read, sorted as RocketMQ sorts them."""
    writable: tuple[MessageQueue, ...]
    """Queues that may be written, sorted; those of an order-topic configuration if there is one."""
    brokers: Mapping[str, BrokerPlaces]

    def broker(self, broker_name: str) -> BrokerPlaces:
        """The places of a broker that holds queues of this topic."""
        try:
            return self.brokers[broker_name]
        except KeyError:
            raise QueueMoved(
                "the route does not name the broker any more",
                advice="it may be down; it comes back into the route when it registers again",
                topic=self.topic,
                broker=broker_name,
            ) from None


def make_route(topic: str, data: TopicRouteData, address_map: AddressMap) -> Route:
    """The snapshot that a name server's answer describes; `topic` is our name for it."""
    if data.topic_queue_mapping_by_broker:
        raise StaticTopicUnsupported(
            "the topic is static: its queue numbers and offsets are logical ones",
            advice="read a topic with ordinary queues",
            topic=topic,
        )
    brokers = {broker.broker_name: broker_places(broker, address_map) for broker in data.broker_datas}
    return Route(
        topic=topic,
        readable=tuple(sort_queues(_readable(topic, data.queue_datas))),
        writable=tuple(sort_queues(_writable(topic, data, brokers))),
        brokers=MappingProxyType(brokers),
    )


def _readable(topic: str, held: Iterable[QueueData]) -> Iterator[MessageQueue]:
    for data in held:
        if data.perm & PERM_READ:
            yield from _queues(topic, data.broker_name, data.read_queue_nums)


def _writable(topic: str, data: TopicRouteData, brokers: Mapping[str, BrokerPlaces]) -> Iterator[MessageQueue]:
    if data.order_topic_conf:
        yield from _ordered(topic, data.order_topic_conf)
        return
    with_master = {name for name, broker in brokers.items() if any(place.is_master for place in broker.places)}
    for held in data.queue_datas:
        if held.perm & PERM_WRITE and held.broker_name in with_master:
            yield from _queues(topic, held.broker_name, held.write_queue_nums)


def _ordered(topic: str, configuration: str) -> Iterator[MessageQueue]:
    """The queues of an order-topic configuration, `broker-a:4;broker-b:4`."""
    for entry in filter(None, configuration.split(";")):
        broker_name, colon, count = entry.partition(":")
        if not (colon and count.isascii() and count.isdigit()):
            raise MalformedFrame(f"unreadable order configuration '{configuration}'", topic=topic)
        yield from _queues(topic, broker_name, int(count))


def _queues(topic: str, broker_name: str, count: int) -> Iterator[MessageQueue]:
    return (MessageQueue(topic, broker_name, number) for number in range(count))
