"""Options of writes become the settings of a writer; what contradicts itself or has no effect is refused."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from pyspark_rocketmq.encode.settings import EncodeSettings
from pyspark_rocketmq.errors import OptionError
from pyspark_rocketmq.options import WriterOptions, batch_keys, parse_writer_options
from pyspark_rocketmq.options.option import Option
from pyspark_rocketmq.options.table import OPTIONS, writing
from pyspark_rocketmq.options.writer_options import BadRows, GivenBatch, QueueChoice
from pyspark_rocketmq.send.settings import SendSettings
from pyspark_rocketmq.wire.codes import ResponseCode
from pyspark_rocketmq.wire.compression import Compression
from tests.options.samples import LEAST as LEAST_OF_READS
from tests.options.samples import error_of as error_of_read
from tests.options.samples import read
from tests.options.test_secrets import HUSH, SECRET, every_text

LEAST = {"nameServer": "ns:9876"}
DEAD = {"onBadRow": "deadLetter", "deadLetterTopic": "dead"}

SAMPLES: dict[str, tuple[str, dict[str, str]]] = {
    "topic": ("orders", {}),
    "producerGroup": ("shop", {}),
    "sendMsgTimeout": ("5s", {}),
    "sendTimeoutMs": ("30s", {}),
    "maxRowsPerSecond": ("1000", {}),
    "retryTimesWhenSendFailed": ("0", {}),
    "acceptSendStatus": ("send_ok, FLUSH_SLAVE_TIMEOUT", {}),
    "maxInFlight": ("1", {}),
    "maxMessageSize": ("1m", {}),
    "compressMsgBodyOverHowmuch": ("0", {}),
    "compressType": ("zstd", {}),
    "sendBatchSize": ("1", {}),
    "queueSelector": ("ROUNDROBIN", {}),
    "ordering": ("Key", {}),
    "sinkName": ("audit-1", {}),
    "onBadRow": ("deadletter", {"deadLetterTopic": "dead"}),
    "deadLetterTopic": ("dead", {"onBadRow": "deadLetter"}),
}
"""Main name → a value that differs from the default, and the other options that this option needs."""

BUILT = [option for option in OPTIONS if option.use in ("W", "WH") and not option.is_planned]
WITH_DEFAULT = [option for option in BUILT if option.default]


def write(raw: Mapping[str, str]) -> WriterOptions:
    """Return the settings of a write with these options, without environment variables."""
    return parse_writer_options(raw, env={}, clock=lambda: 1_800_000_000.0)


def error_of(**options: str) -> OptionError:
    """Return the error that a write with these options raises."""
    with pytest.raises(OptionError) as caught:
        write(LEAST | options)
    return caught.value


def raw_with(name: str, text: str, main: str = "") -> dict[str, str]:
    """Return the options of a write with one option, under any of its names, and the other options that it needs."""
    return {**LEAST, **SAMPLES[main or name][1], name: text}


# --- every option -----------------------------------------------------------------------------------------------------


def test_every_built_option_has_a_sample() -> None:
    """There is a sample for every implemented option of writes; `deliveryGuarantee` has only one value."""
    assert SAMPLES.keys() | {"deliveryGuarantee"} == {option.name for option in BUILT}


@pytest.mark.parametrize("name", SAMPLES)
def test_an_option_changes_the_settings(name: str) -> None:
    """If an option of writes is given, the settings differ from those without it."""
    assert write(raw_with(name, SAMPLES[name][0])) != write(LEAST)


@pytest.mark.parametrize(
    ("alias", "name"), [(alias, option.name) for option in BUILT for alias in option.spellings[1:] if option.default]
)
def test_an_alias_means_its_main_name(alias: str, name: str) -> None:
    """If an option is given under an alias, the settings are the same as under its main name."""
    text = SAMPLES[name][0]
    assert write(raw_with(alias, text, name)) == write(raw_with(name, text))


@pytest.mark.parametrize("change", [str.upper, str.lower, str.swapcase])
@pytest.mark.parametrize("name", SAMPLES)
def test_case_of_names_does_not_matter(name: str, change: Callable[[str], str]) -> None:
    """If names are in another case, the settings are the same."""
    text = SAMPLES[name][0]
    changed = {change(key): value for key, value in raw_with(name, text).items()}
    assert write(changed) == write(raw_with(name, text))


@pytest.mark.parametrize("option", WITH_DEFAULT, ids=lambda option: option.name)
def test_a_default_is_a_value_like_others(option: Option[Any]) -> None:
    """If an option's default is given, the settings do not change."""
    assert write(LEAST | {option.name: option.default}) == write(LEAST)


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("name", sorted(SAMPLES.keys() - {"topic", "ordering"}))
def test_options_of_writes_are_not_for_reads(name: str, stream: bool) -> None:
    """If a read gets an option of writes, the error says so; while the use is unknown the option is accepted."""
    raw = LEAST_OF_READS | {name: SAMPLES[name][0]} | SAMPLES[name][1]
    error = error_of_read(raw, stream=stream)
    assert error.code == "OPTION_SCOPE" and "writes" in error.advice
    assert read(raw, stream=None)


