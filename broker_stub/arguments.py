"""Refuse wrong arguments of the stub's constructors and methods: say what was given and what to give instead."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from difflib import get_close_matches

from pyspark_rocketmq.errors import OptionError

from .releases import Release
from .requests import Refusal
from .topic_table import MOST_QUEUES, check_name

__all__ = ["check_body", "check_known", "check_texts", "check_topic", "check_topics", "suggest"]

_FORM = 'give {name: number of queues}, for example {"orders": 4}'


def check_known(where: str, given: Iterable[str], known: Collection[str]) -> None:
    """Raise `OptionError` if one of the given arguments is unknown."""
    for name in given:
        if name not in known:
            advice = suggest(name, known) or f"its arguments are {', '.join(known)}"
            raise OptionError(name, None, f"{where} has no such argument", advice=advice, code="OPTION_UNKNOWN")


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


def check_texts(properties: Mapping[str, object]) -> None:
    """Raise `OptionError` if a property, tag or key is not text."""
    for name, value in properties.items():
        if value and not isinstance(value, str):
            what = f"is {_kind(value)}, and properties are text"
            raise OptionError(name, str(value), what, advice="give text; several keys have blanks between them")


def _kind(value: object) -> str:
    """Return the type of a value with its article."""
    name = type(value).__name__
    return f"an {name}" if name[0] in "aeiou" else f"a {name}"
