"""Every option says which texts it accepts, and refuses any other text with an `OptionError`."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pyspark_rocketmq.cluster.routes import AddressMap
from pyspark_rocketmq.errors import OptionError
from pyspark_rocketmq.model import Address
from pyspark_rocketmq.options.table.addressing import read_address_map
from pyspark_rocketmq.options.table.row_format import read_columns
from pyspark_rocketmq.options.values import OptionText
from tests.options.samples import LEAST, SAMPLES, error_of, raw_with, read, read_least, refusal_of, settings_of

ADDRESS, JSON, INTEGER = "host:port", "JSON", "integer"
WRONG = [
    ("nameServer", "localhost", ADDRESS),
    ("nameServer", "http://localhost:9876", ADDRESS),
    ("nameServer", "a:1;a:1", "twice"),
    ("nameServer", "a:1,,b:1", "blank"),
    ("brokerAddressMap", '{"a:1": 5}', ADDRESS),
    ("brokerAddressMap", '{"a:1": "b:1", "a:1": "c:1"}', "twice"),
    ("connectTimeoutMillis", "0", "1..600000"),
    ("mqClientApiTimeout", "11m", "1..600000"),
    ("pollNameServerInterval", "999", "≥ 1000"),
    ("pollNameServerInterval", "-1", "routes are always cached"),
    ("maxFrameSize", "65535", "64k..1g"),
    ("maxFrameSize", "2g", "64k..1g"),
    ("subscribe", "a,,b", "blank"),
    ("subscribe", "a,a", "twice"),
    ("subscribe", "a b", "127"),
    ("subscribe", "a" * 128, "127"),
    ("subscribePattern", "(", "regular expression"),
    ("subscribePattern", "a{99999999999999999999}", "regular expression"),
    ("assign", '{"t": {"b": [0, 0]}}', "distinct"),
    ("tags", "a||", "blank"),
    ("tags", "a,*", "an ordinary tag"),
    ("startingOffsets", "oldest", "earliest, latest, group"),
    ("startingOffsets", '{"T":{"0":5}}', '{"T": {"*": {"0": 5}}}'),
    ("startingOffsetsDefault", "group", "error, earliest, latest"),
    ("startingTimestamp", "2026-01-31T00:00:00", "+08:00"),
    ("startingOffsetsByTimestamp", '{"T": -1}', "milliseconds"),
    ("startingOffsetsByTimestampStrategy", "earliest", "error, latest"),
    ("endingOffsets", "earliest", "latest"),
    ("endingOffsets", '{"T": {"b": {"0": -2}}}', "-1 (latest)"),
    ("endingTimestamp", "tomorrow", "ISO-8601"),
    ("endingOffsetsByTimestamp", "{", JSON),
    ("failOnDataLoss", "yes", "true, false"),
    ("fetchOffset.numRetries", "101", "0..100"),
    ("fetchOffset.retryIntervalMs", "601s", "0..600000"),
    ("maxOffsetsPerTrigger", "0", "≥ 1"),
    ("maxOffsetsPerQueue", "1.5", INTEGER),
    ("minOffsetsPerTrigger", "ten", INTEGER),
    ("maxTriggerDelay", "0", "≥ 1"),
    ("allocateMessageQueueStrategy", "RANDOM", "AVG_BY_CIRCLE"),
    ("virtualNodeCnt", "0", "an empty ring assigns no queue"),
    ("virtualNodeCnt", "10001", "1..10000"),
    ("messageQueueList", "{}", "["),
    ("machineRooms", "east,east", "twice"),
    ("brokerRooms", '{"a": 1}', JSON),
    ("brokerRooms", '{"a": "x", "a": "y"}', "twice"),
    ("consumerRooms", '["east"]', JSON),
    ("minPartitions", "0", "≥ 1"),
    ("maxPartitions", "-3", "≥ 1"),
    ("maxRecordsPerPartition", "0", "≥ 1"),
    ("ordering", "key", "none, queue"),
    ("consumerGroup", "a.b", "1..120"),
    ("consumerGroup", "a" * 121, "1..120"),
    ("consumerGroup", "DEFAULT_CONSUMER", "its own"),
    ("deadLetterTopic", "%DLQ%g", "up to 127"),
    ("commitOffsets", "true", "none, batch"),
    ("readRetryTopic", "maybe", "true, false"),
    ("maxReconsumeTimes", "-2", "-1 or integer 0..2147483647"),
    ("delayLevelWhenNextConsume", "19", "-1..18"),
    ("persistConsumerOffsetInterval", "601s", "0..600000"),
    ("messageModel", "ANYCAST", "CLUSTERING, BROADCASTING"),
    ("localOffsetStoreDir", "~nobody-of-this-name/offsets", "directory on the driver"),
    ("instanceName", "a@b", "1..100"),
    ("lockQueues", "1", "true, false"),
    ("lockInterval", "31s", "1000..30000"),
    ("lockMaxLiveTime", "1999", "2000..60000"),
    ("unitName", "u" * 101, "1..100"),
    ("unitName", "a\nb", "printable"),
    ("allowedBrokers", "10.1.0.0/8", "host bits"),
    ("allowedBrokers", "http://a", "10.1.0.0/16"),
    ("groupMembership", "alone", "none, shared"),
    ("rebalanceInterval", "999", "1000..600000"),
    ("heartbeatBrokerInterval", "61s", "1000..60000"),
    ("pullBatchSize", "1025", "1..1024"),
    ("pullPipelineDepth", "257", "1..256"),
    ("pullThresholdForQueue", "65536", "1..65535"),
    ("pullThresholdForTopic", "0", "-1 or integer 1..6553500"),
    ("pullThresholdSizeForQueue", "1025", "1..1024"),
    ("pullThresholdSizeForQueue", "1023k", "1..1024"),
    ("pullThresholdSizeForTopic", "-2", "1..102400"),
    ("consumeConcurrentlyMaxSpan", "0", "1..65535"),
    ("pullInterval", "65536", "0..65535"),
    ("pullTimeDelayMillsWhenFlowControl", "61s", "0..60000"),
    ("pullTimeDelayMillsWhenException", "-1", "0..600000"),
    ("pullTimeoutMs", "0", "1..600000"),
    ("pullMaxRetries", "1001", "0..1000"),
    ("pollTimeoutMs", "999", "1000..86400000"),
    ("readFrom", "slave", "auto, master"),
    ("arrowBatchSize", "100001", "1..100000"),
    ("rowLayout", "avro", "rocketmq, kafka"),
    ("columns", "body,nothing", "brokerName"),
    ("includeHeaders", "1", "true, false"),
    ("propertiesFormat", "xml", "map, json"),
    ("includeSystemProperties", "on", "true, false"),
    ("checkCrc", "on", "true, false"),
    ("mode", "STRICT", "FAILFAST, PERMISSIVE, DROPMALFORMED"),
    ("useTLS", "ssl", "true, false"),
    ("tlsAuthServer", "no", "true, false"),
    ("strictOptions", "none", "error, all, warn"),
]
ANY_TEXT = {"sqlFilter", "accessKey", "secretKey", "securityToken", "namespace"} | {
    name for name in SAMPLES if name.startswith(("tlsTrust", "tlsClient"))
}


def test_every_option_with_a_rule_is_tried() -> None:
    """There are cases below for every option that does not accept any text."""
    assert {name for name, _, _ in WRONG} | ANY_TEXT == SAMPLES.keys()


@pytest.mark.parametrize(("name", "text", "accepted"), WRONG)
def test_a_wrong_value_is_told_what_is_right(name: str, text: str, accepted: str) -> None:
    """If a value is wrong, the error holds the code, the option as written, the value, and what is accepted."""
    error = refusal_of(name, raw_with(name, text))

    assert (error.option, error.code) == (name, "OPTION_VALUE")
    assert str(error).startswith(f"[OPTION_VALUE] {name} = '") and accepted in str(error)


@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.parametrize("text", ["", "  "])
def test_blank_values_are_refused(name: str, text: str) -> None:
    """If a value is blank, it is refused and does not mean the default."""
    error = refusal_of(name, raw_with(name, text))

    assert error.code == "OPTION_VALUE" and "blank" in str(error)


@pytest.mark.parametrize("name", SAMPLES)
def test_values_are_trimmed(name: str) -> None:
    """If a value has blanks around it, they are ignored."""
    text = SAMPLES[name][0]

    assert settings_of(name, raw_with(name, f"  {text}\t")) == settings_of(name, raw_with(name, text))


LITERALS = st.sampled_from(
    ["-1", "0", "1e9", "9" * 30, "٣", "-2h", "5 m", "1g", "*", "{}", "[" * 3000, '{"T":{"*":{"*":-1}}}', "a,b", "\0"]
)
GARBAGE = (
    LITERALS
    | st.text(max_size=20)
    | st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=3),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
        max_leaves=5,
    )
    .map(str)
    .map(lambda text: text.replace("'", '"'))
)


@given(st.sampled_from(sorted(SAMPLES)), GARBAGE, st.booleans())
@example("brokerAddressMap", "[" * 100_000, True)
@example("subscribePattern", "[[a]", True)
@example("startingTimestamp", "0001-01-01T00:00:00+23:59", True)
def test_any_value_is_read_or_refused(name: str, text: str, stream: bool) -> None:
    """Any text of an option either gives settings or raises an `OptionError` that names an option."""
    try:
        assert read(raw_with(name, text), stream=stream)
    except OptionError as error:
        assert str(error).startswith("[OPTION_")


@pytest.mark.parametrize(
    ("text", "mib"), [("1", 1), ("1m", 1), ("1023k", None), ("2047k", 1), ("1g", 1024), ("1073741824", None)]
)
def test_mebibytes(text: str, mib: int | None) -> None:
    """For options in MiB, a plain number means MiB, and a size with a unit is rounded down to MiB."""
    if mib is None:
        assert error_of(LEAST | {"pullThresholdSizeForQueue": text}).code == "OPTION_VALUE"
    else:
        assert read_least(pullThresholdSizeForQueue=text).pull.limits.body_mib == mib


def test_long_values_are_cut_in_errors() -> None:
    """If a very long value is refused, the error shows only its beginning."""
    assert len(str(error_of(LEAST | {"pullBatchSize": "9" * 100_000}))) < 500


def test_an_address_map_reads_entries_and_the_star() -> None:
    """In an address map, the entry `*` is the address of all brokers without an entry."""
    text = '{"a:1": "near:7", "*": "[::1]:9"}'

    expected = AddressMap(((Address("a", 1), Address("near", 7)),), other=Address("::1", 9))
    assert read_address_map(OptionText("brokerAddressMap", text)) == expected


@pytest.mark.parametrize("text", ["", "[]", "{", '{"a:1": 7}', '{"a:1": "b"}', '{"a": "b:1"}', '{"a:1": "http://b:1"}'])
def test_a_map_of_anything_else_is_an_option_error(text: str) -> None:
    """If an address map is not a JSON object of addresses, the error names the option."""
    with pytest.raises(OptionError, match="brokerAddressMap"):
        read_address_map(OptionText("brokerAddressMap", text))


def test_columns_are_matched_without_regard_to_case() -> None:
    """Columns may be written in any case and get their own names; `*` is no column."""
    assert read_columns(OptionText("columns", "TOPIC, queueid ,msgId")) == ("topic", "queueId", "msgId")
    assert read_columns(OptionText("columns", "*")) == ()


@pytest.mark.parametrize(("text", "what"), [("topic,colour", "unknown column 'colour'"), ("body,body", "named twice")])
def test_wrong_columns_are_refused(text: str, what: str) -> None:
    """If a column is unknown or repeated, the error names it."""
    with pytest.raises(OptionError, match=what):
        read_columns(OptionText("columns", text))
