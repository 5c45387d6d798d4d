"""What is a member asked to be?

Names follow RocketMQ's settings, units stand in the names. Values and ranges are those of the Java client of 5.3.3,
whose constructor also says `pullTimeDelayMillsWhenException` is 1000 ms, whatever its field says.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from ..allocation.choice import AllocationSettings
from ..errors import OptionError
from ..pull.process_queue import FlowLimits
from ..pull.settings import Subscription
from ..wire.compression import Compression

__all__ = [
    "ConsumeFrom",
    "ConsumerSettings",
    "MemberSettings",
    "MessageModel",
    "ProducerSettings",
    "PullConsumerSettings",
    "Rhythm",
    "check_group",
    "check_range",
    "check_topic",
]

_GROUP = re.compile(r"[%|a-zA-Z0-9_-]+")
_LONGEST_GROUP, _LONGEST_TOPIC = 120, 127
_FORBIDDEN_GROUP = "DEFAULT_CONSUMER"
_BROKERS_CHOICE = -1
_FOR_EVER = 2**31 - 1


class MessageModel(Enum):
    """Who gets a message: one member of the group, or every one."""

    CLUSTERING = "CLUSTERING"
    BROADCASTING = "BROADCASTING"


class ConsumeFrom(Enum):
    """Where a queue begins in which the group has no position."""

    LAST_OFFSET = "CONSUME_FROM_LAST_OFFSET"
    FIRST_OFFSET = "CONSUME_FROM_FIRST_OFFSET"
    TIMESTAMP = "CONSUME_FROM_TIMESTAMP"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rhythm:
    """How often a client does what it does again and again, in seconds."""

    heartbeat_s: float = 30.0
    route_s: float = 30.0
    rebalance_s: float = 20.0
    """Between rounds, the last of which was balanced."""
    rebalance_soonest_s: float = 1.0
    """Between rounds otherwise; no wake-up makes it shorter."""
    first_persist_s: float = 10.0
    persist_s: float = 5.0
    first_lock_s: float = 1.0
    lock_s: float = 20.0
    lock_max_live_s: float = 30.0
    """A lock that was not renewed for so long is not trusted."""
    unlock_delay_s: float = 20.0
    """A queue in order that was lost is handed over by force so long after its last renewal."""
    pull_max_idle_s: float = 120.0
    dispatch_s: float = 0.5
    """From taking a queue to its first pull."""
    failure_pause_s: float = 1.0
    """From a failed pull to the next."""
    resubmit_s: float = 5.0
    """Until messages that could not be sent back reach the listener again."""
    longest_run_s: float = 60.0
    """How long a queue in order keeps its worker."""
    reset_pause_s: float = 10.0
    """How long running listeners get to finish before an administrator's reset takes effect."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberSettings:
    """What every kind of consumer has."""

    group: str
    subscriptions: Mapping[str, Subscription]
    """What is wanted of each topic."""
    message_model: MessageModel = MessageModel.CLUSTERING
    consume_from: ConsumeFrom = ConsumeFrom.LAST_OFFSET
    consume_timestamp_ms: int | None = None
    """For TIMESTAMP; 30 minutes before the start unless given."""
    allocation: AllocationSettings = field(default_factory=AllocationSettings)
    consumer_rooms: Mapping[str, str] = field(default_factory=dict)
    """MACHINE_ROOM_NEARBY: room by client id, where the id's host does not tell."""
    limits: FlowLimits = field(default_factory=FlowLimits)
    topic_message_count: int | None = None
    """Replaces the limit per queue: divided by the queues held."""
    topic_body_mib: int | None = None
    pull_batch_size: int = 32
    pull_interval_s: float = 0.0
    post_subscription_when_pull: bool = False
    instance_name: str | None = None
    """A name that tells this client's id from others of its host; made up if none is given."""
    unit_name: str = ""
    local_offset_dir: Path | None = None
    """Where broadcasting members keep positions; `~/.rocketmq_offsets` if none is given."""
    rhythm: Rhythm = field(default_factory=Rhythm)

    def __post_init__(self) -> None:
        check_group(self.group)
        for topic in self.subscriptions:
            check_topic(topic)
        check_range("pullThresholdForQueue", self.limits.message_count, 1, 65535)
        check_range("pullThresholdSizeForQueue", self.limits.body_mib, 1, 1024)
        check_range("consumeConcurrentlyMaxSpan", self.limits.span, 1, 65535)
        check_range("pullThresholdForTopic", self.topic_message_count, 1, 6553500)
        check_range("pullThresholdSizeForTopic", self.topic_body_mib, 1, 102400)
        check_range("pullBatchSize", self.pull_batch_size, 1, 1024)
        check_range("pullInterval", self.pull_interval_s, 0, 65.535)

    @property
    def is_broadcasting(self) -> bool:
        """Whether every member gets every message."""
        return self.message_model is MessageModel.BROADCASTING


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerSettings(MemberSettings):
    """What a push consumer is asked to be."""

    thread_count: int = 20
    batch_size: int = 1
    """Most messages that the listener gets at once."""
    max_reconsume_times: int = _BROKERS_CHOICE
    """-1: 16 times concurrently, for ever in order."""
    suspend_s: float = 1.0
    """How long a queue in order rests before failed messages are tried again."""
    consume_timeout_s: float = 15 * 60.0
    """From when on messages that the listener holds are sent back (concurrently)."""
    auto_commit: bool = True
    """In order: whether success commits at once, or only when the listener says so."""
    await_termination_s: float = 0.0
    """How long closing waits for running listeners; what they finish later is delivered again."""

    def __post_init__(self) -> None:
        super(ConsumerSettings, self).__post_init__()
        check_range("consumeThreadMin", self.thread_count, 1, 1000)
        check_range("consumeMessageBatchMaxSize", self.batch_size, 1, 1024)
        check_range("maxReconsumeTimes", self.max_reconsume_times, -1, _FOR_EVER)
        check_range("consumeTimeout", self.consume_timeout_s, 0.001, 86400 * 365)

    def most_retries(self, default: int) -> int:
        """The setting, or RocketMQ's default for this kind of consumption."""
        return default if self.max_reconsume_times == _BROKERS_CHOICE else self.max_reconsume_times


