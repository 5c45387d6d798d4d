"""Open the segment files of a log, and cut what a killed process left unfinished.

The last record of a log may be torn, and the last file may be shorter than a segment or empty. Such an end is cut, with
a warning that says how much. A record that is damaged although a complete one follows was not torn by the end of a
process: it is an error, because cutting there would lose messages.
"""

from __future__ import annotations

import logging
import os
import re
from pathlib import Path

import numpy as np

from pyspark_rocketmq.errors import RocketMQError
from pyspark_rocketmq.wire.record import MAGIC_V1, MAGIC_V2, Record, decode_record

from .commit_log import PHYSICAL_AT, SEGMENT_BYTES, CommitLog
from .config_files import DamagedData

_log = logging.getLogger(__name__)

_MIN_RECORD_BYTES = 91
"""Size of a record that has no body, no topic and no properties."""
_MAGIC_AT = 4
_MAGICS = re.compile(b"|".join(re.escape(magic.to_bytes(4, "big")) for magic in (MAGIC_V1, MAGIC_V2)))


class SegmentFiles:
    """The segment files of one broker's log."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def open_log(self) -> CommitLog:
        """Return the log that consists of the segment files; raise DamagedData for an unexpected or damaged file."""
        paths = sorted(self._directory.iterdir())
        for index, path in enumerate(paths):
            if path.name != _segment_name(index):
                raise DamagedData(path, f"{_segment_name(index)} was expected in its place")
        if paths:
            _lengthen(paths[-1])
        log = CommitLog(self._map)
        segments = [self._map(index) for index in range(len(paths))]
        for index, segment in enumerate(segments):
            log.add_segment(segment, self._checked_end(segments, index))
        return log

    def decode(self, data: memoryview, physical: int) -> Record:
        """Decode one record; if its bytes are damaged, raise DamagedData with file and byte of address `physical`."""
        try:
            return _decode_whole(data)
        except RocketMQError as cause:
            index, at = divmod(physical, SEGMENT_BYTES)
            raise DamagedData(self._path(index), f"damaged at byte {at}: {cause.what}") from cause

    def _map(self, index: int) -> memoryview:
        path = self._path(index)
        is_new = not path.exists()
        if not is_new and path.stat().st_size != SEGMENT_BYTES:
            raise DamagedData(path, f"{path.stat().st_size} bytes long, which should be {SEGMENT_BYTES}")
        return np.memmap(path, np.uint8, "w+" if is_new else "r+", shape=(SEGMENT_BYTES,)).data

    def _path(self, index: int) -> Path:
        return self._directory / _segment_name(index)

    def _checked_end(self, segments: list[memoryview], index: int) -> int:
        """Return the position behind a segment's last complete record; overwrite torn bytes behind it with zeros.

        Raise DamagedData if a complete record follows the torn bytes.
        """
        path, segment = self._path(index), segments[index]
        end = _end_of_records(segment, index * SEGMENT_BYTES)
        if torn := _written_from(path, end):
            later = ((number * SEGMENT_BYTES, segments[number]) for number in range(index + 1, len(segments)))
            if _holds_record(torn, index * SEGMENT_BYTES + end) or any(_begins_record(*place) for place in later):
                raise DamagedData(path, f"damaged at byte {end}, and complete records follow")
            _log.warning("%s: cut %d bytes at byte %d, an incomplete record", path, len(torn), end)
            segment[end : end + len(torn)] = bytes(len(torn))
        return end


def _segment_name(index: int) -> str:
    return f"{index * SEGMENT_BYTES:020d}"


def _lengthen(path: Path) -> None:
    """Lengthen a segment file with zeros to its full length, if the process ended before the file had it."""
    size = path.stat().st_size
    if size < SEGMENT_BYTES:
        _log.warning("%s: %d of %d bytes long; the rest is taken as empty", path, size, SEGMENT_BYTES)
        os.truncate(path, SEGMENT_BYTES)


def _written_from(path: Path, at: int) -> bytes:
    """Return a sparse file's bytes from `at` to its last nonzero byte; only written parts are searched for it."""
    with path.open("rb", buffering=0) as file:
        number, position, end = file.fileno(), at, at
        while (start := _next_written(number, position)) is not None:
            position = os.lseek(number, start, os.SEEK_HOLE)
            if written := os.pread(number, position - start, start).rstrip(b"\0"):
                end = start + len(written)
        return os.pread(number, end - at, at)


def _next_written(file: int, at: int) -> int | None:
    """Return the first position from `at` on at which a sparse file has data; None if there is none."""
    try:
        return os.lseek(file, at, os.SEEK_DATA)
    except OSError:
        return None


def _end_of_records(segment: memoryview, base: int) -> int:
    """Return the position behind the complete records with which a segment begins; its log address is `base`.

    Size and address field of each record are checked. Only the last record is decoded, and its checksum checked.
    """
    last = at = 0
    while at + _MIN_RECORD_BYTES <= SEGMENT_BYTES and (size := _well_placed_size(segment, at, base)):
        last, at = at, at + size
    return at if at == 0 or _begins_record(base + last, segment[last:at]) else last


def _well_placed_size(segment: memoryview, at: int, base: int) -> int:
    """Return the size of the record at position `at` of a segment that begins at log address `base`.

    Return 0 if there is no record whose size and address field fit this position.
    """
    size = int.from_bytes(segment[at : at + 4], "big")
    physical = int.from_bytes(segment[at + PHYSICAL_AT : at + PHYSICAL_AT + 8], "big")
    return size if physical == base + at and _MIN_RECORD_BYTES <= size <= SEGMENT_BYTES - at else 0


def _holds_record(data: bytes, physical: int) -> bool:
    """Return whether `data`, bytes of the log from address `physical` on, contains a complete record anywhere."""
    starts = (found.start() - _MAGIC_AT for found in _MAGICS.finditer(data, _MAGIC_AT))
    view = memoryview(data)
    return any(_begins_record(physical + start, view[start:]) for start in starts)


def _begins_record(physical: int, data: memoryview) -> bool:
    """Return whether `data` begins with a complete record whose address field says `physical`."""
    try:
        return _decode_whole(data).physical_offset == physical
    except RocketMQError:
        return False


def _decode_whole(data: memoryview) -> Record:
    record = decode_record(data)[0]
    record.check_crc()
    return record
