"""Measure runs of queries at an interval, in one thread that lives as long as there are runs.

Spark's threads only put the newest progress event of a run here, and never wait for a measurement. A run is measured
as soon as its first event is here, then at the interval. The thread takes at most a fiftieth of a processor core: a run
that costs more is measured less often. Whatever fails is logged when it begins to fail, and tried again.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from .reports import Activity, ProgressEvent, QueryReport

__all__ = ["WatchedRun", "Watcher"]

_log = logging.getLogger(__name__)

_SHARE = 50
"""A measurement that takes one second of processor time is repeated after this many seconds at the earliest."""
_CLOSE_S = 5.0


class WatchedRun:
    """A run of a query: its last event, its batches so far, and its last report."""

    def __init__(self, event: ProgressEvent) -> None:
        now_s = time.time()
        self.event = event
        self.activity = Activity(now_s).after(event, now_s)
        self.report: QueryReport | None = None
        self.due_s = time.monotonic()
        self._troubles: set[str] = set()

    def __repr__(self) -> str:
        return f"<WatchedRun {self.event.query}, {self.activity.batches} batches>"

    def note(self, event: ProgressEvent) -> None:
        """Take over a new event; do nothing if it came before: a listener that was added twice gets all twice."""
        if event == self.event:
            return
        self.event = event
        self.activity = self.activity.after(event, time.time())

    def begin_trouble(self, trouble: str, reason: object, cause: BaseException | None = None) -> None:
        """Log that a trouble begins; do nothing if it has begun already."""
        if trouble not in self._troubles:
            self._troubles.add(trouble)
            _log.warning("query %s: %s: %s", self.event.query, trouble, reason, exc_info=cause)

    def end_trouble(self, trouble: str) -> None:
        """Log that a trouble is over, if there was one."""
        if trouble in self._troubles:
            self._troubles.discard(trouble)
            _log.info("query %s: no longer: %s", self.event.query, trouble)


class Watcher:
    """Keeps the runs of queries that go on; measures each at an interval, and hands its report on."""

    def __init__(
        self,
        measure: Callable[[WatchedRun], QueryReport | None],
        on_report: Callable[[QueryReport], object],
        interval_s: float,
    ) -> None:
        self._measure = measure
        self._on_report = on_report
        self._interval_s = interval_s
        self._changed = threading.Condition()
        self._runs: dict[str, WatchedRun] = {}
        self._thread: threading.Thread | None = None
        self._is_closed = False

    def __repr__(self) -> str:
        return f"<Watcher {len(self._runs)} runs, {'measuring' if self._thread else 'no thread'}>"

    def note(self, event: ProgressEvent) -> None:
        """Take over a progress event; have a run that is new measured at once."""
        with self._changed:
            if self._is_closed:
                return
            if run := self._runs.get(event.run_id):
                run.note(event)
            else:
                self._forget_earlier_run(event.query_id)
                self._runs[event.run_id] = WatchedRun(event)
                self._changed.notify()
            if self._thread is None:
                thread = threading.Thread(target=self._serve, name="rocketmq-monitor", daemon=True)
                thread.start()
                self._thread = thread

    def _forget_earlier_run(self, query_id: str) -> None:
        """Forget a query's run whose end was missed: a query has one run at a time."""
        self._runs = {run_id: run for run_id, run in self._runs.items() if run.event.query_id != query_id}

    def note_idle(self, run_id: str) -> None:
        """Take over a sign of life of a run that has nothing to read."""
        with self._changed:
            if run := self._runs.get(run_id):
                run.activity = run.activity.seen(time.time())

    def forget(self, run_id: str) -> None:
        """Forget a run that has ended; after the last one, the thread ends."""
        with self._changed:
            self._runs.pop(run_id, None)
            self._changed.notify()

    def reports(self) -> tuple[QueryReport, ...]:
        """Return the last report of each run, in the order in which the runs were first seen."""
        with self._changed:
            return tuple(run.report for run in self._runs.values() if run.report)

    def close(self) -> None:
        """Forget all runs and take no more; wait some seconds for a measurement that goes on."""
        with self._changed:
            self._is_closed = True
            self._runs.clear()
            self._changed.notify()
            thread = self._thread
        if thread and thread is not threading.current_thread():
            thread.join(_CLOSE_S)

    # --- in the thread -----------------------------------------------------------------------------------------------

    def _serve(self) -> None:
        while run := self._next_due():
            began_s = time.thread_time()
            run.report = self._try_to_measure(run)
            if run.report and self._runs.get(run.event.run_id) is run:
                self._hand_on(run, run.report)
            used_s = time.thread_time() - began_s
            run.due_s = time.monotonic() + max(self._interval_s, used_s * _SHARE)

    def _next_due(self) -> WatchedRun | None:
        """Wait until a run is due and return it; return None if there are no runs any more."""
        with self._changed:
            while self._runs:
                first = min(self._runs.values(), key=lambda run: run.due_s)
                wait_s = first.due_s - time.monotonic()
                if wait_s <= 0:
                    return first
                self._changed.wait(min(wait_s, threading.TIMEOUT_MAX))
            self._thread = None
            return None

    def _try_to_measure(self, run: WatchedRun) -> QueryReport | None:
        """Return the report of a run; none if measuring it raises, because an old one would look like a new one."""
        trouble = "its progress event cannot be used"
        try:
            report = self._measure(run)
        except Exception as error:
            run.begin_trouble(trouble, repr(error), error)
            return None
        run.end_trouble(trouble)
        return report

    def _hand_on(self, run: WatchedRun, report: QueryReport) -> None:
        trouble = "the callback for reports raises, and is called again with the next report"
        try:
            self._on_report(report)
        except (Exception, SystemExit) as error:
            run.begin_trouble(trouble, repr(error), error)
        else:
            run.end_trouble(trouble)
