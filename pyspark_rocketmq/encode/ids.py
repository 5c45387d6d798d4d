"""Make the message ids of rows: 32 hexadecimal digits that a replay of the batch repeats.

A row is known by its `rowId`. Without one it is known by its number within the partition and by what is sent, so that a
row that a replay places elsewhere gets another id, and never the id of a different row.

Bytes 10 to 13 of an id are zero, because tools read them as the milliseconds since the start of the month. The other
twelve are a hash: a cryptographic seed for the partition, then operations on whole arrays.
"""

from __future__ import annotations

import hashlib
import struct
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from .arrays import Hashes, Integers, fixed_texts, hash_texts, mix

__all__ = ["BatchIdentity", "ids_by_content", "ids_by_row_id"]

_HEXADECIMAL = np.array([b"%02X" % byte for byte in range(256)], "S2").view(np.uint16)
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


class BatchIdentity(NamedTuple):
    """The query, sink and number of a batch; a replay repeats all three, and no other batch has the same three."""

    query_id: str
    sink_name: str
    batch_id: int

    def seeds(self, *more: int) -> Hashes:
        """Return four 64-bit numbers: a hash of this identity and of further numbers, such as that of the partition."""
        texts = [self.query_id, self.sink_name, *map(str, (self.batch_id, *more))]
        # Sizes go first, so that no two lists of texts have the same bytes.
        data = b"".join(struct.pack(">q", len(text.encode())) + text.encode() for text in texts)
        return np.frombuffer(hashlib.blake2b(data, digest_size=32).digest(), "<u8")


def ids_by_content(identity: BatchIdentity, partition: int, numbers: Integers, contents: Hashes) -> pa.Array:
    """Return the message ids of rows, made from batch, partition, numbers within it, and hashes of what is sent."""
    seeds = identity.seeds(partition)
    numbers = numbers.astype(np.uint64)
    high = mix(mix(numbers * _GOLDEN + seeds[0]) ^ mix(contents + seeds[1]))
    low = mix(mix(contents * _GOLDEN + seeds[2]) ^ mix(numbers + seeds[3]))
    return _format(high, low)


def ids_by_row_id(identity: BatchIdentity, row_ids: pa.Array) -> pa.Array:
    """Return the message ids of rows, made from the batch and their `rowId`s; the id is the same in every partition."""
    seeds = identity.seeds()
    high = mix(hash_texts(row_ids, 1) ^ seeds[0])
    low = mix(hash_texts(row_ids, 2) ^ seeds[1])
    return _format(high, low)


def _format(high: Hashes, low: Hashes) -> pa.Array:
    """Return the ids in hexadecimal: eight bytes of `high`, two of `low`, four zero bytes, the next two of `low`."""
    octets = np.zeros((len(high), 16), np.uint8)
    octets[:, :8] = high.astype(">u8").view(np.uint8).reshape(-1, 8)
    rest = low.astype(">u8").view(np.uint8).reshape(-1, 8)
    octets[:, 8:10] = rest[:, :2]
    octets[:, 14:] = rest[:, 2:4]
    return fixed_texts(_HEXADECIMAL[octets])
