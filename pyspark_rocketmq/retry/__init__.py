"""Send rows back to their brokers from a `foreachBatch`.

When a row has been sent back, its broker delivers it to the group again, after a delay that grows with each failure.
After too many failures the row becomes a dead letter. A query with `readRetryTopic` reads the rows that come again.

    retry.send_back(failed_rows, options)
    retry.consume(batch, lambda row: retry.SUCCESS if store(row) else retry.RECONSUME_LATER, options)
    retry.dead_letter(broken_rows, {**options, "deadLetterTopic": "broken"}, cause="no order id")
    retry.replay("broken", options, audit="broken.jsonl")

`dataframes` and `dead_letters` have the functions on data frames, `row_results` runs a user's function on a row, and
`returning` sends the rows of one task back. `replaying` sends dead letters to the topics that they came from.
"""

from __future__ import annotations

from .dataframes import consume, send_back
from .dead_letters import dead_letter
from .replaying import replay
from .row_results import Result

__all__ = ["RECONSUME_LATER", "SUCCESS", "SUSPEND", "Result", "consume", "dead_letter", "replay", "send_back"]

SUCCESS, RECONSUME_LATER, SUSPEND = Result.SUCCESS, Result.RECONSUME_LATER, Result.SUSPEND
