"""Keep the configuration and the members of consumer and producer groups.

- `GroupConfigs`: the configuration of each consumer group; a query for a missing group creates it.
- `ConsumerGroups`: members and subscriptions. A member is a connection, so a client id that is connected twice is
listed twice. A group has one subscription table for all members, which the latest heartbeat replaces: members with
different subscriptions overwrite each other's. When a member joins, leaves or changes its topics, the broker notifies
all members (NOTIFY_CONSUMER_IDS_CHANGED), except in groups that broadcast.
- `ProducerGroups`: the connections of each producer group.

If the heartbeats on a connection stop, its membership expires and the connection is closed. A connection that never
sent a heartbeat stays open.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark_rocketmq.wire.bodies import ConsumerData, GroupRetryPolicy, SubscriptionData, SubscriptionGroupConfig
from pyspark_rocketmq.wire.codes import LanguageCode, RequestCode
from pyspark_rocketmq.wire.commands import NotifyConsumerIdsChangedRequestHeader

from .changes import OnChange, ignore_change
from .clock import Clock
from .filters import FilterTable
from .releases import Release
from .requests import Channel

SCAN_MS = 10_000
EXPIRY_MS = 120_000
BROADCASTING = "BROADCASTING"
SYSTEM_GROUP_PREFIX = "CID_RMQ_SYS_"

_LEGAL_NAME = re.compile(r"[%|a-zA-Z0-9_-]{1,255}")
_SYSTEM_GROUPS = ("TOOLS_CONSUMER", "FILTERSRV_CONSUMER", "SELF_TEST_C_GROUP")
_SYSTEM_BROADCAST_GROUPS = ("CID_ONS-HTTP-PROXY", "CID_ONSAPI_PULL", "CID_ONSAPI_PERMISSION", "CID_ONSAPI_OWNER")
_TRANSACTION_GROUP = "CID_RMQ_SYS_TRANS"


# --- configuration ---------------------------------------------------------------------------------------------------


class GroupConfigs:
    """The configurations of consumer groups at one broker."""

    def __init__(self, release: Release, *, auto_create: bool = True) -> None:
        self.auto_create = auto_create
        self.change_count = 0
        """Number of changes of the table, which brokers send as its data version."""
        self.on_change: OnChange = ignore_change
        self._release = release
        system = (*_SYSTEM_GROUPS, *_SYSTEM_BROADCAST_GROUPS, *([_TRANSACTION_GROUP] if release.is_5x else []))
        self.table = {name: self._adapt_to_release(SubscriptionGroupConfig(group_name=name)) for name in system}

    def find(self, group: str) -> SubscriptionGroupConfig | None:
        """Return a group's configuration; create a missing group if settings and name allow it, else return None."""
        if group not in self.table and self._may_create(group):
            self.update(SubscriptionGroupConfig(group_name=group))
        return self.table.get(group)

    def update(self, config: SubscriptionGroupConfig) -> None:
        """Create the group with this configuration, or replace its configuration."""
        self.table[config.group_name] = adapted = self._adapt_to_release(config)
        self.change_count += 1
        self.on_change("group", adapted)

    def delete(self, group: str) -> None:
        """Delete a group's configuration; a later `find` may create the group again."""
        if self.table.pop(group, None):
            self.change_count += 1
            self.on_change("drop-group", group)

    def _may_create(self, group: str) -> bool:
        if self._release.is_5x and not is_legal_name(group):
            return False
        return self.auto_create or group.startswith(SYSTEM_GROUP_PREFIX)

    def _adapt_to_release(self, config: SubscriptionGroupConfig) -> SubscriptionGroupConfig:
        """Return the configuration with exactly the fields that the emulated release has."""
        defaults: dict[str, Any] = {
            "consume_message_orderly": False,
            "group_retry_policy": GroupRetryPolicy(),
            "group_sys_flag": 0,
            "consume_timeout_minute": 15,
            "attributes": {},
        }
        missing = {name: value for name, value in defaults.items() if getattr(config, name) is None}
        return replace(config, **(missing if self._release.is_5x else dict.fromkeys(defaults)))


def is_legal_name(group: str) -> bool:
    """Return whether a consumer group may have this name."""
    return _LEGAL_NAME.fullmatch(group) is not None


