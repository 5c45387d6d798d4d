"""Test that the address under which other machines can reach this one is found."""

from __future__ import annotations

from ipaddress import ip_address

from pyspark_rocketmq.net.host import local_host


def test_this_machine_has_an_address() -> None:
    """`local_host` returns an IPv4 address, and the same one on every call."""
    assert ip_address(local_host()).version == 4
    assert local_host() == local_host()
