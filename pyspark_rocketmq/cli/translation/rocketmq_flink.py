"""List the options of Apache's connector rocketmq-flink, and what takes their place.

It has three sets: those of its SQL connector, properties of its first API, and those of its present one, which begin
with `rocketmq.client.`, `rocketmq.source.` or `rocketmq.sink.`.
"""

from __future__ import annotations

from .convert import commits, either, positive_ms, reset_mode, start_at, start_mode, time_or_ms, time_text, topics
from .rules import RESET_NOTE, Product, Rule, cut, dropped, renamed

__all__ = ["ROCKETMQ_FLINK"]

_PARSE = "rows are whole messages: parse the column body, for example by from_json"
_COLUMN = "write it as a column of the DataFrame"
_THREADS = "Spark runs the work: minPartitions and maxPartitions"
_MEMBER = "has an effect for members of a group only: groupMembership=shared"
_NONE = "there is no counterpart"
_TIME_OPTIONS = (
    "offsetFromTimestamp",
    "startTimeMs",
    "consumer.offset.from.timestamp",
    "rocketmq.source.startup.offset.timestamp",
)

_CLIENT = (
    renamed("nameServer", "nameServerAddress", "nameserver.address", "rocketmq.client.endpoints",
            note="name servers; a proxy's gRPC port cannot be read from"),
    renamed("namespace", "rocketmq.client.namespace"),
    renamed("accessKey", "accessKey", "access.key", "rocketmq.client.accessKey", is_secret=True),
    renamed("secretKey", "secretKey", "secret.key", "rocketmq.client.secretKey", is_secret=True,
            note="better in a credentialsFile"),
    renamed("useTLS", "rocketmq.client.tls.enable"),
    renamed("mqClientApiTimeout", "rocketmq.client.network.timeout.ms", convert=cut("mqClientApiTimeout", 1, 600_000)),
    renamed(
        "pollNameServerInterval", "partitionDiscoveryIntervalMs", "nameserver.poll.interval",
        "rocketmq.client.partition.discovery.interval.ms", convert=cut("pollNameServerInterval", 1000, 2**31 - 1),
    ),
    dropped(_MEMBER, "brokerserver.heartbeat.interval", "unit.name", "rocketmq.client.unitName",
            "rocketmq.client.unitMode"),
    dropped(_NONE, "access.channel", "rocketmq.client.channel", "rocketmq.client.debug", "rocketmq.client.poll.timeout",
            "consumer.timeout", "useNewApi", "rocketmq.source.api.new.enable"),
    dropped(_THREADS, "rocketmq.client.callback.threads"),
    dropped(_PARSE, "encoding", "fieldDelimiter", "lineDelimiter", "columnErrorDebug", "lengthCheck", "format",
            "rocketmq.client.message.*", "rocketmq.source.column.error.debug"),
    dropped("belongs to the options of times", "timeZone", "rocketmq.client.timeZone"),
    dropped('format("rocketmq") takes its place', "connector"),
)  # fmt: skip

