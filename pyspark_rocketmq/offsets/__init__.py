"""Resolve requested offsets to positions, write positions as JSON, and report what brokers lost.

`requested` holds what the user asked for; `resolve` makes *positions* of it (an offset per queue) through a typed
protocol, `OffsetSource`; `position` writes positions as versioned JSON; `loss` compares them with what brokers hold.
"""
