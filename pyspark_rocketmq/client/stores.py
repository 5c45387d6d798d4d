"""Keep a member's positions: in memory, at brokers or in a file, and find where a queue without one begins.

A store keeps the next offset of each queue in memory and persists it from time to time: at the brokers for a group
whose members share the queues (`RemoteStore`), in a file for a group whose members all read everything (`LocalStore`).
Both need what `offsets` may not see, the network and this machine's files, so they stand here.

A *frozen* position takes no further updates: it was corrected while listeners still ran, and what they report late must
not undo that.
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
from ..errors import MalformedFrame, RocketMQError, TransportError
from ..model import RETRY_PREFIX, MessageQueue
from ..net.deadline import Deadline
from ..offsets.strict_json import LAST_OFFSET
from ..wire import fastjson
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
_MOST_DIGITS = len(str(LAST_OFFSET))
_FILE_NAME, _BACKUP_SUFFIX = "offsets.json", ".bak"

_log = logging.getLogger(__name__)

T = TypeVar("T")


class UnreachableBrokers:
    """The brokers that one pass over many queues has found unreachable. For one thread.

    After a broker's first failure the pass leaves out the rest of its queues: otherwise it would wait for seconds for
    each of them, while healthy brokers wait behind it. The next pass begins with a new object.
    """

    def __init__(self) -> None:
        self._names: set[str] = set()

    def __repr__(self) -> str:
        return f"<UnreachableBrokers {', '.join(sorted(self._names)) or 'none'}>"

    def __contains__(self, broker_name: str) -> bool:
        return broker_name in self._names

    def attempt(self, broker_name: str, act: Callable[[], T], failing: str) -> T | None:
        """Return what an action at a broker returns; None if it fails, which is logged, or if it is left out."""
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
    """The next offset of each queue, in memory. For any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entries: dict[MessageQueue, _Entry] = {}

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {len(self._entries)} queues>"

    def get(self, queue: MessageQueue) -> int | None:
        """Return the next offset of a queue; None if it is not known."""
        with self._lock:
            entry = self._entries.get(queue)
            return entry.offset if entry else None

    def update(self, queue: MessageQueue, offset: int, *, only_forward: bool) -> None:
        """Move a queue's offset, unless it is frozen."""
        with self._lock:
            entry = self._entries.get(queue)
            if entry is None:
                self._entries[queue] = _Entry(offset)
            elif not entry.frozen:
                entry.offset = max(entry.offset, offset) if only_forward else offset

    def freeze(self, queue: MessageQueue, offset: int) -> None:
        """Set a queue's offset until it is forgotten; updates are ignored meanwhile."""
        with self._lock:
            self._entries[queue] = _Entry(offset, frozen=True)

    def forget(self, queue: MessageQueue) -> None:
        """Forget a queue's offset."""
        with self._lock:
            self._entries.pop(queue, None)

    def snapshot(self) -> dict[MessageQueue, int]:
        """Return all offsets as they are now."""
        with self._lock:
            return {queue: entry.offset for queue, entry in self._entries.items()}


