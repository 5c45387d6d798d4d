"""Refuse a second consumer of one group and client id in this process, as Java's `MQClientInstance` does.

Brokers tell members apart by their client ids: two consumers with the same id would consume the same queues under the
same locks, and in broadcasting they would write the same file of positions. Consumers of other processes are not seen
here; members log a warning about those (`subscription_check`).
"""

from __future__ import annotations

import os
from typing import NamedTuple

from ..errors import GroupError

__all__ = ["register", "unregister"]


class _Name(NamedTuple):
    """The key of a registered consumer.

    The process id is part of it, because a forked child runs none of its parent's consumers.
    """

    pid: int
    group: str
    client_id: str


_registered: dict[_Name, object] = {}
"""The running consumer of each name. Each change is one atomic step of the dict, so threads and forks need no lock."""


def register(consumer: object, group: str, client_id: str) -> None:
    """Register a consumer; raise `GroupError` if this process runs another one of the same group and client id."""
    if _registered.setdefault(_Name(os.getpid(), group, client_id), consumer) is not consumer:
        raise GroupError(
            f"a consumer of this group with the client id {client_id} already runs in this process",
            advice="give each consumer an instance_name of its own, or close the other one first",
            group=group,
        )


def unregister(consumer: object, group: str, client_id: str) -> None:
    """Remove a consumer from the register; do nothing if another one is registered for this group and client id."""
    name = _Name(os.getpid(), group, client_id)
    if _registered.get(name) is consumer:
        del _registered[name]
