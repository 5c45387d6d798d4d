"""Refuse wrong arguments of the stub's constructors and methods: say what was given and what to give instead."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from difflib import get_close_matches
from numbers import Integral, Real

from pyspark_rocketmq.errors import OptionError

from .releases import Release
from .requests import Refusal
from .topic_table import MOST_QUEUES, check_name

__all__ = [
    "LAST_PORT",
    "check_body",
    "check_brokers",
    "check_count",
    "check_instant",
    "check_known",
    "check_ms",
    "check_texts",
    "check_topic",
    "check_topics",
    "check_types",
    "check_users",
    "suggest",
]

LAST_PORT = 65_535
_FORM = 'give {name: number of queues}, for example {"orders": 4}'
_INSTANT = "give milliseconds since 1970, for example int(moment.timestamp() * 1000)"


def check_known(where: str, given: Iterable[str], known: Collection[str]) -> None:
    """Raise `OptionError` if one of the given arguments is unknown."""
    for name in given:
        if name not in known:
            advice = suggest(name, known) or f"its arguments are {', '.join(known)}"
            raise OptionError(name, None, f"{where} has no such argument", advice=advice, code="OPTION_UNKNOWN")


def check_types(given: Mapping[str, object], forms: Mapping[str, tuple[tuple[type, ...], str]]) -> None:
    """Raise `OptionError` if an argument has none of its types; the error has their form, and not the value."""
    for name, value in given.items():
        types, form = forms[name]
        if not isinstance(value, types):
            raise OptionError(name, None, f"is {_kind(value)}", advice=f"give {form}")


def check_users(users: Mapping[str, str]) -> None:
    """Raise `OptionError` unless each access key has a secret; the error contains none."""
    for key, secret in users.items():
        if not (isinstance(key, str) and isinstance(secret, str) and key and secret):
            raise OptionError("acl", None, "has a user without a secret", advice="give {access key: secret}, both text")


def check_count(name: str, value: object, least: int, most: float = math.inf) -> None:
    """Raise `OptionError` unless a value is a whole number from `least` to `most`."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        what = f"is {_kind(value)}, no whole number"
    elif not least <= int(value) <= most:
        what = "out of range"
    else:
        return
    advice = f"give a number from {least} to {most}" if most < math.inf else f"give a number of {least} or more"
    raise OptionError(name, str(value), what, advice=advice)


def check_ms(name: str, value: object, *, least: float = 0) -> None:
    """Raise `OptionError` unless a value is a time span in milliseconds, of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value):
        what = f"is {_kind(value)}, no number of milliseconds"
        raise OptionError(name, str(value), what, advice="give a number")
    if float(value) < least:
        advice = "give 0 or more; faults.clock_jump moves the wall clock back"
        raise OptionError(name, str(value), "time does not run backwards", advice=advice)


def check_instant(name: str, value: object) -> None:
    """Raise `OptionError` unless a value is a time in milliseconds, or None."""
    if value is not None and (isinstance(value, bool) or not isinstance(value, Integral)):
        raise OptionError(name, str(value), f"is {_kind(value)}, no whole number of milliseconds", advice=_INSTANT)


def check_brokers(brokers: object) -> None:
    """Raise `OptionError` unless a value is a number of brokers, or a list of their names."""
    if isinstance(brokers, int) and not isinstance(brokers, bool):
        what, advice = ("a cluster without brokers" if brokers < 1 else ""), "give a number of 1 or more"
    elif isinstance(brokers, Mapping):
        what, advice = "does not name brokers", f"give topics={brokers!r}"
    elif isinstance(brokers, str):
        what, advice = "is text, not a list of names", f"give [{brokers!r}]"
    elif not isinstance(brokers, Sequence) or not all(isinstance(name, str) for name in brokers):
        what, advice = "is no list of names", 'give a number, or names, for example ["broker-a"]'
    else:
        what, advice = ("" if brokers else "a cluster without brokers"), "give names, or a number of brokers"
    if what:
        raise OptionError("brokers", str(brokers), what, advice=advice)


def suggest(name: str, known: Iterable[str]) -> str:
    """Return the question whether the name was meant that is most like the given one; empty if none is like it."""
    near = get_close_matches(name, list(known), 1)
    return f"did you mean {near[0]}?" if near else ""


def check_topics(topics: object, release: Release) -> None:
    """Raise `OptionError` unless `topics` has a number of queues for each name."""
    if not isinstance(topics, Mapping):
        names = [topics] if isinstance(topics, str) else topics
        listed = isinstance(names, Collection) and bool(names) and all(isinstance(name, str) for name in names)
        advice = f"give {dict.fromkeys(names, 4)}" if isinstance(names, Iterable) and listed else _FORM
        raise OptionError("topics", str(topics), "does not say how many queues each topic has", advice=advice)
    for topic, queues in topics.items():
        check_topic("topics", topic, release)
        _check_queues(topic, queues)


def check_topic(argument: str, topic: object, release: Release) -> None:
    """Raise `OptionError` unless brokers accept a name for a topic."""
    if not isinstance(topic, str):
        raise OptionError(argument, str(topic), f"is {_kind(topic)}, not the name of a topic", advice="give text")
    try:
        check_name(topic, release)
    except Refusal as refusal:
        advice = "use letters, digits, - and _, at most 127 of them"
        raise OptionError(argument, topic, str(refusal), advice=advice) from None


def _check_queues(topic: str, queues: object) -> None:
    if not isinstance(queues, int) or isinstance(queues, bool):
        what = f"the number of queues is {_kind(queues)}"
    elif queues < 1:
        what = f"{queues} queues, so it could hold no message"
    elif queues > MOST_QUEUES:
        what = f"{queues} queues, the limit is {MOST_QUEUES}"
    else:
        return
    raise OptionError("topics", topic, what, advice=f"give a number from 1 to {MOST_QUEUES}")


def check_body(body: object) -> None:
    """Raise `OptionError` if a body is not bytes."""
    if isinstance(body, str):
        advice = 'write b"..." before the text, or text.encode()'
        raise OptionError("body", body, "is text, and the body of a message is bytes", advice=advice)
    if not isinstance(body, bytes | bytearray | memoryview):
        advice = "give bytes, for example json.dumps(value).encode()"
        raise OptionError("body", str(body), f"is {_kind(body)}, and the body of a message is bytes", advice=advice)


def check_texts(properties: object) -> None:
    """Raise `OptionError` if a property, tag or key is not text."""
    if not isinstance(properties, Mapping):
        advice = "give {name: text}"
        raise OptionError("properties", str(properties), f"is {_kind(properties)}, no mapping", advice=advice)
    for name, value in properties.items():
        if not isinstance(name, str):
            raise OptionError("properties", str(name), f"the name is {_kind(name)}", advice="give text")
        if value is not None and not isinstance(value, str):
            what = f"is {_kind(value)}, and properties are text"
            raise OptionError(name, str(value), what, advice="give text; several keys have blanks between them")


def _kind(value: object) -> str:
    """Return the type of a value with its article."""
    name = type(value).__name__
    return "None" if value is None else f"an {name}" if name[0] in "aeiou" else f"a {name}"
