"""What may be tried again, and when?

The errors say so themselves (`retriable`); this only counts and waits. Requests whose repetition would do harm, such
as sends, do not come here.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import TypeVar

from ..errors import RocketMQError
from ..net.backoff import Backoff
from ..net.deadline import Deadline

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Retrying:
    """So many more attempts, with pauses between them."""

    retries: int
    pause: Backoff
    sleep: Callable[[float], None] = field(default=time.sleep, repr=False)

    def run(self, attempt: Callable[[], T], deadline: Deadline | None = None) -> T:
        """What the first successful attempt returns, or the last error."""
        for number in count():
            try:
                return attempt()
            except RocketMQError as error:
                pause_s = self.pause.delay_s(number)
                over = number >= self.retries or (deadline is not None and deadline.remaining() <= pause_s)
                if over or not error.retriable:
                    raise
            self.sleep(pause_s)
        raise AssertionError("count() has no end")
