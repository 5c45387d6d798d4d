"""Options become the settings of the rooms below."""

from __future__ import annotations

import pickle

import pytest

from pyspark_rocketmq.allocation import AllocationSettings
from pyspark_rocketmq.allocation.choice import StrategyName
from pyspark_rocketmq.cluster.names import Namespace
from pyspark_rocketmq.cluster.settings import ClusterSettings
from pyspark_rocketmq.cluster.signing import Credentials
from pyspark_rocketmq.decode.columns import Content, Layout, Mode, default_columns
from pyspark_rocketmq.model import Address, MessageQueue
from pyspark_rocketmq.net.backoff import Backoff
from pyspark_rocketmq.net.settings import NetSettings, TlsSettings
from pyspark_rocketmq.offsets.requested import EndSettings, Keyword, StartSettings
from pyspark_rocketmq.options import ReaderOptions
from pyspark_rocketmq.options.reader_options import CommitSettings, LockSettings, Selection, ShareSettings
from pyspark_rocketmq.planning.admission import Limits
from pyspark_rocketmq.pull.settings import PullSettings, Subscription
from tests.options.samples import LEAST, NOW_S, read, read_least


def test_the_least_is_what_the_rooms_take_for_granted() -> None:
    """If only the required options are given, the settings equal the defaults of the settings classes."""
    cluster = ClusterSettings((Address("ns", 9876),), pause=Backoff(1.0, 1.0))

    expected = ReaderOptions(cluster, Selection(topics=("orders",)), StartSettings())

    assert read_least() == expected


def test_a_batch_read_starts_at_the_beginning() -> None:
    """Without options about the start, a stream starts at the latest offsets and a batch read at the earliest."""
    assert read_least(True).start.offsets is Keyword.LATEST
    assert read_least(False).start.offsets is Keyword.EARLIEST


def test_network() -> None:
    """Options of the network are given in milliseconds and become settings in seconds."""
    options = read_least(connectTimeoutMillis="1500", mqClientApiTimeout="2s", maxFrameSize="1m", useTLS="true")

    assert options.cluster.net == NetSettings(1.5, 2.0, max_frame_bytes=2**20, tls=TlsSettings())
    assert options.content.max_body_bytes == 4 * 2**20


def test_tls() -> None:
    """Options of TLS set the trusted CAs, the client's certificate, and whether the server is verified."""
    paths = {"tlsTrustCertPath": "ca", "tlsClientCertPath": "c", "tlsClientKeyPath": "k"}

    options = read_least(useTLS="true", tlsAuthServer="false", tlsClientKeyPassword="hush", **paths)

    assert options.cluster.net.tls == TlsSettings("ca", None, "c", "k", "hush", verify_server=False)


def test_cluster() -> None:
    """Options of the cluster set name servers, waiting times, namespace and address map."""
    more = {"fetchOffset.numRetries": "7", "fetchOffset.retryIntervalMs": "0", "namespace": "NS"}
    addresses = '{"10.0.0.1:10911": "localhost:1", "*": "proxy:8080"}'

    cluster = read(LEAST | more | {"nameServer": "a:1; [::1]:2", "brokerAddressMap": addresses}).cluster

    assert cluster.name_servers == (Address("a", 1), Address("::1", 2))
    assert (cluster.retries, cluster.pause, cluster.namespace) == (7, Backoff(0.0, 0.0), Namespace("NS"))
    assert cluster.address_map.reach(Address("10.0.0.1", 10911)) == Address("localhost", 1)
    assert cluster.address_map.reach(Address("10.0.0.2", 10911)) == Address("proxy", 8080)


def test_credentials_and_their_secrecy() -> None:
    """Credentials are set in the cluster's settings, but not shown in the text of the settings."""
    options = read_least(accessKey="hush0", secretKey="hush1", securityToken="hush2")

    assert options.cluster.credentials == Credentials("hush0", "hush1", "hush2")
    assert "hush" not in repr(options)


def test_selection() -> None:
    """A read selects topics by name, by a pattern, or as listed queues."""
    pattern = read({"nameServer": "a:1", "subscribePattern": "o.*"}).selection
    listed = read({"nameServer": "a:1", "assign": '{"orders": {"b": [1]}}'}).selection

    assert read_least(subscribe="a, %RETRY%g").selection.topics == ("a", "%RETRY%g")
    assert pattern.takes_topic("orders") and not pattern.takes_topic("no")
    assert listed.takes(MessageQueue("orders", "b", 1)) and not listed.takes(MessageQueue("orders", "b", 0))


def test_filters() -> None:
    """Tags are sent to the broker and compared again by the decoder; an SQL condition is only sent to the broker."""
    tagged, by_sql, plain = read_least(tags="a || b"), read_least(sqlFilter="x > 1"), read_least(tags="*")

    assert (tagged.pull.subscription, tagged.content.tags) == (Subscription("a||b"), frozenset({"a", "b"}))
    assert (by_sql.pull.subscription, by_sql.content.tags) == (Subscription("x > 1", "SQL92"), frozenset())
    assert (plain.pull.subscription, plain.content) == (Subscription(), Content())


def test_start_and_end() -> None:
    """Keywords, times and fallbacks in options set the requested starts and ends."""
    more = {"startingOffsets": "group", "consumerGroup": "g", "startingTimestamp": "-2h"}
    start = read(LEAST | more | {"startingOffsetsByTimestampStrategy": "latest"}).start
    end = read(LEAST | {"endingTimestamp": "5"}, stream=False).end

    two_hours_ago = int(NOW_S * 1000) - 7_200_000
    assert start == StartSettings(Keyword.GROUP, None, two_hours_ago, None, Keyword.LATEST)
    assert end == EndSettings(Keyword.LATEST, 5)


