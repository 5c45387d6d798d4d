"""What does a pull say, and how is it said without building every request from nothing?

From one pull of a queue to the next only the offsets change. So the fields of a queue's first pull are kept as a
template, until our subscription of the topic is renewed; signing, which covers all fields, comes last every time.
"""

from __future__ import annotations

from ..cluster.cluster import Cluster
from ..cluster.routes import Place
from ..cluster.servers import signed, unsigned_fields
from ..wire.bodies import SubscriptionData
from ..wire.codes import RequestCode
from ..wire.commands import PullMessageRequestHeader
from .assignment import Assigned
from .membership import Membership
from .settings import MemberSettings
from .stores import OffsetStore

__all__ = ["PullRequests"]

SUSPEND_MS = 15_000
NOTHING_CACHED = -1

_COMMIT_FLAG, _WAIT_FLAG, _SUBSCRIPTION_FLAG = 1, 2, 4


class PullRequests:
    """Writes the pulls of one member."""

    def __init__(self, cluster: Cluster, settings: MemberSettings, membership: Membership, store: OffsetStore) -> None:
        self._cluster = cluster.settings
        self._settings = settings
        self._membership = membership
        self._store = store

    def fields(self, assigned: Assigned, place: Place) -> dict[str, str]:
        """The header fields of a queue's next pull; our subscription must be known."""
        committed = self._committed(assigned)
        commits = committed > 0 and place.is_master
        own = self._settings.post_subscription_when_pull
        fields = {
            **self._template(assigned),
            "queueOffset": str(assigned.next_offset),
            "commitOffset": str(committed),
            "sysFlag": str(_COMMIT_FLAG * commits | _WAIT_FLAG | _SUBSCRIPTION_FLAG * own),
        }
        return signed(self._cluster, RequestCode.PULL_MESSAGE, fields)

    def _template(self, assigned: Assigned) -> dict[str, str]:
        subscription = self._membership.subscription(assigned.queue.topic)
        assert subscription is not None, "nothing is pulled of a topic that is not subscribed to"
        if assigned.pull_template is None or assigned.pull_template[0] is not subscription:
            assigned.pull_template = subscription, self._written(assigned, subscription)
        return assigned.pull_template[1]

    def _written(self, assigned: Assigned, subscription: SubscriptionData) -> dict[str, str]:
        queue = assigned.queue
        header = PullMessageRequestHeader(
            consumer_group=self._membership.group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            queue_offset=assigned.next_offset,
            max_msg_nums=self._settings.pull_batch_size,
            sys_flag=_WAIT_FLAG,
            commit_offset=NOTHING_CACHED,
            suspend_timeout_millis=SUSPEND_MS,
            subscription=subscription.sub_string if self._settings.post_subscription_when_pull else None,
            sub_version=subscription.sub_version,
            expression_type=subscription.expression_type,
        )
        return unsigned_fields(self._cluster, header, queue.broker_name)

    def _committed(self, assigned: Assigned) -> int:
        """Where the group stands, told along with the pull."""
        if self._settings.is_broadcasting:
            return 0
        offset = self._store.progress.get(assigned.queue)
        return NOTHING_CACHED if offset is None else offset
