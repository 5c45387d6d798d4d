"""A pull consumer returns messages when its user calls `poll`."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from itertools import islice

import pytest

from pyspark_rocketmq.client.message import ReceivedMessage
from pyspark_rocketmq.client.pull_consumer import PullConsumer
from pyspark_rocketmq.client.settings import MessageModel
from pyspark_rocketmq.errors import GroupError, LocalProtocolError, OptionError
from pyspark_rocketmq.pull.process_queue import FlowLimits
from tests.client.fixtures import GROUP, TIMEOUT_S, TOPIC, Group, queue, until


def poll_all(consumer: PullConsumer, count: int) -> list[ReceivedMessage]:
    """Call `poll` until it has returned at least `count` messages altogether, and return them."""
    end, messages = time.monotonic() + TIMEOUT_S, list[ReceivedMessage]()
    while len(messages) < count:
        assert time.monotonic() < end, f"{len(messages)} of {count} messages"
        messages.extend(consumer.poll(0.1))
    return messages


def _held(member: PullConsumer) -> int:
    """Return how many queues of the topic a consumer holds."""
    return sum(each.topic == TOPIC for each in member.queues)


def test_members_of_a_group_share_what_they_ask_for(group: Group) -> None:
    """Two pull consumers of one group hold two queues each, and together they return all messages."""
    first = group.pulling()
    until(lambda: _held(first) == 4)  # Otherwise both may hold one queue for a moment.
    second = group.pulling()
    until(lambda: [_held(first), _held(second)] == [2, 2])
    group.put(*map(str, range(20)))

    bodies = {message.body for each in (first, second) for message in poll_all(each, 10)}
    assert len(bodies) == 20


def test_messages_are_done_with_the_next_poll(make_group: Callable[..., Group]) -> None:
    """With auto-commit a message is committed after the next call of `poll`, not before."""
    group = make_group(queues=1)
    consumer = group.pulling()
    group.put("a")
    poll_all(consumer, 1)
    until(lambda: 0 in group.committed() or consumer.queues)
    assert group.committed().get(0, 0) == 0

    consumer.poll(0.0)
    until(lambda: group.committed().get(0) == 1)


def test_a_failure_leaves_the_last_batch_to_others(make_group: Callable[..., Group]) -> None:
    """If the `with` block ends by an exception, the last batch is not committed, and another consumer gets it."""
    group = make_group(queues=1)
    group.put("a")
    failing = PullConsumer(group.cluster_settings, group.pull_settings())
    with pytest.raises(ZeroDivisionError), failing:
        poll_all(failing, 1)
        raise ZeroDivisionError

    assert group.committed().get(0, 0) == 0
    assert [message.body for message in poll_all(group.pulling(), 1)] == [b"a"]


def test_leaving_in_peace_commits_the_last_batch(make_group: Callable[..., Group]) -> None:
    """If the consumer is closed without an exception, the last batch is committed."""
    group = make_group(queues=1)
    group.put("a")
    consumer = group.pulling()
    poll_all(consumer, 1)
    consumer.close()

    until(lambda: group.committed().get(0) == 1)


def test_assigned_queues_belong_to_no_group_of_members(group: Group) -> None:
    """A consumer with assigned queues reads them without sending heartbeats, so brokers list no member."""
    group.put("a", queue_id=1)
    group.put("b", queue_id=2)
    consumer = group.pulling(subscriptions={})
    assert consumer.fetch_queues(TOPIC) == tuple(map(queue, range(4)))
    consumer.assign([queue(1)])

    assert [message.body for message in poll_all(consumer, 1)] == [b"a"]
    assert group.stub.groups() == {}
    consumer.assign([queue(2)])
    assert [message.body for message in poll_all(consumer, 1)] == [b"b"]
    assert consumer.queues == (queue(2),)


def test_only_a_commit_counts_if_so_set(make_group: Callable[..., Group]) -> None:
    """Without auto-commit the position moves only by `commit`, and the new one is stored when `commit` returns."""
    group = make_group(queues=1)
    group.put("a", "b")
    consumer = group.pulling(subscriptions={}, auto_commit=False)
    consumer.assign([queue(0)])
    poll_all(consumer, 2)
    consumer.poll(0.2)
    assert consumer.committed(queue(0)) in (None, 0)

    consumer.commit()
    assert consumer.committed(queue(0)) == 2
    consumer.commit({queue(0): 1})
    assert consumer.committed(queue(0)) == 1


def test_filtered_messages_are_not_committed_by_themselves(make_group: Callable[..., Group]) -> None:
    """Without auto-commit the position does not pass messages left out by the filter until `commit` is called."""
    group = make_group(queues=1)
    group.stub.fill(TOPIC, 2000, 10, tags="other")
    group.put("mine", tags="mine")
    consumer = group.pulling(auto_commit=False, tags="mine")
    poll_all(consumer, 1)
    consumer.poll(0.2)
    assert group.committed().get(0, 0) == 0

    consumer.commit()
    assert group.committed()[0] == 2001


def test_seeking_goes_on_elsewhere(make_group: Callable[..., Group]) -> None:
    """After `seek`, `poll` returns messages from that offset on, and cached messages are discarded."""
    group = make_group(queues=1)
    group.stub.fill(TOPIC, 100, 10)
    consumer = group.pulling(subscriptions={})
    consumer.assign([queue(0)])
    poll_all(consumer, 1)

    consumer.seek(queue(0), 90)
    assert [message.offset for message in poll_all(consumer, 10)] == list(range(90, 100))
    consumer.seek(queue(0), 5)
    assert poll_all(consumer, 1)[0].offset == 5


def test_seeking_a_time_finds_its_first_message(make_group: Callable[..., Group]) -> None:
    """After `seek_to_time`, `poll` returns the first message that was stored at or after that time."""
    group = make_group(queues=1)
    for stored_ms in (1_000, 2_000, 3_000):
        group.stub.put(TOPIC, b"%d" % stored_ms, queue_id=0, store_timestamp=stored_ms)
    consumer = group.pulling(subscriptions={})
    consumer.assign([queue(0)])
    consumer.seek_to_time(queue(0), 2_500)

    assert poll_all(consumer, 1)[0].body == b"3000"


def test_offsets_and_times_to_seek_have_63_bits(make_group: Callable[..., Group]) -> None:
    """A negative offset or time, and one that does not fit into 63 bits, is refused; the largest ones are not."""
    group = make_group(queues=1)
    group.put("a")
    consumer = group.pulling(subscriptions={})
    consumer.assign([queue(0)])
    consumer.pause([queue(0)])  # A pull behind the queue's end would move the position meanwhile.
    for seek in (consumer.seek, consumer.seek_to_time):
        for wrong in (-1, 2**63):
            with pytest.raises(OptionError, match="out of range"):
                seek(queue(0), wrong)
        seek(queue(0), 0)
        seek(queue(0), 2**63 - 1)


def test_seeking_outside_the_queue_is_mended(make_group: Callable[..., Group]) -> None:
    """If `seek` goes to an offset that retention has deleted, `poll` returns the first existing message."""
    group = make_group(queues=1)
    group.stub.fill(TOPIC, 10, 10)
    group.stub.expire(TOPIC, 0, 8)
    consumer = group.pulling(subscriptions={})
    consumer.assign([queue(0)])
    consumer.seek(queue(0), 3)

    assert [message.offset for message in poll_all(consumer, 2)] == [8, 9]


def test_a_paused_queue_hands_out_nothing(group: Group) -> None:
    """`poll` returns no messages of a paused queue until `resume`, but those of other queues."""
    consumer = group.pulling(subscriptions={})
    consumer.assign([queue(0), queue(1)])
    consumer.pause([queue(0)])
    group.put("paused", queue_id=0)
    group.put("going on", queue_id=1)
    assert [message.body for message in poll_all(consumer, 1)] == [b"going on"]
    assert not consumer.poll(0.2)

    consumer.resume([queue(0)])
    assert [message.body for message in poll_all(consumer, 1)] == [b"paused"]


def test_what_is_not_asked_for_stays_within_limits(make_group: Callable[..., Group]) -> None:
    """Without calls of `poll` the cache exceeds its limit by at most one pull."""
    group = make_group(queues=1)
    group.stub.fill(TOPIC, 500, 10)
    consumer = group.pulling(subscriptions={}, limits=FlowLimits(message_count=40))
    consumer.assign([queue(0)])
    cached = consumer._member.table.get(queue(0)).process_queue  # type: ignore[union-attr]
    until(lambda: cached.message_count > 40)

    assert cached.message_count <= 40 + 32
    assert len(poll_all(consumer, 500)) == 500


def test_iterating_hands_out_everything(make_group: Callable[..., Group]) -> None:
    """Iterating over a pull consumer yields its messages."""
    group = make_group(queues=1)
    group.put("a", "b", "c")
    consumer = group.pulling()

    assert [message.body for message in islice(consumer, 3)] == [b"a", b"b", b"c"]


def test_broadcasting_keeps_its_positions_in_a_file(group: Group) -> None:
    """If a broadcasting consumer commits, `committed` reads the position from its file, and brokers store none."""
    consumer = group.pulling(message_model=MessageModel.BROADCASTING)
    group.put("a", queue_id=0)
    poll_all(consumer, 1)
    consumer.commit()

    assert consumer.committed(queue(0)) == 1
    assert group.stub.offsets(GROUP) == {}


def test_what_is_not_ours_is_refused(group: Group) -> None:
    """`seek` in a queue that is not held, and `assign` on a consumer with subscriptions, raise errors."""
    consumer = group.pulling()
    with pytest.raises(GroupError) as refused:
        consumer.seek(queue(77), 0)
    assert (refused.value.where["queue_id"], refused.value.where["group"]) == (77, GROUP)
    with pytest.raises(LocalProtocolError, match="without subscriptions"):
        consumer.assign([queue(0)])


def test_a_commit_leaves_out_what_was_lost(make_group: Callable[..., Group]) -> None:
    """If a consumer has lost a queue, its `commit` does not change the position that the new owner has committed."""
    group = make_group(queues=2)
    group.stub.fill(TOPIC, 8, 10)
    first = group.pulling(auto_commit=False)
    poll_all(first, 8)
    assert not first.poll(0.0)
    second = group.pulling(auto_commit=False, pull_batch_size=1)
    until(lambda: _held(first) == 1)
    [kept] = [each.queue_id for each in first.queues if each.topic == TOPIC]
    poll_all(second, 2)
    second.commit()

    first.commit()
    assert dict(group.committed()) == {kept: 4, 1 - kept: 2}


def test_what_is_done_goes_back_with_a_queue_that_was_lost(make_group: Callable[..., Group]) -> None:
    """If a queue is assigned again at an earlier position, `commit` stores the position reached since then."""
    group = make_group(queues=1)
    group.stub.fill(TOPIC, 5, 10)
    consumer = group.pulling(subscriptions={}, auto_commit=False, pull_batch_size=1)
    consumer.assign([queue(0)])
    poll_all(consumer, 5)
    consumer.assign([])
    consumer.assign([queue(0)])
    poll_all(consumer, 2)

    consumer.commit()
    assert consumer.committed(queue(0)) == 2


def test_polling_ends_with_the_consumer(group: Group) -> None:
    """If the consumer is closed, waiting calls of `poll` and iterations end, and later calls return nothing."""
    consumer, ended = group.pulling(), list[str]()

    def iterate() -> None:
        ended.extend(message.body.decode() for message in consumer)
        ended.append("iterated")

    def poll() -> None:
        ended.append(f"polled {len(consumer.poll(TIMEOUT_S * 10))}")

    threads = [threading.Thread(target=each, daemon=True) for each in (iterate, poll)]
    for thread in threads:
        thread.start()
    consumer.close()
    for thread in threads:
        thread.join(TIMEOUT_S)
    assert sorted(ended) == ["iterated", "polled 0"]
    assert not consumer.poll(TIMEOUT_S)


def test_assigning_again_applies_another_filter(make_group: Callable[..., Group]) -> None:
    """If held queues are assigned with another filter, `poll` returns its messages after those already returned."""
    group = make_group(queues=1)
    for number in range(10):
        group.put(f"{number}", tags="odd" if number % 2 else "even")
    consumer = group.pulling(subscriptions={}, pull_batch_size=1)
    consumer.assign([queue(0)], "even")
    assert [message.body for message in poll_all(consumer, 2)] == [b"0", b"2"]
    until(lambda: consumer._member.table.get(queue(0)).process_queue.message_count >= 3)  # type: ignore[union-attr]

    consumer.assign([queue(0)], "odd")
    assert [message.body for message in poll_all(consumer, 3)] == [b"5", b"7", b"9"]
    consumer.poll(0.0)
    until(lambda: group.committed().get(0) == 10)


def test_assigning_with_a_wider_filter_returns_what_was_left_out(make_group: Callable[..., Group]) -> None:
    """If the new filter matches messages between cached ones, they are returned as well, in their order."""
    group = make_group(queues=1)
    for number in range(6):
        group.put(f"{number}", tags="odd" if number % 2 else "even")
    consumer = group.pulling(subscriptions={}, pull_batch_size=1, auto_commit=False)
    consumer.assign([queue(0)], "even")
    poll_all(consumer, 1)
    until(lambda: consumer._member.table.get(queue(0)).process_queue.message_count == 3)  # type: ignore[union-attr]

    consumer.assign([queue(0)], "odd || even")
    assert [message.body for message in poll_all(consumer, 4)] == [b"2", b"3", b"4", b"5"]
    consumer.commit()
    assert consumer.committed(queue(0)) == 6


def test_an_illegal_filter_changes_no_assignment(group: Group) -> None:
    """If `assign` refuses the filter, the consumer keeps the queues that it holds."""
    consumer = group.pulling(subscriptions={})
    consumer.assign([queue(0)])
    with pytest.raises(LocalProtocolError, match="names no tag"):
        consumer.assign([queue(1)], "||")

    assert consumer.queues == (queue(0),)


def test_a_filter_counts_for_all_queues_of_the_topic(group: Group) -> None:
    """If a queue is added with another filter, it also applies to the queue that was held before."""
    group.put("returned", "cached", tags="a", queue_id=0)
    consumer = group.pulling(subscriptions={}, pull_batch_size=1)
    consumer.assign([queue(0)], "a")
    poll_all(consumer, 1)
    until(lambda: consumer._member.table.get(queue(0)).process_queue.message_count == 2)  # type: ignore[union-attr]
    consumer.assign([queue(0), queue(1)], "b")
    group.put("held", tags="b", queue_id=0)
    group.put("added", tags="b", queue_id=1)

    assert {message.body for message in poll_all(consumer, 2)} == {b"held", b"added"}


def test_assigning_the_same_again_changes_nothing(make_group: Callable[..., Group]) -> None:
    """If a held queue is assigned with its present filter, its cached messages stay."""
    group = make_group(queues=1)
    group.put(*"abc")
    consumer = group.pulling(subscriptions={}, pull_batch_size=1)
    consumer.assign([queue(0)])
    poll_all(consumer, 1)
    held = consumer._member.table.get(queue(0))

    for wanted in ("*", ""):
        consumer.assign([queue(0)], wanted)
        assert consumer._member.table.get(queue(0)) is held
    assert [message.body for message in poll_all(consumer, 2)] == [b"b", b"c"]


def test_a_paused_queue_stays_paused_elsewhere(group: Group) -> None:
    """After `seek`, or with another filter, a paused queue returns no messages until `resume`."""
    consumer = group.pulling(subscriptions={})
    consumer.assign([queue(0)])
    consumer.pause([queue(0)])
    group.put("a", "b", queue_id=0, tags="t")
    consumer.seek(queue(0), 1)
    consumer.assign([queue(0)], "t")
    assert not consumer.poll(0.2)

    consumer.resume([queue(0)])
    assert [message.body for message in poll_all(consumer, 1)] == [b"b"]
