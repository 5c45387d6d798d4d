"""Test `wire.frame`."""

from __future__ import annotations

import tracemalloc
from collections import deque
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_rocketmq.errors import FrameTooLarge, LocalProtocolError, MalformedFrame
from pyspark_rocketmq.wire.frame import FrameBuffer, read_sized, split_frame, write_sized

from .frames import join_frame

parts = st.tuples(st.integers(0, 255), st.binary(max_size=300), st.binary(max_size=300))


def frames_of(buffer: FrameBuffer) -> Iterator[memoryview]:
    """Yield all complete frames in a buffer, and remove them from it."""
    return iter(buffer.next_frame, None)


def length_field(length: int) -> bytes:
    return length.to_bytes(4, "big")


@given(parts)
def test_split_undoes_join(parts: tuple[int, bytes, bytes]) -> None:
    """A frame is split into the header type, header and body from which it was made."""
    frame = memoryview(join_frame(*parts))

    header_type, header, body = split_frame(frame)

    assert (header_type, bytes(header), bytes(body)) == parts


@given(st.lists(parts, max_size=5), st.integers(1, 40), st.integers(1, 1000))
def test_any_chunking_gives_the_same_frames(found: list[tuple[int, bytes, bytes]], piece: int, chunk: int) -> None:
    """All frames come out whole and in order, however the stream is cut and however small the chunks are."""
    sent = [join_frame(*parts) for parts in found]
    stream, buffer = b"".join(sent), FrameBuffer(chunk_bytes=chunk)

    got: list[memoryview] = []
    for at in range(0, len(stream), piece):
        buffer.feed(stream[at : at + piece])
        got += frames_of(buffer)

    assert [bytes(frame) for frame in got] == sent
    assert len(buffer) == 0


def test_frames_held_are_never_written_again() -> None:
    """While a frame is referenced, bytes that arrive later do not overwrite it."""
    buffer = FrameBuffer(chunk_bytes=64)
    frames = [join_frame(0, b"", bytes([n]) * 20) for n in range(50)]

    held: list[memoryview] = []
    for frame in frames:
        buffer.feed(frame)
        held += frames_of(buffer)

    assert [bytes(frame) for frame in held] == frames


@given(st.lists(st.booleans(), min_size=30, max_size=60), st.integers(100_000, 400_000))
def test_frames_held_outlive_those_let_go(keeps: list[bool], size: int) -> None:
    """If only some frames stay referenced, reuse of chunks does not overwrite them."""
    buffer, held = FrameBuffer(), list[tuple[int, memoryview]]()
    for number, keep in enumerate(keeps):
        buffer.feed(join_frame(0, b"", bytes([number]) * size))
        held += [(number, frame) for frame in frames_of(buffer) if keep]

    assert all(frame[8:] == bytes([number]) * size for number, frame in held)


def test_a_stream_taken_in_at_once_needs_few_chunks() -> None:
    """If all frames are released at once, a long stream needs only few chunks, which are reused."""
    buffer, chunks = FrameBuffer(), list[object]()
    for _ in range(200):
        buffer.feed(join_frame(0, b"", bytes(300_000)))
        chunks += [frame.obj for frame in frames_of(buffer)]

    assert len({id(chunk) for chunk in chunks}) < 12


def test_batches_of_frames_held_for_a_while_need_no_fresh_memory_either() -> None:
    """If frames stay referenced for two batches of 8 MiB, a long stream still needs only few chunks."""
    buffer, batches, chunks = FrameBuffer(), deque([list[memoryview]()], maxlen=2), list[object]()
    for _ in range(400):
        buffer.feed(join_frame(0, b"", bytes(300_000)))
        for frame in frames_of(buffer):
            chunks.append(frame.obj)
            batches[-1].append(frame)
        if len(batches[-1]) * 300_000 > 8 * 2**20:
            batches.append([])

    assert len({id(chunk) for chunk in chunks}) < 28


def test_whole_frames_in_waiting_leave_room_for_as_much_again() -> None:
    """If complete frames wait in a buffer, it has room for at least as many bytes again."""
    buffer = FrameBuffer(chunk_bytes=64)
    frame = join_frame(0, b"", bytes(8))

    buffer.feed(frame * 4)

    assert len(buffer.space()) >= 64
    assert [bytes(found) for found in frames_of(buffer)] == [frame] * 4


