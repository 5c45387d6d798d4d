"""Check a cluster from here: name servers, brokers, clocks, settings, a topic and a group."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Any

from ...errors import BrokerError, ConnectError, ProtocolError, RocketMQError, TransportError
from ..command import Command, Parameter
from ..exits import Exit
from ..views import Column, Note, Table, View

if TYPE_CHECKING:
    from ...cluster.cluster import Cluster
    from ...cluster.routes import BrokerEndpoints
    from ...cluster.survey import BrokerProcess
    from ...model import Address, MessageQueue
    from ..session import Session

__all__ = ["COMMANDS"]

_SKEW_S = 5.0
"""Differences between clocks up to this one are no finding; brokers report their time to the second."""
_HOUR_S = 3600


class Level(Enum):
    """The weight of a finding."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check."""

    level: Level
    check: str
    place: str
    what: str
    why: str | None = None
    """The reason why it matters."""
    advice: str | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """All findings, in the order of the checks."""

    findings: tuple[Finding, ...]
    problems: int
    warnings: int


def _run(session: Session, topic: tuple[str, ...], group: str | None, recovery: str | None) -> Report:
    recovery_s = _parse_recovery(recovery)
    findings = list(_check(session, topic, group, recovery_s))
    counts = [each.level for each in findings]
    return Report(tuple(findings), counts.count(Level.PROBLEM), counts.count(Level.WARNING))


def _parse_recovery(text: str | None) -> float | None:
    from ...options.values import OptionText, read_duration_ms

    return None if text is None else read_duration_ms(OptionText("--recovery", text)) / 1000


def _check(session: Session, topics: tuple[str, ...], group: str | None, recovery_s: float | None) -> Iterator[Finding]:
    found = dict(_ask_name_servers(session))
    yield from (_name_server(session, address, result) for address, result in found.items())
    brokers = next((each[0] for each in found.values() if not isinstance(each, RocketMQError)), None)
    if brokers is None:
        return
    yield from _compare_name_servers(found)
    if not brokers:
        why = "topics have no queues without brokers"
        yield Finding(Level.PROBLEM, "brokers", "-", "no broker is registered", why, "check brokers' namesrvAddr")
        return
    yield from _processes(session, brokers)
    yield from _settings(session, brokers, recovery_s)
    for topic in topics:
        yield from _topic(session, topic, group)
    if group is not None:
        yield from _group(session, brokers, group)


# --- name servers ----------------------------------------------------------------------------------------------------

_Asked = tuple[tuple["BrokerEndpoints", ...], float]
"""The brokers that a name server knows, and the seconds that it took to answer."""


def _ask_name_servers(session: Session) -> Iterator[tuple[Address, _Asked | RocketMQError]]:
    from ...cluster.cluster import open_cluster

    for address in session.options.cluster.name_servers:
        cluster = open_cluster(replace(session.options.cluster, name_servers=(address,), retries=0))
        started = time.monotonic()
        try:
            brokers = cluster.name_servers.fetch_brokers()
        except RocketMQError as error:
            yield address, error
        else:
            yield address, (brokers, time.monotonic() - started)


def _name_server(session: Session, address: Address, result: _Asked | RocketMQError) -> Finding:
    if not isinstance(result, RocketMQError):
        what = f"answers in {1000 * result[1]:.0f} ms, knows {len(result[0])} brokers"
        return Finding(Level.OK, "name server", str(address), what)
    why = "without a name server no route can be found"
    return Finding(Level.PROBLEM, "name server", str(address), *_diagnose(session, address, result, why))


def _diagnose(session: Session, address: Address, error: RocketMQError, why: str) -> tuple[str, str, str]:
    """Return what is wrong with a server, why it matters, and what to do, from its error and from how it greets."""
    from ...broker_errors import RequestCodeNotSupported
    from ...net.greeting import Greeting, identify

    net = session.options.cluster.net
    if isinstance(error, RequestCodeNotSupported):
        return "this is a broker, or a proxy, not a name server", why, "give the name server: its usual port is 9876"
    refused = isinstance(error, ConnectError) and net.tls is None
    greeting = None if refused or not isinstance(error, TransportError | ProtocolError) else identify(address, net)
    if greeting is Greeting.HTTP2:
        return f"the server speaks {greeting.value}", why, "give the remoting port: 9876 of a name server, not 8081"
    if greeting is Greeting.HTTP:
        return "this is an HTTP server", why, "give the name server: its usual port is 9876"
    if greeting is Greeting.TLS and net.tls is None:
        return "the server speaks TLS", why, "set -o useTLS=true, and tlsTrustCertPath for a CA of your own"
    return _say(error), why, error.advice or "check the address"


