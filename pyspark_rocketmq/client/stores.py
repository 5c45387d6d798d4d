"""Keep a member's positions in memory and persist them; find the first offset to read in a queue without a position.

A store keeps the next offset of each queue in memory and persists it from time to time: at the brokers if the group's
members share the queues (`RemoteStore`), in a file if every member reads all queues (`LocalStore`). Stores are not part
of the room `offsets`, because that room may use neither the network nor files.

A *frozen* position ignores updates: it was corrected while listeners were running, and their late results must not
change it back.
"""

from __future__ import annotations

import logging
import threading
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from ..cluster.queue_offsets import Offsets
from ..cluster.regular_file import open_regular_file
from ..errors import MalformedFrame, OptionError, RocketMQError, TransportError
from ..model import RETRY_PREFIX, MessageQueue
from ..net.deadline import Deadline
from ..offsets.strict_json import LAST_OFFSET
from ..wire import fastjson
from .durable_file import replace_file
from .settings import ConsumeFrom

__all__ = [
    "FirstOffsets",
    "LocalStore",
    "OffsetStore",
    "Progress",
    "RemoteStore",
    "UnreachableBrokers",
    "offset_file",
]

QUERY_TIMEOUT_S = 5.0
MOST_FILE_BYTES = 64 * 2**20
"""Size limit of a file of positions; 100,000 queues take about 12 MB."""
_MOST_DIGITS = len(str(LAST_OFFSET))
_FILE_NAME, _BACKUP_SUFFIX = "offsets.json", ".bak"
_NO_PART = frozenset("/\\\0")
"""Characters that a part of a path cannot have on at least one operating system."""

_log = logging.getLogger(__name__)

T = TypeVar("T")


class UnreachableBrokers:
    """The brokers that could not be reached while many queues are handled one after the other. Used by one thread.

    After a broker's first failure its other queues are skipped: otherwise each of them would cost seconds, for which
    queues of healthy brokers would wait. The next pass over all queues begins with a new, empty object.
    """

    def __init__(self) -> None:
        self._names: set[str] = set()

    def __repr__(self) -> str:
        return f"<UnreachableBrokers {', '.join(sorted(self._names)) or 'none'}>"

    def __contains__(self, broker_name: str) -> bool:
        return broker_name in self._names

    def attempt(self, broker_name: str, act: Callable[[], T], failing: str) -> T | None:
        """Call `act`, which sends a request to a broker, and return its result.

        If it raises, log the error after the text `failing`, and return None. If this broker could not be reached
        before, return None without calling `act`.
        """
        if broker_name in self._names:
            return None
        try:
            return act()
        except RocketMQError as error:
            _log.warning("%s: %s", failing, error)
            if isinstance(error, TransportError):
                self._names.add(broker_name)
            return None


@dataclass(slots=True)
class _Entry:
    offset: int
    frozen: bool = False


class Progress:
    """The next offset of each queue, in memory. Any thread may use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entries: dict[MessageQueue, _Entry] = {}

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {len(self._entries)} queues>"

    def get(self, queue: MessageQueue) -> int | None:
        """Return the next offset of a queue; None if it is not in memory."""
        with self._lock:
            entry = self._entries.get(queue)
            return entry.offset if entry else None

    def update(self, queue: MessageQueue, offset: int, *, only_forward: bool) -> None:
        """Set a queue's offset unless `freeze` has frozen it; with `only_forward`, never to a smaller one."""
        with self._lock:
            entry = self._entries.get(queue)
            if entry is None:
                self._entries[queue] = _Entry(offset)
            elif not entry.frozen:
                entry.offset = max(entry.offset, offset) if only_forward else offset

    def freeze(self, queue: MessageQueue, offset: int) -> None:
        """Set a queue's offset, and ignore updates until `forget` is called for the queue."""
        with self._lock:
            self._entries[queue] = _Entry(offset, frozen=True)

    def forget(self, queue: MessageQueue) -> None:
        """Remove a queue's offset from memory, even one that `freeze` has frozen."""
        with self._lock:
            self._entries.pop(queue, None)

    def snapshot(self) -> dict[MessageQueue, int]:
        """Return a copy of all offsets."""
        with self._lock:
            return {queue: entry.offset for queue, entry in self._entries.items()}


