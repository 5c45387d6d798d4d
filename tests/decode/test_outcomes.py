"""Test that rows of a record batch are read, and that the outcome of each row is appended."""

from __future__ import annotations

import pyarrow as pa

from pyspark_rocketmq.decode.outcomes import read_columns, with_outcomes

BATCH = pa.RecordBatch.from_pydict({"a": [1, 2], "b": ["x", None], "c": [True, False]})


def test_rows_hold_the_named_columns_in_their_order() -> None:
    """Each row has the values of the named columns, in the order of the names."""
    assert list(read_columns(BATCH, ["c", "a"])) == [(True, 1), (False, 2)]


def test_outcomes_follow_the_kept_columns() -> None:
    """The result has the kept columns, then whether each row was accepted, and its error."""
    result = with_outcomes(BATCH, ["b", "a"], [(True, None), (None, "late")])

    assert result.schema.names == ["b", "a", "accepted", "error"]
    assert result.to_pydict() == {"b": ["x", None], "a": [1, 2], "accepted": [True, None], "error": [None, "late"]}
    assert result.schema.field("accepted").type == pa.bool_() and result.schema.field("error").type == pa.string()