def _compare_name_servers(found: Mapping[Address, _Asked | RocketMQError]) -> Iterator[Finding]:
    known = {
        address: {each.broker_name for each in result[0]}
        for address, result in found.items()
        if not isinstance(result, RocketMQError)
    }
    everything = set().union(*known.values())
    for address, names in known.items():
        if missing := sorted(everything - names):
            what = f"does not know {', '.join(missing)}, which another name server knows"
            why = "a client that asks this one does not see their queues"
            yield Finding(Level.WARNING, "name server", str(address), what, why, "list all name servers in namesrvAddr")


# --- brokers ---------------------------------------------------------------------------------------------------------


def _processes(session: Session, brokers: Iterable[BrokerEndpoints]) -> Iterator[Finding]:
    for broker in brokers:
        started = time.monotonic()
        infos = session.cluster.survey.fetch_runtime_infos([broker])
        spent_s = time.monotonic() - started
        for process, info in infos.items():
            yield from _process(session, process, info, spent_s)
        if all(process.broker_id for process in infos):
            what, why = "the master is away", "replicas take no messages and no positions"
            yield Finding(Level.PROBLEM, "broker", broker.broker_name, what, why, "start the master")


def _process(
    session: Session, process: BrokerProcess, info: dict[str, str] | RocketMQError, spent_s: float
) -> Iterator[Finding]:
    role = f"replica {process.broker_id}" if process.broker_id else "master"
    place = f"{process.broker_name} ({role}, {process.address})"
    if isinstance(info, RocketMQError):
        yield _without_figures(session, process, place, info)
        return
    release = info.get("brokerVersionDesc", "of unknown release").removeprefix("V").replace("_", ".")
    yield Finding(Level.OK, "broker", place, f"{release}, answers in {1000 * spent_s:.0f} ms")
    yield from _clock(place, info, session.now_ms())


def _without_figures(session: Session, process: BrokerProcess, place: str, error: RocketMQError) -> Finding:
    if isinstance(error, BrokerError):
        what = f"answers, but does not report its figures: {_say(error)}"
        return Finding(Level.UNKNOWN, "broker", place, what, "its clock is not checked", error.advice or None)
    why = "its queues cannot be read from here"
    if isinstance(error, ConnectError):
        advice = "brokers register the address of their configuration (brokerIP1): set brokerAddressMap if another one "
        return Finding(Level.PROBLEM, "broker", place, _say(error), why, f"{advice}leads there from here")
    return Finding(Level.PROBLEM, "broker", place, *_diagnose(session, process.address, error, why))


def _clock(place: str, info: Mapping[str, str], now_ms: int) -> Iterator[Finding]:
    """Yield a finding if a broker's clock differs from the one here: it reports its start and its uptime."""
    from ...cluster.clocks import broker_time_ms

    there_ms = broker_time_ms(info)
    if there_ms is None:
        return
    skew_s = (there_ms - now_ms) / 1000
    if abs(skew_s) > _SKEW_S:
        what = f"its clock is {abs(skew_s):.0f} s {'ahead of' if skew_s > 0 else 'behind'} the one here"
        why = "starts by time, ages and retention are by the broker's clock"
        yield Finding(Level.PROBLEM, "clock", place, what, why, "let both follow the same time servers")


# --- settings --------------------------------------------------------------------------------------------------------


def _settings(session: Session, brokers: Iterable[BrokerEndpoints], recovery_s: float | None) -> Iterator[Finding]:
    for name, found in session.cluster.survey.fetch_broker_configs(brokers).items():
        if isinstance(found, RocketMQError):
            if not isinstance(found, TransportError):
                yield Finding(Level.UNKNOWN, "settings", name, _say(found), "retention and others are not checked")
            continue
        yield from _broker_settings(name, found)
        yield from _retention(name, found.get("fileReservedTime", ""), recovery_s)


def _broker_settings(name: str, settings: Mapping[str, str]) -> Iterator[Finding]:
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


def _retention(name: str, hours: str, recovery_s: float | None) -> Iterator[Finding]:
    if not hours.isdigit():
        return
    kept_s = int(hours) * _HOUR_S
    what = f"messages are kept for {hours} h"
    if recovery_s is None or recovery_s < kept_s:
        yield Finding(Level.OK, "retention", name, what)
        return
    what = f"{what}, but recovery may take {recovery_s / _HOUR_S:.1f} h"
    why = "a query that is down for so long loses messages"
    yield Finding(Level.PROBLEM, "retention", name, what, why, "raise fileReservedTime, and the disks")


# --- topic and group -------------------------------------------------------------------------------------------------


