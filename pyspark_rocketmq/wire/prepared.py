"""What changes from one request to the next, when thousands ask for the same thing at other places?

A request is written once, with gaps for the opaque and for those of its fields that change; then each further
request costs filling the gaps in.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence

from .frame import MIN_FRAME_BYTES
from .header import Command, encode_command

__all__ = ["PreparedRequest"]

_PREFIX = struct.Struct(">II")
"""Length; header type, which is 0 for JSON, and header length."""


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

    def frame(self, opaque: int, numbers: Sequence[int]) -> bytes:
        """The whole frame with these values of the changing fields, in their order."""
        header = self._text % (*numbers, opaque)
        return _PREFIX.pack(len(header) + 4, len(header)) + header


def _literal(text: bytes) -> bytes:
    return text.replace(b"%", b"%%")
