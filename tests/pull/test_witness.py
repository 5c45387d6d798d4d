"""Test that responses which cannot be counted are confirmed, or reported as lost if retention deletes messages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest

from pyspark_rocketmq.cluster.routes import BrokerEndpoint
from pyspark_rocketmq.errors import MessagesMissing, NoBrokerAvailable, QueueMoved
from pyspark_rocketmq.model import QueueRange
from pyspark_rocketmq.pull.port import PullOutcome, PullStatus
from pyspark_rocketmq.pull.probe import is_readable
from pyspark_rocketmq.pull.settings import Subscription
from pyspark_rocketmq.pull.witness import Witness
from pyspark_rocketmq.source.losses import LossJournal
from pyspark_rocketmq.wire.header import Command
from pyspark_rocketmq.wire.record import decode_record, encode_record
from tests.cluster.scripted import ScriptedLinks, answer, cluster_of, unsupported
from tests.decode.samples import inner_batch

from .scripted_queue import (
    MASTER,
    ONE_FILTER,
    QUEUE,
    REPLICA,
    Reading,
    ScriptedQueue,
    Told,
    record_at,
    topic_config,
)

END, SEEDS = 120, 1_000


def every_third(offset: int) -> bool:
    """Return whether an offset is a multiple of 3; the filter of these tests matches these messages."""
    return offset % 3 == 0


COMPACTED = topic_config(cleanup_policy="COMPACTION")
WANTED = [offset for offset in range(END) if every_third(offset)]


def scripted(gone: int = 0, minimum: int = 0, shift: int = 0) -> ScriptedQueue:
    """Return a queue in which the filter matches every third message."""
    return ScriptedQueue(END, every_third, gone, minimum, shift=shift)


def disturb(reading: Reading, random: Random) -> None:
    """Do one random step: send, answer, deliver or fail a pull; sometimes let retention delete messages, too."""
    queue = random.choice(list(reading.queues.values()))
    index = random.randrange(len(reading.in_flight)) if reading.in_flight else None
    actions: list[Callable[[], object]] = [reading.send]
    if index is not None:
        actions += [lambda: reading.serve(index), lambda: reading.deliver(index), lambda: reading.deliver(index)]
        actions += [lambda: reading.lose(index)] * (random.random() < 0.1)
    random.choice(actions)()
    reading.now += random.choice([0.01, 0.3, 2.0])
    queue.suggests = random.choice([0, len(reading.queues) - 1])
    if random.random() < 0.1:
        queue.gone = min(END, queue.gone + random.randrange(1, 60))
    if random.random() < 0.05:
        queue.minimum = queue.gone


def disturbed(reading: Reading, random: Random) -> Reading:
    """Read to the end, after a random number of `disturb` steps; return the reading."""
    for _ in range(random.randrange(5, 80)):
        if not reading.reader.is_finished:
            disturb(reading, random)
    reading.finish()
    return reading


def untold(reading: Reading) -> list[int]:
    """Return the wanted offsets whose messages were neither read nor reported as lost."""
    missing = set(WANTED) - set(reading.rows)
    return sorted(offset for offset in missing if not any(low <= offset < high for low, high in reading.told.losses))


@pytest.mark.parametrize("places", [[MASTER], [MASTER, REPLICA]], ids=["alone", "replicated"])
def test_whatever_retention_takes_is_read_or_told(places: list[BrokerEndpoint]) -> None:
    """If retention deletes messages at any time, every matching message is read once or reported as lost."""
    for seed in range(SEEDS):
        queues = {place: replace(scripted(), tells_head=seed % 2 == 1) for place in places}
        reading = disturbed(Reading(queues), Random(seed))

        is_taken = any(queue.gone for queue in reading.queues.values())
        assert is_taken or not reading.told.losses, seed
        assert not untold(reading), seed
        assert reading.rows == sorted(set(reading.rows)) and set(reading.rows) <= set(WANTED), seed


def outlived(reading: Reading, random: Random) -> bool:
    """Read while one of two broker processes goes away for good, and recount; return whether no loss was reported.

    Return False, too, if the reading raises, as it does when a replica has deleted messages still to be read.
    """
    while not reading.reader.is_finished and random.random() < 0.97:
        disturb(reading, random)
    reading.die(random.choice([MASTER, REPLICA]))
    try:
        disturbed(reading, random)
        reading.recount(lambda again: disturbed(again, random))
    except NoBrokerAvailable:
        return False
    return not reading.told.losses


@pytest.mark.parametrize("is_front_open", [False, True])
def test_messages_that_a_dead_process_lacked_are_read_or_reported(is_front_open: bool) -> None:
    """If a broker process that lacked messages goes away for good, they are read from another or reported as lost."""
    for seed in range(SEEDS):
        random = Random(seed)
        reading = Reading({MASTER: scripted(), REPLICA: scripted()}, is_front_open=is_front_open)
        is_well = outlived(reading, random)

        is_taken = any(queue.gone for queue in reading.queues.values())
        front = len(WANTED) - len(reading.rows) if is_front_open else 0
        assert (reading.rows == WANTED[front:] and is_well) or is_taken, seed
        assert not is_well or reading.rows == WANTED[front:], seed


@pytest.mark.parametrize(("gone", "losses"), [((0, 0), []), ((50, 0), [(0, END)]), ((0, 50), [(0, END), (0, END)])])
def test_the_answers_of_a_dead_process_are_recounted_elsewhere(
    gone: tuple[int, int], losses: list[tuple[int, int]]
) -> None:
    """If a recount at another process finds another number of messages than the dead one sent, a loss is reported."""
    reading = Reading({MASTER: scripted(gone=gone[0]), REPLICA: scripted(gone=gone[1])})
    reading.answer_all()
    reading.die(MASTER)
    reading.finish()
    reading.recount()

    assert reading.reader.unconfirmed == [(QueueRange(QUEUE, 0, END), len(reading.rows))]
    assert reading.told.losses == losses


def test_the_answers_of_an_unreachable_process_are_recounted() -> None:
    """If a dead replica stays in the route, the range is still read to its end at the master."""
    reading = Reading({MASTER: scripted(), REPLICA: scripted()}, max_retries=3)
    reading.queues[MASTER].suggests = 1
    reading.answer_all()
    while not reading.reader.is_finished:
        reading.now += 1.0
        reading.send()
        while reading.in_flight:
            (reading.deliver if reading.in_flight[0][0] == MASTER else reading.lose)(0)

    assert 0 < sum(count or 0 for _, count in reading.reader.unconfirmed) < len(WANTED)


def test_a_compacted_front_is_probed_elsewhere() -> None:
    """If the process that sent responses of a compacted topic goes away, another one is probed instead of a recount."""
    queues = {MASTER: scripted(), REPLICA: scripted()}
    reading = Reading(queues, subscription=Subscription(), config=COMPACTED)
    reading.answer_all()
    reading.die(MASTER)
    reading.finish()

    assert queues[REPLICA].probes == [0] and not reading.reader.unconfirmed and not reading.told.losses


def test_messages_behind_the_first_row_are_no_open_front() -> None:
    """If messages after a received response are gone, they are reported as lost, even in a range with an open front."""
    queue = scripted()
    reading = Reading({MASTER: queue}, is_front_open=True)
    reading.send()
    reading.serve(1)
    reading.deliver(1)
    queue.gone = queue.minimum = 57
    reading.finish()

    assert reading.rows == sorted({9, 12, 15, 18}.union(offset for offset in WANTED if offset >= 57))
    assert reading.told.losses == [(20, 57), (8, END)]


def test_a_probe_may_be_answered_after_the_queue_was_given_up() -> None:
    """If a probe's response arrives after the vanished queue was reported, no loss is reported again."""
    reading = Reading({MASTER: scripted()})
    reading.answer_all()
    reading.send()
    while not reading.reader.is_finished:
        reading.now += 1.0
        reading.reader.handle_unreachable(QueueMoved("not in the route"), reading.now)
    reading.deliver(0)

    assert reading.told.losses == [(0, END), (END, END)]