def _topic(session: Session, topic: str, group: str | None) -> Iterator[Finding]:
    cluster = session.cluster
    try:
        route = cluster.routes.route(topic)
    except RocketMQError as error:
        yield Finding(Level.PROBLEM, "topic", topic, _say(error), "nothing can be read or written", error.advice)
        return
    if not route.readable:
        what, why = "no queue may be read", "a query of this topic fails"
        yield Finding(Level.PROBLEM, "topic", topic, what, why, "give it read queues, and permission 4 or 6")
        return
    what = f"{len(route.readable)} queues to read, {len(route.writable)} to write, at {len(route.brokers)} brokers"
    yield Finding(Level.OK, "topic", topic, what)
    yield from _reading(cluster, topic)
    if group is not None:
        yield from _position(cluster, route.readable[0], group)


def _reading(cluster: Cluster, topic: str) -> Iterator[Finding]:
    """Yield a problem for each broker at which messages of a topic may not be read: one pull at each tries it.

    The pulls go under the group for readers without one: under the group's own name they could create it, or take an
    administrator's reset away from it.
    """
    from ...broker_errors import PullNotFound, PullOffsetMoved, PullRetryImmediately
    from ...cluster.broker import to_queue
    from ...cluster.names import READER_GROUP
    from ...pull.remoting import pull_header
    from ...pull.settings import Subscription

    first = {queue.broker_name: queue for queue in reversed(cluster.routes.route(topic).readable)}
    pulls = {
        name: to_queue(queue, pull_header(queue, READER_GROUP, Subscription(), 0, 1)) for name, queue in first.items()
    }
    harmless = (PullNotFound, PullRetryImmediately, PullOffsetMoved, TransportError)
    for name, result in cluster.brokers.try_all(pulls).items():
        if isinstance(result, RocketMQError) and not isinstance(result, harmless):
            place, why = f"{topic} at {name}", "messages cannot be read"
            yield Finding(Level.PROBLEM, "reading", place, _say(result), why, result.advice)


def _position(cluster: Cluster, queue: MessageQueue, group: str) -> Iterator[Finding]:
    try:
        cluster.offsets.fetch_committed(group, [queue])
    except RocketMQError as error:
        if not isinstance(error, TransportError):
            what, why = _say(error), "a query cannot begin at the group's positions"
            yield Finding(Level.PROBLEM, "position", f"{group} in {queue.topic}", what, why, error.advice)


def _group(session: Session, brokers: Iterable[BrokerEndpoints], group: str) -> Iterator[Finding]:
    survey = session.cluster.survey
    for name, configs in survey.fetch_group_configs(brokers).items():
        if isinstance(configs, RocketMQError):
            if not isinstance(configs, TransportError):
                yield Finding(Level.UNKNOWN, "group", f"{group} at {name}", _say(configs))
        elif group not in configs:
            what, why = "the broker has no such group", "brokers since 5.3 refuse its commits"
            advice = f"mqadmin updateSubGroup -n NAMESRV -c CLUSTER -g {group}"
            yield Finding(Level.WARNING, "group", f"{group} at {name}", what, why, advice)
        elif not configs[group].consume_enable:
            what, why = "consumeEnable=false", "the broker refuses its reads"
            yield Finding(Level.PROBLEM, "group", f"{group} at {name}", what, why, "set consumeEnable=true")
        else:
            yield Finding(Level.OK, "group", f"{group} at {name}", "may consume")


def _say(error: RocketMQError) -> str:
    """Return an error without its place and advice, which a finding has in columns of their own."""
    return f"[{error.code}] {error.what}"


# --- for people ------------------------------------------------------------------------------------------------------


def _show(report: Report) -> list[View]:
    rows = [(each.level.value, each.check, each.place, _text(each)) for each in report.findings]
    columns = (Column(""), Column("check"), Column("place"), Column("finding"))
    return [Table(columns, rows), Note(f"{report.problems} problems, {report.warnings} warnings")]


def _text(finding: Finding) -> str:
    return "; ".join(filter(None, (finding.what, finding.why, finding.advice and f"→ {finding.advice}")))


def _verdict(report: Report, values: dict[str, Any]) -> int:
    return Exit.CHECK_FAILED if report.problems else Exit.DONE


COMMANDS = (
    Command(
        "doctor",
        Report,
        _run,
        _show,
        parameters=(
            Parameter("--topic", "check this topic, too", is_repeatable=True, metavar="TOPIC"),
            Parameter("--group", "check this consumer group, too", metavar="GROUP"),
            Parameter("--recovery", "longest time that a query may be down: 24h, 3d", metavar="DURATION"),
        ),
        details="Checks from here: name servers and brokers (reachable, latency, release, a wrong port by its "
        "protocol), clocks, settings that lose or misplace messages, retention, topic and group. Exits with 8 if there "
        "is a problem. Nothing is changed.",
        examples=("pyspark-rocketmq doctor", "pyspark-rocketmq doctor --topic orders --group billing --recovery 24h"),
        verdict=_verdict,
    ),
)
