"""Serve Spark's calls on a read: which process runs what, and what crosses between processes.

    driver, whole query    `stream.StreamReader` → `planner.Planner`: offsets, ranges, commits
    driver, one batch      `batch.BatchReader`: the same, once
    executor, per task     `partition.read_partition`: pull, decode, yield record batches

Spark builds a reader in several processes and pickles one of them to the executors, so readers hold settings and open
nothing. A task's own facts travel in its `RangePartition`.

`planner` decides how far a batch goes. `roles` and `member` decide where it starts and commit what is finished, for a
query alone in its group and for a member of it. `reports` holds what tasks and planners report.
"""
