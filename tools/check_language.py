"""Check the language of docstrings and names, as far as a machine can.

    python tools/check_language.py               # everything; `make lint` runs this
    python tools/check_language.py --count       # findings per room and rule, of all rooms
    python tools/check_language.py tests/pull    # every finding below some folders or files

Exits with 1 if there is a finding. The rules, by the name that a finding shows:

module     A module docstring states what the module does: its first line and its last end with a period or colon,
           and neither is a question.
function   A function docstring begins with a verb in the imperative. Rejected openings are articles, pronouns, question
           words, prepositions, conjunctions, adverbs and numbers; words that end with -s, -ed, -ing, -ly or -tion and
           are no known verbs; words with a capital inside; nouns before "of"; and nouns before "is", "has", "may" ...
noun       A class, property, pytest fixture or attribute is described by a noun phrase or a sentence. Rejected are
           question words, withheld subjects ("What", "Those", "Nobody") and question marks. A verb is fine, too.
test       A test docstring is a whole sentence: at least three words, a capital letter (or a digit, or code) first,
           a period last, and no opening that continues the name of the test ("And", "Nor", "Whatever").
retired    No module, class, function, argument or attribute bears a retired name, or has a retired word in its name.
phrase     No docstring, comment or page contains a phrase that withholds its subject or hides a known term; no text in
           the packages (error, log line) does either.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
TREES = ("pyspark_rocketmq", "broker_stub", "tests", "tools", "docs", "README.md", "CHANGELOG.md", "CONTRIBUTING.md")
PACKAGES = ("pyspark_rocketmq/", "broker_stub/")

RULES = ("module", "function", "noun", "test", "retired", "phrase")

NOT_IMPERATIVE = frozenset(
    """
    a an the this that these those some any each every all both either neither no many few several
    one two three four five six seven eight nine ten
    i it its itself he she they them their we us our ours you your
    somebody someone nobody everybody everything nothing whoever
    what whatever which whichever who whom whose whether how however where wherever when whenever why
    of to in on at by for from with without within under over above below behind before after around among between
    beside besides beyond and or nor but so also too even only just though although because since as if unless until
    till while than then thus else not is are was were has had does can cannot may must will would should there here
    first last same such more most less other another soon later together
    official whole smallest largest plain bare real old wrong single bulk readable temporary monotonic kept made told
    number size name true false none null text bytes key value part room broker topic queue offset header body client
    cluster java arrow spark schema identifier advice entry level user kernel python code member group
    """.split()
)
"""Words that cannot begin a sentence in the imperative."""
VERBS = frozenset(
    """
    access address assess bypass compress cross discuss dismiss express focus guess miss pass press process suppress
    toss bring ping spring string swing bed embed exceed feed heed need proceed seed shed speed spread
    apply comply imply multiply rely reply supply condition mention partition position question
    """.split()
)
"""Verbs with an ending that otherwise marks other kinds of words, such as -s or -ed."""
ENDINGS = re.compile(r"(?:[^s]s|ed|ing|ly|tion)$")
BEFORE_OF = frozenset("complain dispose learn tell think warn".split())
"""Verbs that may be followed by "of"."""
FINITE = frozenset("is are was were has have had does did can may must will would should might".split())
_WITHHELD = """
    what whatever which whichever who whom whose whoever how however wherever whenever why
    that those nobody somebody someone and or nor but so
    """.split()
NOT_A_NOUN = frozenset([*_WITHHELD, "where", "when", "everybody", "such"])
NOT_A_SENTENCE = frozenset([*_WITHHELD, "whether", "also", "even", "though", "although", "because", "than"])

RETIRED_NAMES = frozenset(
    "Voice Company Reach Desk Manner Hindrance Letter GroupGuard Ending Patience Errand Look Wish Place "
    "is_lawful_hole".split()
)
"""Names that no definition may have, written without their leading underscores."""
RETIRED_WORDS = frozenset(
    "voice desk manner hindrance hindering errand farewell vouch vouched unvouched fallen wish wishes patience".split()
)
"""Words that no defined name may contain."""
PHRASES = re.compile(
    r"\b(?:whoever|whomever|somebody else's|nobody's|somebody's|for want of|as far as it goes|knows? no better|"
    r"as much of it|so much as|had for|comes? into the way|farewells?|vouch(?:es|ed)?|unvouched|hindrances?|errands?|"
    r"what came|tells? nobody|nobody knows|of no matter|the same, for)\b",
    re.IGNORECASE,
)


CODE_SPAN = re.compile(r"`[^`\n]+`")
"""Code spans of a page, which are not checked, because a changelog quotes old names and texts."""


class Finding(NamedTuple):
    """A line of a file that breaks a rule."""

    room: str
    place: str
    rule: str
    text: str

    def __str__(self) -> str:
        """Return the finding as a line of output: place, rule and text."""
        return f"{self.place}: {self.rule}: {self.text}"


class Source(NamedTuple):
    """A Python file with its text and syntax tree."""

    path: str
    text: str
    tree: ast.Module
    nodes: list[ast.AST]

    @property
    def is_test(self) -> bool:
        """Return whether the file is below `tests/`."""
        return self.path.startswith("tests/")


Function = ast.FunctionDef | ast.AsyncFunctionDef
Definition = ast.ClassDef | Function
Found = Iterator[tuple[int, str, str]]
"""Yields the line number, rule name and text of each finding in a file."""


def room_of(path: str) -> str:
    """Return the room of a file: the folder of a page, the first two parts of a module's path, or `tools`."""
    parts = path.removesuffix(".py").split("/")
    if path.endswith(".md"):
        return "/".join(parts[:-1]) or "docs"
    return "/".join(parts[:1] if parts[0] == "tools" else parts[:2])


