"""What did a pull come to?

Four response codes are ordinary ends of a pull; every other code is an error of the broker.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import IntEnum
from typing import NamedTuple

from ..broker_errors import error_for
from ..errors import MalformedFrame
from ..wire.codes import ResponseCode
from ..wire.header import Command, PullResponse

__all__ = ["PULL_CODES", "Outcome", "PullStatus", "read_outcome"]

RESET_REMARK = "OFFSET_RESET"
"""The remark by which a broker says that an admin moved the group, and not that messages are gone."""


class PullStatus(IntEnum):
    """How a pull ended; the values are the response codes."""

    FOUND = ResponseCode.SUCCESS
    NO_NEW = ResponseCode.PULL_NOT_FOUND
    NO_MATCH = ResponseCode.PULL_RETRY_IMMEDIATELY
    OFFSET_MOVED = ResponseCode.PULL_OFFSET_MOVED


PULL_CODES = frozenset(int(status) for status in PullStatus)
_LARGEST = 2**63 - 1
_NUMBER = re.compile("-?[0-9]{1,19}")
_FOUND = PullStatus.FOUND
_STATUSES = {int(status): status for status in PullStatus}


class Outcome(NamedTuple):
    """A pull's answer; `next_offset` is where to go on, the bounds are those of the queue when it answered."""

    status: PullStatus
    next_offset: int
    min_offset: int
    max_offset: int
    suggested_broker_id: int
    body: memoryview
    was_reset: bool = False
    """Whether the offset moved because an admin reset the group."""


def read_outcome(answer: Command) -> Outcome:
    """Read an answer; raises the broker's error for codes that are no outcome. Places are for the caller to name."""
    if isinstance(answer, PullResponse):
        return tuple.__new__(Outcome, (_FOUND, *answer.numbers, answer.body, False))  # half the cost of `Outcome(…)`
    status = _STATUSES.get(answer.code)
    if status is None:
        raise error_for(answer.code, answer.remark)
    fields = answer.fields or {}
    return Outcome(
        status,
        _read_number(fields, "nextBeginOffset", 0),
        _read_number(fields, "minOffset", -1),
        _read_number(fields, "maxOffset", -1),
        _read_number({"suggestWhichBrokerId": "0", **fields}, "suggestWhichBrokerId", 0),
        memoryview(answer.body),
        answer.remark == RESET_REMARK and status is PullStatus.OFFSET_MOVED,
    )


def _read_number(fields: Mapping[str, str], name: str, smallest: int) -> int:
    """A number of the header; -1 is the bound of a queue that never held a message."""
    text = fields.get(name, "")
    if _NUMBER.fullmatch(text) and smallest <= int(text) <= _LARGEST:
        return int(text)
    raise MalformedFrame(f"a pull's answer without usable offsets: {name} is {text!r:.60}")