_READS: tuple[Rule, ...] = (
    *_CLIENT,
    renamed("subscribe", "topic", "consumer.topic", "rocketmq.source.topic", convert=topics),
    renamed(
        "consumerGroup", "consumerGroup", "consumer.group", "rocketmq.source.group",
        note="positions of finished batches are committed to this group, unless commitOffsets=none",
    ),
    renamed("tags", "tag", "consumer.tag", "rocketmq.source.filter.tag"),
    renamed("sqlFilter", "sql", "consumer.sql", "rocketmq.source.filter.sql"),
    renamed(
        "startingOffsets", "scanStartupMode", "rocketmq.source.startup.scan.mode", convert=start_mode(*_TIME_OPTIONS),
    ),
    renamed("startingOffsetsDefault", "consumer.offset.reset.to", convert=reset_mode(*_TIME_OPTIONS), note=RESET_NOTE),
    renamed("startingTimestamp", *_TIME_OPTIONS, convert=positive_ms("startingTimestamp")),
    renamed("startingTimestamp", "startTime", convert=time_text("startingTimestamp", "timeZone")),
    renamed("startingTimestamp", "rocketmq.source.startup.offset.date",
            convert=time_text("startingTimestamp", "rocketmq.client.timeZone")),
    renamed("endingTimestamp", "endTime", convert=time_text("endingTimestamp", "timeZone"),
            note="batch reads only; a stream goes on"),
    renamed("endingTimestamp", "rocketmq.source.stop.offset.timestamp", note="batch reads only; a stream goes on",
            convert=time_or_ms("endingTimestamp", "rocketmq.client.timeZone")),
    renamed("startingOffsets", "startMessageOffset", "consumer.start.message.offset",
            "rocketmq.source.startup.offset.specific", convert=start_at),
    dropped("queues without a position start as startingOffsetsDefault says",
            "rocketmq.source.startup.offset.strategy"),
    renamed(
        "pullBatchSize", "consumer.batch.size", "rocketmq.source.pull.batch.size",
        convert=cut("pullBatchSize", 1, 1024),
    ),
    renamed("pullThresholdForQueue", "rocketmq.source.pull.threshold.queue",
            convert=cut("pullThresholdForQueue", 1, 65_535)),
    renamed("pullTimeoutMs", "rocketmq.source.pull.rpc.timeout", convert=cut("pullTimeoutMs", 1, 600_000)),
    renamed("pullTimeDelayMillsWhenException", "rocketmq.source.pull.rpc.exception.delay",
            convert=cut("pullTimeDelayMillsWhenException", 0, 600_000)),
    renamed("commitOffsets", "rocketmq.source.offset.commit.auto", "rocketmq.source.offset.commit.checkpoint",
            convert=commits, note="a batch is committed when it is finished; needs a consumerGroup"),
    renamed(
        "persistConsumerOffsetInterval", "consumer.offset.persist.interval", "rocketmq.source.offset.commit.interval",
        convert=cut("persistConsumerOffsetInterval", 0, 600_000), note="needs a consumerGroup",
    ),
    dropped("queues are assigned to Spark's tasks: allocateMessageQueueStrategy", "rocketmq.source.allocate.strategy",
            "consumer.index"),
    dropped(_THREADS, "consumer.pull.thread.pool.size", "rocketmq.source.pull.threads.num"),
    dropped("limits are those of a queue: pullThresholdForQueue", "rocketmq.source.pull.threshold.all"),
    dropped("pulls do not wait at brokers: the trigger asks for new messages", "rocketmq.source.pull.suspend.timeout",
            "consumer.delay.when.message.not.found"),
    dropped("this library writes no traces", "rocketmq.source.trace.enable", "rocketmq.source.trace.topic"),
    dropped("give withWatermark on the DataFrame", "watermark"),
)  # fmt: skip

_WRITES: tuple[Rule, ...] = (
    *_CLIENT,
    renamed("topic", "topic", "producer.topic", "rocketmq.sink.topic"),
    renamed("producerGroup", "producerGroup", "produceGroup", "producer.group", "rocketmq.sink.group"),
    renamed(
        "retryTimesWhenSendFailed", "retryTimes", "producer.retry.times", "rocketmq.sink.send.retry.times",
        "rocketmq.sink.retry.times", convert=cut("retryTimesWhenSendFailed", 0, 100),
    ),
    renamed("sendMsgTimeout", "producer.timeout", "rocketmq.sink.send.timeout", convert=cut(
        "sendMsgTimeout", 1, 600_000)),
    renamed("maxInFlight", "rocketmq.sink.send.pending.max", convert=cut("maxInFlight", 1, 10_000)),
    renamed("deliveryGuarantee", "rocketmq.sink.delivery.guarantee",
            convert=either("deliveryGuarantee", at_least_once="at_least_once", none="at_least_once"),
            note="a row that is sent again has the msgId of its first copy"),
    dropped(f"{_COLUMN} named tags", "tag", "isDynamicTag", "dynamicTagColumn", "dynamicTagColumnWriteIncluded",
            "rocketmq.sink.tag", "rocketmq.sink.tag.*"),
    dropped(f"{_COLUMN} named keys", "keyColumns", "writeKeysToBody", "rocketmq.sink.key.*"),
    dropped(f"{_COLUMN} named delayTimeLevel", "msg.delay.level"),
    dropped("make the body yourself, for example by to_json", "rocketmq.sink.serialize.format"),
    dropped("pauses between attempts grow by themselves", "sleepTimeMs", "rocketmq.sink.retry.sleep.ms"),
    dropped("there are no transactions: see deliveryGuarantee", "rocketmq.sink.transaction.timeout"),
    dropped(_THREADS, "rocketmq.sink.executor.num"),
)  # fmt: skip

ROCKETMQ_FLINK = Product(
    "rocketmq-flink",
    "Apache's rocketmq-flink",
    (),
    read_extra={},
    read_start="Flink's source may have started where the group stands",
    read_remarks=(
        "a savepoint of Flink cannot go on here: start where the group stands (startingOffsets=group), or by time",
    ),
    reads=_READS,
    writes=_WRITES,
)
