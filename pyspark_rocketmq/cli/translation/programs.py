"""Read the options of reads and writes from programs: from the syntax tree of Python, from the text of others.

Calls of `option`, `options` and `format` belong to the last `read`, `readStream`, `write` or `writeStream` before them.
A value that is no literal stays what it is: an expression. What a program does not spell out, such as a map of options
that is made elsewhere, is noted by its line. Comments count for nothing.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator
from textwrap import dedent
from typing import NamedTuple

from .given import USES, GivenJob

__all__ = ["is_program", "read_program"]

_STRING = r"""(?:\"{3}.*?\"{3}|'{3}.*?'{3}|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')"""
_START = re.compile(r"\.\s*(readStream|writeStream|read|write)\b")
_CALL = re.compile(r"\.\s*(format|option|options)\s*\(")
_HIDDEN = re.compile(rf"(?P<string>{_STRING})|//[^\n]*|/\*.*?\*/|#[^\n]*", re.DOTALL)
_LITERAL = re.compile(_STRING, re.DOTALL)
_PLAIN = re.compile(r"-?\d+[lL]?|[Tt]rue|[Ff]alse")
_MAP = re.compile(r"(?:\*\*\s*)?(?:\{(?P<braces>.*)\}|(?:\w+\.)*Map\s*(?:\[[^\]]*\]\s*)?\((?P<map>.*)\))", re.DOTALL)
_PAIR = re.compile(rf"(?:(?P<text>{_STRING})\s*(?:->|:)|(?P<word>[A-Za-z_]\w*)\s*=(?!=))\s*(?P<value>.+)", re.DOTALL)
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
_FORMATS = ("csv", "jdbc", "json", "orc", "parquet", "saveAsTable", "table", "text", "toTable")
"""Methods that read or write, and whose name is the format."""
_ENDS = ("load", "save", "start")
"""Methods that read or write, and that take options, too."""
_NO_OPTIONS = ("path", "schema", "mode", "partitionBy", "outputMode", "queryName")
"""Parameters of these methods that are no options."""


class _Value(NamedTuple):
    """A value in a program."""

    text: str
    is_expression: bool


_NO_VALUE = _Value("", False)


class _Step(NamedTuple):
    """A part of a read or write."""

    at: tuple[int, int]
    """Line and column."""
    kind: str
    """One of `USES`, `format`, `option`, or `unread` for options that are not spelt out."""
    name: str = ""
    value: _Value = _NO_VALUE


def is_program(text: str) -> bool:
    """Return whether a text has calls of options, or a read or write."""
    return bool(_START.search(text) or _CALL.search(text))


def read_program(text: str) -> Iterator[GivenJob]:
    """Yield the reads and writes of a program; calls before the first of them are one of unknown use."""
    text = dedent(text)
    tree = _parse_python(text)
    steps = _steps_of_text(text) if tree is None else _steps_of_python(tree, text)
    job = GivenJob()
    for step in sorted(steps, key=lambda each: each.at):
        if step.kind in USES:
            yield job
            job = GivenJob(step.kind)
        _take(job, step)
    yield job


def _take(job: GivenJob, step: _Step) -> None:
    if step.kind == "format":
        job.format = job.format or step.name
    elif step.kind == "unread":
        job.unread.append(step.at[0])
    elif step.kind == "option":
        job.options[step.name] = step.value.text
        (job.expressions.add if step.value.is_expression else job.expressions.discard)(step.name)


# --- Python ----------------------------------------------------------------------------------------------------------


def _parse_python(text: str) -> ast.Module | None:
    """Return the syntax tree of a program, None if it is not Python."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _steps_of_python(tree: ast.Module, text: str) -> list[_Step]:
    finder = _Finder(text)
    try:
        finder.visit(tree)
    except RecursionError:
        return list(_steps_of_text(text))
    return finder.steps


class _Finder(ast.NodeVisitor):
    """Collects the steps of reads and writes in a syntax tree."""

    def __init__(self, text: str) -> None:
        self._text = text
        self.steps: list[_Step] = []

    def visit_Attribute(self, node: ast.Attribute) -> None:
        """Take `spark.read`."""
        if node.attr in USES and isinstance(node.ctx, ast.Load):
            self._add(node, node.attr)
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        """Take calls of methods with options; calls of `read` and `write` are those of files."""
        function = node.func
        if not isinstance(function, ast.Attribute):
            self.generic_visit(node)
            return
        self.visit(function.value)
        if function.attr in ("format", "option", "options"):
            getattr(self, f"_take_{function.attr}")(function, node)
            return
        if function.attr in (*_FORMATS, *_ENDS) and _begins_with_use(function.value):
            self._take_end(function, node)
            return
        for argument in (*node.args, *node.keywords):
            self.visit(argument)

    def _take_format(self, function: ast.Attribute, call: ast.Call) -> None:
        name = _text_of(call.args[0]) if call.args else None
        if name is not None and not isinstance(function.value, ast.Constant | ast.JoinedStr):
            self._add(function, "format", name)

    def _take_end(self, function: ast.Attribute, call: ast.Call) -> None:
        if function.attr in _FORMATS:
            self._add(function, "format", function.attr)
            return
        for keyword in call.keywords:
            if keyword.arg == "format" and (name := _text_of(keyword.value)):
                self._add(function, "format", name)
            elif keyword.arg not in ("format", *_NO_OPTIONS):
                self._take_keyword(function, keyword)

    def _take_option(self, function: ast.Attribute, call: ast.Call) -> None:
        by_name = {each.arg: each.value for each in call.keywords}
        given = [*call.args, *(by_name[name] for name in ("key", "value") if name in by_name)]
        if len(given) == 2:
            self._add_option(function, given[0], given[1])
        else:
            self._add(function, "unread")

    def _take_options(self, function: ast.Attribute, call: ast.Call) -> None:
        for argument in call.args:
            self._add_map(function, argument)
        for keyword in call.keywords:
            self._take_keyword(function, keyword)

    def _take_keyword(self, function: ast.Attribute, keyword: ast.keyword) -> None:
        if keyword.arg is None:
            self._add_map(function, keyword.value)
        else:
            self._add(function, "option", keyword.arg, self._value(keyword.value))

    def _add_map(self, function: ast.Attribute, node: ast.expr) -> None:
        if not isinstance(node, ast.Dict):
            self._add(function, "unread")
            return
        for key, value in zip(node.keys, node.values, strict=True):
            self._add_option(function, key, value)

    def _add_option(self, function: ast.Attribute, key: ast.expr | None, value: ast.expr) -> None:
        name = _text_of(key) if key is not None else None
        if name is None:
            self._add(function, "unread")
        else:
            self._add(function, "option", name, self._value(value))

    def _add(self, node: ast.expr, kind: str, name: str = "", value: _Value = _NO_VALUE) -> None:
        self.steps.append(_Step((node.end_lineno or 0, node.end_col_offset or 0), kind, name, value))

    def _value(self, node: ast.expr) -> _Value:
        try:
            literal = ast.literal_eval(node)
        except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
            literal = None
        if isinstance(literal, str):
            return _Value(literal, False)
        if isinstance(literal, bool | int | float):
            return _Value(str(literal).lower(), False)
        return _Value(ast.get_source_segment(self._text, node) or "", True)


def _text_of(node: ast.expr) -> str | None:
    """Return the text that a literal is, None for anything else."""
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def _begins_with_use(node: ast.expr) -> bool:
    """Return whether a chain of calls begins with a read or write."""
    while isinstance(node, ast.Attribute | ast.Call):
        if isinstance(node, ast.Attribute) and node.attr in USES:
            return True
        node = node.value if isinstance(node, ast.Attribute) else node.func
    return False


# --- other languages -------------------------------------------------------------------------------------------------


class _Text(NamedTuple):
    """A part of a program."""

    shown: str
    """The text without comments."""
    masked: str
    """The same with nothing between quotation marks, so that it has the program's own brackets and commas only."""

    def part(self, start: int, end: int) -> _Text:
        """Return a part without white space around it."""
        inner = self.shown[start:end]
        start += len(inner) - len(inner.lstrip())
        end = start + len(inner.strip())
        return _Text(self.shown[start:end], self.masked[start:end])


def _hide(text: str) -> _Text:
    shown = _HIDDEN.sub(lambda found: found["string"] or _blank(found[0]), text)
    return _Text(shown, _LITERAL.sub(lambda found: f"{found[0][0]}{_blank(found[0][1:-1])}{found[0][-1]}", shown))


def _blank(text: str) -> str:
    return re.sub(r"[^\n]", " ", text)


def _steps_of_text(text: str) -> Iterator[_Step]:
    program = _hide(text)
    for start in _START.finditer(program.masked):
        yield _Step(_place(text, start.start()), start[1])
    for call in _CALL.finditer(program.masked):
        arguments = _split(program, call.end())
        for kind, name, value in _read_call(call[1], arguments):
            yield _Step(_place(text, call.start(1)), kind, name, value)


def _place(text: str, at: int) -> tuple[int, int]:
    return text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)


