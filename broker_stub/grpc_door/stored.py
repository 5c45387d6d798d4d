"""How is a broker's record shown to gRPC clients?"""

from __future__ import annotations

from pyspark_rocketmq.grpc_v2.translation import StoredMessage
from pyspark_rocketmq.wire.record import Record
from pyspark_rocketmq.wire.sys_flag import SysFlag


def stored_message(record: Record) -> StoredMessage:
    """A record, as far as gRPC clients see of it."""
    return StoredMessage(
        topic=record.topic,
        queue_id=record.queue_id,
        queue_offset=record.queue_offset,
        body=record.body,
        is_packed=bool(record.sys_flag & SysFlag.COMPRESSED),
        properties=record.properties,
        born_timestamp=record.born_timestamp,
        born_host=record.born_host.host,
        store_timestamp=record.store_timestamp,
        store_host=str(record.store_host),
        reconsume_times=record.reconsume_times,
        message_id=record.offset_message_id,
    )
