"""Run one command of the command line.

Every way out passes through `main`: a result, an error of the library, Ctrl-C, and an output that is closed early each
have their exit code, and write at most one line to stderr. Only `--debug` shows tracebacks and log lines.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ..errors import RocketMQError
from .exits import Exit, exit_of
from .screen import Screen

if TYPE_CHECKING:
    from .command import Invocation

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command that these words name (None: those of the process), and return the exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    for stream in (sys.stdout, sys.stderr):
        if reconfigure := getattr(stream, "reconfigure", None):
            reconfigure(errors="backslashreplace")
    screen = Screen(as_json="--json" in words)
    try:
        return _run(words, screen)
    except KeyboardInterrupt:
        said = screen.interruption
        print(f"\n{said}" if screen.err.isatty() else said, file=screen.err, flush=True)
        return Exit.INTERRUPTED
    except BrokenPipeError:
        _let_go_of(sys.stdout)
        return Exit.OUTPUT_CLOSED


def _run(words: Sequence[str], screen: Screen) -> int:
    from click import Abort, ClickException

    from .parser import parse

    try:
        invocation = parse(words)
    except ClickException as error:
        return _refuse(error, screen)
    except Abort as cause:
        raise KeyboardInterrupt from cause
    if invocation is None:
        return Exit.DONE
    debug = bool(invocation.common.get("debug"))
    _set_up_logging(debug)
    try:
        return _invoke(invocation, screen)
    except RocketMQError as error:
        if debug:
            logging.getLogger(__name__).debug("the command failed", exc_info=error)
        code = exit_of(error)
        screen.error(error, code)
        return code
    except BrokenPipeError:
        raise
    except Exception as error:
        if debug:
            raise
        what = f"an unexpected error, {type(error).__name__}: {error}"
        screen.error(RocketMQError(what, advice="--debug shows the traceback; please report it"), Exit.FAILED)
        return Exit.FAILED


def _invoke(invocation: Invocation, screen: Screen) -> int:
    from .connection import Wanted
    from .session import Session

    command, values, common = invocation.command, invocation.values, invocation.common
    if common["schema"]:
        from .documents import schema_of

        screen.text(json.dumps(schema_of(command.result, f"{command.name} --json"), indent=2))
        return Exit.DONE
    wanted = Wanted(common.get("name_server"), common.get("profile"), common.get("option") or ())
    result = command.run(Session(wanted, screen), **values)
    if not command.streams(values):
        _write(invocation, result, screen)
        return command.verdict(result, values) if command.verdict else Exit.DONE
    return _write_each(invocation, result, screen)


def _write(invocation: Invocation, result: Any, screen: Screen) -> None:
    if screen.as_json:
        screen.document(result)
    else:
        screen.show(invocation.command.show(result))


def _write_each(invocation: Invocation, results: Iterator[Any], screen: Screen) -> int:
    verdict = invocation.command.verdict
    code: int = Exit.DONE
    for result in results:
        if screen.as_json:
            screen.record(result)
        else:
            screen.show(invocation.command.show(result))
        if verdict:
            code = verdict(result, invocation.values)
    return code


def _refuse(error: Any, screen: Screen) -> int:
    """Write what is wrong with the usage, and return the exit code."""
    if screen.as_json:
        said = {"code": "USAGE", "what": error.format_message(), "where": {}, "advice": "see --help"}
        print(json.dumps({**said, "exit": int(Exit.USAGE)}, ensure_ascii=False), file=screen.err)
    else:
        error.show(file=screen.err)
    return Exit.USAGE


def _set_up_logging(debug: bool) -> None:
    """Show log lines with `--debug`; without it, none: errors say what is wrong."""
    if debug:
        logging.basicConfig(level=logging.DEBUG, format="%(asctime)s %(name)s %(levelname)s %(message)s")
    else:
        for name in ("pyspark_rocketmq", "broker_stub"):
            logging.getLogger(name).handlers = [logging.NullHandler()]


def _let_go_of(stream: Any) -> None:
    """Lead a closed output to nowhere, so that the interpreter does not complain when it flushes at its end."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    except (OSError, ValueError):
        return
