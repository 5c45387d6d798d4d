"""What does a client of RocketMQ 5 find at the stub's gRPC door?

The door does what a proxy of RocketMQ 5 does before a cluster: official 5.x clients send, receive and acknowledge
through it, and share topics, groups and offsets with those who come by the other ports. Besides, it reads by queue and
offset, which Apache's proxy does not; `Behaviour` makes it answer as that one.

    calls        what comes in, what may be answered      server       gRPC itself
    proxy        the state behind the door                clients      who is known
    routes       QueryRoute, QueryAssignment              telemetry    Telemetry, Heartbeat, NotifyClientTermination
    sending      SendMessage, EndTransaction, RecallMessage
    receiving    ReceiveMessage, AckMessage, ChangeInvisibleDuration, ForwardMessageToDeadLetterQueue
    lending      which messages are lent to whom        hindering   calls that go wrong on command
    pulling      PullMessage, QueryOffset, GetOffset, UpdateOffset

Left out on purpose: lite topics, and plain clients beside TLS ones.
"""

from __future__ import annotations

from pyspark_rocketmq.model import Address

from ..state import Cluster
from . import pulling, receiving, routes, sending, telemetry
from .proxy import Proxy, ProxyOptions
from .server import GrpcServer, Run

__all__ = ["GrpcServer", "ProxyOptions", "open_proxy"]

SERVED = (pulling, receiving, routes, sending, telemetry)
"""The modules whose functions are served; importing them registers these."""
_USUAL = ProxyOptions()


def open_proxy(cluster: Cluster, run: Run, address: Address, options: ProxyOptions = _USUAL) -> GrpcServer:
    """Listen at an address, port 0 for a free one; ready when this returns."""
    proxy = run(lambda: Proxy(cluster, options))
    return GrpcServer(proxy, run, address)
