"""Hold the figures of the demo, and show them: as a table that is redrawn, or as lines."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..values import Moment, moment
from ..views import Column, Facts, Redrawn, Table, Text, View, show_count

__all__ = ["SHOPS", "DemoState", "Sums", "show_state"]

SHOPS = ("Aachen", "Bergen", "Cádiz", "Dublin")
_RATE_S = 5.0
"""The time over which the rate is taken."""


@dataclass(frozen=True, slots=True)
class Row:
    """Orders and their sum, in the last window and in all."""

    shop: str
    window_orders: int
    window_cents: int
    orders: int
    cents: int


@dataclass(frozen=True, slots=True)
class DemoState:
    """The figures of the demo at one moment."""

    brokers: str
    """The brokers that serve the demo, for example `embedded brokers at 127.0.0.1:9876`."""
    batch: int | None
    """The number of the last batch; null before the first."""
    window: Moment | None
    """The start of the last window."""
    shops: tuple[Row, ...]
    total: Row
    """The sums of all rows."""
    sent: int
    """The number of orders whose receipts have come."""
    stored: int
    """The number of orders that brokers hold, as far as they tell."""
    lag: int
    """Stored, and not in a sum."""
    is_bound: bool
    """Whether `stored` and `lag` may be more, because a broker is away."""
    rate: float
    """Orders that Spark has read per second, over the last five seconds."""
    written: int
    """The number of messages in the topic of sums."""
    note: str
    """The present event."""
    next_steps: tuple[str, ...]
    """Commands to go on with; empty until the demo ends."""


class Sums:
    """The sums that Spark has told, by window and shop."""

    def __init__(self) -> None:
        self._sums: dict[tuple[int, str], tuple[int, int]] = {}
        self._history: deque[tuple[float, int]] = deque()
        self.batch: int | None = None

    def __repr__(self) -> str:
        return f"<Sums of batch {self.batch}>"

    def add(self, event: dict[str, Any], now_s: float) -> None:
        """Take the sums that a batch has changed; a repeated batch changes nothing."""
        self.batch = event["batch"]
        for window, shop, orders, cents in event["sums"]:
            self._sums[window, shop] = orders, cents
        self._history.append((now_s, self.total().orders))

    def rate(self, now_s: float) -> float:
        """Return the orders per second, over the last seconds."""
        while len(self._history) > 1 and self._history[1][0] < now_s - _RATE_S:
            self._history.popleft()
        if len(self._history) < 2:
            return 0.0
        (first_s, first), (last_s, last) = self._history[0], self._history[-1]
        return (last - first) / max(last_s - first_s, 0.001)

    @property
    def window(self) -> Moment | None:
        """The start of the last window."""
        return moment(max(window for window, _ in self._sums)) if self._sums else None

    def rows(self) -> tuple[Row, ...]:
        """Return a row for each shop."""
        last = self.window.ms if self.window else -1
        return tuple(self._row(shop, last) for shop in SHOPS)

    def _row(self, shop: str, last: int) -> Row:
        every = [sums for (_, name), sums in self._sums.items() if name == shop]
        return Row(shop, *self._sums.get((last, shop), (0, 0)), sum(n for n, _ in every), sum(c for _, c in every))

    def total(self) -> Row:
        """Return the sums of all rows."""
        return _add(self.rows())


def _add(rows: Iterable[Row]) -> Row:
    total = Row("total", 0, 0, 0, 0)
    for row in rows:
        total = replace(
            total,
            window_orders=total.window_orders + row.window_orders,
            window_cents=total.window_cents + row.window_cents,
            orders=total.orders + row.orders,
            cents=total.cents + row.cents,
        )
    return total


# --- for people ------------------------------------------------------------------------------------------------------

_COLUMNS = (
    Column("shop"),
    Column("orders in window", is_number=True),
    Column("sum", is_number=True),
    Column("orders in all", is_number=True),
    Column("sum", is_number=True),
)


def show_state(state: DemoState) -> list[View]:
    """Return the table that is redrawn, and at the end the next steps."""
    steps = [Text("\n".join(["", "next:", *(f"  {step}" for step in state.next_steps)]))] if state.next_steps else []
    return [Redrawn((_table(state), _facts(state)), _line(state)), *steps]


def _table(state: DemoState) -> Table:
    window = f"the window from {_clock(state.window)}" if state.window else "windows of five seconds"
    rows = [_cells(row) for row in (*state.shops, state.total)]
    return Table(_COLUMNS, rows, title=f"Orders by shop, in {window}")


def _clock(time: Moment) -> str:
    return f"{(time.iso or '')[11:19]} UTC"


def _cells(row: Row) -> Sequence[str]:
    return row.shop, f"{row.window_orders:,}", _money(row.window_cents), f"{row.orders:,}", _money(row.cents)


def _money(cents: int) -> str:
    return f"{cents // 100:,}.{cents % 100:02}"


def _facts(state: DemoState) -> Facts:
    at_least = "≥ " if state.is_bound else ""
    pairs = [
        ("cluster", state.brokers),
        ("stored", f"{at_least}{state.stored:,} = {state.total.orders:,} read by Spark + lag {at_least}{state.lag:,}"),
        ("rate", f"{state.rate:,.0f} orders/s" + ("" if state.batch is None else f", batch {state.batch}")),
        ("written", f"{show_count(state.written, 'sum')} back to a topic"),
        ("now", state.note),
    ]
    return Facts(pairs)


def _line(state: DemoState) -> str:
    at_least = "≥ " if state.is_bound else ""
    figures = [
        "no batch" if state.batch is None else f"batch {state.batch}",
        f"{state.total.orders:,} orders read",
        f"sum {_money(state.total.cents)}",
        f"lag {at_least}{state.lag:,}",
        f"{state.rate:,.0f} orders/s",
        f"{show_count(state.written, 'sum')} written",
        state.note,
    ]
    return " · ".join(figures)