def check_file(path: Path, root: Path = ROOT) -> Iterator[Finding]:
    """Yield the findings of one file in the order of lines; in a page only phrases are checked."""
    name, text = path.relative_to(root).as_posix(), path.read_text()
    if path.suffix == ".md":
        found = list(_find_phrases(1, CODE_SPAN.sub("", text)))
    else:
        tree = ast.parse(text)
        source = Source(name, text, tree, list(ast.walk(tree)))
        found = [finding for check in CHECKS for finding in check(source)]
    for line, rule, shown in sorted(found):
        yield Finding(room_of(name), f"{name}:{line}", rule, shown)


def check_module(source: Source) -> Found:
    """Yield a finding if the module docstring is no statement."""
    lines = (ast.get_docstring(source.tree) or ".").splitlines()
    if not _opening_paragraph(lines).endswith((".", ":")) or lines[-1].endswith("?"):
        yield 1, "module", lines[0]


def check_functions(source: Source) -> Found:
    """Yield a finding for each function docstring that does not begin with a verb in the imperative.

    Tests, properties and fixtures are checked by other rules.
    """
    for node in source.nodes:
        if isinstance(node, Function) and not _is_noun(node) and not _is_test(node, source):
            text = ast.get_docstring(node)
            if text is not None and not is_imperative(text):
                yield node.lineno, "function", f"{node.name}: {text.splitlines()[0]}"


def check_nouns(source: Source) -> Found:
    """Yield a finding for each docstring of a class, property, fixture or attribute that withholds its subject."""
    for node in source.nodes:
        if isinstance(node, Definition) and (isinstance(node, ast.ClassDef) or _is_noun(node)):
            yield from _check_noun(node.lineno, node.name, ast.get_docstring(node))
        if isinstance(node, ast.Module | ast.ClassDef):
            for target, text in zip(node.body, node.body[1:], strict=False):
                if isinstance(target, ast.Assign | ast.AnnAssign) and (words := _text_of(text)):
                    yield from _check_noun(text.lineno, ast.unparse(target).splitlines()[0][:40], words)


def check_tests(source: Source) -> Found:
    """Yield a finding for each test docstring that is no whole sentence."""
    for node in source.nodes:
        if isinstance(node, Function) and _is_test(node, source):
            text = ast.get_docstring(node)
            if text is not None and not is_sentence(text):
                yield node.lineno, "test", f"{node.name}: {text.splitlines()[0]}"


def check_names(source: Source) -> Found:
    """Yield a finding for each defined name that is retired or contains a retired word."""
    stem = source.path.rpartition("/")[2].removesuffix(".py")
    for line, name in [(1, stem), *_defined(source.nodes)]:
        if name.lstrip("_") in RETIRED_NAMES or RETIRED_WORDS & set(words_of(name)):
            yield line, "retired", name


def check_phrases(source: Source) -> Found:
    """Yield a finding for each retired phrase in docstrings and comments, and in all texts of the packages."""
    statements = (node for node in source.nodes if isinstance(node, ast.Expr))
    texts = [(node.lineno, text) for node in statements if (text := _text_of(node))]
    if source.path.startswith(PACKAGES):
        constants = (node for node in source.nodes if isinstance(node, ast.Constant))
        texts = [(node.lineno, node.value) for node in constants if isinstance(node.value, str)]
    for line, text in [*texts, *_comments(source.text)]:
        yield from _find_phrases(line, text)


