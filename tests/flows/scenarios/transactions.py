"""Scenarios of half messages: commits, rollbacks, and a broker's checks of open transactions."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import replace

from pyspark_rocketmq.cluster.cluster import Cluster
from pyspark_rocketmq.cluster.messages import Receipt
from pyspark_rocketmq.model import Address, MessageQueue
from pyspark_rocketmq.wire.bodies import HeartbeatData, ProducerData
from pyspark_rocketmq.wire.codes import RequestCode, TransactionState
from pyspark_rocketmq.wire.commands import CheckTransactionStateRequestHeader, EndTransactionRequestHeader, from_fields
from pyspark_rocketmq.wire.header import Command
from pyspark_rocketmq.wire.message_id import decode_offset_message_id
from pyspark_rocketmq.wire.record import decode_record
from tests.flows.world import WAIT_TIMEOUT_S, World, fresh, sending


def committed_message_is_seen(world: World) -> None:
    """Check that a half message can be read after its commit, and not before."""
    queue, group = world.make_queue(), fresh("group")
    receipt = _send_half(world.cluster, queue, group)
    assert world.cluster.offsets.fetch_max([queue]) == {queue: 0}

    _end(world, queue, group, receipt, TransactionState.COMMIT)

    [record] = world.await_messages(queue)
    assert (record.body, record.queue_id) == (b"half", queue.queue_id)
    assert record.transaction_state is TransactionState.COMMIT


def message_rolled_back_is_never_seen(world: World) -> None:
    """Check that a half message that was rolled back is not in the queue, while a later message is."""
    queue, group = world.make_queue(), fresh("group")
    receipt = _send_half(world.cluster, queue, group)

    _end(world, queue, group, receipt, TransactionState.ROLLBACK)
    world.send(queue, b"behind")

    assert [record.body for record in world.read(queue)] == [b"behind"]


def forgotten_message_is_asked_about(world: World) -> None:
    """Check that a broker checks an open transaction by a request to a producer of its group, which then commits it."""
    queue, group = world.make_queue(), fresh("group")
    asked: Future[tuple[Address, Command]] = Future()

    def handler(address: Address, command: Command) -> None:
        if command.code == RequestCode.CHECK_TRANSACTION_STATE and not asked.done():
            asked.set_result((address, command))

    with world.shared_cluster(handler) as cluster:
        producer = HeartbeatData(client_id=group, producer_data_set=(ProducerData(group_name=group),))
        cluster.groups.heartbeat(world.master(queue), producer)
        _send_half(cluster, queue, group)
        address, request = asked.result(WAIT_TIMEOUT_S)
        cluster.messages.end_transaction(queue.broker_name, _reply(request, queue, group))

    assert address == world.master(queue)
    assert decode_record(request.body)[0].properties["REAL_TOPIC"] == queue.topic
    assert [record.body for record in world.await_messages(queue)] == [b"half"]


def _send_half(cluster: Cluster, queue: MessageQueue, group: str) -> Receipt:
    properties = {"TRAN_MSG": "true", "PGROUP": group, "UNIQ_KEY": fresh("id")}
    half = replace(sending(queue, b"half", properties, sys_flag=TransactionState.PREPARED), producer_group=group)
    return cluster.messages.send(half)


def _end(world: World, queue: MessageQueue, group: str, receipt: Receipt, state: TransactionState) -> None:
    header = EndTransactionRequestHeader(
        topic=queue.topic,
        producer_group=group,
        tran_state_table_offset=receipt.queue_offset,
        commit_log_offset=decode_offset_message_id(receipt.message_id).physical_offset,
        commit_or_rollback=state,
        msg_id=receipt.transaction_id or "",
        transaction_id=receipt.transaction_id,
    )
    world.cluster.messages.end_transaction(queue.broker_name, header)


def _reply(request: Command, queue: MessageQueue, group: str) -> EndTransactionRequestHeader:
    """Return the request that commits the transaction which the broker checks."""
    asked = from_fields(CheckTransactionStateRequestHeader, request.fields)
    return EndTransactionRequestHeader(
        topic=queue.topic,
        producer_group=group,
        tran_state_table_offset=asked.tran_state_table_offset,
        commit_log_offset=asked.commit_log_offset,
        commit_or_rollback=TransactionState.COMMIT,
        from_transaction_check=True,
        msg_id=asked.msg_id or "",
        transaction_id=asked.transaction_id,
    )
