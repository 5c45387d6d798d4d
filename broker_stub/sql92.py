"""Compile SQL92 filters and evaluate them on message properties.

`compile_sql` turns an expression into closures over a message's property map, with the broker's own oddities:

- the parser stops after a complete expression and ignores the text behind it: `a + 1 > 5` is `a`;
- NOT binds tightest: `NOT a = 10` is `(NOT a) = 10`;
- properties are text, and a comparison converts text to the Java type of the other operand: `c > 3` fails for
c = '3.5', because 3 is an Integer in Java; two texts are ordered as Doubles;
- logic has three values, an absent property is null, and a message matches only if the result is true.

Values at run time are str, bool, float (a Double), int (an Integer), `Long` and None.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TypeGuard

from pyspark_rocketmq.errors import RocketMQError


class Long(int):
    """An integer of Java's 64-bit type; a plain int stands for the 32-bit one."""


MOST_FILTER_CHARACTERS = 262_144
"""Maximum length of a filter expression; to compile a longer one could delay other requests."""

Value = str | bool | float | int | Long | None
Properties = Mapping[str, str]
Evaluate = Callable[[Properties], Value]


class SqlSyntaxError(RocketMQError):
    """Raised for a filter expression that the broker refuses to compile."""

    code = "SQL_SYNTAX"


class SqlEvaluationError(RocketMQError):
    """Raised if an expression cannot be evaluated for a message; the filter does not match this message."""

    code = "SQL_EVALUATION"


@dataclass(frozen=True, slots=True)
class SqlFilter:
    """A compiled SQL92 expression."""

    text: str
    evaluate: Evaluate

    def matches(self, properties: Properties) -> bool:
        """Return whether the expression is true for these properties; null, false and errors do not match."""
        try:
            return self.evaluate(properties) is True
        except (SqlEvaluationError, RecursionError):
            return False


def compile_sql(text: str) -> SqlFilter:
    """Return the compiled text; raise SqlSyntaxError if it is too long, nested too deeply or refused by the broker."""
    if len(text) > MOST_FILTER_CHARACTERS:
        raise SqlSyntaxError(f"{len(text)} characters, the stub's limit is {MOST_FILTER_CHARACTERS}: {text[:80]!r}")
    try:
        return SqlFilter(text, _Parser(text).whole().evaluate)
    except RecursionError as cause:
        raise SqlSyntaxError(f"{text!r:.80} is nested too deeply") from cause


# --- words -----------------------------------------------------------------------------------------------------------

_KEYWORDS = frozenset("NOT AND OR BETWEEN IN TRUE FALSE NULL IS CONTAINS STARTSWITH ENDSWITH".split())
_BLANKS, _LINE_COMMENT, _COMMENT = r"[ \t\n\r\f]", r"--[^\n\r]*[\n\r]", r"/\*[^*]*\*(?:\*|[^*/][^*]*\*)*/"
_SKIPPED = re.compile(f"(?:{_BLANKS}|{_LINE_COMMENT}|{_COMMENT})*")
_SKIPPED_IN_LAST_LINE = re.compile(f"(?:{_BLANKS}|{_COMMENT})*")
"""Blanks and comments in the last line, without `--` comments, because these must end with a line end."""
_WORD = re.compile(
    r"""(?P<float>[0-9]+\.[0-9]*(?:E[+-]?[0-9]+)?|\.[0-9]+(?:E[+-]?[0-9]+)?|[0-9]+E[+-]?[0-9]+)
      |(?P<integer>0|[1-9][0-9]*L?)
      |(?P<text>'(?:''|[^'])*')
      |(?P<name>[A-Z_$][A-Z0-9_$]*)
      |(?P<sign><>|>=|<=|[=<>(),+-])""",
    re.VERBOSE | re.IGNORECASE | re.ASCII,
)
_END = ("end", "")


def _words(text: str) -> Iterator[tuple[str, str]]:
    """Yield (kind, word) for each word of a SQL92 text, and then end marks for ever.

    A malformed word raises SqlSyntaxError only when its turn comes, so never if the parser stops before it.
    """
    at, last_line = 0, max(text.rfind("\n"), text.rfind("\r"))
    while True:
        skipped = _SKIPPED if at <= last_line else _SKIPPED_IN_LAST_LINE
        at = skipped.match(text, at).end()  # type: ignore[union-attr]  # the pattern matches the empty text
        if at == len(text):
            break
        found = _WORD.match(text, at)
        if not found:
            raise SqlSyntaxError(f"nothing can start with {text[at]!r} at column {at + 1} of {text!r:.80}")
        at = found.end()
        kind, word = str(found.lastgroup), found.group()
        yield (word.upper(), word) if kind == "name" and word.upper() in _KEYWORDS else (kind, word)
    while True:
        yield _END


