"""Read ranges of queues steadily, in bounded memory, through every answer that a broker gives.

One thread reads many ranges. Each range has a `cursor`, which keeps its offsets in order, and a `reader`, which knows
where the queue is and when it may be pulled. `loop` keeps the pulls of all readers in flight and hands out blocks. It
speaks to a `port`; `remoting` is the port for RocketMQ's remoting protocol. `process_queue` is RocketMQ's own buffer
between pulling and consuming, for ranges and for group members.

No message is lost in silence. Three checks see to that:

    counts      Without a filter, a response must hold one message for each offset that it covers. The decoder counts;
                `recheck` reads a short response again at the master, and reports what the master lacks, too.
    probes      With a filter, or with compaction, nothing can be counted. `witness` confirms the responses of each
                broker process by a `probe`, a pull of one message without the filter.
    recounts    A process may be gone before it is probed. `recount` counts the messages of its responses again at
                another process, and compares.

What is missing is reported to the caller's `loss_policy`.
"""
