"""Keep two queries of one host from committing positions of the same queues for one group.

Two such queries would move the group's position back and forth. So a query claims each queue whose position it commits:
it locks one byte of a file. Each cluster and group has a file, each topic at a broker has 65536 bytes in it, and the
queue id chooses one of these. Queries of one group that share no queue do not collide.

Spark starts a process for each query. The locks belong to this process and end with it, even if it is killed. Only
processes of the same user and host with the same directory for temporary files see them. If that directory is a link,
belongs to another user, or is open to others, nothing is claimed, and a warning is logged.
"""

from __future__ import annotations

import fcntl
import logging
import os
import struct
import sys
import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from ..cluster.settings import ClusterSettings
from ..errors import GroupReadTwice
from ..model import MessageQueue
from ..net.deadline import Deadline
from .private_directory import open_private_directory, private_path
from .rhythm import PlannerRhythm

__all__ = ["GroupClaims"]

_QUEUE_BITS = 16
_PLACE_BITS = 62 - _QUEUE_BITS
_LOCK_FORMAT = "hhqqi0q"
"""Linux' `struct flock`: lock type, base from which `start` counts, start, length, process id."""
_log = logging.getLogger(__name__)


class _Stretch(NamedTuple):
    """A range of bytes in a lock file, which stands for queues of one topic and broker with consecutive ids."""

    start: int
    length: int
    first: MessageQueue


class GroupClaims:
    """The claims of this process on queues of a group."""

    def __init__(self, settings: ClusterSettings, group: str, rhythm: PlannerRhythm) -> None:
        self._group = group
        self._rhythm = rhythm
        self.held: set[MessageQueue] = set()
        """The claimed queues."""
        self._directory: int | None
        self._file: int | None
        self._directory, self._file = _open_files(_file_name(settings, group))

    def __repr__(self) -> str:
        return f"<GroupClaims of {self._group} in {len(self.held)} queues>"

    def take(self, queues: Collection[MessageQueue]) -> None:
        """Claim queues. If another process has claimed one, wait for its release; raise `GroupReadTwice` on timeout."""
        if self._file is None:
            return
        deadline = Deadline.after(self._rhythm.claim_timeout_s)
        for stretch in _stretches(queue for queue in queues if queue not in self.held):
            self._wait(self._file, stretch, deadline)
        self.held.update(queues)

    def close(self) -> None:
        """Give up all claims."""
        for descriptor in filter(None, (self._file, self._directory)):
            os.close(descriptor)
        self._file = self._directory = None

    def _wait(self, file: int, stretch: _Stretch, deadline: Deadline) -> None:
        has_warned = False
        while not _lock(file, stretch):
            if deadline.expired:
                raise self._refused(file, stretch)
            if not has_warned:
                text = "%s of this host commits positions of group %s in %s; waiting up to %g s for it to end"
                _log.warning(text, _holder(file, stretch), self._group, stretch.first, self._rhythm.claim_timeout_s)
                has_warned = True
            time.sleep(min(self._rhythm.claim_retry_s, deadline.remaining()))

    def _refused(self, file: int, stretch: _Stretch) -> GroupReadTwice:
        holder = _holder(file, stretch)
        return GroupReadTwice(
            f"{holder} of this host commits positions of the same queues; both would move the group back and forth",
            advice="end that query, give each query a consumerGroup of its own, or set commitOffsets=none for one",
            group=self._group,
            topic=stretch.first.topic,
            broker=stretch.first.broker_name,
            queue_id=stretch.first.queue_id,
        )


# --- which bytes stand for which queues ------------------------------------------------------------------------------


def _file_name(settings: ClusterSettings, group: str) -> str:
    servers = ";".join(sorted(map(str, settings.name_servers)))
    namespace = settings.namespace
    text = "\n".join((servers, namespace.prefix, namespace.header, group))
    return f"group-{sha256(text.encode()).hexdigest()[:32]}.lock"


def _stretches(queues: Iterable[MessageQueue]) -> Iterator[_Stretch]:
    """Yield the byte ranges of these queues, one for each series of consecutive queue ids; each range is one lock."""
    places: defaultdict[tuple[str, str], list[MessageQueue]] = defaultdict(list)
    for queue in queues:
        places[queue.topic, queue.broker_name].append(queue)
    for place, held in places.items():
        held.sort(key=lambda queue: queue.queue_id)
        base = _base(*place)
        first = held[0]
        for queue, following in zip(held, [*held[1:], None], strict=True):
            if following is None or following.queue_id != queue.queue_id + 1:
                yield _Stretch(base + first.queue_id, queue.queue_id + 1 - first.queue_id, first)
                first = following or first


def _base(topic: str, broker_name: str) -> int:
    """Return the number of the byte in the lock file that stands for queue id 0 of a topic at a broker.

    The bytes of ids above 65535 may also stand for queues of another topic.
    """
    digest = sha256(f"{topic}\n{broker_name}".encode()).digest()
    return (int.from_bytes(digest[:8]) >> (64 - _PLACE_BITS)) << _QUEUE_BITS


# --- the file --------------------------------------------------------------------------------------------------------


def _open_files(name: str) -> tuple[int, int] | tuple[None, None]:
    """Return open descriptors of the user's private directory and of the lock file `name` in it; create missing ones.

    If one of them cannot be opened, or the directory is not private, log a warning and return (None, None).
    """
    try:
        directory = open_private_directory()
        try:
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            return directory, os.open(name, flags, 0o600, dir_fd=directory)
        except OSError:
            os.close(directory)
            raise
    except OSError as cause:
        text = "two queries of one group are not kept apart on this host: cannot use %s: %s"
        _log.warning(text, private_path(), cause)
        return None, None


def _lock(file: int, stretch: _Stretch) -> bool:
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, stretch.length, stretch.start)
    except (BlockingIOError, PermissionError):  # POSIX allows either error.
        return False
    return True


def _holder(file: int, stretch: _Stretch) -> str:
    """Return a text that names the process which has locked bytes in the range `stretch` of the open lock file."""
    if sys.platform != "linux":
        return "another process"
    asked = struct.pack(_LOCK_FORMAT, fcntl.F_WRLCK, os.SEEK_SET, stretch.start, stretch.length, 0)
    kind, *_, process = struct.unpack(_LOCK_FORMAT, fcntl.fcntl(file, fcntl.F_GETLK, asked))
    if kind == fcntl.F_UNLCK or process <= 0:
        return "another process"
    return f"process {process}{_driver_of(process)}"


def _driver_of(process: int) -> str:
    """Return a note about the parent of a process, which is Spark's driver; empty if it cannot be read."""
    try:
        status = Path(f"/proc/{process}/status").read_text()
    except OSError:
        return ""
    parents = [line.split()[1] for line in status.splitlines() if line.startswith("PPid:")]
    return f" (started by process {parents[0]})" if parents else ""
