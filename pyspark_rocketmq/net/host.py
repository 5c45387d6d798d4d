"""By which address do others on the network know this machine?"""

from __future__ import annotations

import socket
from functools import cache

_ELSEWHERE = ("192.0.2.1", 9)  # An address reserved for documentation: routed like any other, and nobody has it.
_LOOPBACK = "127.0.0.1"


@cache
def local_host() -> str:
    """The IPv4 address that packets to elsewhere would leave from, loopback on a machine without a network."""
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect(_ELSEWHERE)  # Of a datagram socket this only chooses a route; nothing is sent.
            return str(probe.getsockname()[0])
    except OSError:
        return _LOOPBACK
