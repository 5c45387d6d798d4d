"""Measure how far behind a position is, queue by queue: messages, bytes, seconds, time to retention.

`figures` holds the values. Each figure is known, or unknown with a reason; an unknown one never counts as 0.
`standings` fetches positions and ends; `measure` adds what depends on the messages that wait. Brokers that do not
answer make the figures of their queues unknown.
"""
