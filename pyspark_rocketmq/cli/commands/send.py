"""Send messages to a topic."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from itertools import groupby
from typing import TYPE_CHECKING, Any

from ...errors import MOST_TEXT, OptionError, RocketMQError, SendError, shown
from ...model import find_queue
from ..command import Command, Parameter
from ..drafts import FORMATS, LINE_MEMBERS, Defaults, Draft, LineReader, draft_body, draft_file, draft_lines
from ..values import Moment, moment
from ..views import Text, View, show_count, show_time

if TYPE_CHECKING:
    from ...client.producer import Producer
    from ...client.settings import ProducerSettings
    from ...cluster.messages import Receipt
    from ...model import MessageQueue
    from ..screen import Screen
    from ..session import Session

__all__ = ["COMMANDS"]

GROUP = "pyspark-rocketmq-send"
"""The producer group, if no option names one; nobody asks it anything, since the command begins no transactions."""
_FRAME_BYTES = 256
"""Bytes that a batch has for a message beside its body and what the user gives: lengths, id and flags."""
_OF_WRITES = (
    "producerGroup",
    "sendMsgTimeout",
    "retryTimesWhenSendFailed",
    "maxMessageSize",
    "compressMsgBodyOverHowmuch",
    "compressType",
)
"""The options of writes that count here, too."""
_BATCH_BYTES, _BATCHED_BYTES = 512 * 1024, 16 * 1024
"""Most bytes of a batch, and of a message that goes into one; larger messages go alone, compressed."""

_LATE_MS = 60_000
"""The most by which a delivery time may be over."""
_MOST_WHAT = MOST_TEXT - 200
"""The most characters of what went wrong, so that the number of messages that landed is not cut off."""


@dataclass(frozen=True, slots=True)
class Landed:
    """A message that a broker has stored."""

    place: str
    """The place where the message was given, for example `line 3`."""
    topic: str
    broker: str
    queue_id: int
    offset: int | None
    """The offset; null for a delayed message, which gets its offset when it is delivered."""
    message_id: str
    status: str
    """SUCCESS; other statuses say that a flush or a replica's copy is missing."""
    may_be_doubled: bool
    """Whether an earlier attempt got no answer, so that the message may be stored twice, with one id."""
    deliver_at: Moment | None
    """The time before which the message is not delivered; null if it has none."""
    delay_level: int | None


def _run(session: Session, **values: Any) -> Iterator[Landed]:
    portions = _portions(session, **values)
    return _send_all(session, portions)


def _portions(
    session: Session,
    topic: str,
    body: tuple[str, ...],
    file: str | None,
    lines: str | None,
    body_format: str,
    tags: str,
    key: tuple[str, ...],
    property: tuple[str, ...],
    queue: str | None,
    delay_level: int,
    deliver_at: str | None,
) -> Iterator[list[Draft]]:
    """Return the messages to be sent, as they come."""

    def read_time(option: str, text: str) -> int:
        return _read_time(option, text, session.now_ms())

    deliver_at_ms = read_time("--deliver-at", deliver_at) if deliver_at is not None else 0
    properties = dict(_split_property(each) for each in property)
    defaults = Defaults(topic, body_format, tags, key, properties, queue, delay_level, deliver_at_ms)
    if len([given for given in (body, file, lines) if given]) != 1:
        raise OptionError("BODY", None, "not one source of messages", advice="give BODY, --file or --lines")
    if lines is not None:
        return draft_lines(LineReader(lines).portions(), defaults, read_time)
    if file is not None:
        return iter([[draft_file(file, defaults)]])
    return iter([[draft_body(f"BODY {number}", text, defaults) for number, text in enumerate(body, 1)]])


def _read_time(option: str, text: str, now_ms: int) -> int:
    """Return a time in milliseconds since 1970; `+30m` is a time from now on."""
    from ...options.values import OptionText, read_duration_ms, read_time_ms

    if text.startswith("+"):
        return now_ms + read_duration_ms(OptionText(option, text[1:]))
    at_ms = read_time_ms(OptionText(option, text, now_ms))
    if at_ms < now_ms - _LATE_MS:
        what = "a time that is over, so brokers would deliver at once"
        raise OptionError(option, text, what, advice="leave it out, or give a later one; a number means milliseconds")
    return at_ms


