"""Check topics and a group: routes, whether messages may be read, and whether the group's positions may be asked."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ...broker_errors import PullNotFound, PullOffsetMoved, PullRetryImmediately
from ...cluster.broker import to_queue
from ...cluster.names import READER_GROUP
from ...errors import RocketMQError, TopicNotFound, TransportError
from ...net.deadline import Deadline
from ..views import show_count
from .findings import Finding, Level, describe
from .permissions import Refusal, explain_failure, explain_refusal
from .together import map_together

if TYPE_CHECKING:
    from ...cluster.routes import BrokerEndpoints, Route
    from ...model import MessageQueue
    from ...wire.bodies import SubscriptionGroupConfig
    from ..session import Session

__all__ = ["check_group", "check_topic", "find_holders"]

_DEADLINE_S = 3.0
_HARMLESS = (PullNotFound, PullRetryImmediately, PullOffsetMoved)


def check_topic(
    session: Session, topic: str, group: str | None, brokers: Sequence[BrokerEndpoints], away: Iterable[str]
) -> Iterator[Finding]:
    """Yield whether a topic exists and may be read, and a group's positions in it; brokers in `away` are not asked."""
    try:
        route = session.cluster.routes.route(topic, Deadline.after(_DEADLINE_S))
    except RocketMQError as error:
        is_missing, why = isinstance(error, TopicNotFound), "nothing can be read or written"
        advice = "check the name, or create it" if is_missing else error.advice
        line = _create_line(session, topic, brokers) if is_missing else None
        yield Finding(Level.PROBLEM, "topic", topic, describe(error), why, advice, line)
        return
    if not route.readable:
        what, why = "no queue may be read", "a query of this topic fails"
        yield Finding(Level.PROBLEM, "topic", topic, what, why, "give it read queues, and permission 4 or 6")
        return
    brokers_text = show_count(len(route.brokers), "broker")
    what = f"{show_count(len(route.readable), 'queue')} to read, {len(route.writable):,} to write, at {brokers_text}"
    yield Finding(Level.OK, "topic", topic, what)
    queues = _first_queues(route, set(away))
    yield from _check_reading(session, route, queues)
    if group is not None:
        yield from _check_positions(session, route, queues, group)


def _create_line(session: Session, topic: str, brokers: Sequence[BrokerEndpoints]) -> str:
    cluster = brokers[0].cluster if brokers else "CLUSTER"
    name = session.options.cluster.namespace.wrap(topic)
    words = ["mqadmin", "updateTopic", "-n", ";".join(session.name_servers), "-c", cluster, "-t", name]
    return shlex.join([*words, "-r", "8", "-w", "8"])


def _first_queues(route: Route, away: set[str]) -> list[MessageQueue]:
    """Return the first queue of each broker that is not away."""
    first = {queue.broker_name: queue for queue in reversed(route.readable)}
    return [first[name] for name in sorted(first) if name not in away]


def _check_reading(session: Session, route: Route, queues: Sequence[MessageQueue]) -> Iterator[Finding]:
    """Yield a finding for each broker at which messages of a topic cannot be read: one pull at each tries it.

    The pulls go under the group for readers without one: under the group's own name they could create it, or take an
    administrator's reset away from it.
    """
    from ...pull.remoting import pull_header
    from ...pull.settings import Subscription

    pulls = {queue: to_queue(queue, pull_header(queue, READER_GROUP, Subscription(), 0, 1)) for queue in queues}
    for queue, result in session.cluster.brokers.try_all(pulls, deadline=Deadline.after(_DEADLINE_S)).items():
        if isinstance(result, RocketMQError) and not isinstance(result, _HARMLESS):
            place, why = f"{queue.topic} at {queue.broker_name}", "messages cannot be read"
            yield _fail(session, route, queue, Finding(Level.PROBLEM, "reading", place, "", why), result)


def _check_positions(session: Session, route: Route, queues: Sequence[MessageQueue], group: str) -> Iterator[Finding]:
    """Yield a finding for each broker that does not tell the group's position in one of its queues."""

    def ask(queue: MessageQueue) -> RocketMQError | None:
        try:
            session.cluster.offsets.fetch_committed(group, [queue], deadline=Deadline.after(_DEADLINE_S))
        except RocketMQError as error:
            return error
        return None

    for queue, error in zip(queues, map_together(ask, queues), strict=True):
        if error is not None:
            place, why = f"{group} in {queue.topic} at {queue.broker_name}", "a query cannot begin at its positions"
            yield _fail(session, route, queue, Finding(Level.PROBLEM, "position", place, "", why), error)


