"""What a scenario is, and how it is run and judged.

A scenario lays one lie over the honest stub and drives one public face. It must end in time as what honest servers
would have led to, or as an error of ours; `ends` narrows that. With `apart` the face runs in a process of its own,
whose peak of memory is measured.
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

from .endings import Ending, ending_of
from .faces import FACES, QUEUES, Found, body_of, fill, truth
from .server import Behaviour, HostileCluster, Manner
from .worker import drive

DEADLINE_S = 30.0
PATIENCE_S = 30.0
APART = get_context("forkserver")
"""Starts processes from one that has imported everything and done nothing, so that their memory is their own."""
APART.set_forkserver_preload(["tests.hostile.worker"])


class Ends(Enum):
    """How a scenario may end."""

    EITHER = "right, or an error of ours"
    RIGHT = "right"
    ERROR = "an error of ours"
    TOLD = "right, or without some rows and with a warning"


@dataclass(frozen=True)
class Scenario:
    """One lie, told to one face."""

    name: str
    make: Callable[[], Manner]
    """Makes the servers' manner, which may count."""
    face: str = "batch"
    options: dict[str, str] = field(default_factory=dict)
    ends: Ends = Ends.EITHER
    tag: str = ""
    """The tag that is asked for."""
    slaves: int = 0
    shut: str = ""
    """A broker that is away."""
    codes: tuple[str, ...] = ()
    """Codes of the errors that it may end as; none: any."""
    apart: bool = False
    deadline_s: float = DEADLINE_S

    def __str__(self) -> str:
        return self.name


def lie(name: str, make: Callable[[], Behaviour], face: str = "batch", **given: Any) -> Scenario:
    """Return the scenario of servers with this behaviour; `given` are the other fields of a scenario."""
    return Scenario(name, lambda: Manner(make()), face, **given)


def assert_ends_well(scenario: Scenario) -> None:
    """Run a scenario, and raise unless it ended as it may."""
    check(scenario, run(scenario))


def run(scenario: Scenario) -> Ending:
    """Run a scenario, and return how it ended."""
    with ExitStack() as stack:
        stub = stack.enter_context(StubCluster(1, scenario.slaves, topics={TOPIC: QUEUES, "sent": QUEUES}))
        fill(stub)
        cluster = stack.enter_context(HostileCluster(stub, scenario.make()))
        if scenario.shut:
            cluster.shut(scenario.shut)
            name, number = scenario.shut.split()
            stub.faults.broker_down(name, int(number))
        options = {**_patience(scenario), **scenario.options, **({"tags": scenario.tag} if scenario.tag else {})}
        if scenario.apart:
            return _run_apart(scenario, cluster.name_server, options)
        face = FACES[scenario.face]
        return ending_of(lambda: face.call(cluster.name_server, **options), scenario.deadline_s)


def _patience(scenario: Scenario) -> dict[str, str]:
    """Return options for a loaded machine, where a scenario must not end by being slow."""
    if scenario.ends is not Ends.RIGHT:
        return {}
    return {"pollTimeoutMs": "20000", "fetchOffset.numRetries": "8"}


def check(scenario: Scenario, ending: Ending) -> None:
    """Raise unless the scenario ended as it may."""
    ending.check()
    if ending.error is not None:
        assert scenario.ends not in (Ends.RIGHT, Ends.TOLD), str(ending.error)
        assert not scenario.codes or ending.error.code in scenario.codes, str(ending.error)
        return
    assert scenario.ends is not Ends.ERROR, f"no error, but {ending.value!r:.500}"
    face = FACES[scenario.face]
    if face.is_rows:
        _check_rows(scenario, ending)
    else:
        assert ending.value == face.right


def _check_rows(scenario: Scenario, ending: Ending) -> None:
    wanted = Counter(truth(tag=scenario.tag))
    rows = Counter(map(_completed, ending.value) if scenario.options.get("mode") == "PERMISSIVE" else ending.value)
    assert not rows - wanted, f"wrong rows: {_shown(rows - wanted)}"
    if scenario.ends is Ends.TOLD and rows != wanted:
        assert any(line.startswith("WARNING") for line in ending.log), f"lost in silence: {_shown(wanted - rows)}"
        return
    assert rows == wanted, f"lost in silence: {_shown(wanted - rows)}"
    if scenario.options.get("ordering") == "queue":
        for number in range(QUEUES):
            offsets = [row.offset for row in ending.value if row.queue_id == number]
            assert offsets == sorted(offsets)


def _completed(row: Found) -> Found:
    """Return a row with the body that a tolerant reader may leave out."""
    return row._replace(body=body_of(row.queue_id, row.offset)) if row.body is None else row


def _shown(rows: Counter[Found]) -> str:
    places = sorted((row.queue_id, row.offset) for row in rows.elements())
    return f"{len(places)}, {places[:8]} ..."


def _run_apart(scenario: Scenario, name_server: str, options: dict[str, str]) -> Ending:
    """Run the face in a new process, which is killed long after its own deadline."""
    ours, theirs = APART.Pipe(duplex=False)
    task = (theirs, scenario.face, name_server, options, scenario.deadline_s)
    process = APART.Process(target=drive, args=task, daemon=True)
    process.start()
    theirs.close()
    try:
        if not ours.poll(scenario.deadline_s + PATIENCE_S):
            return Ending(foreign="the process did not end")
        ending: Ending = ours.recv()
        return ending
    except EOFError:
        process.join(PATIENCE_S)
        return Ending(foreign=f"the process ended by itself, with {process.exitcode}")
    finally:
        process.kill()
        process.join(PATIENCE_S)
        ours.close()
