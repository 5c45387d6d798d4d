"""Change valid inputs at random places, in ways that decoders tend to overlook.

Every choice comes from one seeded generator, so equal seeds give equal inputs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, MutableSequence, Sequence
from random import Random
from typing import TypeVar

__all__ = ["Mutator"]

T = TypeVar("T")

LONGEST_INPUT = 1_000_000
_LONGEST_SPAN = 64
_LONG_TEXT = 70_000
_MANY_DIGITS = 4_400
"""Above the number of digits that Python converts to an integer."""

NUMBERS = (0, 1, -1, 2, 127, 128, 255, 2**15 - 1, 2**15, 2**16, 2**31 - 1, 2**31, -(2**31), 2**32, 2**63 - 1, -(2**63))

TEXTS = (
    *map(str, NUMBERS),
    *("", " ", "9223372036854775808", "-9223372036854775809", "1e999", "1e5", "NaN", "+1", "007", "0x10", "1_000"),
    *("١٢", "½", "²", "\x00", "\x01", "\x02", "a\x01b\x02", "\r\nX", "\x1b[2J", "\ufeff", "🚀", "\u2028", "K"),
    *("true", "null", "*", "a || b", "||", "a = ", "../../etc", "%RETRY%g", "%DLQ%g", "%SYS%", "RMQ_SYS_X", "T", "g"),
    *(":0", "h:", "[::1]:1", "h:99999", "a:1;b", "T@1", "0A0000090000C35000000000000003E8", "SCHEDULE_TOPIC_XXXX"),
    *("1" * _MANY_DIGITS, "x" * _LONG_TEXT, "(" * 3_000, "NOT " * 3_000 + "TRUE", "a=1 OR " * 3_000 + "a=1"),
)

JSON_VALUES = (
    *map(str, NUMBERS),
    *('"a,b"', r'"a\"b"', r'"a\\"', '"{a}"', '"[a]:"'),
    *("9223372036854775808", "1e999", "-1e999", "1.5", "-0", "NaN", "Infinity", "null", "true", "{}", "[]", '""'),
    *(
        '"\\ud800"',
        '"\\u0000"',
        '"{}"',
        '"-1"',
        '"*"',
        '"1\\r\\n"',
        '{"$ref":"$"}',
        '{"$ref":"$.a[0].b"}',
        '{"$ref":".."}',
    ),
    *('{"topic":"T","brokerName":"broker-a","queueId":"x"}', '{"a":1,"a":2}', "1" * _MANY_DIGITS),
    *("[" * 900 + "]" * 900, '{"a":' * 900 + "1" + "}" * 900, '"' + "x" * _LONG_TEXT + '"'),
)
JSON_TOKENS = (*JSON_VALUES, "x", '"\\x"', '"open', "'T'", "{,}", ",", ":", "/*", "[" * 5_000, '{"a":' * 5_000)

_JSON_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?|[{}\[\]:,]|\w+')


class Mutator:
    """The random choices of one fuzzing attempt."""

    def __init__(self, seed: str) -> None:
        self.random = Random(seed)

    def chance(self, probability: float) -> bool:
        """Return True with this probability."""
        return self.random.random() < probability

    def pick(self, choices: Sequence[T]) -> T:
        """Return one of the choices."""
        return self.random.choice(choices)

    def upto(self, most: int) -> int:
        """Return a number from 0 to `most`."""
        return self.random.randint(0, most)

    def number(self, bits: int = 64) -> int:
        """Return a number near a limit of some width, or a small one; it fits a signed integer of `bits` bits."""
        number = self.pick(NUMBERS) + self.pick((-1, 0, 0, 0, 1)) if self.chance(0.5) else self.upto(9)
        return number if -(2 ** (bits - 1)) <= number < 2 ** (bits - 1) else self.upto(9)

    def noise(self, most: int) -> bytes:
        """Return at most `most` random bytes."""
        return self.random.randbytes(self.upto(most))

    def text(self) -> str:
        """Return a text that programs tend to handle badly."""
        return self.pick(TEXTS)

    def damage(self, data: bytes) -> bytes:
        """Return the bytes with up to four changes (few more often than many), or seldom something else altogether."""
        if self.chance(0.02):
            return self.noise(300)
        changed = bytearray(data)
        for _ in range(self.upto(self.upto(4))):
            self.pick(_BYTE_CHANGES)(self, changed)
        return bytes(changed[:LONGEST_INPUT])

    def damage_json(self, text: str) -> bytes:
        """Return a JSON text with up to four changed tokens, seldom also with changed bytes."""
        tokens = _JSON_TOKEN.findall(text)
        for _ in range(self.upto(self.upto(4))):
            if tokens:
                self.pick(_TOKEN_CHANGES)(self, tokens)
        data = "".join(tokens).encode()[:LONGEST_INPUT]
        return self.damage(data) if self.chance(0.2) else data

    def damage_text(self, text: str) -> str:
        """Return a text with a part of it replaced, or another text; characters may be any but surrogates."""
        if self.chance(0.3):
            return self.text()
        return self.damage(text.encode()).decode("utf-8", "replace" if self.chance(0.5) else "ignore")

    def damage_fields(self, fields: Mapping[str, str]) -> dict[str, str]:
        """Return a map with up to three values replaced, seldom with entries removed or added."""
        changed = dict(fields)
        for name in self.random.sample(list(changed), min(len(changed), self.upto(self.upto(3)))):
            changed[name] = self.text()
        if changed and self.chance(0.1):
            del changed[self.pick(list(changed))]
        if self.chance(0.05):
            changed[self.text()] = self.text()
        return changed

    def span(self, length: int) -> slice:
        """Return a short part of a sequence of this length."""
        start = self.upto(length)
        return slice(start, start + self.upto(_LONGEST_SPAN if self.chance(0.5) else 4))


# --- changes of bytes ------------------------------------------------------------------------------------------------


def _flip(mutator: Mutator, data: bytearray) -> None:
    if data:
        data[mutator.upto(len(data) - 1)] ^= 1 << mutator.upto(7)


def _cut(mutator: Mutator, data: bytearray) -> None:
    del data[mutator.upto(len(data)) :]


def _remove(mutator: Mutator, data: bytearray) -> None:
    del data[mutator.span(len(data))]


def _repeat(mutator: Mutator, data: bytearray) -> None:
    span = mutator.span(len(data))
    data[span] = data[span] * mutator.pick((2, 2, 3, 100))


def _replace_number(mutator: Mutator, data: bytearray) -> None:
    number = _packed_number(mutator)
    start = mutator.upto(len(data))
    data[start : start + len(number)] = number


def _insert_number(mutator: Mutator, data: bytearray) -> None:
    start = mutator.upto(len(data))
    data[start:start] = _packed_number(mutator)


def _insert_noise(mutator: Mutator, data: bytearray) -> None:
    start = mutator.upto(len(data))
    data[start:start] = mutator.noise(16)


def _insert_text(mutator: Mutator, data: bytearray) -> None:
    start = mutator.upto(len(data))
    data[start:start] = mutator.pick((b"\xff\xfe", b"\xed\xa0\x80", b"\x01", b"\x02", b'"', b"{", b"[", b"\xc0\x80"))


def _packed_number(mutator: Mutator) -> bytes:
    width = mutator.pick((1, 2, 4, 8))
    return (mutator.pick(NUMBERS) & (1 << 8 * width) - 1).to_bytes(width, "big")


_BYTE_CHANGES: Sequence[Callable[[Mutator, bytearray], None]] = (
    _flip,
    _cut,
    _remove,
    _repeat,
    _replace_number,
    _insert_number,
    _insert_noise,
    _insert_text,
)


# --- changes of JSON tokens ------------------------------------------------------------------------------------------


def _replace_value(mutator: Mutator, tokens: MutableSequence[str]) -> None:
    """Replace a text, a number or a word by a legal JSON value, so that the whole mostly stays legal."""
    at = mutator.upto(len(tokens) - 1)
    if tokens[at] not in "{}[]:,":
        tokens[at] = mutator.pick(JSON_VALUES)


def _replace_token(mutator: Mutator, tokens: MutableSequence[str]) -> None:
    tokens[mutator.upto(len(tokens) - 1)] = mutator.pick(JSON_TOKENS)


def _insert_token(mutator: Mutator, tokens: MutableSequence[str]) -> None:
    tokens.insert(mutator.upto(len(tokens)), mutator.pick(JSON_TOKENS))


def _remove_token(mutator: Mutator, tokens: MutableSequence[str]) -> None:
    del tokens[mutator.upto(len(tokens) - 1)]


def _repeat_tokens(mutator: Mutator, tokens: MutableSequence[str]) -> None:
    span = mutator.span(len(tokens))
    tokens[span] = list(tokens[span]) * mutator.pick((2, 2, 3, 50))


def _swap_tokens(mutator: Mutator, tokens: MutableSequence[str]) -> None:
    first, second = (mutator.upto(len(tokens) - 1) for _ in range(2))
    tokens[first], tokens[second] = tokens[second], tokens[first]


_TOKEN_CHANGES: Sequence[Callable[[Mutator, MutableSequence[str]], None]] = (
    _replace_value,
    _replace_value,
    _replace_value,
    _replace_value,
    _replace_token,
    _insert_token,
    _remove_token,
    _repeat_tokens,
    _swap_tokens,
)
