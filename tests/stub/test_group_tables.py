"""Tests of `broker_stub.group_tables`."""

from __future__ import annotations

import pytest

from broker_stub.clock import Clock
from broker_stub.filters import FilterTable
from broker_stub.group_tables import (
    BROADCASTING,
    EXPIRY_MS,
    SCAN_MS,
    ConsumerGroups,
    GroupConfigs,
    Member,
    ProducerGroups,
)
from broker_stub.releases import find_release
from pyspark_rocketmq.wire.bodies import ConsumerData, GroupRetryPolicy, SubscriptionGroupConfig, build_subscription
from pyspark_rocketmq.wire.codes import LanguageCode, RequestCode
from tests.stub.recording_channel import RecordingChannel

NOTICE = [RequestCode.NOTIFY_CONSUMER_IDS_CHANGED]


def consumer(
    *topics: str, group: str = "g", model: str = "CLUSTERING", tags: str = "*", version: int = 1
) -> ConsumerData:
    """Return the heartbeat data of one consumer group that subscribes to a topic."""
    return ConsumerData(
        group_name=group,
        consume_type="CONSUME_PASSIVELY",
        message_model=model,
        consume_from_where="CONSUME_FROM_LAST_OFFSET",
        subscription_data_set=tuple(build_subscription(topic, tags, sub_version=version) for topic in topics),
    )


class Client:
    """A client id on a connection of its own."""

    def __init__(self, groups: ConsumerGroups, client_id: str) -> None:
        self.groups = groups
        self.channel = RecordingChannel()
        self.member = Member(self.channel, client_id, LanguageCode.JAVA, 479)

    def beat(self, data: ConsumerData, *, without_subscriptions: bool = False) -> None:
        """Send a heartbeat of this client."""
        self.groups.heartbeat(self.member, data, without_subscriptions=without_subscriptions)

    def notices(self) -> list[RequestCode]:
        """Return the codes of the notifications that came since the last call."""
        return self.channel.take_oneway_codes()


@pytest.fixture
def clock() -> Clock:
    """Return a clock that only `advance` moves."""
    return Clock(frozen=True)


@pytest.fixture
def configs() -> GroupConfigs:
    """Return the group configurations of a new 5.3.3 broker."""
    return GroupConfigs(find_release("5.3.3"))


@pytest.fixture
def groups(clock: Clock, configs: GroupConfigs) -> ConsumerGroups:
    """Return the empty consumer groups of a new broker."""
    return ConsumerGroups(clock, configs, FilterTable())


# --- configuration ---------------------------------------------------------------------------------------------------


def test_a_group_comes_into_being_when_asked_for(configs: GroupConfigs) -> None:
    """If auto-creation is on, a query for a legal name creates the group with default settings."""
    assert configs.find("new") == SubscriptionGroupConfig(
        group_name="new",
        consume_message_orderly=False,
        group_retry_policy=GroupRetryPolicy(type="CUSTOMIZED"),
        group_sys_flag=0,
        consume_timeout_minute=15,
        attributes={},
    )
    assert configs.change_count == 1


@pytest.mark.parametrize("name", ["", "no blanks", "dot.ted", "x" * 256])
def test_illegal_names_are_no_groups(configs: GroupConfigs, name: str) -> None:
    """A query for an illegal name creates no group at 5.x; 4.9.7 does not check names."""
    assert configs.find(name) is None
    assert GroupConfigs(find_release("4.9.7")).find(name) is not None


def test_without_auto_creation_only_system_groups_appear() -> None:
    """If auto-creation is off, only system groups are created by queries; others need an administrator."""
    configs = GroupConfigs(find_release("5.3.3"), auto_create=False)
    assert configs.find("mine") is None
    assert configs.find("CID_RMQ_SYS_whatever") is not None
    configs.update(SubscriptionGroupConfig(group_name="mine"))
    assert configs.find("mine") is not None
    configs.delete("mine")
    assert configs.find("mine") is None