CHECKS: tuple[Callable[[Source], Found], ...] = (
    check_module,
    check_functions,
    check_nouns,
    check_tests,
    check_names,
    check_phrases,
)


def is_imperative(text: str) -> bool:
    """Return whether a docstring seems to begin with a verb in the imperative."""
    opening, following = _opening_words(text)
    if not opening[:1].isalpha() or opening.lower() in NOT_IMPERATIVE:
        return False
    if "'" in opening or following in FINITE or (following == "of" and opening.lower() not in BEFORE_OF):
        return False
    return opening.lower() in VERBS or not (ENDINGS.search(opening) or re.search("[A-Z]", opening[1:]))


def is_sentence(text: str) -> bool:
    """Return whether a docstring seems to be a whole sentence."""
    first = text.strip("`*\"'([<-")[:1]
    return (
        len(text.split()) >= 3
        and (not first.isalpha() or first.isupper() or text.startswith("`"))
        and text.rstrip().endswith(".")
        and _opening_words(text)[0].lower() not in NOT_A_SENTENCE
    )


def words_of(name: str) -> list[str]:
    """Return the words of a name in lower case, such as ["http", "server", "name"] for `HTTPServer_name`."""
    return re.findall(r"[a-z]+", re.sub(r"([A-Z]+)(?=[A-Z][a-z]|[^A-Za-z]|$)|([A-Z])", r" \1\2", name).lower())


def _find_phrases(line: int, text: str) -> Found:
    for match in PHRASES.finditer(text):
        yield line + text.count("\n", 0, match.start()), "phrase", match[0]


def _opening_words(text: str) -> tuple[str, str]:
    words = [*text.split()[:2], "", ""]
    return words[0].rstrip(",:;."), words[1].rstrip(",:;.")


def _opening_paragraph(lines: Sequence[str]) -> str:
    end = next((number for number, line in enumerate(lines) if not line.strip()), len(lines))
    return " ".join(lines[:end])


def _check_noun(line: int, name: str, text: str | None) -> Found:
    if text and (_opening_words(text)[0].lower() in NOT_A_NOUN or _opening_paragraph(text.splitlines()).endswith("?")):
        yield line, "noun", f"{name}: {text.splitlines()[0]}"


def _is_noun(node: Definition) -> bool:
    """Return whether a class or function has a decorator that makes it a property or a fixture."""
    names = {ast.unparse(item).partition("(")[0].rpartition(".")[2] for item in node.decorator_list}
    return bool(names & {"property", "cached_property", "fixture", "setter"})


def _is_test(node: Function, source: Source) -> bool:
    return source.is_test and node.name.startswith("test_")


def _text_of(node: ast.AST) -> str:
    """Return the string if the statement is nothing but a string (a docstring), else an empty one."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
        return node.value.value
    return ""


def _comments(text: str) -> Iterator[tuple[int, str]]:
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def _defined(nodes: Iterable[ast.AST]) -> Iterator[tuple[int, str]]:
    """Yield (line, name) of every class, function, argument, variable and attribute that a module defines."""
    for node in nodes:
        if isinstance(node, Definition):
            yield node.lineno, node.name
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.attr


def files_below(paths: Iterable[Path]) -> list[Path]:
    """Return all Python files and Markdown pages below these folders, sorted; a path of a file returns the file."""
    found = {file for path in paths for file in ([path] if path.is_file() else path.rglob("*.[pm][yd]"))}
    return sorted(file for file in found if "__pycache__" not in file.parts)


def print_counts(findings: Sequence[Finding]) -> None:
    """Print a table with the number of findings of each room and rule; rooms without findings are left out."""
    counts = Counter((finding.room, finding.rule) for finding in findings)
    counts.update(("all", finding.rule) for finding in findings)
    print(f"{'room':32}" + "".join(f"{rule:>10}" for rule in RULES))
    for room in [*sorted({finding.room for finding in findings}), "all"]:
        print(f"{room:32}" + "".join(f"{counts[room, rule]:10}" for rule in RULES))


def main(arguments: Sequence[str]) -> int:
    """Check the given folders and files, or everything; print the findings, and return the exit status."""
    paths = [Path(word).resolve() for word in arguments if not word.startswith("-")]
    files = files_below(paths or (ROOT / tree for tree in TREES))
    findings = [finding for file in files for finding in check_file(file)]
    if "--count" in arguments:
        print_counts(findings)
        return 0
    for finding in findings:
        print(finding)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
