"""What has the user given, option by option?

Keys become options, texts become values, and nothing more is decided here: which options may stand together is the
question of `conflicts`, what they come to that of `build`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar, cast

from ..errors import OptionError
from ..offsets.strict_json import shorten
from .names import Found, complain, describe_foreign, find_option
from .option import USES, Option
from .refused import find_refusal
from .table.connection import NAME_SERVER
from .table.security import STRICT_OPTIONS
from .values import Entry

__all__ = ["Given", "read_options"]

T = TypeVar("T")

_IGNORED = {"checkpointlocation"}
"""Spark adds it to sinks."""
_ENVIRONMENT = {NAME_SERVER: "NAMESRV_ADDR"}
_log = logging.getLogger(__name__)


class _Value(NamedTuple):
    entry: Entry
    value: Any


class Given:
    """Values by option; `use` is what they are given for, a letter of `USES`, or empty as long as that is unknown."""

    def __init__(self, use: str, now_ms: int) -> None:
        self.use = use
        self._now_ms = now_ms
        self._values: dict[Option[Any], _Value] = {}

    def __repr__(self) -> str:
        shown = ", ".join(f"{option.name}={self.shown(option)!r}" for option in self._values)
        return f"<Given {shown}>"

    def gave(self, option: Option[Any]) -> bool:
        """Whether the user gave the option, or the environment did."""
        return option in self._values

    def maybe(self, option: Option[T]) -> T | None:
        """The value that was given."""
        return cast(T, self._values[option].value) if option in self._values else None

    def get(self, option: Option[T]) -> T:
        """The value that was given, else the default."""
        if option in self._values:
            return cast(T, self._values[option].value)
        return option.kind.read(Entry(option.name, option.default, self._now_ms))

    def refuse(self, option: Option[Any], what: str, *, advice: str, code: str) -> OptionError:
        """An error about an option, under the name that the user knows."""
        name = self._values[option].entry.option if option in self._values else option.name
        return OptionError(name, self.shown(option), what, advice=advice, code=code)

    def shown(self, option: Option[Any]) -> str | None:
        """The text that was given, as far as it may be seen."""
        if option not in self._values:
            return None
        return _shown(option, self._values[option].entry)

    def take(self, found: Found, text: str) -> None:
        """Read one text; a second one for the same option must mean the same."""
        option, entry = found.option, Entry(found.spelling, text.strip(), self._now_ms)
        if not entry.text:
            advice = f"give {option.kind.accepts.replace('`', '')}, or leave it out"
            raise OptionError(entry.option, text, "blank", advice=advice)
        shown = _shown(option, entry)
        if option.planned:
            raise OptionError(entry.option, shown, "planned, not built", advice="leave it out", code="OPTION_REFUSED")
        value = option.kind.read(entry)
        earlier = self._values.setdefault(option, _Value(entry, value))
        if earlier.value != value:
            what = f"{earlier.entry.option} says something else, and both are one option"
            raise OptionError(entry.option, shown, what, advice="drop one of the two", code="OPTION_CONFLICT")

    def check_scope(self) -> None:
        """Refuse what does not belong to this use."""
        for option in self._values:
            if self.use not in option.use:
                homes = " and ".join(USES[letter] for letter in option.use)
                instead = ": use one, or the trigger availableNow" if option.use == "B" else ""
                advice = f"it belongs to {homes}{instead}"
                raise self.refuse(option, f"not for {USES[self.use]}", advice=advice, code="OPTION_SCOPE")

    def drop_other_uses(self) -> None:
        """Forget what does not belong to this use."""
        self._values = {option: value for option, value in self._values.items() if self.use in option.use}


def _shown(option: Option[Any], entry: Entry) -> str:
    return "***" if option.secret else shorten(entry.text)


def read_options(raw: Mapping[str, str], *, use: str, env: Mapping[str, str], now_ms: int) -> Given:
    """Everything that the user gave; what only the environment gave is added."""
    given = Given(use, now_ms)
    strangers: dict[str, str] = {}
    for key, text in raw.items():
        found = find_option(key)
        if found is None:
            strangers[key] = text
        elif use or not found.depends_on_use:
            given.take(found, text)
        else:
            _take_if_readable(given, found, text)
    _judge(strangers, given)
    for option, name in _ENVIRONMENT.items():
        if not given.gave(option) and env.get(name, "").strip():
            given.take(Found(name, option), env[name])
    return given


def _take_if_readable(given: Given, found: Found, text: str) -> None:
    """A name that means one thing to reads and another to writes; which is meant, and what is wrong, is seen later."""
    with suppress(OptionError):
        given.take(found, text)


def _judge(strangers: Mapping[str, str], given: Given) -> None:
    """Fail on what is refused or looks like a mistake; warn of the rest once the use is known."""
    strictness = given.get(STRICT_OPTIONS)
    for key, text in strangers.items():
        if key.lower() in _IGNORED:
            continue
        if refusal := find_refusal(key, text):
            raise refusal
        error = complain(key, text)
        if strictness == "all" or (error and strictness == "error"):
            raise error or describe_foreign(key)
        if given.use:
            _log.warning("option %s is not known here and has no effect", key)