# --- grammar ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Node:
    """A part of a parsed expression: the function that evaluates it, and its kind, which the parser checks."""

    evaluate: Evaluate
    is_condition: bool = False
    is_name: bool = False
    is_constant: bool = False
    constant: Value = None


class _Parser:
    """A recursive-descent parser with one word of look-ahead; each method parses one level of the grammar."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._words = _words(text)
        self._kind, self._word = next(self._words)

    def whole(self) -> _Node:
        """Parse one condition from the start of the text, and ignore the text behind it."""
        return self._condition(self._or())

    def _or(self) -> _Node:
        left = self._and()
        while self._take("OR"):
            left = _logic(_or, self._condition(left), self._condition(self._and()))
        return left

    def _and(self) -> _Node:
        left = self._equality()
        while self._take("AND"):
            left = _logic(_and, self._condition(left), self._condition(self._equality()))
        return left

    def _equality(self) -> _Node:
        left = self._comparison()
        while True:
            if self._take_sign("="):
                left = self._equal(left)
            elif self._take_sign("<>"):
                left = _negation(self._equal(left))
            elif self._take("IS"):
                negated = self._take("NOT")
                self._expect("NULL")
                is_null = _comparing(_equals, left, _NULL)
                left = _negation(is_null) if negated else is_null
            else:
                return left

    def _equal(self, left: _Node) -> _Node:
        right = self._comparison()
        for side in (left, right):
            if side.is_constant and side.constant is None:
                raise self._refusal("NULL cannot be compared; use IS NULL")
        if left.is_constant and right.is_constant and left.is_condition and not right.is_condition:
            raise self._refusal("a boolean constant cannot be compared with this one")
        return _comparing(_equals, left, right)

    def _comparison(self) -> _Node:
        left = self._unary()
        while True:
            sign = self._word
            if self._kind == "sign" and sign in _ORDERS:
                self._advance()
                left = self._ordered(sign, left, self._unary())
            elif self._kind in ("NOT", *_PREDICATES):
                left = self._predicate(left)
            else:
                return left

    def _predicate(self, left: _Node) -> _Node:
        negated = self._take("NOT")
        if self._take("BETWEEN"):
            return self._between(left, negated)
        if self._take("IN"):
            return self._in(left, negated)
        if self._kind not in _SEARCHES:
            raise self._refusal(f"unexpected {self._word!r}")
        search = _SEARCHES[self._advance()]
        text = self._string()
        return _Node(partial(_search, search, left.evaluate, text, negated), is_condition=True)

    def _between(self, left: _Node, negated: bool) -> _Node:
        low = self._unary()
        self._expect("AND")
        high = self._unary()
        if negated:
            return _logic(_or, self._ordered("<", left, low), self._ordered(">", left, high))
        inside = _logic(_and, self._ordered(">=", left, low), self._ordered("<=", left, high))
        if low.is_constant and high.is_constant and _order(high.constant, low.constant) < 0:
            raise self._refusal("the bounds of BETWEEN are in the wrong order")
        return inside

    def _in(self, left: _Node, negated: bool) -> _Node:
        self._expect_sign("(")
        texts = {self._string()}
        while self._take_sign(","):
            texts.add(self._string())
        self._expect_sign(")")
        if not left.is_name:
            raise self._refusal("IN needs a name on its left")
        return _Node(partial(_member, left.evaluate, frozenset(texts), negated), is_condition=True)

    def _ordered(self, sign: str, left: _Node, right: _Node) -> _Node:
        for side in (left, right):
            if side.is_condition or (side.is_constant and not _is_number(side.constant)):
                raise self._refusal(f"{sign} needs numbers or names")
        return _comparing(partial(_orders, _ORDERS[sign]), left, right)

    def _unary(self) -> _Node:
        if self._take_sign("+"):
            return self._unary()
        if self._take_sign("-"):
            return _Node(partial(_minus, self._unary().evaluate))
        if self._take("NOT"):
            return _negation(self._condition(self._unary()))
        return self._primary()

    def _primary(self) -> _Node:
        if self._take_sign("("):
            inner = self._or()
            self._expect_sign(")")
            return inner
        if self._kind in _CONSTANTS:
            return _CONSTANTS[self._advance()]
        if self._kind == "text":
            return _constant(self._string())
        if self._kind not in ("integer", "float", "name"):
            raise self._refusal(f"unexpected {self._word or 'end'!r}")
        word = self._word
        kind = self._advance()
        if kind == "name":
            return _Node(lambda properties: properties.get(word), is_name=True)
        return _constant(self._integer(word) if kind == "integer" else self._float(word))

    def _integer(self, word: str) -> int:
        digits = word.rstrip("lL")
        number = int(digits[:_MAX_DIGITS])
        if len(digits) >= _MAX_DIGITS or number >= 2**63:
            raise self._refusal(f"{word:.40} does not fit 64 bits")
        return number if number < 2**31 else Long(number)

    def _float(self, word: str) -> float:
        number = float(word)
        if math.isinf(number) or number == 0:
            raise self._refusal(f"{word} is no positive finite Double")
        return number

    def _string(self) -> str:
        word = self._word
        self._expect("text")
        return word[1:-1].replace("''", "'")

    def _condition(self, node: _Node) -> _Node:
        """Return the node as a condition; raise SqlSyntaxError if it can be neither true nor false.

        A bare property name is allowed as a condition, but it is never true, since properties are text.
        """
        if node.is_condition:
            return node
        if node.is_name:
            return _Node(partial(_as_boolean, node.evaluate), is_condition=True)
        raise self._refusal("this is neither true nor false")

    def _advance(self) -> str:
        kind = self._kind
        self._kind, self._word = next(self._words)
        return kind

    def _take(self, kind: str) -> bool:
        taken = self._kind == kind
        if taken:
            self._advance()
        return taken

    def _take_sign(self, sign: str) -> bool:
        return self._word == sign and self._take("sign")

    def _expect(self, kind: str) -> None:
        if not self._take(kind):
            raise self._refusal(f"{kind} expected, not {self._word or 'the end'!r}")

    def _expect_sign(self, sign: str) -> None:
        if not self._take_sign(sign):
            raise self._refusal(f"{sign} expected, not {self._word or 'the end'!r}")

    def _refusal(self, what: str) -> SqlSyntaxError:
        return SqlSyntaxError(f"{what}, in {self._text!r:.80}")


def _constant(value: Value, is_condition: bool = False) -> _Node:
    return _Node(lambda properties: value, is_condition=is_condition, is_constant=True, constant=value)


def _logic(operation: Callable[[Evaluate, Evaluate, Properties], Value], left: _Node, right: _Node) -> _Node:
    return _Node(partial(operation, left.evaluate, right.evaluate), is_condition=True)


def _negation(node: _Node) -> _Node:
    return _Node(partial(_not, node.evaluate), is_condition=True)


def _comparing(test: Callable[[Value, Value], Value], left: _Node, right: _Node) -> _Node:
    return _Node(partial(_compared, test, left.evaluate, right.evaluate), is_condition=True)


_NULL = _constant(None, is_condition=True)
_CONSTANTS = {"TRUE": _constant(True, True), "FALSE": _constant(False, True), "NULL": _NULL}


# --- evaluation ------------------------------------------------------------------------------------------------------


def _or(left: Evaluate, right: Evaluate, properties: Properties) -> Value:
    one = left(properties)
    if one is True:
        return True
    other = right(properties)
    return True if other is True else None if one is None or other is None else False


def _and(left: Evaluate, right: Evaluate, properties: Properties) -> Value:
    one = left(properties)
    if one is False:
        return False
    other = right(properties)
    return False if other is False else None if one is None or other is None else True


def _not(inner: Evaluate, properties: Properties) -> Value:
    value = inner(properties)
    return None if value is None else not value


def _as_boolean(inner: Evaluate, properties: Properties) -> Value:
    value = inner(properties)
    return None if value is None else value is True


def _minus(inner: Evaluate, properties: Properties) -> Value:
    value = inner(properties)
    if isinstance(value, Long):
        return Long(-value)
    return -value if _is_number(value) else None


def _member(inner: Evaluate, texts: frozenset[str], negated: bool, properties: Properties) -> Value:
    value = inner(properties)
    return None if value is None else (value in texts) is not negated


def _search(
    found: Callable[[str, str], bool], inner: Evaluate, text: str, negated: bool, properties: Properties
) -> Value:
    if not text:
        return False
    value = inner(properties)
    return isinstance(value, str) and found(value, text) is not negated


def _compared(test: Callable[[Value, Value], Value], left: Evaluate, right: Evaluate, properties: Properties) -> Value:
    return test(left(properties), right(properties))


def _equals(left: Value, right: Value) -> Value:
    if left is None or right is None:
        return None if left is None and right is not None else left is right
    if isinstance(left, str) and isinstance(right, str):
        return left == right
    return _order(left, right) == 0


def _orders(wanted: Callable[[int], bool], left: Value, right: Value) -> Value:
    if left is None or right is None:
        return None
    if isinstance(left, str) and isinstance(right, str):
        left, right = _to_double(left), _to_double(right)
    return wanted(_order(left, right))


def _order(left: Value, right: Value) -> int:
    """Return -1, 0 or 1 as Java's compareTo does, after converting text; return -1 for incomparable types."""
    if isinstance(left, str):
        left = _converted(left, right)
    elif isinstance(right, str):
        if isinstance(left, bool):
            raise SqlEvaluationError("a boolean on the left cannot be compared with text")
        right = _converted(right, left)
    if not (_is_number(left) and _is_number(right)):
        return left - right if isinstance(left, bool) and isinstance(right, bool) else -1
    if isinstance(left, float) or isinstance(right, float):
        one, other = _double_key(float(left)), _double_key(float(right))
        return (one > other) - (one < other)
    return (left > right) - (left < right)


