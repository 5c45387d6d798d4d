"""Test the count of modules that one message passes on each journey through the library."""

from __future__ import annotations

import pytest

from tools import count_journeys

ROOMS = {
    "read": {"source", "pull", "net", "wire", "decode"},
    "trigger": {"source", "planning", "offsets"},
    "push": {"client", "pull"},
    "option": {"options"},
}


@pytest.mark.parametrize("name", count_journeys.LIMITS)
def test_a_journey_passes_its_rooms(name: str) -> None:
    """A journey is not longer than its limit, and passes all its rooms and none that the count leaves out."""
    modules = count_journeys.count_modules(name)
    rooms = {module.partition("/")[0] for module in modules}

    assert len(modules) <= count_journeys.LIMITS[name], sorted(modules)
    assert rooms >= ROOMS[name]
    assert rooms.isdisjoint(left_out.rstrip("/") for left_out in count_journeys.LEFT_OUT.get(name, ()))


@pytest.mark.parametrize(("limit", "status"), [(0, 1), (1000, 0)])
def test_a_check_fails_above_the_limit(monkeypatch: pytest.MonkeyPatch, limit: int, status: int) -> None:
    """With `--check` the exit status is 1 if a journey has more modules than its limit; without, it is 0."""
    monkeypatch.setitem(count_journeys.LIMITS, "option", limit)

    assert count_journeys.main(["--check", "option"]) == status
    assert count_journeys.main(["option"]) == 0
