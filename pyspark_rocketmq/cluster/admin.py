"""Send an administrator's requests: read and change topics, groups, statistics and settings.

Each broker keeps topics and groups of its own. So changes go to every master, or to the named ones; reads go to one
broker, or merge the replies of all.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from ..broker_errors import TopicNotExist
from ..errors import NoBrokerAvailable
from ..model import MessageQueue, retry_topic
from ..net.deadline import Deadline
from ..wire.bodies import (
    ConsumeMessageDirectlyResult,
    ConsumerRunningInfo,
    ConsumeStats,
    GroupList,
    KVTable,
    OffsetWrapper,
    QueryConsumeTimeSpanBody,
    QueueTimeSpan,
    ResetOffsetBody,
    SubscriptionGroupConfig,
    SubscriptionGroupWrapper,
    TopicConfig,
    TopicConfigSerializeWrapper,
    TopicList,
    TopicOffset,
    TopicStatsTable,
    encode_body,
)
from ..wire.commands import (
    ConsumeMessageDirectlyResultRequestHeader,
    CreateTopicRequestHeader,
    DeleteSubscriptionGroupRequestHeader,
    DeleteTopicRequestHeader,
    GetAllSubscriptionGroupRequestHeader,
    GetAllTopicConfigRequestHeader,
    GetBrokerConfigRequestHeader,
    GetBrokerRuntimeInfoRequestHeader,
    GetConsumerRunningInfoRequestHeader,
    GetConsumeStatsRequestHeader,
    GetSubscriptionGroupConfigRequestHeader,
    GetTopicConfigRequestHeader,
    GetTopicStatsInfoRequestHeader,
    QueryConsumeTimeSpanRequestHeader,
    QueryTopicConsumeByWhoRequestHeader,
    QueryTopicsByConsumerRequestHeader,
    RequestHeader,
    ResetOffsetRequestHeader,
    UpdateBrokerConfigRequestHeader,
    UpdateSubscriptionGroupRequestHeader,
)
from .broker import Brokers, to_queue
from .nameserver import NameServers
from .routes import BrokerEndpoints
from .servers import Reply
from .survey import read_settings
from .writable import TEMPLATE_TOPIC


class Admin:
    """An administrator's requests about topics, groups, statistics and settings of a whole cluster."""

    def __init__(self, brokers: Brokers, name_servers: NameServers) -> None:
        self._brokers = brokers
        self._name_servers = name_servers
        self._namespace = brokers.settings.namespace

    # --- topics ------------------------------------------------------------------------------------------------------

    def create_topic(
        self, config: TopicConfig, broker_names: Collection[str] = (), deadline: Deadline | None = None
    ) -> None:
        """Create or change a topic at the named masters, or at all masters.

        An existing topic gets all values of `config`, but attributes that `config` leaves out are kept.
        """
        attributes = config.attributes or {}
        header = CreateTopicRequestHeader(
            topic=config.topic_name,
            default_topic=TEMPLATE_TOPIC,
            read_queue_nums=config.read_queue_nums,
            write_queue_nums=config.write_queue_nums,
            perm=config.perm,
            topic_filter_type=config.topic_filter_type,
            order=config.order,
            topic_sys_flag=config.topic_sys_flag,
            attributes=",".join(f"+{name}={value}" for name, value in attributes.items()),
        )
        self._ask_masters(header, broker_names, deadline)
        self._brokers.routes.expire(config.topic_name)

    def delete_topic(self, topic: str, deadline: Deadline | None = None) -> None:
        """Delete a topic from all masters and name servers."""
        self._ask_masters(DeleteTopicRequestHeader(topic=topic), (), deadline)
        self._name_servers.delete_topic(topic, deadline)
        self._brokers.routes.expire(topic)

    def fetch_topic_config(self, topic: str, deadline: Deadline | None = None) -> dict[str, TopicConfig]:
        """Return a topic's configuration at each broker that has it, by broker name; brokers must be of 5.x.

        A replica tells it if there is no master.
        """
        header = GetTopicConfigRequestHeader(topic=topic)
        replies = self._brokers.ask_each(topic, header, absent=(TopicNotExist,), any_copy=True, deadline=deadline)
        configs = {name: reply.body(TopicConfig) for name, reply in replies.items()}
        return {name: replace(config, topic_name=topic) for name, config in configs.items()}

    def is_compacted(self, topic: str, broker_name: str) -> bool | None:
        """Return whether a topic is compacted; None if its broker does not tell. The broker's first answer is kept."""
        return self._brokers.compacted.is_compacted(topic, broker_name)

    def fetch_topic_configs(self, broker_name: str, deadline: Deadline | None = None) -> dict[str, TopicConfig]:
        """Return the configurations of all topics of one broker, by the cluster's names of the topics."""
        reply = self._ask_master(broker_name, GetAllTopicConfigRequestHeader(), deadline)
        return reply.body(TopicConfigSerializeWrapper).topic_config_table

    def fetch_topic_stats(self, topic: str, deadline: Deadline | None = None) -> dict[MessageQueue, TopicOffset]:
        """Return bounds and last store time of all queues of a topic, from all brokers."""
        replies = self._brokers.ask_each(
            topic, GetTopicStatsInfoRequestHeader(topic=topic), absent=(TopicNotExist,), deadline=deadline
        )
        tables = (reply.body(TopicStatsTable).offset_table for reply in replies.values())
        return {self._namespace.unwrap_queue(queue): offsets for table in tables for queue, offsets in table.items()}

    # --- groups ------------------------------------------------------------------------------------------------------

    def create_group(
        self, config: SubscriptionGroupConfig, broker_names: Collection[str] = (), deadline: Deadline | None = None
    ) -> None:
        """Create or change a group at the named masters, or at all masters."""
        body = encode_body(replace(config, group_name=self._namespace.wrap(config.group_name)))
        self._ask_masters(UpdateSubscriptionGroupRequestHeader(), broker_names, deadline, body)

    def delete_group(self, group: str, *, clean_offsets: bool, deadline: Deadline | None = None) -> None:
        """Delete a group from all masters; with `clean_offsets` also its positions."""
        header = DeleteSubscriptionGroupRequestHeader(group_name=group, clean_offset=clean_offsets)
        self._ask_masters(header, (), deadline)

    def fetch_group_config(
        self, group: str, broker_name: str, deadline: Deadline | None = None
    ) -> SubscriptionGroupConfig:
        """Return one broker's configuration of a group; the broker must be of 5.x.

        Some brokers create the group if they do not know it.
        """
        reply = self._ask_master(broker_name, GetSubscriptionGroupConfigRequestHeader(group=group), deadline)
        config = reply.body(SubscriptionGroupConfig)
        return replace(config, group_name=self._namespace.unwrap(config.group_name))

    def fetch_group_configs(
        self, broker_name: str, deadline: Deadline | None = None
    ) -> dict[str, SubscriptionGroupConfig]:
        """Return the configurations of all groups of one broker, by the cluster's names of the groups."""
        reply = self._ask_master(broker_name, GetAllSubscriptionGroupRequestHeader(), deadline)
        return reply.body(SubscriptionGroupWrapper).subscription_group_table

    def fetch_groups_of_topic(self, topic: str, deadline: Deadline | None = None) -> tuple[str, ...]:
        """Return the groups that consume a topic or have committed positions in it."""
        replies = self._brokers.ask_each(topic, QueryTopicConsumeByWhoRequestHeader(topic=topic), deadline=deadline)
        groups = {group for reply in replies.values() for group in reply.body(GroupList).group_list}
        return tuple(sorted(map(self._namespace.unwrap, groups)))

    def fetch_topics_of_group(self, group: str, deadline: Deadline | None = None) -> tuple[str, ...]:
        """Return the topics in which a group has committed positions; brokers must be of 5.x."""
        header = QueryTopicsByConsumerRequestHeader(group=group)
        replies = self._brokers.ask_each(retry_topic(group), header, deadline=deadline)
        topics = {topic for reply in replies.values() for topic in reply.body(TopicList).topic_list}
        return tuple(sorted(map(self._namespace.unwrap, topics)))

    # --- progress ----------------------------------------------------------------------------------------------------

    def fetch_consume_stats(
        self, group: str, topic: str | None = None, deadline: Deadline | None = None
    ) -> dict[MessageQueue, OffsetWrapper]:
        """Return a group's position in each queue and the queue's end; without `topic`, for all topics of the group."""
        header = GetConsumeStatsRequestHeader(consumer_group=group, topic=topic)
        replies = self._brokers.ask_each(topic or retry_topic(group), header, deadline=deadline)
        tables = (reply.body(ConsumeStats).offset_table for reply in replies.values())
        return {self._namespace.unwrap_queue(queue): offsets for table in tables for queue, offsets in table.items()}

    def fetch_time_spans(self, group: str, topic: str, deadline: Deadline | None = None) -> list[QueueTimeSpan]:
        """Return the store times of each queue's first and last message, and of the last one the group consumed."""
        header = QueryConsumeTimeSpanRequestHeader(group=group, topic=topic)
        replies = self._brokers.ask_each(topic, header, deadline=deadline)
        spans = (span for a in replies.values() for span in a.body(QueryConsumeTimeSpanBody).consume_time_span_set)
        return [replace(span, message_queue=self._namespace.unwrap_queue(span.message_queue)) for span in spans]

    def reset_offsets(
        self, group: str, topic: str, timestamp_ms: int = -1, deadline: Deadline | None = None
    ) -> dict[MessageQueue, int]:
        """Move a group's positions in a topic to a store time, or with -1 to its end; return the new positions."""
        header = ResetOffsetRequestHeader(topic=topic, group=group, timestamp=timestamp_ms, is_force=True)
        return self._moved(self._brokers.ask_each(topic, header, deadline=deadline).values())

    def reset_offset(
        self, group: str, queue: MessageQueue, offset: int, deadline: Deadline | None = None
    ) -> dict[MessageQueue, int]:
        """Move a group's position in one queue to an offset; return the new position. The broker must be of 5.x."""
        header = ResetOffsetRequestHeader(
            topic=queue.topic, group=group, timestamp=-1, is_force=True, queue_id=queue.queue_id, offset=offset
        )
        return self._moved([self._brokers.ask(to_queue(queue, header), deadline=deadline)])

    def _moved(self, replies: Iterable[Reply]) -> dict[MessageQueue, int]:
        tables = (reply.body(ResetOffsetBody).offset_table for reply in replies)
        return {self._namespace.unwrap_queue(queue): offset for table in tables for queue, offset in table.items()}

    # --- members -----------------------------------------------------------------------------------------------------

    def fetch_running_info(
        self, group: str, client_id: str, *, with_stacks: bool = False, deadline: Deadline | None = None
    ) -> ConsumerRunningInfo:
        """Return what a running member reports about itself; `with_stacks` adds the stacks of its threads."""
        header = GetConsumerRunningInfoRequestHeader(
            consumer_group=group, client_id=client_id, jstack_enable=with_stacks
        )
        return self._brokers.ask_any(retry_topic(group), header, deadline=deadline).body(ConsumerRunningInfo)

    def consume_directly(
        self,
        group: str,
        client_id: str,
        message_id: str,
        topic: str,
        broker_name: str,
        deadline: Deadline | None = None,
    ) -> ConsumeMessageDirectlyResult:
        """Tell a member to consume the message with this offset message id now; return the member's result."""
        header = ConsumeMessageDirectlyResultRequestHeader(
            consumer_group=group, client_id=client_id, msg_id=message_id, topic=topic, broker_name=broker_name
        )
        return self._ask_master(broker_name, header, deadline).body(ConsumeMessageDirectlyResult)

    # --- brokers -----------------------------------------------------------------------------------------------------

    def fetch_broker_config(self, broker_name: str, deadline: Deadline | None = None) -> dict[str, str]:
        """Return all settings of a master as a dict."""
        return read_settings(self._ask_master(broker_name, GetBrokerConfigRequestHeader(), deadline))

    def update_broker_config(
        self, broker_name: str, settings: dict[str, str], deadline: Deadline | None = None
    ) -> None:
        """Change settings of a master while it runs."""
        body = "\n".join(f"{name}={value}" for name, value in settings.items()).encode()
        self._ask_master(broker_name, UpdateBrokerConfigRequestHeader(), deadline, body)

    def fetch_runtime_info(self, broker_name: str, deadline: Deadline | None = None) -> dict[str, str]:
        """Return a master's runtime figures as a dict."""
        return self._ask_master(broker_name, GetBrokerRuntimeInfoRequestHeader(), deadline).body(KVTable).table

    # --- requests ----------------------------------------------------------------------------------------------------

    def _ask_masters(
        self, header: RequestHeader, names: Collection[str], deadline: Deadline | None, body: bytes = b""
    ) -> None:
        for broker in self._find(names, deadline):
            self._ask_broker(broker, header, deadline, body)

    def _ask_master(
        self, broker_name: str, header: RequestHeader, deadline: Deadline | None, body: bytes = b""
    ) -> Reply:
        [broker] = self._find((broker_name,), deadline)
        return self._ask_broker(broker, header, deadline, body)

    def _ask_broker(
        self, broker: BrokerEndpoints, header: RequestHeader, deadline: Deadline | None, body: bytes
    ) -> Reply:
        return self._brokers.ask_at(broker.master(), header, body, broker_name=broker.broker_name, deadline=deadline)

    def _find(self, names: Collection[str], deadline: Deadline | None) -> list[BrokerEndpoints]:
        """Return the brokers with these names, or all if there are no names; raise if a name is unknown."""
        known = {broker.broker_name: broker for broker in self._name_servers.fetch_brokers(deadline)}
        if unknown := sorted(set(names) - known.keys()) or ([] if known else ["any"]):
            advice = f"known are: {', '.join(known) or 'none'}"
            raise NoBrokerAvailable(f"no such broker is registered: {', '.join(unknown)}", advice=advice)
        return [known[name] for name in names or known]