class OffsetStore(Protocol):
    """Positions that are persisted."""

    progress: Progress

    def read(self, queue: MessageQueue) -> int | None:
        """Read a persisted offset into memory and return it; None if there is none. Raise if that cannot be known."""

    def persist(self, queue: MessageQueue, unreachable: UnreachableBrokers | None = None) -> None:
        """Persist one queue's offset, unless its broker is unreachable in this pass."""

    def persist_all(self, queues: Collection[MessageQueue]) -> None:
        """Persist the positions in these queues, and forget all others."""

    def write(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Move to these offsets and persist them. Raise if a broker does not take them."""


class RemoteStore:
    """Offsets at the brokers, committed without waiting for a response.

    Threads that commit to one broker take turns, and each reads an offset in its turn. So no thread sends an offset
    after another thread has sent a newer one, even if its broker lets it wait for long.
    """

    def __init__(self, offsets: Offsets, group: str) -> None:
        self.progress = Progress()
        self._offsets = offsets
        self._group = group
        self._turns: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        """By broker, so that no thread waits for another broker than its own."""

    def read(self, queue: MessageQueue) -> int | None:
        """Return the group's committed offset; a broker returns 0 instead of none where a queue is young."""
        deadline = Deadline.after(QUERY_TIMEOUT_S)
        stored = self._offsets.fetch_committed(self._group, [queue], zero_if_young=True, deadline=deadline).get(queue)
        if stored is not None:
            self.progress.update(queue, stored, only_forward=False)
        return stored

    def persist(self, queue: MessageQueue, unreachable: UnreachableBrokers | None = None) -> None:
        """Commit one queue's offset, unless its broker is unreachable in this pass; the next pass tries again."""

        def commit() -> None:
            with self._turns[queue.broker_name]:
                if (offset := self.progress.get(queue)) is not None:
                    self._offsets.commit_oneway(self._group, {queue: offset}, Deadline.after(QUERY_TIMEOUT_S))

        failing = f"the offset of {queue} was not committed"
        (unreachable or UnreachableBrokers()).attempt(queue.broker_name, commit, failing)

    def persist_all(self, queues: Collection[MessageQueue]) -> None:
        """Commit these queues' offsets, changed or not, and forget all others."""
        if not queues:
            return
        unreachable, held = UnreachableBrokers(), set(queues)
        for queue in self.progress.snapshot():
            if queue in held:
                self.persist(queue, unreachable)
            else:
                self.progress.forget(queue)

    def write(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Move to these offsets and commit them. Raise if a broker does not take them."""
        for queue, offset in offsets.items():
            self.progress.update(queue, offset, only_forward=False)
        for broker_name in {queue.broker_name for queue in offsets}:
            with self._turns[broker_name]:
                pass  # An older offset that is being sent goes first; all that follow are the new ones.
        self._offsets.commit(self._group, offsets)


# --- broadcasting ----------------------------------------------------------------------------------------------------


def offset_file(directory: Path | str | None, client_id: str, group: str) -> Path:
    """Return the path of the positions' file, the same as the Java client's."""
    return Path(directory or Path.home() / ".rocketmq_offsets") / client_id / group / _FILE_NAME


class LocalStore:
    """Offsets in a file, in the format of the Java client, with the file before it as backup."""

    def __init__(self, path: Path) -> None:
        self.progress = Progress()
        self.is_damaged = False
        """Whether the last look at the files found some, but could read none."""
        self._path = path
        self._lock = threading.Lock()

    def load(self) -> None:
        """Read all persisted offsets into memory; if both files are damaged, warn and read none."""
        for queue, offset in (self._read_files() or {}).items():
            self.progress.update(queue, offset, only_forward=False)

    def read(self, queue: MessageQueue) -> int | None:
        """Return the offset in the file."""
        stored = (self._read_files() or {}).get(queue)
        if stored is not None:
            self.progress.update(queue, stored, only_forward=False)
        return stored

    def persist(self, queue: MessageQueue, unreachable: UnreachableBrokers | None = None) -> None:
        """Write one queue's offset to the file."""
        self._merge({queue})

    def persist_all(self, queues: Collection[MessageQueue]) -> None:
        """Write these queues' offsets to the file, which keeps those of other queues."""
        self._merge({queue for queue in self.progress.snapshot() if queue in queues})

    def write(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Move to these offsets and write them to the file; a failure is a warning."""
        for queue, offset in offsets.items():
            self.progress.update(queue, offset, only_forward=False)
        self._merge(offsets.keys())

    def _merge(self, queues: Set[MessageQueue]) -> None:
        """Write the offsets of this moment: another thread may have written newer ones since the call."""
        with self._lock:
            own = {queue: offset for queue, offset in self.progress.snapshot().items() if queue in queues}
            if not own:
                return
            known = self._read_files() or {}
            merged = {**known, **own}
            if merged != known or not self._path.exists():
                self._write(merged)

    def _write(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Write a new file and rename the old one to the backup, so that a crash leaves one of the two whole."""
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            fresh = self._path.with_name(self._path.name + ".tmp")
            fresh.write_text(_write_offsets(offsets), encoding="utf-8")
            if self._path.exists():
                self._path.replace(self._backup)
            fresh.replace(self._path)
        except OSError as cause:
            _log.warning("positions were not written to %s: %s", self._path, cause)

    @property
    def _backup(self) -> Path:
        return self._path.with_name(self._path.name + _BACKUP_SUFFIX)

    def _read_files(self) -> dict[MessageQueue, int] | None:
        """Return the offsets of the file, or of its backup if the file is missing, empty or damaged."""
        is_damaged, found = False, None
        for path in (self._path, self._backup):
            try:
                found = _parse_offsets(path.read_text(encoding="utf-8"))
                break
            except FileNotFoundError:
                continue
            except (OSError, ValueError, MalformedFrame) as cause:
                is_damaged = True
                _log.warning("%s cannot be read (%s); its backup is tried", path, cause)
        self.is_damaged = is_damaged and found is None
        return found


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
    """Return the text as Java writes it, with its tabs."""
    entries = ",".join(map(_write_entry, _sorted(offsets)))
    return f'{{\n\t"offsetTable":{{{entries}\n\t}}\n}}'


def _write_entry(entry: tuple[MessageQueue, int]) -> str:
    queue, offset = entry
    members = fastjson.write({"brokerName": queue.broker_name, "queueId": queue.queue_id, "topic": queue.topic})
    inner = ",\n\t\t\t".join(members.decode()[1:-1].split(","))
    return f"{{\n\t\t\t{inner}\n\t\t}}:{offset}"


def _sorted(offsets: Mapping[MessageQueue, int]) -> Iterable[tuple[MessageQueue, int]]:
    return sorted(offsets.items(), reverse=True)


# --- where a queue begins --------------------------------------------------------------------------------------------


class FirstOffsets:
    """Finds the offset from which a queue is pulled that was just taken. Raises what the cluster raises.

    A position of the group always wins, 0 too. Without one `consume_from` decides, save for retry topics: what failed
    once is not skipped, so they begin at 0, or with TIMESTAMP at their end. A position outside the queue's bounds is
    left as it is: the first pull corrects it.
    """

    def __init__(
        self, offsets: Offsets, store: OffsetStore, consume_from: ConsumeFrom, consume_timestamp_ms: int
    ) -> None:
        self._offsets = offsets
        self._store = store
        self._consume_from = consume_from
        self._consume_timestamp_ms = consume_timestamp_ms

    def find(self, queue: MessageQueue) -> int:
        """Return the offset of the first pull."""
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