def test_room_grows_with_the_stream() -> None:
    """A buffer starts with little room, and has more room as the stream goes on."""
    buffer = FrameBuffer(chunk_bytes=1024)
    first = len(buffer.space())
    rooms = set()
    for _ in range(100):
        buffer.feed(length_field(996) + bytes(996))
        assert len(list(frames_of(buffer))) == 1
        rooms.add(len(buffer.space()))

    assert first == 1024 and max(rooms) > 32 * 1024


def test_memory_grows_with_bytes_that_arrived() -> None:
    """If a length field of 16 MB has arrived, no memory is allocated for the bytes that have not arrived."""
    tracemalloc.start()
    try:
        buffer = FrameBuffer()
        buffer.feed(length_field(16_000_000) + bytes(200_000))
        assert list(frames_of(buffer)) == []
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert peak < 1_000_000


@pytest.mark.parametrize("length", [0, 1, 3])
def test_a_frame_without_a_header_length_is_malformed(length: int) -> None:
    """A length field too small for header type and header length raises `MalformedFrame`."""
    buffer = FrameBuffer()
    buffer.feed(length_field(length))

    with pytest.raises(MalformedFrame, match="the least is 8"):
        list(frames_of(buffer))


@pytest.mark.parametrize("length", [997, 2**31, 2**32 - 1])
def test_a_frame_above_the_limit_is_refused_at_its_length(length: int) -> None:
    """A frame above the limit is refused as soon as its length field has arrived; the limit includes that field."""
    buffer = FrameBuffer(max_frame_bytes=1000)
    buffer.feed(length_field(length))

    with pytest.raises(FrameTooLarge, match="maxFrameSize"):
        list(frames_of(buffer))


def test_a_frame_of_the_limit_passes() -> None:
    """A frame of exactly the limit is returned."""
    frame = join_frame(0, b"header", bytes(986))
    buffer = FrameBuffer(max_frame_bytes=1000)
    buffer.feed(frame)

    assert len(frame) == 1000
    assert [bytes(found) for found in frames_of(buffer)] == [frame]


def test_making_room_judges_nothing() -> None:
    """`space` raises no error if the buffer begins with an illegal frame; taking out that frame does."""
    buffer = FrameBuffer(max_frame_bytes=100, chunk_bytes=16)
    buffer.feed(b"\xff" * 40)

    assert len(buffer.space()) > 0
    with pytest.raises(FrameTooLarge):
        list(frames_of(buffer))


def test_a_header_longer_than_its_frame_is_malformed() -> None:
    """A frame that is shorter than its header's length field says raises `MalformedFrame`."""
    frame = length_field(8) + b"\x00" + (5).to_bytes(3, "big") + b"1234"

    with pytest.raises(MalformedFrame, match="header of 5 bytes in a frame of 12"):
        split_frame(memoryview(frame))


def test_a_header_that_its_length_field_cannot_count_is_refused() -> None:
    """A header that is too long for the three-byte length field raises an error when the frame is made."""
    with pytest.raises(LocalProtocolError, match="do not fit a frame"):
        join_frame(0, bytes(2**24), b"")


@given(st.binary(max_size=127), st.sampled_from((1, 2, 3, 4)), st.binary(max_size=5), st.binary(max_size=5))
def test_what_was_written_is_read(data: bytes, width: int, before: bytes, after: bytes) -> None:
    """`read_sized` returns the bytes that `write_sized` wrote, and the position of their end."""
    written = before + write_sized(data, width, "text")

    read, end = read_sized(memoryview(written + after), len(before), width)

    assert (bytes(read), end) == (data, len(written))


@pytest.mark.parametrize("field", ["", "00", "0002 61", "ffff 61", "8000", "7fff 61 62"])
def test_a_length_is_not_believed(field: str) -> None:
    """A length field that is cut, negative, or larger than the data raises an error."""
    with pytest.raises(ValueError, match="a field of"):
        read_sized(memoryview(bytes.fromhex(field)), 0, 2)


def test_a_place_beyond_the_end_holds_no_field() -> None:
    """Reading a field after the end of the data raises an error; it does not return an empty field."""
    with pytest.raises(ValueError, match="at 9 in 3"):
        read_sized(memoryview(b"abc"), 9, 2)


@pytest.mark.parametrize(("width", "most"), [(1, 127), (2, 32767)])
def test_lengths_are_signed_as_in_java(width: int, most: int) -> None:
    """`write_sized` accepts at most as many bytes as a signed integer of the field's width can count."""
    assert len(write_sized(bytes(most), width, "text")) == most + width
    with pytest.raises(LocalProtocolError, match=f"text of {most + 1} bytes, the limit is {most}"):
        write_sized(bytes(most + 1), width, "text")
