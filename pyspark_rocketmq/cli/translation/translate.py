"""Translate the options of a job by a product's table, and tell about each of them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ...errors import OptionError, shown
from ..values import moment
from .given import GivenJob
from .kafka import KAFKA
from .rocketmq_flink import ROCKETMQ_FLINK
from .rocketmq_spark import ROCKETMQ_SPARK
from .rules import Product, Rule, Untranslatable

__all__ = ["MASK", "PRODUCTS", "OptionNote", "TranslatedJob", "find_product", "translate_job"]

PRODUCTS = {product.name: product for product in (KAFKA, ROCKETMQ_SPARK, ROCKETMQ_FLINK)}
MASK = "***"
_SECRET_WORDS = ("secret", "password", "passphrase", "token", "jaas", "credential", "accesskey")
"""Parts of names whose values are never shown."""
_LEAST_MS = 10**11
"""A time of 1973; smaller numbers are probably seconds."""
_MOST_NAME = 40
"""Most characters of an unknown name that are shown: a longer one may be a line of a key."""


@dataclass(frozen=True, slots=True)
class OptionNote:
    """The fate of one option of the other connector."""

    theirs: str
    value: str
    """The value; `***` if it is secret."""
    ours: tuple[str, ...]
    """The options that take its place; empty if it has no counterpart."""
    fate: str
    """`same`, `translated`, `dropped` or `unknown`."""
    note: str


@dataclass(frozen=True, slots=True)
class TranslatedJob:
    """The options of one read or write, and what became of those of the other connector."""

    product: str
    use: str
    options: dict[str, str]
    notes: tuple[OptionNote, ...]
    remarks: tuple[str, ...]
    """Differences that no option shows, and options that are missing or contradict each other."""
    program: str
    """The read or write in Python."""


class _Step(NamedTuple):
    note: OptionNote
    options: Mapping[str, str]


def find_product(job: GivenJob, named: str | None) -> Product:
    """Return the product that is named, else that of the job's format, else the one that knows most of its names."""
    if named is not None:
        return PRODUCTS[named]
    for product in PRODUCTS.values():
        if job.format in product.formats:
            return product
    known = {name: sum(_knows(product, each) for each in job.options) for name, product in PRODUCTS.items()}
    best = max(known.values())
    winners = [PRODUCTS[name] for name, count in known.items() if count == best]
    if not best or len(winners) > 1:
        advice = f"give --from {', '.join(PRODUCTS)}"
        raise OptionError("--from", None, "the options do not tell which connector they are of", advice=advice)
    return winners[0]


def _knows(product: Product, name: str) -> bool:
    return any(_find_rule(rules, name) is not None for rules in (product.reads, product.writes))


def _find_rule(rules: tuple[Rule, ...], name: str) -> Rule | None:
    """Return the rule for a name, in upper or lower case; a rule that names it outranks one for a family."""
    lowered = name.lower()
    exact = (rule for rule in rules if _names(rule, name))
    return next(exact, None) or next(
        (rule for rule in rules if any(_covers(each, lowered) for each in rule.names)), None
    )


def _names(rule: Rule, name: str) -> bool:
    """Return whether a rule names an option by itself; the values of others, of which only the family is known, are not
    shown."""
    return name.lower() in (each.lower() for each in rule.names)


def _covers(family: str, lowered: str) -> bool:
    return family.endswith("*") and lowered.startswith(family[:-1].lower())


def translate_job(job: GivenJob, product: Product, use: str) -> TranslatedJob:
    """Return the options of ours for a job, with a note about each option that was given."""
    rules = product.writes if use.startswith("write") else product.reads
    given = {name.lower(): value for name, value in job.options.items()}
    extra = {} if use.startswith("write") else product.read_extra
    options: dict[str, str] = dict(extra)
    notes, expressions, clashes, origins = [], set(), [], dict.fromkeys(extra, "")
    for name, value in job.options.items():
        rule = _find_rule(rules, name)
        is_expression = name in job.expressions and not (rule and rule.ignores_value)
        step = _translate_option(name, value, rule, given, is_expression)
        notes.append(step.note)
        clashes += [
            f"{origins[ours]} and {name} both become {ours}: the value of {name} is taken"
            for ours, text in step.options.items()
            if origins.get(ours) and options[ours] != text
        ]
        origins |= dict.fromkeys(step.options, name)
        options |= step.options
        expressions |= set(step.options) if is_expression else set()
    about_use = product.write_remarks if use.startswith("write") else _remarks_of_read(product, options)
    remarks = (*about_use, *clashes, *_tell_unread(job.unread), *_check(options, use, expressions))
    program = _program(options, use, expressions)
    return TranslatedJob(product.name, use, _masked(options), tuple(notes), remarks, program)


