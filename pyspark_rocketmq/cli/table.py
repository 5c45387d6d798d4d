"""List every command with its summary; help, completion and the guide page are made from this table.

A module of `commands` defines the command or, for a name of several words, all commands that begin with the first word.
It is imported when one of its commands is used.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from .command import Command

__all__ = ["GROUPS", "SUMMARIES", "find_command"]

GROUPS = {
    "topics": "list topics, show one",
    "groups": "list consumer groups, show one",
    "offsets": "show, find, move, export and import positions of a group",
    "dlq": "list, read and replay dead letters",
}
"""The first words of commands of two words, with what these have in common."""

SUMMARIES = {
    "doctor": "check a cluster from here: servers, clocks, settings, a topic, a group",
    "topics list": "list topics: queues, permissions, brokers",
    "topics show": "show a topic: its queues, their offsets and store times",
    "routes": "show where a topic's queues are: brokers and addresses",
    "brokers": "list broker processes: address, release, uptime, disk",
    "groups list": "list consumer groups",
    "groups show": "show a group: settings, members, subscriptions, and whether they agree",
    "lag": "show how far a group is behind: messages, bytes, seconds, time to retention",
    "offsets show": "show the positions of a group",
    "offsets at": "print offsets of a topic at a time, as startingOffsets takes them",
    "offsets seek": "move a group to a time, to an end, or to where another group stands",
    "offsets export": "print the positions of a group as JSON",
    "offsets import": "move a group to the positions in a file",
    "peek": "show the first or last messages of a topic or queue",
    "tail": "follow a topic",
    "find": "find messages by key, id or time",
    "send": "send messages to a topic",
    "dlq list": "list dead letters: origin, id, cause, count",
    "dlq read": "show dead letters with their bodies",
    "dlq replay": "send dead letters back to the topics that they came from",
    "options": 'list the options of format("rocketmq"), or explain one',
    "explain": "explain an error code",
    "translate": "translate a job's options from other connectors to ours",
    "stub": "run the embedded broker",
    "demo": "show a stream of orders through brokers and Spark, live",
    "completion": "print the completion script of a shell",
}
"""The summary of every command, by name, in the order of help and guide."""


def find_command(name: str) -> Command[Any]:
    """Return the command of this name, one of `SUMMARIES`."""
    first, *rest = name.split()
    module = import_module(f".commands.{first}", __package__)
    commands: dict[str, Command[Any]] = {command.name: command for command in module.COMMANDS}
    return commands[" ".join([first, *rest])]
