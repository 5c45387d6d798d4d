"""List options that are known but not built: each is refused by name."""

from __future__ import annotations

from ..option import Section, planned

SECTION = Section(
    "Planned",
    (
        planned("endpoints", "SBWH", "Servers that speak RocketMQ 5's gRPC API."),
        planned("maxBytesPerTrigger", "S", "Soft cap of a batch in bytes."),
        planned("topic", "W", "Topic that rows go to; outranks the column."),
        planned("producerGroup", "W", "Group in sends.", native=True),
        planned("sendMsgTimeout", "W", "Timeout of one send, retries included.", native=True),
        planned("retryTimesWhenSendFailed", "W", "Number of retries of a send.", native=True),
        planned("acceptSendStatus", "W", "Statuses that count as sent."),
        planned("maxInFlight", "W", "Unacknowledged sends per task."),
        planned("maxMessageSize", "W", "Largest body that is sent.", native=True),
        planned("compressMsgBodyOverHowmuch", "W", "Size from which on bodies are compressed.", native=True),
        planned("sendBatchSize", "W", "Rows per send."),
        planned("queueSelector", "W", "Choice of the queue that a row goes to."),
        planned("ordering", "W", "`key`: rows of one key stay in order within a task."),
        planned("deliveryGuarantee", "W", "Whether a batch shows all its rows or none."),
        planned("namespaceV2", "SBWH", "A namespace that travels in the headers of requests.", native=True),
    ),
)
