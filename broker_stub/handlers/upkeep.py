"""What do operators ask about disks and replicas, and what does a broker say that has neither?

Tools print these answers, so they are worded as a real broker with one master, no controller and nothing cold.
"""

from __future__ import annotations

from typing import Any

from pyspark_rocketmq.wire import fastjson
from pyspark_rocketmq.wire.codes import ResponseCode

from ..codes import AdminCode
from ..registry import Answer, Call, Refusal, answer, handles
from ..state import Broker
from ..topics import illegal_code
from .topics import NO_REMARK

_CONSUME_QUEUE_IS_NOT_IN_ROCKSDB = 2
_READ_MODES = ("0", "1")
_GLOBAL_COLD_BYTES = 100 * 1024 * 1024
_GROUP_COLD_BYTES = 3 * 1024 * 1024


@handles(AdminCode.RESET_MASTER_FLUSH_OFFSET)
def reset_flush_offset(broker: Broker, call: Call) -> Answer:
    """Accepted: slaves share their master's log, so there is nothing to move."""
    return answer()


@handles(AdminCode.POP_ROLLBACK)
def roll_back_pops(broker: Broker, call: Call) -> Answer:
    """Accepted: nothing is popped over remoting, so there is nothing to bring back."""
    return answer(remark=NO_REMARK)


@handles(AdminCode.CHECK_ROCKSDB_CQ_WRITE_PROGRESS)
def check_progress(broker: Broker, call: Call) -> Answer:
    """Consume queues are not written to a second place that could lag behind."""
    return answer(body=fastjson.write({"checkStatus": _CONSUME_QUEUE_IS_NOT_IN_ROCKSDB}), remark=NO_REMARK)


@handles(AdminCode.GET_BROKER_EPOCH_CACHE)
def get_epochs(broker: Broker, call: Call) -> Answer:
    """Epochs are a controller's, and there is none."""
    raise Refusal(ResponseCode.SYSTEM_ERROR, "this request only for controllerMode ")


@handles(AdminCode.GET_BROKER_HA_STATUS)
def get_replication(broker: Broker, call: Call) -> Answer:
    """How far the slaves are; a slave of the stub is as far as its master unless told to lag."""
    slaves = [other for other in broker.cluster.up() if other.name == broker.name and not other.is_master]
    end = broker.store.log.end
    connections = [_connection(str(slave.address), end) for slave in slaves if broker.is_master]
    told: dict[str, Any] = {
        "haClientRuntimeInfo": dict.fromkeys(_NOTHING_COPIED, 0),
        "haConnectionInfo": connections,
        "inSyncSlaveNums": len(connections),
        "master": broker.is_master,
        "masterCommitLogMaxOffset": end if broker.is_master else 0,
    }
    return answer(body=fastjson.write(told))


_NOTHING_COPIED = (
    "lastReadTimestamp",
    "lastWriteTimestamp",
    "masterFlushOffset",
    "maxOffset",
    "transferredByteInSecond",
)


def _connection(address: str, end: int) -> dict[str, Any]:
    return {
        "addr": address,
        "diff": 0,
        "inSync": True,
        "slaveAckOffset": end,
        "transferFromWhere": end,
        "transferredByteInSecond": 0,
    }


# --- reading what is no longer in memory -----------------------------------------------------------------------------


@handles(AdminCode.SET_COMMITLOG_READ_MODE)
def set_read_mode(broker: Broker, call: Call) -> Answer:
    """Accepted if it is a mode; there are no files to read ahead in."""
    mode = (call.command.fields or {}).get("READ_AHEAD_MODE")
    if mode is None:
        raise Refusal(ResponseCode.SYSTEM_ERROR, "set commitlog readahead mode failed")
    if mode not in _READ_MODES:
        raise Refusal(illegal_code(broker.release), "set commitlog readahead mode param value error")
    return answer(remark=f"set commitlog readahead mode success, mode: {mode}")


@handles(AdminCode.UPDATE_COLD_DATA_FLOW_CTR_CONFIG)
def limit_cold_reads(broker: Broker, call: Call) -> Answer:
    """Remember how much a group may read from disk; what is no number is passed over."""
    for line in call.body.decode().splitlines():
        group, _, limit = line.partition("=")
        if limit.strip().isdecimal():
            broker.cold_limits[group.strip()] = int(limit)
    return answer()


@handles(AdminCode.REMOVE_COLD_DATA_FLOW_CTR_CONFIG)
def free_cold_reads(broker: Broker, call: Call) -> Answer:
    """Forget a group's limit."""
    broker.cold_limits.pop(call.body.decode().strip(), None)
    return answer()


@handles(AdminCode.GET_COLD_DATA_FLOW_CTR_INFO)
def get_cold_limits(broker: Broker, call: Call) -> Answer:
    """The limits; nothing is ever read from disk."""
    told: dict[str, Any] = {
        "runtimeTable": {},
        "configTable": broker.cold_limits,
        "cgColdReadThreshold": _GROUP_COLD_BYTES,
        "globalColdReadThreshold": _GLOBAL_COLD_BYTES,
        "globalAcc": 0,
    }
    return answer(body=fastjson.write(told))