@pytest.mark.parametrize(
    ("name", "text"), [("subscribe", "orders"), ("startingOffsets", "latest"), ("consumerGroup", "g"), ("tags", "a")]
)
def test_options_of_reads_are_not_for_writes(name: str, text: str) -> None:
    """If a write gets an option of reads, the error names the reads."""
    error = error_of(**{name: text})
    assert (error.option, error.code) == (name, "OPTION_SCOPE") and "reads" in error.advice


# --- settings ---------------------------------------------------------------------------------------------------------


def test_the_least_is_what_the_rooms_take_for_granted() -> None:
    """If only the name server is given, the settings equal the defaults of the settings classes."""
    least = write(LEAST)
    assert least.send == SendSettings(producer_group="pyspark-rocketmq-producer")
    assert least.encode == EncodeSettings()
    assert least == WriterOptions(least.cluster, least.send)


def test_how_rows_are_sent() -> None:
    """Options about sending become settings of the pipeline, in seconds."""
    options = write(
        LEAST
        | {
            "producerGroup": "shop",
            "sendMsgTimeout": "1500",
            "sendTimeoutMs": "10s",
            "retryTimesWhenSendFailed": "7",
            "acceptSendStatus": "FLUSH_DISK_TIMEOUT,SEND_OK",
            "maxInFlight": "8",
            "maxRowsPerSecond": "500",
            "ordering": "key",
        }
    )
    assert options.send == SendSettings(
        producer_group="shop",
        attempt_timeout_s=1.5,
        retries=7,
        deadline_s=10.0,
        accepted_statuses=frozenset({ResponseCode.SUCCESS, ResponseCode.FLUSH_DISK_TIMEOUT}),
        max_in_flight=8,
        keeps_order=True,
        rows_per_second=500,
    )
    assert options.planning_cluster == replace(options.cluster, wait_for_brokers_s=10.0)


def test_what_requests_look_like() -> None:
    """Options about requests become settings of the encoder."""
    options = write(
        LEAST
        | {
            "topic": "orders",
            "maxMessageSize": "1m",
            "sendBatchSize": "8",
            "compressMsgBodyOverHowmuch": "1k",
            "compressType": "lz4",
            "queueSelector": "roundRobin",
        }
    )
    assert options.encode == EncodeSettings(
        topic="orders",
        max_body_bytes=2**20,
        batch_rows=8,
        compress_over_bytes=1024,
        compression=Compression.LZ4,
        places_by_key=False,
    )
    assert options.queue_selector is QueueChoice.ROUND_ROBIN


def test_bad_rows() -> None:
    """Rows that cannot be sent go to the dead-letter topic if the options say so."""
    options = write(LEAST | DEAD)
    assert (options.on_bad_row, options.dead_letter_topic) == (BadRows.DEAD_LETTER, "dead")
    assert write(LEAST | {"onBadRow": "DROP"}).on_bad_row is BadRows.DROP


def test_a_body_leaves_room_for_its_header() -> None:
    """The default of the largest body shrinks with the frame; a body that is given and does not fit is refused."""
    assert write(LEAST | {"maxFrameSize": "1m"}).encode.max_body_bytes == 2**20 - 2**16
    error = error_of(maxMessageSize="16m")
    assert (error.option, error.code) == ("maxMessageSize", "OPTION_CONFLICT") and "maxFrameSize" in str(error)
    assert write(LEAST | {"maxMessageSize": "16m", "maxFrameSize": "32m"})


def test_the_batch_of_a_helper() -> None:
    """The keys that `writing.send` adds say which batch is written; without them Spark says it."""
    assert write(LEAST | batch_keys("q", 7)).batch == GivenBatch("q", 7)
    assert write(LEAST).batch is None


def test_settings_travel_to_the_executors() -> None:
    """The settings of a writer can be pickled."""
    options = write(LEAST | DEAD | {"topic": "orders", "accessKey": "a", "secretKey": "b"})
    assert pickle.loads(pickle.dumps(options)) == options


