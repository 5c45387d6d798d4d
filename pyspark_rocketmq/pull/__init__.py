"""Read ranges of queues in bounded memory, whatever a broker answers.

One thread reads many ranges. Each range has a `cursor`, which keeps its offsets in order, and a `reader`, which knows
which broker process serves the queue, and when the queue may be pulled. `loop` keeps the pulls of all readers in flight
and yields blocks of records. It sends pulls through a `port`; `remoting` is the port for RocketMQ's remoting protocol.
`process_queue` is RocketMQ's own buffer between pulling and consuming, for ranges and for group members.

No message is lost without a report. Three checks ensure this:

    counts      Without a filter, a response must hold one message for each offset that it covers. The decoder counts;
                `recheck` reads a short response again at the master, and reports the messages that it lacks as well.
    probes      With a filter, or with compaction, nothing can be counted. `witness` confirms the responses of each
                broker process by a `probe`, a pull of one message without the filter.
    recounts    A broker process may be gone before it is probed. `recount` counts the messages of the same offsets at
                another process, and compares.

Missing messages are reported to the caller's `loss_policy`, which decides whether they are an error.
"""
