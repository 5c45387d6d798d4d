"""Will the brokers filter as the user means?

A pull whose SQL condition does not compile is answered as if nothing were filtered, without a word. So brokers are
asked to compile the condition before anything is read.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..broker_errors import BrokerSystemError, RequestRefused, SubscriptionParseFailed
from ..cluster.cluster import Cluster
from ..errors import BrokerError, OptionError
from ..model import MessageQueue
from ..options.reader_options import ReaderOptions
from ..wire.bodies import build_subscription

__all__ = ["require_filter"]

_CLIENT_ID = "pyspark-rocketmq"


def require_filter(cluster: Cluster, options: ReaderOptions, queues: Iterable[MessageQueue]) -> None:
    """Refuse a condition that the brokers of some topic cannot compile, or do not filter by."""
    for topic in sorted({queue.topic for queue in queues}):
        subscription = options.pull.subscription.for_topic(topic)
        if subscription.expression_type == "TAG":
            continue
        asked = build_subscription(topic, subscription.expression, expression_type=subscription.expression_type)
        try:
            cluster.groups.check_subscription(options.pull.group, _CLIENT_ID, asked)
        except SubscriptionParseFailed as error:
            raise _refusal(subscription.expression, error, "correct the condition") from error
        except (BrokerSystemError, RequestRefused) as error:
            raise _refusal(subscription.expression, error, "set enablePropertyFilter=true on the brokers") from error


def _refusal(expression: str, error: BrokerError, advice: str) -> OptionError:
    topic = error.where.get("topic", "")
    return OptionError("sqlFilter", expression, f"the broker of {topic} says: {error.remark}", advice=advice)
