"""Cut a byte stream into frames, and make frames.

    length 4 | header type 1 | header length 3 | header | body        (big-endian; length counts what follows it)

`FrameBuffer` cuts mostly without copying: the transport receives straight into the buffer (`space`, `filled`), and
frames are returned as views of it. The buffer consists of chunks; only the beginning of a frame that does not fit into
the rest of a chunk is copied, to the next one. A view keeps its chunk alive, so a frame stays valid for as long as it
is referenced. A chunk of the largest size is reused when it has no views any more, because fresh memory costs more than
copying the bytes out of the kernel. Memory grows with the bytes that arrive; a length field alone allocates nothing.
"""

from __future__ import annotations

import struct
from collections import deque

from ..errors import FrameTooLarge, LocalProtocolError, MalformedFrame, RemoteProtocolError

MAX_FRAME_BYTES = 16 * 1024 * 1024
PREFIX_BYTES = 4
MIN_FRAME_BYTES = 8
MAX_HEADER_BYTES = 2**24 - 1
MAX_LENGTH = 2**31 - 1
_LENGTH = struct.Struct(">I")
_CHUNK_BYTES = 64 * 1024
LARGEST_CHUNK_BYTES = 2 * 1024 * 1024
"""Size up to which chunks double while a stream fills them.

With larger chunks, more is received at once, and fewer frames lie across two chunks. Chunks below this size take more
time for each message; larger ones take no less.
"""
_MOST_SPARE = 12
"""Number of chunks that are kept for reuse.

It is the number of chunks in use at once while responses wait for the listeners of a group member.
"""


def frame_prefix(header_type: int, header_bytes: int, body_bytes: int) -> bytes:
    """Return the bytes of a frame before its header, which has `header_bytes`; the body has `body_bytes`."""
    length = 4 + header_bytes + body_bytes
    if header_bytes > MAX_HEADER_BYTES or length > MAX_LENGTH:
        raise LocalProtocolError(
            f"a header of {header_bytes} and a body of {body_bytes} bytes do not fit a frame",
            advice="send less at once",
        )
    mark = header_type << 24 | header_bytes
    return length.to_bytes(4, "big") + mark.to_bytes(4, "big")


def split_frame(frame: memoryview) -> tuple[int, memoryview, memoryview]:
    """Return the header type, the header and the body of one complete frame.

    Raise `MalformedFrame` for wrong lengths.
    """
    if len(frame) < MIN_FRAME_BYTES:
        raise MalformedFrame(f"a frame of {len(frame)} bytes, the least is {MIN_FRAME_BYTES}")
    mark: int = _LENGTH.unpack_from(frame, PREFIX_BYTES)[0]
    header_end = MIN_FRAME_BYTES + (mark & MAX_HEADER_BYTES)
    if header_end > len(frame):
        raise MalformedFrame(f"header of {header_end - MIN_FRAME_BYTES} bytes in a frame of {len(frame)}")
    return mark >> 24, frame[MIN_FRAME_BYTES:header_end], frame[header_end:]


def read_sized(data: memoryview, at: int, width: int) -> tuple[memoryview, int]:
    """Return the bytes after a length field of `width` bytes at position `at`, and the position of their end.

    Raise `ValueError` if bytes are missing.
    """
    start = at + width
    size = int.from_bytes(data[at:start], "big", signed=True)
    end = start + size
    if size < 0 or end > len(data):
        raise ValueError(f"a field of {size} bytes at {at} in {len(data)}")
    return data[start:end], end


def write_sized(data: bytes, width: int, what: str) -> bytes:
    """Return a length field of `width` bytes, followed by the data.

    Raise `LocalProtocolError` if the data are too long for the field; `what` names the data in its text.
    """
    most = (1 << 8 * width - 1) - 1
    if len(data) > most:
        raise LocalProtocolError(f"{what} of {len(data)} bytes, the limit is {most}", advice="send less")
    return len(data).to_bytes(width, "big") + data


