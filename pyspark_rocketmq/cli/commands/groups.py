"""List consumer groups, and show one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...errors import RocketMQError
from ..asking import fetch_brokers, part_silent
from ..command import Command, Parameter
from ..exits import NotFound
from ..values import Trouble, trouble, troubles_of
from ..views import Column, Facts, Note, Table, View, show_troubles

if TYPE_CHECKING:
    from ...cluster.routes import BrokerEndpoints
    from ...wire.bodies import ConsumerConnection, SubscriptionData, SubscriptionGroupConfig
    from ..session import Session

__all__ = ["COMMANDS"]

_MOST_ASKED = 100
"""The most members that are asked for their subscriptions."""
_ASKING_S = 5.0
"""Time in which all members must have reported."""


@dataclass(frozen=True, slots=True)
class ListedGroup:
    """One consumer group."""

    group: str
    kind: str
    """`user` or `system`."""
    brokers: tuple[str, ...]
    may_consume: bool
    """Whether all its brokers let it consume."""
    retries: int
    """The largest number of redeliveries of a message, of all brokers."""


@dataclass(frozen=True, slots=True)
class GroupList:
    """The consumer groups that brokers have configurations of, sorted by name."""

    groups: tuple[ListedGroup, ...]
    hidden: int
    troubles: tuple[Trouble, ...]


@dataclass(frozen=True, slots=True)
class BrokerSettings:
    """The settings of a group at one broker."""

    broker: str
    may_consume: bool
    may_broadcast: bool
    retries: int
    retry_queues: int


@dataclass(frozen=True, slots=True)
class SubscriptionRow:
    """A subscription to a topic."""

    topic: str
    expression: str
    type: str


@dataclass(frozen=True, slots=True)
class MemberRow:
    """One live member of a group."""

    client_id: str
    address: str | None
    language: str | None
    version: int
    brokers: tuple[str, ...]
    """The brokers that know the member."""
    subscriptions: tuple[SubscriptionRow, ...] | None
    """The member's own report; null if it gives none."""


@dataclass(frozen=True, slots=True)
class ShownGroup:
    """A consumer group: settings, members and subscriptions."""

    group: str
    settings: tuple[BrokerSettings, ...]
    message_model: str | None
    consume_type: str | None
    members: tuple[MemberRow, ...]
    unknown_brokers: tuple[str, ...]
    """Brokers that did not tell whether they know members: with any, `members` may lack some."""
    subscriptions: tuple[SubscriptionRow, ...]
    """Subscriptions that brokers have for the whole group: those of the last heartbeat of any member."""
    do_members_agree: bool | None
    """Whether all members report the same subscriptions; null if that is not known, or with fewer than two."""
    troubles: tuple[Trouble, ...]


# --- list ------------------------------------------------------------------------------------------------------------


def _list(session: Session, all: bool) -> GroupList:
    from ...cluster.survey import answers_of

    found = session.cluster.survey.fetch_group_configs(fetch_brokers(session))
    by_group: dict[str, dict[str, SubscriptionGroupConfig]] = {}
    for name, configs in answers_of(found).items():
        for group, config in configs.items():
            by_group.setdefault(group, {})[name] = config
    groups = [_listed(group, configs) for group, configs in sorted(by_group.items())]
    wanted = tuple(each for each in groups if all or each.kind == "user")
    return GroupList(wanted, len(groups) - len(wanted), troubles_of(found))


def _listed(group: str, configs: dict[str, SubscriptionGroupConfig]) -> ListedGroup:
    from ...cluster.names import is_system_group

    return ListedGroup(
        group,
        "system" if is_system_group(group) else "user",
        tuple(sorted(configs)),
        all(each.consume_enable for each in configs.values()),
        max(each.retry_max_times for each in configs.values()),
    )


def _show_list(found: GroupList) -> list[View]:
    columns = (
        Column("group"),
        Column("kind"),
        Column("may consume"),
        Column("redeliveries", is_number=True),
        Column("brokers"),
    )
    rows = [
        (each.group, each.kind, "yes" if each.may_consume else "no", str(each.retries), ", ".join(each.brokers))
        for each in found.groups
    ]
    views: list[View] = [Table(columns, rows)] if rows else [Note("no groups")]
    if found.hidden:
        views.append(Note(f"{found.hidden} groups of RocketMQ itself are not shown; --all shows them"))
    return [*views, *show_troubles(found.troubles)]


# --- show ------------------------------------------------------------------------------------------------------------


def _show_group(session: Session, group: str) -> ShownGroup:
    from ...cluster.survey import answers_of

    survey = session.cluster.survey
    brokers = fetch_brokers(session)
    configs = survey.fetch_group_configs(brokers)
    others, silent = part_silent(brokers, configs)
    connections = {**survey.fetch_connections(others, group), **silent}
    settings = tuple(
        _settings(name, each)
        for name, found in configs.items()
        if not isinstance(found, RocketMQError) and (each := found.get(group))
    )
    known = answers_of(connections)
    troubles = tuple(dict.fromkeys((*troubles_of(configs), *troubles_of(connections))))
    if not settings and not any(each.connection_set for each in known.values()) and not troubles:
        raise NotFound(f"no broker knows the group {group}", advice="groups list --all shows all groups")
    members, unanswered = _members(session, group, known, {each.broker_name: each for each in brokers})
    unknown = tuple(name for name, each in connections.items() if isinstance(each, RocketMQError))
    first = next((each for each in known.values() if each.connection_set), None)
    return ShownGroup(
        group,
        settings,
        first.message_model if first else None,
        first.consume_type if first else None,
        members,
        unknown,
        _merge(each for connection in known.values() for each in connection.subscription_table.values()),
        _agreement(members, is_complete=not unknown),
        (*troubles, *unanswered),
    )


