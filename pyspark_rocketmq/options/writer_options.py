"""Hold all settings of a writer.

The settings are frozen and can be pickled, and consist of the settings of the rooms below. They are sent from the
driver to the executors.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum
from typing import NamedTuple

from ..cluster.settings import ClusterSettings
from ..encode.settings import EncodeSettings
from ..send.settings import SendSettings

__all__ = ["BadRows", "GivenBatch", "QueueChoice", "WriterOptions"]


class BadRows(Enum):
    """The ways for rows that cannot be sent."""

    FAIL = "fail"
    DEAD_LETTER = "deadLetter"
    DROP = "drop"


class QueueChoice(Enum):
    """The ways to choose the queue of a row."""

    AUTO = "auto"
    HASH = "hash"
    ROUND_ROBIN = "roundRobin"


class GivenBatch(NamedTuple):
    """The query and the number of a batch that a `foreachBatch` function writes."""

    query_id: str
    batch_id: int


@dataclass(frozen=True, slots=True)
class WriterOptions:
    """All settings of a writer."""

    cluster: ClusterSettings
    send: SendSettings
    encode: EncodeSettings = field(default_factory=EncodeSettings)
    queue_selector: QueueChoice = QueueChoice.AUTO
    on_bad_row: BadRows = BadRows.FAIL
    dead_letter_topic: str | None = None
    sink_name: str = ""
    batch: GivenBatch | None = None
    """Set by `writing.send`; None if Spark says which batch is written."""

    @property
    def planning_cluster(self) -> ClusterSettings:
        """Settings with which routes are fetched before a batch: servers are waited for as long as a row may take."""
        return replace(self.cluster, wait_for_brokers_s=self.send.deadline_s)
