"""Run an Apache RocketMQ name server and broker inside a Python process, for demos, notebooks and tests.

Official clients cannot tell `StubBroker` from a real broker. `StubCluster` can have several brokers, and slaves. Both
inject faults (`faults`), and a test can let their time pass (`clock.advance`).

Not modelled: pop over remoting, static and compaction topics, tiered storage, controllers, users and their rights,
measured rates, the protocols between servers (slaves share their master's messages directly), and disks: messages live
in memory, or in the directory that the caller gives.
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