def _double_key(value: float) -> tuple[bool, float, float]:
    """Return a sort key with which floats sort as in Java's Double.compareTo: -0.0 < 0.0, and NaN is the largest."""
    return (True, 0.0, 0.0) if math.isnan(value) else (False, value, math.copysign(1.0, value))


def _converted(text: str, other: Value) -> Value:
    """Return the text converted to the type of `other`, the value that it is compared with."""
    if isinstance(other, bool):
        return text.lower() == "true"
    if isinstance(other, float):
        return _to_double(text)
    if isinstance(other, int):
        return _to_integer(text, 63 if isinstance(other, Long) else 31)
    return text


_MAX_DIGITS = 20  # more than a Long can have
_JAVA_INTEGER = re.compile(r"([+-]?)(?=\d)0*(\d*)")
_JAVA_DOUBLE = re.compile(r"([+-]?(?:NaN|Infinity|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?))[fFdD]?")
_JAVA_HEX_DOUBLE = re.compile(r"([+-]?0[xX](?:[0-9a-fA-F]+\.?|[0-9a-fA-F]*\.[0-9a-fA-F]+)[pP][+-]?[0-9]+)[fFdD]?")
_BLANKS = "".join(map(chr, range(33)))


def _to_integer(text: str, bits: int) -> int:
    found = _JAVA_INTEGER.fullmatch(text)
    if found and len(found.group(2)) < _MAX_DIGITS:
        number = int(found.group(1) + (found.group(2) or "0"))
        if -(2**bits) <= number < 2**bits:
            return number
    raise SqlEvaluationError(f"{text!r:.40} is no integer of {bits + 1} bits")


def _to_double(text: str) -> float:
    trimmed = text.strip(_BLANKS)
    if found := _JAVA_DOUBLE.fullmatch(trimmed):
        return float(found.group(1))
    if found := _JAVA_HEX_DOUBLE.fullmatch(trimmed):
        try:
            return float.fromhex(found.group(1))
        except OverflowError:
            return math.copysign(math.inf, -1 if trimmed.startswith("-") else 1)
    raise SqlEvaluationError(f"{text!r:.40} is no number")


def _is_number(value: Value) -> TypeGuard[int | float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


_ORDERS: dict[str, Callable[[int], bool]] = {
    ">": lambda order: order > 0,
    ">=": lambda order: order >= 0,
    "<": lambda order: order < 0,
    "<=": lambda order: order <= 0,
}
_SEARCHES: dict[str, Callable[[str, str], bool]] = {
    "CONTAINS": lambda value, text: text in value,
    "STARTSWITH": str.startswith,
    "ENDSWITH": str.endswith,
}
_PREDICATES = frozenset({"BETWEEN", "IN", *_SEARCHES})
