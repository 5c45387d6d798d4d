"""Connections are opened only to the addresses that the user allows."""

from __future__ import annotations

import pickle
from contextlib import closing

import pytest

from pyspark_rocketmq.errors import AddressNotAllowed, ConnectError, OptionError
from pyspark_rocketmq.model import Address
from pyspark_rocketmq.net.allowed import AllowedAddresses, parse_allowed
from pyspark_rocketmq.net.deadline import Deadline
from pyspark_rocketmq.net.settings import NetSettings
from pyspark_rocketmq.net.transport import connect
from tests.net.fixtures import TIMEOUT_S, StartPeer, never_answer

GIVEN = "Broker-A, broker-b:10911, 10.1.2.3, 10.2.0.0/16, fd00::/8, [2001:db8::1]:10911, 2001:DB8:0::2, [2001:db8::3:4]"


def is_permitted(allowed: AllowedAddresses, host: str, port: int = 10911) -> bool:
    """Return whether a connection to the address may be opened."""
    try:
        allowed.check(Address(host, port))
    except AddressNotAllowed:
        return False
    return True


@pytest.mark.parametrize(
    ("host", "ports"),
    [
        ("broker-a", {1, 10911}),
        ("BROKER-A", {1, 10911}),
        ("broker-b", {10911}),
        ("10.1.2.3", {1, 10911}),
        ("10.2.255.1", {1, 10911}),
        ("::ffff:10.2.255.1", {1, 10911}),
        ("fd12::1", {1, 10911}),
        ("2001:db8::1", {10911}),
        ("2001:0db8:0:0::2", {1, 10911}),
        ("2001:db8::3:4", {1, 10911}),
        ("2001:db8::3", set()),
        ("10.3.0.1", set()),
        ("broker-a.example", set()),
        ("localhost", set()),
        ("::1", set()),
        ("10.2.1", set()),
        ("0x0a020001", set()),
        ("167903233", set()),
    ],
)
def test_hosts_addresses_and_networks(host: str, ports: set[int]) -> None:
    """Names are compared as text in any case, IP addresses as numbers; other spellings of an address are names."""
    allowed = pickle.loads(pickle.dumps(parse_allowed(GIVEN)))
    assert {port for port in (1, 10911) if is_permitted(allowed, host, port)} == ports


def test_a_network_holds_no_host_names() -> None:
    """If all IP addresses are allowed, a host name is still refused, whatever it resolves to."""
    everywhere = parse_allowed("0.0.0.0/0, ::/0")
    assert is_permitted(everywhere, "127.0.0.1") and is_permitted(everywhere, "::1")
    assert not is_permitted(everywhere, "localhost")


@pytest.mark.parametrize(
    "text",
    [
        *("", "a,,b", "a,", "*", "http://a:1", "a:0", "a:b:c", "a b"),
        *("10.0.0.1/8", "10.0.0.0/33", "a/8", "10.0.0.0/8:1"),
        *("10.1.2.345", "10.1.0", "10.1.0.", "167903233", "10.1.2.345:10911", "*.shop:10911", "[fd00::5", "fd00::5]"),
    ],
)
def test_what_is_no_list_of_addresses(text: str) -> None:
    """Any other text is refused, with an example of one that is not."""
    with pytest.raises(OptionError, match=r"allowedBrokers = .*; give "):
        parse_allowed(text, "allowedBrokers")


@pytest.mark.parametrize("text", ["fd00::5:9876", "::1:2", "fe80::1%eth0:10911"])
def test_an_ipv6_address_that_may_end_with_a_port_needs_brackets(text: str) -> None:
    """If a text is one IPv6 address as a whole, and another one before its last colon, brackets must decide."""
    host, _, port = text.rpartition(":")
    both = [f"[{text}]", f"[{host}]:{port}"]
    with pytest.raises(OptionError) as refused:
        parse_allowed(f"broker-a, {text}")
    assert f"'{text}'" in str(refused.value) and all(each in str(refused.value) for each in both)

    whole, parted = map(parse_allowed, both)
    assert is_permitted(whole, text) and not is_permitted(whole, host, int(port))
    assert is_permitted(parted, host, int(port)) and not is_permitted(parted, text)


def test_a_refused_entry_is_shown_whole() -> None:
    """An entry that is refused is named in full, so that the user finds it in the list."""
    entry = "broker-a.with-a-long-name.somewhere.shop.example/24"
    with pytest.raises(OptionError, match=entry):
        parse_allowed(f"broker-b, {entry}")


def test_nothing_is_connected_that_is_not_allowed(start_peer: StartPeer) -> None:
    """If an address is not allowed, connecting raises before a connection is made or a name is looked up."""
    peer = start_peer(never_answer)
    settings = NetSettings(allowed=parse_allowed("10.2.0.0/16").plus([peer.address]))
    with closing(connect(peer.address, Deadline.after(TIMEOUT_S), settings)) as transport:
        assert transport.address == peer.address

    for stranger in (peer.address._replace(host="localhost"), Address("no-such-host.invalid", 9876)):
        with pytest.raises(AddressNotAllowed, match=f"allowedBrokers .* \\(address {stranger}\\); if it is .* list it"):
            connect(stranger, Deadline.after(TIMEOUT_S), settings)
    with pytest.raises(ConnectError, match="unknown host"):
        connect(stranger, Deadline.after(TIMEOUT_S), NetSettings())
