"""Where does reading start and stop?"""

from __future__ import annotations

from ...offsets.requested import Keyword, QueueTree, parse_offsets, parse_times
from ..option import Option, section
from ..values import BOOLEAN, TIME, Entry, Kind, choice, duration, integer

_TIMES = "JSON topic → time, or topic → broker → queue id → time"


def _read_times(entry: Entry) -> QueueTree:
    return parse_times(entry.text, entry.option, now_ms=entry.now_ms)


def _read_end(entry: Entry) -> Keyword | QueueTree:
    return parse_offsets(entry.text, entry.option, (Keyword.LATEST,))


STARTING_OFFSETS = Option(
    "startingOffsets",
    "SB",
    "T1",
    Kind(
        "`earliest`, `latest`, `group`, or JSON topic → broker → queue id → offset",
        lambda entry: parse_offsets(entry.text, entry.option),
    ),
    otherwise="S `latest`, B `earliest`, `shared` `group`",
    meaning="Only for a query without checkpoint. `group`: where the consumer group stands. In JSON -2 means earliest, "
    '-1 latest, -3 group, and `"*"` all other brokers or queue ids.',
)
STARTING_OFFSETS_DEFAULT = Option(
    "startingOffsetsDefault",
    "SB",
    "T1",
    choice({"error": None, "earliest": Keyword.EARLIEST, "latest": Keyword.LATEST}),
    otherwise="`error`; `earliest` with `shared`",
    meaning="For queues that the JSON leaves out and queues without a position of the group.",
)
STARTING_TIMESTAMP = Option(
    "startingTimestamp",
    "SB",
    "T1",
    TIME,
    meaning="Start at the first message stored at or after this time.",
)
STARTING_TIMES = Option(
    "startingOffsetsByTimestamp",
    "SB",
    "T2",
    Kind(_TIMES, _read_times),
    meaning="The same for single topics or queues.",
)
STARTING_STRATEGY = Option(
    "startingOffsetsByTimestampStrategy",
    "SB",
    "T1",
    choice({"error": None, "latest": Keyword.LATEST}),
    "error",
    meaning="When no message is that young.",
)
ENDING_OFFSETS = Option(
    "endingOffsets",
    "B",
    "T1",
    Kind("`latest`, or JSON topic → broker → queue id → offset; -1 means latest", _read_end),
    "latest",
    meaning="The first offsets that are not read.",
)
ENDING_TIMESTAMP = Option(
    "endingTimestamp",
    "B",
    "T1",
    TIME,
    meaning="Stop before the first message stored at or after this time; no message that young means latest.",
)
ENDING_TIMES = Option(
    "endingOffsetsByTimestamp",
    "B",
    "T2",
    Kind(_TIMES, _read_times),
    meaning="The same for single topics or queues.",
)
FAIL_ON_DATA_LOSS = Option(
    "failOnDataLoss",
    "SB",
    "T1",
    BOOLEAN,
    "true",
    meaning="Fail when messages that should be read are gone, or warn (queue, range, count) and go on.",
)
RETRIES = Option(
    "fetchOffset.numRetries",
    "SB",
    "T1",
    integer(0, 100),
    otherwise="3 (planning asks brokers that do not answer until `pollTimeoutMs` has passed)",
    meaning="How often a request for offsets or routes is repeated.",
)
RETRY_PAUSE = Option(
    "fetchOffset.retryIntervalMs",
    "SB",
    "T1",
    duration(0, 600_000),
    "1000",
    meaning="Longest pause before such a repetition; chance shortens it by up to a half.",
)

SECTION = section("Where to start and stop", globals())
