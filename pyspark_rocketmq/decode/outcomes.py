"""Read columns of a record batch row by row, and append the result of each row as columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

__all__ = ["read_columns", "with_outcomes"]


def read_columns(batch: pa.RecordBatch, names: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    """Yield one tuple for each row, with its values of the named columns."""
    return zip(*(batch.column(name).to_pylist() for name in names), strict=True)


def with_outcomes(
    batch: pa.RecordBatch, kept: Sequence[str], outcomes: Sequence[tuple[bool | None, str | None]]
) -> pa.RecordBatch:
    """Return the columns `kept` of a batch, followed by columns `accepted` and `error`.

    `outcomes` holds a pair (accepted, error) for each row.
    """
    fields = [batch.schema.field(name) for name in kept]
    schema = pa.schema([*fields, pa.field("accepted", pa.bool_()), pa.field("error", pa.string())])
    accepted, errors = ([pair[part] for pair in outcomes] for part in (0, 1))
    columns = [*(batch.column(name) for name in kept), pa.array(accepted, pa.bool_()), pa.array(errors, pa.string())]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
