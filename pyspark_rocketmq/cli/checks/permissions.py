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

__all__ = ["Refusal", "explain_failure", "explain_refusal"]


class Refusal(NamedTuple):
    """The reason of a refusal."""

    what: str
    advice: str
    is_of_credentials: bool = False
    """Whether the broker refuses the user as such, so that every request will fail."""
    resource: str = ""
    """The topic or group for which a permission is missing, as `topic:NAME` or `group:NAME`, if the broker told."""
    command: str | None = None
    """The line of mqadmin that the advice speaks of."""


class _Tool(NamedTuple):
    """The place for which `mqadmin` lines are written."""

    name_servers: Sequence[str]
    cluster: str
    address: str
    """The address of the broker that has refused."""

    def cluster_line(self, command: str, *words: str) -> str:
        """Return a command line of mqadmin for the whole cluster."""
        return self._line(command, "-c", self.cluster, *words)

    def broker_line(self, command: str, *words: str) -> str:
        """Return a command line of mqadmin for the broker alone; others may differ on purpose."""
        return self._line(command, "-b", self.address, *words)

    def _line(self, command: str, *words: str) -> str:
        return shlex.join(["mqadmin", command, "-n", ";".join(self.name_servers), *words])


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
    tool = _Tool(name_servers, cluster, error.where.get("address", "ADDRESS"))
    for pattern, explain in _PERMISSIONS:
        if found := pattern.search(remark):
            return explain(found, action, tool)
    return Refusal(describe(error), error.advice)


def explain_failure(error: RocketMQError, action: str, name_servers: Sequence[str], cluster: str) -> Refusal:
    """Return what an error says and advises; if it is a refusal, as `explain_refusal` does."""
    return explain_refusal(error, action, name_servers, cluster) or Refusal(describe(error), error.advice)


def _explain_acl_2(found: re.Match[str], action: str, tool: _Tool) -> Refusal:
    kind, name, user = found["kind"], found["name"], f"User:{found['user']}"
    resource = f"{kind.lower()}:{name}"
    if found["denied"]:
        what = f"a policy denies user {found['user']} the permission {action} for {kind.lower()} {name}"
        return Refusal(what, "see its policies", resource=resource, command=tool.cluster_line("getAcl", "-s", user))
    what = f"user {found['user']} lacks the permission {action} for {kind.lower()} {name}"
    line = tool.cluster_line("createAcl", "-s", user, "-r", f"{kind}:{name}", "-a", action, "-d", "Allow")
    # The policy of the same resource loses its actions.
    advice = "grant it, with the actions that the user has for it already (mqadmin getAcl) in -a, too"
    return Refusal(what, advice, resource=resource, command=line)


def _explain_acl_1(found: re.Match[str], action: str, tool: _Tool) -> Refusal:
    kind, name = found["kind"], found["name"]
    what = f"the accessKey lacks the permission {action.upper()} for {kind} {name}"
    entry = f"{name}={action.upper()} to its {kind}Perms"
    advice = (
        f"add {entry} in the file of accounts of each broker (conf/plain_acl.yml or conf/acl), which it reads "
        "again by itself; mqadmin updateAclConfig would take the account's other permissions away"
    )
    return Refusal(what, advice, resource=f"{kind}:{name}")


def _explain_administrator(found: re.Match[str], action: str, tool: _Tool) -> Refusal:
    return Refusal("only an administrator may ask this", "use the accessKey of an administrator for it")


def _explain_topic(found: re.Match[str], action: str, tool: _Tool) -> Refusal:
    name = found["name"]
    line = tool.broker_line("updateTopicPerm", "-t", name, "-p", "6")
    return Refusal(f"topic {name} may not be read", "allow it", resource=f"topic:{name}", command=line)


def _explain_group(found: re.Match[str], action: str, tool: _Tool) -> Refusal:
    name = found["name"]
    line = tool.broker_line("updateSubGroup", "-g", name, "-s", "true")
    advice = "allow it, with the group's other settings in the same line, which sets them to defaults else"
    return Refusal(f"group {name} may not consume", advice, resource=f"group:{name}", command=line)


def _explain_broker(found: re.Match[str], action: str, tool: _Tool) -> Refusal:
    line = tool.broker_line("updateBrokerConfig", "-k", "brokerPermission", "-v", "6")
    return Refusal("the broker may not be read", "allow it", command=line)


_PERMISSIONS: tuple[tuple[re.Pattern[str], Callable[[re.Match[str], str, _Tool], Refusal]], ...] = (
    (
        re.compile(
            r"User:(?P<user>\S+) has no permission to access (?P<kind>\w+):(?P<name>[^\s,]+) from"
            r"(?P<denied>.* the decision is deny)?"
        ),
        _explain_acl_2,
    ),
    (re.compile(r"No (?:default )?permission for (?P<kind>topic|group):(?P<name>[^\s,]+)"), _explain_acl_1),
    (re.compile(r"Need admin permission"), _explain_administrator),
    (re.compile(r"the topic\[(?P<name>[^\]]+)\] pulling message is forbidden"), _explain_topic),
    (re.compile(r"subscription group no permission, (?P<name>\S+)"), _explain_group),
    (re.compile(r"the broker\[[^\]]+\] pulling message is forbidden"), _explain_broker),
)
"""Remarks about permissions, and the functions that explain them."""
