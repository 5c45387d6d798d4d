"""Test `wire.host`."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_rocketmq.errors import LocalProtocolError
from pyspark_rocketmq.model import Address
from pyspark_rocketmq.wire.host import decode_host, encode_host, is_ipv6

from .strategies import hosts


@given(hosts(ipv6=False) | hosts(ipv6=True))
def test_decode_undoes_encode(host: Address) -> None:
    """IPv4 and IPv6 addresses are encoded to 8 or 20 bytes, and decoded to equal addresses."""
    data = encode_host(host)

    assert decode_host(data) == host
    assert len(data) == (20 if is_ipv6(host) else 8)


@pytest.mark.parametrize("address", [Address("broker-a", 1), Address("", 1), Address("10.0.0.1", 2**31)])
def test_only_ip_addresses_are_stored(address: Address) -> None:
    """An address with a host name, or with a port that does not fit four bytes, raises an error when it is encoded."""
    with pytest.raises(LocalProtocolError, match="cannot be stored as a host"):
        encode_host(address)


@given(st.binary(max_size=30).filter(lambda data: len(data) not in (8, 20)))
def test_other_lengths_are_no_host(data: bytes) -> None:
    """Bytes of any other length than 8 and 20 raise an error when they are decoded."""
    with pytest.raises(ValueError, match="does not appear to be an IPv4 or IPv6 address"):
        decode_host(data)
