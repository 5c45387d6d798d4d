"""Turn the words of a command line into a command and its values, by click, from the table of commands.

click parses, writes help and completes words. It never runs a command: its callbacks return an `Invocation`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import click

from .command import Command, Invocation, Parameter
from .exits import MEANINGS
from .program import COMPLETE_VARIABLE, PROGRAM
from .table import GROUPS, SUMMARIES, find_command

__all__ = ["COMMON", "CONNECTION", "build_parser", "parse", "restore"]

_AGO = re.compile(r"-[0-9]+(?:\.[0-9]+)?(?:ms|[smhd])", re.IGNORECASE)
"""A time such as `-2h`, which click would take for options."""
_MINUS = "\ufdd0"
"""The first character of such a time while click parses the words; no text has it."""

CONNECTION = (
    Parameter("--name-server", "name servers, as host:port; else NAMESRV_ADDR, else a profile", metavar="ADDRESS"),
    Parameter("--profile", "profile of ~/.config/pyspark-rocketmq/config.toml", metavar="NAME"),
    Parameter("-o/--option", "option of format(\"rocketmq\"), for example useTLS=true", is_repeatable=True,
              metavar="NAME=VALUE"),
)  # fmt: skip
"""The parameters of commands that talk to a cluster."""
COMMON = (
    Parameter("--json", "print the result as JSON; errors, too", bool),
    Parameter("--schema", "print the JSON Schema of the result, and do nothing else", bool),
    Parameter("--debug", "show log lines, and the traceback of an error", bool),
)
"""The parameters of every command."""


def parse(arguments: Sequence[str]) -> Invocation | None:
    """Return the command with its values; None after help. Raise `click.ClickException` for a wrong usage."""
    words = [_MINUS + word[1:] if _AGO.fullmatch(word) else word for word in arguments]
    parsed = build_parser().main(words, prog_name=PROGRAM, standalone_mode=False, complete_var=COMPLETE_VARIABLE)
    return parsed if isinstance(parsed, Invocation) else None


def restore(text: str) -> str:
    """Return a text of click with the words of the command line as the user wrote them."""
    return text.replace(_MINUS, "-").replace(repr(_MINUS)[1:-1], "-")


def build_parser() -> click.Group:
    """Return the parser of the whole command line."""
    return _Commands(
        "",
        name=PROGRAM,
        help="Show and change an Apache RocketMQ cluster, without Java and without Spark.",
        epilog=_epilog(),
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
        params=[_version_option()],
        no_args_is_help=True,
    )


def _epilog() -> str:
    codes = "\n".join(f"{int(code):>5}  {meaning}" for code, meaning in MEANINGS.items())
    return f"\b\nExit codes:\n{codes}"


def _version_option() -> click.Option:
    from .._version import __version__

    def show(context: click.Context, parameter: click.Parameter, value: bool) -> None:
        if value and not context.resilient_parsing:
            click.echo(f"{PROGRAM} {__version__}")
            context.exit()

    return click.Option(
        ["--version"], is_flag=True, expose_value=False, is_eager=True, callback=show, help="Show the release."
    )


class _Commands(click.Group):
    """The commands below a word, or all; a command's module is imported when the command is chosen."""

    def __init__(self, first: str, **attributes: Any) -> None:
        super().__init__(**attributes)
        self._first = first

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the next words, in the order of the table."""
        return list(self._summaries())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command, or the group of commands, of the next word."""
        if cmd_name not in self._summaries():
            return None
        if not self._first and cmd_name in GROUPS:
            return _Commands(cmd_name, name=cmd_name, help=_sentence(GROUPS[cmd_name]), no_args_is_help=True)
        return _click_command(find_command(f"{self._first} {cmd_name}".strip()))

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands without importing their modules."""
        with formatter.section("Commands"):
            formatter.write_dl(list(self._summaries().items()))

    def _summaries(self) -> dict[str, str]:
        if self._first:
            words = self._first + " "
            return {name.removeprefix(words): text for name, text in SUMMARIES.items() if name.startswith(words)}
        first_words = dict.fromkeys(name.partition(" ")[0] for name in SUMMARIES)
        return {word: GROUPS.get(word) or SUMMARIES[word] for word in first_words}


def _click_command(command: Command[Any]) -> click.Command:
    own = command.parameters
    common = (*(CONNECTION if command.connects else ()), *COMMON)
    keys = {parameter.key for parameter in own}

    def collect(**values: Any) -> Invocation:
        restored = {key: _restored(value) for key, value in values.items()}
        mine = {key: value for key, value in restored.items() if key in keys}
        _refuse_secrets(own, mine)
        return Invocation(command, mine, {key: value for key, value in restored.items() if key not in keys})

    return _WithSchema(
        command.name.rpartition(" ")[2],
        params=[_click_parameter(each) for each in (*own, *common)],
        callback=collect,
        help=_help(command),
        epilog="\b\nExamples:\n" + "\n".join(f"  {line}" for line in command.examples) if command.examples else None,
    )


def _refuse_secrets(parameters: Iterable[Parameter], values: Mapping[str, Any]) -> None:
    """Raise `click.UsageError` for a secret in the place of an argument, for example of a topic, which is sent.

    Arguments that may be repeated are messages, or options of other connectors.
    """
    from .connection import is_secret

    for parameter in parameters:
        if parameter.is_argument and not parameter.is_repeatable:
            name, equals, _ = str(values[parameter.key]).partition("=")
            if equals and is_secret(name.strip()):
                raise click.UsageError(f"{parameter.name} is an option: write -o before {name}=…")


class _WithSchema(click.Command):
    """A command that needs no arguments when only its schema is asked for."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the words; with `--schema`, do not insist on required parameters."""
        if "--schema" in args and "--" not in args:
            for parameter in self.params:
                parameter.required = False
        return super().parse_args(ctx, args)


def _restored(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_restored, value))
    return "-" + value[1:] if isinstance(value, str) and value.startswith(_MINUS) else value


def _help(command: Command[Any]) -> str:
    return f"{_sentence(SUMMARIES[command.name])}\n\n{command.details}"


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def _click_parameter(parameter: Parameter) -> click.Parameter:
    kind = click.Choice(parameter.choices) if parameter.choices else parameter.kind
    if parameter.is_argument:
        return click.Argument(
            [parameter.key],
            type=kind,
            required=parameter.is_required,
            nargs=-1 if parameter.is_repeatable else 1,
            metavar=parameter.name,
        )
    return click.Option(
        [*parameter.spellings, parameter.key],
        type=None if kind is bool else kind,
        is_flag=kind is bool,
        default=parameter.default if not parameter.is_repeatable else (),
        multiple=parameter.is_repeatable,
        required=parameter.is_required,
        help=parameter.help,
        metavar=parameter.metavar,
        show_default=parameter.default is not None and kind is not bool,
    )
