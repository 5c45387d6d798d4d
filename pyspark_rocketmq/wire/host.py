"""How is a host written in stored messages and message ids?

    address 4 (IPv4) or 16 (IPv6) | port 4

Nothing in these bytes says which of the two it is; a message's sysFlag does, or the length of an id.
"""

from __future__ import annotations

from ipaddress import ip_address

from ..errors import LocalProtocolError
from ..model import Address

__all__ = ["decode_host", "encode_host", "is_ipv6"]

_PORT_BYTES = 4


def is_ipv6(address: Address) -> bool:
    """Whether the host is written in 16 bytes."""
    return ":" in address.host


def encode_host(address: Address) -> bytes:
    """The bytes of a host given as an IP address."""
    try:
        return ip_address(address.host).packed + address.port.to_bytes(_PORT_BYTES, "big", signed=True)
    except (ValueError, OverflowError) as cause:
        raise LocalProtocolError(
            f"{address} cannot be stored as a host: {cause}", advice="give an IP address"
        ) from cause


def decode_host(data: bytes | memoryview) -> Address:
    """The host in 8 (IPv4) or 20 bytes (IPv6); ValueError for any other number."""
    ip, port = bytes(data[:-_PORT_BYTES]), data[-_PORT_BYTES:]
    return Address(str(ip_address(ip)), int.from_bytes(port, "big", signed=True))
