"""Which parts does a reader need for the way in which it works?

What few readers need is imported for those alone: Spark starts a process for every query, and waits for it.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from ..cluster.cluster import Cluster
from ..options.reader_options import ReaderOptions
from .view import BrokerView

if TYPE_CHECKING:
    from .beginnings import Beginnings
    from .claims import Claims
    from .local_positions import LocalPositions
    from .queue_locks import LockKeeper
    from .share import Share

__all__ = ["make_view", "open_beginnings", "open_claims", "open_local_positions", "open_locks", "open_share"]


def make_view(cluster: Cluster, options: ReaderOptions, clock: Callable[[], float] = time.monotonic) -> BrokerView:
    """Whoever knows where the reader's group stands: the brokers, or a file."""
    if options.local is None:
        return BrokerView(cluster, options.pull.group, clock)
    from .local_positions import LocalPositions, LocalView

    return LocalView(cluster, LocalPositions(options.local, options.client), clock)


def open_local_positions(options: ReaderOptions) -> LocalPositions | None:
    """The file for what is finished, if that is where it is written; refuses one that cannot be written."""
    if options.local is None or not options.local.publishes:
        return None
    from .local_positions import LocalPositions

    positions = LocalPositions(options.local, options.client)
    positions.require_writable()
    return positions


def open_claims(options: ReaderOptions) -> Claims | None:
    """Claims on this host for a query that publishes its group's positions alone; brokers tell members and locks apart.

    Windows has no such locks: nothing is claimed there.
    """
    group = options.commit.group
    if group is None or options.share or options.locks or sys.platform == "win32":
        return None
    from .claims import Claims

    return Claims(options.cluster, group)


def open_share(options: ReaderOptions) -> Share | None:
    """The query's part in its group, if it is a member."""
    if options.share is None:
        return None
    from .share import Share

    return Share(options, options.share)


def open_beginnings(
    cluster: Cluster, view: BrokerView, options: ReaderOptions, share: Share | None
) -> Beginnings | None:
    """What decides where a member begins."""
    if share is None:
        return None
    from .beginnings import Beginnings

    return Beginnings(cluster, view, options.start.requested, options.pull.group, share.client_id)


def open_locks(options: ReaderOptions, share: Share | None) -> LockKeeper | None:
    """The locks of a query that wants them, over connections of their own and in the name that it has in its group."""
    if options.locks is None:
        return None
    from ..client.membership import make_client_id
    from ..cluster.cluster import open_shared_cluster
    from .queue_locks import LockKeeper

    client_id = share.client_id if share else make_client_id(options.client.instance_name, options.client.unit_name)
    return LockKeeper(open_shared_cluster(options.cluster), options.pull.group, client_id, options.locks)
