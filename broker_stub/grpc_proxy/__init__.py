"""Serve gRPC clients of RocketMQ 5, as a proxy before the cluster.

Official 5.x clients send, receive and acknowledge through the proxy, and share topics, groups and offsets with
remoting clients. Clients can also read by queue and offset, which Apache's proxy does not offer;
`ProxyOptions.like_apache` turns that off.

    calls        one call, its errors and responses     server       the gRPC server and its fault injector
    proxy        the proxy's state                      clients      known clients
    routes       QueryRoute, QueryAssignment            telemetry    Telemetry, Heartbeat, NotifyClientTermination
    sending      SendMessage, EndTransaction, RecallMessage
    receiving    ReceiveMessage, AckMessage, ChangeInvisibleDuration, ForwardMessageToDeadLetterQueue
    pop          popped messages                        validation   checks of names and values
    pulling      PullMessage, QueryOffset, GetOffset, UpdateOffset

Not modelled: lite topics, and plain clients beside TLS ones.
"""

from __future__ import annotations

from pyspark_rocketmq.model import Address

from ..state import Cluster
from . import pulling, receiving, routes, sending, telemetry
from .proxy import Proxy, ProxyOptions
from .server import GrpcServer, Run

__all__ = ["GrpcServer", "ProxyOptions", "open_proxy"]

SERVED = (pulling, receiving, routes, sending, telemetry)
"""Modules whose functions serve gRPC methods; importing a module registers its functions."""
_USUAL = ProxyOptions()


def open_proxy(cluster: Cluster, run: Run, address: Address, options: ProxyOptions = _USUAL) -> GrpcServer:
    """Start the proxy at an address (port 0: a free port) and return it when it accepts calls."""
    proxy = run(lambda: Proxy(cluster, options))
    return GrpcServer(proxy, run, address)
