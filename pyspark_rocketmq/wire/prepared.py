"""What changes from one request to the next, when thousands ask for the same thing at other places?

A request is written once, with gaps for the opaque and for those of its fields that change; then each further
request costs filling the gaps in.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from .frame import MIN_FRAME_BYTES
from .header import Command, encode_command

__all__ = ["PreparedRequest"]

_PREFIX = struct.Struct(">II")
"""Length; header type, which is 0 for JSON, and header length."""


@lru_cache  # Digits alone make a difference, so there are few lengths.
def _prefix(header_bytes: int) -> bytes:
    return _PREFIX.pack(header_bytes + 4, header_bytes)


class PreparedRequest:
    """A request with a JSON header and no body, of which the opaque and the `changing` fields are left open."""

    def __init__(self, code: int, fields: Mapping[str, str], changing: Sequence[str]) -> None:
        kept = {name: value for name, value in fields.items() if name not in changing}
        header = encode_command(Command(code, 0, kept | dict.fromkeys(changing, "0")))[MIN_FRAME_BYTES:]
        # Behind the fields stands nothing that a caller chose, so both ends are found from the right.
        fields_end = header.rindex(b'},"flag":')
        opaque_at = header.rindex(b'"opaque":0,') + len(b'"opaque":')
        names = [json.dumps(name, ensure_ascii=False).encode() for name in changing]
        zeros = b",".join(name + b':"0"' for name in names)
        self._text = b"".join(
            (
                _literal(header[:fields_end].removesuffix(zeros)),
                b",".join(_literal(name) + b':"%d"' for name in names),
                _literal(header[fields_end:opaque_at]),
                b"%d",
                _literal(header[opaque_at + 1 :]),
            )
        )

    def frames(self, numbers: Iterable[tuple[int, ...]]) -> list[bytes]:
        """Whole frames, one for each row of numbers: the changing fields in their order, then the opaque."""
        headers = [self._text % row for row in numbers]
        return [_prefix(len(header)) + header for header in headers]


def _literal(text: bytes) -> bytes:
    return text.replace(b"%", b"%%")
