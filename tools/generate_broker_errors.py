"""Write pyspark_rocketmq/broker_errors.py: one error class for each response code, with its flags and its advice.

With `--check` nothing is written; the exit status is 1 if the file is out of date.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from pyspark_rocketmq.wire.codes import ResponseCode  # noqa: E402  # the script runs from a plain checkout
from tools.generated import keep  # noqa: E402

TARGET = ROOT / "pyspark_rocketmq" / "broker_errors.py"


class Leaf(NamedTuple):
    """The meaning of a response code to a client: docstring and advice of its error class, and whether to retry."""

    meaning: str
    advice: str = ""
    retriable: bool = False
    refresh_routes: bool = False


R = ResponseCode
LEAVES = {
    R.SYSTEM_ERROR: Leaf("The server failed; only the remark says why.", "see the server's log", retriable=True),
    R.SYSTEM_BUSY: Leaf("The server is overloaded.", "lower the load, or add brokers", retriable=True),
    R.REQUEST_CODE_NOT_SUPPORTED: Leaf(
        "The server does not know this request.", "the server is too old for it, or is of another kind"
    ),
    R.TRANSACTION_FAILED: Leaf("The transaction failed."),
    R.FLUSH_DISK_TIMEOUT: Leaf("The message is stored, but not yet known to be on disk."),
    R.SLAVE_NOT_AVAILABLE: Leaf(
        "The message is stored, but the broker has no replica now.", retriable=True, refresh_routes=True
    ),
    R.FLUSH_SLAVE_TIMEOUT: Leaf("The message is stored, but not yet known to be on the replica."),
    R.MESSAGE_ILLEGAL: Leaf(
        "The broker does not accept such a message.", "shorten its body, properties, topic name or delay"
    ),
    R.SERVICE_NOT_AVAILABLE: Leaf(
        "The broker takes no messages now.", "free its disk, or send to a master", retriable=True, refresh_routes=True
    ),
    R.VERSION_NOT_SUPPORTED: Leaf("The server does not support this client's version."),
    R.NO_PERMISSION: Leaf(
        "The request is not allowed.",
        "check accessKey and secretKey, and the permissions of user, topic, group and broker",
    ),
    R.TOPIC_NOT_EXIST: Leaf(
        "The topic does not exist at the server.",
        "create the topic, or check its name",
        retriable=True,
        refresh_routes=True,
    ),
    R.PULL_NOT_FOUND: Leaf("There is no new message.", retriable=True),
    R.PULL_RETRY_IMMEDIATELY: Leaf(
        "The pull found no message: none matched the filter, or the messages are being deleted.", retriable=True
    ),
    R.PULL_OFFSET_MOVED: Leaf("The offset lies outside the queue, or was reset."),
    R.QUERY_NOT_FOUND: Leaf("The message, position or value that the request asks for does not exist."),
    R.SUBSCRIPTION_PARSE_FAILED: Leaf("The filter expression cannot be read.", "correct the expression"),
    R.SUBSCRIPTION_NOT_EXIST: Leaf(
        "The broker does not know the group's subscription.",
        "heartbeat to this broker first, or send the subscription with each pull",
        retriable=True,
    ),
    R.SUBSCRIPTION_NOT_LATEST: Leaf(
        "The broker knows an older subscription of the group.", "heartbeat to this broker again", retriable=True
    ),
    R.SUBSCRIPTION_GROUP_NOT_EXIST: Leaf(
        "The consumer group does not exist at the broker.", "create the group on every master, or allow auto-creation"
    ),
    R.FILTER_DATA_NOT_EXIST: Leaf(
        "The broker does not know the group's SQL filter.", "heartbeat to this broker first", retriable=True
    ),
    R.FILTER_DATA_NOT_LATEST: Leaf(
        "The broker knows an older SQL filter of the group.", "heartbeat to this broker again", retriable=True
    ),
    R.INVALID_PARAMETER: Leaf(
        "A field of the request has a value the broker refuses.",
        "check topic name and queue number; the topic may have fewer queues now",
        refresh_routes=True,
    ),
    R.NO_BUYER_ID: Leaf(
        "The message lacks the buyer id by which RocketMQ chooses its unit (a part of the deployment)."
    ),
    R.NOT_IN_CURRENT_UNIT: Leaf("The message belongs to another unit (a part of the deployment)."),
    R.CONSUMER_NOT_ONLINE: Leaf("The group has no live member at the broker.", "start a consumer of the group"),
    R.CONSUME_MSG_TIMEOUT: Leaf("The member did not finish the message in time."),
    R.NO_MESSAGE: Leaf("There is no such message."),
    R.POLLING_FULL: Leaf("Too many requests are already waiting at the broker.", retriable=True),
    R.POLLING_TIMEOUT: Leaf("No message arrived while the request waited.", retriable=True),
    R.BROKER_NOT_EXIST: Leaf(
        "The server does not know the broker that the request names.", retriable=True, refresh_routes=True
    ),
    R.FLOW_CONTROL: Leaf("The broker asks for fewer requests.", "lower the rate", retriable=True),
    R.NOT_LEADER_FOR_QUEUE: Leaf(
        "Another broker leads the queue.", "the topic may be static, which is not supported", True, True
    ),
    R.ILLEGAL_OPERATION: Leaf("The broker does not allow the operation now, for example because it comes too late."),
    R.GO_AWAY: Leaf("The server is shutting down.", "", retriable=True, refresh_routes=True),
    R.USER_NOT_EXIST: Leaf("There is no such user."),
    R.POLICY_NOT_EXIST: Leaf("There is no such policy."),
}

# Older servers also use code 1 for permanent refusals; only the remark distinguishes them from temporary failures.
REMARKS = {
    "CredentialsRefused": (
        ("AclException",),
        "Access control refused the request (code 1 of 4.x servers).",
        "check accessKey and secretKey, and what they are allowed",
    ),
    "GroupWithoutMembers": (
        ("no consumer for this group", "the producer group["),
        "The group has no live member at the broker.",
        "",
    ),
    "RequestRefused": (
        (
            "is illegal",
            "illegal characters",
            "conflict with system topic",
            "NullPointerException",
            "enablePropertyFilter",
            "does not support consumer to filter message by SQL92",
            "message by the offset",
            "message by offset",
        ),
        "The broker will not accept the request however often it is sent.",
        "correct the request",
    ),
}

# Remarks of code 1 that say what another code says: with these, servers refuse batches that are too large.
OTHER_CODES = {R.MESSAGE_ILLEGAL: ("message body size exceeded", "message size exceeded")}

HEAD = '''"""Generated by tools/generate_broker_errors.py, do not edit. One error class per response code.