class OffsetStore(Protocol):
    """Keeps positions in memory and persists them."""

    progress: Progress

    def read(self, queue: MessageQueue) -> int | None:
        """Read a queue's persisted offset into memory and return it; None if there is none.

        `RemoteStore` raises if the broker does not report it.
        """

    def persist(self, queue: MessageQueue, unreachable: UnreachableBrokers | None = None) -> None:
        """Persist one queue's offset. `RemoteStore` skips a queue whose broker is in `unreachable`."""

    def persist_all(self, queues: Collection[MessageQueue]) -> None:
        """Persist the offsets of these queues. `RemoteStore` also removes those of all other queues from memory."""

    def write(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Set these offsets in memory and persist them. `RemoteStore` raises if a broker refuses them."""


class RemoteStore:
    """Offsets that brokers store for the group; regular commits do not wait for a response.

    Threads that commit to the same broker take turns, and each reads the offset only when its turn has come. So no
    thread sends an offset after another thread has sent a newer one, even if the broker is slow.
    """

    def __init__(self, offsets: Offsets, group: str) -> None:
        self.progress = Progress()
        self._offsets = offsets
        self._group = group
        self._turns: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        """One lock for each broker, so that a slow broker delays only commits to itself."""

    def read(self, queue: MessageQueue) -> int | None:
        """Return the offset that the group has committed in a queue, and keep it in memory; None if there is none.

        If the group has committed none, but the queue's first message is still in the broker's memory, the broker
        reports 0, and 0 is returned. Raise if the broker gives no valid response.
        """
        deadline = Deadline.after(QUERY_TIMEOUT_S)
        stored = self._offsets.fetch_committed(self._group, [queue], zero_if_young=True, deadline=deadline).get(queue)
        if stored is not None:
            self.progress.update(queue, stored, only_forward=False)
        return stored

    def persist(self, queue: MessageQueue, unreachable: UnreachableBrokers | None = None) -> None:
        """Commit one queue's offset, unless its broker is in `unreachable`; a failure is logged."""

        def commit() -> None:
            with self._turns[queue.broker_name]:
                if (offset := self.progress.get(queue)) is not None:
                    self._offsets.commit_oneway(self._group, {queue: offset}, Deadline.after(QUERY_TIMEOUT_S))

        failing = f"the offset of {queue} was not committed"
        (unreachable or UnreachableBrokers()).attempt(queue.broker_name, commit, failing)

    def persist_all(self, queues: Collection[MessageQueue]) -> None:
        """Commit these queues' offsets, changed or not, and remove those of all other queues from memory."""
        if not queues:
            return
        unreachable, held = UnreachableBrokers(), set(queues)
        for queue in self.progress.snapshot():
            if queue in held:
                self.persist(queue, unreachable)
            else:
                self.progress.forget(queue)

    def write(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Set these offsets in memory, commit them and wait for the responses. Raise if a broker refuses them."""
        for queue, offset in offsets.items():
            self.progress.update(queue, offset, only_forward=False)
        for broker_name in {queue.broker_name for queue in offsets}:
            with self._turns[broker_name]:
                pass  # Wait until a commit of an older offset is sent; all later commits read the new offsets.
        self._offsets.commit(self._group, offsets)


# --- broadcasting ----------------------------------------------------------------------------------------------------


def offset_file(directory: Path | str | None, client_id: str, group: str) -> Path:
    """Return the path of the file of positions, which is the same as the Java client's.

    Raise `OptionError` if the client id or the group would lead out of the directory.
    """
    _check_part("client id", client_id, "give an instance name and a unit name without / and \\")
    _check_part("group", group, "give a group without / and \\")
    return Path(directory or Path.home() / ".rocketmq_offsets") / client_id / group / _FILE_NAME


def _check_part(name: str, text: str, advice: str) -> None:
    if text in ("", ".", "..") or not _NO_PART.isdisjoint(text):
        raise OptionError(name, text, "not the name of a directory for positions", advice=advice)


class LocalStore:
    """Offsets in a file in the Java client's format; the previous version of the file is kept as a backup.

    A link to a file is read, but the next write replaces the link. Whatever is no regular file counts as damaged.
    """

    def __init__(self, path: Path) -> None:
        self.progress = Progress()
        self.is_damaged = False
        """Whether the last attempt to read found a file but could read neither it nor the backup."""
        self.path = path
        self._lock = threading.Lock()

    def load(self) -> None:
        """Read all offsets of the file into memory; if the file and its backup are damaged, log that and read none."""
        for queue, offset in (self._read_files() or {}).items():
            self.progress.update(queue, offset, only_forward=False)

    def read(self, queue: MessageQueue) -> int | None:
        """Return a queue's offset in the file and keep it in memory; None if there is none."""
        stored = (self._read_files() or {}).get(queue)
        if stored is not None:
            self.progress.update(queue, stored, only_forward=False)
        return stored

    def persist(self, queue: MessageQueue, unreachable: UnreachableBrokers | None = None) -> None:
        """Write one queue's offset to the file."""
        self._merge({queue})

    def persist_all(self, queues: Collection[MessageQueue]) -> None:
        """Write these queues' offsets to the file; offsets of other queues in the file stay."""
        self._merge({queue for queue in self.progress.snapshot() if queue in queues})

    def write(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Set these offsets in memory and write them to the file; a failure is only logged."""
        for queue, offset in offsets.items():
            self.progress.update(queue, offset, only_forward=False)
        self._merge(offsets.keys())

    def _merge(self, queues: Set[MessageQueue]) -> None:
        """Write the current offsets of these queues to the file.

        Offsets in the file of other queues stay. The offsets are read from memory only under the lock, so that of two
        threads that write, the later one writes the newer offsets.
        """
        with self._lock:
            own = {queue: offset for queue, offset in self.progress.snapshot().items() if queue in queues}
            if not own:
                return
            known = self._read_files() or {}
            merged = {**known, **own}
            if merged != known or not self.path.exists():
                self._write(merged)

    def _write(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Replace the file and keep the old one as backup, so that a crash leaves at least one of them intact."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            replace_file(self.path, _write_offsets(offsets).encode(), self._backup)
        except OSError as cause:
            _log.warning("positions were not written to %s: %s", self.path, cause)

    @property
    def _backup(self) -> Path:
        return self.path.with_name(self.path.name + _BACKUP_SUFFIX)

    def _read_files(self) -> dict[MessageQueue, int] | None:
        """Return the offsets of the file, or of its backup if the file cannot be read; None if neither can."""
        is_damaged, found = False, None
        for path in (self.path, self._backup):
            try:
                found = _parse_offsets(_read_text(path))
                break
            except FileNotFoundError:
                continue
            except (OSError, ValueError, MalformedFrame) as cause:
                is_damaged = True
                _log.warning("%s cannot be read (%s); its backup is tried", path, cause)
        self.is_damaged = is_damaged and found is None
        return found


def _read_text(path: Path) -> str:
    with open_regular_file(path) as file:
        content = file.read(MOST_FILE_BYTES + 1)
    if len(content) > MOST_FILE_BYTES:
        raise ValueError(f"it has more than {MOST_FILE_BYTES} bytes")
    return content.decode()


def _parse_offsets(text: str) -> dict[MessageQueue, int]:
    if not text.strip():
        raise ValueError("it is empty")
    content = fastjson.parse(text)
    table = content.get("offsetTable") if isinstance(content, dict) else None
    if not isinstance(table, dict):
        raise ValueError("no offsetTable")
    return {fastjson.parse_queue(key): _parse_offset(value) for key, value in table.items()}


def _parse_offset(value: object) -> int:
    text = str(value)
    if not (text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS and int(text) <= LAST_OFFSET):
        raise ValueError(f"not an offset: {value!r:.100}")
    return int(text)


def _write_offsets(offsets: Mapping[MessageQueue, int]) -> str:
    """Return the offsets as JSON text with the line breaks and tabs of the Java client."""
    entries = ",".join(map(_write_entry, _sorted(offsets)))
    return f'{{\n\t"offsetTable":{{{entries}\n\t}}\n}}'


def _write_entry(entry: tuple[MessageQueue, int]) -> str:
    queue, offset = entry
    members = ("brokerName", queue.broker_name), ("queueId", queue.queue_id), ("topic", queue.topic)
    inner = ",\n\t\t\t".join(f'"{name}":{fastjson.write(value).decode()}' for name, value in members)
    return f"{{\n\t\t\t{inner}\n\t\t}}:{offset}"


def _sorted(offsets: Mapping[MessageQueue, int]) -> Iterable[tuple[MessageQueue, int]]:
    return sorted(offsets.items(), reverse=True)


# --- where a queue begins --------------------------------------------------------------------------------------------


class FirstOffsets:
    """Finds the offset at which pulling a newly taken queue begins. Raises if a broker does not report it.

    If the group has a position, that is used, also if it is 0. Otherwise `consume_from` decides, except for retry
    topics: they begin at 0 so that no failed message is skipped, or at their end if `consume_from` is TIMESTAMP. A
    position outside the queue's bounds is returned all the same: the first pull corrects it.
    """

    def __init__(
        self, offsets: Offsets, store: OffsetStore, consume_from: ConsumeFrom, consume_timestamp_ms: int
    ) -> None:
        self._offsets = offsets
        self._store = store
        self._consume_from = consume_from
        self._consume_timestamp_ms = consume_timestamp_ms

    def find(self, queue: MessageQueue) -> int:
        """Return the offset at which pulling the queue begins."""
        stored = self._store.read(queue)
        return self._find_configured(queue) if stored is None else stored

    def _find_configured(self, queue: MessageQueue) -> int:
        is_retry, start = queue.topic.startswith(RETRY_PREFIX), self._consume_from
        if start is ConsumeFrom.FIRST_OFFSET or (start is ConsumeFrom.LAST_OFFSET and is_retry):
            return 0
        deadline = Deadline.after(QUERY_TIMEOUT_S)
        if start is ConsumeFrom.LAST_OFFSET or is_retry:
            return self._offsets.fetch_max([queue], deadline)[queue]
        return self._offsets.search({queue: self._consume_timestamp_ms}, deadline=deadline)[queue]
