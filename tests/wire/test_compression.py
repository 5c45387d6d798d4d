"""Test `wire.compression`."""

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
    """In each format, any body, even an empty one, is equal after compression and decompression."""
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
    """Bit 0 of sysFlag marks a compressed body, and bits 8 to 10 state its format; without these bits it is zlib."""
    assert compression_of(sys_flag) is compression


@every_format
def test_a_format_marks_its_bodies(compression: Compression) -> None:
    """The bits that a format sets in sysFlag are read as that format."""
    assert compression_of(compression.sys_flag) is compression


@pytest.mark.parametrize("sys_flag", [0x401, 0x701])
def test_an_unknown_format_is_an_error(sys_flag: int) -> None:
    """A sysFlag with an unknown compression format raises `DecodeError`."""
    with pytest.raises(DecodeError, match=f"unknown compression type {sys_flag >> 8} in sysFlag {sys_flag:#x}"):
        compression_of(sys_flag)


@every_format
def test_a_body_of_the_limit_passes(compression: Compression) -> None:
    """A body of exactly the limit is decompressed, and a body of one byte more raises an error."""
    packed = compress(bytes(100_000), compression)

    assert decompress(packed, compression, limit=100_000) == bytes(100_000)
    with pytest.raises(DecodeError, match="unpacks to more than 99999; raise maxFrameSize"):
        decompress(packed, compression, limit=99_999)


@every_format
def test_a_bomb_costs_no_more_than_the_limit(compression: Compression) -> None:
    """Decompressing 16 MiB of zeros raises an error at the limit, and takes little more memory than the limit."""
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
    """A compressed body that is cut raises an error; it is not decompressed to a shorter body."""
    packed = compress(b"Hello RocketMQ" * 20, compression)

    with pytest.raises(DecodeError, match=f"a {compression.name} body of .* bytes cannot be unpacked"):
        decompress(packed[:keep], compression)


@every_format
def test_bytes_behind_the_body_are_an_error(compression: Compression) -> None:
    """Further bytes after the end of the compressed body raise an error."""
    with pytest.raises(DecodeError, match="cannot be unpacked"):
        decompress(compress(b"Hello", compression) + b"and more", compression)


@every_format
def test_another_format_is_an_error(compression: Compression) -> None:
    """A body that is compressed in another format than the stated one raises an error."""
    other = Compression.ZLIB if compression is not Compression.ZLIB else Compression.ZSTD

    with pytest.raises(DecodeError, match=f"a {compression.name} body"):
        decompress(compress(b"Hello RocketMQ", other), compression)


@pytest.mark.parametrize("compression", [Compression.LZ4, Compression.ZSTD])
def test_several_frames_are_one_body(compression: Compression) -> None:
    """Two compressed frames in a row are decompressed to one body, as in Java."""
    assert (
        decompress(compress(b"Hello ", compression) + compress(b"RocketMQ", compression), compression)
        == b"Hello RocketMQ"
    )


def test_a_zstd_window_is_not_reserved_for_the_asking() -> None:
    """A zstd header that asks for a window of more memory than zstd's limit raises an error."""
    header = bytes.fromhex("28b52ffd 00 90 010000")  # a window of 256 MiB, one empty block

    with pytest.raises(DecodeError, match="too much memory"):
        decompress(header, Compression.ZSTD)


def test_zlib_bodies_have_a_header() -> None:
    """Raw deflate and gzip bodies raise an error, because they lack zlib's header."""
    assert zlib.decompress(compress(b"Hello", Compression.ZLIB)) == b"Hello"


def test_arrow_is_loaded_only_when_needed() -> None:
    """Compressing and decompressing with zlib does not import Arrow."""
    code = (
        "import sys; from pyspark_rocketmq.wire.compression import *; "
        "decompress(compress(b'a', Compression.ZLIB), Compression.ZLIB); sys.exit('pyarrow' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