_Part = tuple[str, str, _Value]
_UNREAD: _Part = ("unread", "", _NO_VALUE)


def _read_call(method: str, arguments: list[_Text]) -> Iterator[_Part]:
    if method == "format":
        if len(arguments) == 1 and _LITERAL.fullmatch(arguments[0].shown):
            yield "format", _unquoted(arguments[0].shown), _NO_VALUE
    elif method == "option":
        yield _read_option(arguments)
    else:
        for argument in arguments:
            yield from _read_pairs(argument)


def _read_option(arguments: list[_Text]) -> _Part:
    if len(arguments) == 2 and _LITERAL.fullmatch(arguments[0].shown):
        return "option", _unquoted(arguments[0].shown), _read_value(arguments[1].shown)
    return _UNREAD


def _read_pairs(argument: _Text) -> Iterator[_Part]:
    """Yield the options in an argument of `options`: a pair, or a map of pairs."""
    found = _MAP.fullmatch(argument.masked)
    if found is None:
        yield _read_pair(argument.shown)
        return
    start, end = found.span(found.lastgroup or 0)
    for pair in _split(argument.part(start, end), 0):
        yield _read_pair(pair.shown)


def _read_pair(text: str) -> _Part:
    pair = _PAIR.fullmatch(text)
    if pair is None:
        return _UNREAD
    return "option", pair["word"] or _unquoted(pair["text"]), _read_value(pair["value"])


def _read_value(text: str) -> _Value:
    if _LITERAL.fullmatch(text):
        return _Value(_unquoted(text), False)
    if _PLAIN.fullmatch(text):
        return _Value(text.lower().removesuffix("l"), False)
    return _Value(text, True)


def _unquoted(text: str) -> str:
    for quotes in ('"""', "'''"):
        if len(text) >= 6 and text.startswith(quotes):
            return text[3:-3]
    return _ESCAPE.sub(lambda found: chr(int(found[1], 16)) if found[1] else _ESCAPED.get(found[2], found[2]), text)[
        1:-1
    ]


def _split(program: _Text, at: int) -> list[_Text]:
    """Return the arguments from a place on, up to the bracket that closes them or to the end."""
    parts, depth, start = [], 0, at
    while at < len(program.masked):
        character = program.masked[at]
        if character in ")]}":
            if not depth:
                break
            depth -= 1
        elif character in "([{":
            depth += 1
        elif character == "," and not depth:
            parts.append(program.part(start, at))
            start = at + 1
        at += 1
    return [part for part in (*parts, program.part(start, at)) if part.shown]
