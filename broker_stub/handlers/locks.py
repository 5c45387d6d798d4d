"""How does a client lock queues, to consume them in order?"""

from __future__ import annotations

from pyspark_rocketmq.wire.bodies import LockBatchRequestBody, LockBatchResponseBody, decode_body, encode_body
from pyspark_rocketmq.wire.codes import RequestCode

from ..registry import handles
from ..requests import Answer, Call, answer
from ..state import Broker


@handles(RequestCode.LOCK_BATCH_MQ)
def lock_queues(broker: Broker, call: Call) -> Answer:
    """Lock or renew; the answer names what the client holds."""
    wanted = decode_body(LockBatchRequestBody, call.body)
    held = broker.locks.lock(wanted.consumer_group, wanted.mq_set, wanted.client_id)
    return answer(body=encode_body(LockBatchResponseBody(lock_ok_mq_set=tuple(held))))


@handles(RequestCode.UNLOCK_BATCH_MQ)
def unlock_queues(broker: Broker, call: Call) -> Answer:
    """Give back what the client holds; nothing tells what it did not hold."""
    given = decode_body(LockBatchRequestBody, call.body)
    broker.locks.unlock(given.consumer_group, given.mq_set, given.client_id)
    return answer()
