"""Define findings and the report of all checks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from ...errors import RocketMQError

__all__ = ["Finding", "Level", "Report", "describe", "make_report"]


class Level(Enum):
    """The weight of a finding."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check."""

    level: Level
    check: str
    place: str
    what: str
    why: str | None = None
    """The reason why it matters."""
    advice: str | None = None
    command: str | None = None
    """The command line that the advice speaks of, whole."""


@dataclass(frozen=True, slots=True)
class Report:
    """All findings, in the order of the checks."""

    findings: tuple[Finding, ...]
    problems: int
    warnings: int
    unknown: int
    """The number of checks that could not be made."""


def make_report(findings: Iterable[Finding]) -> Report:
    """Return a report of these findings."""
    everything = tuple(findings)
    levels = [each.level for each in everything]
    return Report(everything, levels.count(Level.PROBLEM), levels.count(Level.WARNING), levels.count(Level.UNKNOWN))


def describe(error: RocketMQError) -> str:
    """Return an error without its place and advice, which a finding has in columns of their own."""
    return f"[{error.code}] {error.what}"
