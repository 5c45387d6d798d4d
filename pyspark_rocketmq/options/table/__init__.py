"""Which options are there?

One module for each purpose, and in it one constant for each option. `SECTIONS` is the whole table; checks, pages and
tests are made from it.
"""

from __future__ import annotations

from . import batches, connection, groups, offsets, pulling, rows, security, selection, writing

__all__ = ["OPTIONS", "SECTIONS"]

SECTIONS = (
    connection.SECTION,
    selection.SECTION,
    offsets.SECTION,
    batches.SECTION,
    groups.SECTION,
    pulling.SECTION,
    rows.SECTION,
    writing.SECTION,
    security.SECTION,
)
OPTIONS = tuple(option for each in SECTIONS for option in each.options)