def _fail(session: Session, route: Route, queue: MessageQueue, finding: Finding, error: RocketMQError) -> Finding:
    """Return the finding with what the error says; a broker that gives no answer makes it unknown."""
    cluster = route.brokers[queue.broker_name].cluster if queue.broker_name in route.brokers else "CLUSTER"
    if refusal := explain_refusal(error, "Sub", session.name_servers, cluster):
        return _refuse(finding, refusal)
    level = Level.UNKNOWN if isinstance(error, TransportError) else finding.level
    return Finding(level, finding.check, finding.place, describe(error), finding.why, error.advice or None)


def _refuse(finding: Finding, refusal: Refusal) -> Finding:
    """Return the finding about a refusal; only commands read under the group for readers, queries do not."""
    if refusal.resource == f"group:{READER_GROUP}":
        why = "peek, tail, find, and the ages in lag, read under this group"
        finding = replace(finding, level=Level.WARNING, why=why)
    return replace(finding, what=refusal.what, advice=refusal.advice, command=refusal.command)


# --- groups ----------------------------------------------------------------------------------------------------------


def find_holders(session: Session, topics: Iterable[str]) -> set[str] | None:
    """Return the brokers that hold topics, None if the route of one is not known."""
    try:
        routes = [session.cluster.routes.route(topic, Deadline.after(_DEADLINE_S)) for topic in topics]
    except RocketMQError:
        return None
    return {name for route in routes for name in route.brokers}


def check_group(session: Session, brokers: Sequence[BrokerEndpoints], group: str) -> Iterator[Finding]:
    """Yield whether each broker knows a group, and lets it consume."""
    known = {each.broker_name: each for each in brokers}
    surveyed = session.cluster.survey.fetch_group_configs(brokers, Deadline.after(_DEADLINE_S))
    for name, configs in surveyed.items():
        place = f"{group} at {name}"
        if isinstance(configs, RocketMQError):
            what, advice, *_, line = explain_failure(configs, "Get", session.name_servers, known[name].cluster)
            why = "whether it may consume is not checked"
            yield Finding(Level.UNKNOWN, "group", place, what, why, advice or None, line)
        elif group not in configs:
            what, why = "the broker has no such group", "brokers since 5.3 refuse its commits"
            elsewhere = (each for each in surveyed.values() if not isinstance(each, RocketMQError))
            like = next((each[group] for each in elsewhere if group in each), None)
            line = _group_line(session, known[name], group, like)
            yield Finding(Level.WARNING, "group", place, what, why, "create it", line)
        elif not configs[group].consume_enable:
            what, why = "consumeEnable=false", "the broker refuses its reads"
            line = _group_line(session, known[name], group, replace(configs[group], consume_enable=True))
            yield Finding(Level.PROBLEM, "group", place, what, why, "allow it", line)
        else:
            yield Finding(Level.OK, "group", place, "may consume")


def _group_line(session: Session, broker: BrokerEndpoints, group: str, settings: SubscriptionGroupConfig | None) -> str:
    """Return the line of mqadmin that gives a group these settings at a broker, None for the defaults.

    The line has all settings, since mqadmin sets those that it does not name to their defaults; and it names one
    broker, since it would change the group at the others of the cluster.
    """
    words = ["mqadmin", "updateSubGroup", "-n", ";".join(session.name_servers), "-b", str(broker.master())]
    name = session.options.cluster.namespace.wrap(group)
    return shlex.join([*words, "-g", name, *(_settings_words(settings) if settings else ())])


def _settings_words(settings: SubscriptionGroupConfig) -> Iterator[str]:
    values = {
        "-s": settings.consume_enable,
        "-m": settings.consume_from_min_enable,
        "-d": settings.consume_broadcast_enable,
        "-o": settings.consume_message_orderly or None,
        "-q": settings.retry_queue_nums,
        "-r": settings.retry_max_times,
        "-i": settings.broker_id,
        "-w": settings.which_broker_when_consume_slowly,
        "-a": settings.notify_consumer_ids_changed_enable,
    }
    for name, value in values.items():
        if value is not None:
            yield from (name, str(value).lower())
