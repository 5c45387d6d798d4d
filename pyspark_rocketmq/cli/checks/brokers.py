"""Check brokers: reach every process, compare clocks, read certificates and settings, and compare retention.

All processes are asked at the same time, each with a deadline. A broker that cannot be reached, or that refuses the
credentials, is told once, and asked nothing more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from ...cluster.clocks import describe_skew, skew_ms
from ...cluster.servers import ServerRequest, Servers
from ...cluster.survey import BrokerProcess, number_in
from ...errors import BrokerError, ConnectError, RocketMQError
from ...lag.measure import deletes_by_force
from ...net.deadline import Deadline
from ...wire.bodies import KVTable
from ...wire.commands import GetBrokerRuntimeInfoRequestHeader
from ..diagnosis import diagnose
from .findings import Finding, Level, describe
from .permissions import Refusal, explain_failure, explain_refusal
from .together import map_together

if TYPE_CHECKING:
    from ...cluster.routes import BrokerEndpoints
    from ...model import Address
    from ...net.settings import NetSettings
    from ..session import Session

__all__ = ["CheckedBrokers", "check_brokers", "check_certificates", "check_settings"]

_DEADLINE_S = 3.0
_HOUR_S, _DAY_S = 3600, 86_400
_RENEWAL_DAYS = 30
"""A certificate that ends earlier than this is a warning."""


class CheckedBrokers(NamedTuple):
    """Findings about brokers, and the brokers that answer, of which more can be asked."""

    findings: list[Finding]
    answering: list[BrokerEndpoints]
    figures: dict[str, dict[str, str]]
    """The runtime figures of masters, by broker name; a master that does not report them is missing."""
    addresses: list[Address]
    """The addresses of the processes that answer, replicas included."""


class _Asked(NamedTuple):
    """The figures of one process, or why there are none."""

    process: BrokerProcess
    info: dict[str, str] | RocketMQError
    asked_ms: int
    answered_ms: int
    """The times here before the request and after the response."""


def check_brokers(session: Session, brokers: Sequence[BrokerEndpoints]) -> CheckedBrokers:
    """Ask every process of every broker for its figures."""
    servers = session.cluster.brokers.servers
    processes = [
        BrokerProcess(broker.cluster, broker.broker_name, place.broker_id, place.address)
        for broker in brokers
        for place in broker.endpoints
    ]
    asked = map_together(lambda process: _ask(session, servers, process), processes)
    findings = [finding for each in asked for finding in _check_process(session, each)]
    findings += [_without_master(broker) for broker in brokers if all(place.broker_id for place in broker.endpoints)]
    masters = {each.process.broker_name: each.info for each in asked if not each.process.broker_id}
    figures = {name: info for name, info in masters.items() if not isinstance(info, RocketMQError)}
    answering = [each for each in brokers if each.broker_name in masters and _can_say_more(masters[each.broker_name])]
    addresses = [each.process.address for each in asked if isinstance(each.info, dict | BrokerError)]
    return CheckedBrokers(findings, answering, figures, addresses)


def _ask(session: Session, servers: Servers, process: BrokerProcess) -> _Asked:
    header = GetBrokerRuntimeInfoRequestHeader()
    request = ServerRequest(process.address, header, b"", process.broker_name, process.broker_id)
    info: dict[str, str] | RocketMQError
    asked_ms = session.now_ms()
    try:
        info = servers.ask(request, deadline=Deadline.after(_DEADLINE_S)).body(KVTable).table
    except RocketMQError as error:
        info = error
    return _Asked(process, info, asked_ms, session.now_ms())


def _can_say_more(info: dict[str, str] | RocketMQError) -> bool:
    if isinstance(info, RocketMQError):
        refusal = explain_refusal(info, "Get", (), "")
        return isinstance(info, BrokerError) and not (refusal and refusal.is_of_credentials)
    return True


def _check_process(session: Session, asked: _Asked) -> Iterator[Finding]:
    process, info = asked.process, asked.info
    role = f"replica {process.broker_id}" if process.broker_id else "master"
    place = f"{process.broker_name} ({role}, {process.address})"
    if isinstance(info, RocketMQError):
        yield _without_figures(session, process, place, info)
        return
    release = info.get("brokerVersionDesc", "of unknown release").removeprefix("V").replace("_", ".")
    yield Finding(Level.OK, "broker", place, f"{release}, answers in {asked.answered_ms - asked.asked_ms} ms")
    yield from _compare_clocks(place, asked, info)


def _without_figures(session: Session, process: BrokerProcess, place: str, error: RocketMQError) -> Finding:
    if refusal := explain_refusal(error, "Get", session.name_servers, process.cluster):
        if refusal.is_of_credentials:
            why = "the broker refuses every request"
            return Finding(Level.PROBLEM, "credentials", place, refusal.what, why, refusal.advice)
        return _unknown_figures(place, refusal)
    if isinstance(error, BrokerError):
        return _unknown_figures(place, Refusal(describe(error), error.advice))
    why = "its queues cannot be read from here"
    if isinstance(error, ConnectError):
        advice = "brokers register the address of their configuration (brokerIP1): set brokerAddressMap if another one "
        return Finding(Level.PROBLEM, "broker", place, describe(error), why, f"{advice}leads there from here")
    found = diagnose(process.address, error, session.options.cluster)
    what = f"{found.what}, and no broker" if found else describe(error)
    advice = "check which process listens there, and brokerAddressMap" if found else error.advice
    return Finding(Level.PROBLEM, "broker", place, what, why, advice)


def _unknown_figures(place: str, refusal: Refusal) -> Finding:
    what, why = f"answers, but does not report its figures: {refusal.what}", "its clock is not checked"
    return Finding(Level.UNKNOWN, "broker", place, what, why, refusal.advice or None, refusal.command)


def _without_master(broker: BrokerEndpoints) -> Finding:
    why = "replicas take no messages and no positions"
    return Finding(Level.PROBLEM, "broker", broker.broker_name, "the master is away", why, "start the master")


def _compare_clocks(place: str, asked: _Asked, info: Mapping[str, str]) -> Iterator[Finding]:
    """Yield a finding if a broker's clock differs from the one here."""
    skew = skew_ms(info, asked.asked_ms, asked.answered_ms)
    if skew is None:
        what, why = "the broker does not report its start and uptime", "its clock is not checked"
        yield Finding(Level.UNKNOWN, "clock", place, what, why)
    elif difference := describe_skew(skew):
        what = f"its clock is {difference}"
        why = "starts by time, ages and retention are by the broker's clock"
        yield Finding(Level.PROBLEM, "clock", place, what, why, "let both follow the same time servers")


