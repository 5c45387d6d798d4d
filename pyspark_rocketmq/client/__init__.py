"""RocketMQ without Spark: consumers and producers for Python programs. docs/client.md has an example of each.

    consumer, pull_consumer     consumers                    producer       sends, ordered and in transactions
    dead_letters                reads and resends messages that a group could not consume
    range_reading               reads ranges of queues without a group
    settings, checks            settings and their checks    results        the results of listeners
    message                     received messages            running        start, wait, close
    member                      one member of a group; makes and connects all its parts
    membership                  heartbeats and members       subscription_check   members with other subscriptions
    rebalance                   which queues are held        assignment     the table of held queues
    stores                      positions, and where to begin in a queue without one       durable_file   a safe write
    pull_service                one pull in flight for each held queue       pull_connections   its connections
    concurrent, orderly         call the listener with pulled messages       hooks   call hooks before and after
    locks                       locks of queues consumed in order            registry   one client of each name
    redelivery                  returns failed messages      corrections    moves positions for brokers and admins
    requests, running_info, statistics                       responses to requests of brokers and administrators
    clock, loop                 time, threads                outgoing       turns messages into send requests
    async_sends                 sends without waiting, in one thread per producer

Threads: The *timer* loop runs rounds of rebalancing, commits and everything that is due later. Only this loop changes
the table of held queues, apart from `assign` and `seek` of a pull consumer. The *heartbeats* loop sends heartbeats,
which must not wait for the timer loop. The *pull* loop sends the first pull of a queue, and each pull that was delayed.
The reader threads of the shared connections handle each response to a pull and send the next pull. One short-lived
thread connects to each new address. A pool of threads runs the listener.

Names are imported when they are first used, because Spark's processes need only the settings.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..cluster.credentials_file import CredentialsFile
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
    from .hooks import ConsumeContext, ConsumeHook, ConsumeReturnType
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
        with_auto_commit,
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
    "ConsumeContext",
    "ConsumeFrom",
    "ConsumeHook",
    "ConsumeReturnType",
    "Consumed",
    "ConsumerSettings",
    "Credentials",
    "CredentialsFile",
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
    "with_auto_commit",
]

_MODULES = {
    "..cluster.credentials_file": ("CredentialsFile",),
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
    ".hooks": ("ConsumeContext", "ConsumeHook", "ConsumeReturnType"),
    ".pull_consumer": ("PullConsumer",),
    ".message": ("ReceivedMessage",),
    ".producer": ("Producer", "TransactionReceipt", "TransactionResolution"),
    ".results": (
        "COMMIT", "DEAD_LETTER", "RECONSUME_LATER", "ROLLBACK", "SUCCESS", "SUSPEND", "Consumed", "Ordered", "later",
        "success_of_first", "suspend", "with_auto_commit",
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
