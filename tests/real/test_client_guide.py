"""Test that the programs of docs/client.md run on real brokers, and that first messages create topics as Java's do."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyspark_rocketmq.client import Message, ReceivedMessage
from pyspark_rocketmq.net.deadline import Deadline
from pyspark_rocketmq.wire.properties import MAX_BATCH_PROPERTIES_BYTES
from tests.client.guide import run_section, sections
from tests.real.java_clients import JavaClients, message
from tests.real.java_fixtures import ScenarioServer
from tests.real.our_clients import Ours

READ_S = 20.0

pytest_plugins = ["tests.real.client_fixtures"]
pytestmark = pytest.mark.real


@pytest.fixture
def java_server(mixed_server: ScenarioServer) -> ScenarioServer:
    """The server of these tests: a real broker of every version under test, then the stub."""
    return mixed_server


@pytest.mark.parametrize("title", sections())
def test_programs_of_the_guide_run(
    title: str, java_server: ScenarioServer, topic: str, unique: str, tmp_path: Path
) -> None:
    """Each section's programs in docs/client.md print what the page shows."""
    run_section(title, tmp_path, java_server.name_server, topic=topic, group_prefix=f"{unique}_")


def test_a_first_message_creates_its_topic_as_javas_does(mixed_clients: JavaClients, ours: Ours, unique: str) -> None:
    """A topic that our first message or batch creates has the same queues as one that Java's creates."""
    by_java, by_us, by_batch = (f"{unique}_{name}" for name in ("java", "ours", "batch"))
    sent = mixed_clients.producer(unique).call("send", message(by_java, "first"))
    producer = ours.producer(f"{unique}_ours")
    receipts = [producer.send(Message(by_us, b"%d" % number)) for number in range(8)]
    producer.send_batch([Message(by_batch, b"first"), Message(by_batch, b"second")])

    admin = ours.cluster().admin
    # Brokers of 4.x do not answer for a single topic.
    found = admin.fetch_topic_configs("broker-a")
    configs = [found[topic] for topic in (by_java, by_us, by_batch)]
    assert sent["sendStatus"] == "SEND_OK"
    assert len({(each.read_queue_nums, each.write_queue_nums, each.perm) for each in configs}) == 1
    assert {receipt.queue.queue_id for receipt in receipts} == set(range(configs[0].write_queue_nums))


def test_a_batch_with_long_properties_can_be_read(ours: Ours, unique: str) -> None:
    """A message of a batch with the longest properties that we send can be read, with what brokers append to them."""
    room = MAX_BATCH_PROPERTIES_BYTES - len("UNIQ_KEY\x01\x02WAIT\x01true\x02a\x01\x02") - 32
    messages = [Message(ours.topic, b"%d" % number, properties={"a": "x" * room}) for number in range(2)]
    receipt = ours.producer(unique).send_batch(messages)

    consumer = ours.pulling(unique)
    consumer.assign([receipt.queue])
    read, until = list[ReceivedMessage](), Deadline.after(READ_S)
    while len(read) < len(messages) and not until.expired:
        read += consumer.poll(1.0)
    assert [(found.body, len(found.properties["a"])) for found in read] == [(b"0", room), (b"1", room)]
