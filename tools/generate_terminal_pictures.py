"""Write docs/pictures: what commands show on terminals of 80 and 200 columns, light and dark.

The commands run on the stub; addresses and times of responses, which differ from run to run, are replaced. With
`--check` nothing is written; the exit status is 1 if a picture is out of date.
"""

from __future__ import annotations

import io
import os
import re
import sys
from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from broker_stub import StubCluster  # noqa: E402  # the script runs from a plain checkout
from pyspark_rocketmq.cli.connection import Wanted  # noqa: E402
from pyspark_rocketmq.cli.demo.state import SHOPS, DemoState, Sums, show_state  # noqa: E402
from pyspark_rocketmq.cli.parser import parse  # noqa: E402
from pyspark_rocketmq.cli.screen import Screen  # noqa: E402
from pyspark_rocketmq.cli.session import Session  # noqa: E402
from pyspark_rocketmq.cluster.cluster import open_cluster  # noqa: E402
from pyspark_rocketmq.cluster.settings import ClusterSettings  # noqa: E402
from pyspark_rocketmq.model import MessageQueue, parse_addresses  # noqa: E402
from pyspark_rocketmq.wire.bodies import SubscriptionGroupConfig  # noqa: E402
from tools.draw_terminal import THEMES, draw  # noqa: E402
from tools.generated import keep  # noqa: E402

TARGET = ROOT / "docs" / "pictures"
WIDTHS = (80, 200)
NOW_MS = 1_767_225_600_000
"""The time of the pictures: 2026-01-01T00:00:00Z."""
COMMANDS = {
    "lag": "lag billing",
    "topics-show": "topics show orders",
    "doctor": "doctor --topic orders --group billing",
}
POSITIONS = {("broker-a", 0): 1_180, ("broker-a", 1): 1_200, ("broker-b", 0): 950}
"""The positions of the group by queue; one queue has none."""
_ADDRESS, _LATENCY = re.compile(r"127\.0\.0\.1:\d+"), re.compile(r"answers in \d+ ms")


class Terminal(io.StringIO):
    """A terminal that keeps what is written to it."""

    def isatty(self) -> bool:
        """Return True."""
        return True


class FixedSession(Session):
    """A session at the time of the pictures."""

    def now_ms(self) -> int:
        """Return the time of the pictures."""
        return NOW_MS


def seed(stub: StubCluster) -> None:
    """Store messages and positions."""
    for broker in ("broker-a", "broker-b"):
        for number in range(2_400):
            stored = NOW_MS - (2_400 - number) * 1_000
            stub.put("orders", b"x" * 300, queue_id=number % 2, broker=broker, store_timestamp=stored)
    cluster = open_cluster(ClusterSettings(parse_addresses(stub.name_server)))
    cluster.admin.create_group(SubscriptionGroupConfig(group_name="billing"))
    queues = {MessageQueue("orders", broker, number): offset for (broker, number), offset in POSITIONS.items()}
    cluster.offsets.commit("billing", queues)


def show_command(stub: StubCluster, line: str, columns: int) -> list[str]:
    """Return the lines that a command shows."""
    invocation = parse(line.split())
    assert invocation
    screen = make_screen(columns)
    session = FixedSession(Wanted(name_server=stub.name_server), screen)
    result = fix(invocation.command.run(session, **invocation.values), stub.name_server)
    screen.show(invocation.command.show(result))
    return written(screen)


def make_screen(columns: int) -> Screen:
    """Return a screen of this width, with colours."""
    os.environ.update(COLUMNS=str(columns), TERM="xterm-256color", COLORTERM="")
    os.environ.pop("NO_COLOR", None)
    return Screen(Terminal(), Terminal())


def written(screen: Screen) -> list[str]:
    """Return the lines on a screen."""
    assert isinstance(screen.out, Terminal)
    return screen.out.getvalue().rstrip("\n").split("\n")


def fix(value: Any, name_server: str) -> Any:
    """Return a result with the same addresses and durations in every run."""
    if isinstance(value, str):
        value = _ADDRESS.sub("10.0.0.1:10911", value.replace(name_server, "10.0.0.1:9876"))
        return _LATENCY.sub("answers in 1 ms", value)
    if isinstance(value, tuple):
        return tuple(fix(each, name_server) for each in value)
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{each.name: fix(getattr(value, each.name), name_server) for each in fields(value)})
    return value


def show_demo(columns: int) -> list[str]:
    """Return the lines of the demo while a broker is away."""
    sums = Sums()
    for batch, orders in enumerate((480, 610, 655)):
        start = NOW_MS + (batch - 2) * 5_000
        rows = [(start, shop, orders // 4 + 7 * n, orders * 2_500 + 1_234 * n) for n, shop in enumerate(SHOPS)]
        sums.add({"batch": batch + 4, "sums": rows}, 5.0 * batch)
    total = sums.total()
    state = DemoState(
        brokers="two embedded brokers, name server 127.0.0.1:9876",
        batch=sums.batch,
        window=sums.window,
        shops=sums.rows(),
        total=total,
        sent=total.orders + 212,
        stored=total.orders + 212,
        lag=212,
        is_bound=True,
        rate=201.4,
        written=12,
        note="broker-b has died; orders go elsewhere",
        next_steps=(),
    )
    screen = make_screen(columns)
    screen.show(show_state(state))
    return written(screen)


def pictures() -> Iterator[tuple[str, list[str], int]]:
    """Yield name, lines and width of each picture."""
    with StubCluster(2, topics={"orders": 2}, frozen_clock=True) as stub:
        stub.faults.clock_jump(NOW_MS - stub.clock.now_ms())
        seed(stub)
        for name, line in COMMANDS.items():
            for columns in WIDTHS:
                yield name, [f"\x1b[32m$\x1b[0m pyspark-rocketmq {line}", *show_command(stub, line, columns)], columns
    for columns in WIDTHS:
        yield "demo", ["\x1b[32m$\x1b[0m pyspark-rocketmq demo", *show_demo(columns)], columns


def main() -> int:
    """Write or check all pictures; return 1 if one is out of date."""
    TARGET.mkdir(exist_ok=True)
    results = [
        keep(TARGET / f"{name}-{columns}-{theme}.svg", draw(lines, columns, colours))
        for name, lines, columns in pictures()
        for theme, colours in THEMES.items()
    ]
    return max(results)


if __name__ == "__main__":
    sys.exit(main())
