"""Keep the topics of a broker, and create topics from templates.

A broker starts with the system topics. If a message is sent to a missing topic, the topic is created as a copy of the
template topic that the sender names (`TBW102`), provided that the template may be inherited. A broker that starts
without auto-creation has no template, so that name servers have no route of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from random import Random

from pyspark_rocketmq.model import DEAD_LETTER_PREFIX, RETRY_PREFIX
from pyspark_rocketmq.wire.bodies import TopicConfig
from pyspark_rocketmq.wire.codes import ResponseCode

from .changes import OnChange, ignore_change
from .releases import Release
from .requests import Refusal

READABLE, WRITABLE, INHERITABLE = 4, 2, 1
READ_WRITE = READABLE | WRITABLE

TEMPLATE_TOPIC = "TBW102"
SCHEDULE_TOPIC = "SCHEDULE_TOPIC_XXXX"
TIMER_TOPIC = "rmq_sys_wheel_timer"
HALF_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC"
HALF_DONE_TOPIC = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
HALF_GIVEN_UP_TOPIC = "TRANS_CHECK_MAX_TIME_TOPIC"
REPLY_TOPIC_SUFFIX = "_REPLY_TOPIC"
SYSTEM_PREFIX = "rmq_sys_"

FORBIDDEN_TO_SEND = frozenset(
    {SCHEDULE_TOPIC, HALF_TOPIC, HALF_DONE_TOPIC, HALF_GIVEN_UP_TOPIC, "SELF_TEST_TOPIC", "OFFSET_MOVED_EVENT"}
)
SYSTEM_TOPICS = FORBIDDEN_TO_SEND | {TEMPLATE_TOPIC, "BenchmarkTest", "CHECKPOINT_TOPIC", "RMQ_SYS_TRACE_TOPIC"}

MOST_QUEUES = 16_384
"""Maximum number of queues of a topic; a request about that many queues takes about a second."""

_ILLEGAL = re.compile(r"[^%|a-zA-Z0-9_-]")
_LONGEST, _LONGEST_OF_GROUP = 127, 255

_random = Random()
"""The stub's own generator; it leaves the generator of module `random`, which a test may have seeded, unchanged."""


def check_name(topic: str, release: Release) -> None:
    """Raise a `Refusal` if the topic's name is illegal."""
    longest = _LONGEST_OF_GROUP if topic.startswith((RETRY_PREFIX, DEAD_LETTER_PREFIX)) else _LONGEST
    if not topic.strip():
        fault = "is blank."
    elif _ILLEGAL.search(topic):
        fault = "contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$"
    elif len(topic) > longest:
        fault = "is longer than topic max length."
    else:
        return
    raise Refusal(illegal_code(release), f"The specified topic {fault}")


def check_queue_count(count: int, release: Release) -> None:
    """Raise a `Refusal` if a topic would have too many queues.

    A real broker refuses only numbers that do not fit 32 bits. It accepts a million queues, but stops responding when
    a client asks for their offsets.
    """
    if count > MOST_QUEUES:
        code = illegal_code(release) if count < 2**31 else ResponseCode.SYSTEM_ERROR
        raise Refusal(code, f"{count} queues, the stub's limit is {MOST_QUEUES}")


def illegal_code(release: Release) -> ResponseCode:
    """Return the response code with which a release refuses an illegal parameter."""
    return ResponseCode.INVALID_PARAMETER if release.is_5x else ResponseCode.SYSTEM_ERROR


def random_queue(queue_count: int) -> int:
    """Return a random queue id of a topic with this number of queues; raise a `Refusal` if the number is 0."""
    if queue_count <= 0:
        raise Refusal(ResponseCode.SYSTEM_ERROR, "java.lang.ArithmeticException: / by zero")
    return _random.randrange(queue_count)


class Topics:
    """The topic configurations of one broker."""

    def __init__(self, release: Release, cluster_name: str, broker_name: str, template_queues: int | None) -> None:
        self._configs = {
            config.topic_name: config for config in _system_configs(release, cluster_name, broker_name, template_queues)
        }
        self._system = SYSTEM_TOPICS | self._configs.keys()
        self.version = 0
        """Number of changes of the table."""
        self.on_change: OnChange = ignore_change

    def __iter__(self) -> Iterator[TopicConfig]:
        return iter(list(self._configs.values()))

    def __len__(self) -> int:
        return len(self._configs)

    def is_system(self, topic: str) -> bool:
        """Return whether a topic of this name belongs to the system, so that clients may not change it."""
        return topic in self._system or topic.startswith(SYSTEM_PREFIX)

    @property
    def system_names(self) -> list[str]:
        """Names of the system topics."""
        return sorted(self._system)

    def find(self, topic: str) -> TopicConfig | None:
        """Return a topic's configuration; None if the topic does not exist."""
        return self._configs.get(topic)

    def create(self, config: TopicConfig) -> TopicConfig:
        """Create a topic with this configuration, or replace its configuration."""
        self._configs[config.topic_name] = config
        self.version += 1
        self.on_change("topic", config)
        return config

    def delete(self, topic: str) -> None:
        """Remove a topic from the table."""
        if self._configs.pop(topic, None):
            self.version += 1
            self.on_change("drop-topic", topic)

    def find_or_create(self, topic: str, queues: int, perm: int = READ_WRITE) -> TopicConfig:
        """Return a topic's configuration; create a missing topic with this number of queues and this permission."""
        return self.find(topic) or self.create(
            TopicConfig(topic_name=topic, read_queue_nums=queues, write_queue_nums=queues, perm=perm, attributes={})
        )

    def create_from_template(self, topic: str, template: str, queues: int) -> TopicConfig | None:
        """Create a topic like its template, with at most `queues` queues, and return its configuration.

        Return None if the template is missing or may not be inherited.
        """
        pattern = self.find(template)
        if pattern is None or not pattern.perm & INHERITABLE:
            return None
        count = max(0, min(queues, pattern.write_queue_nums))
        return self.create(
            replace(
                pattern,
                topic_name=topic,
                read_queue_nums=count,
                write_queue_nums=count,
                perm=pattern.perm & ~INHERITABLE,
            )
        )


def _system_configs(
    release: Release, cluster_name: str, broker_name: str, template_queues: int | None
) -> Iterator[TopicConfig]:
    inheritable = READ_WRITE | INHERITABLE
    table = [
        ("SELF_TEST_TOPIC", 1, READ_WRITE),
        ("BenchmarkTest", 1024, READ_WRITE),
        (cluster_name, 16, inheritable),
        (broker_name, 1, inheritable),
        ("OFFSET_MOVED_EVENT", 1, READ_WRITE),
        (SCHEDULE_TOPIC, 18, READ_WRITE),
        (cluster_name + REPLY_TOPIC_SUFFIX, 1, READ_WRITE),
        (HALF_TOPIC, 1, READ_WRITE),
    ]
    if template_queues is not None:
        table.append((TEMPLATE_TOPIC, template_queues, inheritable))
    if release.is_5x:
        table += [
            (HALF_DONE_TOPIC, 1, READ_WRITE),
            (TIMER_TOPIC, 1, READ_WRITE),
            (f"rmq_sys_REVIVE_LOG_{cluster_name}", 8, READ_WRITE),
            (f"rmq_sys_SYNC_BROKER_MEMBER_{broker_name}", 1, INHERITABLE),
        ]
    for topic, queues, perm in table:
        yield TopicConfig(topic_name=topic, read_queue_nums=queues, write_queue_nums=queues, perm=perm, attributes={})
