"""List broker processes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...errors import BrokerError, RocketMQError
from ..asking import fetch_brokers
from ..command import Command
from ..values import Moment, Trouble, moment, trouble
from ..views import Column, Table, View, show_size, show_span, show_troubles

if TYPE_CHECKING:
    from ...cluster.survey import BrokerProcess
    from ..session import Session

__all__ = ["COMMANDS"]

_UNKNOWN = "?"


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
    up_seconds: int | None
    stored_messages_total: int | None
    """Messages stored since the start."""
    commit_log_bytes: int | None
    disk_used: float | None
    """Part of the disk of the commit log that is used, from 0 to 1."""
    oldest_message: Moment | None
    oldest_seconds: float | None
    """Age of the oldest message, by the broker's clock."""


@dataclass(frozen=True, slots=True)
class BrokerList:
    """All broker processes that the name servers know; `troubles` has those that did not answer."""

    brokers: tuple[BrokerRow, ...]
    troubles: tuple[Trouble, ...]


def _run(session: Session) -> BrokerList:
    found = session.cluster.survey.fetch_runtime_infos(fetch_brokers(session))
    rows = tuple(_row(process, info) for process, info in found.items())
    failed = {each.address: info for each, info in found.items() if isinstance(info, RocketMQError)}
    return BrokerList(rows, tuple(trouble(str(address), error) for address, error in failed.items()))


def _row(process: BrokerProcess, info: dict[str, str] | RocketMQError) -> BrokerRow:
    from ...cluster.clocks import uptime_s
    from ...cluster.survey import number_in

    answers = not isinstance(info, RocketMQError) or isinstance(info, BrokerError)
    figures = {} if isinstance(info, RocketMQError) else info
    started = number_in(figures, "bootTimestamp")
    start, end = number_in(figures, "commitLogMinOffset"), number_in(figures, "commitLogMaxOffset")
    oldest = number_in(figures, "earliestMessageTimeStamp")
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
        up_seconds=uptime_s(figures),
        stored_messages_total=number_in(figures, "putMessageTimesTotal"),
        commit_log_bytes=None if start is None or end is None else max(0, end - start),
        disk_used=_ratio(figures, "commitLogDiskRatio"),
        oldest_message=moment(oldest) if oldest else None,
        oldest_seconds=_age_s(figures, oldest),
    )


def _age_s(figures: dict[str, str], stored_ms: int | None) -> float | None:
    """Return the age of a message by the clock of the broker that stored it; None if the clock says it is younger."""
    from ...cluster.clocks import broker_time_ms

    now_ms = broker_time_ms(figures)
    # The time that a broker reports may be a second old.
    if not stored_ms or now_ms is None or now_ms < stored_ms - 1000:
        return None
    return max(0, now_ms - stored_ms) / 1000


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
            each.release or (_UNKNOWN if each.answers else "no answer"),
            _UNKNOWN if each.up_seconds is None else show_span(each.up_seconds),
            _UNKNOWN if each.stored_messages_total is None else str(each.stored_messages_total),
            _UNKNOWN if each.commit_log_bytes is None else show_size(each.commit_log_bytes),
            _UNKNOWN if each.disk_used is None else f"{each.disk_used:.0%}",
            _oldest(each),
        )
        for each in found.brokers
        if each.cluster == cluster
    ]


def _oldest(row: BrokerRow) -> str:
    """Return the age of the oldest message; a dash if there is none."""
    if row.oldest_seconds is not None:
        return show_span(row.oldest_seconds)
    return "-" if row.oldest_message is None and row.started is not None else _UNKNOWN


COMMANDS = (
    Command(
        "brokers",
        BrokerList,
        _run,
        _show,
        details="A process that does not answer is listed with the reason. 'stored' counts messages "
        "since the start, 'log' is the size of the commit log, and 'oldest' the age of the first message in it, by the "
        "broker's clock.",
        examples=("pyspark-rocketmq brokers",),
    ),
)
