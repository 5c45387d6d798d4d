"""Which further numbers do administrators' tools use? No client of ours sends them, so `wire` does not know them."""

from __future__ import annotations

from enum import IntEnum


class AdminCode(IntEnum):
    """What a tool asks for; the names are RocketMQ's."""

    INVOKE_BROKER_TO_GET_CONSUMER_STATUS = 223
    CLEAN_EXPIRED_CONSUMEQUEUE = 306
    CLONE_GROUP_OFFSET = 314
    VIEW_BROKER_STATS_DATA = 315
    CLEAN_UNUSED_TOPIC = 316
    GET_BROKER_CONSUME_STATS = 317
    ADD_WRITE_PERM_OF_BROKER = 327
    GET_ALL_PRODUCER_INFO = 328
    DELETE_EXPIRED_COMMITLOG = 329
    QUERY_SUBSCRIPTION_BY_CONSUMER = 345
    GET_ALL_MESSAGE_REQUEST_MODE = 402
