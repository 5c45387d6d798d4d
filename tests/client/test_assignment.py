"""Test the table of the queues that a member holds."""

from __future__ import annotations

from pyspark_rocketmq.client.assignment import Assigned, AssignmentTable
from tests.client.fixtures import ManualClock, queue


def assigned(number: int) -> Assigned:
    """Return the state of a queue that was just taken."""
    return Assigned(queue(number), 5, orderly=False, clock=ManualClock().now_s)


def test_a_queue_that_was_just_taken_has_no_history() -> None:
    """A new queue is read from its offset at the master, is not paused, and nobody has tried to unlock it."""
    new = assigned(0)

    assert (new.next_offset, new.suggested_broker_id, new.unlock_attempts) == (5, 0, 0)
    assert not (new.started_in_order or new.is_paused or new.is_lost() or new.process_queue.orderly)
    assert new.backoff is None and new.pull_template is None
    new.process_queue.dropped = True
    assert new.is_lost()


def test_a_table_holds_the_newest_state_of_each_queue() -> None:
    """A state is found by queue or topic, and only the state that the table has can be replaced or removed."""
    table, old, new = AssignmentTable(), assigned(0), assigned(0)
    other = Assigned(queue(0)._replace(topic="refunds"), 0, orderly=False, clock=ManualClock().now_s)
    table.add(old)
    table.add(other)
    assert (len(table), table.get(queue(0)), table.get(queue(1))) == (2, old, None)
    assert table.all(other.queue.topic) == [other] and table.all() == [old, other]
    assert table.queues() == [queue(0), other.queue]

    assert table.replace(old, new) and not table.replace(old, assigned(0))
    table.remove(old)
    assert table.get(queue(0)) is new
    table.remove(new)
    assert table.queues() == [other.queue]
