"""Render the guide page that has the tables of translations."""

from __future__ import annotations

from collections.abc import Iterable

from .rules import Product, Rule
from .translate import PRODUCTS

__all__ = ["render_page"]

_HEAD = """# Moving here: options of other connectors

`pyspark-rocketmq translate` translates the options of a job; these are its tables. Give it words, a file of options, or
the program itself:

<!-- run by tests/cli/test_conventions.py -->
```sh
pyspark-rocketmq translate kafka.bootstrap.servers=broker:9092 subscribe=orders startingOffsets=earliest
pyspark-rocketmq translate --file kafka_job.py
```

A name with `*` stands for all that begin so. Names that no table has are shown as unknown, and are not translated.
"""


def render_page() -> str:
    """Return the whole page in Markdown."""
    return "\n".join([_HEAD, *map(_render_product, PRODUCTS.values())])


def _render_product(product: Product) -> str:
    remarks = (*product.read_remarks, *product.write_remarks)
    parts = [f"## {product.title}\n", "".join(f"- {remark}\n" for remark in remarks)]
    if product.read_extra:
        extra = ", ".join(f"`{name}={value}`" for name, value in product.read_extra.items())
        parts.append(f"Reads also get {extra}.\n")
    for title, rules in (("Reading", product.reads), ("Writing", product.writes)):
        parts.append(f"### {title} ({product.name})\n\n{_table(rules)}")
    return "\n".join(parts)


def _table(rules: Iterable[Rule]) -> str:
    lines = ["| option | here | note |", "| --- | --- | --- |"]
    for rule in rules:
        names = ", ".join(f"`{name}`" for name in rule.names)
        ours = f"`{rule.ours}`" if rule.ours else "—"
        lines.append(f"| {names} | {ours} | {_note(rule)} |")
    return "".join(f"{line}\n" for line in lines)


def _note(rule: Rule) -> str:
    converted = "the value is converted" if rule.convert and rule.ours else ""
    return "; ".join(filter(None, (rule.note, converted))).replace("|", "\\|")
