"""Define the exit codes, and choose the one of an error."""

from __future__ import annotations

from enum import IntEnum

from ..errors import DataLossError, OptionError, RemoteProtocolError, RocketMQError, TransportError

__all__ = ["MEANINGS", "Exit", "NotFound", "WrongServer", "exit_of"]


class NotFound(RocketMQError):
    """A topic, group, message, option or code that a command was to show, and that does not exist."""

    code = "NOT_FOUND"


class WrongServer(RocketMQError):
    """A server that is no name server, at the address of one."""

    code = "WRONG_SERVER"


class Exit(IntEnum):
    """The exit codes of all commands."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    NOT_FOUND = 3
    NOT_PERMITTED = 4
    UNREACHABLE = 5
    NEEDS_APPLY = 6
    DATA_GONE = 7
    CHECK_FAILED = 8
    INTERRUPTED = 130
    OUTPUT_CLOSED = 141


MEANINGS = {
    Exit.DONE: "done",
    Exit.FAILED: "failed",
    Exit.USAGE: "wrong usage: a parameter, an option, the file of profiles",
    Exit.NOT_FOUND: "not found: topic, group, message",
    Exit.NOT_PERMITTED: "not permitted",
    Exit.UNREACHABLE: "no usable server at the address",
    Exit.NEEDS_APPLY: "nothing was changed; `--apply` does it",
    Exit.DATA_GONE: "messages are gone",
    Exit.CHECK_FAILED: "a check failed",
    Exit.INTERRUPTED: "interrupted (Ctrl-C)",
    Exit.OUTPUT_CLOSED: "the output was closed early, as by `head`",
}
"""The meaning of each exit code, for help and guide."""


def exit_of(error: RocketMQError) -> Exit:
    """Return the exit code for an error."""
    for codes, result in _BY_CODE.items():
        if error.code in codes:
            return result
    return next((result for cls, result in _BY_CLASS.items() if isinstance(error, cls)), Exit.FAILED)


_BY_CLASS = {
    OptionError: Exit.USAGE,
    DataLossError: Exit.DATA_GONE,
    TransportError: Exit.UNREACHABLE,
    RemoteProtocolError: Exit.UNREACHABLE,
}
_BY_CODE = {
    frozenset(
        {
            "NOT_FOUND",
            "TOPIC_NOT_FOUND",
            "BROKER_TOPIC_NOT_EXIST",
            "BROKER_SUBSCRIPTION_GROUP_NOT_EXIST",
            "BROKER_QUERY_NOT_FOUND",
            "BROKER_NO_MESSAGE",
            "BROKER_GROUP_WITHOUT_MEMBERS",
            "BROKER_CONSUMER_NOT_ONLINE",
        }
    ): Exit.NOT_FOUND,
    frozenset(
        {
            "ADDRESS_NOT_ALLOWED",
            "BROKER_NO_PERMISSION",
            "BROKER_CREDENTIALS_REFUSED",
            "BROKER_USER_NOT_EXIST",
            "BROKER_POLICY_NOT_EXIST",
        }
    ): Exit.NOT_PERMITTED,
    frozenset({"NO_BROKER_AVAILABLE", "QUEUE_MOVED", "TOPIC_UNCONFIRMED", "WRONG_SERVER"}): Exit.UNREACHABLE,
    frozenset({"BROKER_PULL_OFFSET_MOVED"}): Exit.DATA_GONE,
}
