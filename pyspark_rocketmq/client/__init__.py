"""RocketMQ without Spark: consumers and producers for Python programs. docs/client.md shows each at work.

    consumer, pull_consumer     consumers                    producer       sends, ordered and in transactions
    dead_letters                messages that a group has given up
    settings, checks            settings and their checks    results        the results of listeners
    message                     received messages            running        start, wait, close
    member                      one member of a group, where all parts are made and connected
    membership                  heartbeats and members       subscription_check   members that want different things
    rebalance                   which queues are held        assignment     the table of held queues
    stores                      positions, and where a queue without one begins
    pull_service                one pull in flight for each held queue       pull_connections   its connections
    concurrent, orderly         how pulled messages reach the listener       locks   locks of queues consumed in order
    redelivery                  failed messages go back      corrections    positions that brokers or admins move
    requests, running_info, statistics                       what brokers and administrators ask of a member
    clock, loop                 time, threads                outgoing       messages become send requests

Threads: one *timer* loop (rounds of rebalancing, commits, everything that is due later); one *heartbeats* loop,
which must not wait for that; one *pull* loop (a queue's first pull, and every other that must wait for something); one
thread for each address that pulls are connecting to; the readers of the shared connections, which take each pull's
response and send the next pull; and the workers that run the listener. Only the timer loop changes the table of queues.

Names are imported when they are first used: Spark's processes need the settings alone.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..cluster.messages import Receipt
    from ..cluster.names import Namespace
    from ..cluster.settings import ClusterSettings
    from ..cluster.signing import Credentials
    from ..model import Message, MessageQueue
    from ..net.settings import NetSettings, TlsSettings
    from ..pull.process_queue import FlowLimits
    from ..pull.settings import Subscription
    from ..wire.compression import Compression
    from .consumer import PushConsumer
    from .dead_letters import DeadLetters
    from .message import ReceivedMessage
    from .producer import Producer, TransactionReceipt, TransactionResolution
    from .pull_consumer import PullConsumer
    from .results import (
        COMMIT,
        DEAD_LETTER,
        RECONSUME_LATER,
        ROLLBACK,
        SUCCESS,
        SUSPEND,
        Consumed,
        Ordered,
        later,
        success_of_first,
        suspend,
    )
    from .settings import (
        ConsumeFrom,
        ConsumerSettings,
        MessageModel,
        ProducerSettings,
        PullConsumerSettings,
        Rhythm,
    )

__all__ = [
    "COMMIT",
    "DEAD_LETTER",
    "RECONSUME_LATER",
    "ROLLBACK",
    "SUCCESS",
    "SUSPEND",
    "ClusterSettings",
    "Compression",
    "ConsumeFrom",
    "Consumed",
    "ConsumerSettings",
    "Credentials",
    "DeadLetters",
    "FlowLimits",
    "Message",
    "MessageModel",
    "MessageQueue",
    "Namespace",
    "NetSettings",
    "Ordered",
    "Producer",
    "ProducerSettings",
    "PullConsumer",
    "PullConsumerSettings",
    "PushConsumer",
    "Receipt",
    "ReceivedMessage",
    "Rhythm",
    "Subscription",
    "TlsSettings",
    "TransactionReceipt",
    "TransactionResolution",
    "later",
    "success_of_first",
    "suspend",
]

_MODULES = {
    "..cluster.messages": ("Receipt",),
    "..cluster.names": ("Namespace",),
    "..cluster.settings": ("ClusterSettings",),
    "..cluster.signing": ("Credentials",),
    "..model": ("Message", "MessageQueue"),
    "..net.settings": ("NetSettings", "TlsSettings"),
    "..pull.process_queue": ("FlowLimits",),
    "..pull.settings": ("Subscription",),
    "..wire.compression": ("Compression",),
    ".consumer": ("PushConsumer",),
    ".dead_letters": ("DeadLetters",),
    ".pull_consumer": ("PullConsumer",),
    ".message": ("ReceivedMessage",),
    ".producer": ("Producer", "TransactionReceipt", "TransactionResolution"),
    ".results": (
        "COMMIT", "DEAD_LETTER", "RECONSUME_LATER", "ROLLBACK", "SUCCESS", "SUSPEND", "Consumed", "Ordered", "later",
        "success_of_first", "suspend",
    ),
    ".settings": (
        "ConsumeFrom", "ConsumerSettings", "MessageModel", "ProducerSettings", "PullConsumerSettings", "Rhythm",
    ),
}  # fmt: skip
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(module, __name__), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
