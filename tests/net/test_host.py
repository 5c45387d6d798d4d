"""The address that others know this machine by."""

from __future__ import annotations

from ipaddress import ip_address

from pyspark_rocketmq.net.host import local_host


def test_this_machine_has_an_address() -> None:
    """It is an IPv4 address, the same whenever it is asked for."""
    assert ip_address(local_host()).version == 4
    assert local_host() == local_host()