def test_batches() -> None:
    """Options of batches set limits, the number of tasks and the allocation strategy."""
    more = {"maxOffsetsPerTrigger": "9", "maxOffsetsPerQueue": "8", "minOffsetsPerTrigger": "7"}
    options = read_least(
        maxTriggerDelay="30s", minPartitions="2", maxPartitions="3", maxRecordsPerPartition="4", **more
    )

    assert options.limits == Limits(9, 8, 7, 30.0)
    plan = options.plan
    assert (plan.min_partitions, plan.max_partitions, plan.max_records_per_partition) == (2, 3, 4)
    assert read_least(allocateMessageQueueStrategy="CONSISTENT_HASH", virtualNodeCnt="3").allocation == (
        read_least(allocateMessageQueueStrategy="AllocateMessageQueueConsistentHash", virtualNodeCnt="3").allocation
    )


def test_pulling() -> None:
    """Options of pulling set batch sizes, limits and pauses."""
    options = read_least(pullTimeDelayMillsWhenException="40s", readFrom="master", ordering="queue", pullInterval="5")

    assert options.pull.failure_pause == Backoff(40.0, 40.0)
    assert (options.pull.follow_suggestions, options.pull.orderly, options.pull.interval_s) == (False, True, 0.005)


def test_limits_for_a_topic_are_shared_by_its_queues() -> None:
    """A limit for a topic is divided among its queues, at least 1 each; without one, the limit per queue is used."""
    shared = read_least(pullThresholdForTopic="10", pullThresholdSizeForTopic="2g").pull

    assert shared.for_queues(4).limits == (2, 512, 2000)
    assert shared.for_queues(50).limits.message_count == 1
    assert PullSettings().for_queues(4) == PullSettings() == read_least().pull


def test_rows() -> None:
    """The columns are those that the user listed, else those of the layout; options set the formats of their values."""
    kafka = read_least(rowLayout="kafka", includeHeaders="true")
    chosen = read_least(columns="BODY, keys", mode="dropmalformed", includeSystemProperties="true")

    assert kafka.columns == default_columns(Layout.KAFKA, include_headers=True)
    assert chosen.columns == ("body", "keys")
    assert (chosen.content.mode, chosen.content.system_properties) == (Mode.DROPMALFORMED, True)
    assert read_least(columns="*", rowLayout="kafka").columns == default_columns(Layout.KAFKA)


@pytest.mark.parametrize(
    ("raw", "commit"),
    [
        ({}, CommitSettings()),
        ({"consumerGroup": "g"}, CommitSettings("g")),
        ({"consumerGroup": "g", "persistConsumerOffsetInterval": "5s"}, CommitSettings("g", 5.0)),
        ({"consumerGroup": "g", "commitOffsets": "none"}, CommitSettings()),
        ({"consumerGroup": "g", "commitOffsets": "BATCH"}, CommitSettings("g")),
    ],
)
def test_commits(raw: dict[str, str], commit: CommitSettings) -> None:
    """A stream with a group of its own commits positions unless told not to; a batch read never does."""
    assert read(LEAST | raw).commit == commit
    assert read(LEAST | raw).pull.group == raw.get("consumerGroup", "TOOLS_CONSUMER")
    assert read_least(False, consumerGroup="g").commit == CommitSettings()


def test_options_travel() -> None:
    """Settings are equal after pickling, so that executors use the same ones as the driver."""
    options = read_least(tags="a,b", startingOffsets='{"orders": {"b": {"0": 5}}}', namespace="NS")

    assert pickle.loads(pickle.dumps(options)) == options


def test_a_member_begins_where_its_group_stands() -> None:
    """A group member starts at the group's position, else at earliest or as the user says, and reads retries."""
    options = read_least(consumerGroup="g", groupMembership="shared")

    assert (options.start.offsets, options.start.default) == (Keyword.GROUP, Keyword.EARLIEST)
    assert options.selection.retry_topic == "%RETRY%g" and options.commit.group == "g"
    strict = read_least(consumerGroup="g", groupMembership="shared", startingOffsetsDefault="error")
    assert strict.start.default is None


def test_a_members_strategy_divides_queues_among_members() -> None:
    """In a group member, the strategy assigns queues to members; the member's queues go to task slots in blocks."""
    more = {"allocateMessageQueueStrategy": "AVG_BY_CIRCLE", "consumerGroup": "g", "groupMembership": "shared"}
    options = read_least(**more, rebalanceInterval="5s", heartbeatBrokerInterval="10s")

    circle = AllocationSettings(strategy=StrategyName("AVG_BY_CIRCLE"))
    assert options.share == ShareSettings(circle, heartbeat_s=10.0, rebalance_s=5.0)
    assert options.allocation == AllocationSettings()


def test_a_member_that_reads_in_order_locks() -> None:
    """A group member that reads in order locks its queues at brokers unless told not to."""
    more = {"consumerGroup": "g", "groupMembership": "shared", "ordering": "queue"}

    assert read_least(**more).locks == LockSettings(20.0, 30.0)
    assert read_least(**more, lockQueues="false").locks is None


@pytest.mark.parametrize(("frame", "body_bytes"), [("16m", 2**26), ("256m", 2**30), ("1g", 2**30)])
def test_a_body_unpacks_to_four_frames_at_most_1_gib(frame: str, body_bytes: int) -> None:
    """The limit of an uncompressed body is four times the largest frame, but no more than a column can hold."""
    assert read_least(maxFrameSize=frame).content.max_body_bytes == body_bytes


def test_crcs_are_checked_only_on_request() -> None:
    """`checkCrc` switches the comparison of CRCs on."""
    assert not read_least().content.check_crc
    assert read_least(checkCrc="true").content.check_crc