@pytest.mark.parametrize("tells_head", [False, True])
def test_an_open_front_may_lack_its_first_messages_and_no_others(tells_head: bool) -> None:
    """In a range with an open front, every missing message after the first row is reported as lost."""
    for seed in range(SEEDS):
        random = Random(seed)
        queue = replace(scripted(gone=random.randrange(END)), tells_head=tells_head)
        reading = disturbed(Reading({MASTER: queue}, is_front_open=True), random)

        first = min(reading.rows, default=END)
        assert all(offset < first for offset in untold(reading)), seed


@pytest.mark.parametrize(("subscription", "loss"), [(Subscription(), (16, 50)), (ONE_FILTER, (20, 50))])
def test_what_is_gone_behind_a_message_that_came_is_a_loss_of_an_open_range(
    subscription: Subscription, loss: tuple[int, int]
) -> None:
    """If the second response arrives first and the minimum then rises past it, missing messages after it are a loss."""
    queue = scripted()
    reading = Reading({MASTER: queue}, subscription=subscription, is_front_open=True)
    reading.send()
    reading.deliver(1)
    queue.gone = queue.minimum = 50
    reading.finish()

    assert reading.rows[0] in (8, 9) and reading.told.losses[0] == loss


def test_a_front_that_was_gone_before_is_no_loss_of_an_open_range() -> None:
    """If a range has an open front, messages gone before the first readable one are not reported as lost."""
    for minimum in (0, 20, 50):
        reading = Reading({MASTER: scripted(gone=50, minimum=minimum)}, is_front_open=True)
        reading.finish()

        assert reading.rows == [offset for offset in WANTED if offset >= 50] and not reading.told.losses