# --- members ---------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Member:
    """One client on one connection, as a member of a group."""

    channel: Channel
    client_id: str
    language: LanguageCode | None
    version: int
    seen_ms: float = 0.0


@dataclass(slots=True)
class ConsumerGroup:
    """The members and subscriptions of one consumer group."""

    name: str
    consume_type: str
    message_model: str
    consume_from_where: str
    members: dict[Channel, Member] = field(default_factory=dict)
    subscriptions: dict[str, SubscriptionData] = field(default_factory=dict)

    @property
    def client_ids(self) -> list[str]:
        """Client ids of the members, one for each connection."""
        return [member.client_id for member in self.members.values()]

    def find_member(self, client_id: str) -> Member | None:
        """Return the first member with this client id; None if the group has none."""
        return next((member for member in self.members.values() if member.client_id == client_id), None)

    def join(self, member: Member, data: ConsumerData) -> bool:
        """Add or update a member by its heartbeat; return whether its connection is new.

        The heartbeat's consume type, message model and starting point apply to the whole group.
        """
        self.consume_type, self.message_model = data.consume_type, data.message_model
        self.consume_from_where = data.consume_from_where
        is_new = member.channel not in self.members
        self.members[member.channel] = member
        return is_new

    def subscribe(self, subscriptions: Iterable[SubscriptionData]) -> bool:
        """Replace a group's subscriptions by those of a heartbeat; return whether the set of topics changed.

        The subscription to a topic that is already known stays, unless the new one has a higher version.
        """
        wanted = {subscription.topic: subscription for subscription in subscriptions}
        changed = wanted.keys() != self.subscriptions.keys()
        kept = {topic: self.subscriptions[topic] for topic in self.subscriptions if topic in wanted}
        for topic, subscription in wanted.items():
            if topic not in kept or subscription.sub_version > kept[topic].sub_version:
                kept[topic] = subscription
        self.subscriptions = kept
        return changed


class ConsumerGroups:
    """The consumer groups that have members at one broker."""

    def __init__(self, clock: Clock, configs: GroupConfigs, filters: FilterTable, expiry_ms: float = EXPIRY_MS) -> None:
        self.table: dict[str, ConsumerGroup] = {}
        self.named_topics: set[str] = set()
        """All topics that any heartbeat has named so far."""
        self._clock = clock
        self._configs = configs
        self._filters = filters
        self._fingerprints: dict[str, int] = {}
        self._expiry_scan = _ExpiryScan(clock, self._members, self._expire, expiry_ms)

    def heartbeat(self, member: Member, data: ConsumerData, *, without_subscriptions: bool = False) -> None:
        """Add or update a member of a group, and notify the members if it is new or the group's topics changed.

        They are not notified if the group broadcasts, or if its configuration forbids notifications. With
        `without_subscriptions` the group's subscriptions stay as they are.
        """
        group = self.table.setdefault(
            data.group_name,
            ConsumerGroup(data.group_name, data.consume_type, data.message_model, data.consume_from_where),
        )
        member.seen_ms = self._clock.elapsed_ms()
        changed = group.join(replace(member), data)
        if not without_subscriptions:
            self.named_topics.update(subscription.topic for subscription in data.subscription_data_set)
            changed |= group.subscribe(data.subscription_data_set)
            self._filters.register(data.group_name, data.subscription_data_set)
        if changed:
            self._notify_if_wanted(group)
        self._expiry_scan.start()

    def exchange_fingerprint(self, group: str, fingerprint: int) -> bool:
        """Store the fingerprint (hash) of a group's subscriptions; return whether it replaces a different one."""
        known = self._fingerprints.get(group)
        self._fingerprints[group] = fingerprint
        return known is not None and known != fingerprint

    def leave(self, group_name: str, channel: Channel) -> None:
        """Remove an unregistering client from a group, and notify the remaining members.

        They are not notified if the group broadcasts, or if its configuration forbids notifications.
        """
        group = self.table.get(group_name)
        if group:
            group.members.pop(channel, None)
            self._drop_if_empty(group)
            self._notify_if_wanted(group)

    def channel_closed(self, channel: Channel) -> None:
        """Remove a closed connection from all groups, and notify the remaining members.

        Members are notified even if the group's configuration forbids notifications, but not if the group broadcasts.
        """
        for group in list(self.table.values()):
            if group.members.pop(channel, None):
                self._drop_if_empty(group)
                if group.message_model != BROADCASTING:
                    self._notify(group)

    def forget(self, group_name: str) -> None:
        """Drop a group's members and subscriptions without a notification."""
        self.table.pop(group_name, None)

    def topics_of(self, group_name: str) -> list[str]:
        """Return the topics that a group subscribes to; none if it has no members."""
        return list(self.table[group_name].subscriptions) if group_name in self.table else []

    def _notify_if_wanted(self, group: ConsumerGroup) -> None:
        config = self._configs.find(group.name)
        if group.message_model != BROADCASTING and (config is None or config.notify_consumer_ids_changed_enable):
            self._notify(group)

    def _notify(self, group: ConsumerGroup) -> None:
        header = NotifyConsumerIdsChangedRequestHeader(consumer_group=group.name)
        for channel in list(group.members):
            channel.send_oneway(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, header)

    def _drop_if_empty(self, group: ConsumerGroup) -> None:
        if not group.members:
            self.table.pop(group.name, None)

    def _members(self) -> Iterator[Member]:
        for group in self.table.values():
            yield from group.members.values()

    def _expire(self, silent: Member) -> None:
        """Remove a member whose heartbeats stopped; do not notify the other members of its groups."""
        for group in list(self.table.values()):
            if group.members.get(silent.channel) is silent:
                del group.members[silent.channel]
                self._drop_if_empty(group)


