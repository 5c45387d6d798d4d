"""Measure the share of time that each part of our code takes."""

from __future__ import annotations

from collections.abc import Mapping

from tests.bench.report import Report
from tests.bench.worker_processes import WorkerProcess

Parts = Mapping[str, list[str]]
"""{part of the code: its functions as `file:function`}; none of these functions calls another one."""

PULLING: Parts = {
    "waiting for responses": ["transport.py:wait_ready"],
    "receiving, by the kernel": ["transport.py:receive_into"],
    "sending, by the kernel": ["transport.py:send"],
    "finding responses and reading their headers": ["connection.py:events"],
    "reading outcomes": ["remoting.py:read_outcome"],
    "applying outcomes to ranges": ["reader.py:accept"],
    "choosing the next requests": ["reader.py:admit", "reader.py:choose_endpoint", "reader.py:take_requests"],
    "writing requests": ["remoting.py:submit"],
    "putting responses into order": ["reader.py:take"],
}
DECODING: Parts = {
    "copying responses": ["decoder.py:put"],
    "finding records": ["bulk.py:find_records"],
    "checking heads and finding spans": ["bulk.py:plain"],
    "verifying property texts": ["shapes.py:maybe_find"],
    "values of properties": ["shapes.py:values_of", "shapes.py:select"],
    "bodies": ["bulk.py:body"],
    "names of topic and broker": ["bulk.py:_queue_texts"],
}
SENDING: Parts = {
    "reading columns": ["columns.py:read_columns"],
    "writing properties": ["texts.py:property_texts", "texts.py:with_id"],
    "finding bad rows": ["faults.py:find_faults"],
    "message ids": ["requests.py:_ids"],
    "choosing queues": ["placing.py:place_rows"],
    "writing bodies of batches": ["requests.py:_write_entries"],
    "cutting requests": ["requests.py:_batches", "requests.py:_single"],
    "waiting for responses": ["transport.py:wait_ready"],
    "receiving, by the kernel": ["transport.py:receive_into"],
    "sending, by the kernel": ["transport.py:send"],
    "reading responses": ["session.py:_events", "pipeline.py:_settle_stored"],
    "taking requests": ["pipeline.py:_check", "schedule.py:add"],
    "choosing the next sends": ["schedule.py:take"],
    "writing frames": ["frames.py:write"],
}
READING: Parts = {"pulling": ["loop.py:_read_all"], **DECODING}


def add_profile(
    report: Report, setting: str, python: WorkerProcess, parts: Parts, of: str, **parameters: object
) -> None:
    """Run a task of the Python worker under a profiler; add a table of each part's share of the time to the report."""
    shares = python.ask("profile", of=of, parts=parts, **parameters)["shares"]
    sorted_shares = sorted(shares.items(), key=lambda each: -each[1])
    rows = [(part, f"{share:.0%}") for part, share in [*sorted_shares, ("everything else", 1 - sum(shares.values()))]]
    report.add_table(f"{setting}: where the time goes, under a profiler", ["", "share"], rows)
