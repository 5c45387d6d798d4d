"""Compare the bulk decoder with the readable one on any bytes, as responses to a pull.

`disagreement` is the entry point for fuzzing: it takes bytes and returns what differs. `damaged_responses` generates
bytes that are worth a try. Errors that are not this library's pass through.
"""

from __future__ import annotations

from hypothesis import strategies as st

from pyspark_rocketmq.decode.columns import COLUMNS, Content, Mode
from pyspark_rocketmq.decode.decoder import BatchSize, ColumnDecoder
from pyspark_rocketmq.errors import AnswerMismatch, DecodeError
from pyspark_rocketmq.model import Block, QueueRange
from pyspark_rocketmq.wire.record import decode_records
from tests.wire.strategies import damaged

from .samples import QUEUE, block, irregular_records, plain_records
from .test_columns import readable

Columns = list[list[object]]
EVERY_COLUMN = tuple(COLUMNS)
CONTENTS = [
    Content(mode=mode, check_crc=check_crc) for mode in (Mode.FAILFAST, Mode.PERMISSIVE) for check_crc in (False, True)
]

responses = st.lists(st.one_of(plain_records, irregular_records), min_size=1, max_size=4).map(
    lambda records: bytes(block(records).data)
)
damaged_responses = damaged(responses)


def disagreement(data: bytes, content: Content) -> str | None:
    """Return how the two decoders differ about a response of these bytes; None if both refuse it or give equal rows."""
    by_rows, in_bulk = _outcome_of_rows(data, content), _outcome_in_bulk(data, content)
    if isinstance(by_rows, str) and isinstance(in_bulk, str):
        return None
    return None if by_rows == in_bulk else f"readable: {by_rows}\nbulk: {in_bulk}\nresponse: {data.hex()}"


def _outcome_of_rows(data: bytes, content: Content) -> Columns | str:
    """Return the columns that the readable decoder reads from a response, or the error that it raises."""
    try:
        for record in decode_records(data):
            if (record.topic, record.queue_id) != (QUEUE.topic, QUEUE.queue_id):
                return "another queue"
        return readable([_as_block(data)], content)
    except DecodeError as error:
        return str(error)


def _outcome_in_bulk(data: bytes, content: Content) -> Columns | str:
    """Return the columns that the bulk decoder makes of a response, or the error that it raises."""
    decoder = ColumnDecoder(EVERY_COLUMN, content)
    try:
        batches = [each.batch for each in decoder.decode_all([_as_block(data)], BatchSize())]
    except (DecodeError, AnswerMismatch) as error:
        return str(error)
    for batch in batches:
        batch.validate(full=True)
    return [[value for batch in batches for value in batch.column(name).to_pylist()] for name in EVERY_COLUMN]


def _as_block(data: bytes) -> Block:
    return Block(memoryview(data), QueueRange(QUEUE, 0, 2**62), 1)