@dataclass(frozen=True, slots=True, kw_only=True)
class PullConsumerSettings(MemberSettings):
    """What a pull consumer is asked to be; with subscriptions it shares queues with its group, else they are given."""

    subscriptions: Mapping[str, Subscription] = field(default_factory=dict)
    post_subscription_when_pull: bool = True
    auto_commit: bool = True
    """Whether what `poll` handed out counts as done with the next `poll`, or only with `commit`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerSettings:
    """What a producer is asked to be."""

    group: str
    send_timeout_s: float = 3.0
    """For all attempts of one send together."""
    retries: int = 2
    """How often a send is tried at another broker."""
    compress_over_bytes: int = 4096
    compression: Compression = Compression.ZLIB
    max_message_bytes: int = 4 * 1024 * 1024
    instance_name: str | None = None
    unit_name: str = ""
    heartbeat_s: float = 30.0

    def __post_init__(self) -> None:
        check_group(self.group)
        check_range("sendMsgTimeout", self.send_timeout_s, 0.001, 86400)
        check_range("retryTimesWhenSendFailed", self.retries, 0, 1000)
        check_range("maxMessageSize", self.max_message_bytes, 1, 2**31 - 1)


def check_group(group: str) -> None:
    """Refuse what no broker takes as a group."""
    if not _GROUP.fullmatch(group) or len(group) > _LONGEST_GROUP or group == _FORBIDDEN_GROUP:
        advice = f"give at most {_LONGEST_GROUP} of the characters a-z A-Z 0-9 _ - % |, and not {_FORBIDDEN_GROUP}"
        raise OptionError("consumerGroup", group, "not a group's name", advice=advice)


def check_topic(topic: str) -> None:
    """Refuse what no broker takes as a topic."""
    if not _GROUP.fullmatch(topic) or len(topic) > _LONGEST_TOPIC:
        advice = f"give at most {_LONGEST_TOPIC} of the characters a-z A-Z 0-9 _ - % |"
        raise OptionError("subscribe", topic, "not a topic's name", advice=advice)


def check_range(option: str, value: float | None, least: float, most: float) -> None:
    """Refuse a number outside RocketMQ's range; none is always in it."""
    if value is not None and not least <= value <= most:
        raise OptionError(option, str(value), "out of range", advice=f"give {least} to {most}")
