"""Which broker behaviour is modelled, and which is left out on purpose?

`StubBroker` is an Apache RocketMQ name server and broker in this process, for demos, notebooks and tests; official
clients cannot tell it from a real one. `StubCluster` has several brokers, with slaves. Both break on command
(`faults`), and their time can be made to pass (`clock.advance`).

Left out on purpose: popping over remoting, static and compaction topics, tiered storage, controllers, users and their
rights, measured rates, the protocols between servers (slaves share their master's messages directly), and disk:
messages live in memory, or in a directory if one is given.
"""

from .faults import NAME_SERVER, PROXY, FaultNotReached, Faults
from .queue_scan import PullLimits
from .server import TlsFiles
from .settings import Settings
from .stub import ClientConnection, PutResult, StubBroker, StubClock, StubCluster

__all__ = [
    "NAME_SERVER",
    "PROXY",
    "ClientConnection",
    "FaultNotReached",
    "Faults",
    "PullLimits",
    "PutResult",
    "Settings",
    "StubBroker",
    "StubClock",
    "StubCluster",
    "TlsFiles",
]
