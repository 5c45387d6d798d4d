"""Explain why a broker refused a request: wrong credentials, or a missing permission, with the line that grants it.

Access control 1.0 (brokers of 4.x) and 2.0 (since 5.3) tell the reason only in the remark of their response. Brokers
also refuse by the permissions of topics, groups and brokers, with or without access control.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Sequence
from typing import NamedTuple

from ...broker_errors import CredentialsRefused, NoPermission
from ...errors import RocketMQError
from .findings import describe

__all__ = ["Refusal", "explain_refusal"]


class Refusal(NamedTuple):
    """The reason of a refusal."""

    what: str
    advice: str
    is_of_credentials: bool = False
    """Whether the broker refuses the user as such, so that every request will fail."""
    resource: str = ""
    """The topic or group for which a permission is missing, as `topic:NAME` or `group:NAME`, if the broker told."""


class _Tool(NamedTuple):
    """The place for which `mqadmin` lines are written."""

    name_servers: Sequence[str]
    cluster: str

    def line(self, command: str, *words: str) -> str:
        """Return a command line of mqadmin for the whole cluster."""
        return shlex.join(["mqadmin", command, "-n", ";".join(self.name_servers), "-c", self.cluster, *words])


_CREDENTIALS: tuple[tuple[re.Pattern[str], str, str], ...] = (
    (
        re.compile(r"username cannot be null|No accessKey is configured"),
        "the broker serves signed requests only",
        "give accessKey and secretKey, or credentialsFile",
    ),
    (
        re.compile(r"User:.* (?:is )?not found|No acl config for|No PlainAccessResource for"),
        "the broker does not know the accessKey",
        "check accessKey, or create the user at this cluster",
    ),
    (
        re.compile(r"User:.* is disable"),
        "the user of the accessKey is disabled",
        "enable it: mqadmin updateUser",
    ),
    (
        re.compile(r"check signature failed", re.IGNORECASE),
        "the signature is wrong, so the secretKey is",
        "check secretKey, and that accessKey is its user",
    ),
)
"""Remarks about credentials, what they mean, and what to do."""


def explain_refusal(error: RocketMQError, action: str, name_servers: Sequence[str], cluster: str) -> Refusal | None:
    """Return why a broker refused a request, None if the error is no refusal.

    `action` is the permission that the request needs, as RocketMQ calls it: `Sub` for reading.
    """
    if not isinstance(error, NoPermission | CredentialsRefused):
        return None
    remark = error.remark or ""
    for pattern, what, advice in _CREDENTIALS:
        if pattern.search(remark):
            return Refusal(what, advice, is_of_credentials=True)
    tool = _Tool(name_servers, cluster)
    for pattern, explain in _PERMISSIONS:
        if found := pattern.search(remark):
            return explain(found, action, tool)
    return Refusal(describe(error), error.advice)


def _explain_acl_2(found: re.Match[str], action: str, tool: _Tool) -> Refusal:
    kind, name = found["kind"], found["name"]
    what = f"user {found['user']} lacks the permission {action} for {kind.lower()} {name}"
    words = ("-s", f"User:{found['user']}", "-r", f"{kind}:{name}", "-a", action, "-d", "Allow")
    return Refusal(what, f"grant it: {tool.line('createAcl', *words)}", resource=f"{kind.lower()}:{name}")


def _explain_acl_1(found: re.Match[str], action: str, tool: _Tool) -> Refusal:
    kind, name = found["kind"], found["name"]
    what = f"the accessKey lacks the permission {action.upper()} for {kind} {name}"
    words = ("-a", "ACCESS_KEY", "-s", "SECRET_KEY", "-t" if kind == "topic" else "-g", f"{name}={action.upper()}")
    advice = f"grant it, with all its other permissions in the same line: {tool.line('updateAclConfig', *words)}"
    return Refusal(what, advice, resource=f"{kind}:{name}")


def _explain_administrator(found: re.Match[str], action: str, tool: _Tool) -> Refusal:
    return Refusal("only an administrator may ask this", "use the accessKey of an administrator for it")


def _explain_topic(found: re.Match[str], action: str, tool: _Tool) -> Refusal:
    name = found["name"]
    advice = f"allow it: {tool.line('updateTopicPerm', '-t', name, '-p', '6')}"
    return Refusal(f"topic {name} may not be read", advice, resource=f"topic:{name}")


def _explain_group(found: re.Match[str], action: str, tool: _Tool) -> Refusal:
    name = found["name"]
    advice = f"allow it: {tool.line('updateSubGroup', '-g', name, '-s', 'true')}"
    return Refusal(f"group {name} may not consume", advice, resource=f"group:{name}")


def _explain_broker(found: re.Match[str], action: str, tool: _Tool) -> Refusal:
    advice = f"allow it: {tool.line('updateBrokerConfig', '-k', 'brokerPermission', '-v', '6')}"
    return Refusal("the broker may not be read", advice)


_PERMISSIONS: tuple[tuple[re.Pattern[str], Callable[[re.Match[str], str, _Tool], Refusal]], ...] = (
    (
        re.compile(r"User:(?P<user>\S+) has no permission to access (?P<kind>\w+):(?P<name>[^\s,]+) from"),
        _explain_acl_2,
    ),
    (re.compile(r"No (?:default )?permission for (?P<kind>topic|group):(?P<name>[^\s,]+)"), _explain_acl_1),
    (re.compile(r"Need admin permission"), _explain_administrator),
    (re.compile(r"the topic\[(?P<name>[^\]]+)\] pulling message is forbidden"), _explain_topic),
    (re.compile(r"subscription group no permission, (?P<name>\S+)"), _explain_group),
    (re.compile(r"the broker\[[^\]]+\] pulling message is forbidden"), _explain_broker),
)
"""Remarks about permissions, and the functions that explain them."""
