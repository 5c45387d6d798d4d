"""Scenarios of half messages whose transactions end late, twice, wrongly or never.

A sink that commits transactions builds on these rules; docs/broker-rules.md lists them by version. The brokers check
half messages every two seconds, and give them up after `CHECK_MAX` checks.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from pyspark_rocketmq.broker_errors import IllegalOperation
from pyspark_rocketmq.errors import BrokerError
from pyspark_rocketmq.wire.batch import BatchEntry, encode_batch
from pyspark_rocketmq.wire.properties import encode_properties
from tests.flows.half_messages import (
    CHECK_MAX,
    COMMIT,
    GIVEN_UP_TOPIC,
    LONG_AGO_MS,
    ROLLBACK,
    end,
    prepare,
    records_of,
    watching,
)
from tests.flows.world import World, fresh, sending, until

# --- ends ------------------------------------------------------------------------------------------------------------


def second_commit_makes_a_second_message(world: World) -> None:
    """Check that a second COMMIT stores a message twice: brokers do not look whether its half was ended before."""
    half = prepare(world)

    end(world.cluster, half, COMMIT)
    end(world.cluster, half, COMMIT)

    records = world.await_messages(half.queue, 2)
    assert [record.body for record in records] == [b"half"] * 2
    assert [record.prepared_transaction_offset for record in records] == [half.physical_offset] * 2


def commit_after_rollback_makes_a_message(world: World) -> None:
    """Check that a half message that was rolled back can be committed all the same."""
    half = prepare(world)

    end(world.cluster, half, ROLLBACK)
    end(world.cluster, half, COMMIT)

    [record] = world.await_messages(half.queue)
    assert record.body == b"half"


def any_connection_ends_a_transaction(world: World) -> None:
    """Check that END needs the group's name and both offsets, but neither the sender's connection nor a heartbeat."""
    half = prepare(world)

    with world.shared_cluster() as stranger:
        for wrong, remark in {
            replace(half, group=fresh("group")): "producer group wrong",
            replace(half, queue_offset=half.queue_offset + 1): "state table offset wrong",
            replace(half, physical_offset=half.physical_offset + 2**40): "Find prepared transaction message failed",
        }.items():
            with pytest.raises(BrokerError, match=remark):
                end(stranger, wrong, COMMIT)
        end(stranger, half, COMMIT)

    assert [record.body for record in world.await_messages(half.queue)] == [b"half"]


def committed_message_names_its_half(world: World) -> None:
    """Check that a committed message carries the commit-log offset of its half; a plain message carries 0."""
    queue = world.make_queue()
    halves = [prepare(world, queue, body=b"%d" % number) for number in range(3)]

    for half in (halves[2], halves[0]):
        end(world.cluster, half, COMMIT)
    world.await_end(queue, 2)
    world.send(queue, b"plain")

    found = [(record.body, record.prepared_transaction_offset) for record in world.read(queue)]
    assert found == [(b"2", halves[2].physical_offset), (b"0", halves[0].physical_offset), (b"plain", 0)]


def commits_keep_their_order(world: World) -> None:
    """Check that messages lie in the order of their COMMITs if only one request is in flight."""
    queue = world.make_queue()
    halves = [prepare(world, queue, body=b"%d" % number) for number in range(30)]

    for half in reversed(halves):
        end(world.cluster, half, COMMIT)

    bodies = [int(record.body) for record in world.await_messages(queue, 30)]
    assert bodies == list(reversed(range(30)))


# --- half messages that are more than that ---------------------------------------------------------------------------


def delayed_half_message_is_lost(world: World) -> None:
    """Check that COMMIT of a half message with a delay level succeeds, and that the message never arrives."""
    half = prepare(world, DELAY="1")

    end(world.cluster, half, COMMIT)
    world.cluster.messages.send(sending(half.queue, b"plain", {"DELAY": "1"}))

    assert [record.body for record in world.await_messages(half.queue)] == [b"plain"]


def timed_half_message_is_lost(world: World) -> None:
    """Check that 5.x accepts COMMIT of a half message with a delivery time, too, which then never arrives.

    4.9 knows no delivery times, and delivers the message at once.
    """
    half = prepare(world, TIMER_DELAY_MS="1000")

    end(world.cluster, half, COMMIT)
    world.cluster.messages.send(sending(half.queue, b"plain", {"TIMER_DELAY_MS": "2500"}))

    arriving = world.by_version({"4.9": [b"half", b"plain"], "5": [b"plain"]})
    assert [record.body for record in world.await_messages(half.queue, len(arriving))] == arriving


def batch_is_no_transaction(world: World) -> None:
    """Check that the messages of a batch are visible at once, although they are marked as half messages."""
    queue = world.make_queue()
    properties = {"TRAN_MSG": "true", "PGROUP": fresh("group")}
    entries = [BatchEntry(b"%d" % n, encode_properties({**properties, "UNIQ_KEY": fresh("id")})) for n in range(2)]
    batch = sending(queue, encode_batch(entries), properties)

    world.store(replace(batch, is_batch=True))

    assert [record.body for record in world.await_messages(queue, 2)] == [b"0", b"1"]


# --- checks ----------------------------------------------------------------------------------------------------------


def each_check_writes_the_half_anew(world: World) -> None:
    """Check that a half message that nobody ends is written 1 + checkMax times, and is then given up by a copy.

    In RocksDB mode it is written once, checked once more, and forgotten without a copy.
    """
    is_written_anew, checks = world.by_version({"5.5.0-rocksdb": (False, CHECK_MAX + 1), "": (True, CHECK_MAX)})
    with watching(world) as producer:
        half = producer.prepare()
        producer.await_checks(half, checks)
        producer.await_pass()
        producer.await_pass()
        asked_about = [check.commit_log_offset for check in producer.checks(half)]

    written = [record.physical_offset for record in records_of(world, half)]
    assert len(asked_about) == checks
    assert written == [half.physical_offset, *(asked_about if is_written_anew else [])]
    assert len(records_of(world, half, GIVEN_UP_TOPIC)) == is_written_anew


def given_up_half_message_still_commits(world: World) -> None:
    """Check that END has no deadline: a half message that was given up is committed by its own address."""
    with watching(world) as producer:
        half = producer.prepare()
        producer.await_checks(half, world.by_version({"5.5.0-rocksdb": CHECK_MAX + 1, "": CHECK_MAX}))
        producer.await_pass()
        producer.await_pass()

    end(world.cluster, half, COMMIT)

    [record] = world.await_messages(half.queue)
    assert record.prepared_transaction_offset == half.physical_offset


def commit_as_answer_commits_the_copy(world: World) -> None:
    """Check that a message committed by the answer to a check names the copy, not the half that its sender knows.

    The copy has lost the message's flag. In RocksDB mode there is no copy. Either way a property tells the number of
    checks.
    """
    with watching(world) as producer:
        half = producer.prepare(flag=7)
        check = producer.await_checks(half)[0]
        producer.answer(half, check, COMMIT)

    [record] = world.await_messages(half.queue)
    asked = check.commit_log_offset
    found = record.prepared_transaction_offset, record.flag, record.properties.get("TRANSACTION_CHECK_TIMES")
    assert found == world.by_version({"5.5.0-rocksdb": (half.physical_offset, 7, "1"), "": (asked, 0, "1")})
    assert (asked == half.physical_offset) == world.by_version({"5.5.0-rocksdb": True, "": False})


def rollback_as_answer_ends_the_checks(world: World) -> None:
    """Check that ROLLBACK as the answer to a check ends the checks, and that the original can be committed later."""
    with watching(world) as producer:
        half, answered = producer.prepare(), 0
        while unanswered := producer.await_checks(half)[answered:]:  # More than one if a check overtakes our answer.
            for check in unanswered:
                producer.answer(half, check, ROLLBACK)
            answered += len(unanswered)
            producer.await_pass()
        producer.await_pass()
        assert len(producer.checks(half)) == answered < CHECK_MAX

    assert records_of(world, half, GIVEN_UP_TOPIC) == []
    end(world.cluster, half, COMMIT)
    assert [record.body for record in world.await_messages(half.queue)] == [b"half"]


def commit_of_the_original_leaves_its_copy(world: World) -> None:
    """Check that COMMIT of a half message that was checked before does not end the checks, which are about a copy.

    In RocksDB mode there is no copy, and COMMIT ends the checks.
    """
    with watching(world) as producer:
        half = producer.prepare()
        producer.await_checks(half)
        end(world.cluster, half, COMMIT)
        checks = len(producer.checks(half))
        for _ in range(CHECK_MAX):
            producer.await_pass()
        assert len(producer.checks(half)) == world.by_version({"5.5.0-rocksdb": checks, "": CHECK_MAX})

    assert [record.body for record in world.await_messages(half.queue)] == [b"half"]


def immune_half_message_is_given_up_unchecked(world: World) -> None:
    """Check that CHECK_IMMUNITY_TIME_IN_SECONDS does harm: the broker counts checks that it does not send.

    The half message is written anew in each pass, and given up without one check. In RocksDB mode it is not touched.
    """
    is_written_anew = world.by_version({"5.5.0-rocksdb": False, "": True})
    with watching(world) as producer:
        half = producer.prepare(CHECK_IMMUNITY_TIME_IN_SECONDS="1000")
        for _ in range(CHECK_MAX + 1):
            producer.await_pass()
        assert producer.checks(half) == []

    assert len(records_of(world, half)) == 1 + CHECK_MAX * is_written_anew
    assert len(records_of(world, half, GIVEN_UP_TOPIC)) == is_written_anew


def commit_of_an_immune_original_leaves_its_copy(world: World) -> None:
    """Check that a half message with an immunity time that was written anew is given up although it was committed.

    In RocksDB mode there is no copy.
    """
    is_written_anew = world.by_version({"5.5.0-rocksdb": False, "": True})
    with watching(world) as producer:
        half = producer.prepare(CHECK_IMMUNITY_TIME_IN_SECONDS="1000")
        producer.await_pass()
        end(world.cluster, half, COMMIT)
        for _ in range(CHECK_MAX):
            producer.await_pass()

    assert [record.body for record in world.await_messages(half.queue)] == [b"half"]
    assert len(records_of(world, half, GIVEN_UP_TOPIC)) == is_written_anew


def commit_after_the_immunity_time_is_refused(world: World) -> None:
    """Check that 5.x refuses a COMMIT after a half message's own immunity time, unless it claims to answer a check."""
    half = prepare(world, age_ms=LONG_AGO_MS, CHECK_IMMUNITY_TIME_IN_SECONDS="30")

    if world.by_version({"4.9": False, "5": True}):
        with pytest.raises(IllegalOperation):
            end(world.cluster, half, COMMIT)
    end(world.cluster, half, COMMIT, is_checked=True)

    assert [record.body for record in world.await_messages(half.queue)] == [b"half"]


def half_message_older_than_the_log_is_given_up(world: World) -> None:
    """Check that a half message born before the log's retention (72 h) is given up without a check, but commits.

    In RocksDB mode its age does not count.
    """
    with watching(world) as producer:
        half = prepare(world, producer.queue, group=producer.group, age_ms=73 * 3600 * 1000)
        producer.await_pass()
        is_checked = bool(producer.checks(half))

    assert is_checked == world.by_version({"5.5.0-rocksdb": True, "": False})
    until(lambda: len(records_of(world, half, GIVEN_UP_TOPIC)) == (not is_checked), f"{half} is given up")
    end(world.cluster, half, COMMIT)
    assert [record.body for record in world.await_messages(half.queue)] == [b"half"]
