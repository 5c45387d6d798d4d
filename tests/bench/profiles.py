"""Profile our code by its parts."""

from __future__ import annotations

from collections.abc import Mapping

from tests.bench.report import Report
from tests.bench.worker_processes import WorkerProcess

Parts = Mapping[str, list[str]]
"""Functions by their part, each as `file:function`; none of them calls another."""

PULLING: Parts = {
    "waiting for answers": ["transport.py:wait_ready"],
    "receiving, by the kernel": ["transport.py:receive_into"],
    "sending, by the kernel": ["transport.py:send"],
    "finding answers and reading their headers": ["channel.py:events"],
    "writing requests": ["prepared.py:frames"],
    "what an answer means for its range": ["reader.py:answered"],
    "which requests are next": ["reader.py:allowance", "reader.py:next_requests", "reader.py:place"],
    "putting answers into order": ["reader.py:take"],
}
DECODING: Parts = {
    "copying what was received": ["gathered.py:put"],
    "finding records": ["starts.py:find_starts"],
    "verifying property texts": ["shaped.py:maybe_find"],
    "values of properties": ["shaped.py:values_of", "shaped.py:select"],
    "bodies": ["bulk.py:_body"],
    "heads and where things lie": ["bulk.py:__init__", "bulk.py:field", "bulk.py:_property_spans"],
    "names of topic and broker": ["bulk.py:queue_texts"],
}
READING: Parts = {"pulling": ["loop.py:_blocks"], **DECODING}


def add_profile(
    report: Report, setting: str, python: WorkerProcess, parts: Parts, of: str, **parameters: object
) -> None:
    """Add a table of shares, the largest first."""
    shares = python.ask("profile", of=of, parts=parts, **parameters)["shares"]
    sorted_shares = sorted(shares.items(), key=lambda each: -each[1])
    rows = [(part, f"{share:.0%}") for part, share in [*sorted_shares, ("everything else", 1 - sum(shares.values()))]]
    report.add_table(f"{setting}: where the time goes, under a profiler", ["", "share"], rows)
