"""Keep the positions of a broadcasting query in a file.

Each member of a broadcasting group reads all messages, so nothing is committed at brokers. Positions are kept in a file
on this host, with the path and format of RocketMQ's own broadcasting consumers. A query with a checkpoint only writes
the file: positions in it go back only after a loss, and it is written again if it is lost. A new query with
`startingOffsets=group` reads it.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Collection, Mapping
from typing import Any

from ..client.membership import make_client_id
from ..client.stores import LocalStore, offset_file
from ..cluster.cluster import Cluster
from ..errors import OptionError, RocketMQError
from ..model import MessageQueue
from ..offsets.position import Positions
from ..options.reader_options import ClientName, LocalSettings
from .announcing import log_together
from .rhythm import PlannerRhythm
from .view import BrokerView

__all__ = ["LocalPositions", "LocalView"]

_LASTING_NAME = "DEFAULT"
"""The instance name if the options give none. The path contains it, so it must be the same in every run."""
_REWOUND = "is moved back to it, after the loss that was reported"
_log = logging.getLogger(__name__)


class LocalPositions:
    """A local file that holds a consumer group's positions, as with RocketMQ's own broadcasting consumers."""

    def __init__(self, settings: LocalSettings, client: ClientName) -> None:
        client_id = make_client_id(client.instance_name or _LASTING_NAME, client.unit_name)
        self.path = offset_file(settings.directory, client_id, settings.group)
        self.group = settings.group
        self._settings = settings
        self._store = LocalStore(self.path)
        self._is_loaded = False
        self._warned: set[MessageQueue] = set()

    def __repr__(self) -> str:
        return f"<LocalPositions {self.path}>"

    def require_writable(self) -> None:
        """Raise `OptionError` if the directory of the positions file cannot be created or written to."""
        directory = self.path.parent
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except (OSError, ValueError) as cause:  # ValueError: the text is not a valid path.
            raise self._refuse(str(cause)) from cause
        if not os.access(directory, os.W_OK):
            raise self._refuse(f"{directory} is not writable")

    def require_readable(self) -> None:
        """Raise `OptionError` if the file exists but cannot be read, because then its positions are unknown."""
        self._load()
        if self._store.is_damaged:
            advice = "repair the file, or remove it and its backup to begin as startingOffsetsDefault says"
            what = f"neither {self.path} nor its backup can be read"
            raise OptionError("localOffsetStoreDir", str(self._settings.directory), what, advice=advice)

    def fetch(self, queues: Collection[MessageQueue]) -> dict[MessageQueue, int]:
        """Return the group's position in each of these queues that the file has."""
        self._load()
        known = self._store.progress.snapshot()
        return {queue: known[queue] for queue in queues if queue in known}

    def commit(self, positions: Positions, rewound: Collection[MessageQueue] = ()) -> list[RocketMQError]:
        """Write positions to the file, but no smaller one than it has, except for `rewound` queues.

        A loss moved the query back in these. The file keeps the positions of other queues. Always return an empty list,
        because there are no failures to report: what cannot be written now is written in the next call.
        """
        self._warn_of_larger(positions, rewound)
        for queue, offset in positions.items():
            self._store.progress.update(queue, offset, only_forward=queue not in rewound)
        self._store.persist_all(list(positions))
        return []

    def _warn_of_larger(self, positions: Positions, rewound: Collection[MessageQueue]) -> None:
        """Warn of queues whose position in the file is larger than in `positions`.

        For `rewound` queues, which a loss moves back, always warn; for others only once.
        """
        told: dict[str, list[tuple[Any, ...]]] = {_REWOUND: [], "stays": []}
        for queue, held in self.fetch(positions).items():
            if held > positions[queue] and (queue in rewound or queue not in self._warned):
                what = _REWOUND if queue in rewound else "stays"
                self._warned.add(queue)
                told[what].append((queue, held, self.path, positions[queue], what))
        text = "%s: the position %d in %s is ahead of this query's %d and %s"
        for queues in told.values():
            log_together(_log, logging.WARNING, text, queues)

    def _load(self) -> None:
        if not self._is_loaded:
            self._store.load()
            self._is_loaded = True

    def _refuse(self, what: str) -> OptionError:
        advice = "name a directory that the driver may write to, or set commitOffsets=none"
        return OptionError("localOffsetStoreDir", str(self._settings.directory), what, advice=advice)


class LocalView(BrokerView):
    """Fetches bounds from brokers as `BrokerView` does, but the group's positions from a local file."""

    def __init__(self, cluster: Cluster, positions: LocalPositions, rhythm: PlannerRhythm) -> None:
        super().__init__(cluster, positions.group, rhythm)
        self._positions = positions

    def fetch_committed(self, queues: Collection[MessageQueue]) -> Mapping[MessageQueue, int]:
        """Return the group's position in each of these queues that the file has; raise if the file cannot be read."""
        self._positions.require_readable()
        return self._positions.fetch(queues)
