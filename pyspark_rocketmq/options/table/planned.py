"""List options that are known but not built: each is refused by name."""

from __future__ import annotations

from ..option import Section, planned

SECTION = Section(
    "Planned",
    (
        planned("endpoints", "SBWH", "Servers that speak RocketMQ 5's gRPC API."),
        planned("maxBytesPerTrigger", "S", "Soft cap of a batch in bytes."),
        planned("ledgerTopic", "W", "Topic that records which batches are committed."),
        planned("ledgerLease", "W", "Time for which a driver owns its records."),
        planned("sinkRecovery", "W", "What to do about a batch whose outcome is unknown."),
        planned("namespaceV2", "SBWH", "A namespace that travels in the headers of requests.", native=True),
    ),
)
