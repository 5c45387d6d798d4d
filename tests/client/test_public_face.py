"""The public names of `pyspark_rocketmq.client`, and the values that callers may give."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pyspark_rocketmq import client
from pyspark_rocketmq.allocation.choice import StrategyName
from pyspark_rocketmq.client import (
    SUCCESS,
    ClusterSettings,
    ConsumeFrom,
    ConsumerSettings,
    DeadLetters,
    Message,
    MessageModel,
    Producer,
    ProducerSettings,
    PullConsumer,
    PullConsumerSettings,
    PushConsumer,
    Rhythm,
    Subscription,
)
from pyspark_rocketmq.errors import OptionError
from tests.client.fixtures import GROUP, QUICK, TOPIC, Group, Log, until

HEAVY = {"pyspark", "pyarrow", "numpy", "pandas", "grpc"}
NOWHERE = "localhost:1"


def done(_: object) -> Any:
    """Return SUCCESS, as a listener does."""
    return SUCCESS


SETTINGS = ConsumerSettings(group="g", subscriptions="orders")


# --- names -----------------------------------------------------------------------------------------------------------


def test_every_public_name_can_be_imported() -> None:
    """Each name in `__all__` can be imported and is listed by `dir`."""
    assert [name for name in client.__all__ if not hasattr(client, name)] == []
    assert set(client.__all__) <= set(dir(client))
    with pytest.raises(AttributeError, match="Nothing"):
        client.Nothing  # noqa: B018


def test_editors_see_every_public_name() -> None:
    """The imports for type checkers and editors have the same names as `__all__`."""
    tree = ast.parse(Path(client.__file__).read_text())
    checked = next(node for node in tree.body if isinstance(node, ast.If))
    seen = {alias.name for node in checked.body if isinstance(node, ast.ImportFrom) for alias in node.names}

    assert seen == set(client.__all__)


@pytest.mark.parametrize(
    ("code", "heavy"),
    [
        ("import pyspark_rocketmq.client", HEAVY | {"sortedcontainers"}),
        ("from pyspark_rocketmq.client import *", HEAVY),
    ],
)
def test_importing_the_client_imports_neither_spark_nor_arrow(code: str, heavy: set[str]) -> None:
    """Importing all public names loads neither Spark nor Arrow; importing the package alone loads even less."""
    run = [sys.executable, "-c", f"{code}\nimport sys; print(*sys.modules)"]
    loaded = subprocess.run(run, capture_output=True, text=True, timeout=60, check=True)

    assert heavy & set(loaded.stdout.split()) == set()


# --- accepted values -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "subscriptions",
    ["orders", ["orders"], {"orders": "*"}, {"orders": Subscription()}],
    ids=["topic", "topics", "expressions", "subscriptions"],
)
def test_subscriptions_may_be_text(subscriptions: Any) -> None:
    """Subscriptions may be given as a topic, several topics, tag expressions by topic, or `Subscription` objects."""
    settings = ConsumerSettings(group="g", subscriptions=subscriptions)

    assert settings.wanted == {"orders": Subscription("*")}
    assert replace(settings, group="h").wanted == settings.wanted


def test_choices_may_be_text() -> None:
    """Members of an enum may be given by name or value in any case, a strategy by its name."""
    settings = ConsumerSettings(
        group="g",
        subscriptions="orders",
        message_model="broadcasting",
        consume_from="CONSUME_FROM_FIRST_OFFSET",
        allocation="avg_by_circle",
    )

    assert (settings.message_model, settings.consume_from) == (MessageModel.BROADCASTING, ConsumeFrom.FIRST_OFFSET)
    assert settings.allocation == replace(SETTINGS.allocation, strategy=StrategyName("AVG_BY_CIRCLE"))  # type: ignore[type-var]
    assert ProducerSettings(group="g", compression="lz4").compression == client.Compression.LZ4


@pytest.mark.parametrize("wrap", [str, ClusterSettings], ids=["text", "settings with text"])
def test_addresses_may_be_text(group: Group, wrap: Callable[[str], Any]) -> None:
    """Every public class accepts the name servers' addresses as text."""
    cluster, log = wrap(group.stub.name_server), Log()
    with Producer(cluster, ProducerSettings(group="shop")) as producer:
        producer.send(Message(TOPIC, b"a"))
    settings = ConsumerSettings(group=GROUP, subscriptions=TOPIC, consume_from="FIRST_OFFSET", rhythm=QUICK)
    with PushConsumer.concurrent(cluster, settings, log):
        log.wait_for(1)
    with PullConsumer(cluster, PullConsumerSettings(group="others")) as consumer:
        consumer.assign(consumer.fetch_queues(TOPIC))
    assert list(DeadLetters(cluster, GROUP).read()) == []


def test_a_broadcasting_member_may_be_asked_for_as_text(group: Group) -> None:
    """With `message_model="BROADCASTING"` a member gets messages, and brokers store no position."""
    log = Log()
    group.concurrent(log, message_model="BROADCASTING", local_offset_dir=str(group.offset_dir))
    group.put("a")

    log.wait_for(1)
    until(lambda: list(group.offset_dir.rglob("offsets.json")))
    assert group.stub.offsets(GROUP) == {}


