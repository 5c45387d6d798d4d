"""List the options that say what is read."""

from __future__ import annotations

from ...errors import OptionError
from ...offsets.strict_json import shorten
from ..option import Option, section
from ..queue_json import read_assignment
from ..values import BOOLEAN, PATTERN, TEXT, Kind, OptionText, split_list, topic_names


def _read_tags(given: OptionText) -> tuple[str, ...]:
    """Return the tags in a list; `*` alone, which stands for all tags, gives an empty tuple."""
    if given.text == "*":
        return ()
    tags = split_list(given, r"\|\||,")
    if "*" in tags:
        what = "* in a list would be an ordinary tag"
        raise OptionError(given.option, shorten(given.text), what, advice="give * alone, or tags alone")
    return tags


SUBSCRIBE = Option(
    "subscribe",
    "SB",
    topic_names(),
    otherwise="—",
    aliases=("topic", "topics"),
    meaning="Topics to read, all their readable queues. Give exactly one of `subscribe`, `subscribePattern`, `assign`.",
)
SUBSCRIBE_PATTERN = Option(
    "subscribePattern",
    "SB",
    PATTERN,
    otherwise="—",
    meaning="Pattern of topic names, except system, retry and dead-letter topics; topics that are created later are "
    "read, too.",
)
ASSIGN = Option(
    "assign",
    "SB",
    Kind('JSON topic → (broker → [queue ids] or `"*"`) or `"*"`', read_assignment),
    otherwise="—",
    meaning='Exact queues; `"*"` stands for all, also for queues added later.',
)
TAGS = Option(
    "tags",
    "SB",
    Kind("`*`, or tags with `||` or `,` between them", _read_tags),
    "*",
    aliases=("subExpression", "rocketmq.subExpression"),
    meaning="Only messages with one of these tags; the broker filters.",
)
SQL_FILTER = Option(
    "sqlFilter",
    "SB",
    TEXT,
    meaning="Only messages whose properties meet this SQL-92 condition; brokers need `enablePropertyFilter=true`, and "
    "do not filter compacted topics.",
)
READ_RETRY_TOPIC = Option(
    "readRetryTopic",
    "SB",
    BOOLEAN,
    otherwise="false; true with `shared`",
    meaning="Also read messages that the group sent back, from its topic `%RETRY%<consumerGroup>`, which need not "
    "exist yet.",
)

SECTION = section("What to read", globals())