Servers also use code 1 for some permanent refusals; the remark chooses a class of their own, or that of another code.
"""

from __future__ import annotations

from typing import Unpack

from .errors import BrokerError, Where
'''

TAIL = '''

def error_for(code: int, remark: str | None, **where: Unpack[Where]) -> BrokerError:
    """Return the error of a response code, for code 1 by its remark; a plain `BrokerError` for an unknown code."""
    leaf = _by_remark(remark or "") if code == BrokerSystemError.response_code else LEAVES.get(code, BrokerError)
    return leaf(remark, response_code=code, advice=_ADVICE.get(leaf, ""), **where)


def _by_remark(remark: str) -> type[BrokerError]:
    return next((leaf for text, leaf in _REMARKS if text in remark), BrokerSystemError)
'''


def class_name(code: ResponseCode) -> str:
    """Return the name of a code's error class: `TopicNotExist` for `TOPIC_NOT_EXIST`.

    `SystemError`, the name of a Python class, becomes `BrokerSystemError`.
    """
    name = "".join(part.capitalize() for part in code.name.split("_"))
    return f"Broker{name}" if name == "SystemError" else name


def render() -> str:
    """Return the source text of the whole module."""
    remarks = [(text, name) for name, (texts, _, _) in REMARKS.items() for text in texts]
    remarks += [(text, class_name(code)) for code, texts in OTHER_CODES.items() for text in texts]
    advice = [(class_name(code), leaf.advice) for code, leaf in LEAVES.items() if leaf.advice]
    advice += [(name, text) for name, (_, _, text) in REMARKS.items() if text]
    return "".join(
        (
            HEAD,
            *(render_leaf(code, LEAVES[code]) for code in ResponseCode if code is not R.SUCCESS),
            *(render_remark(name, meaning) for name, (_, meaning, _) in REMARKS.items()),
            "\n\nLEAVES: dict[int, type[BrokerError]] = {\n",
            *(f"    {code.value}: {class_name(code)},\n" for code in LEAVES),
            "}\n_REMARKS: tuple[tuple[str, type[BrokerError]], ...] = (\n",
            *(f'    ("{text}", {name}),\n' for text, name in remarks),
            ")\n_ADVICE: dict[type[BrokerError], str] = {\n",
            *(f'    {name}: "{text}",\n' for name, text in advice),
            "}\n",
            TAIL,
        )
    )


def render_leaf(code: ResponseCode, leaf: Leaf) -> str:
    """Return the source text of the error class of one response code."""
    lines = [
        f'"""{leaf.meaning}"""',
        "",
        f'code = "BROKER_{code.name}"',
        f"response_code = {code.value}",
        *(f"{flag} = True" for flag in ("retriable", "refresh_routes") if getattr(leaf, flag)),
    ]
    return render_class(class_name(code), "BrokerError", lines)


def render_remark(name: str, meaning: str) -> str:
    """Return the source text of an error class for code 1, chosen by the remark; it is never retried."""
    code = "".join(f"_{letter}" if letter.isupper() else letter.upper() for letter in name)
    lines = [f'"""{meaning}"""', "", f'code = "BROKER{code}"', "retriable = False"]
    return render_class(name, "BrokerSystemError", lines + ["refresh_routes = True"] * (name == "RequestRefused"))


def render_class(name: str, base: str, lines: list[str]) -> str:
    """Return the source text of a class, after two empty lines."""
    return "\n".join([f"\n\nclass {name}({base}):", *(line and f"    {line}" for line in lines), ""])


if __name__ == "__main__":
    sys.exit(keep(TARGET, render()))
