"""Test that every decoder, given any bytes, returns or raises an error of this library, in bounded memory.

`--hypothesis-profile=long` tries more inputs.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_rocketmq.errors import RocketMQError
from pyspark_rocketmq.wire.batch import decode_batch, encode_batch
from pyspark_rocketmq.wire.compression import Compression, compress, decompress
from pyspark_rocketmq.wire.header import decode_command, encode_command
from pyspark_rocketmq.wire.message_id import decode_offset_message_id, decode_unique_id
from pyspark_rocketmq.wire.properties import decode_properties
from pyspark_rocketmq.wire.record import decode_records, unwrap_inner_batch
from pyspark_rocketmq.wire.scan import record_starts
from pyspark_rocketmq.wire.session import Session

from .frames import join_frame
from .recorded import recorded_batches, recorded_bodies, recorded_commands
from .strategies import batches, bodies, commands, damaged, join_records, property_texts, responses

Reader = Callable[[bytes], object]
Bytes = st.SearchStrategy[bytes]

UNPACKED_BYTES = 100_000
"""Limit of unpacked bodies in these tests."""

FIXED_BYTES = 1_000_000
"""Memory of any reader: buffers of a fixed size, an error with its traceback."""

BYTES_FOR_EACH = 100
"""Memory for each byte that is read: a batch entry of 22 bytes becomes a record with its fields."""


def read_stream(data: bytes) -> None:
    session = Session()
    list(session.receive(data))
    session.end()


def read_frame(data: bytes) -> None:
    decode_command(memoryview(data))


def read_records(data: bytes) -> None:
    for record in decode_records(data):
        for inner in unwrap_inner_batch(record, limit=UNPACKED_BYTES):
            inner.unpacked_body(limit=UNPACKED_BYTES)
            _ = inner.properties


def read_offset_id(data: bytes) -> None:
    decode_offset_message_id(data.hex() if len(data) in (16, 28) else data.decode("latin-1"))


def read_unique_id(data: bytes) -> None:
    decode_unique_id(data.hex(), now_ms=0)


def packed(compression: Compression) -> tuple[Reader, Bytes]:
    """Return a decoder of bodies compressed in this format, and a strategy that generates such bodies."""
    return partial(decompress, compression=compression, limit=UNPACKED_BYTES), bodies.map(
        partial(compress, compression=compression)
    )


frames = st.deferred(lambda: st.sampled_from([command.frame for command in recorded_commands()])) | commands().map(
    encode_command
)
stored = st.deferred(lambda: st.sampled_from(recorded_bodies())) | responses.map(join_records)
batched = st.deferred(lambda: st.sampled_from(recorded_batches())) | batches.map(encode_batch)
ids = st.binary(min_size=16, max_size=16) | st.binary(min_size=28, max_size=28)

READERS: dict[str, tuple[Reader, Bytes]] = {
    "stream": (read_stream, frames),
    "frame": (read_frame, frames),
    "records": (read_records, stored),
    "record_starts": (record_starts, stored),
    "batch": (decode_batch, batched),
    "properties": (decode_properties, property_texts.map(str.encode)),
    "offset id": (read_offset_id, ids),
    "unique id": (read_unique_id, ids),
    **{compression.name: packed(compression) for compression in Compression},
}

json_like = st.text(st.sampled_from('{}[]":,0123456789eE+-.nulltrf\\code opaque extFields flag'), max_size=100)
frames_around_anything = st.builds(
    join_frame, st.integers(0, 2), json_like.map(str.encode) | st.binary(max_size=60), bodies
)

every_reader = pytest.mark.parametrize("read", [read for read, _ in READERS.values()], ids=READERS)
every_reader_and_its_bytes = pytest.mark.parametrize(("read", "healthy"), READERS.values(), ids=READERS)


def ends_well(read: Reader, data: bytes) -> None:
    """Run the decoder; let only errors of this library pass, and check that their texts begin with their codes."""
    try:
        read(data)
    except RocketMQError as error:
        assert str(error).startswith(f"[{error.code}] ")


def peak_bytes(read: Reader, data: bytes) -> int:
    """Run the decoder as `ends_well` does; return the peak of allocated memory in bytes."""
    tracemalloc.start()
    try:
        ends_well(read, data)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@every_reader_and_its_bytes
@given(data=st.data())
def test_damaged_bytes_end_well(read: Reader, healthy: Bytes, data: st.DataObject) -> None:
    """Legal bytes of which a few are changed, cut or repeated raise only this library's errors, in bounded memory."""
    hostile = data.draw(damaged(healthy))

    assert peak_bytes(read, hostile) < FIXED_BYTES + BYTES_FOR_EACH * len(hostile)


@every_reader
@given(data=st.binary(max_size=300) | frames_around_anything)
def test_arbitrary_bytes_end_well(read: Reader, data: bytes) -> None:
    """Random bytes, also inside a frame with right lengths, raise only this library's errors, in bounded memory."""
    assert peak_bytes(read, data) < FIXED_BYTES + BYTES_FOR_EACH * len(data)


@every_reader
@pytest.mark.parametrize("length", [2**24 - 4, 2**31 - 1, 2**32 - 1])
def test_the_largest_lengths_reserve_nothing(read: Reader, length: int) -> None:
    """A length of up to 4 GiB, at any place of a short text, does not make a decoder allocate that much memory."""
    for at in range(64):
        hostile = bytes(at) + length.to_bytes(4, "big") + bytes(60)

        assert peak_bytes(read, hostile) < FIXED_BYTES
