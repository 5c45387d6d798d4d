"""Servers that speak TLS to those who do not, the reverse, and TLS that breaks."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from .behaviours import PULLS, cut, flood, on
from .scenarios import Ends, Scenario, assert_ends_well
from .server import Manner

PKI = Path(__file__).parents[1] / "net" / "pki"
TLS = {"useTLS": "true", "tlsTrustCertPath": str(PKI / "ca.pem")}
DISTRUSTFUL = {"useTLS": "true", "tlsTrustCertPath": str(PKI / "other_ca.pem")}
ALERT = b"\x15\x03\x03\x00\x02\x02\x28"
HELLO = b"\x16\x03\x03\xff\xff" + bytes(100)


def server_side(certificate: str = "server") -> ssl.SSLContext:
    """Return the context of servers with a certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(PKI / f"{certificate}.pem", PKI / f"{certificate}.key")
    return context


def tls(name: str, make: Callable[[], Manner], options: dict[str, str], face: str = "batch", **given: Any) -> Scenario:
    """Return a scenario with TLS at one side or at both."""
    return Scenario(name, make, face, options, **given)


def greeting(data: bytes) -> Callable[[], Manner]:
    """Make plain servers that send each connection some bytes at once."""
    return lambda: Manner(greeting=flood(data, count=1), greets_at_name_server=True)


SCENARIOS = [
    tls("TLS at both sides", lambda: Manner(tls=server_side()), TLS, ends=Ends.RIGHT),
    tls("a stream over TLS", lambda: Manner(tls=server_side()), TLS, "triggers", ends=Ends.RIGHT),
    tls("TLS servers, plain client", lambda: Manner(tls=server_side()), {}, ends=Ends.ERROR),
    tls("TLS servers, plain stream", lambda: Manner(tls=server_side()), {}, "stream", ends=Ends.ERROR),
    tls("TLS servers, plain producer", lambda: Manner(tls=server_side()), {}, "send", ends=Ends.ERROR),
    tls("plain servers, TLS client", Manner, TLS, ends=Ends.ERROR),
    tls("a web server instead of TLS", greeting(b"HTTP/1.1 400 Bad Request\r\n\r\n"), TLS, ends=Ends.ERROR),
    tls("an alert instead of TLS", greeting(ALERT), TLS, ends=Ends.ERROR),
    tls("half a hello instead of TLS", greeting(HELLO), TLS, ends=Ends.ERROR),
    tls("noise instead of TLS", greeting(bytes(range(256)) * 300), TLS, ends=Ends.ERROR),
    tls("an alert to a plain client", greeting(ALERT), {}),
    tls("a certificate of another CA", lambda: Manner(tls=server_side()), DISTRUSTFUL, ends=Ends.ERROR),
    tls("a certificate of another host", lambda: Manner(tls=server_side("stranger")), TLS, ends=Ends.ERROR),
    tls(
        "TLS cut in the middle of pulls", lambda: Manner(on(PULLS, cut(2000)), tls=server_side()), TLS, ends=Ends.ERROR
    ),
    tls("a notice in TLS", lambda: Manner(greeting=flood(b"\0\0\0\0", count=1), tls=server_side()), TLS),
]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=str)
def test_tls(scenario: Scenario) -> None:
    """A server that speaks otherwise than it should ends as an error that says so."""
    assert_ends_well(scenario)
