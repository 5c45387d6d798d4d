"""Which Spark call happens in which process, and what crosses between them?

    driver, whole query    `stream.StreamReader` → `planner.Planner`: offsets, ranges, commits
    driver, one batch      `batch.BatchReader`: the same, once
    executor, per task     `partition.read_partition`: pull, decode, yield record batches

Spark builds a reader in several processes and pickles one of them to the executors, so readers hold settings and open
nothing; what a task must know travels in its `RangePartition`.
"""
