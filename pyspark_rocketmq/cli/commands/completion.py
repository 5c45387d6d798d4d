"""Print the completion script of a shell."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..command import Command, Parameter
from ..views import Text, View

if TYPE_CHECKING:
    from ..session import Session

__all__ = ["COMMANDS"]


@dataclass(frozen=True, slots=True)
class Script:
    """The completion script of a shell."""

    shell: str
    script: str


def _run(session: Session, shell: str) -> Script:
    from click.shell_completion import get_completion_class

    from ..parser import build_parser
    from ..program import COMPLETE_VARIABLE, PROGRAM

    found = get_completion_class(shell)
    assert found is not None, "the parser accepts only known shells"
    return Script(shell, found(build_parser(), {}, PROGRAM, COMPLETE_VARIABLE).source())


def _show(script: Script) -> list[View]:
    return [Text(script.script)]


COMMANDS = (
    Command(
        "completion",
        Script,
        _run,
        _show,
        parameters=(Parameter("SHELL", "shell", choices=("bash", "zsh", "fish"), is_required=True),),
        details='bash: add eval "$(pyspark-rocketmq completion bash)" to ~/.bashrc, for zsh accordingly to ~/.zshrc; '
        "fish: pyspark-rocketmq completion fish > ~/.config/fish/completions/pyspark-rocketmq.fish",
        examples=("pyspark-rocketmq completion bash",),
        connects=False,
    ),
)