def test_4_9_7_knows_fewer_members() -> None:
    """Fields of a configuration that 4.9.7 does not have are dropped."""
    configs = GroupConfigs(find_release("4.9.7"))
    configs.update(SubscriptionGroupConfig(group_name="g", consume_timeout_minute=5, attributes={}))
    assert configs.find("g") == SubscriptionGroupConfig(group_name="g")


# --- consumers -------------------------------------------------------------------------------------------------------


def test_joining_notifies_every_member_the_new_one_too(groups: ConsumerGroups) -> None:
    """A new member's first heartbeat notifies all members including itself; a repeated one notifies none."""
    one, two = Client(groups, "c1"), Client(groups, "c2")
    one.beat(consumer("T"))
    assert one.notices() == NOTICE
    one.beat(consumer("T"))
    assert one.notices() == []
    two.beat(consumer("T"))
    assert one.notices() == NOTICE and two.notices() == NOTICE


def test_an_id_connected_twice_is_listed_twice(groups: ConsumerGroups) -> None:
    """If a client id has two connections, it is listed twice, because each connection is a member."""
    Client(groups, "c1").beat(consumer("T"))
    Client(groups, "c1").beat(consumer("T"))
    assert groups.table["g"].client_ids == ["c1", "c1"]


def test_the_latest_heartbeat_rules_the_topics(groups: ConsumerGroups) -> None:
    """If members subscribe to different topics, the last heartbeat's topics apply, and each change is notified."""
    one, two = Client(groups, "c1"), Client(groups, "c2")
    one.beat(consumer("T"))
    two.beat(consumer("U"))
    assert groups.topics_of("g") == ["U"]
    one.notices()
    one.beat(consumer("T"))
    assert groups.topics_of("g") == ["T"]
    assert one.notices() == NOTICE


def test_the_higher_version_rules_a_topics_tags(groups: ConsumerGroups) -> None:
    """A subscription with a newer version replaces the tags without notification; an older or equal one does not."""
    one = Client(groups, "c1")
    one.beat(consumer("T", tags="A", version=5))
    one.notices()
    for tags, version, expected in (("B", 5, "A"), ("C", 4, "A"), ("D", 6, "D")):
        one.beat(consumer("T", tags=tags, version=version))
        assert groups.table["g"].subscriptions["T"].sub_string == expected
    assert one.notices() == []


def test_subscriptions_left_out_stay(groups: ConsumerGroups) -> None:
    """A heartbeat sent `without_subscriptions` keeps the group's topics; one with an empty list drops them."""
    one = Client(groups, "c1")
    one.beat(consumer("T"))
    one.notices()
    one.beat(consumer(), without_subscriptions=True)
    assert groups.topics_of("g") == ["T"] and one.notices() == []
    one.beat(consumer())
    assert groups.topics_of("g") == [] and one.notices() == NOTICE


def test_leaving_and_closing_notify_the_rest(groups: ConsumerGroups) -> None:
    """If a member leaves or its connection closes, the others are notified; an empty group disappears."""
    clients = [Client(groups, f"c{number}") for number in range(3)]
    for client in clients:
        client.beat(consumer("T"))
    for client in clients:
        client.notices()
    groups.leave("g", clients[0].channel)
    assert [client.notices() for client in clients] == [[], NOTICE, NOTICE]
    groups.channel_closed(clients[1].channel)
    assert [client.notices() for client in clients] == [[], [], NOTICE]
    groups.leave("g", clients[2].channel)
    assert groups.table == {}


def test_a_group_may_refuse_notifications_but_for_closed_connections(
    groups: ConsumerGroups, configs: GroupConfigs
) -> None:
    """If a group's configuration forbids notifications, only closed connections are still notified."""
    configs.update(SubscriptionGroupConfig(group_name="g", notify_consumer_ids_changed_enable=False))
    one, two = Client(groups, "c1"), Client(groups, "c2")
    one.beat(consumer("T"))
    two.beat(consumer("T"))
    assert one.notices() == []
    groups.channel_closed(two.channel)
    assert one.notices() == NOTICE


