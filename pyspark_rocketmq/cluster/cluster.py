"""Open a cluster as one object, which sends each request to the right server.

cluster = open_cluster(settings)                     # no connection is opened before the first request
cluster.routes.route("orders").readable              # queues
cluster.offsets.fetch_bounds(queues)                 # offsets of queues, at times; positions of groups
cluster.groups.fetch_members("g", "orders")          # members, locks, heartbeats
cluster.messages.query_by_key("orders", "k1")        # single messages
cluster.admin.create_topic(TopicConfig(topic_name="orders"))
cluster.survey.fetch_brokers()                       # all brokers at once, with the errors of those that fail
"""

from __future__ import annotations

from functools import cache, cached_property
from typing import TYPE_CHECKING

from ..net.pool import SharedPool, pool_for
from ..net.threaded import Handler
from .broker import Brokers
from .groups import Groups
from .links import InlineLinks, Links, SharedLinks
from .nameserver import NameServers
from .queue_offsets import Offsets
from .route_table import RouteTable
from .servers import Servers
from .settings import ClusterSettings
from .writable import WritableQueues

if TYPE_CHECKING:
    from .admin import Admin
    from .messages import Messages
    from .survey import Survey


class Cluster:
    """All name servers and brokers of a cluster, used with one set of settings.

    Parts that planning and reading hardly need are imported at their first use, since each query starts new processes.
    """

    def __init__(self, settings: ClusterSettings, links: Links) -> None:
        self.settings = settings
        self._links = links
        self._servers = servers = Servers(settings, links)
        self.name_servers = NameServers(servers)
        self.routes = RouteTable(self.name_servers.fetch_route, settings.route_max_age_s)
        self.writable = WritableQueues(self.routes)
        self.brokers = Brokers(servers, self.routes)
        self.offsets = Offsets(self.brokers)
        self.groups = Groups(self.brokers)

    @cached_property
    def messages(self) -> Messages:
        """Single messages."""
        from .messages import Messages

        return Messages(self.brokers)

    @cached_property
    def admin(self) -> Admin:
        """Topics, groups and settings."""
        from .admin import Admin

        return Admin(self.brokers, self.name_servers)

    @cached_property
    def survey(self) -> Survey:
        """All brokers at once, with the errors of those that fail."""
        from .survey import Survey

        return Survey(self._servers, self.name_servers)

    def __repr__(self) -> str:
        return f"<Cluster {self.name_servers!r}, {self.routes!r}>"

    def close(self) -> None:
        """Close the connections that only this cluster uses."""
        self._links.close()


def open_cluster(settings: ClusterSettings) -> Cluster:
    """Return a cluster for one thread at a time; it borrows connections from the pool of this process."""
    return Cluster(settings, InlineLinks(pool_for(settings.net)))


@cache
def worker_cluster(settings: ClusterSettings) -> Cluster:
    """Return the one cluster of this process for these settings; its connections and routes are kept between tasks."""
    return open_cluster(settings)


def open_shared_cluster(settings: ClusterSettings, handler: Handler | None = None) -> Cluster:
    """Return a cluster for many threads with its own connections; `handler` answers requests that brokers send."""
    return Cluster(settings, SharedLinks(SharedPool(settings.net, handler)))
