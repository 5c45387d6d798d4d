"""What can a `foreachBatch` do with rows beyond reading them?

Give those that failed back to their brokers, which deliver them to the group again after a delay that grows with each
failure, and in the end keep them among its dead letters. A query with `readRetryTopic` reads them when they come.

    retry.send_back(failed_rows, options)
    retry.consume(batch, lambda row: retry.SUCCESS if store(row) else retry.RECONSUME_LATER, options)

`frames` is what Spark sees, `listening` what a function's answers mean, `returning` how a task sends rows back.
"""

from __future__ import annotations

from .frames import consume, send_back
from .listening import Result

__all__ = ["RECONSUME_LATER", "SUCCESS", "SUSPEND", "Result", "consume", "send_back"]

SUCCESS, RECONSUME_LATER, SUSPEND = Result.SUCCESS, Result.RECONSUME_LATER, Result.SUSPEND
