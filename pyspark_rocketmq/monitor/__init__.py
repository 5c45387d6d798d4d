"""Watch the queries of a Spark session: how far they are behind, for callbacks and for Prometheus.

    listener = LagListener(options, on_report=print)
    spark.streams.addListener(listener)
    server = serve_metrics(listener)                     # http://127.0.0.1:9464/metrics

A `LagListener` hears of batches from Spark, and asks brokers itself, in one thread that lives as long as there are
queries. `reports` holds its values. `watcher` has the thread. `prometheus` turns reports into metrics and serves them;
it alone needs `prometheus_client`, so import `serve_metrics` and `LagCollector` from there.
"""

from __future__ import annotations

from .listener import LagListener
from .reports import Activity, QueryReport

__all__ = ["Activity", "LagListener", "QueryReport"]
