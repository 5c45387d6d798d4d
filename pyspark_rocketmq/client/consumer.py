"""Consume messages with a listener, a function that is called with them: a push consumer.

settings = ConsumerSettings(group="billing", subscriptions={"orders": "paid || sent"})
with PushConsumer.concurrent("localhost:9876", settings, listener) as consumer:
    consumer.wait()                         # the listener is called from many threads until the block ends
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Self

from ..cluster.settings import ClusterSettings
from ..errors import OptionError
from ..model import MessageQueue, retry_topic
from ..pull.settings import Subscription
from .checks import check_callable, check_instance, check_topic, to_cluster_settings, to_subscription
from .clock import Clock, SystemClock
from .concurrent import ConcurrentService
from .hooks import ConsumeHook, Hooks
from .member import Member
from .membership import PUSH
from .orderly import OrderlyService
from .pull_service import Sink
from .rebalance import QueueListener
from .redelivery import CONCURRENT_RETRIES, ORDERLY_RETRIES, Redelivery
from .results import ConcurrentListener, OrderlyListener
from .running import Running
from .settings import ConsumerSettings

__all__ = ["Consumer", "PushConsumer"]


class Consumer(Running):
    """The common part of push and pull consumers. It starts and closes with its `with` block."""

    def __init__(self, member: Member) -> None:
        super().__init__()
        self._member = member

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._member!r}>"

    @property
    def client_id(self) -> str:
        """The id under which brokers list this consumer."""
        return self._member.client_id

    @property
    def queues(self) -> tuple[MessageQueue, ...]:
        """The queues that this consumer holds now."""
        held = (assigned for assigned in self._member.table.all() if not assigned.is_lost())
        return tuple(sorted(assigned.queue for assigned in held))

    def subscribe(self, topic: str, wanted: Subscription | str = "*") -> None:
        """Subscribe a running consumer to one more topic, or change its filter of a topic.

        All members of the group must do the same. Raise if a broker refuses the filter; then nothing changes.
        """
        check_topic(topic)
        if topic == retry_topic(self._member.settings.group):
            what, advice = "the group's own retry topic", "leave it out: its messages are consumed without a filter"
            raise OptionError("topic", topic, what, advice=advice)
        self._member.subscribe(topic, to_subscription("wanted", wanted))

    def unsubscribe(self, topic: str) -> None:
        """Stop consuming a topic. Its queues are given up within about two seconds, or after the consumer's pause."""
        check_topic(topic)
        if topic == retry_topic(self._member.settings.group) or not self._member.membership.subscription(topic):
            raise OptionError("topic", topic, "not subscribed to", advice="subscribe to it first")
        self._member.unsubscribe(topic)

    def _close(self) -> None:
        self._member.close()


class PushConsumer(Consumer):
    """A consumer that joins its group and calls the user's listener with the messages that it pulls."""

    @classmethod
    def concurrent(
        cls,
        cluster: ClusterSettings | str,
        settings: ConsumerSettings,
        listener: ConcurrentListener,
        *,
        queue_listener: QueueListener | None = None,
        hooks: Sequence[ConsumeHook] = (),
        clock: Clock | None = None,
    ) -> Self:
        """Return a consumer that calls the listener from many threads at once, with messages in any order.

        `hooks` run before and after each call of the listener.
        """

        def make_service(member: Member) -> Sink:
            return ConcurrentService(
                listener=listener,
                hooks=_make_hooks(settings, hooks),
                settings=settings,
                state=member.state,
                table=member.table,
                progress=member.store.progress,
                redelivery=_make_redelivery(member, settings.most_retries(CONCURRENT_RETRIES)),
                timer=member.timer,
                clock=member.clock,
                statistics=member.statistics,
            )

        return cls(_make_member(cluster, settings, listener, make_service, queue_listener, clock, orderly=False))

    @classmethod
    def orderly(
        cls,
        cluster: ClusterSettings | str,
        settings: ConsumerSettings,
        listener: OrderlyListener,
        *,
        queue_listener: QueueListener | None = None,
        hooks: Sequence[ConsumeHook] = (),
        clock: Clock | None = None,
    ) -> Self:
        """Return a consumer that calls the listener with each queue's messages in the order of their offsets.

        `hooks` run before and after each call of the listener.
        """

        def make_service(member: Member) -> Sink:
            return OrderlyService(
                listener=listener,
                hooks=_make_hooks(settings, hooks),
                settings=settings,
                state=member.state,
                table=member.table,
                progress=member.store.progress,
                redelivery=_make_redelivery(member, settings.most_retries(ORDERLY_RETRIES)),
                locks=member.locks,
                timer=member.timer,
                clock=member.clock,
                statistics=member.statistics,
            )

        return cls(_make_member(cluster, settings, listener, make_service, queue_listener, clock, orderly=True))

    def pause(self) -> None:
        """Stop pulling until `resume` is called; cached messages still reach the listener."""
        self._member.state.pause(True)

    def resume(self) -> None:
        """Continue pulling after `pause`."""
        self._member.state.pause(False)
        self._member.rounds.wake()

    def _start(self) -> None:
        """Join the group. Raise if no name server responds, or if a broker refuses a subscription's filter."""
        self._member.join()


def _make_member(
    cluster: ClusterSettings | str,
    settings: ConsumerSettings,
    listener: object,
    make_service: Callable[[Member], Sink],
    queue_listener: QueueListener | None,
    clock: Clock | None,
    *,
    orderly: bool,
) -> Member:
    check_instance("settings", settings, ConsumerSettings, "ConsumerSettings(group=..., subscriptions=...)")
    check_callable("listener", listener, "of a list of messages, which returns SUCCESS for those that are done")
    return Member(
        to_cluster_settings(cluster),
        settings,
        clock or SystemClock(),
        make_service,
        consume_type=PUSH,
        orderly=orderly,
        thread_count=settings.thread_count,
        queue_listener=queue_listener,
    )


def _make_redelivery(member: Member, most_retries: int) -> Redelivery:
    return Redelivery(member.cluster, member.settings.group, most_retries, member.clock)


def _make_hooks(settings: ConsumerSettings, hooks: Sequence[ConsumeHook]) -> Hooks | None:
    """Return the checked hooks; None if there are none, so that they cost nothing."""
    check_instance("hooks", hooks, Sequence, "a list of hooks")
    for hook in hooks:
        check_instance("hooks", hook, ConsumeHook, "objects of subclasses of ConsumeHook")
    return Hooks(hooks, settings.group, settings.consume_timeout_s) if hooks else None
