"""Compress message bodies, and decompress bodies that may be malicious.

The producer compresses and the consumer decompresses; brokers store the body as it is. Bit 0 of the record's sysFlag
marks a compressed body, and bits 8 to 10 state the format. Old producers leave these three bits empty and use zlib.

Decompression stops at a limit, so a small body that would become enormous cannot fill the memory.
"""

from __future__ import annotations

import zlib
from enum import IntEnum
from typing import Any

from ..errors import DecodeError
from .codes import SysFlag
from .frame import MAX_FRAME_BYTES

__all__ = ["MAX_UNPACKED_BYTES", "Compression", "compress", "compression_of", "decompress"]

MAX_UNPACKED_BYTES = 4 * MAX_FRAME_BYTES
_PIECE_BYTES = 64 * 1024
_LEVEL = 5
_TYPE_SHIFT = 8
_TYPE_BITS = 0x700


class Compression(IntEnum):
    """Compression formats, with their numbers in sysFlag."""

    LZ4 = 1
    """The LZ4 frame format."""
    ZSTD = 2
    ZLIB = 3

    @property
    def sys_flag(self) -> int:
        """Bits of sysFlag that mark a body as compressed in this format."""
        return SysFlag.COMPRESSED | self << _TYPE_SHIFT


def compression_of(sys_flag: int) -> Compression | None:
    """Return the compression format that a sysFlag states, None if the body is not compressed.

    Raise `DecodeError` for an unknown format.
    """
    if not sys_flag & SysFlag.COMPRESSED:
        return None
    number = (sys_flag & _TYPE_BITS) >> _TYPE_SHIFT
    try:
        return Compression(number) if number else Compression.ZLIB
    except ValueError:
        raise DecodeError(f"unknown compression type {number} in sysFlag {sys_flag:#x}") from None


def compress(body: bytes, compression: Compression) -> bytes:
    """Return the compressed body; the compression level is that of the Java client."""
    if compression is Compression.ZLIB:
        return zlib.compress(body, _LEVEL)
    from pyarrow import Codec

    codec = Codec("lz4") if compression is Compression.LZ4 else Codec("zstd", _LEVEL)
    packed: bytes = codec.compress(body, asbytes=True)
    return packed


def decompress(data: bytes | memoryview, compression: Compression, limit: int = MAX_UNPACKED_BYTES) -> bytes:
    """Return the decompressed body; raise `DecodeError` if it is damaged or has more than `limit` bytes."""
    unpack = _unpack_zlib if compression is Compression.ZLIB else _unpack_stream
    try:
        body = unpack(data, compression, limit + 1)
    except (zlib.error, OSError) as cause:
        raise DecodeError(f"a {compression.name} body of {len(data)} bytes cannot be unpacked: {cause}") from cause
    if len(body) > limit:
        raise DecodeError(
            f"a {compression.name} body of {len(data)} bytes unpacks to more than {limit}",
            advice="raise maxFrameSize if bodies are really this large",
        )
    return body


def _unpack_zlib(data: bytes | memoryview, _: Compression, most: int) -> bytes:
    """Decompress a zlib body; return its first `most` bytes, or all if it has fewer.

    Raise `zlib.error` if the compressed stream ends too early, or if other bytes follow it.
    """
    stream = zlib.decompressobj()
    body = stream.decompress(data, most)
    if len(body) < most and not stream.eof:
        raise zlib.error("the stream is cut")
    if stream.unused_data:
        raise zlib.error(f"{len(stream.unused_data)} bytes follow the end of the stream")
    return body


def _unpack_stream(data: bytes | memoryview, compression: Compression, most: int) -> bytes:
    """Decompress an LZ4 or Zstandard body; stop as soon as there are `most` bytes or more, and return them.

    Several compressed frames in a row count as one body, as in Java. The bytes are read with Arrow's `read_buffer`,
    because its `read` leaks memory with every error.
    """
    from pyarrow import BufferReader, CompressedInputStream

    if not data:
        raise OSError("the stream is cut")
    stream = CompressedInputStream(BufferReader(data), "lz4" if compression is Compression.LZ4 else "zstd")
    pieces, size = list[Any](), 0
    while size < most and (piece := stream.read_buffer(_PIECE_BYTES)):
        pieces.append(piece)
        size += len(piece)
    return b"".join(pieces)
