"""Hold the values that the user gave, option by option."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple, TypeVar, cast

from ..errors import OptionError
from ..offsets.strict_json import shorten
from .keys import KeyMatch
from .option import USES, Option
from .values import OptionText

__all__ = ["GivenOptions"]

T = TypeVar("T")


class _Value(NamedTuple):
    given: OptionText
    value: Any


class GivenOptions:
    """The values that the user or the environment gave, by option.

    `use` is a letter of `USES` (streaming read, batch read, ...) that says where the options apply; empty while that is
    unknown.
    """

    def __init__(self, use: str, now_ms: int) -> None:
        self.use = use
        self._now_ms = now_ms
        self._values: dict[Option[Any], _Value] = {}

    def __repr__(self) -> str:
        shown = ", ".join(f"{option.name}={self.shown(option)!r}" for option in self._values)
        return f"<GivenOptions {shown}>"

    def gave(self, option: Option[Any]) -> bool:
        """Return whether the user or the environment gave the option."""
        return option in self._values

    def maybe(self, option: Option[T]) -> T | None:
        """Return the value that was given for an option; None if it was not given."""
        return cast(T, self._values[option].value) if option in self._values else None

    def get(self, option: Option[T]) -> T:
        """Return the value that was given for an option, else the option's default."""
        return cast(T, self._values[option].value) if option in self._values else _read_default(option)

    def refuse(self, option: Option[Any], what: str, *, advice: str, code: str) -> OptionError:
        """Return an `OptionError` about an option, which it calls by the name that the user wrote, if any."""
        name = self._values[option].given.option if option in self._values else option.name
        return OptionError(name, self.shown(option), what, advice=advice, code=code)

    def shown(self, option: Option[Any]) -> str | None:
        """Return the text that was given for an option, or stars for a secret; None if it was not given."""
        return _shown(option, self._values[option].given) if option in self._values else None

    def take(self, match: KeyMatch, text: str) -> None:
        """Read and store the text of one option.

        Raise `OptionError` if the text is not accepted, if the option is not built yet, or if another value was given
        under another name of the same option.
        """
        option, given = match.option, OptionText(match.spelling, text.strip(), self._now_ms)
        if not given.text:
            advice = f"give {option.kind.accepts.replace('`', '')}, or leave it out"
            raise OptionError(given.option, text, "blank", advice=advice)
        if option.is_planned:
            what, shown = "planned, not built", _shown(option, given)
            raise OptionError(given.option, shown, what, advice="leave it out", code="OPTION_REFUSED")
        value = option.kind.read(given)
        earlier = self._values.setdefault(option, _Value(given, value))
        if earlier.value != value:
            what = f"differs from {earlier.given.option}, which is another name of the same option"
            shown = _shown(option, given)
            raise OptionError(given.option, shown, what, advice="drop one of the two", code="OPTION_CONFLICT")

    def check_scope(self) -> None:
        """Raise `OptionError` if an option is given that does not apply to the current use (a streaming read, ...)."""
        for option in self._values:
            if self.use not in option.use:
                homes = " and ".join(USES[letter] for letter in option.use)
                instead = ": use one, or the trigger availableNow" if option.use == "B" else ""
                advice = f"it belongs to {homes}{instead}"
                raise self.refuse(option, f"not for {USES[self.use]}", advice=advice, code="OPTION_SCOPE")

    def drop_other_uses(self) -> None:
        """Drop given options that do not apply to the current use; for a helper function, those of reads only."""
        self._values = {option: value for option, value in self._values.items() if self.use in option.use}


def _shown(option: Option[Any], given: OptionText) -> str:
    return "***" if option.secret else shorten(given.text)


@cache
def _read_default(option: Option[T]) -> T:
    """Return the value of an option's default text, read once per process."""
    return option.kind.read(OptionText(option.name, option.default))
