"""Write results, progress and errors: views for people, JSON for programs.

Results go to stdout, everything else to stderr. On a terminal, tables fit its width and have colours, unless NO_COLOR
is set. Elsewhere lines are as long as they need to be: nothing is folded in a file or pipe, and only names and texts of
servers beyond any usual length are cut. With `--json` each line on stderr is a JSON object, too.
"""

from __future__ import annotations

import sys
import time
from codecs import lookup
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, TextIO

from ..errors import MOST_TEXT, RocketMQError, shown
from .documents import write_json
from .exits import Exit
from .views import Facts, Note, Redrawn, Table, Text, View
from .waiting import WaitingLine

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.text import Text as RichText

__all__ = ["Screen", "writing"]

_UNLIMITED = 100_000
_USUAL_COLUMNS = 80
_MOST_CELL = 500


class Screen:
    """The terminal, files or pipes to which a command writes."""

    def __init__(self, out: TextIO | None = None, err: TextIO | None = None, *, as_json: bool = False) -> None:
        self.out = out or sys.stdout
        self.err = err or sys.stderr
        self.as_json = as_json
        self.interruption = "interrupted; nothing was changed"
        """The line that Ctrl-C writes; a command that changes something replaces it before it does."""
        self.outcome = ""
        """The changes so far, in words; set by a command whose output tells of them one by one, so that a closed output
        does not hide them."""
        self._console: Console | None = None
        self._line: WaitingLine | None = None
        self._redrawn = 0
        """The number of lines that the next `Redrawn` takes the place of."""
        self._last_line: str | None = None

    @property
    def is_terminal(self) -> bool:
        """Whether results go to a terminal."""
        return self.out.isatty()

    @property
    def may_ask(self) -> bool:
        """Whether somebody can be asked: input and errors are a terminal's."""
        return sys.stdin is not None and sys.stdin.isatty() and self.err.isatty()

    # --- results -----------------------------------------------------------------------------------------------------

    def write_document(self, value: Any) -> None:
        """Write a result as one JSON document, indented where a person reads it."""
        self._write(_json(value, self.out, indent=2 if self.is_terminal else None))

    def write_record(self, value: Any) -> None:
        """Write one result of a stream as a line of JSON."""
        self._write(_json(value, self.out))

    def show(self, views: Iterable[View]) -> None:
        """Write views."""
        for number, view in enumerate(views):
            if isinstance(view, Redrawn):
                self._redraw(view)
            elif isinstance(view, Text):
                self._write(view.text)
            else:
                if number and not isinstance(view, Note):
                    self._write("")
                self._write("\n".join(self._lines(view)))

    def _redraw(self, redrawn: Redrawn) -> None:
        """Draw views in the place of those that were drawn last; in a file or pipe, write their line if it is new."""
        if not self.is_terminal or self.console.is_dumb_terminal:
            if redrawn.line != self._last_line:
                self._write(redrawn.line)
            self._last_line = redrawn.line
            return
        lines = [line for view in redrawn.views for line in (*self._lines(view), "")][:-1]
        lines = lines[: max(1, self.console.height - 1)]  # What has left the terminal above cannot be redrawn.
        back = f"\x1b[{self._redrawn}F\x1b[J" if self._redrawn else ""
        self._redrawn = len(lines)
        self._write(back + "\n".join(lines))

    def _lines(self, view: Table | Facts | Note) -> list[str]:
        with writing(self.outcome), self.console.capture() as drawn:
            self.console.print(_drawn(view, self.console), end="")
        return [line.rstrip() for line in drawn.get().rstrip("\n").split("\n")]

    def clear(self) -> None:
        """Clear the terminal before a new view of the same; elsewhere write an empty line."""
        if self.is_terminal:
            self.console.clear()
        else:
            self._write("")

    def write_schema(self, schema: dict[str, Any]) -> None:
        """Write a JSON Schema."""
        self._write(_json(schema, self.out, indent=2))

    def wait_for_closing(self, seconds: float) -> bool:
        """Wait; return True, before the time is over, if the reader of the results has gone away."""
        try:
            self.out.fileno()
        except (OSError, ValueError):  # No file of the operating system.
            time.sleep(seconds)
            return False
        from ..net.transport import wait_for_hangup

        return wait_for_hangup(self.out, seconds)

    # --- everything else ---------------------------------------------------------------------------------------------

    def warn(self, text: str) -> None:
        """Write a warning to stderr: one line, or with `--json` an object."""
        self._tell(shown(text, MOST_TEXT), {"warning": text})

    def write_error(self, error: RocketMQError, code: Exit) -> None:
        """Write an error to stderr: one line, or with `--json` an object."""
        self._write_failure(str(error), error.code, error.what, code, dict(error.where), error.advice)

    def write_refusal(self, usage: str, what: str) -> None:
        """Write that the command line is wrong: its usage, or with `--json` an object."""
        self._write_failure(usage.rstrip("\n"), "USAGE", what, Exit.USAGE, {}, "see --help")

    def write_interruption(self, what: str) -> None:
        """Write that the user has ended the command, and what that means."""
        # A terminal shows ^C at the beginning of the line.
        line = f"\n{what}" if self.err.isatty() else what
        self._write_failure(line, "INTERRUPTED", what, Exit.INTERRUPTED, {}, "")

    def write_closing(self) -> None:
        """Write what the command has changed, since nobody reads its results any more."""
        if self.outcome:
            what = f"the output was closed; {self.outcome}"
            self._write_failure(what, "OUTPUT_CLOSED", what, Exit.OUTPUT_CLOSED, {}, "")

    def _write_failure(
        self, line: str, code: str, what: str, exit_code: Exit, where: dict[str, Any], advice: str
    ) -> None:
        document = {"code": code, "what": what, "where": where, "advice": advice, "exit": int(exit_code)}
        try:
            self._tell(line, document)
        except BrokenPipeError:
            raise
        except OSError:  # A full disk, for example: the exit code still tells.
            return

    def _tell(self, line: str, document: dict[str, Any]) -> None:
        with self.quiet():
            print(_json(document, self.err) if self.as_json else line, file=self.err, flush=True)

    # --- waiting -----------------------------------------------------------------------------------------------------

    @contextmanager
    def waiting(self, what: str) -> Iterator[None]:
        """Tell on a terminal what the `with` block waits for, once it takes longer than two seconds."""
        if not self.err.isatty():
            yield
            return
        with WaitingLine(self.err, what) as self._line:
            try:
                yield
            finally:
                self._line = None

    def note_step(self, what: str) -> None:
        """Change what `waiting` tells."""
        if self._line:
            self._line.what = what

    def quiet(self) -> AbstractContextManager[None]:
        """Return a context in which nothing but its caller writes to the terminal."""
        return self._line.hidden() if self._line else nullcontext()

    # --- drawing -----------------------------------------------------------------------------------------------------

    @property
    def console(self) -> Console:
        """The console that draws views; made at first use, because its library takes a while to import."""
        if self._console is None:
            from rich.console import Console

            width = None if self.is_terminal else _UNLIMITED
            self._console = Console(file=self.out, width=width, highlight=False, markup=False, emoji=False)
            if self._console.width < 1:  # COLUMNS=0; nothing would be drawn.
                self._console.width = _USUAL_COLUMNS
        return self._console

    def _write(self, text: str) -> None:
        with writing(self.outcome):
            print(text, file=self.out, flush=True)