# --- refused values --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: ConsumerSettings(group=None, subscriptions="t"), "group"),  # type: ignore[arg-type]
        (lambda: ConsumerSettings(group="g", subscriptions=None), "subscriptions"),  # type: ignore[arg-type]
        (lambda: ConsumerSettings(group="g", subscriptions={"t": 3}), "subscriptions['t']"),
        (lambda: ConsumerSettings(group="g", subscriptions={"t": Subscription("a", "SQL")}), "subscriptions['t']"),
        (lambda: replace(SETTINGS, message_model="BROADCAST"), "message_model"),
        (lambda: replace(SETTINGS, consume_from=1), "consume_from"),  # type: ignore[arg-type]
        (lambda: replace(SETTINGS, allocation="nearest"), "allocation"),
        (lambda: replace(SETTINGS, allocation=1), "allocation"),  # type: ignore[arg-type]
        (lambda: replace(SETTINGS, limits=1000), "limits"),  # type: ignore[arg-type]
        (lambda: replace(SETTINGS, rhythm=1), "rhythm"),  # type: ignore[arg-type]
        (lambda: replace(SETTINGS, thread_count="20"), "thread_count"),  # type: ignore[arg-type]
        (lambda: replace(SETTINGS, thread_count=True), "thread_count"),
        (lambda: replace(SETTINGS, auto_commit="no"), "auto_commit"),  # type: ignore[arg-type]
        (lambda: replace(SETTINGS, local_offset_dir=1), "local_offset_dir"),  # type: ignore[arg-type]
        (lambda: ProducerSettings(group="g", compression="GZIP"), "compression"),
        (lambda: PushConsumer.concurrent("localhost", SETTINGS, done), "cluster"),
        (lambda: PushConsumer.concurrent(None, SETTINGS, done), "cluster"),  # type: ignore[arg-type]
        (lambda: PushConsumer.concurrent(ClusterSettings(("a:1",)), SETTINGS, done), "name_servers"),  # type: ignore[arg-type]
        (lambda: PushConsumer.orderly(NOWHERE, ProducerSettings(group="g"), done), "settings"),  # type: ignore[arg-type]
        (lambda: PushConsumer.orderly(NOWHERE, SETTINGS, None), "listener"),  # type: ignore[arg-type]
        (lambda: PushConsumer.orderly(NOWHERE, SETTINGS, done, hooks=[done]), "hooks"),  # type: ignore[list-item]
        (lambda: PushConsumer.concurrent(NOWHERE, SETTINGS, done, hooks=done), "hooks"),  # type: ignore[arg-type]
        (lambda: PullConsumer(NOWHERE, SETTINGS), "settings"),  # type: ignore[arg-type]
        (lambda: Producer(NOWHERE, "shop"), "settings"),  # type: ignore[arg-type]
        (lambda: Producer(NOWHERE, ProducerSettings(group="g"), check=True), "check"),  # type: ignore[arg-type]
        (lambda: DeadLetters(NOWHERE, ""), "group"),
    ],
)
def test_a_wrong_value_is_refused_where_it_is_given(make: Callable[[], object], name: str) -> None:
    """An invalid value raises an error with the parameter's name and advice."""
    with pytest.raises(OptionError, match="; give ") as refused:
        make()
    assert refused.value.option == name


@pytest.mark.parametrize(
    ("message", "name"),
    [
        (Message(TOPIC, "text"), "message.body"),  # type: ignore[arg-type]
        (Message("a topic", b""), "message.topic"),
        (Message(TOPIC, b"", tags=None), "message.tags"),  # type: ignore[arg-type]
        (Message(TOPIC, b"", keys=["k"]), "message.keys"),  # type: ignore[arg-type]
        (Message(TOPIC, b"", delay_level="3"), "message.delay_level"),  # type: ignore[arg-type]
        (Message(TOPIC, b"", flag="7"), "message.flag"),  # type: ignore[arg-type]
        (Message(TOPIC, b"", properties=None), "message.properties"),  # type: ignore[arg-type]
        (Message(TOPIC, b"", properties={"a": 1}), "message.properties['a']"),  # type: ignore[dict-item]
        (b"text", "message"),
    ],
)
def test_a_wrong_message_is_refused_before_it_is_sent(group: Group, message: Any, name: str) -> None:
    """If a field of a message is invalid, every way of sending raises an error that names the field."""
    producer = group.producer()
    ways: list[Callable[[], object]] = [
        lambda: producer.send(message),
        lambda: producer.send_oneway(message),
        lambda: producer.send_ordered(message, "key"),
        lambda: producer.send_batch([message]),
        lambda: producer.send_in_transaction(message, lambda _: client.TransactionResolution.COMMIT),
    ]
    for send in ways:
        with pytest.raises(OptionError) as refused:
            send()
        assert refused.value.option == name
    assert not group.stub.messages(TOPIC)


def test_a_wrong_queue_is_refused_before_it_is_sent_to(group: Group) -> None:
    """If a queue is given as a number instead of a `MessageQueue`, sending raises an error."""
    with pytest.raises(OptionError) as refused:
        group.producer().send(Message(TOPIC, b"x"), 0)  # type: ignore[arg-type]
    assert refused.value.option == "queue"


def test_a_key_of_the_order_is_text(group: Group) -> None:
    """If the key of an ordered send is no text, sending raises an error, and nothing is sent."""
    with pytest.raises(OptionError) as refused:
        group.producer().send_ordered(Message(TOPIC, b"x"), 5)  # type: ignore[arg-type]
    assert refused.value.option == "key"
    assert not group.stub.messages(TOPIC)


def test_a_number_of_the_rhythm_is_no_text() -> None:
    """If a period is given as text, making the settings raises an error."""
    with pytest.raises(OptionError) as refused:
        replace(SETTINGS, rhythm=Rhythm(heartbeat_s="30"))  # type: ignore[arg-type]
    assert refused.value.option == "rhythm.heartbeat_s"