class FrameBuffer:
    """The received bytes that were not returned as frames yet.

    Invariant: `chunk[start:end]` holds these bytes. Bytes before `start` belong to frames that may still be referenced,
    so they are not overwritten.
    """

    def __init__(self, max_frame_bytes: int = MAX_FRAME_BYTES, chunk_bytes: int = _CHUNK_BYTES) -> None:
        self._max_frame_bytes = max_frame_bytes
        self._chunk_bytes = chunk_bytes
        self.chunk = memoryview(bytearray(chunk_bytes))
        self._spare: deque[bytearray] = deque(maxlen=_MOST_SPARE)
        """Former chunks of the largest size, newest first; one is reused when no frame in it is referenced any more."""
        self.start = self.end = 0

    def __len__(self) -> int:
        return self.end - self.start

    def space(self) -> memoryview:
        """Return the memory to receive into; it has room for at least one byte."""
        if self.end == len(self.chunk):
            self._move_on()
        return self.chunk[self.end :]

    def filled(self, count: int) -> None:
        """Record that the first `count` bytes of `space` were received."""
        self.end += count

    def feed(self, data: bytes | memoryview) -> None:
        """Copy received bytes into the buffer, for callers that did not receive them into `space`."""
        rest = memoryview(data)
        while rest:
            room = self.space()
            count = min(len(room), len(rest))
            room[:count] = rest[:count]
            self.filled(count)
            rest = rest[count:]

    def next_frame(self) -> memoryview | None:
        """Return the next frame and remove it from the buffer; return None if it is incomplete.

        Raise `MalformedFrame` or `FrameTooLarge` for an illegal length field.
        """
        start = self.start
        if self.end - start < PREFIX_BYTES:
            return None
        end = start + PREFIX_BYTES + _LENGTH.unpack_from(self.chunk, start)[0]
        if not MIN_FRAME_BYTES <= end - start <= self._max_frame_bytes:
            raise self._size_error(end - start)
        if end > self.end:
            return None
        self.start = end
        return self.chunk[start:end]

    def _size_error(self, size: int) -> RemoteProtocolError:
        if size < MIN_FRAME_BYTES:
            return MalformedFrame(f"a frame of {size} bytes, the least is {MIN_FRAME_BYTES}")
        return FrameTooLarge(
            f"a frame of {size} bytes, the limit is {self._max_frame_bytes}",
            advice="raise maxFrameSize if the server really sends frames this large",
        )

    def _announced_bytes(self) -> int:
        """Return the next frame's size by its length field, which is not checked; 0 until that field has arrived."""
        if self.end - self.start < PREFIX_BYTES:
            return 0
        length: int = _LENGTH.unpack_from(self.chunk, self.start)[0]
        return PREFIX_BYTES + length

    def _move_on(self) -> None:
        """Replace `chunk` by another one, new or reused, that begins with the bytes not yet returned as frames.

        The new chunk has the usual size, which doubles with each call up to `LARGEST_CHUNK_BYTES`. It is larger if
        the copied bytes need more room: twice their number, but not more than the size of the incomplete frame that
        they begin.
        """
        start, end = self.start, self.end
        rest = self.chunk[start:end]
        wanted, announced = 2 * len(rest), self._announced_bytes()
        if announced > len(rest):
            wanted = min(wanted, announced)
        self._chunk_bytes = max(self._chunk_bytes, min(2 * self._chunk_bytes, LARGEST_CHUNK_BYTES))
        chunk = self._chunk_of(max(self._chunk_bytes, wanted))
        chunk[: len(rest)] = rest
        rest.release()
        self._retire()
        self.chunk, self.start, self.end = chunk, 0, end - start

    def _chunk_of(self, size: int) -> memoryview:
        for number, chunk in enumerate(self._spare):
            if len(chunk) == size and not _has_views(chunk):
                del self._spare[number]
                return memoryview(chunk)
        return memoryview(bytearray(size))

    def _retire(self) -> None:
        owner = self.chunk.obj
        self.chunk.release()
        if isinstance(owner, bytearray) and len(owner) == LARGEST_CHUNK_BYTES:
            self._spare.appendleft(owner)


def _has_views(chunk: bytearray) -> bool:
    """Return whether views of the chunk exist, by trying to change its size: Python forbids that while they exist."""
    try:
        last = chunk.pop()
    except BufferError:
        return True
    chunk.append(last)
    return False
