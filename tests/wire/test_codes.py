"""Test `wire.codes`."""

from __future__ import annotations

import pytest

from pyspark_rocketmq.wire.codes import TransactionState, transaction_state


@pytest.mark.parametrize(
    ("sys_flag", "state"),
    [
        (0x0, TransactionState.NONE),
        (0x4, TransactionState.PREPARED),
        (0x8, TransactionState.COMMIT),
        (0xC, TransactionState.ROLLBACK),
        (0x7F3, TransactionState.NONE),
        (-1, TransactionState.ROLLBACK),
    ],
)
def test_two_bits_hold_the_transaction_state(sys_flag: int, state: TransactionState) -> None:
    """Two bits of sysFlag give the transaction state, whatever the other bits are."""
    assert transaction_state(sys_flag) is state