# --- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "text", "advice"),
    [
        ("topic", "a b", "up to 127 characters"),
        ("topic", "a" * 128, "up to 127 characters"),
        ("topic", "%RETRY%g", "no system, retry or dead-letter topic"),
        ("topic", "%DLQ%g", "no system, retry or dead-letter topic"),
        ("topic", "SCHEDULE_TOPIC_XXXX", "no system, retry or dead-letter topic"),
        ("topic", "rmq_sys_x", "no system, retry or dead-letter topic"),
        ("producerGroup", "a b", "1..120"),
        ("producerGroup", "DEFAULT_PRODUCER", "a group of its own"),
        ("sendMsgTimeout", "0", "1..600000"),
        ("sendTimeoutMs", "999", "1000..86400000"),
        ("sendTimeoutMs", "25h", "1000..86400000"),
        ("maxRowsPerSecond", "0", "≥ 1"),
        ("retryTimesWhenSendFailed", "101", "0..100"),
        ("acceptSendStatus", "FLUSH_DISK_TIMEOUT", "with SEND_OK"),
        ("acceptSendStatus", "SEND_OK,FINE", "SLAVE_NOT_AVAILABLE"),
        ("maxInFlight", "0", "1..10000"),
        ("maxInFlight", "10001", "1..10000"),
        ("maxMessageSize", "1023", "≥ 1k"),
        ("compressMsgBodyOverHowmuch", "-1", "size ≥ 0"),
        ("compressType", "gzip", "ZLIB, LZ4, ZSTD"),
        ("sendBatchSize", "1025", "1..1024"),
        ("queueSelector", "random", "auto, hash, roundRobin"),
        ("ordering", "queue", "none, key"),
        ("deliveryGuarantee", "exactly_once", "at_least_once"),
        ("sinkName", "a b", "1..100 characters"),
        ("sinkName", "a" * 101, "1..100 characters"),
        ("onBadRow", "skip", "fail, deadLetter, drop"),
        ("deadLetterTopic", "%DLQ%g", "no system, retry or dead-letter topic"),
    ],
)
def test_wrong_values(name: str, text: str, advice: str) -> None:
    """A value that is not accepted raises an error that quotes it and says what is accepted."""
    error = error_of(**{name: text})
    assert error.code == "OPTION_VALUE" and advice in error.advice
    assert str(error).startswith(f"[OPTION_VALUE] {name} = '{text}'")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("deliveryGuarantee", "transactional"),
        ("endpoints", "proxy:8081"),
        ("ledgerTopic", "ledger"),
        ("ledgerLease", "15s"),
        ("sinkRecovery", "fail"),
        ("namespaceV2", "NS"),
    ],
)
def test_what_is_planned_is_refused(name: str, text: str) -> None:
    """Transactions, their ledger and gRPC are refused by name, as planned."""
    error = error_of(**{name: text})
    assert (error.option, error.code) == (name, "OPTION_REFUSED") and "planned, not built" in str(error)


@pytest.mark.parametrize(
    ("raw", "option", "other"),
    [
        ({"onBadRow": "deadLetter"}, "onBadRow", "deadLetterTopic"),
        ({"deadLetterTopic": "dead"}, "deadLetterTopic", "onBadRow"),
        ({"deadLetterTopic": "dead", "onBadRow": "drop"}, "deadLetterTopic", "onBadRow=deadLetter"),
        (DEAD | {"topic": "dead"}, "deadLetterTopic", "topic"),
        ({"ordering": "key", "queueSelector": "roundRobin"}, "ordering", "queueSelector"),
        ({"instanceName": "one"}, "instanceName", "client id"),
        ({"unitName": "one"}, "unitName", "client id"),
        ({"accessKey": "AK"}, "accessKey", "secretKey"),
        ({"tlsTrustCert": "PEM"}, "tlsTrustCert", "useTLS"),
    ],
)
def test_what_contradicts_itself(raw: dict[str, str], option: str, other: str) -> None:
    """If two options of a write conflict, the error names both, in whatever order they are given."""
    for each in (raw, dict(reversed(raw.items()))):
        error = error_of(**each)
        assert (error.option, error.code) == (option, "OPTION_CONFLICT")
        assert other in str(error) and error.advice


def test_a_server_is_needed() -> None:
    """If no name server is given, the write is refused."""
    with pytest.raises(OptionError, match=r"\[OPTION_MISSING\].*nameServer"):
        write({"topic": "orders"})


@pytest.mark.parametrize(
    ("name", "ours"),
    [
        ("backPressureForAsyncSendNum", "maxInFlight"),
        ("retryTimesWhenSendAsyncFailed", "retryTimesWhenSendFailed"),
        ("autoBatch", "sendBatchSize"),
        ("path", "topic"),
    ],
)
def test_names_of_other_products(name: str, ours: str) -> None:
    """If a write gets a name of another product, the error names the option to use instead."""
    error = error_of(**{name: "1"})
    assert error.code == "OPTION_REFUSED" and ours in error.advice


def test_the_topic_of_a_write_is_no_alias_of_subscribe() -> None:
    """A write takes `topic` as its own option, of which a near miss is found."""
    assert write(LEAST | {"TOPIC": "orders"}).encode.topic == "orders"
    error = error_of(topicc="orders")
    assert error.code == "OPTION_UNKNOWN" and "did you mean topic" in str(error)


@pytest.mark.parametrize("option", SECRET, ids=lambda option: option.name)
def test_secrets_are_not_shown(option: Option[Any]) -> None:
    """The settings of writes do not show the value of a secret option in any text."""
    more = {"accessKey": "a", "secretKey": "b", "useTLS": "true", "tlsClientKeyPath": "k", "tlsClientCertPath": "c"}
    options = write({**LEAST, **more, option.name: HUSH})
    assert HUSH not in every_text(options) + every_text(options.planning_cluster)


def test_every_option_of_the_section_is_for_writes() -> None:
    """All options of the section apply to writes."""
    assert [option.name for option in writing.SECTION.options if "W" not in option.use] == []
