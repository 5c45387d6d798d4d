"""Define scenarios, run them, and check their outcomes.

A scenario distorts the stub's responses in one way and calls one public entry point. The call must end in time, either
with the result that honest servers lead to, or with an error of the library; `allowed` may permit only one of these.
With `own_process` the entry point runs in a process of its own, whose peak of memory is measured.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from enum import Enum
from multiprocessing import get_context
from typing import Any

from broker_stub import StubCluster
from tests.source.driving import TOPIC

from .call_outcome import CallOutcome, run_call
from .entry_points import ENTRY_POINTS, QUEUES, Found, body_of, expected_rows, fill
from .server import Behaviour, HostileCluster, ServerFaults
from .worker import drive

DEADLINE_S = 30.0
GRACE_S = 30.0
FORK_SERVER = get_context("forkserver")
"""Starts processes from one that has only imported the modules, so the measured memory is the scenario's own."""
FORK_SERVER.set_forkserver_preload(["tests.hostile.worker"])


class Allowed(Enum):
    """The outcomes that pass a scenario."""

    EITHER = "right, or an error of ours"
    RIGHT = "right"
    ERROR = "an error of ours"
    WARNED = "right, or without some rows and with a warning"


@dataclass(frozen=True)
class Scenario:
    """One distortion of responses, and the entry point that is called against it."""

    name: str
    make: Callable[[], ServerFaults]
    """Returns new `ServerFaults`; they may have state, so each run makes its own."""
    entry_point: str = "batch"
    options: dict[str, str] = field(default_factory=dict)
    allowed: Allowed = Allowed.EITHER
    tag: str = ""
    """Tag by which the read filters; empty: no filter."""
    slaves: int = 0
    shut: str = ""
    """Name and id of a broker process that is down, such as `broker-a 0`; empty: none."""
    codes: tuple[str, ...] = ()
    """Error codes that are allowed; empty: any code."""
    own_process: bool = False
    deadline_s: float = DEADLINE_S

    def __str__(self) -> str:
        return self.name


def scenario_of(name: str, make: Callable[[], Behaviour], entry_point: str = "batch", **given: Any) -> Scenario:
    """Return the scenario of servers with the behaviour that `make` returns; `given` sets further fields."""
    return Scenario(name, lambda: ServerFaults(make()), entry_point, **given)


def run_and_check(scenario: Scenario) -> None:
    """Run a scenario; raise unless its outcome is one that the scenario allows."""
    check(scenario, run(scenario))


def run(scenario: Scenario) -> CallOutcome:
    """Run a scenario against a new stub, and return its outcome without judging it."""
    with ExitStack() as stack:
        stub = stack.enter_context(StubCluster(1, scenario.slaves, topics={TOPIC: QUEUES, "sent": QUEUES}))
        fill(stub)
        cluster = stack.enter_context(HostileCluster(stub, scenario.make()))
        if scenario.shut:
            cluster.shut(scenario.shut)
            name, number = scenario.shut.split()
            stub.faults.broker_down(name, int(number))
        options = {**_long_timeouts(scenario), **scenario.options, **({"tags": scenario.tag} if scenario.tag else {})}
        if scenario.own_process:
            return _run_in_own_process(scenario, cluster.name_server, options)
        entry_point = ENTRY_POINTS[scenario.entry_point]
        return run_call(lambda: entry_point.call(cluster.name_server, **options), scenario.deadline_s)


def _long_timeouts(scenario: Scenario) -> dict[str, str]:
    """Return options with long timeouts if the scenario must succeed, else no options."""
    if scenario.allowed is not Allowed.RIGHT:
        return {}
    return {"pollTimeoutMs": "20000", "fetchOffset.numRetries": "8"}


def check(scenario: Scenario, outcome: CallOutcome) -> None:
    """Raise unless the scenario allows this outcome."""
    outcome.check()
    if outcome.error is not None:
        assert scenario.allowed not in (Allowed.RIGHT, Allowed.WARNED), str(outcome.error)
        assert not scenario.codes or outcome.error.code in scenario.codes, str(outcome.error)
        return
    assert scenario.allowed is not Allowed.ERROR, f"no error, but {outcome.value!r:.500}"
    entry_point = ENTRY_POINTS[scenario.entry_point]
    if entry_point.is_rows:
        _check_rows(scenario, outcome)
    else:
        assert outcome.value == entry_point.right


def _check_rows(scenario: Scenario, outcome: CallOutcome) -> None:
    wanted = Counter(expected_rows(tag=scenario.tag))
    rows = Counter(map(_completed, outcome.value) if scenario.options.get("mode") == "PERMISSIVE" else outcome.value)
    assert not rows - wanted, f"wrong rows: {_shown(rows - wanted)}"
    if scenario.allowed is Allowed.WARNED and rows != wanted:
        assert any(line.startswith("WARNING") for line in outcome.log), f"lost in silence: {_shown(wanted - rows)}"
        return
    assert rows == wanted, f"lost in silence: {_shown(wanted - rows)}"
    if scenario.options.get("ordering") == "queue":
        for number in range(QUEUES):
            offsets = [row.offset for row in outcome.value if row.queue_id == number]
            assert offsets == sorted(offsets)


def _completed(row: Found) -> Found:
    """Return the row; if PERMISSIVE mode has set its body to None, return it with the stored body."""
    return row._replace(body=body_of(row.queue_id, row.offset)) if row.body is None else row


def _shown(rows: Counter[Found]) -> str:
    places = sorted((row.queue_id, row.offset) for row in rows.elements())
    return f"{len(places)}, {places[:8]} ..."


def _run_in_own_process(scenario: Scenario, name_server: str, options: dict[str, str]) -> CallOutcome:
    """Run the entry point in a new process and return its outcome; kill the process if it outlives its deadline."""
    ours, theirs = FORK_SERVER.Pipe(duplex=False)
    task = (theirs, scenario.entry_point, name_server, options, scenario.deadline_s)
    process = FORK_SERVER.Process(target=drive, args=task, daemon=True)
    process.start()
    theirs.close()
    try:
        if not ours.poll(scenario.deadline_s + GRACE_S):
            return CallOutcome(foreign="the process did not end")
        outcome: CallOutcome = ours.recv()
        return outcome
    except EOFError:
        process.join(GRACE_S)
        return CallOutcome(foreign=f"the process ended by itself, with {process.exitcode}")
    finally:
        process.kill()
        process.join(GRACE_S)
        ours.close()
