"""Which option names exist, what do they default to, and which settings object do they fill?"""

from __future__ import annotations

from collections.abc import Mapping

from ..cluster.settings import ClusterSettings
from ..model import parse_addresses
from ..offsets.wish import Keyword, StartSettings, parse_offsets
from .reader_options import CommitSettings, ReaderOptions, Selection

__all__ = ["ReaderOptions", "parse_reader_options"]


def parse_reader_options(raw: Mapping[str, str], *, stream: bool | None) -> ReaderOptions:
    """Stand-in until the whole table is built."""
    given = {name.lower(): value for name, value in raw.items()}
    start = parse_offsets(given.get("startingoffsets", "latest" if stream else "earliest"), "startingOffsets")
    from ..planning.admission import Limits
    from ..pull.settings import PullSettings

    group = given.get("consumergroup")
    cap = given.get("maxoffsetspertrigger")
    return ReaderOptions(
        cluster=ClusterSettings(parse_addresses(given["nameserver"])),
        selection=Selection(topics=tuple(given.get("subscribe", "").split(","))),
        start=StartSettings(offsets=start, default=Keyword.EARLIEST),
        pull=PullSettings(group=group) if group else PullSettings(),
        commit=CommitSettings(group),
        limits=Limits(max_per_trigger=int(cap) if cap else None),
    )