def _split_property(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise OptionError("--property", text, "not of the form NAME=VALUE", advice="for example --property shop=Bergen")
    return name, value


# --- sending ---------------------------------------------------------------------------------------------------------


class Progress:
    """The number of messages that have landed, and the messages that are on their way."""

    def __init__(self) -> None:
        self.landed = 0
        self.queues: set[MessageQueue] = set()
        self.sending: Sequence[Draft] = ()

    def __repr__(self) -> str:
        return f"<Progress {self}>"

    def __str__(self) -> str:
        queues = f", in {show_count(len(self.queues), 'queue')}" if self.queues else ""
        return f"{show_count(self.landed, 'message')} landed{queues}"

    def tell(self, screen: Screen) -> None:
        """Let Ctrl-C, and an output that is closed, say what is known of the messages."""
        open_sends = f"; {name_places(self.sending)} may be stored, too" if self.sending else ""
        screen.outcome = f"{self}{open_sends}"
        screen.interruption = f"interrupted; {screen.outcome}"


def _settings(session: Session) -> ProducerSettings:
    """Return the settings of sends, from the options of writes."""
    from ...client import ProducerSettings
    from ...options import parse_writer_options
    from ...options.keys import find_option

    matches = {name: find_option(name, "W") for name in session.raw_options}
    names = {name: match.option.name for name, match in matches.items() if match and match.option.name in _OF_WRITES}
    raw = {name: session.raw_options[name] for name in names}
    given = parse_writer_options({"nameServer": ";".join(session.name_servers), **raw}, env={})
    return ProducerSettings(
        group=given.send.producer_group if "producerGroup" in names.values() else GROUP,
        send_timeout_s=given.send.attempt_timeout_s,
        retries=given.send.retries,
        max_message_bytes=given.encode.max_body_bytes,
        compress_over_bytes=given.encode.compress_over_bytes,
        compression=given.encode.compression,
    )


def _send_all(session: Session, portions: Iterator[list[Draft]]) -> Iterator[Landed]:
    from ...client import Producer

    progress = Progress()
    with _counting(progress), Producer(session.options.cluster, settings := _settings(session)) as producer:
        sender = Sender(session, producer, progress)
        for portion in portions:
            for batch in _batches(portion, min(_BATCH_BYTES, settings.max_message_bytes)):
                yield from sender.send(batch)
    if not session.screen.as_json:
        session.screen.show([Text(str(progress))])


@contextmanager
def _counting(progress: Progress) -> Iterator[None]:
    """Add to an error how many messages landed before it."""
    try:
        yield
    except RocketMQError as error:
        count = f"{progress} before" if progress.landed else "nothing was stored before"
        error.what = f"{shown(error.what, _MOST_WHAT)}; {count}"
        raise


def _batches(drafts: Sequence[Draft], most_bytes: int) -> Iterator[list[Draft]]:
    """Yield messages that can be sent together, in order."""
    for (_topic, _queue, is_batched), run in groupby(drafts, _kind):
        batch: list[Draft] = []
        size = 0
        for draft in run:
            added = _size(draft)
            if batch and (not is_batched or size + added > most_bytes):
                yield batch
                batch, size = [], 0
            batch.append(draft)
            size += added
        yield batch


def _kind(draft: Draft) -> tuple[str, str | None, bool]:
    message = draft.message
    is_plain = not (message.delay_level or message.deliver_at_ms)
    return message.topic, draft.queue, is_plain and _size(draft) <= _BATCHED_BYTES


def _size(draft: Draft) -> int:
    message = draft.message
    texts = (message.tags, message.keys, *message.properties, *message.properties.values())
    return _FRAME_BYTES + len(message.body) + 4 * sum(map(len, texts))


class Sender:
    """Sends batches of messages with one producer, one after the other, so that queues store them in their order."""

    def __init__(self, session: Session, producer: Producer, progress: Progress) -> None:
        from ...net.host import local_host
        from ...wire.message_id import UniqueIdMaker

        self._session, self._producer, self._progress = session, producer, progress
        self._ids = UniqueIdMaker(local_host(), os.getpid(), id(self), session.now_ms)
        self._require_timers = cache(self._check_timers)
        self._find_queues = cache(self._look_up)

    def __repr__(self) -> str:
        return f"<Sender {self._progress}>"

    def send(self, batch: Sequence[Draft]) -> Iterator[Landed]:
        """Store messages of one topic together, and yield where they landed; raise if they did not.

        A batch that a broker does not accept is divided, since its limit may be lower, or one message be at fault.
        """
        drafts = [each._replace(message=self._with_id(each)) for each in batch]
        try:
            queue = self._prepare(drafts[0])
            with self._in_flight(drafts):
                receipt = self._store(drafts, queue)
        except RocketMQError as error:
            if len(drafts) == 1 or not is_illegal(error):
                raise explain(error, drafts) from None
        else:
            yield from (_to_landed(draft, receipt, number) for number, draft in enumerate(drafts))
            return
        half = len(batch) // 2
        yield from self.send(batch[:half])
        yield from self.send(batch[half:])

    @contextmanager
    def _in_flight(self, drafts: Sequence[Draft]) -> Iterator[None]:
        """Say during the `with` block that these messages may be stored, and afterwards that they are."""
        progress, screen = self._progress, self._session.screen
        progress.sending = drafts
        progress.tell(screen)
        yield
        progress.sending = ()
        progress.landed += len(drafts)
        progress.tell(screen)

    def _with_id(self, draft: Draft) -> Any:
        return replace(draft.message, properties={**draft.message.properties, "UNIQ_KEY": self._ids.make()})

    def _prepare(self, draft: Draft) -> MessageQueue | None:
        """Return the queue that a message names; raise if its topic cannot take it."""
        topic = draft.message.topic
        self._find_queues(topic)
        if draft.message.deliver_at_ms:
            self._require_timers(topic)
        if not draft.queue:
            return None
        return find_queue(self._find_queues(topic), topic, draft.queue, option="--queue", kind="writable")

    def _store(self, drafts: Sequence[Draft], queue: MessageQueue | None) -> Receipt:
        if len(drafts) == 1:
            receipt = self._producer.send(drafts[0].message, queue)
        else:
            receipt = self._producer.send_batch([each.message for each in drafts], queue)
        self._progress.queues.add(receipt.queue)
        return receipt

    def _look_up(self, topic: str) -> Sequence[MessageQueue]:
        """Return a topic's writable queues; warn if the topic does not exist yet."""
        writable = self._session.cluster.writable
        queues = writable.queues(topic)
        if writable.is_new(topic):
            self._session.screen.warn(f"topic {topic} does not exist; the brokers make it with its first message")
        return queues

    def _check_timers(self, topic: str) -> None:
        """Raise if brokers would deliver at once: those before 5.0, which do not know a request for topics."""
        from ...broker_errors import RequestCodeNotSupported

        try:
            cluster = self._session.cluster
            cluster.admin.fetch_topic_config(cluster.writable.route_topic(topic))
        except RequestCodeNotSupported:
            what = f"the brokers of topic {topic} are older than 5.0 and would deliver at once"
            raise OptionError("--deliver-at", None, what, advice="give --delay-level") from None
        except RocketMQError:
            pass  # The send itself meets the same fault, or does not need what failed here.


def is_illegal(error: RocketMQError) -> bool:
    """Return whether a broker refused what was sent as it is, so that nothing of it is stored."""
    from ...broker_errors import MessageIllegal

    return isinstance(error, SendError) and not error.unknown and isinstance(error.__cause__, MessageIllegal)


def explain(error: RocketMQError, drafts: Sequence[Draft]) -> RocketMQError:
    """Return the cause of a failed send, with the messages and whether they may be stored all the same."""
    is_unknown = isinstance(error, SendError) and bool(error.unknown)
    cause = error.__cause__
    if not (isinstance(error, SendError) and isinstance(cause, RocketMQError)):
        cause = error
    assert isinstance(cause, RocketMQError)
    fate = "may be stored, or not" if is_unknown else "not stored"
    cause.what = f"{name_places(drafts)}: {fate}: {cause.what}"
    return cause.locate(topic=drafts[0].message.topic)


def name_places(drafts: Sequence[Draft]) -> str:
    """Return the places where messages were given."""
    first, last = drafts[0].place, drafts[-1].place
    return first if first == last else f"{first} to {last}"


def _to_landed(draft: Draft, receipt: Receipt, number: int) -> Landed:
    message, queue = draft.message, receipt.queue
    is_delayed = bool(message.delay_level or message.deliver_at_ms)
    return Landed(
        draft.place,
        queue.topic,
        queue.broker_name,
        queue.queue_id,
        None if is_delayed else receipt.queue_offset + number,
        message.properties["UNIQ_KEY"],
        receipt.status.name,
        receipt.may_be_doubled,
        moment(message.deliver_at_ms) if message.deliver_at_ms else None,
        message.delay_level or None,
    )


def _show(landed: Landed) -> list[View]:
    where = f"{landed.topic}/{landed.broker}/{landed.queue_id}"
    if landed.delay_level:
        where += f" · delay level {landed.delay_level}"
    elif landed.deliver_at:
        where += f" · not before {show_time(landed.deliver_at)}"
    else:
        where += f" @ {landed.offset}"
    status = [] if landed.status == "SUCCESS" else [landed.status]
    status += ["may be stored twice"] if landed.may_be_doubled else []
    return [Text(" · ".join([where, *status, f"id {landed.message_id}"]))]


COMMANDS = (
    Command(
        "send",
        Landed,
        _run,
        _show,
        parameters=(
            Parameter("TOPIC", "topic", is_required=True),
            Parameter("BODY", "bodies, each of them a message", is_repeatable=True),
            Parameter("--file", "send the content of this file as one message", metavar="FILE"),
            Parameter("--lines", "send a message for each line of JSON in this file; - is the standard input",
                      metavar="FILE"),
            Parameter("--body-format", "the form of BODY, and of lines that do not say it", str, "text",
                      choices=FORMATS),
            Parameter("--tags", "tag of the messages", str, "", metavar="TAG"),
            Parameter("--key", "key by which the messages can be found", is_repeatable=True, metavar="KEY"),
            Parameter("--property", "property of the messages", is_repeatable=True, metavar="NAME=VALUE"),
            Parameter("--queue", "store them in this queue", metavar="BROKER/ID"),
            Parameter("--delay-level", "deliver after the time of this level of the brokers, 1 to 18", int, 0,
                      metavar="LEVEL"),
            Parameter("--deliver-at", "deliver not before this time, or this long from now: +30m (brokers from 5.0)",
                      metavar="TIME"),
        ),
        details="Prints where each message landed, and how many did. Messages without a queue go to the topic's queues "
        "in turn, those that come together as a batch. Small messages are sent in batches, one batch after the other, "
        "so that a queue stores them in their order. A line of JSON is an object with the members "
        f"{', '.join(LINE_MEMBERS)}; what it leaves out is taken from the command line, and a body that is no string "
        "is sent as the JSON that is written there. At the first line that cannot be sent the command ends; it says "
        "how many messages landed before. Ctrl-C does the same. A message of which an attempt got no answer is sent "
        "again; it may be stored twice then, which its line says. A topic that does not exist is made with its first "
        "message, if brokers allow that; a warning says so. Of the options of writes these count: "
        f"{', '.join(_OF_WRITES)}; sendMsgTimeout is that of all attempts together.",
        examples=(
            "pyspark-rocketmq send orders 'two lattes' 'one tea' --tags paid --key order-1",
            "pyspark-rocketmq send orders 48656c6c6f --body-format hex --queue broker-a/0",
            "pyspark-rocketmq send reminders 'call back' --deliver-at +1h",
            "pyspark-rocketmq send orders --lines orders.jsonl",
        ),
        is_stream=True,
    ),
)  # fmt: skip
