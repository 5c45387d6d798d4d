"""Check and convert the values that a caller gives, before anything else is done with them.

Text is accepted for addresses, topics, tag expressions, members of an enum and directories. Every error is an
`OptionError` that names the parameter as the caller wrote it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from enum import Enum
from reprlib import repr as shorten
from typing import Any, TypeVar

from ..cluster.settings import ClusterSettings
from ..errors import OptionError, shown
from ..model import (
    MOST_GROUP,
    MOST_GROUP_TOPIC,
    MOST_TOPIC,
    Address,
    Message,
    MessageQueue,
    is_group_name,
    is_topic_name,
    parse_addresses,
)
from ..pull.settings import Subscription

__all__ = [
    "Subscriptions",
    "check_callable",
    "check_flag",
    "check_group",
    "check_instance",
    "check_message",
    "check_queue",
    "check_range",
    "check_topic",
    "to_cluster_settings",
    "to_member_of",
    "to_subscription",
    "to_subscriptions",
]

Subscriptions = str | Iterable[str] | Mapping[str, Subscription | str]
"""One topic, several topics, or a mapping from each topic to its tag expression or `Subscription`."""

_FORBIDDEN_GROUP = "DEFAULT_CONSUMER"
_EXPRESSION_TYPES = ("TAG", "SQL92")

E = TypeVar("E", bound=Enum)


# --- names and numbers -----------------------------------------------------------------------------------------------


def check_group(group: str) -> None:
    """Raise `OptionError` if brokers would refuse this name of a consumer or producer group."""
    check_instance("group", group, str, "the group's name as text")
    if not is_group_name(group) or group == _FORBIDDEN_GROUP:
        advice = f"give at most {MOST_GROUP} of the characters a-z A-Z 0-9 _ - % |, and not {_FORBIDDEN_GROUP}"
        raise OptionError("group", group, "not a group's name", advice=advice)


def check_topic(topic: str, name: str = "topic") -> None:
    """Raise `OptionError` if brokers would refuse this topic; the error calls the parameter `name`."""
    check_instance(name, topic, str, "the topic's name as text")
    if not is_topic_name(topic):
        advice = (
            f"give at most {MOST_TOPIC} of the characters a-z A-Z 0-9 _ - % |, {MOST_GROUP_TOPIC} for groups' topics"
        )
        raise OptionError(name, topic, "not a topic's name", advice=advice)


def check_range(
    name: str, value: float | None, least: float, most: float, *, whole: bool = True, optional: bool = False
) -> None:
    """Raise `OptionError` unless the value is a number from `least` to `most`, or None with `optional`.

    `whole` demands an integer.
    """
    if value is None and optional:
        return
    if isinstance(value, bool) or not isinstance(value, int if whole else (int, float)):
        advice = "give a whole number" if whole else "give a number"
        raise OptionError(name, _show(value), f"of type {type(value).__name__}", advice=advice)
    if not least <= value <= most:
        raise OptionError(name, str(value), "out of range", advice=f"give {least} to {most}")


def check_instance(name: str, value: Any, kinds: type | tuple[type, ...], wanted: str) -> None:
    """Raise `OptionError` if the value is not an instance of `kinds`; `wanted` says what to give instead."""
    if not isinstance(value, kinds):
        raise OptionError(name, _show(value), f"of type {type(value).__name__}", advice=f"give {wanted}")


def check_flag(name: str, value: object) -> None:
    """Raise `OptionError` if the value is neither True nor False."""
    check_instance(name, value, bool, "True or False")


def check_callable(name: str, value: object, signature: str) -> None:
    """Raise `OptionError` if the value cannot be called; its advice is to give a function with this signature."""
    if not callable(value):
        raise OptionError(name, _show(value), "cannot be called", advice=f"give a function {signature}")


def check_message(message: Message) -> None:
    """Raise `OptionError` if a field of the message has a wrong type or is out of range."""
    check_instance("message", message, Message, "a Message(topic, body)")
    check_topic(message.topic, "message.topic")
    check_instance("message.body", message.body, (bytes, bytearray, memoryview), "bytes: text.encode()")
    for name in ("tags", "keys"):
        check_instance(f"message.{name}", getattr(message, name), str, "text; several keys are separated by spaces")
    check_range("message.flag", message.flag, -(2**31), 2**31 - 1)
    check_range("message.delay_level", message.delay_level, 0, 2**31 - 1)
    check_range("message.deliver_at_ms", message.deliver_at_ms, 0, 2**63 - 1)
    if message.delay_level and message.deliver_at_ms:
        advice = "give one of the two"
        raise OptionError("message.deliver_at_ms", str(message.deliver_at_ms), "given with delay_level", advice=advice)
    check_instance("message.properties", message.properties, Mapping, "a dict of text")
    for name, value in message.properties.items():
        check_instance("message.properties", name, str, "text as name and value")
        check_instance(f"message.properties[{name!r}]", value, str, "text")


def _show(value: object) -> str:
    """Return a value as short text for an error; text has no quotes around it, because the error adds them."""
    return shown(value) if isinstance(value, str) else shorten(value)


def check_queue(queue: MessageQueue | None) -> MessageQueue | None:
    """Return the given queue or None unchanged; raise `OptionError` for a value that is neither."""
    check_instance("queue", queue, (MessageQueue, type(None)), "a MessageQueue, as fetch_queues returns them")
    return queue


# --- conversions -----------------------------------------------------------------------------------------------------


def to_member_of(kind: type[E], name: str, value: object) -> E:
    """Return `value` as a member of the enum `kind`; a text may be the member's name or value, in any case.

    Raise `OptionError` for anything else.
    """
    if isinstance(value, kind):
        return value
    text = value.casefold() if isinstance(value, str) else None
    for member in kind:
        if text in (member.name.casefold(), str(member.value).casefold()):
            return member
    raise OptionError(name, _show(value), "unknown", advice=f"give one of {', '.join(kind.__members__)}")


def to_cluster_settings(cluster: ClusterSettings | str) -> ClusterSettings:
    """Return cluster settings with parsed addresses; a text gives the addresses of the name servers."""
    if isinstance(cluster, str):
        return ClusterSettings(parse_addresses(cluster, "cluster"))
    check_instance("cluster", cluster, ClusterSettings, "ClusterSettings, or the name servers as text: 'host:9876'")
    given: Any = cluster.name_servers
    if isinstance(given, str):
        return replace(cluster, name_servers=parse_addresses(given, "name_servers"))
    for address in given:
        check_instance("name_servers", address, Address, "addresses, or text: 'host:9876;other:9876'")
    return cluster


def to_subscription(name: str, given: Subscription | str) -> Subscription:
    """Return a `Subscription` unchanged after a check, or make one from text, which is a tag expression."""
    if isinstance(given, str):
        return Subscription(given)
    check_instance(name, given, Subscription, "a tag expression as text, or a Subscription")
    check_instance(name, given.expression, str, "Subscription(expression) with text")
    if given.expression_type not in _EXPRESSION_TYPES:
        raise OptionError(name, _show(given.expression_type), "not a type of expression", advice="give TAG or SQL92")
    return given


def to_subscriptions(given: Subscriptions) -> dict[str, Subscription]:
    """Return a `Subscription` for each topic; topics without an expression get one that matches all messages."""
    if isinstance(given, str):
        topics: dict[Any, Any] = {given: "*"}
    elif isinstance(given, Mapping):
        topics = dict(given)
    else:
        check_instance("subscriptions", given, Iterable, "a topic, several topics, or a mapping: topic to expression")
        topics = dict.fromkeys(given, "*")
    for topic in topics:
        check_topic(topic, "subscriptions")
    return {topic: to_subscription(f"subscriptions[{topic!r}]", wanted) for topic, wanted in topics.items()}
