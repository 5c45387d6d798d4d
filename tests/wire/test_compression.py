"""Tests of `wire.compression`."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_rocketmq.errors import DecodeError
from pyspark_rocketmq.wire.compression import Compression, compress, compression_of, decompress

every_format = pytest.mark.parametrize("compression", list(Compression))


@every_format
@given(st.binary(max_size=2000) | st.binary(max_size=9).map(lambda data: data * 30_000))
def test_decompress_undoes_compress(compression: Compression, body: bytes) -> None:
    """Each format gives every body back, the empty one included."""
    assert decompress(compress(body, compression), compression) == body


@pytest.mark.parametrize(
    ("sys_flag", "compression"),
    [
        (0x0, None),
        (0x300, None),
        (0x1, Compression.ZLIB),
        (0x101, Compression.LZ4),
        (0x201, Compression.ZSTD),
        (0x301, Compression.ZLIB),
        (0xF9, Compression.ZLIB),
    ],
)
def test_sys_flag_names_the_format(sys_flag: int, compression: Compression | None) -> None:
    """Bit 0 marks a packed body and bits 8 to 10 its format; empty bits mean zlib."""
    assert compression_of(sys_flag) is compression


@every_format
def test_a_format_marks_its_bodies(compression: Compression) -> None:
    """The bits that a format writes are read as that format."""
    assert compression_of(compression.sys_flag) is compression


@pytest.mark.parametrize("sys_flag", [0x401, 0x701])
def test_an_unknown_format_is_an_error(sys_flag: int) -> None:
    """A body of an unknown format is refused."""
    with pytest.raises(DecodeError, match=f"unknown compression type {sys_flag >> 8} in sysFlag {sys_flag:#x}"):
        compression_of(sys_flag)


@every_format
def test_a_body_of_the_limit_passes(compression: Compression) -> None:
    """The limit is the largest body allowed."""
    packed = compress(bytes(100_000), compression)

    assert decompress(packed, compression, limit=100_000) == bytes(100_000)
    with pytest.raises(DecodeError, match="unpacks to more than 99999; raise maxFrameSize"):
        decompress(packed, compression, limit=99_999)


@every_format
def test_a_bomb_costs_no_more_than_the_limit(compression: Compression) -> None:
    """Unpacking 16 MiB of zeros stops at the limit."""
    bomb = compress(bytes(16 * 1024 * 1024), compression)
    decompress(compress(b"", compression), compression)  # imports Arrow

    tracemalloc.start()
    try:
        with pytest.raises(DecodeError, match="unpacks to more than"):
            decompress(bomb, compression, limit=1_000_000)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert peak < 4_000_000


@every_format
@pytest.mark.parametrize("keep", [0, 1, 5, -5, -1])
def test_a_cut_body_is_an_error(compression: Compression, keep: int) -> None:
    """A stream that is cut is refused, and not read as a shorter body."""
    packed = compress(b"Hello RocketMQ" * 20, compression)

    with pytest.raises(DecodeError, match=f"a {compression.name} body of .* bytes cannot be unpacked"):
        decompress(packed[:keep], compression)


@every_format
def test_bytes_behind_the_body_are_an_error(compression: Compression) -> None:
    """Bytes behind the end of a stream are refused."""
    with pytest.raises(DecodeError, match="cannot be unpacked"):
        decompress(compress(b"Hello", compression) + b"and more", compression)


@every_format
def test_another_format_is_an_error(compression: Compression) -> None:
    """A body is read only in the format that its flag names."""
    other = Compression.ZLIB if compression is not Compression.ZLIB else Compression.ZSTD

    with pytest.raises(DecodeError, match=f"a {compression.name} body"):
        decompress(compress(b"Hello RocketMQ", other), compression)


@pytest.mark.parametrize("compression", [Compression.LZ4, Compression.ZSTD])
def test_several_frames_are_one_body(compression: Compression) -> None:
    """Several frames in a row are one body, as in Java."""
    assert (
        decompress(compress(b"Hello ", compression) + compress(b"RocketMQ", compression), compression)
        == b"Hello RocketMQ"
    )


def test_a_zstd_window_is_not_reserved_for_the_asking() -> None:
    """A frame header that asks for more memory than zstd grants is refused."""
    header = bytes.fromhex("28b52ffd 00 90 010000")  # a window of 256 MiB, one empty block

    with pytest.raises(DecodeError, match="too much memory"):
        decompress(header, Compression.ZSTD)


def test_zlib_bodies_have_a_header() -> None:
    """Zlib bodies have zlib's header: raw deflate and gzip are refused."""
    assert zlib.decompress(compress(b"Hello", Compression.ZLIB)) == b"Hello"


def test_arrow_is_loaded_only_when_needed() -> None:
    """Reading and writing plain or zlib bodies does not import Arrow."""
    code = (
        "import sys; from pyspark_rocketmq.wire.compression import *; "
        "decompress(compress(b'a', Compression.ZLIB), Compression.ZLIB); sys.exit('pyarrow' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
