"""Make whole frames from headers and bodies."""

from __future__ import annotations

from pyspark_rocketmq.wire.frame import frame_prefix


def join_frame(header_type: int, header: bytes, body: bytes | memoryview) -> bytes:
    """Return the frame that consists of this header and body."""
    return b"".join((frame_prefix(header_type, len(header), len(body)), header, body))
