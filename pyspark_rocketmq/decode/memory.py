"""How does a process keep the memory that one batch after the other needs?

What a batch needs besides its columns is freed when it is done. The C library would then return it to the operating
system, and the next batch would pay for getting it back page by page: up to 2 µs a message, more than decoding.

Linux's C library (glibc) learns from what a process frees: once a large block was freed, twice its size may lie idle.
So one is allocated and freed in the beginning. It is never written to, and so costs nothing; other C libraries do not
care.
"""

from __future__ import annotations

from functools import cache

__all__ = ["keep_freed_memory"]

_BLOCK_BYTES = 16 * 2**20
"""Several times what a batch needs; glibc learns from blocks of up to 32 MiB."""


@cache
def keep_freed_memory() -> None:
    """Let this process keep freed memory of up to twice the block; once is enough."""
    bytearray(_BLOCK_BYTES)
