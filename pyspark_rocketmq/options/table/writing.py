"""How are rows written? Nothing of it is built yet, but the names are known."""

from __future__ import annotations

from ..option import Option, section
from ..values import to_come

TOPIC = Option("topic", "W", "T1", to_come("topic name"), planned=True, meaning="Where rows go; outranks the column.")
PRODUCER_GROUP = Option(
    "producerGroup",
    "W",
    "T1",
    to_come("as `consumerGroup`"),
    "pyspark-rocketmq-producer",
    native=True,
    planned=True,
    meaning="The group in sends.",
)
SEND_TIMEOUT = Option(
    "sendMsgTimeout",
    "W",
    "T1",
    to_come("duration 1..600000 ms"),
    "3000",
    native=True,
    planned=True,
    meaning="One send, retries included.",
)
SEND_RETRIES = Option(
    "retryTimesWhenSendFailed",
    "W",
    "T1",
    to_come("integer 0..100"),
    "2",
    native=True,
    planned=True,
    meaning="Further tries of a send.",
)
ACCEPT_STATUS = Option(
    "acceptSendStatus",
    "W",
    "T1",
    to_come("list of `SEND_OK`, `FLUSH_DISK_TIMEOUT`, `FLUSH_SLAVE_TIMEOUT`, `SLAVE_NOT_AVAILABLE`"),
    "SEND_OK",
    planned=True,
    meaning="Statuses that count as sent.",
)
MAX_IN_FLIGHT = Option(
    "maxInFlight", "W", "T1", to_come("integer 1..10000"), "64", planned=True, meaning="Unacknowledged sends per task."
)
MAX_MESSAGE_SIZE = Option(
    "maxMessageSize",
    "W",
    "T1",
    to_come("size ≥ 1k"),
    "4194304",
    native=True,
    planned=True,
    meaning="Largest body that is sent.",
)
COMPRESS_OVER = Option(
    "compressMsgBodyOverHowmuch",
    "W",
    "T2",
    to_come("size ≥ 0"),
    "4096",
    native=True,
    planned=True,
    meaning="Bodies from this size on are packed.",
)
SEND_BATCH_SIZE = Option(
    "sendBatchSize",
    "W",
    "T2",
    to_come("integer 1..1024"),
    otherwise="32; 1 with `endpoints`",
    planned=True,
    meaning="Rows per send.",
)
QUEUE_SELECTOR = Option(
    "queueSelector",
    "W",
    "T2",
    to_come("`auto`, `hash`, `roundRobin`"),
    "auto",
    planned=True,
    meaning="Which queue a row goes to.",
)
WRITE_ORDERING = Option(
    "ordering",
    "W",
    "T2",
    to_come("`none`, `key`"),
    "none",
    planned=True,
    meaning="`key`: rows of one key stay in order within a task.",
)
DELIVERY_GUARANTEE = Option(
    "deliveryGuarantee",
    "W",
    "T3",
    to_come("`at_least_once`, `transactional`"),
    "at_least_once",
    planned=True,
    meaning="Whether a batch shows all its rows or none.",
)

SECTION = section("Writing", globals())
