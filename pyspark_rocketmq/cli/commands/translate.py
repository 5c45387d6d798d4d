"""Translate a job's options from another connector to those of `format("rocketmq")`."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ...errors import OptionError
from ..command import Command, Parameter
from ..translation.given import USES, GivenJob
from ..translation.reading import read_arguments, read_text
from ..translation.translate import PRODUCTS, TranslatedJob, find_product, translate_job
from ..views import Column, Note, Table, Text, View

if TYPE_CHECKING:
    from ..session import Session

__all__ = ["COMMANDS"]

_STDIN = "-"
_MOST_CHARACTERS = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Translation:
    """The translated reads and writes of a job."""

    jobs: tuple[TranslatedJob, ...]
    skipped: tuple[str, ...]
    """The formats of reads and writes that are of no connector known here."""


def _run(
    session: Session, option: tuple[str, ...], file: str | None, origin: str | None, use: str | None
) -> Translation:
    if bool(option) == (file is not None):
        raise OptionError("NAME=VALUE", None, "not one source of options", advice="give NAME=VALUE words, or --file")
    jobs = read_text(_read(file), file) if file is not None else [read_arguments(option)]
    ours = [job for job in jobs if _is_of_interest(job)]
    ours = [job for job in ours if _is_clear(job, origin)] or ours
    skipped = tuple(job.format or "?" for job in jobs if job not in ours)
    if not ours:
        what = f"only formats of no connector known here: {', '.join(skipped)}"
        raise OptionError("--file", file, what, advice=f"known are {', '.join(PRODUCTS)}")
    return Translation(tuple(_translate(job, origin, use) for job in ours), skipped)


def _is_of_interest(job: GivenJob) -> bool:
    """Return whether a read or write may be of a connector known here; `rocketmq` is the name of two."""
    known = {"rocketmq", *(name for product in PRODUCTS.values() for name in product.formats)}
    return job.format is None or job.format in known


def _is_clear(job: GivenJob, origin: str | None) -> bool:
    """Return whether it is clear of which connector a read or write is."""
    try:
        find_product(job, origin)
    except OptionError:
        return False
    return True


def _translate(job: GivenJob, origin: str | None, use: str | None) -> TranslatedJob:
    return translate_job(job, find_product(job, origin), use or job.use or "readStream")


def _read(path: str) -> str:
    try:
        if path == _STDIN and sys.stdin is None:
            raise OptionError("--file", path, "the standard input is closed", advice="give a file")
        if path == _STDIN:
            text = sys.stdin.read(_MOST_CHARACTERS + 1)
        else:
            with Path(path).open(encoding="utf-8") as file:
                text = file.read(_MOST_CHARACTERS + 1)
    except (OSError, UnicodeDecodeError) as cause:
        why = cause.strerror if isinstance(cause, OSError) else "not UTF-8"
        raise OptionError("--file", path, f"unreadable: {why}", advice="check the path") from None
    if len(text) > _MOST_CHARACTERS:
        raise OptionError("--file", path, f"more than {_MOST_CHARACTERS} characters", advice="give the job's part only")
    return text.removeprefix("\ufeff")


def _show(translation: Translation) -> list[View]:
    views: list[View] = []
    for job in translation.jobs:
        columns = (Column(PRODUCTS[job.product].title), Column("value"), Column('format("rocketmq")'), Column("note"))
        rows = [(each.theirs, each.value, _ours(job, each.ours) or f"({each.fate})", each.note) for each in job.notes]
        views += [Table(columns, rows), Text(f"\n{job.program}\n"), *(Note(f"- {remark}") for remark in job.remarks)]
    if translation.skipped:
        formats = ", ".join(translation.skipped)
        views.append(Note(f"left out, as of no connector known here: {formats}", is_warning=True))
    return views


def _ours(job: TranslatedJob, names: tuple[str, ...]) -> str:
    return ", ".join(f"{name}={job.options[name]}" for name in names)


COMMANDS = (
    Command(
        "translate",
        Translation,
        _run,
        _show,
        parameters=(
            Parameter("OPTION", "options of the other connector, as NAME=VALUE", is_repeatable=True),
            Parameter("--file", "a file of options (properties, JSON), a program or notebook; - is the standard input",
                      metavar="FILE"),
            Parameter("--from/--origin", "the connector (default: found by the options)", choices=tuple(PRODUCTS)),
            Parameter("--use", "what the options are for (default: what the program says, else readStream)",
                      choices=USES),
        ),
        details="Translates options of Spark's Kafka source and sink, of Apache's rocketmq-spark and of "
        "rocketmq-flink. For each option it shows what takes its place, or why nothing does; names that no table has "
        "are shown as unknown. The result is checked as format(\"rocketmq\") checks it. Of a program, calls of option "
        "and options are understood, and the WITH clause of Flink's SQL; lines with options that it does not spell "
        "out, such as a map that is made elsewhere, are named. Secrets are not shown. The page Moving here has the "
        "tables.",
        examples=(
            "pyspark-rocketmq translate kafka.bootstrap.servers=broker:9092 subscribe=orders startingOffsets=earliest",
            "pyspark-rocketmq translate --from rocketmq-flink topic=orders nameServerAddress=ns:9876 tag=new",
            "pyspark-rocketmq translate --file kafka_job.py",
        ),
        connects=False,
    ),
)  # fmt: skip
