"""The examples on the page about the JSON of offsets are what the parsers take."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pyspark_rocketmq.cli.positions import read_file
from pyspark_rocketmq.errors import OptionError
from pyspark_rocketmq.model import MessageQueue
from pyspark_rocketmq.offsets.position import parse_position
from pyspark_rocketmq.offsets.requested import AtTime, Keyword, QueueTree
from pyspark_rocketmq.options.queue_json import read_assignment, read_offsets, read_times
from pyspark_rocketmq.options.values import OptionText
from tools.page_blocks import ROOT, find_blocks

PAGE = ROOT / "docs" / "reference" / "offsets-json.md"
OTHER, FIRST, SECOND = (MessageQueue("orders", *place) for place in (("broker-b", 7), ("broker-a", 0), ("broker-a", 1)))
NOW_MS = 1769817600000
"""The first moment of 31 January 2026."""


def examples(title: str) -> list[str]:
    """Return the JSON blocks below a heading of the page."""
    return [block.text for block in find_blocks(PAGE) if (block.heading, block.language) == (title, "json")]


def text(value: str) -> OptionText:
    """Return an option's value, given at `NOW_MS`."""
    return OptionText("startingOffsets", value.strip(), NOW_MS)


def test_offsets_by_queue_mean_what_the_page_says() -> None:
    """The exact key outranks the star; -1 and -2 stand for words."""
    plain, starred = (read_offsets(text(each)) for each in examples("Offsets by queue"))

    assert isinstance(plain, QueueTree) and isinstance(starred, QueueTree)
    assert [plain.target(queue) for queue in (FIRST, SECOND, OTHER)] == [120, 300, None]
    assert [starred.target(queue) for queue in (FIRST, SECOND, OTHER)] == [120, Keyword.LATEST, Keyword.EARLIEST]


def test_the_numbers_of_words_are_those_of_the_page() -> None:
    """Each row of the table of numbers has the keyword's number and name."""
    rows = dict(re.findall(r"^\| (-\d) \| `(\w+)` \|", PAGE.read_text(), flags=re.MULTILINE))

    assert rows == {str(keyword.value): str(keyword) for keyword in Keyword}


def test_times_by_queue_mean_what_the_page_says() -> None:
    """A time may stand for a topic or a queue, as a number or as text."""
    [example] = examples("Times by queue")
    times = read_times(text(example))

    assert times.target(OTHER) == AtTime(NOW_MS)
    assert times.target(MessageQueue("payments", "broker-a", 0)) == AtTime(NOW_MS)
    assert times.target(MessageQueue("payments", "broker-a", 3)) == AtTime(NOW_MS - 2 * 3600 * 1000)


@pytest.mark.parametrize(
    ("title", "read"),
    [
        ("Lists of queues", lambda example: read_assignment(text(example))),
        ("In a checkpoint", parse_position),
    ],
)
def test_other_examples_are_read(title: str, read: Callable[[str], Any]) -> None:
    """Lists of queues and positions of a checkpoint are read as they stand."""
    [example] = examples(title)

    assert read(example) is not None


def test_a_file_of_positions_is_read(tmp_path: Path) -> None:
    """The example of an exported file names its cluster, and holds positions."""
    (tmp_path / "etl.json").write_text(examples("In a file of positions")[0])

    found = read_file(str(tmp_path / "etl.json"))

    assert found.is_export and found.origin == (("ns-1:9876",), ("DefaultCluster",))
    assert found.tree.target(SECOND) == 480


def test_kafkas_form_is_refused_with_the_right_one() -> None:
    """JSON without the level of brokers is refused; the advice has it with a star in that place."""
    with pytest.raises(OptionError, match=re.escape('{"orders": {"*": {"0": 120}}}')):
        read_offsets(text('{"orders": {"0": 120}}'))
