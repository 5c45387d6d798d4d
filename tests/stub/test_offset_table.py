"""Tests of `broker_stub.offset_table`."""

from __future__ import annotations

from broker_stub.offset_table import ConsumerOffsets


def test_commits_overwrite_each_other_forth_and_back() -> None:
    """The last commit replaces the earlier one, whether it is higher or lower."""
    offsets = ConsumerOffsets()

    assert offsets.query("g", "T", 0) is None
    for offset in (5, 1_000, 2):
        offsets.commit("g", "T", 0, offset)

    assert offsets.query("g", "T", 0) == 2
    assert offsets.queues("g", "T") == {0: 2}


def test_groups_and_topics_do_not_mix() -> None:
    """Each group has an offset of its own in each topic."""
    offsets = ConsumerOffsets()
    offsets.commit("g", "T", 0, 1)
    offsets.commit("h", "T", 0, 2)
    offsets.commit("g", "U", 0, 3)

    assert (offsets.topics("g"), offsets.groups("T")) == ({"T", "U"}, {"g", "h"})
    assert offsets.query("h", "U", 0) is None


def test_a_reset_holds_until_it_is_taken() -> None:
    """Until a reset is taken by a pull, queries return the reset offset, and commits are ignored."""
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
    """A reset of one queue does not change the offsets of other queues."""
    offsets = ConsumerOffsets()
    offsets.reset("g", "T", 0, 10)

    offsets.commit("g", "T", 1, 5)

    assert offsets.query("g", "T", 1) == 5
    assert offsets.take_reset("g", "T", 1) is None


def test_the_pull_offset_is_kept_apart() -> None:
    """A recorded pull does not change the committed offset."""
    offsets = ConsumerOffsets()
    offsets.record_pull("g", "T", 0, 32)

    assert (offsets.pull_offset_of("g", "T", 0), offsets.query("g", "T", 0)) == (32, None)
    assert offsets.pull_offset_of("g", "T", 1) is None


def test_groups_and_topics_can_be_forgotten() -> None:
    """After `forget_group` or `forget_topic` all offsets of the group or topic are gone."""
    offsets = ConsumerOffsets()
    for group, topic in (("g", "T"), ("g", "U"), ("h", "T")):
        offsets.commit(group, topic, 0, 1)
    offsets.reset("g", "T", 0, 7)

    offsets.forget_group("g")
    assert (offsets.topics("g"), offsets.query("g", "T", 0), offsets.query("h", "T", 0)) == (set(), None, 1)
    offsets.forget_topic("T")

    assert offsets.groups("T") == set()
