"""Make real clusters available to the scenarios of `tests/flows`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from pyspark_rocketmq.cluster.signing import Credentials
from pyspark_rocketmq.model import MessageQueue
from pyspark_rocketmq.net.settings import TlsSettings
from tests.flows.half_messages import CHECK_MAX
from tests.flows.world import World, patient_net, until
from tests.real.servers import ACCESS_KEY, PKI, SECRET_KEY, Broker, RealCluster

QUICK_CHECKS = {"transactionTimeOut": "2000", "transactionCheckInterval": "2000", "transactionCheckMax": str(CHECK_MAX)}
"""Broker options with which half messages are checked every two seconds, and soon given up."""
LATE_ENDS = {**QUICK_CHECKS, "transactionOpBatchInterval": "60000"}
"""Broker options with which 5.x writes a minute late which half messages have ended."""
LATE_FILES = {**QUICK_CHECKS, "transientStorePoolEnable": "true", "transientStorePoolSize": "3"}
LATE_FILES |= {"commitIntervalCommitLog": "3000", "commitCommitLogThoroughInterval": "3000"}
"""Broker options with which messages are in memory only for up to three seconds."""
NO_FLUSH = {**QUICK_CHECKS, "flushDiskType": "SYNC_FLUSH", "syncFlushTimeout": "0"}
"""Broker options with which no message is flushed in time."""
ROCKSDB_BESIDE = {**QUICK_CHECKS, "transRocksDBEnable": "true"}
"""Broker options that make 5.5 able to keep half messages in RocksDB; new ones still go to the usual topic."""
ROCKSDB = {**ROCKSDB_BESIDE, "transWriteOriginTransHalfEnable": "false"}
"""Broker options with which 5.5 keeps half messages in RocksDB."""


class RealServers:
    """The brokers of a real cluster, as scenarios control them: stop, start, replicate, expire."""

    def __init__(self, cluster: RealCluster) -> None:
        self._cluster = cluster

    def stop(self, broker_name: str) -> None:
        """Kill a master; wait until the name servers have dropped it."""
        master = self._master(broker_name)
        master.kill()
        name_servers = [server for server in self._cluster.name_servers if server.running]
        until(lambda: not any(server.knows(master.address) for server in name_servers), f"{broker_name} is gone")

    def start(self, broker_name: str) -> None:
        """Start a stopped master, with the messages it had stored."""
        self._master(broker_name).start()

    def replicate(self, queues: Sequence[MessageQueue]) -> None:
        """Wait until the slaves hold all messages of these queues."""
        for topic in {queue.topic for queue in queues}:
            count = 1 + max(queue.queue_id for queue in queues if queue.topic == topic)
            self._cluster.wait_replicated(topic, queues=count)

    def expire(self, queue: MessageQueue) -> int:
        """Delete the oldest messages of a queue, as retention does; return the new minimum offset."""
        return self._master(queue.broker_name).expire(queue.topic, queue.queue_id)

    def _master(self, broker_name: str) -> Broker:
        return next(broker for broker in self._cluster.brokers if broker.broker_name == broker_name)


@cache
def real_world(cluster: RealCluster) -> World:
    """Return the `World` of a real cluster; it is kept, so its routes outlive a scenario, as they do in a client."""
    options: dict[str, Any] = {}
    if cluster.site.acl:
        options["credentials"] = Credentials(ACCESS_KEY, SECRET_KEY)
    if cluster.site.tls:
        options["net"] = patient_net(TlsSettings(trust_cert_path=str(PKI / "ca.pem")))
    return World(cluster.name_server, cluster.version, False, RealServers(cluster), options)


@cache
def rocksdb_world(cluster: RealCluster) -> World:
    """Return the `World` of a real cluster with half messages in RocksDB; its version names that, too."""
    return replace(real_world(cluster), version=f"{cluster.version}-rocksdb")
