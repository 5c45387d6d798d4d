"""Check a cluster from here, and Spark: name servers, brokers, a topic, a group; driver, planner and executors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ...errors import OptionError
from ..checks.findings import Finding, Level, Report, make_report
from ..command import Command, Parameter
from ..exits import Exit
from ..views import Column, Note, Table, Text, View, show_count

if TYPE_CHECKING:
    from ..session import Session

__all__ = ["COMMANDS"]


def _run(
    session: Session,
    topic: tuple[str, ...],
    group: str | None,
    recovery: str | None,
    spark: bool,
    master: str | None,
) -> Report:
    if master is not None and not spark:
        raise OptionError("--master", master, "given without --spark", advice="add --spark")
    recovery_s = _parse_recovery(recovery)
    findings = list(_check_cluster(session, topic, group, recovery_s)) if _names_cluster(session, spark) else []
    if spark:
        from ..checks.spark import check_spark

        session.screen.note_step("doctor: starting Spark")
        findings += check_spark(master)
    return make_report(findings)


def _parse_recovery(text: str | None) -> float | None:
    from ...options.values import OptionText, read_duration_ms

    if text is None:
        return None
    if text.strip().isdigit():  # Options read such a number as milliseconds, which no recovery takes.
        raise OptionError("--recovery", text, "has no unit", advice="write 24h or 3d, for example")
    return read_duration_ms(OptionText("--recovery", text)) / 1000


def _names_cluster(session: Session, spark: bool) -> bool:
    """Return whether a cluster is named; without `spark`, raise if none is."""
    try:
        return bool(session.name_servers)
    except OptionError as error:
        if spark and error.code == "OPTION_MISSING":
            return False
        raise


def _check_cluster(
    session: Session, topics: tuple[str, ...], group: str | None, recovery_s: float | None
) -> Iterator[Finding]:
    from ..checks.brokers import check_brokers, check_certificates, check_settings
    from ..checks.name_servers import ask_name_servers, check_name_servers, merge_brokers
    from ..checks.topics import check_group, check_topic, find_holders

    note = session.screen.note_step
    note("doctor: asking name servers")
    answers = ask_name_servers(session.options.cluster)
    yield from check_name_servers(answers)
    if all(each.failure for each in answers):
        return
    brokers = merge_brokers(answers)
    if not brokers:
        why = "topics have no queues without brokers"
        yield Finding(Level.PROBLEM, "brokers", "-", "no broker is registered", why, "check brokers' namesrvAddr")
        return
    note(f"doctor: asking {show_count(len(brokers), 'broker')}")
    checked = check_brokers(session, brokers)
    yield from checked.findings
    servers = [each.address for each in answers if not each.failure]
    yield from check_certificates(session, [*servers, *checked.addresses])
    yield from check_settings(session, checked, recovery_s)
    away = {each.broker_name for each in brokers} - {each.broker_name for each in checked.answering}
    for topic in topics:
        note(f"doctor: checking topic {topic}")
        yield from check_topic(session, topic, group, brokers, away)
    if group is not None:
        holders = find_holders(session, topics) if topics else None
        asked = [each for each in checked.answering if holders is None or each.broker_name in holders]
        yield from check_group(session, asked, group)


# --- for people ------------------------------------------------------------------------------------------------------


def _show(report: Report) -> list[View]:
    lines = dict.fromkeys(filter(None, (each.command for each in report.findings)))
    numbers = {line: number for number, line in enumerate(lines, 1)}
    rows = [(each.level.value, each.check, each.place, _text(each, numbers)) for each in report.findings]
    columns = (Column(""), Column("check"), Column("place"), Column("finding", is_remark=True))
    weights = show_count(report.problems, "problem"), show_count(report.warnings, "warning")
    total = f"{', '.join(weights)}, {report.unknown} unknown"
    listed = "".join(f"\n[{number}] {line}" for line, number in numbers.items())
    return [Table(columns, rows), *([Text(listed)] if listed else []), Note(total)]


def _text(finding: Finding, numbers: Mapping[str, int]) -> str:
    """Return a finding in one line; its command stands below the table, where it is whole and can be copied."""
    advice = finding.advice and f"→ {finding.advice}"
    if finding.command:
        advice = f"{advice}: line [{numbers[finding.command]}] below"
    return "; ".join(filter(None, (finding.what, finding.why, advice)))


def _verdict(report: Report, values: dict[str, Any]) -> int:
    return Exit.CHECK_FAILED if report.problems else Exit.DONE


COMMANDS = (
    Command(
        "doctor",
        Report,
        _run,
        _show,
        parameters=(
            Parameter("--topic", "check this topic, too", is_repeatable=True, metavar="TOPIC"),
            Parameter("--group", "check this consumer group, too", metavar="GROUP"),
            Parameter("--recovery", "longest time that a query may be down: 24h, 3d", metavar="DURATION"),
            Parameter("--spark", "check Spark, too: Python, packages and Java of driver, planner and executors", bool),
            Parameter("--master", "with --spark: Spark's master (default: local[2])", metavar="URL"),
        ),
        details="Checks from here: name servers and brokers (reachable, latency, release, a wrong port by its "
        "protocol), credentials and permissions, certificates, clocks, settings that lose or misplace messages, "
        "retention, topic and group. With --spark it starts a Spark session for some seconds; then no cluster needs "
        "to be named. Exits with 8 if there is a problem. Nothing is changed.",
        examples=("pyspark-rocketmq doctor", "pyspark-rocketmq doctor --topic orders --group billing --recovery 24h"),
        verdict=_verdict,
    ),
)
