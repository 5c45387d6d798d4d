"""Pass on the bits of a message's sysFlag from `codes`, until every import names it."""

from __future__ import annotations

from .codes import SysFlag, TransactionState, transaction_state

__all__ = ["SysFlag", "TransactionState", "transaction_state"]
