"""List the options that say how eagerly messages are pulled, and how many pulled messages may wait."""

from __future__ import annotations

from ..option import Option, section
from ..values import choice, duration, integer, mebibytes, optional

BATCH_SIZE = Option(
    "pullBatchSize",
    "SB",
    integer(1, 1024),
    "32",
    native=True,
    meaning="Messages requested per pull; unless configured otherwise, brokers return at most 32 (8 from disk).",
)
DEPTH = Option(
    "pullPipelineDepth",
    "SB",
    integer(1, 256),
    otherwise="32",
    meaning="Pulls in flight per task, over all its queues. If not given, it grows until 8 MiB are in flight, to at "
    "most 256 pulls.",
)
MESSAGES_PER_QUEUE = Option(
    "pullThresholdForQueue",
    "SB",
    integer(1, 65535),
    "1000",
    native=True,
    meaning="Flow control: number of buffered messages of a queue above which its pulls pause.",
)
MESSAGES_PER_TOPIC = Option(
    "pullThresholdForTopic",
    "SB",
    optional(integer(1, 6_553_500)),
    "-1",
    native=True,
    meaning="If set, replaces `pullThresholdForQueue`: the value divided by the number of the task's queues, at least "
    "1.",
)
SIZE_PER_QUEUE = Option(
    "pullThresholdSizeForQueue",
    "SB",
    mebibytes(1, 1024),
    "100",
    native=True,
    meaning="Flow control: MiB of buffered bodies of a queue; its pulls pause one MiB above. Bodies count as stored: "
    "compressed ones are not unpacked.",
)
SIZE_PER_TOPIC = Option(
    "pullThresholdSizeForTopic",
    "SB",
    optional(mebibytes(1, 102_400)),
    "-1",
    native=True,
    meaning="If set, replaces `pullThresholdSizeForQueue` in the same way.",
)
MAX_SPAN = Option(
    "consumeConcurrentlyMaxSpan",
    "SB",
    integer(1, 65535),
    "2000",
    native=True,
    meaning="Flow control: largest minus smallest buffered offset of a queue above which its pulls pause. A pull in "
    "flight counts as the messages that it may bring, so a late response holds later pulls back.",
)
INTERVAL = Option(
    "pullInterval",
    "SB",
    duration(0, 65535),
    "0",
    native=True,
    meaning="Pause of a queue after a pull that found messages; above 0 the queue has only one pull in flight.",
)
FLOW_CONTROL_PAUSE = Option(
    "pullTimeDelayMillsWhenFlowControl",
    "SB",
    duration(0, 60_000),
    "0",
    meaning="Time after which a paused queue is checked again; 0: as soon as there is room. RocketMQ's own value is "
    "50.",
)
FAILURE_PAUSE = Option(
    "pullTimeDelayMillsWhenException",
    "SB",
    duration(0, 600_000),
    "1000",
    native=True,
    meaning="First pause after a failed pull, doubled with each further failure up to 30 s.",
)
PULL_TIMEOUT = Option(
    "pullTimeoutMs",
    "SB",
    duration(1, 600_000),
    "10000",
    aliases=("consumerPullTimeoutMillis",),
    meaning="Timeout of a pull.",
)
MAX_RETRIES = Option(
    "pullMaxRetries",
    "SB",
    integer(0, 1000),
    "5",
    meaning="Number of repetitions of a failed pull before the task fails; throttling is no failure.",
)
POLL_TIMEOUT = Option(
    "pollTimeoutMs",
    "SB",
    duration(1000, 86_400_000),
    "120000",
    aliases=("kafkaConsumer.pollTimeoutMs",),
    meaning="Time without progress after which a task fails; time for which Spark delays the task does not count. "
    "Bounds the wait for a broker that throttles, and for the master of a replica that refuses reads.",
)
READ_FROM = Option(
    "readFrom",
    "SB",
    choice({"auto": True, "master": False}),
    "auto",
    meaning="`auto`: follow the broker's suggestion, and fall back to a replica when the master is gone. `master`: "
    "never read from a replica.",
)
ARROW_BATCH_SIZE = Option(
    "arrowBatchSize", "SB", integer(1, 100_000), "10000", meaning="Rows per record batch; a batch also closes at 8 MiB."
)

SECTION = section("Pulling and flow control", globals())
