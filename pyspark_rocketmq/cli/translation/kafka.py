"""List the options of Spark's Kafka source and sink (Spark 4), and what takes their place."""

from __future__ import annotations

from .convert import either, name_servers_of_ours, offsets_of_kafka, queues_of_kafka, times_of_kafka
from .rules import Product, cut, dropped, renamed, same

__all__ = ["KAFKA"]

_SERVERS = "Kafka's brokers; give RocketMQ's name servers"
_KEYS = "give accessKey and secretKey, or a credentialsFile"
_PEM = "certificates are PEM files here: give tlsTrustCertPath, and for a client's certificate tlsClientCertPath and "
_CLIENT = "a setting of Kafka's client, which does not run here"

_SECURITY = (
    renamed("useTLS", "kafka.security.protocol", note="credentials have options of their own", convert=either(
        "useTLS", ssl="true", sasl_ssl="true", plaintext="false", sasl_plaintext="false",
    )),
    dropped(_KEYS, "kafka.sasl.jaas.config", "kafka.sasl.password", is_secret=True),
    dropped(_KEYS, "kafka.sasl.*"),
    dropped(
        f"{_PEM}tlsClientKeyPath", "kafka.ssl.truststore.password", "kafka.ssl.keystore.password",
        "kafka.ssl.key.password", "kafka.ssl.keystore.key", is_secret=True,
    ),
    dropped(f"{_PEM}tlsClientKeyPath", "kafka.ssl.*"),
    dropped("brokers see readers and writers without a client id", "kafka.client.id", "clientIdPrefix"),
    renamed("pollNameServerInterval", "kafka.metadata.max.age.ms", convert=cut(
        "pollNameServerInterval", 1000, 2**31 - 1)),
)  # fmt: skip

KAFKA = Product(
    "kafka",
    "Spark's Kafka source and sink",
    ("kafka",),
    read_extra={"rowLayout": "kafka"},
    read_remarks=(
        "rowLayout=kafka gives rows the columns key, value, topic, partition, offset, timestamp and timestampType; "
        "partition is the number of a queue within its broker, and key the message's keys",
        "a checkpoint of a Kafka query cannot go on here: start with a new one, by startingTimestamp",
    ),
    write_remarks=(
        "Kafka keeps rows with the same key in one partition, in order; ordering=key does so here, in one queue",
    ),
    reads=(
        renamed("nameServer", "kafka.bootstrap.servers", note=_SERVERS, convert=name_servers_of_ours,
                ignores_value=True),
        *same("subscribe"),
        *same("subscribePattern", note="a regular expression of Python, matched in full"),
        renamed(
            "subscribe", "assign", convert=queues_of_kafka,
            note="all queues of these topics; assign takes topic, broker and queue ids, which routes TOPIC shows",
        ),
        renamed("startingOffsets", "startingOffsets", convert=offsets_of_kafka("startingOffsets")),
        renamed("endingOffsets", "endingOffsets", convert=offsets_of_kafka("endingOffsets")),
        *same("startingTimestamp", "endingTimestamp", note="the time at which a broker stored the message"),
        *(
            renamed(name, name, convert=times_of_kafka(name), note=f"one time for all queues of a topic, the {which}")
            for name, which in (("startingOffsetsByTimestamp", "earliest"), ("endingOffsetsByTimestamp", "latest"))
        ),
        *same("startingOffsetsByTimestampStrategy", "failOnDataLoss", "fetchOffset.numRetries"),
        *same("fetchOffset.retryIntervalMs", "maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay"),
        *same("minPartitions", "maxRecordsPerPartition", "includeHeaders"),
        renamed(
            "pollTimeoutMs", "kafkaConsumer.pollTimeoutMs", convert=cut("pollTimeoutMs", 20_000, 86_400_000),
            note="the time without progress after which a task fails; it must exceed pullTimeoutMs",
        ),
        renamed(
            "consumerGroup", "kafka.group.id",
            note="positions of finished batches are committed to this group, unless commitOffsets=none",
        ),
        dropped("no group is made for a query; consumerGroup names one to commit to", "groupIdPrefix"),
        renamed("pullBatchSize", "kafka.max.poll.records", convert=cut("pullBatchSize", 1, 1024)),
        renamed(
            "mqClientApiTimeout", "kafka.request.timeout.ms", "kafka.default.api.timeout.ms",
            convert=cut("mqClientApiTimeout", 1, 600_000),
        ),
        *_SECURITY,
        dropped(
            "brokers limit a response by settings of their own", "kafka.fetch.max.bytes", "kafka.fetch.min.bytes",
            "kafka.fetch.max.wait.ms", "kafka.max.partition.fetch.bytes",
        ),
        dropped(
            "a query is no member of its group, unless groupMembership=shared", "kafka.session.timeout.ms",
            "kafka.heartbeat.interval.ms", "kafka.max.poll.interval.ms", "kafka.group.instance.id",
            "kafka.partition.assignment.strategy",
        ),
        dropped("a half message is invisible until its transaction is committed", "kafka.isolation.level"),
        dropped("replicas are read when their broker suggests it; readFrom=master forbids it", "kafka.client.rack"),
        dropped("Spark decides where a query starts: startingOffsets", "kafka.auto.offset.reset"),
        dropped("finished batches are committed: commitOffsets", "kafka.enable.auto.commit"),
        dropped("bodies are bytes: cast or parse the column", "kafka.key.deserializer", "kafka.value.deserializer"),
        dropped(_CLIENT, "kafka.*"),
    ),
    writes=(
        renamed("nameServer", "kafka.bootstrap.servers", note=_SERVERS, convert=name_servers_of_ours,
                ignores_value=True),
        *same("topic"),
        dropped("a column headers or properties is written whenever it is there", "includeHeaders"),
        renamed("compressType", "kafka.compression.type", convert=either("compressType", gzip="ZLIB", lz4="LZ4",
                zstd="ZSTD"), note="only bodies from compressMsgBodyOverHowmuch on that are sent alone"),
        renamed("retryTimesWhenSendFailed", "kafka.retries", convert=cut("retryTimesWhenSendFailed", 0, 100)),
        renamed("sendMsgTimeout", "kafka.request.timeout.ms", convert=cut("sendMsgTimeout", 1, 600_000)),
        renamed("sendTimeoutMs", "kafka.delivery.timeout.ms", convert=cut("sendTimeoutMs", 1000, 86_400_000)),
        renamed("maxInFlight", "kafka.max.in.flight.requests.per.connection", convert=cut("maxInFlight", 1, 10_000),
                note="of a task; ordering=key keeps rows of a key in order"),
        renamed("maxMessageSize", "kafka.max.request.size", note="the largest body; brokers have a limit, too"),
        *_SECURITY,
        dropped("a row counts as stored as acceptSendStatus says; brokers decide about replicas", "kafka.acks",
                "kafka.min.insync.replicas"),
        dropped("rows are collected up to sendBatchSize rows, without waiting", "kafka.linger.ms", "kafka.batch.size",
                "kafka.buffer.memory", "kafka.max.block.ms"),
        dropped("a row that is sent again has the msgId of its first copy, by which readers drop it",
                "kafka.enable.idempotence", "kafka.transactional.id", "kafka.transaction.timeout.ms"),
        dropped("the column shardingKey or queueId chooses the queue; see queueSelector", "kafka.partitioner.class"),
        dropped("bodies are bytes or text", "kafka.key.serializer", "kafka.value.serializer"),
        dropped(_CLIENT, "kafka.*"),
    ),
)  # fmt: skip
