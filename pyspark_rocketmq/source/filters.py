"""Refuse filters that brokers would ignore.

If the SQL condition of a pull does not compile, brokers send all messages, without a warning. So brokers are asked to
compile the condition before anything is read. Brokers never filter pulls of a compacted topic. A filter by tags works
there all the same, because tags are compared again when rows are made. An SQL condition has no effect and is refused.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..broker_errors import BrokerSystemError, RequestRefused, SubscriptionParseFailed
from ..cluster.cluster import Cluster
from ..errors import BrokerError, OptionError
from ..model import MessageQueue
from ..pull.settings import PullSettings
from ..wire.bodies import build_subscription

__all__ = ["require_filter"]

_CLIENT_ID = "pyspark-rocketmq"


def require_filter(cluster: Cluster, settings: PullSettings, queues: Iterable[MessageQueue]) -> None:
    """Raise `OptionError` if brokers cannot compile the SQL condition, or ignore it because a topic is compacted."""
    brokers = {queue[:2] for queue in queues}
    for topic in sorted({topic for topic, _ in brokers}):
        subscription = settings.subscription.for_topic(topic)
        if subscription.expression_type == "TAG":
            continue
        _refuse_compacted(cluster, subscription.expression, sorted(each for each in brokers if each[0] == topic))
        asked = build_subscription(topic, subscription.expression, expression_type=subscription.expression_type)
        try:
            cluster.groups.check_subscription(settings.group, _CLIENT_ID, asked)
        except SubscriptionParseFailed as error:
            raise _refusal(subscription.expression, error, "correct the condition") from error
        except (BrokerSystemError, RequestRefused) as error:
            raise _refusal(subscription.expression, error, "set enablePropertyFilter=true on the brokers") from error


def _refuse_compacted(cluster: Cluster, condition: str, places: Iterable[tuple[str, str]]) -> None:
    for topic, broker_name in places:
        if cluster.admin.is_compacted(topic, broker_name):
            what = f"{topic} is compacted at {broker_name}, and brokers do not filter pulls of compacted topics"
            raise OptionError("sqlFilter", condition, what, advice="drop it, and filter the rows in Spark")


def _refusal(expression: str, error: BrokerError, advice: str) -> OptionError:
    topic = error.where.get("topic", "")
    return OptionError("sqlFilter", expression, f"the broker of {topic} refuses it: {error.remark}", advice=advice)
