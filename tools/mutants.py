"""Find the mutants of a module: small changes of its code that a test should notice.

Each mutant changes one place of the text: a comparison, an operator, a constant, a condition, a returned value, or a
statement that is only a call. Texts are not changed, nor what no test can see or should assert: docstrings, types,
decorators, `__all__`, `__repr__`, arguments of raised errors and logged lines, assertions, and `strict=` of `zip`. A
mutant has as many lines as the original, so that coverage of the original names the tests that run the changed line.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

COMPARISONS: dict[type[ast.cmpop], tuple[str, tuple[str, ...]]] = {
    ast.Lt: ("<", ("<=", ">")),
    ast.LtE: ("<=", ("<", ">=")),
    ast.Gt: (">", (">=", "<")),
    ast.GtE: (">=", (">", "<=")),
    ast.Eq: ("==", ("!=",)),
    ast.NotEq: ("!=", ("==",)),
    ast.Is: (r"is", ("is not",)),
    ast.IsNot: (r"is\s+not", ("is",)),
    ast.In: (r"in", ("not in",)),
    ast.NotIn: (r"not\s+in", ("in",)),
}
"""Each comparison: its pattern in the text, and what takes its place: the neighbour at its bound, and the opposite."""
ARITHMETIC: dict[type[ast.operator], tuple[str, str]] = {
    ast.Add: (r"\+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: (r"\*", "+"),
    ast.Div: ("/", "*"),
    ast.FloorDiv: ("//", "*"),
    ast.Mod: ("%", "+"),
    ast.Pow: (r"\*\*", "*"),
    ast.LShift: ("<<", ">>"),
    ast.RShift: (">>", "<<"),
    ast.BitAnd: ("&", "|"),
    ast.BitOr: (r"\|", "&"),
    ast.BitXor: (r"\^", "&"),
}
FUNCTIONS = {"min": "max", "max": "min", "any": "all", "all": "any"}
LOGGERS = frozenset({"_log", "log", "logger"})
MAKERS_OF_TYPES = frozenset({"TypeVar", "NewType", "ParamSpec", "namedtuple"})


class Key(NamedTuple):
    """A mutant's identity, which holds as long as its line and function stay: two texts of lines, without indentation.

    `number` counts equal mutants of a function.
    """

    file: str
    function: str
    before: str
    after: str
    number: int = 0


@dataclass(frozen=True, slots=True)
class Mutant:
    """A changed place of a module. `lines` are the lines of its statement, without those of a statement within."""

    key: Key
    operator: str
    line: int
    lines: range
    is_import_time: bool
    text: str
    """The whole text of the changed module."""
    around: str
    """The text, before the change, of the innermost function around it; outside functions, of the statement."""


class _Edit(NamedTuple):
    operator: str
    start: int
    end: int
    text: str


class _Scope(NamedTuple):
    function: str
    statement: ast.stmt | None
    is_import_time: bool
    innermost: ast.AST | None = None


Function = ast.FunctionDef | ast.AsyncFunctionDef


def find_mutants(file: str, text: str) -> list[Mutant]:
    """Return the mutants of a module in the order of its text; `file` is its name in their keys."""
    source = _Source(text)
    numbers: Counter[tuple[str, ...]] = Counter()
    found = []
    for node, scope in _walk(ast.parse(text), _Scope("", None, True)):
        for edit in _edits(node, source):
            lines = source.changed_lines(edit)
            before, after = source.shown(lines), source.shown(lines, edit)
            parts = (scope.function or "<module>", before, after)
            key = Key(file, *parts, numbers[parts])
            numbers[parts] += 1
            span = _header(scope.statement) if scope.statement else range(lines.start, lines.stop)
            around = source.text(scope.innermost or scope.statement or node)
            found.append(
                Mutant(key, edit.operator, lines.start, span, scope.is_import_time, source.apply(edit), around)
            )
    return found


class _Source:
    """The text of a module, with the byte offsets by which `ast` places its nodes."""

    def __init__(self, text: str) -> None:
        self.data = text.encode()
        self._starts = [0]
        for line in self.data.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))

    def span(self, node: ast.AST) -> tuple[int, int]:
        where: Any = node
        start = self._starts[where.lineno - 1] + where.col_offset
        return start, self._starts[where.end_lineno - 1] + where.end_col_offset

    def text(self, node: ast.AST) -> str:
        start, end = self.span(node)
        return self.data[start:end].decode()

    def replace(self, operator: str, node: ast.AST, text: str) -> _Edit:
        """Return the edit that puts `text` in the place of a node; parentheses hold the lines of a long one."""
        start, end = self.span(node)
        lost = self.data[start:end].count(b"\n")
        is_open = lost and not isinstance(node, ast.stmt)
        return _Edit(operator, start, end, f"({text}" + "\n" * lost + ")" if is_open else text + "\n" * lost)

    def between(self, operator: str, left: ast.AST, right: ast.AST, pattern: str, text: str) -> _Edit:
        """Return the edit that puts `text` in the place of the operator between two nodes."""
        start, end = self.span(left)[1], self.span(right)[0]
        found = re.search(pattern.encode(), self.data[start:end])
        assert found, (pattern, self.data[start:end])
        return _Edit(operator, start + found.start(), start + found.end(), text)

    def apply(self, edit: _Edit) -> str:
        return (self.data[: edit.start] + edit.text.encode() + self.data[edit.end :]).decode()

    def changed_lines(self, edit: _Edit) -> range:
        """Return the numbers of the lines that an edit touches."""
        first = self.data.count(b"\n", 0, edit.start) + 1
        return range(first, first + self.data.count(b"\n", edit.start, edit.end) + 1)

    def shown(self, lines: range, edit: _Edit | None = None) -> str:
        """Return the text of these lines on one line, changed by the edit."""
        start, end = self._starts[lines.start - 1], self._starts[lines.stop - 1]
        text = self.data[start:end]
        if edit:
            text = self.data[start : edit.start] + edit.text.encode() + self.data[edit.end : end]
        return " ".join(text.decode().split())


# --- nodes ------------------------------------------------------------------------------------------------------------


def _walk(node: ast.AST, scope: _Scope) -> Iterator[tuple[ast.AST, _Scope]]:
    """Yield the nodes below a node that may be changed, each with its function and statement."""
    for child in _children(node):
        inner = scope
        if isinstance(child, ast.stmt):
            inner = inner._replace(statement=child)
        if isinstance(child, Function | ast.ClassDef):
            inner = inner._replace(function=f"{scope.function}.{child.name}".lstrip("."))
        if isinstance(child, Function):
            inner = inner._replace(innermost=child)
        if isinstance(node, Function) and isinstance(child, ast.stmt):
            inner = inner._replace(is_import_time=False)
        yield child, inner
        yield from _walk(child, inner)


def _children(node: ast.AST) -> Iterable[ast.AST]:
    if isinstance(node, Function):
        return () if _is_left_out(node) else (*node.args.defaults, *filter(None, node.args.kw_defaults), *node.body)
    if isinstance(node, ast.ClassDef):
        return node.body
    if isinstance(node, ast.AnnAssign):
        return filter(None, (node.target, node.value))
    if isinstance(node, ast.Call):
        return _children_of_call(node)
    if isinstance(node, ast.If) and _name(node.test) == "TYPE_CHECKING":
        return node.orelse
    is_quiet = isinstance(node, ast.Raise | ast.Assert | ast.JoinedStr | ast.pattern)
    return () if is_quiet or _is_type_or_face(node) or _is_sentence(node) else ast.iter_child_nodes(node)


def _children_of_call(node: ast.Call) -> Iterable[ast.AST]:
    name = _name(node.func)
    if _is_log(node) or name in MAKERS_OF_TYPES:
        return ()
    if name == "isinstance":
        return node.args[:1]
    values = (each.value for each in node.keywords if (name, each.arg) != ("zip", "strict"))
    return (node.func, *node.args, *values)


def _is_left_out(function: Function) -> bool:
    return function.name == "__repr__" or any(_name(each) == "overload" for each in function.decorator_list)


def _is_type_or_face(node: ast.AST) -> bool:
    """Return whether a node is an alias of a union of types, or assigns `__all__`."""
    if isinstance(node, ast.Assign) and _name(node.targets[0]) == "__all__":
        return True
    return isinstance(node, ast.BinOp) and _is_type(node)


def _is_sentence(node: ast.AST) -> bool:
    """Return whether a node is a text with a space, which is a text for people, or a choice between such texts."""
    if isinstance(node, ast.IfExp):
        return _is_sentence(node.body) or _is_sentence(node.orelse)
    if isinstance(node, ast.JoinedStr):
        return any(map(_is_sentence, node.values))
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value


def _is_type(node: ast.AST) -> bool:
    """Return whether a node is written like a type, or like a union with one."""
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, ast.BitOr) and (_is_type(node.left) or _is_type(node.right))
    if isinstance(node, ast.Subscript):
        return _is_type(node.value)
    name = _name(node).rpartition(".")[2].lstrip("_")
    return name in ("int", "str", "bytes", "float", "bool") or (name[:1].isupper() and not name.isupper())


def _is_log(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and _name(node.func).partition(".")[0] in LOGGERS


def _name(node: ast.AST) -> str:
    """Return the name that a node is, with dots; empty for anything else."""
    if isinstance(node, ast.Attribute):
        return f"{_name(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def _header(statement: ast.stmt) -> range:
    """Return the lines of a statement; of a compound one, those before its body."""
    inner: list[Any] = getattr(statement, "body", []) or getattr(statement, "cases", [])
    end = statement.end_lineno or statement.lineno
    if inner:
        end = getattr(inner[0], "pattern", inner[0]).lineno - 1
    return range(statement.lineno, max(statement.lineno, end) + 1)


# --- operators --------------------------------------------------------------------------------------------------------


def _edits(node: ast.AST, source: _Source) -> Iterator[_Edit]:
    find = OPERATORS.get(type(node))
    if find:
        yield from find(node, source)


def _compare(node: ast.Compare, source: _Source) -> Iterator[_Edit]:
    for (left, right), operator in zip(pairwise([node.left, *node.comparators]), node.ops, strict=True):
        pattern, changed = COMPARISONS[type(operator)]
        for text in changed:
            yield source.between("comparison", left, right, pattern, text)


def _arithmetic(node: ast.BinOp, source: _Source) -> Iterator[_Edit]:
    if not (_is_type_or_face(node) or any(map(_is_text_or_list, (node.left, node.right)))):
        pattern, text = ARITHMETIC[type(node.op)]
        yield source.between("arithmetic", node.left, node.right, pattern, text)


def _is_text_or_list(node: ast.AST) -> bool:
    is_text = isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)
    return is_text or isinstance(node, ast.JoinedStr | ast.List | ast.Tuple | ast.ListComp)


def _assign_arithmetic(node: ast.AugAssign, source: _Source) -> Iterator[_Edit]:
    if _is_text_or_list(node.value) or isinstance(node.op, ast.BitOr | ast.BitAnd):
        yield source.replace("dropped", node, "pass")
    else:
        pattern, text = ARITHMETIC[type(node.op)]
        yield source.between("arithmetic", node.target, node.value, f"{pattern}=", f"{text}=")


def _and_or(node: ast.BoolOp, source: _Source) -> Iterator[_Edit]:
    old, new = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
    for left, right in pairwise(node.values):
        yield source.between("and/or", left, right, rf"\b{old}\b", new)


def _negation(node: ast.UnaryOp, source: _Source) -> Iterator[_Edit]:
    if isinstance(node.op, ast.Not):
        start, _ = source.span(node)
        yield _Edit("not", start, start + len("not "), "")


def _constant(node: ast.Constant, source: _Source) -> Iterator[_Edit]:
    if isinstance(node.value, bool):
        yield source.replace("constant", node, str(not node.value))
    elif isinstance(node.value, int | float):
        yield source.replace("constant", node, str(node.value + 1))
        less = node.value - 1
        yield source.replace("constant", node, f"({less})" if less < 0 else str(less))


def _return(node: ast.Return, source: _Source) -> Iterator[_Edit]:
    if node.value and not (isinstance(node.value, ast.Constant) and node.value.value is None):
        yield source.replace("return", node.value, "None")


def _statement(node: ast.Expr, source: _Source) -> Iterator[_Edit]:
    call = node.value.value if isinstance(node.value, ast.Await) else node.value
    if isinstance(call, ast.Call) and not _is_log(call):
        yield source.replace("dropped", node, "pass")


def _leave(node: ast.Break | ast.Continue, source: _Source) -> Iterator[_Edit]:
    yield source.replace("break/continue", node, "continue" if isinstance(node, ast.Break) else "break")


def _condition(node: ast.If | ast.IfExp, source: _Source) -> Iterator[_Edit]:
    if not (_is_sentence(node) or _name(node.test) == "TYPE_CHECKING"):
        yield source.replace("condition", node.test, "True")
        yield source.replace("condition", node.test, "False")


def _loop(node: ast.While, source: _Source) -> Iterator[_Edit]:
    yield source.replace("condition", node.test, "False")


def _filter(node: ast.comprehension, source: _Source) -> Iterator[_Edit]:
    for test in node.ifs:
        yield source.replace("condition", test, "True")
        yield source.replace("condition", test, "False")


def _function(node: ast.Call, source: _Source) -> Iterator[_Edit]:
    if (name := _name(node.func)) in FUNCTIONS and not node.keywords:
        yield source.replace("function", node.func, FUNCTIONS[name])


OPERATORS: dict[type[ast.AST], Callable[[Any, _Source], Iterator[_Edit]]] = {
    ast.Compare: _compare,
    ast.BinOp: _arithmetic,
    ast.AugAssign: _assign_arithmetic,
    ast.BoolOp: _and_or,
    ast.UnaryOp: _negation,
    ast.Constant: _constant,
    ast.Return: _return,
    ast.Expr: _statement,
    ast.Break: _leave,
    ast.Continue: _leave,
    ast.If: _condition,
    ast.IfExp: _condition,
    ast.While: _loop,
    ast.comprehension: _filter,
    ast.Call: _function,
}
