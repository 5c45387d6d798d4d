"""What does a cluster know, apart from its sockets?

`Cluster` is what a name server sees: the brokers that are up, and its own key-value table. `Broker` is one broker:
its topics, its store, its groups, and the tables that go with them. Both live in one thread, the server's; whoever
calls from outside is brought there first, so nothing here is locked.

A broker is handed to every handler. What its parts are for:

    topics        topic configurations, and the rules by which topics come into being
    store         the messages                      offsets       where groups stand
    held          pulls that wait for a message     groups        members, subscriptions, configurations
    locks         who holds which queue             delays        messages that are not due yet
    transactions  half messages                     acl           who may ask at all
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pyspark_rocketmq.model import Address

from .clock import Clock
from .registry import Channel
from .releases import Release, find_release
from .store import InnerMessage, PullLimits, Store, Stored

MASTER_ID = 0


@dataclass(frozen=True, slots=True)
class Settings:
    """How the brokers of a cluster are configured; the defaults are a real broker's, unless said."""

    release: Release = field(default_factory=lambda: find_release("5.3.3"))
    cluster_name: str = "DefaultCluster"
    auto_create_topics: bool = True
    auto_create_groups: bool = True
    default_topic_queues: int = 8
    property_filter: bool = True
    """Whether SQL92 is allowed; a real broker's default is no."""
    slave_reads: bool = True
    """Whether slaves serve pulls; a real 5.x slave's default is no."""
    server_side_reset: bool = True
    recall_messages: bool = False
    first_message_in_memory: bool = True
    """Whether a group without an offset starts at 0 in a queue whose first message is still there."""
    long_polling: bool = True
    max_message_bytes: int = 4 * 1024 * 1024
    lock_lease_ms: int = 60_000
    client_expiry_ms: int = 120_000
    transaction_timeout_ms: int = 6_000
    transaction_check_interval_ms: int = 30_000
    transaction_check_max: int = 15
    delay_levels: str = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
    timer_max_delay_ms: int = 3 * 24 * 3600 * 1000
    limits: PullLimits = PullLimits()


class Cluster:
    """What the name server sees."""

    def __init__(self, settings: Settings, clock: Clock) -> None:
        self.settings = settings
        self.clock = clock
        self.brokers: list[Broker] = []
        self.values: dict[str, dict[str, str]] = {}
        """Key-value configuration by namespace."""


class Broker:
    """One broker, master or slave."""

    def __init__(self, cluster: Cluster, name: str, broker_id: int, address: Address) -> None:
        self.cluster = cluster
        self.settings = cluster.settings
        self.release = cluster.settings.release
        self.clock = cluster.clock
        self.name = name
        self.broker_id = broker_id
        self.address = address
        self.is_up = True
        self.store = Store(self.clock, address, self.settings.limits)
        self.channels: set[Channel] = set()

    def put(self, message: InnerMessage) -> Stored:
        """Store a message as a broker does: delayed ones aside, waiting pulls woken."""
        raise NotImplementedError

    def channel_closed(self, channel: Channel) -> None:
        """A client has gone: forget what hung on its connection."""
        raise NotImplementedError
