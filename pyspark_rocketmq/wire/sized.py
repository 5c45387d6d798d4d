"""How is a field behind its own length read without believing the length, and written so that it fits?"""

from __future__ import annotations

from ..errors import LocalProtocolError

__all__ = ["read_sized", "write_sized"]


def read_sized(data: memoryview, at: int, width: int) -> tuple[memoryview, int]:
    """The bytes behind a length field of `width` bytes at `at`, and where they end; ValueError if not all are there."""
    start = at + width
    size = int.from_bytes(data[at:start], "big", signed=True)
    end = start + size
    if size < 0 or end > len(data):
        raise ValueError(f"a field of {size} bytes at {at} in {len(data)}")
    return data[start:end], end


def write_sized(data: bytes, width: int, what: str) -> bytes:
    """A length field of `width` bytes and the bytes it counts; `what` names them in the refusal."""
    most = (1 << 8 * width - 1) - 1
    if len(data) > most:
        raise LocalProtocolError(f"{what} of {len(data)} bytes, the limit is {most}", advice="send less")
    return len(data).to_bytes(width, "big") + data