def _settings(broker: str, config: SubscriptionGroupConfig) -> BrokerSettings:
    return BrokerSettings(
        broker,
        config.consume_enable,
        config.consume_broadcast_enable,
        config.retry_max_times,
        config.retry_queue_nums,
    )


def _members(
    session: Session, group: str, known: dict[str, ConsumerConnection], brokers: dict[str, BrokerEndpoints]
) -> tuple[tuple[MemberRow, ...], tuple[Trouble, ...]]:
    """Return the members, each with the subscriptions that it reports, and why some do not report any."""
    at: dict[str, list[str]] = {}
    connections = {}
    for name, connection in known.items():
        for each in connection.connection_set:
            at.setdefault(each.client_id, []).append(name)
            connections[each.client_id] = each
    asked = {client_id: brokers[at[client_id][0]] for client_id in sorted(connections)[:_MOST_ASKED]}
    reported, troubles = _fetch_subscriptions(session, group, asked)
    if len(connections) > _MOST_ASKED:
        why = f"only the first {_MOST_ASKED} members were asked"
        troubles.append(Trouble("subscriptions of members", "NOT_ASKED", why))
    members = (
        MemberRow(name, each.client_addr, each.language, each.version, tuple(at[name]), reported.get(name))
        for name, each in sorted(connections.items())
    )
    return tuple(members), tuple(troubles)


def _fetch_subscriptions(
    session: Session, group: str, places: dict[str, BrokerEndpoints]
) -> tuple[dict[str, tuple[SubscriptionRow, ...]], list[Trouble]]:
    """Return what members subscribe to by their own reports, by client id, and why some give none."""
    from ...net.deadline import Deadline

    found = session.cluster.survey.fetch_running_infos(group, places, Deadline.after(_ASKING_S))
    reported: dict[str, tuple[SubscriptionRow, ...]] = {}
    troubles: list[Trouble] = []
    for client_id, each in found.items():
        if isinstance(each, RocketMQError):
            troubles.append(trouble(f"subscriptions of {client_id}", each))
        else:
            reported[client_id] = _merge(each.subscription_set)
    return reported, troubles


def _merge(subscriptions: Iterable[SubscriptionData]) -> tuple[SubscriptionRow, ...]:
    found = {SubscriptionRow(each.topic, each.sub_string, each.expression_type) for each in subscriptions}
    return tuple(sorted(found, key=lambda each: (each.topic, each.expression, each.type)))


def _agreement(members: tuple[MemberRow, ...], *, is_complete: bool) -> bool | None:
    reported = [each.subscriptions for each in members if each.subscriptions is not None]
    if len(set(reported)) > 1:
        return False
    return True if is_complete and len(reported) == len(members) > 1 else None


def _show_one(group: ShownGroup) -> list[View]:
    facts = [("group", group.group)]
    facts += [(each.broker, _settings_text(each)) for each in group.settings]
    if group.message_model:
        facts.append(("model", f"{group.message_model}, {group.consume_type}"))
    facts.append(("members", _count_text(group)))
    views: list[View] = [Facts(facts)]
    if group.subscriptions:
        columns = (Column("topic"), Column("expression"), Column("type"))
        views.append(Table(columns, [(each.topic, each.expression, each.type) for each in group.subscriptions]))
    if group.members:
        views.append(_member_table(group.members))
    if group.do_members_agree is False:
        text = "the members subscribe differently: each heartbeat replaces the others' subscriptions at the brokers"
        views.append(Note(text, is_warning=True))
    return [*views, *show_troubles(group.troubles)]


def _count_text(group: ShownGroup) -> str:
    """Return the number of members; it is a bound or unknown if brokers did not answer."""
    if group.unknown_brokers:
        return f"≥ {len(group.members)}" if group.members else "?"
    return str(len(group.members)) if group.members else "none is live"


def _settings_text(settings: BrokerSettings) -> str:
    allowed = "may consume" if settings.may_consume else "may NOT consume"
    return f"{allowed}, {settings.retries} redeliveries, {settings.retry_queues} retry queues"


def _member_table(members: tuple[MemberRow, ...]) -> Table:
    columns = (Column("client"), Column("address"), Column("language"), Column("subscribes to"), Column("brokers"))
    rows = [
        (
            each.client_id,
            each.address or "-",
            each.language or "-",
            "?" if each.subscriptions is None else ", ".join(map(_subscription_text, each.subscriptions)) or "nothing",
            ", ".join(each.brokers),
        )
        for each in members
    ]
    return Table(columns, rows)


def _subscription_text(subscription: SubscriptionRow) -> str:
    return subscription.topic if subscription.expression == "*" else f"{subscription.topic} ({subscription.expression})"


COMMANDS = (
    Command(
        "groups list",
        GroupList,
        _list,
        _show_list,
        parameters=(Parameter("--all", "also groups of RocketMQ itself", bool),),
        details="These are the groups that brokers have settings of. Most brokers make them when a group appears.",
        examples=("pyspark-rocketmq groups list",),
    ),
    Command(
        "groups show",
        ShownGroup,
        _show_group,
        _show_one,
        parameters=(Parameter("GROUP", "consumer group", is_required=True),),
        details="Brokers keep one table of subscriptions per group, that of the last heartbeat. So members are asked, "
        "too, and compared. A Spark query is a member only with groupMembership=shared.",
        examples=("pyspark-rocketmq groups show billing",),
    ),
)
