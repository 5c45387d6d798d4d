"""List the options of writes: where rows go, how they are sent, and what becomes of rows that cannot be sent."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ...cluster.names import is_system_topic
from ...errors import OptionError
from ...model import DEAD_LETTER_PREFIX, MOST_TOPIC, RETRY_PREFIX, is_topic_name
from ...offsets.strict_json import shorten
from ...wire.codes import ResponseCode
from ...wire.compression import Compression
from ..option import Option, section
from ..values import Kind, OptionText, choice, duration, group_name, integer, size, split_list, words
from ..writer_options import BadRows, QueueChoice

_STATUSES: Mapping[str, ResponseCode] = {
    "SEND_OK": ResponseCode.SUCCESS,
    "FLUSH_DISK_TIMEOUT": ResponseCode.FLUSH_DISK_TIMEOUT,
    "FLUSH_SLAVE_TIMEOUT": ResponseCode.FLUSH_SLAVE_TIMEOUT,
    "SLAVE_NOT_AVAILABLE": ResponseCode.SLAVE_NOT_AVAILABLE,
}
_SINK_NAME = re.compile(r"[a-zA-Z0-9_-]{1,100}")
_AT_LEAST_ONCE, _TRANSACTIONAL = "at_least_once", "transactional"


def _read_topic(given: OptionText) -> str:
    topic = given.text
    if not is_topic_name(topic):
        raise _refuse(given, "not a name of a topic", _TOPIC)
    if topic.startswith((RETRY_PREFIX, DEAD_LETTER_PREFIX)) or is_system_topic(topic):
        raise _refuse(given, "a topic of RocketMQ's own", _TOPIC)
    return topic


def _read_statuses(given: OptionText) -> frozenset[ResponseCode]:
    names = [name.upper() for name in split_list(given)]
    if unknown := [name for name in names if name not in _STATUSES]:
        raise _refuse(given, f"'{shorten(unknown[0])}' is no status of a send", _ACCEPTED)
    if "SEND_OK" not in names:
        raise _refuse(given, "without SEND_OK", _ACCEPTED)
    return frozenset(_STATUSES[name] for name in names)


def _read_sink_name(given: OptionText) -> str:
    if not _SINK_NAME.fullmatch(given.text):
        raise _refuse(given, "not a name of a sink", _NAME)
    return given.text


def _read_guarantee(given: OptionText) -> str:
    word = given.text.lower()
    if word == _TRANSACTIONAL:
        advice = f"give {_AT_LEAST_ONCE}, with which a repeated row has the message id of its first copy"
        raise OptionError(given.option, given.text, "planned, not built", advice=advice, code="OPTION_REFUSED")
    if word != _AT_LEAST_ONCE:
        raise _refuse(given, "unknown", _AT_LEAST_ONCE)
    return word


def _refuse(given: OptionText, what: str, accepted: str) -> OptionError:
    return OptionError(given.option, shorten(given.text), what, advice=f"give {accepted.replace('`', '')}")


_TOPIC = f"topic name of up to {MOST_TOPIC} characters of %|a-zA-Z0-9_-; no system, retry or dead-letter topic"
_ACCEPTED = f"list of {', '.join(f'`{name}`' for name in _STATUSES)}; with `SEND_OK`"
_NAME = "1..100 characters of a-zA-Z0-9_-"

TOPIC = Option(
    "topic",
    "W",
    Kind(_TOPIC, _read_topic),
    meaning="Topic that rows go to; outranks the column `topic`. Its writable queues are listed once per batch.",
)
PRODUCER_GROUP = Option(
    "producerGroup",
    "W",
    group_name({"DEFAULT_PRODUCER": "RocketMQ's own name for no group"}),
    "pyspark-rocketmq-producer",
    native=True,
    meaning="Group in sends.",
)
ATTEMPT_TIMEOUT = Option(
    "sendMsgTimeout",
    "W",
    duration(1, 600_000),
    "3000",
    native=True,
    meaning="Timeout of one attempt of a send.",
)
ROW_TIMEOUT = Option(
    "sendTimeoutMs",
    "W",
    duration(1000, 86_400_000),
    "120000",
    meaning="Longest time for a row with all its attempts and pauses; then the task fails. Before a batch, "
    "servers and write permissions that are away are waited for as long.",
)
MAX_ROWS_PER_SECOND = Option("maxRowsPerSecond", "W", integer(1), meaning="Rate limit of each task.")
SEND_RETRIES = Option(
    "retryTimesWhenSendFailed",
    "W",
    integer(0, 100),
    "2",
    native=True,
    meaning="Further attempts of a send that failed: at another broker first, or at the same queue if the row names it "
    "or its key selects it. Attempts do not count while brokers throttle, are out of reach, or send nothing at all. "
    "Then the task fails.",
)
ACCEPTED_STATUSES = Option(
    "acceptSendStatus",
    "W",
    Kind(_ACCEPTED, _read_statuses),
    "SEND_OK",
    meaning="Statuses with which a row counts as stored. With any other one the task fails, though the master has the "
    "message: the flush or the replica's copy that the broker is set up to wait for is missing.",
)
MAX_IN_FLIGHT = Option(
    "maxInFlight",
    "W",
    integer(1, 10_000),
    "64",
    meaning="Unanswered sends of a task, with at most 8 MiB to each broker. With `ordering=key` also one per queue.",
)
MAX_MESSAGE_SIZE = Option(
    "maxMessageSize",
    "W",
    size("1k"),
    "4194304",
    native=True,
    meaning="Largest body; see `onBadRow` for larger ones. Brokers have a setting of this name, too.",
)
COMPRESS_OVER = Option(
    "compressMsgBodyOverHowmuch",
    "W",
    size("0"),
    "4096",
    native=True,
    meaning="Size from which on the body of a message that is sent alone is compressed. Messages in batches are not.",
)
COMPRESSION = Option(
    "compressType",
    "W",
    choice({"ZLIB": Compression.ZLIB, "LZ4": Compression.LZ4, "ZSTD": Compression.ZSTD}),
    "ZLIB",
    native=True,
    meaning="Compression of such bodies. Brokers store them as they are; RocketMQ's consumers of 4.9 read only `ZLIB`.",
)
BATCH_ROWS = Option(
    "sendBatchSize",
    "W",
    integer(1, 1024),
    "32",
    meaning="Most rows in one send: of one topic and queue, without delay, together up to 1 MiB.",
)
QUEUE_SELECTOR = Option(
    "queueSelector",
    "W",
    words(QueueChoice),
    "auto",
    meaning="Queue of a row. `auto`: the one that `queueId` and `brokerName` name, else the one that the sharding key "
    "selects as Java's `SelectMessageQueueByHash`, else the queues in turn. `hash` requires a sharding key column, and "
    "`roundRobin` ignores keys; both refuse `queueId`.",
)
KEY_ORDER = Option(
    "ordering",
    "W",
    choice({"none": False, "key": True}),
    "none",
    meaning="`key`: rows of one sharding key stay in order within a task; repartition by the key first. The key is the "
    "column `shardingKey`, else `key`.",
)
GUARANTEE = Option(
    "deliveryGuarantee",
    "W",
    Kind(f"`{_AT_LEAST_ONCE}`; `{_TRANSACTIONAL}` is planned", _read_guarantee),
    _AT_LEAST_ONCE,
    meaning="A finished batch has every row at a broker that acknowledged it. A retried task or a replayed batch may "
    "repeat rows; a row that is repeated at the same place has the same `msgId`.",
)
SINK_NAME = Option(
    "sinkName",
    "W",
    Kind(_NAME, _read_sink_name),
    meaning="Tells apart several sinks of one query in message ids and logs.",
)
ON_BAD_ROW = Option(
    "onBadRow",
    "W",
    words(BadRows),
    "fail",
    meaning="Rows that no broker would take, and rows that a broker refuses for good: fail the task, send them to "
    "`deadLetterTopic`, or drop and count them.",
)
DEAD_LETTER_TOPIC = Option(
    "deadLetterTopic",
    "WH",
    Kind(_TOPIC, _read_topic),
    meaning="`onBadRow=deadLetter`, `retry.dead_letter`: topic for such rows, with the properties `CAUSE` and "
    "`ORIGIN_TOPIC`.",
)

SECTION = section("Writing", globals())