def test_a_replica_that_leads_nowhere_is_left_for_the_master() -> None:
    """If a replica's minimum has passed the range, the master is read at once, although brokers suggest the replica."""
    replica = scripted(gone=END, minimum=END)
    reading = Reading({MASTER: scripted(), REPLICA: replica}, subscription=Subscription())
    replica.suggests = 1
    reading.queues[MASTER].suggests = 1
    began = reading.now
    while not reading.reader.is_finished:
        reading.now += 0.05
        reading.send()
        if reading.in_flight:
            reading.deliver(0)

    assert reading.rows == list(range(END)) and not reading.told.losses
    assert reading.now - began < 30


@pytest.mark.parametrize(("gone", "losses"), [(8, [(0, 8)]), (50, [(0, END)])])
def test_messages_that_are_gone_while_the_minimum_lags_are_a_loss(gone: int, losses: list[tuple[int, int]]) -> None:
    """If messages are gone but the minimum has not risen, the loss ends at the message that the probe finds, if any."""
    reading = Reading({MASTER: scripted(gone=gone)})

    reading.finish()

    assert reading.told.losses == losses
    assert reading.rows == [offset for offset in WANTED if offset >= gone]


def test_a_small_range_costs_one_pull_more() -> None:
    """If a range is read within a second, one probe is sent, at its end, for its first offset."""
    queue = scripted()
    reading = Reading({MASTER: queue})
    reading.finish()

    assert queue.probes == [0] and reading.rows == WANTED


def test_probes_leave_once_a_second() -> None:
    """If reading takes long, at most one probe is sent per second, each for a higher offset than the one before."""
    queue = scripted()
    reading = Reading({MASTER: queue})
    while not reading.reader.is_finished:
        reading.now += 0.4
        reading.send()
        reading.deliver(0)

    assert queue.probes == sorted(set(queue.probes)) and queue.probes[0] == 0
    assert 2 <= len(queue.probes) <= 1 + (reading.now - 100) / 1.0


def test_an_unfiltered_range_needs_no_probes() -> None:
    """If a range is read without a filter, no probe is sent, because the decoder counts the messages."""
    queue = scripted()
    reading = Reading({MASTER: queue}, subscription=Subscription())
    reading.finish()

    assert reading.rows == list(range(END)) and not queue.probes


def test_a_reset_that_a_probe_meets_is_reported() -> None:
    """If a probe's response reports a reset, the policy gets this report, and the probe is sent again."""
    queue = scripted()
    reading = Reading({MASTER: queue})
    while not reading.reader.cursor.is_finished:
        reading.send()
        reading.deliver(0)
    queue.reset_to = 7
    reading.finish()

    assert reading.told.resets == [(0, 7)] and not reading.told.losses and reading.rows == WANTED


def test_a_queue_whose_records_hold_other_offsets_is_confirmed() -> None:
    """If the queue offsets in records differ from the true ones, as producers can cause, no loss is reported."""
    reading = Reading({MASTER: scripted(shift=2)})
    reading.finish()

    assert not reading.told.losses


@pytest.mark.parametrize("first", [0, 60, END - 1])
def test_other_offsets_in_a_record_at_the_start_of_a_log_file_are_no_loss(first: int) -> None:
    """If offsets in records run ahead, the record at the start of a log file is not taken for one of another place."""
    queue = replace(scripted(shift=2), log_start=2**20 - 1000 * first)
    reading = Reading({MASTER: queue}, wanted=range(first, END))
    reading.finish()

    assert queue.probes == [first] and not reading.told.losses


@pytest.mark.parametrize(("head_queue_id", "shift"), [(0, 0), (1, 0), (1, -50)])
def test_the_head_of_the_next_log_file_proves_no_message(head_queue_id: int, shift: int) -> None:
    """If a deleted message is answered by the head of the next file, of any queue and offset, its loss is reported."""
    queue = replace(scripted(gone=50, shift=shift), tells_head=True, head_queue_id=head_queue_id)
    reading = Reading({MASTER: queue})
    reading.finish()

    assert reading.told.losses == [(0, END)]


