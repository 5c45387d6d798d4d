"""List every option: one module for each purpose, and in it one constant for each option.

`SECTIONS` is the whole table; checks, pages and tests are made from it.
"""

from __future__ import annotations

from . import (
    addressing,
    batching,
    grouping,
    planned,
    pulling,
    row_format,
    security,
    selection,
    start_and_stop,
    writing,
)

__all__ = ["FIRST", "OPTIONS", "SECTIONS"]

SECTIONS = (
    addressing.SECTION,
    selection.SECTION,
    start_and_stop.SECTION,
    batching.SECTION,
    grouping.SECTION,
    pulling.SECTION,
    row_format.SECTION,
    writing.SECTION,
    security.SECTION,
    planned.SECTION,
)
OPTIONS = tuple(option for each in SECTIONS for option in each.options)
FIRST = (
    addressing.NAME_SERVER,
    security.CREDENTIALS_FILE,
    selection.SUBSCRIBE,
    selection.TAGS,
    start_and_stop.STARTING_OFFSETS,
    start_and_stop.FAIL_ON_DATA_LOSS,
    batching.MAX_OFFSETS,
    grouping.CONSUMER_GROUP,
    row_format.CHOSEN_COLUMNS,
    writing.TOPIC,
)
"""The options that most jobs set, which open the page for users."""
