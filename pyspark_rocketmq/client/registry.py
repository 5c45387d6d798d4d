"""Refuse a second consumer of one group and client id in this process, as Java's `MQClientInstance` does.

Brokers tell members apart by their client ids: two consumers with the same id would consume the same queues under the
same locks, and in broadcasting they would write the same file of positions. Consumers at different clusters or in
different namespaces share none of these, so a consumer is known by its name server, namespace, group and client id, and
by its file. It has such a name for each of its name servers. Consumers of other processes are not seen here; members
log a warning about those (`subscription_check`).
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from ..cluster.names import Namespace
from ..errors import GroupError
from ..model import Address

__all__ = ["Names", "register", "unregister"]


_Key = tuple[object, ...]


class Names(NamedTuple):
    """All that a consumer must have for itself."""

    name_servers: Iterable[Address]
    namespace: Namespace
    group: str
    client_id: str
    position_file: Path | None = None
    """None unless the consumer is a broadcasting one."""

    def keys(self) -> list[_Key]:
        """Return the keys under which the consumer is registered, those of name servers before that of the file.

        The process is part of them, because a forked child runs none of its parent's consumers. They are sorted, so
        that of several consumers that start at once and have keys in common one gets all of its own.
        """
        pid, group, space = os.getpid(), self.namespace.wrap(self.group), self.namespace.header
        keys: list[_Key] = [(pid, address, space, group, self.client_id) for address in sorted(self.name_servers)]
        return [*keys, (pid, self.position_file.absolute())] if self.position_file else keys


_registered: dict[_Key, object] = {}
"""The running consumer of each key. Each change is one atomic step of the dict, so threads and forks need no lock."""


def register(consumer: object, names: Names) -> None:
    """Register a consumer; raise `GroupError` if another one of this process has one of its keys.

    Keys that were free before that stay registered until `unregister` is called.
    """
    for key in names.keys():
        if _registered.setdefault(key, consumer) is not consumer:
            own = "an instance_name" if names.position_file is None else "an instance_name or local_offset_dir"
            raise GroupError(
                f"a consumer of this group with the client id {names.client_id} already runs in this process",
                advice=f"give each consumer {own} of its own, or close the other one first",
                group=names.group,
            )


def unregister(consumer: object, names: Names) -> None:
    """Free a consumer's keys; do nothing about keys that are another consumer's."""
    for key in names.keys():
        if _registered.get(key) is consumer:
            del _registered[key]
