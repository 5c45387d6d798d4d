"""Define the releases that the stub emulates.

Code whose behaviour differs between releases checks `is_5x`. Differences that consist of a number or a text are defined
here.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark_rocketmq.errors import OptionError
from pyspark_rocketmq.wire.codes import RequestCode

from .admin_codes import AdminCode


@dataclass(frozen=True, slots=True)
class Release:
    """One emulated release of RocketMQ."""

    name: str
    version: int
    """Version that responses carry: the ordinal of the release in Java's `MQVersion`."""
    is_5x: bool
    help_page: str
    """Address of the help page that some refusals mention."""
    unknown_codes: frozenset[RequestCode | AdminCode] = frozenset()
    """Request codes that the stub can handle, but this release does not know."""


RELEASES = {
    release.name: release
    for release in (
        Release("5.3.3", 479, True, "https://rocketmq.apache.org/docs/bestPractice/06FAQ"),
        Release(
            "4.9.7",
            407,
            False,
            "http://rocketmq.apache.org/docs/faq/",
            frozenset(
                {
                    RequestCode.QUERY_TOPICS_BY_CONSUMER,
                    RequestCode.GET_TOPIC_CONFIG,
                    RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG,
                    RequestCode.LITE_PULL_MESSAGE,
                    RequestCode.RECALL_MESSAGE,
                    RequestCode.UPDATE_AND_CREATE_TOPIC_LIST,
                    RequestCode.QUERY_ASSIGNMENT,
                    RequestCode.SET_MESSAGE_REQUEST_MODE,
                    AdminCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST,
                    AdminCode.GET_BROKER_HA_STATUS,
                    AdminCode.RESET_MASTER_FLUSH_OFFSET,
                    AdminCode.UPDATE_COLD_DATA_FLOW_CTR_CONFIG,
                    AdminCode.REMOVE_COLD_DATA_FLOW_CTR_CONFIG,
                    AdminCode.GET_COLD_DATA_FLOW_CTR_INFO,
                    AdminCode.SET_COMMITLOG_READ_MODE,
                    AdminCode.POP_ROLLBACK,
                }
            ),
        ),
    )
}


def find_release(name: str) -> Release:
    """Return the release with this name; raise OptionError if the stub does not emulate it."""
    if name not in RELEASES:
        raise OptionError(
            "emulate", name, "the stub does not emulate this release", advice=f"give {' or '.join(RELEASES)}"
        )
    return RELEASES[name]
