"""Render the guide page about the command line, from the table of commands."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .command import Command, Parameter
from .connection import SECRET_VARIABLES
from .exits import MEANINGS
from .parser import COMMON, CONNECTION
from .table import SUMMARIES, find_command

__all__ = ["render_page"]

_HEAD = """# Command line

`pyspark-rocketmq` shows and changes a RocketMQ cluster from a terminal. It needs the extra `cli`, and neither Spark
nor Java nor a server of its own:

```sh
pyspark-rocketmq topics list --name-server localhost:9876
```

`python -m pyspark_rocketmq` is the same; without further words it tells what is installed. `--help` of each command has
the same text as this page.

## Which cluster

The first of these decides; a profile is used as a whole or not at all.

1. `--name-server` or an address in `-o`, with the options of `--profile` if that is given, too
2. `--profile`
3. the environment variable `NAMESRV_ADDR`
4. the environment variable `PYSPARK_ROCKETMQ_PROFILE`, the name of a profile
5. the default profile

Profiles stand in `~/.config/pyspark-rocketmq/config.toml` (below `XDG_CONFIG_HOME` if that is set). They have the
options of [`format("rocketmq")`](options.md), as `-o NAME=VALUE` does:

```toml
default = "dev"

[dev]
nameServer = "localhost:9876"

[prod]
nameServer = "ns-1:9876;ns-2:9876"
useTLS = true
credentialsFile = "/etc/rocketmq/reader.credentials"
```

Secrets come from `credentialsFile`, from a profile, from the environment variables %(secrets)s, or from you: `-o
secretKey=-` asks for it. The environment's are used together, and only if neither `-o` nor the profile has credentials.
A secret as a value of `-o` works, too, with a warning, because other users of the machine can read command lines.
Secrets are never shown. A name that is no option is refused.

## Output

On a terminal tables fit its width and have colours, unless `NO_COLOR` is set. In a file or pipe nothing is folded, and
there are no colours; a name of more than 500 characters and a remark of more than 2,000 are cut, which `--json` has
whole. A figure that cannot be known is `?`, with the reason below; it never counts as 0. A command that takes longer
than two seconds tells on a terminal what it waits for.

Pictures, light and dark, 80 and 200 columns wide: %(pictures)s.

`--json` prints one JSON document; commands that go on, such as `lag --watch`, print one per line. Arrays are never
null, and times are objects with `ms` and `iso`. `--schema` prints the JSON Schema of that document. An error is one
line on stderr, with `--json` an object with `code`, `what`, `where`, `advice` and `exit`; a warning is then an object
with `warning`. `pyspark-rocketmq explain CODE` says more. `--debug` adds log lines and the traceback.

## Exit codes

"""


PICTURES = ("lag", "topics-show", "doctor", "demo")
"""Names of commands in the pictures of docs/pictures."""


def render_page() -> str:
    """Return the whole page in Markdown."""
    secrets = ", ".join(f"`{name}`" for name in SECRET_VARIABLES.values())
    head = _HEAD % {"secrets": secrets, "pictures": "; ".join(map(_render_pictures, PICTURES))}
    codes = _table(("code", "means"), ((str(int(code)), meaning) for code, meaning in MEANINGS.items()))
    commands = [_render_command(find_command(name)) for name in SUMMARIES]
    return "\n".join([head + codes, _render_common(), *commands])


def _render_pictures(name: str) -> str:
    """Return links to the pictures of a command."""
    shown = ((columns, theme) for columns in (80, 200) for theme in ("light", "dark"))
    links = ", ".join(f"[{theme} {columns}](pictures/{name}-{columns}-{theme}.svg)" for columns, theme in shown)
    return f"`{name.replace('-', ' ')}` ({links})"


def _render_common() -> str:
    overview = _table(
        ("command", "does"),
        ((f"[`{name}`](#{_anchor(name)})", summary) for name, summary in SUMMARIES.items()),
    )
    connecting, every = _parameters(CONNECTION), _parameters(COMMON)
    return (
        f"## Commands\n\n{overview}\nEvery command has these parameters:\n\n{every}\n"
        f"Commands that talk to a cluster have these, too:\n\n{connecting}"
    )


def _render_command(command: Command[Any]) -> str:
    summary = SUMMARIES[command.name]
    parts = [f"### `{command.name}`\n", f"{summary[0].upper()}{summary[1:]}.\n"]
    if command.details:
        parts.append(f"{_escape(command.details)}\n")
    if command.parameters:
        parts.append(_parameters(command.parameters))
    if command.examples:
        parts.append("```sh\n" + "\n".join(command.examples) + "\n```\n")
    return "\n".join(parts)


def _parameters(parameters: Iterable[Parameter]) -> str:
    return _table(("parameter", "means"), ((_usage(each), _meaning(each)) for each in parameters))


def _usage(parameter: Parameter) -> str:
    names = ", ".join(parameter.spellings)
    if parameter.choices:
        return f"`{names} {'|'.join(parameter.choices)}`"
    return f"`{names} {parameter.metavar}`" if parameter.metavar else f"`{names}`"


def _meaning(parameter: Parameter) -> str:
    text = parameter.help
    if parameter.default is not None:
        text += f" (default: {parameter.default:g})" if parameter.kind is float else f" (default: {parameter.default})"
    return text + "; repeatable" if parameter.is_repeatable else text


def _anchor(name: str) -> str:
    return name.replace(" ", "-")


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *(tuple(map(_escape, row)) for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _escape(text: str) -> str:
    return text.replace("|", "\\|")
