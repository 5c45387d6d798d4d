"""Test the address by which others know this machine."""

from __future__ import annotations

from ipaddress import ip_address

from pyspark_rocketmq.net.host import local_host


def test_this_machine_has_an_address() -> None:
    """The address is IPv4, and every call returns the same one."""
    assert ip_address(local_host()).version == 4
    assert local_host() == local_host()
