"""Test how views are drawn: redrawn on a terminal, as lines elsewhere, narrow, and as pictures."""

from __future__ import annotations

import io
import re

import pytest

from pyspark_rocketmq.cli.screen import Screen
from pyspark_rocketmq.cli.views import Column, Redrawn, Table, Text
from tools.draw_terminal import THEMES, draw


class FakeTerminal(io.StringIO):
    """A terminal that keeps what is written to it."""

    def isatty(self) -> bool:
        """Return True."""
        return True


def redrawn(*numbers: int) -> Redrawn:
    """Return a view with a line for each number."""
    return Redrawn((Table((Column("number"),), [(str(each),) for each in numbers]),), f"numbers {len(numbers)}")


def test_a_view_takes_the_place_of_the_last_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a terminal the cursor goes back over the lines of the last view, and what was there is erased."""
    monkeypatch.setenv("TERM", "xterm")
    screen = Screen(FakeTerminal())
    screen.show([redrawn(1, 2)])
    screen.show([redrawn(3)])
    screen.show([redrawn(4), Text("end")])

    assert isinstance(screen.out, FakeTerminal)
    written = screen.out.getvalue()
    assert re.findall(r"\x1b\[(\d+)F\x1b\[J", written) == ["4", "3"]
    assert written.endswith("end\n")


def test_a_low_terminal_shows_the_upper_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a view that is higher than the terminal only as much is drawn as the cursor can go back over."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("LINES", "6")
    screen = Screen(FakeTerminal())
    screen.show([redrawn(*range(20))])
    screen.show([redrawn(*range(20))])

    assert isinstance(screen.out, FakeTerminal)
    written = screen.out.getvalue()
    assert re.findall(r"\x1b\[(\d+)F\x1b\[J", written) == ["5"] and written.count("\n") == 10


@pytest.mark.parametrize("is_dumb", [False, True], ids=["in a pipe", "on a dumb terminal"])
def test_elsewhere_a_view_is_a_line(monkeypatch: pytest.MonkeyPatch, is_dumb: bool) -> None:
    """In a pipe, and on a terminal without a cursor, each new line is written once."""
    monkeypatch.setenv("TERM", "dumb" if is_dumb else "xterm")
    out = FakeTerminal() if is_dumb else io.StringIO()
    screen = Screen(out)
    for view in (redrawn(1, 2), redrawn(3, 4), redrawn(5)):
        screen.show([view])

    assert out.getvalue() == "numbers 2\nnumbers 1\n"


@pytest.mark.parametrize(
    ("columns", "row"), [(20, "name-of-a-broker   7"), (19, "name-of-a-broker  7"), (15, "name-of-a-br  7")]
)
def test_columns_stand_closer_before_names_are_folded(monkeypatch: pytest.MonkeyPatch, columns: int, row: str) -> None:
    """A table that is a little too wide for the terminal loses blanks between columns, and only then folds names."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", str(columns))
    screen = Screen(FakeTerminal())
    screen.show([Table((Column("broker"), Column("id", is_number=True)), [("name-of-a-broker", "7")])])

    assert isinstance(screen.out, FakeTerminal)
    assert screen.out.getvalue().splitlines()[2] == row


def test_a_picture_has_every_word_at_its_place() -> None:
    """Each run of words is text at its column and row, with its weight and the colour of the theme."""
    picture = draw(["\x1b[1mname\x1b[0m  a < b", "\x1b[33mlost\x1b[0m"], 20, THEMES["dark"])

    found = re.findall(r'<text x="([0-9.]+)" y="(\d+)" fill="(#\w+)"( font-weight="bold")?.*?>(.*?)</text>', picture)
    assert found == [
        ("16.0", "30", "#c9d1d9", ' font-weight="bold"', "name"),
        ("66.4", "30", "#c9d1d9", "", "a &lt; b"),
        ("16.0", "50", "#d29922", "", "lost"),
    ]
    assert "http" not in picture.replace("http://www.w3.org/2000/svg", "")
