"""Hold the options of a sink that decide what send requests look like.

This module imports no Arrow, so that options can be parsed without it.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..wire.compression import Compression

__all__ = ["EncodeSettings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodeSettings:
    """The options of a sink that decide what requests look like."""

    topic: str | None = None
    max_body_bytes: int = 4 * 2**20
    batch_rows: int = 32
    batch_bytes: int = 2**20
    compress_over_bytes: int = 4096
    compression: Compression = Compression.ZLIB
    key_is_sharding_key: bool = False
    places_by_key: bool = True
