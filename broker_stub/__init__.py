"""Run an Apache RocketMQ name server and broker inside a Python process, for demos, notebooks and tests.

Official clients cannot tell `StubBroker` from a real broker. `StubCluster` can have several brokers, and slaves. Both
inject faults (`faults`), and a test can let their time pass (`clock.advance`). pytest has fixtures (`pytest_plugin`).

Not modelled: pop over remoting, static and compaction topics, tiered storage, controllers, users and their rights,
measured rates, the protocols between servers (slaves share their master's messages directly), and disks: messages live
in memory, or in the directory that the caller gives.

pytest imports this package in every run, through the plugin. So the names are imported when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .faults import NAME_SERVER, PROXY, FaultNotReached, Faults
    from .queue_scan import PullLimits
    from .server import TlsFiles
    from .settings import Settings
    from .stub import ClientConnection, PutResult, StubBroker, StubClock, StubCluster
    from .topic import StubTopic

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
    "StubTopic",
    "TlsFiles",
]

_HOMES = {
    "faults": ("NAME_SERVER", "PROXY", "FaultNotReached", "Faults"),
    "queue_scan": ("PullLimits",),
    "server": ("TlsFiles",),
    "settings": ("Settings",),
    "stub": ("ClientConnection", "PutResult", "StubBroker", "StubClock", "StubCluster"),
    "topic": ("StubTopic",),
}
"""The names of each module that this package offers."""


if not TYPE_CHECKING:  # To a type checker, any name would exist.

    def __getattr__(name: str) -> Any:
        for module, names in _HOMES.items():
            if name in names:
                return getattr(import_module(f".{module}", __name__), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
