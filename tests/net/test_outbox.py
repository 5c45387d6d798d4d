"""Test that bytes leave the outbox completely and in order, even if only a few are sent at a time."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pyspark_rocketmq.net.connection import Outbox


@given(st.lists(st.tuples(st.binary(max_size=9), st.integers(0, 9))))
def test_bytes_leave_in_order_and_none_is_lost(steps: list[tuple[bytes, int]]) -> None:
    """If frames are put and parts of them sent in any order, all bytes leave in the order of putting."""
    outbox, sent = Outbox(), b""
    for frame, taken in steps:
        outbox.put(frame)
        part = bytes(outbox.head()[:taken])
        outbox.sent(len(part))
        sent += part
    while head := bytes(outbox.head()):
        outbox.sent(len(head))
        sent += head

    assert sent == b"".join(frame for frame, _ in steps)
    assert len(outbox) == 0


def test_frames_gathered_together_go_out_together() -> None:
    """If several frames are put, `head` returns the bytes of all of them at once."""
    outbox = Outbox()
    outbox.put(b"one")
    outbox.put(b"two")

    assert bytes(outbox.head()) == b"onetwo"
    assert len(outbox) == 6


def test_what_was_offered_keeps_its_place() -> None:
    """If frames are put after `head` was called, `head` returns the same bytes again until they are sent."""
    outbox = Outbox()
    outbox.put(b"one")
    offered = bytes(outbox.head())
    outbox.put(b"two")

    assert bytes(outbox.head()) == offered
