"""How is a member of a group run that is handed its messages?

settings = ConsumerSettings(group="g", subscriptions={"orders": Subscription("paid || sent")})
with PushConsumer.concurrent(cluster_settings, settings, listener):
    ...                                     # the listener is called from many threads until the block ends
"""

from __future__ import annotations

from typing import Self

from ..cluster.settings import ClusterSettings
from ..model import MessageQueue
from .clock import Clock, SystemClock
from .concurrent import ConcurrentParts, ConcurrentService
from .engine import Member
from .loop import Workers
from .membership import PUSH
from .orderly import OrderlyParts, OrderlyService
from .rebalance import QueueListener
from .results import ConcurrentListener, OrderlyListener
from .retry import CONCURRENT_RETRIES, ORDERLY_RETRIES, Retries
from .running import Running
from .settings import ConsumerSettings

__all__ = ["PushConsumer"]


class PushConsumer(Running):
    """A member whose listener is called with every message. Starts with its `with` block and ends with it."""

    def __init__(self, member: Member, queue_listener: QueueListener | None = None) -> None:
        self._member = member
        member.queue_listener = queue_listener

    def __repr__(self) -> str:
        return f"<PushConsumer {self._member!r}>"

    @classmethod
    def concurrent(
        cls,
        cluster_settings: ClusterSettings,
        settings: ConsumerSettings,
        listener: ConcurrentListener,
        *,
        queue_listener: QueueListener | None = None,
        clock: Clock | None = None,
    ) -> Self:
        """A consumer whose messages are consumed side by side, in no order."""
        member = _make_member(cluster_settings, settings, clock, orderly=False)
        member.sink = ConcurrentService(
            ConcurrentParts(
                listener=listener,
                state=member.state,
                settings=settings,
                table=member.table,
                store=member.store,
                retries=_make_retries(member, settings.most_retries(CONCURRENT_RETRIES)),
                workers=Workers(f"consume {settings.group}", settings.thread_count),
                timer=member.timer,
                clock=member.clock,
                statistics=member.statistics,
            )
        )
        return cls(member, queue_listener)

    @classmethod
    def orderly(
        cls,
        cluster_settings: ClusterSettings,
        settings: ConsumerSettings,
        listener: OrderlyListener,
        *,
        queue_listener: QueueListener | None = None,
        clock: Clock | None = None,
    ) -> Self:
        """A consumer whose messages are consumed in the order of their offsets, queue by queue."""
        member = _make_member(cluster_settings, settings, clock, orderly=True)
        most_retries = settings.most_retries(ORDERLY_RETRIES)
        member.sink = OrderlyService(
            OrderlyParts(
                listener=listener,
                state=member.state,
                settings=settings,
                most_retries=most_retries,
                table=member.table,
                store=member.store,
                retries=_make_retries(member, most_retries),
                locks=member.locks,
                workers=Workers(f"consume {settings.group}", settings.thread_count),
                timer=member.timer,
                clock=member.clock,
                statistics=member.statistics,
            )
        )
        return cls(member, queue_listener)

    def start(self) -> None:
        """Join the group and begin. Raises if no name server answers, or if a filter is refused."""
        self._member.join()

    def close(self) -> None:
        """End: what listeners have finished is written down, the rest is others' to do."""
        self._member.close()

    @property
    def client_id(self) -> str:
        """The name by which brokers list us."""
        return self._member.client_id

    @property
    def queues(self) -> tuple[MessageQueue, ...]:
        """The queues that are ours now."""
        held = (assigned for assigned in self._member.table.all() if not assigned.process_queue.dropped)
        return tuple(sorted(assigned.queue for assigned in held))

    def pause(self) -> None:
        """Pull nothing more for the time being; what is cached is still consumed."""
        self._member.state.is_paused_by_user = True

    def resume(self) -> None:
        """Go on pulling."""
        self._member.state.is_paused_by_user = False
        self._member.rounds.wake()


def _make_member(
    cluster_settings: ClusterSettings, settings: ConsumerSettings, clock: Clock | None, *, orderly: bool
) -> Member:
    return Member(
        cluster_settings,
        settings,
        clock or SystemClock(),
        consume_type=PUSH,
        orderly=orderly,
        thread_count=settings.thread_count,
    )


def _make_retries(member: Member, most_retries: int) -> Retries:
    return Retries(member.cluster, member.settings.group, most_retries, member.clock)