# --- certificates ----------------------------------------------------------------------------------------------------


def check_certificates(session: Session, addresses: Sequence[Address]) -> list[Finding]:
    """Return when the certificates of servers end; one that is not trusted was told when the server was asked."""
    net = session.options.cluster.net
    if net.tls is None:
        return []
    if not net.tls.verify_server:
        why = "an impostor can take the place of a server and read everything"
        advice = "drop tlsAuthServer=false, and name the CA with tlsTrustCertPath"
        return [Finding(Level.WARNING, "certificate", "-", "tlsAuthServer=false: no server is checked", why, advice)]
    now_s = session.now_ms() / 1000
    ends = map_together(lambda address: _fetch_end(address, net), addresses)
    return [
        _check_end(str(address), end, now_s) for address, end in zip(addresses, ends, strict=True) if end is not None
    ]


def _fetch_end(address: Address, net: NetSettings) -> float | RocketMQError | None:
    from ...net.greeting import fetch_certificate_end

    try:
        return fetch_certificate_end(address, replace(net, connect_timeout_s=min(_DEADLINE_S, net.connect_timeout_s)))
    except RocketMQError as error:
        return error


def _check_end(place: str, end: float | RocketMQError, now_s: float) -> Finding:
    if isinstance(end, RocketMQError):
        why = "the end of its certificate is not checked"
        return Finding(Level.UNKNOWN, "certificate", place, describe(end), why, end.advice or None)
    days = (end - now_s) / _DAY_S
    what = f"is trusted, names the host, and is valid for {days:.0f} days"
    if days >= _RENEWAL_DAYS:
        return Finding(Level.OK, "certificate", place, what)
    why = "clients refuse the server after that"
    return Finding(Level.WARNING, "certificate", place, what, why, "renew the server's certificate")


