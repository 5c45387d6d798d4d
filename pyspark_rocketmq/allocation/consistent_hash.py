"""Assign each queue to the next member on a ring of hashes.

Each member stands at several positions (virtual nodes) of a ring of 2**32 positions; a queue belongs to the first node
at or after its own position. When a member leaves, only its queues move. Ten thousand members make a ring of a hundred
thousand nodes, so all keys are hashed at once, as bytes.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import md5

from ..errors import OptionError
from ..model import MessageQueue
from .strategy import Members, Queues, check_listed, require_both

__all__ = ["ConsistentHash", "node_keys", "queue_key", "ring_positions"]


def ring_positions(keys: Iterable[bytes]) -> Sequence[int]:
    """Return the position of each key on the ring: the first four bytes of its MD5, as in RocketMQ's router."""
    digests = b"".join([md5(key, usedforsecurity=False).digest() for key in keys])
    first_words = array("I", digests)[::4]
    if sys.byteorder == "little":
        first_words.byteswap()
    return first_words


def queue_key(queue: MessageQueue) -> bytes:
    """Return the key of a queue: the text of Java's `MessageQueue.toString`, as bytes."""
    return _encode(f"MessageQueue [topic={queue.topic}, brokerName={queue.broker_name}, queueId={queue.queue_id}]")


def node_keys(members: Members, per_member: int) -> list[bytes]:
    """Return the keys of all virtual nodes: `member-0`, `member-1` and so on, `per_member` for each listed member.

    If a member is listed twice, the numbers continue, so that it gets twice as many nodes.
    """
    most = max(Counter(members).values())
    numbers = [b"%d" % number for number in range(most * per_member)]
    keys: list[bytes] = []
    used = dict.fromkeys(members, 0)
    for member in members:
        stem, first = _encode(f"{member}-"), used[member]
        used[member] = first + per_member
        keys += [stem + number for number in numbers[first : first + per_member]]
    return keys


def _encode(key: str) -> bytes:
    # Java, too, writes "?" for half of a surrogate pair.
    return key.encode("utf-8", "replace")


@dataclass(frozen=True, slots=True)
class ConsistentHash:
    """RocketMQ's CONSISTENT_HASH, by a ring of hashes; with 0 virtual nodes per member no member gets a queue."""

    virtual_node_count: int = 10
    name: str = "CONSISTENT_HASH"

    def __post_init__(self) -> None:
        if self.virtual_node_count < 0:
            raise OptionError("virtualNodeCnt", str(self.virtual_node_count), "negative", advice="give 1 to 10000")

    def allocate(self, current: str, queues: Queues, members: Members) -> list[MessageQueue]:
        """Return the queues of the member `current`: those whose next node on the ring of hashes is its own."""
        if not check_listed(current, queues, members) or not self.virtual_node_count:
            return []
        return [queue for queue, owner in zip(queues, self._owners(queues, members), strict=True) if owner == current]

    def allocate_all(self, queues: Queues, members: Members) -> list[list[MessageQueue]]:
        """Return for each of `members`, in order, the queues whose next node on the ring of hashes is its own."""
        require_both(queues, members)
        assigned: dict[str, list[MessageQueue]] = {member: [] for member in members}
        if self.virtual_node_count:
            for queue, owner in zip(queues, self._owners(queues, members), strict=True):
                assigned[owner].append(queue)
        return [list(assigned[member]) for member in members]

    def _owners(self, queues: Queues, members: Members) -> list[str]:
        """Return for each queue the member that gets it: the owner of the next node on the ring of hashes."""
        nodes = ring_positions(node_keys(members, self.virtual_node_count))
        # Of two nodes at one position the later one stays, as in Java's map.
        ring = dict(zip(nodes, range(len(nodes)), strict=True))
        taken = sorted(ring)
        next_nodes = (taken[bisect_left(taken, at) % len(taken)] for at in ring_positions(map(queue_key, queues)))
        return [members[ring[node] // self.virtual_node_count] for node in next_nodes]