def _translate_option(name: str, value: str, rule: Rule | None, given: Mapping[str, str], is_expression: bool) -> _Step:
    if rule is None:  # Its value may be a secret.
        return _Step(OptionNote(shown(name, _MOST_NAME), MASK, (), "unknown", "not in the table of this connector"), {})
    visible = MASK if rule.is_secret or is_secret(name) or not _names(rule, name) else shown(value)
    if rule.ours is None:
        return _Step(OptionNote(name, visible, (), "dropped", rule.note), {})
    try:
        options = rule.convert(value, given) if rule.convert and not is_expression else {rule.ours: value}
    except Untranslatable as reason:
        return _Step(OptionNote(name, visible, (), "dropped", str(reason)), {})
    is_same = options == {name: value}
    note = rule.note if options else "means the default"
    return _Step(OptionNote(name, visible, tuple(options), "same" if is_same else "translated", note), options)


def is_secret(name: str) -> bool:
    """Return whether an option's value is never shown."""
    return any(word in name.lower() for word in _SECRET_WORDS)


def _masked(options: Mapping[str, str]) -> dict[str, str]:
    return {name: MASK if is_secret(name) else value for name, value in options.items()}


def _remarks_of_read(product: Product, options: Mapping[str, str]) -> Iterator[str]:
    """Yield differences of reads, and times that are probably seconds; say if a read would begin elsewhere."""
    yield from product.read_remarks
    for name in ("startingTimestamp", "endingTimestamp"):
        if (text := options.get(name, "")).isdecimal() and int(text) < _LEAST_MS:
            yield f"{name}={text} is {moment(int(text))}: a number means milliseconds"
    if product.read_start and not any(name.startswith("starting") for name in options):
        yield f"no start is given: {product.read_start}, as startingOffsets=group does; a new query starts at the end"


def _tell_unread(lines: Sequence[int]) -> Iterator[str]:
    """Yield that options are missing because the text does not spell them out."""
    if lines:
        numbers = ", ".join(f"line {number}" for number in sorted(set(lines)))
        yield f"options that are not spelt out are missing here: {shown(numbers)}"


def _check(options: Mapping[str, str], use: str, expressions: set[str]) -> Iterator[str]:
    """Yield what our own check of the options complains of."""
    from ...options import parse_reader_options, parse_writer_options

    if expressions:
        yield f"values that are expressions were taken over unchecked: {', '.join(sorted(expressions))}"
        return
    try:
        if use.startswith("write"):
            parse_writer_options(options, env={})
        else:
            parse_reader_options(options, stream=use == "readStream", env={})
    except OptionError as error:
        yield f"still to be settled: {error}"


def _program(options: Mapping[str, str], use: str, expressions: set[str]) -> str:
    """Return the read or write in Python; secrets are left to a file."""
    calls = [
        f'    .option("{name}", {value if name in expressions else _quoted(value)})'
        for name, value in options.items()
        if not is_secret(name)
    ]
    if any(map(is_secret, options)):
        calls.append("    # secrets: give a credentialsFile, or set them from where you keep them")
    begin, end = _FRAMES[use]
    return "\n".join([begin, *calls, end])


def _quoted(text: str) -> str:
    return repr(text) if '"' in text else json.dumps(text, ensure_ascii=False)


_FRAMES = {
    "readStream": ('df = (\n    spark.readStream.format("rocketmq")', "    .load()\n)"),
    "read": ('df = (\n    spark.read.format("rocketmq")', "    .load()\n)"),
    "writeStream": (
        'query = (\n    df.writeStream.format("rocketmq")',
        '    .option("checkpointLocation", "...")\n    .start()\n)',
    ),
    "write": ('(\n    df.write.format("rocketmq")', '    .mode("append")\n    .save()\n)'),
}
"""The lines around the options of a use."""
