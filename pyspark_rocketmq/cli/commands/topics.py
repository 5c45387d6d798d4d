"""List topics, and show one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...errors import RocketMQError
from ..asking import fetch_brokers, part_silent
from ..command import Command, Parameter
from ..values import Moment, Trouble, moment, troubles_of
from ..views import Column, Facts, Note, Table, View, show_time, show_troubles

if TYPE_CHECKING:
    from ...wire.bodies import TopicConfig
    from ..session import Session

__all__ = ["COMMANDS"]

_PERM_INHERIT = 8


@dataclass(frozen=True, slots=True)
class ListedTopic:
    """One topic."""

    topic: str
    kind: str
    """One of `user`, `system`, `retry` and `dead letters`."""
    brokers: tuple[str, ...]
    read_queues: int
    write_queues: int
    permissions: tuple[str, ...]
    """Words for what the topic allows at some broker: `read`, `write`."""
    message_type: str | None


@dataclass(frozen=True, slots=True)
class TopicList:
    """Topics of the cluster, sorted by name; `troubles` has the brokers that did not tell theirs."""

    is_partial: bool
    """Whether a broker did not tell its topics: then topics may be missing, and numbers of queues are lower bounds."""
    topics: tuple[ListedTopic, ...]
    hidden: int
    """Number of topics that only `--all` shows."""
    troubles: tuple[Trouble, ...]


@dataclass(frozen=True, slots=True)
class BrokerPart:
    """The configuration of a topic at one broker."""

    broker: str
    read_queues: int
    write_queues: int
    permissions: tuple[str, ...]
    attributes: dict[str, str]


@dataclass(frozen=True, slots=True)
class QueueRow:
    """One queue of a topic."""

    broker: str
    queue_id: int
    min_offset: int
    max_offset: int
    messages: int
    last_stored: Moment | None


@dataclass(frozen=True, slots=True)
class ShownTopic:
    """A topic: its configuration by broker, and its queues."""

    topic: str
    kind: str
    brokers: tuple[BrokerPart, ...]
    queues: tuple[QueueRow, ...]
    messages: int
    """Messages in all queues that are known."""
    unknown_brokers: tuple[str, ...]
    """Brokers of the topic that did not tell its queues: with any, `messages` is a lower bound."""
    troubles: tuple[Trouble, ...]


# --- list ------------------------------------------------------------------------------------------------------------


def _list(session: Session, all: bool) -> TopicList:
    from ...cluster.survey import answers_of

    brokers = fetch_brokers(session)
    found = session.cluster.survey.fetch_topic_configs(brokers)
    by_topic: dict[str, dict[str, TopicConfig]] = {}
    for name, configs in answers_of(found).items():
        for topic, config in configs.items():
            by_topic.setdefault(topic, {})[name] = config
    own_names = {name for broker in brokers for name in (broker.broker_name, broker.cluster)}
    topics = [_listed(topic, configs, own_names) for topic, configs in sorted(by_topic.items())]
    wanted = [each for each in topics if all or each.kind == "user"]
    troubles = troubles_of(found)
    return TopicList(bool(troubles), tuple(wanted), len(topics) - len(wanted), troubles)


def _listed(topic: str, configs: dict[str, TopicConfig], own_names: Iterable[str]) -> ListedTopic:
    kinds = {(each.attributes or {}).get("message.type") for each in configs.values()} - {None}
    return ListedTopic(
        topic,
        _kind(topic, own_names),
        tuple(sorted(configs)),
        sum(each.read_queue_nums for each in configs.values()),
        sum(each.write_queue_nums for each in configs.values()),
        _permissions(*(each.perm for each in configs.values())),
        "/".join(sorted(filter(None, kinds))) or None,
    )


def _kind(topic: str, own_names: Iterable[str]) -> str:
    from ...cluster.names import is_system_topic
    from ...model import DEAD_LETTER_PREFIX, RETRY_PREFIX

    if topic.startswith(RETRY_PREFIX):
        return "retry"
    if topic.startswith(DEAD_LETTER_PREFIX):
        return "dead letters"
    made_from_names = any(topic in (name, f"{name}_REPLY_TOPIC") for name in own_names)
    return "system" if made_from_names or is_system_topic(topic) else "user"


def _permissions(*perms: int) -> tuple[str, ...]:
    from ...cluster.routes import PERM_READ, PERM_WRITE

    words = {PERM_READ: "read", PERM_WRITE: "write", _PERM_INHERIT: "inherit"}
    return tuple(word for bit, word in words.items() if any(perm & bit for perm in perms))


def _show_list(found: TopicList) -> list[View]:
    columns = (
        Column("topic"),
        Column("kind"),
        Column("queues", is_number=True),
        Column("allows"),
        Column("type"),
        Column("brokers"),
    )
    rows = [
        (
            each.topic,
            each.kind,
            f"≥ {_queues(each)}" if found.is_partial else _queues(each),
            ", ".join(each.permissions) or "nothing",
            each.message_type or "-",
            ", ".join(each.brokers),
        )
        for each in found.topics
    ]
    views: list[View] = [Table(columns, rows)] if rows else [Note("no topics")]
    if found.hidden:
        views.append(Note(f"{found.hidden} system, retry and dead-letter topics are not shown; --all shows them"))
    return [*views, *show_troubles(found.troubles)]


def _queues(topic: ListedTopic) -> str:
    if topic.read_queues == topic.write_queues:
        return str(topic.read_queues)
    return f"{topic.read_queues} read, {topic.write_queues} write"


# --- show ------------------------------------------------------------------------------------------------------------


def _show_topic(session: Session, topic: str) -> ShownTopic:
    from ...cluster.survey import answers_of

    cluster = session.cluster
    route = cluster.routes.route(topic)
    brokers = list(route.brokers.values())
    configs = cluster.survey.fetch_topic_configs(brokers)
    others, silent = part_silent(brokers, configs)
    stats = {**cluster.survey.fetch_topic_stats(others, topic), **silent}
    parts = [
        BrokerPart(
            name, each.read_queue_nums, each.write_queue_nums, _permissions(each.perm), dict(each.attributes or {})
        )
        for name, found in configs.items()
        if not isinstance(found, RocketMQError) and (each := found.get(topic))
    ]
    queues = [
        QueueRow(
            queue.broker_name,
            queue.queue_id,
            max(0, each.min_offset),
            max(0, each.max_offset),
            max(0, each.max_offset - max(0, each.min_offset)),
            moment(each.last_update_timestamp) if each.last_update_timestamp > 0 else None,
        )
        for found in answers_of(stats).values()
        for queue, each in sorted(found.items())
    ]
    own_names = {name for broker in brokers for name in (broker.broker_name, broker.cluster)}
    return ShownTopic(
        topic,
        _kind(topic, own_names),
        tuple(parts),
        tuple(queues),
        sum(each.messages for each in queues),
        tuple(name for name, each in stats.items() if isinstance(each, RocketMQError)),
        tuple(dict.fromkeys((*troubles_of(configs), *troubles_of(stats)))),
    )


def _show_one(topic: ShownTopic) -> list[View]:
    messages = f"≥ {topic.messages}" if topic.unknown_brokers else str(topic.messages)
    facts = [("topic", topic.topic), ("kind", topic.kind), ("messages", messages)]
    for part in topic.brokers:
        settings = ", ".join(f"{name}={value}" for name, value in sorted(part.attributes.items()))
        allows = ", ".join(part.permissions) or "nothing"
        text = f"{part.read_queues} read queues, {part.write_queues} write queues, allows {allows}"
        facts.append((part.broker, "; ".join(filter(None, (text, settings)))))
    columns = (
        Column("broker"),
        Column("queue", is_number=True),
        Column("min", is_number=True),
        Column("max", is_number=True),
        Column("messages", is_number=True),
        Column("last stored"),
    )
    rows = [
        (
            each.broker,
            str(each.queue_id),
            str(each.min_offset),
            str(each.max_offset),
            str(each.messages),
            show_time(each.last_stored),
        )
        for each in topic.queues
    ]
    return [Facts(facts), *([Table(columns, rows)] if rows else []), *show_troubles(topic.troubles)]


COMMANDS = (
    Command(
        "topics list",
        TopicList,
        _list,
        _show_list,
        parameters=(Parameter("--all", "also topics of RocketMQ itself, of retries and of dead letters", bool),),
        details="Each broker has a configuration of its own for a topic; queues are summed over brokers. With ≥ a "
        "broker did not answer, and may have more.",
        examples=("pyspark-rocketmq topics list", "pyspark-rocketmq topics list --all --json"),
    ),
    Command(
        "topics show",
        ShownTopic,
        _show_topic,
        _show_one,
        parameters=(Parameter("TOPIC", "topic", is_required=True),),
        examples=("pyspark-rocketmq topics show orders",),
    ),
)
