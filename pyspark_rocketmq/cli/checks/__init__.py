"""Check a cluster and a Spark installation; each check returns findings for `doctor`.

findings       define what a check found, why it matters, what to do
together       run checks of many servers at the same time
name_servers   reach name servers, compare their tables
brokers        reach brokers; clocks, certificates, settings, retention
topics         a topic, reading it, and a group's positions
permissions    explain a refusal: credentials or a missing permission, and the line that grants it
spark          compare driver, planner and executors
spark_probe    look around in them, as a program of its own
"""
