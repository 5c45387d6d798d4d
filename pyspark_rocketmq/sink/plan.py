"""Hold what the tasks of a batch have in common: options, and the queues that were listed on the driver."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from ..cluster.cluster import open_cluster
from ..model import MessageQueue
from ..options.writer_options import GivenBatch, WriterOptions
from .queues import Registrations, freeze_queues

__all__ = ["WritePlan", "freeze", "make_plan"]


@dataclass(frozen=True, slots=True)
class WritePlan:
    """The settings of a batch's tasks. The driver makes it, and it is pickled for them."""

    options: WriterOptions
    has_keys: bool = False
    """Whether sharding keys of rows select their queues."""
    has_times: bool = False
    """Whether rows have a column `deliverTimeMs`."""
    batch: GivenBatch | None = None
    """The batch that is written; None in a stream, where each task gets it from Spark."""
    queues: tuple[MessageQueue, ...] = ()
    """The writable queues of the topic of all rows; empty if a column names the topics."""
    dead_letter_queues: tuple[MessageQueue, ...] = ()
    """The writable queues of the topic for rows that cannot be sent, if there is one."""


def make_plan(options: WriterOptions, columns: Collection[str], batch: GivenBatch | None = None) -> WritePlan:
    """Return the plan for a DataFrame with these columns, still without queues."""
    has_keys = options.encode.key_is_sharding_key or "shardingKey" in columns
    return WritePlan(options, has_keys and options.encode.places_by_key, "deliverTimeMs" in columns, batch)


def freeze(plan: WritePlan) -> WritePlan:
    """Return the plan with the queues that its topics have now, or will have if their first messages create them.

    Raise if a topic does not exist and is not created, or has no writable queue.
    """
    options, registrations = plan.options, Registrations()
    cluster = open_cluster(options.planning_cluster)

    def queues_of(topic: str | None, *, has_keys: bool = False) -> tuple[MessageQueue, ...]:
        if not topic:
            return ()
        return tuple(freeze_queues(cluster, topic, registrations, has_keys=has_keys, has_times=plan.has_times))

    return replace(
        plan,
        queues=queues_of(options.encode.topic, has_keys=plan.has_keys),
        dead_letter_queues=queues_of(options.dead_letter_topic),
    )
