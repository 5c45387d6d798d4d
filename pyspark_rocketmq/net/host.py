"""Find the address under which other machines can reach this one."""

from __future__ import annotations

import socket
from functools import cache

_ELSEWHERE = ("192.0.2.1", 9)  # Reserved for documentation: routed like any other address, and assigned to no host.
_LOOPBACK = "127.0.0.1"


@cache
def local_host() -> str:
    """Return the IPv4 address from which this machine sends packets to other networks; loopback if it has none."""
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect(_ELSEWHERE)  # For a datagram socket this only chooses a route; no packet is sent.
            return str(probe.getsockname()[0])
    except OSError:
        return _LOOPBACK
