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
    meaning="Only for a query without checkpoint. `group`: where the consumer group stands. In JSON -2 means earliest, "
    '-1 latest, -3 group, and `"*"` all other brokers or queue ids.',
)
STARTING_OFFSETS_DEFAULT = Option(
    "startingOffsetsDefault",
    "SB",
    choice({"error": None, "earliest": Keyword.EARLIEST, "latest": Keyword.LATEST}),
    otherwise="`error`; `earliest` with `shared`",
    meaning="For queues that the JSON leaves out and queues without a position of the group.",
)
STARTING_TIMESTAMP = Option(
    "startingTimestamp", "SB", TIME, meaning="Start at the first message stored at or after this time."
)
STARTING_TIMES = Option(
    "startingOffsetsByTimestamp", "SB", Kind(_TIMES, read_times), meaning="The same for single topics or queues."
)
STARTING_STRATEGY = Option(
    "startingOffsetsByTimestampStrategy",
    "SB",
    choice({"error": None, "latest": Keyword.LATEST}),
    "error",
    meaning="When no message is that young.",
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
    meaning="Stop before the first message stored at or after this time; no message that young means latest.",
)
ENDING_TIMES = Option(
    "endingOffsetsByTimestamp", "B", Kind(_TIMES, read_times), meaning="The same for single topics or queues."
)
FAIL_ON_DATA_LOSS = Option(
    "failOnDataLoss",
    "SB",
    BOOLEAN,
    "true",
    meaning="Fail when messages that should be read are gone, or warn (queue, range, count) and go on.",
)
RETRIES = Option(
    "fetchOffset.numRetries",
    "SB",
    integer(0, 100),
    otherwise="3 (planning asks brokers that do not answer until `pollTimeoutMs` has passed)",
    meaning="How often a request for offsets or routes is repeated.",
)
RETRY_PAUSE = Option(
    "fetchOffset.retryIntervalMs",
    "SB",
    duration(0, 600_000),
    "1000",
    meaning="Longest pause before such a repetition; chance shortens it by up to a half.",
)

SECTION = section("Where to start and stop", globals())
