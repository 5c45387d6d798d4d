"""Refuse a second client of one kind, group and client id in this process, as Java's `MQClientInstance` does.

Brokers tell clients apart by their ids: two consumers with the same id would consume the same queues under the same
locks, and in broadcasting they would write the same file of positions. Two producers with the same id would look like
one to brokers and administrators. Clients at different clusters or in different namespaces share none of these. So a
client is registered under one key for each of its name servers, made of its kind, name server, namespace, group and
client id; a broadcasting consumer also under the path of its file. Clients of other processes are not seen; members log
a warning about those (`subscription_check`).
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
    """The properties by which a client is registered; no other client of its kind in this process may share them."""

    name_servers: Iterable[Address]
    namespace: Namespace
    group: str
    client_id: str
    position_file: Path | None = None
    """None unless the client is a broadcasting consumer."""
    kind: str = "consumer"
    """The kind of client, for error texts. A producer and a consumer may have one group and client id."""

    def keys(self) -> list[_Key]:
        """Return the keys that no other client may have: one for each name server, and one for a file of positions.

        Each key contains the process id, because a forked child runs none of its parent's clients. All clients
        register their keys in the same sorted order. So if several start at once and share keys, one of them succeeds.
        """
        pid, group, space = os.getpid(), self.namespace.wrap(self.group), self.namespace.header
        own = (self.kind, space, group, self.client_id)
        keys: list[_Key] = [(pid, address, *own) for address in sorted(self.name_servers)]
        return [*keys, (pid, self.position_file.absolute())] if self.position_file else keys


_registered: dict[_Key, object] = {}
"""The running client of each key. Each change is one atomic step of the dict, so threads and forks need no lock."""


def register(client: object, names: Names) -> None:
    """Register a client under each key of `names`; raise `GroupError` if another client of this process has one.

    Even then the client keeps the keys registered until that point; `unregister` must be called to free them.
    """
    for key in names.keys():
        if _registered.setdefault(key, client) is not client:
            own = "an instance_name" if names.position_file is None else "an instance_name or local_offset_dir"
            raise GroupError(
                f"a {names.kind} of this group with the client id {names.client_id} already runs in this process",
                advice=f"give each {names.kind} {own} of its own, or close the other one first",
                group=names.group,
            )


def unregister(client: object, names: Names) -> None:
    """Free the keys of `names` that this client has registered; leave those that another client has registered."""
    for key in names.keys():
        if _registered.get(key) is client:
            del _registered[key]
