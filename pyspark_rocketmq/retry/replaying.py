"""Send dead letters back to the topics that they came from, from a Python program."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from ..client.letters import LetterFilter, find_letter_topic
from ..cluster.cluster import open_cluster
from ..options import parse_helper_options

if TYPE_CHECKING:
    from ..client.replay import ReplayReport

__all__ = ["replay"]

_log = logging.getLogger(__name__)


def replay(
    letters: str,
    options: Mapping[str, str],
    *,
    audit: str | PathLike[str],
    to: str | None = None,
    rate: float | None = None,
    queue: str | None = None,
    cause: str | None = None,
    since_ms: int = 0,
    until_ms: int | None = None,
    apply: bool = True,
) -> ReplayReport:
    """Send dead letters back to the topics that they came from, from this process, and return the report.

    Letters keep their ids and stay in their topic. A call with the same audit file goes on where the last one ended:
    it leaves out letters that have landed. Letters that could not be sent, or that are gone, are in the report and in
    the file, and raise nothing; a broker that cannot be reached raises, and the next call goes on.

    Args:
        letters: A group, or a topic to which Spark's tasks write dead letters.
        options: The options of the reader; they name the cluster.
        audit: The file that records what was sent.
        to: The topic that gets all letters, instead of the topic that each came from.
        rate: The most letters in a second.
        queue: Only letters of this queue, `BROKER/ID`.
        cause: Only letters whose cause has this text in it; letters of RocketMQ have no cause.
        since_ms: Only letters that were stored at this time or later, in milliseconds since 1970.
        until_ms: Only letters that were stored before this time.
        apply: Whether to send; else the report tells what would be done, and nothing is written.
    """
    from ..client.replay import ReplaySettings, replay_letters  # needs file locks, which Windows has in another way

    cluster = open_cluster(parse_helper_options(options).cluster)
    wanted = LetterFilter(queue=queue, cause=cause, since_ms=since_ms, until_ms=until_ms)
    settings = ReplaySettings(topic=find_letter_topic(cluster, letters), to=to, wanted=wanted, rate=rate)
    return replay_letters(cluster, settings, Path(audit), apply=apply, warn=_log.warning)
