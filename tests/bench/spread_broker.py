"""Serve a stub whose messages were stored over a day: `python -m tests.bench.spread_broker TOPIC MESSAGES`.

It prints its address, and ends when its standard input ends.
"""

from __future__ import annotations

import sys

from broker_stub import StubBroker

QUEUES = 8
BODY_BYTES = 100
PARTS = 1440
"""The number of moments, a minute apart, at which messages are stored."""
MINUTE_MS = 60_000


def main(topic: str, messages: int) -> None:
    """Store the messages, say where they are, and serve them until the standard input ends."""
    with StubBroker({topic: QUEUES}, frozen_clock=True) as broker:
        for part in range(PARTS):
            broker.fill(topic, messages * (part + 1) // PARTS - messages * part // PARTS, BODY_BYTES)
            broker.clock.advance(MINUTE_MS)
        print(broker.name_server, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
