"""Strategies give the same results as recorded from RocketMQ's own classes."""

from __future__ import annotations

from typing import Any

import pytest

from pyspark_rocketmq.allocation.consistent_hash import node_keys, ring_positions
from pyspark_rocketmq.errors import GroupError, OptionError, RocketMQError
from pyspark_rocketmq.model import java_order, sort_queues
from pyspark_rocketmq.wire.properties import java_hash
from tests.allocation.fixtures import VECTORS, as_queues, strategy_of

OUR_ERRORS: dict[str, tuple[type[RocketMQError], str]] = {
    "currentCID is empty": (GroupError, "no client id"),
    "mqAll is null or mqAll empty": (GroupError, "no queues"),
    "cidAll is null or cidAll empty": (GroupError, "no members"),
    "illegal virtualNodeCnt :-1": (OptionError, "virtualNodeCnt = '-1'"),
    "Machine room is null for mq MessageQueue [topic=T, brokerName=brokera, queueId=0]": (
        OptionError,
        "broker brokera",
    ),
    "Machine room is null for consumer id c1": (OptionError, "member c1"),
}
RAISED_BY_ALLOCATING = [case for case in VECTORS["errors"] if case["message"]]


@pytest.mark.parametrize("case", VECTORS["cases"], ids=lambda case: case["id"])
def test_share_of_each_member(case: dict[str, Any]) -> None:
    """The queues of each member are those that the Java class returned, in the same order."""
    strategy = strategy_of(case)
    queues, members = as_queues(case["mq_all"]), case["cid_all"]

    for current, expected in case["expected"].items():
        assert strategy.allocate(current, queues, members) == as_queues(expected or [])


@pytest.mark.parametrize("case", [case for case in VECTORS["cases"] if case["cid_all"]], ids=lambda case: case["id"])
def test_all_shares_at_once(case: dict[str, Any]) -> None:
    """If queues are assigned to all members at once, each gets the queues that the Java class returned."""
    members = case["cid_all"]
    shares = dict(zip(members, strategy_of(case).allocate_all(as_queues(case["mq_all"]), members), strict=True))

    for current in set(members) & case["expected"].keys():
        assert shares[current] == as_queues(case["expected"][current] or [])


@pytest.mark.parametrize("case", RAISED_BY_ALLOCATING, ids=lambda case: case["id"])
def test_refusals(case: dict[str, Any]) -> None:
    """If the Java class throws an exception, an error is raised here, which names the cause."""
    error, words = OUR_ERRORS[case["message"]]

    with pytest.raises(error) as raised:
        strategy_of(case).allocate(case["current"], as_queues(case["mq_all"]), case["cid_all"])

    assert words in str(raised.value)


def test_every_recorded_refusal_is_covered() -> None:
    """Every recorded exception is tested here, except for missing rooms, which fail when the strategy is built."""
    assert {case["id"] for case in VECTORS["errors"]} - {case["id"] for case in RAISED_BY_ALLOCATING} == {
        "ERR-MR-nullset"
    }
    assert (len(VECTORS["cases"]), len(VECTORS["errors"])) == (54, 19)


def test_queues_and_client_ids_sort_as_in_java() -> None:
    """Queues and client ids are sorted by UTF-16 code units, queue ids as numbers."""
    queues, ids = VECTORS["sorting"]["message_queues"], VECTORS["sorting"]["client_ids"]

    assert sort_queues(as_queues(queues["input"])) == as_queues(queues["sorted"])
    assert sorted(ids["input"], key=java_order) == ids["sorted"]


@pytest.mark.parametrize("vector", VECTORS["consistent_hash"]["key_hashes"], ids=lambda vector: vector["key"])
def test_ring_position(vector: dict[str, Any]) -> None:
    """The position of a key on the ring is the one recorded from RocketMQ's router."""
    assert list(ring_positions([vector["key"].encode()])) == [vector["hash"]]


@pytest.mark.parametrize(
    ("members", "per_member", "ring"),
    [
        (["c0", "c1", "c2"], 3, "ring_c0_c1_c2_3_virtual_nodes"),
        (["c0", "c0", "c1"], 2, "ring_c0_c0_c1_2_virtual_nodes"),
    ],
)
def test_ring(members: list[str], per_member: int, ring: str) -> None:
    """All virtual nodes are at the recorded positions, also if a client id is listed twice."""
    keys = node_keys(members, per_member)

    nodes = [[position, key.decode()] for position, key in zip(ring_positions(keys), keys, strict=True)]

    assert sorted(nodes) == VECTORS["consistent_hash"][ring]


@pytest.mark.parametrize("vector", VECTORS["java_string_hash"], ids=lambda vector: repr(vector["string"]))
def test_java_hash(vector: dict[str, Any]) -> None:
    """The hash of a string, and the eight bytes in which brokers store it, are the same as in Java."""
    value = java_hash(vector["string"])

    assert value == vector["hash"]
    assert value.to_bytes(8, "big", signed=True).hex() == vector["tags_code_8_bytes_hex"]
