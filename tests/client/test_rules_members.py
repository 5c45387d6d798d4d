"""Each rule of membership holds: all members sort alike, and brokers learn of each change by a newer version."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pyspark_rocketmq.client.membership import Membership
from pyspark_rocketmq.client.settings import ConsumerSettings
from pyspark_rocketmq.pull.settings import Subscription
from pyspark_rocketmq.wire import fastjson
from pyspark_rocketmq.wire.codes import RequestCode
from tests.client.fixtures import GROUP, QUICK, TOPIC, Group, Log, ManualClock, queue, until
from tests.client.timeline import Timeline


def _membership(clock: ManualClock, *members: str) -> Membership:
    """Return the membership of a client whose brokers list these members."""
    groups = SimpleNamespace(fetch_members=lambda *_: members)
    settings = ConsumerSettings(group=GROUP, subscriptions=TOPIC)
    return Membership(cast(Any, SimpleNamespace(groups=groups)), settings, "me", clock)


def test_members_are_sorted_as_java_sorts_them() -> None:
    """Members come in the order of their UTF-16 units, not in that of the broker's list."""
    wanted = ["10.0.0.10@1", "10.0.0.2@1", "Z", "_", "a", "\U00010000", "\uffee"]

    assert _membership(ManualClock(), *reversed(wanted)).members(TOPIC) == wanted
    assert _membership(ManualClock(), *wanted[3:], *wanted[:3]).members(TOPIC) == wanted


def test_a_change_always_gets_a_newer_version() -> None:
    """Each change has the time as its version, but one above the last version if the clock stood or was set back."""
    clock = ManualClock()
    membership = _membership(clock)

    def version() -> int:
        found = membership.subscription(TOPIC)
        assert found
        return found.sub_version

    first = version()
    assert first == clock.wall_ms()
    membership.touch(TOPIC)
    assert version() == first + 1
    clock.advance(-60.0)
    membership.subscribe(TOPIC, Subscription("paid"))
    assert version() == first + 2
    clock.advance(120.0)
    membership.touch(TOPIC)
    assert version() == clock.wall_ms() == first + 60_000


def _versions(timeline: Timeline) -> list[int]:
    """Return the versions of the topic's subscription in all heartbeats, in the order of their arrival."""
    versions = []
    for beat in timeline.requests(RequestCode.HEART_BEAT):
        for data in cast(Any, fastjson.parse(beat.body.decode()))["consumerDataSet"]:
            versions += [int(each["subVersion"]) for each in data["subscriptionDataSet"] if each["topic"] == TOPIC]
    return versions


@pytest.mark.parametrize("make", [Group.concurrent, Group.orderly], ids=["concurrent", "orderly"])
def test_brokers_learn_of_changed_queues_by_a_newer_version(make: Callable[..., Any], group: Group) -> None:
    """When a member has taken queues, a heartbeat has a newer version before the first pull, which carries it, too."""
    timeline, log = Timeline(group), Log()
    consumer = make(group, log, clock=timeline.clock, rhythm=replace(QUICK, heartbeat_s=3600.0))
    timeline.join(consumer)
    until(lambda: queue(0) in consumer.queues)
    timeline.settle()
    versions = _versions(timeline)
    assert versions == sorted(versions) and versions[0] < versions[-1]
    assert timeline.requests(RequestCode.PULL_MESSAGE) == []

    timeline.pass_s(1.0, 0.125)
    until(lambda: timeline.requests(RequestCode.PULL_MESSAGE, topic=TOPIC))
    pulled = {int(pull.fields["subVersion"]) for pull in timeline.requests(RequestCode.PULL_MESSAGE, topic=TOPIC)}
    assert pulled == {versions[-1]}


def test_brokers_and_pulls_learn_of_a_new_filter_by_a_newer_version(make_group: Callable[..., Group]) -> None:
    """After `subscribe` with another filter, a heartbeat and the next pull have a newer version."""
    group = make_group(queues=1)
    timeline, log = Timeline(group), Log()
    consumer = group.concurrent(log, clock=timeline.clock, rhythm=replace(QUICK, heartbeat_s=3600.0))
    timeline.join(consumer)
    timeline.pass_s(1.0, 0.125)
    before = _versions(timeline)[-1]
    consumer.subscribe(TOPIC, "paid")
    timeline.settle()
    assert _versions(timeline)[-1] > before

    group.put("a", tags="paid")
    log.wait_for(1)
    until(lambda: timeline.requests(RequestCode.PULL_MESSAGE, topic=TOPIC, subVersion=_versions(timeline)[-1]))
