"""Answer Spark's calls on a reader: plan batches on the driver, read ranges in tasks, commit finished work.

    driver, streaming query    `stream.StreamReader` → `planner.Planner`: offsets, ranges, commits
    driver, batch query        `batch.BatchReader`: offsets and ranges, once
    executor, each task        `partition.read_partition`: pull, decode, yield record batches

Spark makes readers in several processes and sends a pickled one to the executors. So a reader holds settings only, and
opens no connection when it is made. The ranges of a task travel in its `RangePartition`.

`planner` decides where a batch ends. `roles` and `member` decide where it starts and commit finished work: `roles` for
a query that is alone in its group, `member` for a member of it. `reports` has the reports of tasks and planners.
"""
