"""Who is next on the ring?

Each member stands on a ring of 2**32 positions at several virtual nodes; a queue belongs to the first node at or
after its own position. When a member leaves, only its queues move.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from hashlib import md5

from ..errors import OptionError
from ..model import MessageQueue
from .strategy import Members, Queues, is_listed, require_both

__all__ = ["ConsistentHash", "queue_key", "ring_position", "virtual_nodes"]


def ring_position(key: str) -> int:
    """First four bytes of the key's MD5, as RocketMQ's own router takes them."""
    # Java, too, writes "?" for half of a surrogate pair.
    return int.from_bytes(md5(key.encode("utf-8", "replace"), usedforsecurity=False).digest()[:4], "big")


def queue_key(queue: MessageQueue) -> str:
    """The text of a queue that is hashed: Java's `MessageQueue.toString`."""
    return f"MessageQueue [topic={queue.topic}, brokerName={queue.broker_name}, queueId={queue.queue_id}]"


def virtual_nodes(members: Members, per_member: int) -> Iterator[tuple[str, str]]:
    """Key and owner of every node; numbers go on where a member is listed again."""
    for member, first in _first_numbers(members, per_member):
        for number in range(first, first + per_member):
            yield _node_key(member, number), member


def _first_numbers(members: Members, per_member: int) -> Iterator[tuple[str, int]]:
    next_number = dict.fromkeys(members, 0)
    for member in members:
        yield member, next_number[member]
        next_number[member] += per_member


def _node_key(member: str, number: int) -> str:
    return f"{member}-{number}"


# The same members come again at every division; ten nodes of 16,384 members are about 10 MB.
@lru_cache(maxsize=2**14)
def _positions(member: str, first: int, node_count: int) -> tuple[int, ...]:
    return tuple(ring_position(_node_key(member, number)) for number in range(first, first + node_count))


@dataclass(frozen=True, slots=True)
class ConsistentHash:
    """RocketMQ's CONSISTENT_HASH; without virtual nodes nobody gets a queue."""

    virtual_node_count: int = 10
    name: str = "CONSISTENT_HASH"

    def __post_init__(self) -> None:
        if self.virtual_node_count < 0:
            raise OptionError("virtualNodeCnt", str(self.virtual_node_count), "negative", advice="give 1 to 10000")

    def allocate(self, current: str, queues: Queues, members: Members) -> list[MessageQueue]:
        """The queues whose next node belongs to `current`."""
        if not is_listed(current, queues, members) or not self.virtual_node_count:
            return []
        owner = self._find_owner(members)
        return [queue for queue in queues if owner(queue) == current]

    def allocate_all(self, queues: Queues, members: Members) -> list[list[MessageQueue]]:
        """Every queue at the owner of its next node."""
        require_both(queues, members)
        shares: dict[str, list[MessageQueue]] = {member: [] for member in members}
        if self.virtual_node_count:
            owner = self._find_owner(members)
            for queue in queues:
                shares[owner(queue)].append(queue)
        return [list(shares[member]) for member in members]

    def _find_owner(self, members: Members) -> Callable[[MessageQueue], str]:
        # Of two nodes at one position the later one stays, as in Java's map.
        nodes = self.virtual_node_count
        ring = {
            position: member
            for member, first in _first_numbers(members, nodes)
            for position in _positions(member, first, nodes)
        }
        positions = sorted(ring)
        owners = [ring[position] for position in positions]
        return lambda queue: owners[bisect_left(positions, ring_position(queue_key(queue))) % len(owners)]
