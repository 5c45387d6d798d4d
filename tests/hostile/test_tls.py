"""Test TLS clients at plain servers, plain clients at TLS servers, and broken TLS."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from .behaviours import PULLS, cut, flood, on
from .scenarios import Allowed, Scenario, run_and_check
from .server import ServerFaults

PKI = Path(__file__).parents[1] / "net" / "pki"
TLS = {"useTLS": "true", "tlsTrustCertPath": str(PKI / "ca.pem")}
DISTRUSTFUL = {"useTLS": "true", "tlsTrustCertPath": str(PKI / "other_ca.pem")}
ALERT = b"\x15\x03\x03\x00\x02\x02\x28"
HELLO = b"\x16\x03\x03\xff\xff" + bytes(100)


def server_side(certificate: str = "server") -> ssl.SSLContext:
    """Return the TLS context of servers that have this certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(PKI / f"{certificate}.pem", PKI / f"{certificate}.key")
    return context


def tls(
    name: str, make: Callable[[], ServerFaults], options: dict[str, str], entry_point: str = "batch", **given: Any
) -> Scenario:
    """Return a scenario in which the client, the servers or both use TLS."""
    return Scenario(name, make, entry_point, options, **given)


def greeting(data: bytes) -> Callable[[], ServerFaults]:
    """Return a function that makes faults: plain servers send these bytes to each new connection."""
    return lambda: ServerFaults(greeting=flood(data, count=1), greets_at_name_server=True)


SCENARIOS = [
    tls("TLS at both sides", lambda: ServerFaults(tls=server_side()), TLS, allowed=Allowed.RIGHT),
    tls("a stream over TLS", lambda: ServerFaults(tls=server_side()), TLS, "triggers", allowed=Allowed.RIGHT),
    tls("TLS servers, plain client", lambda: ServerFaults(tls=server_side()), {}, allowed=Allowed.ERROR),
    tls("TLS servers, plain stream", lambda: ServerFaults(tls=server_side()), {}, "stream", allowed=Allowed.ERROR),
    tls("TLS servers, plain producer", lambda: ServerFaults(tls=server_side()), {}, "send", allowed=Allowed.ERROR),
    tls("plain servers, TLS client", ServerFaults, TLS, allowed=Allowed.ERROR),
    tls("a web server instead of TLS", greeting(b"HTTP/1.1 400 Bad Request\r\n\r\n"), TLS, allowed=Allowed.ERROR),
    tls("an alert instead of TLS", greeting(ALERT), TLS, allowed=Allowed.ERROR),
    tls("half a hello instead of TLS", greeting(HELLO), TLS, allowed=Allowed.ERROR),
    tls("noise instead of TLS", greeting(bytes(range(256)) * 300), TLS, allowed=Allowed.ERROR),
    tls("an alert to a plain client", greeting(ALERT), {}),
    tls("a certificate of another CA", lambda: ServerFaults(tls=server_side()), DISTRUSTFUL, allowed=Allowed.ERROR),
    tls("a certificate of another host", lambda: ServerFaults(tls=server_side("stranger")), TLS, allowed=Allowed.ERROR),
    tls(
        "TLS cut in the middle of pulls",
        lambda: ServerFaults(on(PULLS, cut(2000)), tls=server_side()),
        TLS,
        allowed=Allowed.ERROR,
    ),
    tls("a notice in TLS", lambda: ServerFaults(greeting=flood(b"\0\0\0\0", count=1), tls=server_side()), TLS),
]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=str)
def test_tls(scenario: Scenario) -> None:
    """If TLS is missing at one side, or broken, the call ends in time; if both sides agree, the result is right."""
    run_and_check(scenario)
