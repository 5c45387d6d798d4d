"""Define the settings of a cluster's brokers."""

from __future__ import annotations

from dataclasses import dataclass, field

from .queue_scan import DEFAULT_LIMITS, PullLimits
from .releases import Release, find_release


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of a cluster's brokers; the defaults are those of a real broker unless a comment says otherwise."""

    release: Release = field(default_factory=lambda: find_release("5.3.3"))
    cluster_name: str = "DefaultCluster"
    auto_create_topics: bool = True
    auto_create_groups: bool = True
    default_topic_queues: int = 8
    property_filter: bool = True
    """Whether brokers filter by SQL92; at a real broker the default is no."""
    slave_reads: bool = True
    """Whether slaves serve pulls; at a real 5.x slave the default is no."""
    offset_check_in_slave: bool = False
    """Whether slaves correct a pull's offset that is out of the queue's bounds, as masters do."""
    server_side_reset: bool = True
    recall_messages: bool = False
    first_message_in_memory: bool = True
    """Whether the first message of a queue counts as in memory, so that a group without an offset starts at 0."""
    long_polling: bool = True
    max_message_bytes: int = 4 * 1024 * 1024
    max_messages_per_query: int = 64
    """The most messages that a query by key returns, whatever limit the request has."""
    lock_lease_ms: int = 60_000
    client_expiry_ms: int = 120_000
    transaction_timeout_ms: int = 6_000
    transaction_check_interval_ms: int = 30_000
    transaction_check_max: int = 15
    transaction_op_batch_interval_ms: int = 3_000
    """Milliseconds for which 5.x keeps the ends of transactions in memory before it writes them; a crash loses them."""
    transient_store_ms: int = 0
    """Milliseconds for which a new half message cannot be ended, as at a broker with `transientStorePoolEnable`."""
    binary_answers: bool = False
    """Whether 5.x responds with binary headers; 4.9.7 responds in the form of the request."""
    order_topics: bool = False
    """Whether routes contain the order configuration of topics."""
    delay_levels: str = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
    timer_max_delay_ms: int = 3 * 24 * 3600 * 1000
    limits: PullLimits = DEFAULT_LIMITS


DEFAULT_SETTINGS = Settings()
