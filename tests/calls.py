"""How much work is a piece of work, where time says nothing because others work, too?"""

from __future__ import annotations

import sys
from collections.abc import Callable


def count_calls(work: Callable[[], object]) -> int:
    """How many functions are called, of Python's and ours."""
    count = 0

    def note(_frame: object, event: str, _argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count
