"""Tests of `broker_stub.offset_table`."""

from __future__ import annotations

from broker_stub.offset_table import ConsumerOffsets


def test_commits_overwrite_each_other_forth_and_back() -> None:
    """The last commit counts, whatever the queue holds."""
    offsets = ConsumerOffsets()

    assert offsets.query("g", "T", 0) is None
    for offset in (5, 1_000, 2):
        offsets.commit("g", "T", 0, offset)

    assert offsets.query("g", "T", 0) == 2
    assert offsets.queues("g", "T") == {0: 2}


def test_groups_and_topics_do_not_mix() -> None:
    """Each group has its own offset in each topic."""
    offsets = ConsumerOffsets()
    offsets.commit("g", "T", 0, 1)
    offsets.commit("h", "T", 0, 2)
    offsets.commit("g", "U", 0, 3)

    assert (offsets.topics("g"), offsets.groups("T")) == ({"T", "U"}, {"g", "h"})
    assert offsets.query("h", "U", 0) is None


def test_a_reset_holds_until_it_is_taken() -> None:
    """Until the group's next pull, queries return the reset offset, and commits are ignored."""
    offsets = ConsumerOffsets()
    offsets.commit("g", "T", 0, 90)

    offsets.reset("g", "T", 0, 10)
    offsets.commit("g", "T", 0, 95)
    assert offsets.query("g", "T", 0) == 10
    assert offsets.take_reset("g", "T", 0) == 10
    assert offsets.take_reset("g", "T", 0) is None
    assert offsets.query("g", "T", 0) == 10

    offsets.commit("g", "T", 0, 20)
    assert offsets.query("g", "T", 0) == 20


def test_a_reset_is_for_one_queue() -> None:
    """Other queues are not affected."""
    offsets = ConsumerOffsets()
    offsets.reset("g", "T", 0, 10)

    offsets.commit("g", "T", 1, 5)

    assert offsets.query("g", "T", 1) == 5
    assert offsets.take_reset("g", "T", 1) is None


def test_the_pull_offset_is_kept_apart() -> None:
    """The pull offset serves statistics and commits nothing."""
    offsets = ConsumerOffsets()
    offsets.record_pull("g", "T", 0, 32)

    assert (offsets.pull_offset_of("g", "T", 0), offsets.query("g", "T", 0)) == (32, None)
    assert offsets.pull_offset_of("g", "T", 1) is None


def test_groups_and_topics_can_be_forgotten() -> None:
    """All their offsets disappear."""
    offsets = ConsumerOffsets()
    for group, topic in (("g", "T"), ("g", "U"), ("h", "T")):
        offsets.commit(group, topic, 0, 1)
    offsets.reset("g", "T", 0, 7)

    offsets.forget_group("g")
    assert (offsets.topics("g"), offsets.query("g", "T", 0), offsets.query("h", "T", 0)) == (set(), None, 1)
    offsets.forget_topic("T")

    assert offsets.groups("T") == set()