def test_gaps_of_a_compacted_topic_are_no_loss() -> None:
    """If a compacted topic has a gap at its front, the gap is probed for ten seconds, and no loss is reported."""
    queue = scripted()
    queue.removed = {*range(5), 40, 41, 77}
    reading = Reading({MASTER: queue}, subscription=Subscription(), config=COMPACTED)
    began = reading.now
    reading.finish()

    assert reading.rows == [offset for offset in range(END) if offset not in queue.removed]
    assert not reading.told.losses and 10 <= reading.now - began <= 15


def test_a_topic_that_turns_out_to_be_compacted_is_counted_no_more() -> None:
    """If a topic becomes known to be compacted, later blocks need not hold all messages, and probes are sent."""
    queue = scripted()
    reading = Reading({MASTER: queue}, subscription=Subscription(), config=COMPACTED, is_known=False)
    reading.send()
    reading.deliver(0)
    reading.learn_of_compaction()
    reading.finish()

    assert reading.claims[0] > 0 and not any(reading.claims[1:]) and queue.probes


@pytest.mark.parametrize(("minimum", "losses"), [(0, []), (9, [(3, END)])])
def test_the_front_of_a_compacted_range_is_lost_if_the_minimum_has_passed_it(
    minimum: int, losses: list[tuple[int, int]]
) -> None:
    """If the minimum has passed the first offset after ten seconds of probes, the front is reported as lost."""
    reading = Reading({MASTER: scripted(gone=9, minimum=minimum)}, config=COMPACTED)
    pauses: list[float] = []

    reading.confirm_front(3, pauses.append)

    assert reading.told.losses == losses and sum(pauses) == 10


@pytest.mark.parametrize(
    ("config", "is_named"),
    [(topic_config(), False), (answer(16, remark="no permission"), True), (unsupported(), True)],
)
def test_a_loss_names_the_permission_that_compaction_could_not_be_asked_for(config: Command, is_named: bool) -> None:
    """If the broker did not tell whether the topic is compacted, the error advises to grant the permission."""
    reading = Reading({MASTER: scripted(gone=50)}, config=config, policy=LossJournal(fail_on_data_loss=True))

    with pytest.raises(MessagesMissing) as raised:
        reading.finish()

    assert ("grant" in raised.value.advice) == is_named


BATCH = replace(inner_batch(decode_record(record_at(7, 700))[0], [b"a", b"b", b"c"]), properties_text=b"")


def outcome(next_offset: int, *records: bytes, status: PullStatus = PullStatus.FOUND) -> PullOutcome:
    """Return the outcome of a probe."""
    return PullOutcome(status, next_offset, 0, 100, 0, memoryview(b"".join(records)))


@pytest.mark.parametrize(
    ("answer", "is_there"),
    [
        (outcome(8, record_at(7, 700)), True),
        (outcome(8, record_at(9, 700)), True),
        (outcome(52, record_at(51, 5100)), False),
        (outcome(8, record_at(7, 700)[:-3]), False),
        (outcome(8), False),
        (outcome(19, status=PullStatus.NO_MATCH), False),
        (outcome(50, status=PullStatus.OFFSET_MOVED), False),
        (outcome(7, status=PullStatus.NO_NEW), False),
        (outcome(10, encode_record(BATCH)), True),
        (outcome(9, encode_record(replace(BATCH, queue_offset=6))), True),
        (outcome(11, encode_record(replace(BATCH, queue_offset=8))), False),
        (outcome(10, encode_record(replace(BATCH, properties_text=b"INNER_NUM\x013\x02"))), True),
        (outcome(10, encode_record(replace(BATCH, properties_text=b"INNER_NUM\x01" + b"9" * 5000))), True),
    ],
)
def test_a_message_is_there_if_its_place_was_read(answer: PullOutcome, is_there: bool) -> None:
    """If a probe returned a message of another offset, or none, its message is not there."""
    assert is_readable(7, answer) == is_there


# --- a witness alone -------------------------------------------------------------------------------------------------


def witness_of(told: Told, *, is_front_open: bool = False) -> Witness:
    """Return a witness of the range `[0, 100)`."""
    return Witness(QueueRange(QUEUE, 0, 100, is_front_open), cluster_of(ScriptedLinks()).brokers, told, "g")


