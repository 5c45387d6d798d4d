"""Decide to which addresses connections may be opened.

Name servers tell clients where brokers are. A wrong one could send clients, with their signed requests, to any address.
So users can list the hosts and networks of their brokers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Self

from ..errors import AddressNotAllowed, OptionError
from ..model import Address, parse_address

__all__ = ["AllowedAddresses", "parse_allowed"]

_HOST_NAME = re.compile(r"(?![\d.]+\Z)[\w.-]+")
"""A name; digits and dots alone are none, but an IP address or a mistyped one."""
_NEITHER = "neither a host name nor an IP address nor host:port nor a network"


@dataclass(frozen=True, slots=True)
class AllowedAddresses:
    """The hosts, addresses and networks to which connections may be opened.

    A host name must be listed as the route writes it, in capital or small letters. A listed network allows only IP
    addresses and no host names, because a person who chooses a name may also choose its addresses.
    """

    hosts: frozenset[str] = frozenset()
    """Names and IP addresses that may be used with any port, as `_normal_host` writes them."""
    addresses: frozenset[Address] = frozenset()
    networks: tuple[IPv4Network | IPv6Network, ...] = ()

    def plus(self, addresses: Iterable[Address]) -> Self:
        """Return a copy that also allows the given addresses."""
        return replace(self, addresses=self.addresses.union(addresses))

    def check(self, address: Address) -> None:
        """Raise `AddressNotAllowed` if no connection to the address may be opened."""
        if not self._permits(address):
            raise AddressNotAllowed(
                "allowedBrokers does not list the address, so no connection is opened",
                advice="if it is the address of your broker, list it; else a name server sends you to a stranger",
                address=str(address),
            )

    def _permits(self, address: Address) -> bool:
        host = _normal_host(address.host)
        if address in self.addresses or host in self.hosts or Address(host, address.port) in self.addresses:
            return True
        ip = _parse_ip(host)
        return ip is not None and any(ip in network for network in self.networks)


def parse_allowed(text: str, option: str = "allowed_brokers") -> AllowedAddresses:
    """Return the hosts, addresses and networks in a list such as `broker-a, broker-b:10911, 10.1.0.0/16`.

    Raise `OptionError` for an entry that is none of these; the error names `option`.
    """
    hosts, addresses, networks = set[str](), set[Address](), list[IPv4Network | IPv6Network]()
    for entry in (part.strip() for part in text.split(",")):
        bare = entry[1:-1] if entry.startswith("[") and entry.endswith("]") else entry
        if "/" in entry:
            networks.append(_parse_network(entry, option))
        elif _is_ambiguous(entry):
            host, _, port = entry.rpartition(":")
            advice = f"write [{entry}] for the address, or [{host}]:{port} for a host and a port"
            raise _refuse(option, entry, "an IPv6 address, or a shorter one with a port", advice)
        elif _parse_ip(bare) or _HOST_NAME.fullmatch(entry):
            hosts.add(_normal_host(bare))
        elif ":" in entry:
            addresses.add(_parse_host_and_port(entry, option))
        else:
            raise _refuse(option, entry, _NEITHER)
    return AllowedAddresses(frozenset(hosts), frozenset(addresses), tuple(networks))


def _is_ambiguous(entry: str) -> bool:
    """Return whether an entry, such as `fd00::1:8080`, is an IPv6 address both with and without its last part."""
    host, _, port = entry.rpartition(":")
    return _parse_ip(entry) is not None and _parse_ip(host) is not None and port.isdigit()


def _parse_host_and_port(entry: str, option: str) -> Address:
    address = parse_address(entry, option)
    if not (_parse_ip(address.host) or _HOST_NAME.fullmatch(address.host)):
        raise _refuse(option, entry, _NEITHER)
    return Address(_normal_host(address.host), address.port)


def _parse_network(entry: str, option: str) -> IPv4Network | IPv6Network:
    try:
        return ip_network(entry)
    except ValueError as cause:
        raise _refuse(option, entry, f"not a network ({cause})") from cause


def _refuse(
    option: str, entry: str, what: str, advice: str = "give a list such as broker-a, broker-b:10911, 10.1.0.0/16"
) -> OptionError:
    return OptionError(option, entry, what, advice=advice)


def _normal_host(host: str) -> str:
    """Return an IP address in its usual form, and any other host in lower case."""
    ip = _parse_ip(host)
    return host.lower() if ip is None else str(ip)


def _parse_ip(host: str) -> IPv4Address | IPv6Address | None:
    """Return `host` as an IP address, or None if it is a name; `::ffff:10.0.0.1` becomes `10.0.0.1`."""
    try:
        ip = ip_address(host)
    except ValueError:
        return None
    return (isinstance(ip, IPv6Address) and ip.ipv4_mapped) or ip
