"""Encode and decode hosts in stored messages and message ids.

    address 4 (IPv4) or 16 (IPv6) | port 4        (sizes in bytes)

These bytes do not show whether the address is IPv4 or IPv6; the sysFlag of the message, or the length of the id, does.
"""

from __future__ import annotations

from ipaddress import ip_address

from ..errors import LocalProtocolError
from ..model import Address

__all__ = ["decode_host", "encode_host", "is_ipv6"]

_PORT_BYTES = 4


def is_ipv6(address: Address) -> bool:
    """Return whether the host of an address is an IPv6 address."""
    return ":" in address.host


def encode_host(address: Address) -> bytes:
    """Return the bytes of an address; raise `LocalProtocolError` unless its host is an IP address."""
    try:
        return ip_address(address.host).packed + address.port.to_bytes(_PORT_BYTES, "big", signed=True)
    except (ValueError, OverflowError) as cause:
        raise LocalProtocolError(
            f"{address} cannot be stored as a host: {cause}", advice="give an IP address"
        ) from cause


def decode_host(data: bytes | memoryview) -> Address:
    """Return the address in 8 bytes (IPv4) or 20 bytes (IPv6); raise `ValueError` for any other length."""
    ip, port = bytes(data[:-_PORT_BYTES]), data[-_PORT_BYTES:]
    return Address(str(ip_address(ip)), int.from_bytes(port, "big", signed=True))
