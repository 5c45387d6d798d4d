"""List the options that say where reading starts and stops."""

from __future__ import annotations

from ...offsets.requested import Keyword, QueueTree
from ..option import Option, section
from ..queue_json import read_offsets, read_times
from ..values import BOOLEAN, TIME, Kind, OptionText, choice, duration, integer

_TIMES = "JSON topic → time, or topic → broker → queue id → time"


def _read_end(given: OptionText) -> Keyword | QueueTree:
    return read_offsets(given, (Keyword.LATEST,))


STARTING_OFFSETS = Option(
    "startingOffsets",
    "SB",
    Kind(
        "`earliest`, `latest`, `group`, or JSON topic → broker → queue id → offset",
        read_offsets,
    ),
    otherwise="S `latest`, B `earliest`, `shared` `group`",
    meaning="Only for a query without checkpoint. `group`: the consumer group's position. In JSON -2 means earliest, "
    '-1 latest, -3 group, and `"*"` all other brokers or queue ids.',
)
STARTING_OFFSETS_DEFAULT = Option(
    "startingOffsetsDefault",
    "SB",
    choice({"error": None, "earliest": Keyword.EARLIEST, "latest": Keyword.LATEST}),
    otherwise="`error`; `earliest` with `shared`",
    meaning="Start of queues that the JSON leaves out, and of queues without a position of the group. For a missing "
    "position brokers 4.9 report 0 while the queue's first message is in their memory; the query then starts at 0.",
)
STARTING_TIMESTAMP = Option(
    "startingTimestamp", "SB", TIME, meaning="Start at the first message stored at or after this time."
)
STARTING_TIMES = Option(
    "startingOffsetsByTimestamp", "SB", Kind(_TIMES, read_times), meaning="Start times of single topics or queues."
)
STARTING_STRATEGY = Option(
    "startingOffsetsByTimestampStrategy",
    "SB",
    choice({"error": None, "latest": Keyword.LATEST}),
    "error",
    meaning="Start of queues without a message at or after the requested time.",
)
ENDING_OFFSETS = Option(
    "endingOffsets",
    "B",
    Kind(
        "`latest`, or JSON topic → broker → queue id → offset; -1 means latest",
        _read_end,
    ),
    "latest",
    meaning="The first offsets that are not read.",
)
ENDING_TIMESTAMP = Option(
    "endingTimestamp",
    "B",
    TIME,
    meaning="Stop before the first message stored at or after this time; at the latest offset if there is no such "
    "message.",
)
ENDING_TIMES = Option(
    "endingOffsetsByTimestamp", "B", Kind(_TIMES, read_times), meaning="End times of single topics or queues."
)
FAIL_ON_DATA_LOSS = Option(
    "failOnDataLoss",
    "SB",
    BOOLEAN,
    "true",
    meaning="`true`: fail when messages that should be read are gone. `false`: warn (queue, range, count) and go on.",
)
RETRIES = Option(
    "fetchOffset.numRetries",
    "SB",
    integer(0, 100),
    otherwise="3 (planning repeats requests to silent brokers until `pollTimeoutMs` has passed)",
    meaning="Number of repetitions of a failed request for offsets or routes.",
)
RETRY_PAUSE = Option(
    "fetchOffset.retryIntervalMs",
    "SB",
    duration(0, 600_000),
    "1000",
    meaning="Longest pause before such a repetition; a random part of up to a half is taken off.",
)

SECTION = section("Where to start and stop", globals())
