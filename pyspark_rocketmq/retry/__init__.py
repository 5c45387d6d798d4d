"""Send rows back to their brokers from a `foreachBatch`.

Brokers deliver rows that were sent back to the group again, after a delay that grows with each failure, and in the end
keep them among its dead letters. A query with `readRetryTopic` reads them.

    retry.send_back(failed_rows, options)
    retry.consume(batch, lambda row: retry.SUCCESS if store(row) else retry.RECONSUME_LATER, options)

`frames` has the functions on data frames, `listening` interprets the results of a user's function, and `returning`
sends the rows of one task back.
"""

from __future__ import annotations

from .dataframes import consume, send_back
from .row_results import Result

__all__ = ["RECONSUME_LATER", "SUCCESS", "SUSPEND", "Result", "consume", "send_back"]

SUCCESS, RECONSUME_LATER, SUSPEND = Result.SUCCESS, Result.RECONSUME_LATER, Result.SUSPEND
