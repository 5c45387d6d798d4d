"""Compare the retries and dead letters of a query with those of an official Java consumer.

Each test runs on a real broker and on the stub, where every delay level is one second. The query is driven as Spark
drives it; one test runs in Spark.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pytest

from pyspark_rocketmq.client.dead_letters import DeadLetters
from pyspark_rocketmq.client.message import ReceivedMessage
from pyspark_rocketmq.cluster.cluster import open_cluster
from pyspark_rocketmq.model import dead_letter_topic, retry_topic
from pyspark_rocketmq.retry import RECONSUME_LATER, SUSPEND, send_back
from pyspark_rocketmq.retry.dataframes import return_rows
from pyspark_rocketmq.retry.returning import Returner, ReturnSettings
from tests.real.java_clients import JavaClients, message
from tests.real.java_fixtures import ScenarioServer
from tests.source.driving import Run, options_for, wait_for

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.real

JAVA_LATER, JAVA_SUSPEND = {"status": "RECONSUME_LATER"}, {"status": "SUSPEND_CURRENT_QUEUE_A_MOMENT", "suspendMs": 100}
JAVA_DEAD = {"status": "RECONSUME_LATER", "delayLevel": -1}


class StoredMessage(NamedTuple):
    """A message of a retry or dead-letter topic, without fields that must differ between two groups."""

    times: int
    born_ms: int
    message: tuple[Any, ...]
    properties: frozenset[tuple[str, str]]


class Query:
    """A query and a Java consumer, each with a group of its own, on one topic."""

    def __init__(self, server: ScenarioServer, topic: str, unique: str) -> None:
        self.server = server
        self.ours, self.java = f"{unique}_ours", f"{unique}_java"
        self.options = options_for(server, subscribe=topic, consumerGroup=self.ours, readRetryTopic="true")
        self.times: list[int] = []
        """The `reconsumeTimes` of each row that was read."""

    def run(self, most: int, result: str | None, level: int = 0) -> None:
        """Read rows and send each back with this result and level, until both groups have a dead letter."""
        returner = Returner(open_cluster(self.options.cluster), ReturnSettings(self.ours, most))
        with Run(self.options) as run:

            def is_over() -> bool:
                if run.plan():
                    batches = (batch for task in run.partitions() for batch in run.reader.read(task))
                    list(return_rows(self._answered(batches, result, level), returner))
                    run.checkpoint.finished += 1
                return all(self.messages_of(dead_letter_topic(group)) for group in (self.ours, self.java))

            wait_for(is_over, "both gave up")

    def _answered(self, batches: Iterator[Any], result: str | None, level: int) -> Iterator[Any]:
        for batch in batches:
            self.times += batch.column("reconsumeTimes").to_pylist()
            columns = {name: batch.column(name) for name in ("topic", "brokerName", "commitLogOffset", "msgId")}
            answers = pa.array([result] * batch.num_rows, pa.string())
            levels = pa.array([level] * batch.num_rows, pa.int64())
            yield pa.RecordBatch.from_pydict({**columns, "result": answers, "delayLevel": levels})

    def messages_of(self, topic: str) -> list[StoredMessage]:
        """Return the messages of a retry or dead-letter topic, sorted by their count of attempts."""
        letters = DeadLetters(self.options.cluster, self.ours)
        letters.topic = topic
        return sorted((self._stored(letter) for letter in letters.read()), key=lambda stored: stored.times)

    def _stored(self, letter: ReceivedMessage) -> StoredMessage:
        record = letter.record
        message = (letter.body, letter.topic, record.flag, record.sys_flag)
        own = {(name, text.replace(self.ours, "G").replace(self.java, "G")) for name, text in letter.properties.items()}
        return StoredMessage(letter.reconsume_times, record.born_timestamp, message, frozenset(own))


@pytest.fixture
def query(java_server: ScenarioServer, topic: str, unique: str) -> Query:
    """A `Query` on the topic of the test, with a group for it and one for a Java consumer."""
    return Query(java_server, topic, unique)


def send_poison(clients: JavaClients, topic: str) -> None:
    """Send a message that has tag, key and a property."""
    given = message(topic, "poison", TAGS="tag", KEYS="key", colour="red")
    clients.producer("senders").call("send", given)


def test_retries_and_dead_letters_are_the_same(clients: JavaClients, query: Query, topic: str) -> None:
    """If a message always fails, query and Java consumer get it equally often and leave equal dead letters."""
    java = clients.push_consumer(query.java, {topic: "*"}, {"poison": [JAVA_LATER]}, maxReconsumeTimes=2)
    send_poison(clients, topic)
    query.run(2, RECONSUME_LATER)
    assert query.times == [delivery["reconsumeTimes"] for delivery in java.deliveries] == [0, 1, 2]
    for topic_of, count in ((retry_topic, 2), (dead_letter_topic, 1)):
        mine = query.messages_of(topic_of(query.ours))
        assert len(mine) == count and mine == query.messages_of(topic_of(query.java))


def test_a_dead_letter_at_once_is_the_same(clients: JavaClients, query: Query, topic: str) -> None:
    """With delay level -1 a query and a Java consumer leave equal dead letters."""
    clients.push_consumer(query.java, {topic: "*"}, {"poison": [JAVA_DEAD]})
    send_poison(clients, topic)
    query.run(16, None, -1)
    [mine], [theirs] = (query.messages_of(dead_letter_topic(group)) for group in (query.ours, query.java))
    assert query.times == [0] and mine == theirs


def test_what_is_given_up_in_order_is_a_dead_letter(clients: JavaClients, query: Query, topic: str) -> None:
    """In orderly mode both leave a dead letter: a query the message itself, a Java consumer a new copy."""
    clients.push_consumer(query.java, {topic: "*"}, {"poison": [JAVA_SUSPEND]}, orderly=True, maxReconsumeTimes=2)
    send_poison(clients, topic)
    query.run(2, SUSPEND)
    [mine], [theirs] = (query.messages_of(dead_letter_topic(group)) for group in (query.ours, query.java))
    assert (mine.times, theirs.times) == (1, 3)
    assert mine.message == theirs.message and mine.born_ms < theirs.born_ms
    own_properties = {"DELAY", "MAX_RECONSUME_TIMES", "ORIGIN_MESSAGE_ID", "RECONSUME_TIME", "WAIT"}
    own_properties |= {"MIN_OFFSET", "MAX_OFFSET"}
    assert {name for name, _ in mine.properties ^ theirs.properties} == own_properties


@pytest.mark.spark
def test_a_java_consumer_takes_what_spark_sends_back(
    spark: SparkSession, clients: JavaClients, query: Query, topic: str
) -> None:
    """If Spark sends a row back, a Java consumer of the group gets it with its count, topic and original id."""
    send_poison(clients, topic)
    options = {"nameServer": query.server.name_server, "subscribe": topic, "consumerGroup": query.ours}
    columns = "topic,brokerName,commitLogOffset,msgId,offsetMsgId"
    rows = spark.read.format("rocketmq").options(**options, columns=columns).load()
    [report] = send_back(rows, options).collect()
    assert report.accepted
    java = clients.push_consumer(query.ours, {topic: "other"})
    [delivery] = java.wait_for(1)
    assert (delivery["body"], delivery["reconsumeTimes"], delivery["topic"]) == ("poison", 1, topic)
    [origin] = [row.offsetMsgId for row in rows.collect()]
    assert delivery["properties"]["ORIGIN_MESSAGE_ID"] == origin
