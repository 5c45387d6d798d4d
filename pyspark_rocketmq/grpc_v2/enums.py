"""Define the enums of the gRPC API.

The names are RocketMQ's own, except that a value 0 that means "not set" is always called UNSPECIFIED.
"""

from __future__ import annotations

from enum import IntEnum

__all__ = [
    "AddressScheme",
    "ClientType",
    "Code",
    "DigestType",
    "Encoding",
    "FilterType",
    "Language",
    "LiteSubscriptionAction",
    "MessageType",
    "OffsetPolicy",
    "Permission",
    "QueryOffsetPolicy",
    "TransactionResolution",
    "TransactionSource",
]


class AddressScheme(IntEnum):
    """Whether the addresses of endpoints are IPv4, IPv6 or domain names."""

    UNSPECIFIED = 0
    IPv4 = 1
    IPv6 = 2
    DOMAIN_NAME = 3


class Permission(IntEnum):
    """Whether a queue can be read, written, both, or neither."""

    UNSPECIFIED = 0
    NONE = 1
    READ = 2
    WRITE = 3
    READ_WRITE = 4


class FilterType(IntEnum):
    """Languages of filter expressions in subscriptions."""

    UNSPECIFIED = 0
    TAG = 1
    SQL = 2


class MessageType(IntEnum):
    """Types of messages; a topic states the types that it accepts."""

    UNSPECIFIED = 0
    NORMAL = 1
    FIFO = 2
    DELAY = 3
    TRANSACTION = 4
    LITE = 5
    PRIORITY = 6


class Encoding(IntEnum):
    """Whether a body is compressed; GZIP means any compression format, and the first bytes of the body show which."""

    UNSPECIFIED = 0
    IDENTITY = 1
    GZIP = 2


class DigestType(IntEnum):
    """Algorithms of body checksums."""

    UNSPECIFIED = 0
    CRC32 = 1
    MD5 = 2
    SHA1 = 3


class ClientType(IntEnum):
    """Types of clients."""

    UNSPECIFIED = 0
    PRODUCER = 1
    PUSH_CONSUMER = 2
    SIMPLE_CONSUMER = 3
    PULL_CONSUMER = 4
    LITE_PUSH_CONSUMER = 5
    LITE_SIMPLE_CONSUMER = 6


class Language(IntEnum):
    """Programming languages of clients."""

    UNSPECIFIED = 0
    JAVA = 1
    CPP = 2
    DOT_NET = 3
    GOLANG = 4
    RUST = 5
    PYTHON = 6
    PHP = 7
    NODE_JS = 8
    RUBY = 9
    OBJECTIVE_C = 10
    DART = 11
    KOTLIN = 12


class TransactionResolution(IntEnum):
    """The ways to end a transaction."""

    UNSPECIFIED = 0
    COMMIT = 1
    ROLLBACK = 2


class TransactionSource(IntEnum):
    """Whether a producer ends a transaction on its own, or because the server checked it."""

    UNSPECIFIED = 0
    SOURCE_CLIENT = 1
    SOURCE_SERVER_CHECK = 2


class QueryOffsetPolicy(IntEnum):
    """The offsets of a queue for which a request can ask: the minimum, the maximum, or that of a time.

    The minimum is 0: unlike most enums of the API, this one has no value that means "not set".
    """

    BEGINNING = 0
    END = 1
    TIMESTAMP = 2


class OffsetPolicy(IntEnum):
    """Offset at which a subscription to a lite topic begins."""

    LAST = 0
    MIN = 1
    MAX = 2


class LiteSubscriptionAction(IntEnum):
    """Ways to change the set of lite topics to which a client has subscribed."""

    PARTIAL_ADD = 0
    PARTIAL_REMOVE = 1
    COMPLETE_ADD = 2
    COMPLETE_REMOVE = 3


class Code(IntEnum):
    """Status codes of responses.

    The first digits give the kind of result, as in HTTP (200xx is success, 400xx an error).
    """

    UNSPECIFIED = 0
    OK = 20000
    MULTIPLE_RESULTS = 30000
    BAD_REQUEST = 40000
    ILLEGAL_ACCESS_POINT = 40001
    ILLEGAL_TOPIC = 40002
    ILLEGAL_CONSUMER_GROUP = 40003
    ILLEGAL_MESSAGE_TAG = 40004
    ILLEGAL_MESSAGE_KEY = 40005
    ILLEGAL_MESSAGE_GROUP = 40006
    ILLEGAL_MESSAGE_PROPERTY_KEY = 40007
    INVALID_TRANSACTION_ID = 40008
    ILLEGAL_MESSAGE_ID = 40009
    ILLEGAL_FILTER_EXPRESSION = 40010
    ILLEGAL_INVISIBLE_TIME = 40011
    ILLEGAL_DELIVERY_TIME = 40012
    INVALID_RECEIPT_HANDLE = 40013
    MESSAGE_PROPERTY_CONFLICT_WITH_TYPE = 40014
    UNRECOGNIZED_CLIENT_TYPE = 40015
    MESSAGE_CORRUPTED = 40016
    CLIENT_ID_REQUIRED = 40017
    ILLEGAL_POLLING_TIME = 40018
    ILLEGAL_OFFSET = 40019
    ILLEGAL_LITE_TOPIC = 40020
    INVALID_CLIENT_PROPERTIES = 40021
    UNAUTHORIZED = 40100
    PAYMENT_REQUIRED = 40200
    FORBIDDEN = 40300
    NOT_FOUND = 40400
    MESSAGE_NOT_FOUND = 40401
    TOPIC_NOT_FOUND = 40402
    CONSUMER_GROUP_NOT_FOUND = 40403
    OFFSET_NOT_FOUND = 40404
    REQUEST_TIMEOUT = 40800
    PAYLOAD_TOO_LARGE = 41300
    MESSAGE_BODY_TOO_LARGE = 41301
    MESSAGE_BODY_EMPTY = 41302
    PRECONDITION_FAILED = 42800
    TOO_MANY_REQUESTS = 42900
    LITE_TOPIC_QUOTA_EXCEEDED = 42901
    LITE_SUBSCRIPTION_QUOTA_EXCEEDED = 42902
    REQUEST_HEADER_FIELDS_TOO_LARGE = 43100
    MESSAGE_PROPERTIES_TOO_LARGE = 43101
    INTERNAL_ERROR = 50000
    INTERNAL_SERVER_ERROR = 50001
    HA_NOT_AVAILABLE = 50002
    NOT_IMPLEMENTED = 50100
    PROXY_TIMEOUT = 50400
    MASTER_PERSISTENCE_TIMEOUT = 50401
    SLAVE_PERSISTENCE_TIMEOUT = 50402
    UNSUPPORTED = 50500
    VERSION_UNSUPPORTED = 50501
    VERIFY_FIFO_MESSAGE_UNSUPPORTED = 50502
    FAILED_TO_CONSUME_MESSAGE = 60000
