"""Settings of consumers and producers.

Names follow RocketMQ's settings and end with their unit. Defaults and ranges are those of the Java client 5.3.3. (Its
constructor sets `pullTimeDelayMillsWhenException` to 1000 ms, although the field says otherwise; 1000 ms is used here.)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import Enum
from pathlib import Path
from typing import Any, cast

from ..allocation.choice import AllocationSettings
from ..allocation.strategy_names import parse_strategy
from ..model import MessageModel
from ..pull.process_queue import FlowLimits
from ..pull.settings import Subscription
from ..wire.compression import Compression
from .checks import (
    Subscriptions,
    check_flag,
    check_group,
    check_instance,
    check_range,
    to_member_of,
    to_subscriptions,
)

__all__ = [
    "ConsumeFrom",
    "ConsumerSettings",
    "MemberSettings",
    "MessageModel",
    "ProducerSettings",
    "PullConsumerSettings",
    "Rhythm",
]

_BROKERS_CHOICE = -1
_FOR_EVER = 2**31 - 1


class ConsumeFrom(Enum):
    """The place to begin reading a queue in which the group has no position: its end, its start, or a time.

    To a group without a position, brokers report position 0 for a queue whose first message is still in their memory.
    So the group begins there at the first message, whatever is chosen. Broadcasting members, whose positions are in
    files, always begin at the chosen place.
    """

    LAST_OFFSET = "CONSUME_FROM_LAST_OFFSET"
    FIRST_OFFSET = "CONSUME_FROM_FIRST_OFFSET"
    TIMESTAMP = "CONSUME_FROM_TIMESTAMP"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rhythm:
    """Periods and pauses of a client, in seconds."""

    heartbeat_s: float = 30.0
    route_s: float = 30.0
    rebalance_s: float = 20.0
    """The time until the next round of rebalancing if the last one left nothing to do."""
    rebalance_soonest_s: float = 1.0
    """The time until the next round if something is left to do, and the shortest time between any two rounds."""
    first_persist_s: float = 10.0
    persist_s: float = 5.0
    first_lock_s: float = 1.0
    lock_s: float = 20.0
    lock_max_live_s: float = 30.0
    """The time since the last renewal of a lock after which it is no longer trusted."""
    unlock_delay_s: float = 20.0
    """The time since the last renewal of a lock after which its queue is handed over even if its listener runs."""
    pull_max_idle_s: float = 120.0
    dispatch_s: float = 0.5
    """The time from taking a queue to its first pull."""
    failure_pause_s: float = 1.0
    """The time from a failed pull to the next attempt."""
    resubmit_s: float = 5.0
    """The time from a failure to send messages back until they reach the listener again."""
    longest_run_s: float = 60.0
    """The longest time that a thread consumes one queue in order before another queue can have the thread."""
    reset_pause_s: float = 10.0
    """The time that running listeners get to finish before an administrator's reset moves positions."""

    def __post_init__(self) -> None:
        for each in fields(self):
            check_range(f"rhythm.{each.name}", getattr(self, each.name), 0, 86400 * 365, whole=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberSettings:
    """Settings that push and pull consumers have in common."""

    group: str
    subscriptions: Subscriptions
    """The topics and their filters: `"orders"`, `["orders", "refunds"]`, or `{"orders": "paid || sent"}`."""
    message_model: MessageModel | str = MessageModel.CLUSTERING
    consume_from: ConsumeFrom | str = ConsumeFrom.LAST_OFFSET
    consume_timestamp_ms: int | None = None
    """The time from which `ConsumeFrom.TIMESTAMP` reads; None means 30 minutes before the start."""
    allocation: AllocationSettings | str = field(default_factory=AllocationSettings)
    """The strategy that assigns queues to members: settings, or a strategy's name such as `"AVG_BY_CIRCLE"`."""
    consumer_rooms: Mapping[str, str] = field(default_factory=dict)
    """For MACHINE_ROOM_NEARBY: the machine room by client id; by default the part of the id before its only `@`."""
    limits: FlowLimits = field(default_factory=FlowLimits)
    """The limits of a queue's cache; pulls pause while one of them is reached."""
    topic_message_count: int | None = None
    """A limit of cached messages that all held queues share; it replaces the limit for each queue."""
    topic_body_mib: int | None = None
    """A limit of cached MiB that all held queues share; it replaces the limit for each queue."""
    pull_batch_size: int = 32
    pull_interval_s: float = 0.0
    post_subscription_when_pull: bool = False
    instance_name: str | None = None
    """The part of the client id that must differ between clients of one host; None makes a new one."""
    unit_name: str = ""
    local_offset_dir: Path | str | None = None
    """The directory for positions of broadcasting members; None means `~/.rocketmq_offsets`."""
    rhythm: Rhythm = field(default_factory=Rhythm)

    def __post_init__(self) -> None:
        check_group(self.group)
        self._convert("subscriptions", to_subscriptions(self.subscriptions))
        self._convert("message_model", to_member_of(MessageModel, "message_model", self.message_model))
        self._convert("consume_from", to_member_of(ConsumeFrom, "consume_from", self.consume_from))
        if isinstance(self.allocation, str):
            self._convert("allocation", AllocationSettings(strategy=parse_strategy(self.allocation, "allocation")))
        check_instance("allocation", self.allocation, AllocationSettings, "AllocationSettings, or a strategy's name")
        check_instance("limits", self.limits, FlowLimits, "FlowLimits")
        check_instance("rhythm", self.rhythm, Rhythm, "a Rhythm")
        check_instance("local_offset_dir", self.local_offset_dir, (str, Path, type(None)), "a directory")
        check_instance("instance_name", self.instance_name, (str, type(None)), "text")
        check_instance("unit_name", self.unit_name, str, "text")
        check_flag("post_subscription_when_pull", self.post_subscription_when_pull)
        self._check_numbers()

    def _check_numbers(self) -> None:
        check_range("limits.message_count", self.limits.message_count, 1, 65535)
        check_range("limits.body_mib", self.limits.body_mib, 1, 1024)
        check_range("limits.span", self.limits.span, 1, 65535)
        check_range("topic_message_count", self.topic_message_count, 1, 6553500, optional=True)
        check_range("topic_body_mib", self.topic_body_mib, 1, 102400, optional=True)
        check_range("pull_batch_size", self.pull_batch_size, 1, 1024)
        check_range("pull_interval_s", self.pull_interval_s, 0, 65.535, whole=False)
        check_range("consume_timestamp_ms", self.consume_timestamp_ms, 0, 2**63 - 1, optional=True)

    def _convert(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)

    @property
    def wanted(self) -> Mapping[str, Subscription]:
        """The subscriptions after conversion: a `Subscription` for each topic."""
        return cast(Mapping[str, Subscription], self.subscriptions)

    @property
    def is_broadcasting(self) -> bool:
        """Whether every member of the group gets every message."""
        return self.message_model is MessageModel.BROADCASTING


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerSettings(MemberSettings):
    """Settings of a push consumer."""

    thread_count: int = 20
    batch_size: int = 1
    """The largest number of messages that one call of the listener gets."""
    max_reconsume_times: int = _BROKERS_CHOICE
    """The most retries of a failed message; -1 means 16 in concurrent, and no limit in orderly consumption."""
    suspend_s: float = 1.0
    """In orderly consumption: the pause of a queue before its failed messages are tried again."""
    consume_timeout_s: float = 15 * 60.0
    """The time after which messages are sent back if a concurrent listener has not returned."""
    auto_commit: bool = True
    """In orderly consumption: whether success commits at once, or only when the listener returns COMMIT."""
    await_termination_s: float = 0.0
    """The time that closing waits for running listeners; messages that they finish later are delivered again."""

    def __post_init__(self) -> None:
        super(ConsumerSettings, self).__post_init__()
        check_flag("auto_commit", self.auto_commit)
        check_range("thread_count", self.thread_count, 1, 1000)
        check_range("batch_size", self.batch_size, 1, 1024)
        check_range("max_reconsume_times", self.max_reconsume_times, -1, _FOR_EVER)
        check_range("consume_timeout_s", self.consume_timeout_s, 0.001, 86400 * 365, whole=False)
        check_range("suspend_s", self.suspend_s, 0, 86400, whole=False)
        check_range("await_termination_s", self.await_termination_s, 0, 86400 * 365, whole=False)

    def most_retries(self, default: int) -> int:
        """Return `max_reconsume_times`, or `default` if the setting is -1."""
        return default if self.max_reconsume_times == _BROKERS_CHOICE else self.max_reconsume_times


@dataclass(frozen=True, slots=True, kw_only=True)
class PullConsumerSettings(MemberSettings):
    """Settings of a pull consumer.

    With subscriptions it joins its group; without them the user assigns queues to it.
    """

    subscriptions: Subscriptions = field(default_factory=dict)
    post_subscription_when_pull: bool = True
    auto_commit: bool = True
    """Whether messages that `poll` returned are done at the next `poll`, or only after `commit`."""

    def __post_init__(self) -> None:
        super(PullConsumerSettings, self).__post_init__()
        check_flag("auto_commit", self.auto_commit)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerSettings:
    """Settings of a producer."""

    group: str
    send_timeout_s: float = 3.0
    """The timeout of one send, all its attempts together."""
    retries: int = 2
    """The number of further attempts, at other queues, after a send has failed."""
    max_in_flight: int = 1024
    """The most asynchronous sends without a result; further ones wait for room."""
    max_bytes_in_flight: int = 32 * 2**20
    """The most bytes of bodies in asynchronous sends without a result."""
    compress_over_bytes: int = 4096
    compression: Compression | str = Compression.ZLIB
    max_message_bytes: int = 4 * 1024 * 1024
    instance_name: str | None = None
    unit_name: str = ""
    heartbeat_s: float = 30.0

    def __post_init__(self) -> None:
        check_group(self.group)
        object.__setattr__(self, "compression", to_member_of(Compression, "compression", self.compression))
        check_instance("instance_name", self.instance_name, (str, type(None)), "text")
        check_instance("unit_name", self.unit_name, str, "text")
        check_range("send_timeout_s", self.send_timeout_s, 0.001, 86400, whole=False)
        check_range("retries", self.retries, 0, 1000)
        check_range("max_in_flight", self.max_in_flight, 1, 1_000_000)
        check_range("max_bytes_in_flight", self.max_bytes_in_flight, 1, 2**31 - 1)
        check_range("max_message_bytes", self.max_message_bytes, 1, 2**31 - 1)
        check_range("compress_over_bytes", self.compress_over_bytes, 0, 2**31 - 1)
        check_range("heartbeat_s", self.heartbeat_s, 0.001, 86400, whole=False)
