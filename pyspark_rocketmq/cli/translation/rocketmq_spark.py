"""List the options of Apache's connector rocketmq-spark, and what takes their place.

It has two sets: those of its structured source and sink, and properties of its receivers and DStreams.
"""

from __future__ import annotations

from .convert import either, positive_ms, reset_mode, topics
from .rules import RESET_NOTE, Product, Rule, cut, dropped, renamed, same

__all__ = ["ROCKETMQ_SPARK"]

_TIME = "consumer.offset.from.timestamp"
_THREADS = "Spark runs the work: minPartitions and maxPartitions"
_RECEIVER = "there are no receivers: the checkpoint replays a batch that failed"
_CACHE = "connections are kept by the process, without a setting"

_CLIENT = (
    renamed("nameServer", "nameServer", "nameserver.addr"),
    renamed("pollNameServerInterval", "nameserver.poll.interval", convert=cut(
        "pollNameServerInterval", 1000, 2**31 - 1)),
    dropped("brokers see readers and writers without a client id", "client.name", "client.ip"),
    dropped(_THREADS, "client.callback.executor.threads"),
    dropped("no heartbeats are sent, unless groupMembership=shared", "brokerserver.heartbeat.interval"),
    dropped(_CACHE, "spark.sql.rocketmq.pull.consumer.cache.maxCapacity", "pull.consumer.cache.*",
            "spark.rocketmq.producer.cache.timeout"),
)  # fmt: skip

_READS: tuple[Rule, ...] = (
    *_CLIENT,
    renamed("subscribe", "topic", "consumer.topic", convert=topics),
    renamed(
        "consumerGroup", "group", "consumer.group",
        note="positions of finished batches are committed to this group, unless commitOffsets=none",
    ),
    *same("startingOffsets", "endingOffsets", "failOnDataLoss", "maxOffsetsPerTrigger"),
    renamed("startingOffsetsDefault", "consumer.offset.reset.to", convert=reset_mode(_TIME), note=RESET_NOTE),
    renamed("startingTimestamp", _TIME, convert=positive_ms("startingTimestamp")),
    renamed("tags", "subExpression", "consumer.tag"),
    renamed("pullTimeoutMs", "pullTimeoutMs", "pullTimeout", "pull.timeout.ms",
            convert=cut("pullTimeoutMs", 1, 600_000)),
    renamed("pullBatchSize", "pullBatchSize", "pull.max.batch.size", convert=cut("pullBatchSize", 1, 1024)),
    renamed(
        "ordering", "consumer.messages.orderly", convert=either("ordering", true="queue", false="none"),
        note="one task reads a queue's range, in the order of its offsets",
    ),
    renamed(
        "persistConsumerOffsetInterval", "consumer.offset.persist.interval",
        convert=cut("persistConsumerOffsetInterval", 0, 600_000), note="needs a consumerGroup",
    ),
    dropped(_THREADS, "consumer.min.threads", "consumer.max.threads"),
    dropped("a limit per second; maxOffsetsPerQueue limits a batch", "pull.max.speed.per.partition"),
    dropped(_RECEIVER, "spout.queue.size", "spout.messages.ttl"),
    dropped("rows that fail are given back by retry.send_back", "spout.messages.max.retry"),
)  # fmt: skip

ROCKETMQ_SPARK = Product(
    "rocketmq-spark",
    "Apache's rocketmq-spark",
    ("org.apache.spark.sql.rocketmq.RocketMQSourceProvider",),
    read_extra={},
    read_start="receivers and DStreams started where the group stands",
    read_remarks=(
        "properties is a map here, and JSON text there: propertiesFormat=json keeps the text",
        "a checkpoint of rocketmq-spark cannot go on here: start with a new one, by startingOffsets as JSON or by time",
    ),
    reads=_READS,
    writes=(
        *_CLIENT,
        *same("topic"),
        renamed("producerGroup", "group", "producer.group"),
    ),
)
