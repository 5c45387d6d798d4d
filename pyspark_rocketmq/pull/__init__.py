"""How do we read ranges steadily, bounded in memory, through every broker answer?

One thread reads many ranges. Per range a `cursor` knows what is asked for, missing and in order; a `reader` adds
where the queue is and when it may be asked again; the `window` keeps pulls of all readers in flight over one
connection per broker; `loop` drives it and hands out blocks. `process_queue` is RocketMQ's own buffer between pulling
and consuming, the same for a range and for a group member.
"""