def arrive(witness: Witness, place: BrokerEndpoint, start: int, end: int, *records: bytes, now: float = 0.0) -> None:
    """Give the witness a response of a process for the offsets `[start, end)`, with at most one record."""
    status = PullStatus.FOUND if records else PullStatus.NO_MATCH
    starts = [0] * len(records)
    witness.add_outcome(place, QueueRange(QUEUE, start, end), starts, outcome(end, *records, status=status), now)


def test_a_gap_of_unknown_extent_is_forgiven_until_a_message_in_it_arrives() -> None:
    """If no message is found behind an open front, the whole gap is no loss; from a later message on it is probed."""
    told = Told()
    witness = witness_of(told, is_front_open=True)
    arrive(witness, MASTER, 0, 60)
    witness.judge(witness.take_probe(MASTER, 1.0), outcome(20, status=PullStatus.NO_MATCH))
    assert witness.is_settled

    arrive(witness, REPLICA, 40, 45, record_at(40, 4000))
    probe = witness.take_probe(MASTER, 2.0)
    assert (probe.start, probe.end, probe.endpoint) == (40, 41, MASTER)
    assert told.losses == []


def test_a_gap_of_known_extent_ends_at_the_message_that_the_probe_found() -> None:
    """If a probe finds a message behind an open front, offsets from that message on are not forgiven."""
    witness = witness_of(Told(), is_front_open=True)
    arrive(witness, MASTER, 0, 60)
    witness.judge(witness.take_probe(MASTER, 1.0), outcome(21, record_at(20, 2000)))
    arrive(witness, REPLICA, 40, 45, record_at(40, 4000))
    assert witness.next_probed(REPLICA, 0.5, is_last=True) == REPLICA
    with pytest.raises(AssertionError, match="nothing to confirm"):
        witness.take_probe(MASTER, 2.0)


def test_the_end_of_a_gap_is_looked_for_behind_an_open_front() -> None:
    """If messages came, and a probe below them finds none, the next probe is where the broker stopped searching."""
    witness = witness_of(Told(), is_front_open=True)
    arrive(witness, MASTER, 0, 60, record_at(50, 5000))
    for answered, probed in ((20, 0), (20, 20), (50, 21)):
        probe = witness.take_probe(MASTER, 1.0)
        assert probe.start == probed
        witness.judge(probe, outcome(answered, status=PullStatus.NO_MATCH))
    witness.judge(witness.take_probe(MASTER, 1.0), outcome(51, record_at(50, 5000)))
    assert witness.is_settled


def test_a_process_is_probed_once_a_second() -> None:
    """The process that is read from is probed a second after a response and after the last probe; others at once."""
    witness = witness_of(Told())
    arrive(witness, MASTER, 0, 10, now=10.0)
    times = (10.0, 10.75, 11.0)
    assert [witness.next_probed(MASTER, now, is_last=False) for now in times] == [None, None, MASTER]
    assert witness.next_probed(REPLICA, 10.0, is_last=False) == MASTER
    assert witness.next_probed(MASTER, 10.0, is_last=True) == MASTER

    probe = witness.take_probe(MASTER, 11.0)
    assert witness.next_probed(REPLICA, 20.0, is_last=True) is None
    witness.retry(probe)
    assert [witness.next_probed(REPLICA, now, is_last=False) for now in (11.75, 12.0)] == [None, MASTER]


def test_an_interval_without_responses_is_due_at_once() -> None:
    """An interval that is added by itself is probed at its start, without a pause."""
    witness = witness_of(Told())
    witness.add_interval(MASTER, 30, 40)
    assert witness.next_probed(MASTER, 1.0, is_last=False) == MASTER
    assert witness.take_probe(MASTER, 1.0).start == 30


def test_counts_of_processes_that_left_are_kept_together() -> None:
    """Responses of processes that are left are recounted: each stretch with the number of its messages."""
    told = Told()
    witness = witness_of(told)
    arrive(witness, MASTER, 0, 10, record_at(3, 300))
    arrive(witness, MASTER, 10, 20, record_at(12, 1200))
    witness.retry(witness.take_probe(MASTER, 1.0))
    arrive(witness, MASTER, 20, 30)
    arrive(witness, REPLICA, 50, 60, record_at(51, 5100))
    assert witness.leave_others(MASTER)
    assert witness.unconfirmed() == [(QueueRange(QUEUE, 50, 60), 1)]
    assert not witness.leave_others(MASTER)
    assert witness.leave_others(REPLICA)
    assert witness.unconfirmed() == [(QueueRange(QUEUE, 0, 30), 2), (QueueRange(QUEUE, 50, 60), 1)]
    assert witness.is_settled

    witness.give_up()
    assert told.losses == [(0, 30), (50, 60)] and witness.unconfirmed() == []
