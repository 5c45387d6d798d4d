"""List broker processes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...errors import BrokerError, RocketMQError
from ..command import Command
from ..exits import NotFound
from ..values import Moment, Trouble, moment, trouble
from ..views import Column, Table, View, show_size, show_span, show_troubles

if TYPE_CHECKING:
    from ...cluster.survey import BrokerProcess
    from ..session import Session

__all__ = ["COMMANDS"]


@dataclass(frozen=True, slots=True)
class BrokerRow:
    """One broker process; a figure that it does not report is null."""

    broker: str
    cluster: str
    broker_id: int
    address: str
    is_master: bool
    answers: bool
    release: str | None
    started: Moment | None
    up_seconds: float | None
    stored_messages_total: int | None
    """Messages stored since the start."""
    commit_log_bytes: int | None
    disk_used: float | None
    """Part of the disk of the commit log that is used, from 0 to 1."""
    oldest_message: Moment | None
    oldest_seconds: float | None
    """Age of the oldest message, by the clock of this machine."""


@dataclass(frozen=True, slots=True)
class BrokerList:
    """All broker processes that the name servers know; `troubles` has those that did not answer."""

    brokers: tuple[BrokerRow, ...]
    troubles: tuple[Trouble, ...]


def _run(session: Session) -> BrokerList:
    survey = session.cluster.survey
    brokers = survey.fetch_brokers()
    if not brokers:
        raise NotFound("the name servers know no broker", advice="check brokers' namesrvAddr, and their logs")
    found = survey.fetch_runtime_infos(brokers)
    now_ms = session.now_ms()
    rows = tuple(_row(process, info, now_ms) for process, info in found.items())
    failed = {each.address: info for each, info in found.items() if isinstance(info, RocketMQError)}
    return BrokerList(rows, tuple(trouble(str(address), error) for address, error in failed.items()))


def _row(process: BrokerProcess, info: dict[str, str] | RocketMQError, now_ms: int) -> BrokerRow:
    answers = not isinstance(info, RocketMQError) or isinstance(info, BrokerError)
    figures = {} if isinstance(info, RocketMQError) else info
    started = _integer(figures, "bootTimestamp")
    start, end = _integer(figures, "commitLogMinOffset"), _integer(figures, "commitLogMaxOffset")
    oldest = _integer(figures, "earliestMessageTimeStamp")
    return BrokerRow(
        broker=process.broker_name,
        cluster=process.cluster,
        broker_id=process.broker_id,
        address=str(process.address),
        is_master=process.broker_id == 0,
        answers=answers,
        release=figures["brokerVersionDesc"].removeprefix("V").replace("_", ".")
        if "brokerVersionDesc" in figures
        else None,
        started=None if started is None else moment(started),
        up_seconds=_seconds_since(started, now_ms),
        stored_messages_total=_integer(figures, "putMessageTimesTotal"),
        commit_log_bytes=None if start is None or end is None else max(0, end - start),
        disk_used=_ratio(figures, "commitLogDiskRatio"),
        oldest_message=moment(oldest) if oldest else None,
        oldest_seconds=_seconds_since(oldest, now_ms),
    )


def _seconds_since(time_ms: int | None, now_ms: int) -> float | None:
    return max(0, now_ms - time_ms) / 1000 if time_ms else None


def _integer(figures: dict[str, str], name: str) -> int | None:
    text = figures.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else None


def _ratio(figures: dict[str, str], name: str) -> float | None:
    try:
        ratio = float(figures.get(name, ""))
    except ValueError:
        return None
    return ratio if 0 <= ratio <= 1 else None


def _show(found: BrokerList) -> list[View]:
    columns = (
        Column("broker"),
        Column("role"),
        Column("address"),
        Column("release"),
        Column("up", is_number=True),
        Column("stored", is_number=True),
        Column("log", is_number=True),
        Column("disk", is_number=True),
        Column("oldest", is_number=True),
    )
    clusters = dict.fromkeys(each.cluster for each in found.brokers)
    tables = [Table(columns, _rows(found, cluster), title=f"cluster {cluster}") for cluster in clusters]
    return [*tables, *show_troubles(found.troubles)]


def _rows(found: BrokerList, cluster: str) -> list[tuple[str, ...]]:
    return [
        (
            each.broker,
            "master" if each.is_master else f"replica {each.broker_id}",
            each.address,
            each.release or ("?" if each.answers else "no answer"),
            "-" if each.up_seconds is None else show_span(each.up_seconds),
            "-" if each.stored_messages_total is None else str(each.stored_messages_total),
            "-" if each.commit_log_bytes is None else show_size(each.commit_log_bytes),
            "-" if each.disk_used is None else f"{each.disk_used:.0%}",
            "-" if each.oldest_seconds is None else show_span(each.oldest_seconds),
        )
        for each in found.brokers
        if each.cluster == cluster
    ]


COMMANDS = (
    Command(
        "brokers",
        BrokerList,
        _run,
        _show,
        details="A process that does not answer is listed with the reason. 'stored' counts messages "
        "since the start, 'log' is the size of the commit log, and 'oldest' the age of the first message in it.",
        examples=("pyspark-rocketmq brokers",),
    ),
)
