"""Find out what stands at an address where a RocketMQ server was expected.

Every command that fails because of a server at the address of a name server tells what it is, and `doctor` tells it of
all servers.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from ..broker_errors import RequestCodeNotSupported
from ..errors import ConnectError, OptionError, ProtocolError, RocketMQError, TransportError
from .exits import Exit, WrongServer, exit_of

if TYPE_CHECKING:
    from ..cluster.settings import ClusterSettings
    from ..model import Address
    from .session import Session

__all__ = ["Diagnosis", "diagnose", "explain"]

_USUAL = "give the name server: its usual port is 9876"
_PROGRAM = "pyspark-rocketmq"
_DOCTOR = f"{_PROGRAM} doctor finds out more"
_DEADLINE_S = 3.0


class Diagnosis(NamedTuple):
    """The kind of server at an address, and what to do about it."""

    what: str
    advice: str


def explain(error: RocketMQError, session: Session) -> RocketMQError:
    """Return an error about what stands at the address of a name server, or else the error with a hint to doctor.

    An error that says nothing about reaching servers is returned as it is, and so is one that names another command,
    such as the one that takes a move back.
    """
    is_unreachable = exit_of(error) is Exit.UNREACHABLE
    if _PROGRAM in error.advice or not (is_unreachable or isinstance(error, RequestCodeNotSupported)):
        return error
    try:
        settings = session.options.cluster
    except OptionError:  # A command that finds its cluster by itself.
        return error
    address = next((each for each in settings.name_servers if str(each) == error.where.get("address")), None)
    if address is not None and (found := diagnose(address, error, settings)):
        return WrongServer(found.what, advice=found.advice, **error.where)
    if is_unreachable:
        error.advice = "; ".join(filter(None, (error.advice, _DOCTOR)))
    return error


def diagnose(address: Address, error: RocketMQError, settings: ClusterSettings) -> Diagnosis | None:
    """Return what a server is, from the error of a request to it and from how it greets; None if that is not known."""
    if isinstance(error, RequestCodeNotSupported):
        return _tell_broker_from_proxy(address, settings)
    is_refused = isinstance(error, ConnectError) and settings.net.tls is None
    if is_refused or not isinstance(error, TransportError | ProtocolError):
        return None
    return _greet(address, settings)


def _greet(address: Address, settings: ClusterSettings) -> Diagnosis | None:
    from ..net.greeting import Greeting, identify

    greeting = identify(address, settings.net)
    if greeting is Greeting.HTTP2:
        what = f"the server speaks {greeting.value}"
        return Diagnosis(what, "give the remoting port: 9876 of a name server, not 8081 of a proxy")
    if greeting is Greeting.HTTP:
        return Diagnosis("this is an HTTP server", _USUAL)
    if greeting is Greeting.TLS and settings.net.tls is None:
        return Diagnosis("the server speaks TLS", "set -o useTLS=true, and tlsTrustCertPath for a CA of your own")
    return None


def _tell_broker_from_proxy(address: Address, settings: ClusterSettings) -> Diagnosis:
    """Return whether a server without a table of brokers is a broker or a proxy: only a proxy knows routes."""
    from ..cluster.cluster import open_cluster
    from ..cluster.writable import TEMPLATE_TOPIC
    from ..net.deadline import Deadline

    cluster = open_cluster(replace(settings, name_servers=(address,), retries=0))
    try:
        cluster.name_servers.fetch_route(TEMPLATE_TOPIC, Deadline.after(_DEADLINE_S), once=True)
    except RequestCodeNotSupported:
        return Diagnosis("this is a broker, not a name server", _USUAL)
    except RocketMQError:  # A proxy, too, has topics that it does not know.
        pass
    return Diagnosis("this is a proxy of RocketMQ 5, not a name server", f"{_USUAL}, behind the proxy")