@contextmanager
def writing(outcome: str = "") -> Iterator[None]:
    """Raise `RocketMQError` if results cannot be written in the `with` block, but `BrokenPipeError` if nobody reads.

    `outcome` says what the command has changed.
    """
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as cause:
        what = f"the result could not be written: {cause.strerror}" + (f"; {outcome}" if outcome else "")
        raise RocketMQError(what, advice="write it to another place") from cause


def _json(value: Any, stream: TextIO, indent: int | None = None) -> str:
    """Return JSON that a stream can take, whatever its encoding."""
    return write_json(value, indent=indent, is_ascii=not _takes_all(stream))


def _takes_all(stream: TextIO) -> bool:
    """Return whether a stream can encode every character."""
    try:
        return lookup(stream.encoding or "ascii").name == "utf-8"
    except LookupError:
        return False


def _drawn(view: Table | Facts | Note, console: Console) -> RenderableType:
    from rich.text import Text as RichText

    if isinstance(view, Table):
        return _draw_table(view, console)
    if isinstance(view, Facts):
        return _draw_facts(view)
    return RichText(shown(view.text, MOST_TEXT), style="yellow" if view.is_warning else "")


def _draw_table(view: Table, console: Console) -> RenderableType:
    from rich import box, table
    from rich.text import Text as RichText

    drawn = table.Table(
        box=box.SIMPLE_HEAD,
        title=RichText(shown(view.title, _MOST_CELL), style="bold") if view.title else None,
        title_justify="left",
        header_style="bold",
        pad_edge=False,
        show_edge=False,
        padding=(0, 1, 0, 0),
    )
    for column in view.columns:
        if column.is_number:
            # Folded numbers would be misread; a cut one has an ellipsis.
            drawn.add_column(column.title, justify="right", no_wrap=True, overflow="ellipsis")
        else:
            drawn.add_column(column.title, overflow="fold")
    limits = [MOST_TEXT if column.is_remark else _MOST_CELL for column in view.columns]
    for row in view.rows:
        drawn.add_row(*map(_cell, row, limits))
    unlimited = console.options.update(width=_UNLIMITED)
    if console.width < _UNLIMITED and console.measure(drawn, options=unlimited).maximum > console.width:
        drawn.padding = 0  # Columns stand closer before names are folded.
    return drawn


def _draw_facts(view: Facts) -> RenderableType:
    from rich import table

    drawn = table.Table.grid(padding=(0, 2))
    drawn.add_column(style="bold")
    drawn.add_column(overflow="fold")
    for name, text in view.pairs:
        drawn.add_row(_cell(name), _cell(text))
    return drawn


def _cell(text: str, most: int = _MOST_CELL) -> RichText:
    """Return the text of a cell; names of servers may have any characters and any length."""
    from rich.text import Text as RichText

    return RichText(shown(text, most))
