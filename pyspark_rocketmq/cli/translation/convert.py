"""Convert values that other connectors write otherwise than `format("rocketmq")`."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import datetime, timedelta, timezone, tzinfo
from typing import Any

from .rules import Convert, Untranslatable

__all__ = [
    "NAME_SERVER",
    "commits",
    "either",
    "name_servers_of_ours",
    "offsets_of_kafka",
    "positive_ms",
    "queues_of_kafka",
    "reset_mode",
    "start_at",
    "start_mode",
    "time_or_ms",
    "time_text",
    "times_of_kafka",
    "topics",
]

NAME_SERVER = "NAME_SERVER:9876"
"""A place for the address of RocketMQ's name servers, which the other connector does not have."""
_OFFSET = re.compile(r"GMT([+-]\d{1,2})(?::?(\d\d))?")
_DATE = "%Y-%m-%d %H:%M:%S"
_INTEGER = re.compile(r"-?\d+")

Given = Mapping[str, str]


def name_servers_of_ours(value: str, given: Given) -> Given:
    """Return a place for the name servers: the other connector names servers of another kind."""
    return {"nameServer": NAME_SERVER}


def topics(value: str, given: Given) -> Given:
    """Return a list of topics with commas, which may have semicolons there."""
    return {"subscribe": value.replace(";", ",")}


def either(name: str, **values: str) -> Convert:
    """Return a conversion of words by this table; a word that it lacks has no counterpart."""

    def convert(value: str, given: Given) -> Given:
        found = values.get(value.strip().lower().replace("-", "_"))
        if found is None:
            raise Untranslatable(f"there is no counterpart of {value}; {name} takes {', '.join(values.values())}")
        return {name: found}

    return convert


def positive_ms(name: str) -> Convert:
    """Return a conversion of milliseconds since 1970, where a negative number means that there is no time."""

    def convert(value: str, given: Given) -> Given:
        return {} if value.strip().startswith("-") else {name: value.strip()}

    return convert


# --- Kafka -----------------------------------------------------------------------------------------------------------


def offsets_of_kafka(name: str) -> Convert:
    """Return a conversion of `earliest` and `latest`; offsets of Kafka's partitions have no counterpart."""

    def convert(value: str, given: Given) -> Given:
        if value.strip().lower() in ("earliest", "latest"):
            return {name: value.strip().lower()}
        by_time = name.replace("Offsets", "Timestamp")
        raise Untranslatable(f"offsets of Kafka's partitions mean nothing here; give {by_time}")

    return convert


def times_of_kafka(name: str) -> Convert:
    """Return a conversion of times by partition to one of each topic: the earliest start, or the latest end."""
    choose = max if name.startswith("ending") else min

    def convert(value: str, given: Given) -> Given:
        try:
            times = {topic: choose(map(int, each.values())) for topic, each in _read_object(value).items()}
        except (AttributeError, TypeError, ValueError):
            raise Untranslatable("the value has no times by topic and partition") from None
        return {name: json.dumps(times)}

    return convert


def queues_of_kafka(value: str, given: Given) -> Given:
    """Return the topics of which partitions were assigned."""
    return {"subscribe": ",".join(_read_object(value))}


def _read_object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict) or not value:
        raise Untranslatable("the value is no JSON object by topic")
    return value


# --- RocketMQ's connectors -------------------------------------------------------------------------------------------


def start_mode(*time_options: str) -> Convert:
    """Return a conversion of a word for the start; a start by time is left to the options of these names."""

    def convert(value: str, given: Given) -> Given:
        word = value.strip().lower()
        if word in ("earliest", "latest"):
            return {"startingOffsets": word}
        if word in ("group", "group_offsets", "group-offsets"):
            return {"startingOffsets": "group", "startingOffsetsDefault": "latest"}
        if word == "timestamp" and any(name.lower() in given for name in time_options):
            return {}
        raise Untranslatable(f"give startingTimestamp in place of {value}")

    return convert


def reset_mode(*time_options: str) -> Convert:
    """Return a conversion of a word for the start of queues in which the group has no position."""
    start = start_mode(*time_options)

    def convert(value: str, given: Given) -> Given:
        word = start(value, given).get("startingOffsets")
        return {"startingOffsets": "group", **({"startingOffsetsDefault": word} if word else {})}

    return convert


def start_at(value: str, given: Given) -> Given:
    """Return nothing for an offset below 0, which means that none is given; one for all queues has no counterpart."""
    if value.strip().startswith("-"):
        return {}
    raise Untranslatable("one offset for all queues has no counterpart; give startingTimestamp, or JSON by queue")


def time_text(name: str, zone_option: str) -> Convert:
    """Return a conversion of a date and time in the zone that another option names."""

    def convert(value: str, given: Given) -> Given:
        zone = _read_zone(given.get(zone_option.lower(), ""))
        try:
            moment = datetime.strptime(value.strip(), _DATE)
        except ValueError:
            raise Untranslatable(f"give {name} as a time with a zone: 2026-01-31T00:00:00+08:00") from None
        if zone is None:
            example = f"{moment.isoformat()}+08:00"
            raise Untranslatable(f"{zone_option} does not say the zone; give {name} with one, for example {example}")
        return {name: moment.replace(tzinfo=zone).isoformat()}

    return convert


def time_or_ms(name: str, zone_option: str) -> Convert:
    """Return a conversion of milliseconds since 1970, or of a date and time in the zone that another option names."""
    by_text, by_ms = time_text(name, zone_option), positive_ms(name)

    def convert(value: str, given: Given) -> Given:
        return (by_ms if _INTEGER.fullmatch(value.strip()) else by_text)(value, given)

    return convert


def _read_zone(text: str) -> tzinfo | None:
    """Return a time zone such as `Asia/Shanghai` or `GMT+8`; None if there is no such zone."""
    from zoneinfo import ZoneInfo

    if found := _OFFSET.fullmatch(text.strip()):
        hours, minutes = int(found[1]), int(found[2] or 0)
        return timezone(timedelta(hours=hours, minutes=-minutes if hours < 0 else minutes))
    try:
        return ZoneInfo(text.strip())
    except (KeyError, OSError, ValueError):
        return None


def commits(value: str, given: Given) -> Given:
    """Return whether positions of finished batches are committed."""
    return {"commitOffsets": "batch" if value.strip().lower() == "true" else "none"}