def test_broadcasting_members_are_not_notified(groups: ConsumerGroups) -> None:
    """If a group broadcasts, its members are not notified, because they share no queues."""
    one, two = Client(groups, "c1"), Client(groups, "c2")
    one.beat(consumer("T", model=BROADCASTING))
    two.beat(consumer("T", model=BROADCASTING))
    groups.channel_closed(two.channel)
    assert one.notices() == []


def test_a_silent_member_is_dropped_and_closed(clock: Clock, groups: ConsumerGroups) -> None:
    """Two minutes after its last heartbeat a member is dropped at the next scan and its connection closed."""
    one, two = Client(groups, "c1"), Client(groups, "c2")
    one.beat(consumer("T"))
    two.beat(consumer("T"))
    one.notices()
    for _ in range(EXPIRY_MS // SCAN_MS + 1):
        assert groups.table["g"].client_ids == ["c1", "c2"]
        clock.advance(SCAN_MS)
        one.beat(consumer("T"))
    assert groups.table["g"].client_ids == ["c1"]
    assert (one.channel.closed, two.channel.closed) == (False, True)
    assert one.notices() == []


def test_only_the_silent_group_of_a_connection_expires(clock: Clock, groups: ConsumerGroups) -> None:
    """If a connection renews only one of two groups, it loses the second group, and is closed nevertheless."""
    one = Client(groups, "c1")
    one.beat(consumer("T", group="old"))
    for _ in range(EXPIRY_MS // SCAN_MS + 1):
        clock.advance(SCAN_MS)
        one.beat(consumer("T", group="kept"))
    assert list(groups.table) == ["kept"]
    assert one.channel.closed


def test_there_is_no_scan_without_members(clock: Clock, groups: ConsumerGroups) -> None:
    """A broker without members has no timer for the expiry scan."""
    one = Client(groups, "c1")
    one.beat(consumer("T"))
    groups.leave("g", one.channel)
    clock.advance(SCAN_MS)
    assert clock.wait_ms() is None


def test_fingerprints_show_a_change_of_subscription(groups: ConsumerGroups) -> None:
    """A fingerprint counts as a change if a different one was stored before; the first one does not."""
    assert [groups.exchange_fingerprint("g", mark) for mark in (1, 1, 2, 2)] == [False, False, True, False]


# --- producers -------------------------------------------------------------------------------------------------------


def test_producers_are_picked_in_turn(clock: Clock) -> None:
    """`pick` returns a group's connections in turn, and None for a group without connections."""
    producers = ProducerGroups(clock)
    channels = [RecordingChannel() for _ in range(3)]
    for number, channel in enumerate(channels):
        producers.heartbeat(Member(channel, f"p{number}", LanguageCode.JAVA, 479), "g")
    picked = [producers.pick("g") for _ in range(6)]
    assert all(picked.count(channel) == 2 for channel in channels)
    assert producers.pick("nobody") is None


def test_a_client_is_found_until_it_leaves(clock: Clock) -> None:
    """A producer's connection is found by client id until the producer unregisters or disconnects."""
    producers = ProducerGroups(clock)
    channel = RecordingChannel()
    producers.heartbeat(Member(channel, "p", LanguageCode.JAVA, 479), "g")
    assert producers.find_client("p") is channel
    producers.leave("g", "p", channel)
    assert producers.find_client("p") is None and producers.table == {}


def test_a_silent_producer_is_dropped_and_closed(clock: Clock) -> None:
    """A producer without heartbeats is dropped and its connection closed, as for consumers."""
    producers = ProducerGroups(clock)
    channel = RecordingChannel()
    producers.heartbeat(Member(channel, "p", LanguageCode.JAVA, 479), "g")
    clock.advance(EXPIRY_MS + SCAN_MS)
    assert producers.table == {} and channel.closed
