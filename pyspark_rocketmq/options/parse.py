"""How do Spark's strings become settings, and when is what checked?

When Spark makes the data source the use is not known: names, values and what contradicts itself in any use are checked
then. What belongs to another use, and what a read cannot do without, is settled when the use is known.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping

from .build import build_helper, build_reader
from .conflicts import check_rules
from .given import read_options
from .reader_options import HelperOptions, ReaderOptions

__all__ = ["parse_helper_options", "parse_reader_options"]

_USES = {True: "S", False: "B", None: ""}


def parse_reader_options(
    raw: Mapping[str, str],
    *,
    stream: bool | None,
    env: Mapping[str, str] = os.environ,
    clock: Callable[[], float] = time.time,
) -> ReaderOptions:
    """The settings of a streaming read, of a batch read, or of a use that is not known yet."""
    given = read_options(raw, use=_USES[stream], env=env, now_ms=int(clock() * 1000))
    if stream is not None:
        given.check_scope()
    check_rules(given)
    options = build_reader(given)
    if stream is not None:
        options.selection.require_some()
    return options


def parse_helper_options(
    raw: Mapping[str, str], *, env: Mapping[str, str] = os.environ, clock: Callable[[], float] = time.time
) -> HelperOptions:
    """The settings of a helper function, from a reader's options."""
    given = read_options(raw, use="H", env=env, now_ms=int(clock() * 1000))
    given.drop_other_uses()
    check_rules(given)
    return build_helper(given)
