"""Write the pages of the API reference: what each public module has, for autodoc to fill in from docstrings.

Docstrings are plain English with code in single backticks. `to_rst` turns them into reStructuredText, which is what
autodoc reads: names in backticks become links where the reference has the name, other code becomes literal text, and an
indented block is shown as it is.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
FOLDER = "reference/api"
MODULES = (
    "pyspark_rocketmq",
    "pyspark_rocketmq.errors",
    "pyspark_rocketmq.progress",
    "pyspark_rocketmq.retry",
    "pyspark_rocketmq.writing",
    "pyspark_rocketmq.monitor",
    "pyspark_rocketmq.monitor.prometheus",
    "pyspark_rocketmq.client",
    "broker_stub",
)
"""Public modules, in the order of the reference."""
BRIEF = {"pyspark_rocketmq.client"}
"""Modules whose docstrings describe what users do not see, after the first line."""
_NAME = re.compile(r"[A-Za-z_]\w*(\.\w+)*(\(\))?")
_CODE = re.compile(r"(`+[^`]+`+)")
_MAY_STAND_BEFORE = re.compile(r"""(^|[\s'"(\[{<\-/:])\Z""")
_MAY_STAND_BEHIND = re.compile(r"""[\s'")\]}>\-/:.,;!?]|\Z""")
"""Texts beside which reStructuredText sees code as such; other texts are kept off by an escaped space."""
_SPECIAL = re.compile(r"([\\*|]|_(?!\w))")
_LITERAL_INDENT = 4


def module_files() -> dict[Path, str]:
    """Return the page of each public module, by the module's file."""
    return {_file_of(name): f"{FOLDER}/{name}.md" for name in MODULES}


def public_names(module: ModuleType) -> list[str]:
    """Return the public names of a module, in their order."""
    if module.__name__.endswith(".errors"):
        base: type = module.RocketMQError
        return [name for name, value in vars(module).items() if isinstance(value, type) and issubclass(value, base)]
    return [name for name in module.__all__ if name not in ("errors", "__version__")]


def render_page(name: str) -> str:
    """Return the page of a public module."""
    module = import_module(name)
    entries = "\n".join(_entry(name, each, getattr(module, each)) for each in public_names(module))
    return f"# `{name}`\n\n```{{eval-rst}}\n.. automodule:: {name}\n   :no-members:\n\n{entries}```\n"


def to_rst(lines: list[str]) -> list[str]:
    """Return a docstring, in which code stands in backticks, as reStructuredText."""
    return "\n\n".join(_paragraphs("\n".join(lines).split("\n\n"))).split("\n")


def process_docstring(_app: Any, what: str, name: str, _value: Any, _options: Any, lines: list[str]) -> None:
    """Rewrite a docstring in place; autodoc calls this for each."""
    from sphinx.ext.napoleon import GoogleDocstring  # an extra; reads sections such as "Args:"

    text = "\n".join(lines)
    if what == "module" and name in BRIEF:
        text = text.split("\n\n")[0]
    if what == "data" or text.startswith("Alias for field number"):
        text = ""  # the docstring of the value's class, or one that says nothing
    rst = to_rst(text.split("\n"))
    # In the docstring of an attribute it would take what stands before a colon for a type.
    lines[:] = rst if what in ("attribute", "property") else GoogleDocstring(rst).lines()


def _file_of(name: str) -> Path:
    path = ROOT / name.replace(".", "/")
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def _entry(module: str, name: str, value: Any) -> str:
    kind = "class" if inspect.isclass(value) else "function" if callable(value) else "data"
    members = "   :members:\n   :show-inheritance:\n" if kind == "class" else ""
    return f".. auto{kind}:: {module}.{name}\n{members}"


def _paragraphs(paragraphs: list[str]) -> Iterator[str]:
    """Yield the paragraphs of a docstring; indented ones are literal blocks."""
    is_literal = False
    for paragraph in paragraphs:
        was_literal, is_literal = is_literal, paragraph.startswith(" " * _LITERAL_INDENT)
        if is_literal and not was_literal:
            yield "::"
        yield paragraph if is_literal else _escape(_separate_list(paragraph))


def _separate_list(paragraph: str) -> str:
    """Return a paragraph with an empty line before its list, if it has one."""
    return re.sub(r"^(?!- | )(.+)\n- ", r"\1\n\n- ", paragraph, count=1, flags=re.MULTILINE)


def _escape(text: str) -> str:
    """Return a text in which only code and lists have a meaning for reStructuredText."""
    # The pattern has one group, so texts and codes take turns.
    texts, codes = _CODE.split(text)[::2], _CODE.findall(text)
    parts = [_SPECIAL.sub(r"\\\1", texts[0])]
    for code, before, behind in zip(codes, texts, texts[1:], strict=False):
        left = "" if _MAY_STAND_BEFORE.search(before) else "\\ "
        right = "" if _MAY_STAND_BEHIND.match(behind) else "\\ "
        parts.append(left + _role(code.strip("`")) + right + _SPECIAL.sub(r"\\\1", behind))
    return "".join(parts)


def _role(code: str) -> str:
    return f"`{code}`" if _NAME.fullmatch(code) else f"``{code}``"
