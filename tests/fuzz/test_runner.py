"""Test that the runner finds what targets do wrong, and that each finding can be repeated."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from pyspark_rocketmq.errors import MalformedFrame

from . import runner
from .mutations import Mutator
from .runner import Finding, Target, repeat_attempt, run_target

SECONDS = 0.2


def make_number(mutator: Mutator) -> int:
    """Return one of ten numbers."""
    return mutator.upto(9)


def target(check: Callable[[int], object]) -> Target:
    """Return a target whose inputs are numbers from 0 to 9."""
    return Target("numbers", make_number, check)


def test_a_target_without_faults_is_attempted_until_the_time_is_over() -> None:
    """Results and errors of the library are right outcomes, so the runner goes on."""

    def check(number: int) -> None:
        if number % 2:
            raise MalformedFrame("odd")

    assert run_target(target(check), "s", SECONDS) > 10


def test_a_foreign_exception_is_found_and_can_be_repeated() -> None:
    """The finding names target, exception and input; seed and attempt in its text lead to the same finding."""
    divide = target(lambda number: 1 // (number - 7))
    with pytest.raises(Finding, match=r"numbers: ZeroDivisionError(.|\n)*input: 7\n") as found:
        run_target(divide, "s", SECONDS)

    again = str(found.value).rpartition("FUZZ_ATTEMPT=")[2].split()[0]
    with pytest.raises(Finding, match="input: 7"):
        repeat_attempt(divide, "s", int(again))


def test_an_error_of_the_library_without_its_code_is_found() -> None:
    """An error whose text does not open with its code is a finding."""

    class Mute(MalformedFrame):
        def __str__(self) -> str:
            return ""

    def check(number: int) -> None:
        raise Mute("odd")

    with pytest.raises(Finding, match="without its code"):
        run_target(target(check), "s", SECONDS)


def test_a_slow_attempt_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """An attempt that takes more CPU than the limit is a finding, although it ends well."""
    monkeypatch.setattr(runner, "MOST_CPU_S", 0.01)

    def check(number: int) -> None:
        end = time.process_time() + 0.02
        while time.process_time() < end:
            pass

    with pytest.raises(Finding, match=r"of CPU, the limit is 0.01 s"):
        run_target(target(check), "s", SECONDS)


def test_an_attempt_that_never_ends_is_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    """An endless loop that catches every exception is interrupted and is a finding."""
    monkeypatch.setattr(runner, "WALL_TIMEOUT_S", 0.05)

    def check(number: int) -> None:
        while True:
            try:
                time.sleep(1)
            except Exception:
                continue

    with pytest.raises(Finding, match="did not end"):
        run_target(target(check), "s", SECONDS)


def test_memory_that_is_kept_is_found() -> None:
    """A target that keeps a little memory at each attempt is found once it keeps more than the limit."""
    kept = []

    with pytest.raises(Finding, match=r"memory has grown by 3\d\d MiB"):
        run_target(target(lambda number: kept.append(b"x" * 2**22)), "s", 10.0)


def test_a_request_for_huge_memory_fails_at_once() -> None:
    """A target that reserves gigabytes because of its input gets an exception instead, which is a finding."""
    with pytest.raises(Finding, match="MemoryError"):
        run_target(target(lambda number: len(bytearray(2**33))), "s", SECONDS)


def test_equal_seeds_give_equal_inputs() -> None:
    """The inputs of every target depend on seed and attempt alone."""
    from .test_fuzz import TARGETS

    for each in TARGETS:
        first, second = (each.make(Mutator(f"s {each.name} 1")) for _ in range(2))
        assert repr(first) == repr(second), each.name
