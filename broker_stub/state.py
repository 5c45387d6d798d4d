"""Hold the state of a cluster, without its sockets.

`Cluster` is all brokers, and the name server's own settings and key-value table. `Broker` is one broker process: its
topics, messages, groups and the tables of these. Both are used in the stub's thread only. Other threads pass their
calls to that thread, so the state needs no locks.

A name server's handlers receive the cluster, a broker's handlers receive the broker. The attributes of a broker:

    topics            topic configurations             store, key_index   messages, and their keys
    held_pulls        pulls that wait for a message    offsets            committed offsets
    group_configs     configuration of groups          filters            the groups' SQL92 expressions
    consumer_groups   members and subscriptions        producer_groups    members of producer groups
    locks             queue locks                      delayed_messages   messages that are not due
    half_messages     messages that are not committed
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import replace

from pyspark_rocketmq.errors import OptionError
from pyspark_rocketmq.model import Address
from pyspark_rocketmq.wire.message_id import UniqueIdMaker

from .clock import Clock
from .commit_log import CommitLog
from .delayed_messages import DelayedMessages
from .filters import FilterTable
from .group_tables import ConsumerGroups, GroupConfigs, ProducerGroups
from .half_messages import HalfMessages
from .key_index import KeyIndex
from .lock_table import LockTable
from .long_polling import HeldPulls
from .offset_table import ConsumerOffsets
from .requests import Channel
from .settings import Settings
from .store import InnerMessage, Replica, Store, Stored
from .topic_table import READ_WRITE, Topics

MASTER_ID = 0
REGISTER_INTERVAL_MS = 30_000
"""Milliseconds after which a broker registers again if its topics do not change."""
REGION = "DefaultRegion"
BROKER_PROPERTIES = {"MSG_REGION": REGION, "TRACE_ON": "true"}
"""Properties that a 5.x broker adds to every message, and fields that it adds to every response to a send."""


class Cluster:
    """The state of a cluster: its brokers, and what the name server knows."""

    def __init__(self, settings: Settings, clock: Clock) -> None:
        self.settings = settings
        self.release = settings.release
        self.clock = clock
        self.brokers: list[Broker] = []
        self.values: dict[str, dict[str, str]] = {}
        """Key-value configuration of the name server, by namespace."""
        self.on_values_changed: Callable[[], None] = lambda: None
        self.config = {
            "clusterTest": "false",
            "deleteTopicWithBrokerRegistration": "false",
            "orderMessageEnable": str(settings.order_topics).lower(),
            "productEnvName": "center",
            "returnOrderTopicConfigToBroker": "true",
        }
        """The settings of the name server itself."""
        self.read_only: set[str] = set()
        """Names of brokers whose topics are shown in routes without the write permission."""
        self.forgotten: dict[str, tuple[float, int]] = {}
        """Topics that were deleted at the name server.

        The value is the elapsed time until which a topic stays out of routes, and the number of topic changes at its
        deletion. A further topic change ends this time early.
        """

    def __repr__(self) -> str:
        return f"<Cluster {self.settings.cluster_name}, {self.brokers}>"

    def topic_changes(self) -> int:
        """Return a number that grows whenever a topic of any broker changes.

        A broker registers changed topics again, so a larger number tells the name server of new registrations.
        """
        return sum(broker.topics.version for broker in self.brokers)

    def forget(self, topic: str) -> None:
        """Leave a topic out of routes until a broker registers it again."""
        self.forgotten[topic] = self.clock.elapsed_ms() + REGISTER_INTERVAL_MS, self.topic_changes()

    def is_forgotten(self, topic: str) -> bool:
        """Return whether a topic was deleted at the name server and no broker has registered it since."""
        until_ms, changes = self.forgotten.get(topic, (0.0, 0))
        return self.clock.elapsed_ms() < until_ms and self.topic_changes() == changes

    def reachable_brokers(self) -> list[Broker]:
        """Return the brokers, masters and slaves, that are up."""
        return [broker for broker in self.brokers if broker.is_up]

    def masters(self) -> list[Broker]:
        """Return all masters, whether they are up or not."""
        return [broker for broker in self.brokers if broker.is_master]

    def broker(self, name: str, broker_id: int = MASTER_ID) -> Broker:
        """Return the broker with this name and id; raise OptionError if there is none."""
        for broker in self.brokers:
            if (broker.name, broker.broker_id) == (name, broker_id):
                return broker
        known = ", ".join(sorted({broker.name for broker in self.brokers}))
        raise OptionError("broker", name, f"the stub has no broker {broker_id} of this name", advice=f"it has {known}")

    def find_brokers(self, name: str | None, broker_id: int | None = None) -> list[Broker]:
        """Return the brokers with this name and id, masters and slaves; None stands for any name or id.

        Raise `OptionError` if there is no master with this name.
        """
        if name is not None:
            self.broker(name)
        return [
            broker for broker in self.brokers if name in (None, broker.name) and broker_id in (None, broker.broker_id)
        ]

    def reachable_master(self, name: str) -> Broker | None:
        """Return the master with this name if it is up, else None."""
        return next((broker for broker in self.reachable_brokers() if broker.name == name and broker.is_master), None)


class Broker:
    """The state of one broker, master or slave."""

    def __init__(
        self,
        cluster: Cluster,
        name: str,
        broker_id: int,
        address: Address,
        master: Broker | None = None,
        log: CommitLog | None = None,
    ) -> None:
        settings = cluster.settings
        self.cluster, self.settings, self.release, self.clock = cluster, settings, settings.release, cluster.clock
        self.name, self.broker_id, self.address = name, broker_id, address
        self.is_up = True
        self.permission = READ_WRITE
        self.channels: set[Channel] = set()
        if master is None:
            self.store = Store(self.clock, address, settings.limits, log, ends_properties=self.release.is_5x)
            template_queues = settings.default_topic_queues if settings.auto_create_topics else None
            self.topics = Topics(self.release, settings.cluster_name, name, template_queues)
            self.offsets = ConsumerOffsets()
        else:
            self.store = Replica(master.store, address, lambda: self.settings.offset_check_in_slave)
            self.topics, self.offsets = master.topics, master.offsets
        self.key_index = KeyIndex(self.store)
        self.held_pulls = HeldPulls(self.clock, self.store.max_offset)
        self.filters = FilterTable()
        self.group_configs = GroupConfigs(self.release, auto_create=settings.auto_create_groups)
        self.other_config: dict[str, str] = {}
        """Settings that clients stored and that have no effect on the stub."""
        self.consumer_groups = ConsumerGroups(self.clock, self.group_configs, self.filters, settings.client_expiry_ms)
        self.producer_groups = ProducerGroups(self.clock, settings.client_expiry_ms)
        self.locks = LockTable(self.clock, settings.lock_lease_ms)
        self.delayed_messages = DelayedMessages(
            self.clock,
            self.store,
            self.put,
            settings.delay_levels,
            settings.timer_max_delay_ms if self.release.is_5x else None,
        )
        self.half_messages = HalfMessages(self)
        self.unique_ids = UniqueIdMaker(address.host, os.getpid(), address.port, self.clock.now_ms)

    def __repr__(self) -> str:
        state = "up" if self.is_up else "down"
        return f"<Broker {self.name}:{self.broker_id} at {self.address} {state}, {len(self.channels)} clients>"

    @property
    def is_master(self) -> bool:
        """Whether this broker is a master, which accepts messages."""
        return self.broker_id == MASTER_ID

    def accept(self, message: InnerMessage) -> Stored:
        """Store a message at once, or keep it as a delayed message until it is due."""
        return self.delayed_messages.accept(message)

    def put(self, message: InnerMessage) -> Stored:
        """Store a message at once, and run the held pulls that wait for it."""
        stored = self.store.put(message)
        self.held_pulls.message_arrived((message.topic, message.queue_id), message.queue_code(), message.properties)
        return stored

    def complete_properties(self, properties: dict[str, str], *, is_batch: bool = False) -> dict[str, str]:
        """Add the properties that a broker sets to a message's own, and return them all.

        Only 5.x adds a unique id if it is missing, but none to a batch as a whole.
        """
        if self.release.is_5x:
            properties.update(BROKER_PROPERTIES)
            if not (is_batch or properties.get("UNIQ_KEY")):
                properties["UNIQ_KEY"] = self.unique_ids.make()
            properties.pop("POP_CK", None)
        properties["CLUSTER"] = self.settings.cluster_name
        return properties

    def wake_held_pulls(self, topic: str, queue_ids: Iterable[int]) -> None:
        """Run all pulls that are held at these queues; called after messages were stored there in bulk."""
        for queue_id in queue_ids:
            self.held_pulls.message_arrived((topic, queue_id), None, None)

    def remove_queue(self, topic: str) -> None:
        """Remove the last queue of a topic, with its messages; do nothing at a slave, or if the topic is missing."""
        if not self.is_master or (config := self.topics.find(topic)) is None:
            return
        queue_id = max(config.read_queue_nums, config.write_queue_nums) - 1
        self.store.remove_queue(topic, queue_id)
        self.topics.create(
            replace(
                config,
                read_queue_nums=min(config.read_queue_nums, queue_id),
                write_queue_nums=min(config.write_queue_nums, queue_id),
            )
        )

    def set_lag(self, messages: int) -> None:
        """Make a slave lag behind its master by this number of messages in each queue; do nothing at a master."""
        if isinstance(self.store, Replica):
            self.store.lag = messages

    def forget_clients(self) -> None:
        """Drop locks, members, held pulls and unwritten ends, which a broker keeps in memory only."""
        self.locks.clear()
        self.half_messages.forget_unwritten()
        for channel in list(self.channels):
            self.channel_closed(channel)

    def channel_closed(self, channel: Channel) -> None:
        """Drop a closed connection with its memberships in groups and its held pulls."""
        self.channels.discard(channel)
        self.held_pulls.drop(channel)
        self.consumer_groups.channel_closed(channel)
        self.producer_groups.channel_closed(channel)
