"""Run one command of the command line.

Every way out passes through `main`: a result, an error of the library, Ctrl-C, and an output that is closed early each
have their exit code, and write at most one line to stderr. Only `--debug` shows tracebacks and log lines; without it,
warnings of the library become warnings of the command.
"""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from importlib.util import find_spec
from io import StringIO
from typing import TYPE_CHECKING, Any, cast

from ..errors import ExtraMissing, RocketMQError
from .exits import Exit, exit_of
from .screen import Screen, writing

if TYPE_CHECKING:
    from .command import Invocation
    from .session import Session

__all__ = ["main"]

_NEEDED = ("click", "rich")
_MOST_WARNINGS = 1000
_REPORTED = "pyspark_rocketmq.client."
"""The room whose retries are not told: commands that use it tell the outcome of each message themselves."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command that these words name (None: those of the process), and return the exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    _open_missing_streams()
    for stream in (sys.stdout, sys.stderr):
        if reconfigure := getattr(stream, "reconfigure", None):
            reconfigure(errors="backslashreplace")
    screen = Screen(as_json="--json" in words[: words.index("--") if "--" in words else None])
    try:
        return _run_until_interrupted(words, screen)
    except BrokenPipeError:
        with suppress(OSError):
            screen.write_closing()
        return Exit.OUTPUT_CLOSED
    finally:
        for stream in (screen.out, screen.err):
            _discard_if_closed(stream)


def _run_until_interrupted(words: Sequence[str], screen: Screen) -> int:
    try:
        if missing := [name for name in _NEEDED if find_spec(name) is None]:
            return _refuse_without(missing, screen)
        return _run(words, screen)
    except KeyboardInterrupt as interrupt:
        screen.write_interruption(str(interrupt) or screen.interruption)
        return Exit.INTERRUPTED


def _refuse_without(missing: Sequence[str], screen: Screen) -> int:
    what = f"the command line needs {' and '.join(missing)}, not installed for {sys.executable}"
    screen.write_error(ExtraMissing(what, advice="run pip install 'pyspark-rocketmq[cli]'"), Exit.FAILED)
    return Exit.FAILED


def _run(words: Sequence[str], screen: Screen) -> int:
    from click import Abort, ClickException

    try:
        invocation = _parse(words)
        return Exit.DONE if invocation is None else _run_command(invocation, screen)
    except RocketMQError as error:
        screen.write_error(error, Exit.FAILED)
        return Exit.FAILED
    except ClickException as error:
        return _refuse(error, words, screen)
    except Abort as cause:  # Ctrl-C while click parses or asks.
        raise KeyboardInterrupt from cause
    except SystemExit as cause:
        if sys.stdout is screen.out:
            raise
        sys.stdout, sys.stderr = screen.out, screen.err
        raise BrokenPipeError from cause  # click has caught it, and covered the streams.


def _parse(words: Sequence[str]) -> Invocation | None:
    """Return the command with its values, None after help, which the parser writes itself."""
    from .parser import parse

    with writing():
        return parse(words)


def _run_command(invocation: Invocation, screen: Screen) -> int:
    from click import Abort

    from .connection import Wanted
    from .session import Session

    common, is_debug = invocation.common, bool(invocation.common.get("debug"))
    wanted = Wanted(common.get("name_server"), common.get("profile"), common.get("option") or ())
    with _log_to(screen, is_debug), Session(wanted, screen) as session:
        try:
            return _invoke(invocation, session)
        except RocketMQError as error:
            if is_debug:
                logging.getLogger(__name__).debug("the command failed", exc_info=error)
            return _fail(error, session)
        except (BrokenPipeError, Abort):
            raise
        except Exception as error:
            if is_debug:
                raise
            outcome = f"; {screen.outcome}" if screen.outcome else ""
            what = f"an unexpected error, {type(error).__name__}: {error}{outcome}"
            return _fail(RocketMQError(what, advice="--debug shows the traceback; please report it"), session)


def _invoke(invocation: Invocation, session: Session) -> int:
    command, values, screen = invocation.command, invocation.values, session.screen
    if invocation.common["schema"]:
        from .documents import schema_of

        screen.write_schema(schema_of(command.result, f"{command.name} --json"))
        return Exit.DONE
    if command.streams(values):
        return _write_each(invocation, command.run(session, **values), screen)
    with screen.waiting(f"{command.name}: waiting for the cluster"):
        result = command.run(session, **values)
    _write(invocation, result, screen)
    return command.verdict(result, values) if command.verdict else Exit.DONE


def _write(invocation: Invocation, result: Any, screen: Screen) -> None:
    if screen.as_json:
        screen.write_document(result)
    else:
        screen.show(invocation.command.show(result))


def _write_each(invocation: Invocation, results: Iterator[Any], screen: Screen) -> int:
    verdict = invocation.command.verdict
    code: int = Exit.DONE
    # It ends what it has begun before the command says how it ended.
    with closing(cast(Generator[Any], results)):
        for result in results:
            if screen.as_json:
                screen.write_record(result)
            else:
                screen.show(invocation.command.show(result))
            if verdict:
                code = verdict(result, invocation.values)
    return code


# --- failures --------------------------------------------------------------------------------------------------------


def _fail(error: RocketMQError, session: Session) -> int:
    """Write why the command failed, and return the exit code."""
    from .diagnosis import explain

    with session.screen.waiting("finding out what stands at the address"):
        explained = explain(error, session)
    code = exit_of(explained)
    session.screen.write_error(explained, code)
    return code


def _refuse(error: Any, words: Sequence[str], screen: Screen) -> int:
    """Write what is wrong with the usage, and return the exit code."""
    usage = StringIO()
    error.show(file=usage)
    screen.write_refusal(_masked(usage.getvalue(), words), _masked(error.format_message(), words))
    return Exit.USAGE


_NAME = re.compile(r"(?:^|\s|=|-o)([\w.]+)\s*=")


def _masked(text: str, words: Sequence[str]) -> str:
    """Return a text without the values of options in the command line that may be secret."""
    from .parser import restore

    for word in words:
        if found := _find_private(word):
            secret = word[found.start(1) :]
            for written in (secret, repr(secret)[1:-1]):
                text = text.replace(written, f"{found[1]}=***")
    return restore(text)


def _find_private(word: str) -> re.Match[str] | None:
    """Return where a word has the first name whose value may be secret, None if it has none."""
    from .connection import is_public

    return next((each for each in _NAME.finditer(word) if word[each.end() :] and not is_public(each[1])), None)


# --- streams and logs ------------------------------------------------------------------------------------------------


@contextmanager
def _log_to(screen: Screen, is_debug: bool) -> Iterator[None]:
    """Show all log lines for a `with` block, or without `is_debug` the warnings of the library, each once."""
    if is_debug:
        logging.basicConfig(level=logging.DEBUG, format="%(asctime)s %(name)s %(levelname)s %(message)s")
        yield
        return
    logging.getLogger("broker_stub").handlers = [logging.NullHandler()]
    logger, handler = logging.getLogger("pyspark_rocketmq"), _Warnings(screen)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


class _Warnings(logging.Handler):
    """Shows warnings of the library, each once."""

    def __init__(self, screen: Screen) -> None:
        super().__init__(logging.WARNING)
        self._screen = screen
        self._shown: set[str] = set()
        """The warnings that were shown, not too many of them."""

    def emit(self, record: logging.LogRecord) -> None:
        """Show a warning unless the same was shown before."""
        text = record.getMessage()
        if text not in self._shown and not record.name.startswith(_REPORTED):
            if len(self._shown) == _MOST_WARNINGS:
                self._shown.clear()
            self._shown.add(text)
            with suppress(OSError):  # The thread that logs is not the one to notice a closed stderr.
                self._screen.warn(text)


def _open_missing_streams() -> None:
    """Replace streams that the process was started without, as by `2>&-`; what goes there is nowhere to be read.

    A missing standard input stays missing: a command that was told to read it refuses.
    """
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))


def _discard_if_closed(stream: Any) -> None:
    """Write the rest of a closed stream to nowhere, so that the interpreter does not complain when it flushes it."""
    try:
        stream.flush()
    except (OSError, ValueError):
        _discard(stream)


def _discard(stream: Any) -> None:
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    except (OSError, ValueError):
        return
