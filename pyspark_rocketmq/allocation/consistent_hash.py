"""Who is next on the ring?

Each member stands on a ring of 2**32 positions at several virtual nodes; a queue belongs to the first node at or
after its own position. When a member leaves, only its queues move.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import md5

from ..errors import OptionError
from ..model import MessageQueue
from .strategy import Members, Queues, is_listed, require_both

__all__ = ["ConsistentHash", "queue_key", "ring_position", "virtual_nodes"]


def ring_position(key: str) -> int:
    """First four bytes of the key's MD5, as RocketMQ's own router takes them."""
    return int.from_bytes(_place(key), "big")


def _place(key: str) -> bytes:
    """The position as its four bytes, which are in the same order and need no number each."""
    # Java, too, writes "?" for half of a surrogate pair.
    return md5(key.encode("utf-8", "replace"), usedforsecurity=False).digest()[:4]


def queue_key(queue: MessageQueue) -> str:
    """The text of a queue that is hashed: Java's `MessageQueue.toString`."""
    return f"MessageQueue [topic={queue.topic}, brokerName={queue.broker_name}, queueId={queue.queue_id}]"


def virtual_nodes(members: Members, per_member: int) -> Iterator[tuple[str, str]]:
    """Key and owner of every node; numbers go on where a member is listed again."""
    first_number = dict.fromkeys(members, 0)
    for member in members:
        first = first_number[member]
        for number in range(first, first + per_member):
            yield f"{member}-{number}", member
        first_number[member] += per_member


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
        ring = {_place(key): member for key, member in virtual_nodes(members, self.virtual_node_count)}
        places = sorted(ring)
        owners = [ring[place] for place in places]
        return lambda queue: owners[bisect_left(places, _place(queue_key(queue))) % len(owners)]
