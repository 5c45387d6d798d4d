"""What do the bits of a message's sysFlag say?

Bits 8 to 10, the format of a packed body, are read in `compression`.
"""

from __future__ import annotations

from enum import IntEnum

__all__ = ["SysFlag", "TransactionState", "transaction_state"]


class SysFlag(IntEnum):
    """Single bits; the names are RocketMQ's."""

    COMPRESSED = 0x1
    MULTI_TAGS = 0x2
    BORN_HOST_V6 = 0x10
    STORE_HOST_V6 = 0x20
    NEED_UNWRAP = 0x40
    INNER_BATCH = 0x80


class TransactionState(IntEnum):
    """Bits 2 and 3: where the message stands in a transaction."""

    NONE = 0x0
    PREPARED = 0x4
    COMMIT = 0x8
    ROLLBACK = 0xC


def transaction_state(sys_flag: int) -> TransactionState:
    """The state in a message's sysFlag."""
    return TransactionState(sys_flag & TransactionState.ROLLBACK)