# --- settings --------------------------------------------------------------------------------------------------------


def check_settings(session: Session, checked: CheckedBrokers, recovery_s: float | None) -> Iterator[Finding]:
    """Yield what the settings of brokers harm, and how long they keep messages."""
    clusters = {each.broker_name: each for each in checked.answering}
    surveyed = session.cluster.survey.fetch_broker_configs(clusters.values(), Deadline.after(_DEADLINE_S))
    for name, found in surveyed.items():
        if isinstance(found, RocketMQError):
            what, advice, *_, line = explain_failure(found, "Get", session.name_servers, clusters[name].cluster)
            why = "retention and others are not checked"
            yield Finding(Level.UNKNOWN, "settings", name, what, why, advice or None, line)
            continue
        yield from _check_identity(clusters[name], found)
        yield from _check_broker_settings(name, found)
        yield from _check_retention(name, found, checked.figures.get(name, {}), recovery_s)


def _check_identity(broker: BrokerEndpoints, settings: Mapping[str, str]) -> Iterator[Finding]:
    """Yield a finding if another broker than the registered one answers at its address."""
    found = settings.get("brokerClusterName", broker.cluster), settings.get("brokerName", broker.broker_name)
    if found != (broker.cluster, broker.broker_name):
        what = f"at its address {broker.master()} answers {found[1]} of cluster {found[0]}"
        why = "messages and positions would be those of another broker"
        advice = "check brokerAddressMap, and brokerIP1 of both brokers"
        yield Finding(Level.PROBLEM, "broker", f"{broker.broker_name} of {broker.cluster}", what, why, advice)


def _check_broker_settings(name: str, settings: Mapping[str, str]) -> Iterator[Finding]:
    if settings.get("autoCreateTopicEnable") == "true":
        what, why = "autoCreateTopicEnable=true", "a misspelt topic is created, with few queues, instead of refused"
        yield Finding(Level.WARNING, "settings", name, what, why, "set it to false, and create topics on purpose")
    if settings.get("transientStorePoolEnable") == "true":
        what, why = "transientStorePoolEnable=true", "messages that were acknowledged are lost if the process is killed"
        yield Finding(Level.WARNING, "settings", name, what, why, "set it to false unless that is acceptable")
    permission = settings.get("brokerPermission", "6")
    if permission != "6":
        what = {"4": "takes no messages", "2": "serves no reads"}.get(permission, "allows neither reads nor writes")
        what, why = f"brokerPermission={permission}: the broker {what}", "its queues are missing on one side"
        yield Finding(Level.WARNING, "settings", name, what, why, "set it to 6 if that is not on purpose")


def _check_retention(
    name: str, settings: Mapping[str, str], figures: Mapping[str, str], recovery_s: float | None
) -> Iterator[Finding]:
    hours = number_in(settings, "fileReservedTime")
    if deletes_by_force(settings, figures):
        what, why = "its disk is so full that messages of any age are deleted", "a query that is behind loses messages"
        yield Finding(
            Level.PROBLEM, "retention", name, what, why, "free or enlarge the disk, or lower fileReservedTime"
        )
    elif hours is None:
        what, why = "the broker does not report fileReservedTime", "how long messages are kept is not checked"
        yield Finding(Level.UNKNOWN, "retention", name, what, why)
    elif recovery_s is None or recovery_s < hours * _HOUR_S:
        yield Finding(Level.OK, "retention", name, f"messages are kept for {hours} h")
    else:
        what = f"messages are kept for {hours} h, but recovery may take {recovery_s / _HOUR_S:.1f} h"
        why = "a query that is down for so long loses messages"
        yield Finding(Level.PROBLEM, "retention", name, what, why, "raise fileReservedTime, and the disks")