class ProducerGroups:
    """The producer groups that have members at one broker."""

    def __init__(self, clock: Clock, expiry_ms: float = EXPIRY_MS) -> None:
        self.table: dict[str, dict[Channel, Member]] = {}
        self._clock = clock
        self._by_client: dict[str, Channel] = {}
        self._turn = 0
        self._expiry_scan = _ExpiryScan(clock, self._members, self._expire, expiry_ms)

    def heartbeat(self, member: Member, group: str) -> None:
        """Add a producer to a group, or keep its membership alive."""
        members = self.table.setdefault(group, {})
        if member.channel not in members:
            members[member.channel] = replace(member)
            self._by_client[member.client_id] = member.channel
        members[member.channel].seen_ms = self._clock.elapsed_ms()
        self._expiry_scan.start()

    def leave(self, group: str, client_id: str, channel: Channel) -> None:
        """Remove an unregistering client from a group."""
        members = self.table.get(group)
        if members:
            members.pop(channel, None)
            self._by_client.pop(client_id, None)
            self._drop_if_empty(group)

    def channel_closed(self, channel: Channel) -> None:
        """Remove a closed connection from all groups."""
        for group, members in list(self.table.items()):
            member = members.pop(channel, None)
            if member:
                self._by_client.pop(member.client_id, None)
                self._drop_if_empty(group)

    def find_client(self, client_id: str) -> Channel | None:
        """Return the connection of the client with this id, in any group; None if it is not connected."""
        return self._by_client.get(client_id)

    def pick(self, group: str) -> Channel | None:
        """Return the group's next connection in turn; None if the group has no members."""
        channels = list(self.table.get(group, ()))
        self._turn += 1
        return channels[self._turn % len(channels)] if channels else None

    def _expire(self, silent: Member) -> None:
        self.channel_closed(silent.channel)

    def _drop_if_empty(self, group: str) -> None:
        if not self.table[group]:
            del self.table[group]

    def _members(self) -> Iterator[Member]:
        for members in self.table.values():
            yield from members.values()


class _ExpiryScan:
    """Removes members whose heartbeats stopped, and closes their connections; runs only while there are members."""

    def __init__(
        self,
        clock: Clock,
        members: Callable[[], Iterator[Member]],
        expire: Callable[[Member], None],
        expiry_ms: float,
    ) -> None:
        self._clock = clock
        self._members = members
        self._expire = expire
        self._expiry_ms = expiry_ms
        self._running = False

    def start(self) -> None:
        """Start the periodic scan for members whose heartbeats stopped; do nothing if it runs already."""
        if not self._running:
            self._running = True
            self._clock.call_later(SCAN_MS, self._scan)

    def _scan(self) -> None:
        now = self._clock.elapsed_ms()
        for member in [member for member in self._members() if now - member.seen_ms > self._expiry_ms]:
            self._expire(member)
            member.channel.close()
        self._running = False
        if any(True for _ in self._members()):
            self.start()
