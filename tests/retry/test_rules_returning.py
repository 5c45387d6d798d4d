"""Each rule of sending rows back holds: what a request carries, how long its task pauses, and when it gives up."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pyspark_rocketmq.cluster.cluster import Cluster
from pyspark_rocketmq.cluster.settings import ClusterSettings
from pyspark_rocketmq.errors import ConnectionLost, MalformedFrame, RequestTimeout, RocketMQError
from pyspark_rocketmq.model import Address
from pyspark_rocketmq.net.backoff import Backoff
from pyspark_rocketmq.retry.returning import Outcome, Returned, Returner, ReturnSettings
from pyspark_rocketmq.wire.codes import ResponseCode
from pyspark_rocketmq.wire.header import Command
from tests.cluster.scripted import ScriptedLinks, answer, raising, route_of

ROW = Returned("orders", "broker-a", 4711, "0A", 0)
BUSY = answer(ResponseCode.SYSTEM_BUSY, remark="scripted")


class Task:
    """A task that sends rows back to a scripted broker, with three pauses of 1, 2 and 4 s at most."""

    def __init__(self, respond: Callable[[Command], Command] | Command) -> None:
        self.links = ScriptedLinks()
        self.links.serve("ns:1", GET_ROUTEINFO_BY_TOPIC=route_of(**{"broker-a": {0: "a:1"}}))
        self.links.serve("a:1", CONSUMER_SEND_MSG_BACK=respond)
        settings = ClusterSettings((Address("ns", 1),), retries=3, pause=Backoff(first_s=1.0, longest_s=60.0))
        self.pauses: list[float] = []
        self._returner = Returner(Cluster(settings, self.links), ReturnSettings("readers", 9), self.pauses.append)

    def send_back(self, row: Returned = ROW) -> Outcome:
        """Send one row back, and return its outcome."""
        [outcome] = self._returner.send_back({0: row}).values()
        return outcome

    @property
    def sent(self) -> list[dict[str, str]]:
        """The header fields of the requests to the broker."""
        return self.links.asked("CONSUMER_SEND_MSG_BACK")


@pytest.mark.parametrize("level", [-1, 0, 1, 18])
def test_a_request_carries_its_row(level: int) -> None:
    """A request names the row's message by its place and its id, and has its level and the most deliveries."""
    task = Task(answer())
    assert task.send_back(ROW._replace(delay_level=level)) is None

    wanted = {"group": "readers", "offset": 4711, "originMsgId": "0A", "originTopic": "orders", "delayLevel": level}
    [fields] = task.sent
    assert {name: str(value) for name, value in {**wanted, "maxReconsumeTimes": 9}.items()}.items() <= fields.items()


def test_pauses_double() -> None:
    """While a broker is busy, the task pauses for 1, 2 and 4 s, at random up to half shorter, and then gives up."""
    task = Task(BUSY)
    error = task.send_back()

    assert error and error.code == "BROKER_SYSTEM_BUSY" and len(task.sent) == 4
    assert all(most / 2 <= pause_s <= most for pause_s, most in zip(task.pauses, (1.0, 2.0, 4.0), strict=True))


def test_a_broker_that_refuses_gets_later_rows_all_the_same() -> None:
    """If a broker answered with errors until no pauses were left, the next row is sent, and may be accepted."""
    responses = [BUSY] * 4 + [answer()]
    task = Task(lambda _: responses.pop(0))
    assert task.send_back() is not None

    assert task.send_back() is None


@pytest.mark.parametrize("error", [ConnectionLost("scripted"), RequestTimeout("scripted"), MalformedFrame("scripted")])
def test_a_row_whose_response_is_lost_twice_is_not_sent_again(error: RocketMQError) -> None:
    """If a request ends without a response, its row is sent twice at most, because the broker may have stored it."""
    task = Task(raising(error))

    assert type(task.send_back()) is type(error) and len(task.sent) == 2 and len(task.pauses) == 1
