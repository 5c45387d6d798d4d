"""Keep the record of a replay of dead letters, from which an interrupted replay goes on.

The file has one JSON object per line, and only grows. A letter is written as intended before it is sent, and as landed
after, each time with the file synced to disk. So a replay that is killed at any moment sends again what was intended
and has not landed, and nothing else twice. A last line without an end was being written when the process died: it is
cut off.

    begin       a run, with the ranges of queues that it reads; the first line says which replay the file is of
    intended    a letter that is about to be sent, and its target
    landed      a letter that a broker has stored, and where
    failed      a letter that was not sent, or that no broker took, and why
    gone        letters that were deleted before they were replayed
    end         the end of a run that has dealt with all letters of its ranges, and its counts
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from ..cluster.regular_file import open_regular_file
from ..errors import OptionError, RocketMQError, shown

__all__ = ["FORMAT", "AuditFile", "Entry", "History", "Identity", "LetterPlace", "Stretch"]

FORMAT = 1
_LINE_START = b'{"event": "'
Entry = dict[str, Any]


class LetterPlace(NamedTuple):
    """The place of a letter in the topic of dead letters."""

    broker: str
    queue_id: int
    offset: int


class Identity(NamedTuple):
    """The marks by which a letter is known, also where the topic was created again and others have its place."""

    place: LetterPlace
    message_id: str
    stored_ms: int


class Stretch(NamedTuple):
    """Offsets of a queue that a run was to read, and has not recorded."""

    start: int
    end: int

    def without(self, start: int, end: int) -> Iterator[Stretch]:
        """Yield what is left if other offsets are taken away."""
        for left in (Stretch(self.start, min(start, self.end)), Stretch(max(self.start, end), self.end)):
            if left.start < left.end:
                yield left


@dataclass(slots=True)
class History:
    """The content of an audit file."""

    header: Mapping[str, Any] = field(default_factory=dict)
    """The first line; empty if there is none."""
    landed: set[Identity] = field(default_factory=set)
    open: dict[LetterPlace, Identity] = field(default_factory=dict)
    """Letters that were intended or failed, and have not landed since."""
    unread: dict[tuple[str, int], list[Stretch]] = field(default_factory=dict)
    """By broker and queue, the rest of a run that did not come to its end."""
    _running: list[tuple[str, int]] = field(default_factory=list)

    @classmethod
    def read(cls, path: Path) -> History:
        """Return the history in a file, an empty one if there is no file; raise `OptionError` if it cannot be read."""
        try:
            file = open_regular_file(path)
        except FileNotFoundError:
            return cls()
        except (OSError, ValueError) as cause:
            raise _unusable(path, str(cause)) from None
        with file:
            return cls().take(file, path)

    def take(self, lines: Iterable[bytes], path: Path) -> History:
        """Take over the lines of a file; raise `OptionError` if one is damaged."""
        for number, line in enumerate(lines, 1):
            if not line.endswith(b"\n"):
                break
            try:
                self._add(json.loads(line))
            except (ValueError, KeyError, TypeError) as cause:
                what = f"line {number} is no line of an audit file ({type(cause).__name__}: {cause})"
                advice = "name the file of this replay; a new file begins again and sends all letters"
                raise OptionError("audit", str(path), shown(what), advice=advice) from None
        return self

    def _add(self, entry: Mapping[str, Any]) -> None:
        event = entry["event"]
        if not self.header and event != "begin":
            raise ValueError("the first line is no beginning")
        if event == "begin":
            self._begin(entry)
        elif event == "end":
            for queue in self._running:
                self.unread.pop(queue, None)
        elif event == "gone":
            self._note_gone(entry["broker"], entry["queueId"], entry["start"], entry["end"])
        else:
            self._note_letter(event, _identity_of(entry))

    def _begin(self, entry: Mapping[str, Any]) -> None:
        if not self.header:
            if entry["format"] != FORMAT:
                raise ValueError(f"format {entry['format']!r}, known is {FORMAT}")
            self.header = entry
        self._running = []
        for each in entry["ranges"]:
            queue = each["broker"], each["queueId"]
            self.unread[queue] = [Stretch(each["start"], each["end"])]
            self._running.append(queue)

    def _note_letter(self, event: str, letter: Identity) -> None:
        if event == "landed":
            self.landed.add(letter)
            self.open.pop(letter.place, None)
        elif event in ("intended", "failed"):
            self.open[letter.place] = letter
        else:
            raise ValueError(f"unknown event {event!r}")
        self._pass(letter.place[:2], 0, letter.place.offset + 1)

    def _note_gone(self, broker: str, queue_id: int, start: int, end: int) -> None:
        if end - start <= len(self.open):
            places = [LetterPlace(broker, queue_id, offset) for offset in range(start, end)]
        else:
            places = [each for each in self.open if each[:2] == (broker, queue_id) and start <= each.offset < end]
        for place in places:
            self.open.pop(place, None)
        self._pass((broker, queue_id), start, end)

    def _pass(self, queue: tuple[str, int], start: int, end: int) -> None:
        """Note that offsets are recorded; a run comes to its letters in their order, but to gaps before."""
        if stretches := self.unread.get(queue):
            self.unread[queue] = [left for each in stretches for left in each.without(start, end)]


def _identity_of(entry: Mapping[str, Any]) -> Identity:
    return Identity(LetterPlace(entry["broker"], entry["queueId"], entry["offset"]), entry["id"], entry["storedMs"])


class AuditFile:
    """An audit file that this process alone writes."""

    def __init__(self, path: Path | str, now: Callable[[], str]) -> None:
        """Open the file, create it if it is missing, and cut off an unfinished last line.

        Raise `OptionError` if another process writes it, or if it is no audit file.
        """
        self.path = Path(path).absolute()
        self._now = now
        self._file = _open_for_writing(self.path)
        try:
            self._lock()
            self.history = History().take(self._whole_lines(), self.path)
        except BaseException:
            os.close(self._file)
            raise

    def __repr__(self) -> str:
        return f"<AuditFile {self.path}, {len(self.history.landed)} landed>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._file)

    def write(self, entries: Iterable[Entry]) -> None:
        """Append lines, and return when they are on the disk; raise `RocketMQError` if they cannot be written.

        They are ASCII: ids are texts of strangers, and a terminal obeys some characters.
        """
        at = self._now()
        lines = [json.dumps({**entry, "at": at}) + "\n" for entry in entries]
        if not lines:
            return
        try:
            self._require_in_place()
            left = memoryview("".join(lines).encode("ascii"))
            while left:
                left = left[os.write(self._file, left) :]
            os.fsync(self._file)
        except OSError as cause:
            what = f"the audit file {self.path} cannot be written ({cause.strerror}), so nothing more is sent"
            advice = "make room; letters whose landing is not recorded are sent again, under the same ids"
            raise RocketMQError(what, advice=advice) from None

    def _require_in_place(self) -> None:
        """Raise `OSError` if the path does not lead to the file any more: the next run would not find it."""
        if not os.path.samestat(os.fstat(self._file), os.stat(self.path)):
            raise FileNotFoundError(errno.ENOENT, "it was moved, and another file has its place")

    def _whole_lines(self) -> Iterator[bytes]:
        """Yield the lines; cut off a last one that has no end, if it began as one of an audit file."""
        end, rest = 0, b""
        with os.fdopen(os.dup(self._file), "rb") as file:
            for line in file:
                if line.endswith(b"\n"):
                    end += len(line)
                    yield line
                else:
                    rest = line
        torn = rest.rstrip(b"\0")  # A disk without power may leave these where a line was being written.
        if not (torn.startswith(_LINE_START) or _LINE_START.startswith(torn)):
            raise _unusable(self.path, "its last line is no line of an audit file")
        os.ftruncate(self._file, end)

    def _lock(self) -> None:
        """Lock the file until it is closed; the lock ends with the process, even if that is killed."""
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            what, advice = "another process replays with this file", "wait for it, or give another file"
            raise OptionError("audit", str(self.path), what, advice=advice) from None
        except OSError as cause:  # Some network file systems have no locks.
            raise _unusable(self.path, f"it cannot be locked ({cause.strerror})") from None


def _open_for_writing(path: Path) -> int:
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
    try:
        new = [each for each in (path, *path.parents) if not each.exists()]
        path.parent.mkdir(parents=True, exist_ok=True)
        file = os.open(path, flags, 0o600)
        for each in new:
            _sync_directory(each.parent)
    except (OSError, ValueError) as cause:
        raise _unusable(path, getattr(cause, "strerror", None) or str(cause)) from None
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise _unusable(path, "it is not a regular file")
    return file


def _unusable(path: Path, why: str) -> OptionError:
    return OptionError("audit", str(path), f"cannot be used: {why}", advice="give the path of a file")


def _sync_directory(path: Path) -> None:
    directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
