"""Hold the options of one read or write, as they were given."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["USES", "GivenJob"]

USES = ("readStream", "read", "writeStream", "write")


@dataclass(slots=True)
class GivenJob:
    """The options of one read or write."""

    use: str | None = None
    """One of `USES`; None if the text does not say."""
    format: str | None = None
    options: dict[str, str] = field(default_factory=dict)
    expressions: set[str] = field(default_factory=set)
    """Names of options whose values are expressions of a program."""
    unread: list[int] = field(default_factory=list)
    """Numbers of the lines with options that the text does not spell out, such as a map of options."""
