"""Every number of the pull engine is the documented one, and takes effect."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, cast

import pytest

from pyspark_rocketmq.broker_errors import FlowControl
from pyspark_rocketmq.cluster.settings import ClusterSettings
from pyspark_rocketmq.errors import RequestTimeout
from pyspark_rocketmq.model import Address, MessageQueue, QueueRange
from pyspark_rocketmq.net.backoff import Backoff
from pyspark_rocketmq.pull.backoff_budget import BackoffBudget
from pyspark_rocketmq.pull.loop import Window
from pyspark_rocketmq.pull.port import PullGroup, PullRequest
from pyspark_rocketmq.pull.process_queue import FlowLimits
from pyspark_rocketmq.pull.reader import QueueReader
from pyspark_rocketmq.pull.remoting import RemotingPort, read_outcome
from pyspark_rocketmq.pull.settings import PullSettings, Subscription
from pyspark_rocketmq.wire.header import RESPONSE_FLAG, Command, decode_command
from tests.cluster.scripted import ScriptedLinks
from tests.pull.scripted_queue import MASTER, QUEUE, ScriptedQueue, Told, brokers_of

SUBSCRIPTION_FLAG = 4


# --- throttling ------------------------------------------------------------------------------------------------------


def test_pauses_of_throttled_pulls_grow_from_20_ms_to_3_s() -> None:
    """The pauses at one offset double from 20 ms to 3 s, at random up to half shorter; a new offset begins anew."""
    budget = BackoffBudget(math.inf)
    for attempt in range(60):
        longest_s = min(3.0, 0.02 * 2**attempt)
        assert longest_s / 2 <= budget.next_pause_s(7, FlowControl("scripted")) <= longest_s
    assert budget.next_pause_s(8, FlowControl("scripted")) <= 0.02


def test_a_second_of_throttling_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """The log has one warning, when the pauses reach 1 s."""
    budget = BackoffBudget(math.inf, pause=Backoff(first_s=0.25, longest_s=0.25))
    while budget.waited_s < 5:
        before_s = budget.waited_s
        budget.next_pause_s(7, FlowControl("scripted"))
        if budget.waited_s < 1:
            assert not caplog.records
        elif before_s < 1:
            assert len(caplog.records) == 1
    assert len(caplog.records) == 1


# --- requests --------------------------------------------------------------------------------------------------------


class _Wire:
    """A connection pool and its only connection in one object, which keeps the submitted frames and never answers."""

    address = MASTER.address
    is_open, has_news = True, False
    heard_at = 1000.0

    def __init__(self) -> None:
        self.frames: list[bytes] = []

    def exchange(self) -> bool:
        """Send and receive nothing."""
        return False

    def forget(self, opaque: int) -> None:
        """Do nothing: there is no response."""

    def take(self, address: Address) -> _Wire:
        """Return the connection."""
        return self

    def submit_as(self, code: int, count: int, write: Any) -> Sequence[int]:
        """Keep the frames, and return their opaques."""
        self.frames += write(range(count))
        return range(count)


def _sent(settings: PullSettings, *, is_filtered: bool = True) -> list[dict[str, str]]:
    """Return the header fields of a pull of 200 offsets and of one of 3 offsets."""
    wire = _Wire()
    port: RemotingPort[None] = RemotingPort(ClusterSettings((MASTER.address,)), cast(Any, wire), settings)
    port.connect(MASTER.address)
    requests = [PullRequest(98, 298), PullRequest(298, 301)]
    port.submit(PullGroup(None, QUEUE, MASTER, requests, is_filtered))
    return [dict(decode_command(memoryview(frame)).fields or {}) for frame in wire.frames]


def test_a_pull_asks_for_32_messages_at_most_and_is_answered_at_once() -> None:
    """A pull neither lets the broker hold it, nor commits a position; it carries its subscription."""
    first, second = _sent(PullSettings(subscription=Subscription("paid")))

    assert (first["maxMsgNums"], second["maxMsgNums"]) == ("32", "3")
    assert (first["sysFlag"], first["suspendTimeoutMillis"]) == (str(SUBSCRIPTION_FLAG), "0")
    assert first["commitOffset"] == "0"
    assert (first["subscription"], first["consumerGroup"]) == ("paid", "TOOLS_CONSUMER")


def test_probes_have_no_filter() -> None:
    """A pull that is not filtered asks for all messages."""
    first, _ = _sent(PullSettings(subscription=Subscription("paid")), is_filtered=False)

    assert (first["subscription"], first["expressionType"]) == ("*", "TAG")


def test_filters_do_not_apply_to_retry_topics() -> None:
    """A pull of a retry topic asks for all messages, because each of them is to be processed again."""
    wire = _Wire()
    settings = PullSettings(subscription=Subscription("paid"))
    port: RemotingPort[None] = RemotingPort(ClusterSettings((MASTER.address,)), cast(Any, wire), settings)
    port.connect(MASTER.address)
    retries = MessageQueue("%RETRY%g", "broker-a", 0)
    port.submit(PullGroup(None, retries, MASTER, [PullRequest(0, 1)]))

    assert (decode_command(memoryview(wire.frames[0])).fields or {})["subscription"] == "*"


# --- the window ------------------------------------------------------------------------------------------------------


class _Port:
    """A port that notes the submitted pulls, and delivers what a test gives it."""

    def __init__(self) -> None:
        self.groups: list[PullGroup[QueueReader]] = []
        self.sends = 0
        self.deliveries: list[Any] = []
        self.in_flight = 0
        self.until = 0.0

    def connect(self, address: Address) -> bool:
        """Be connected."""
        return True

    def submit(self, group: PullGroup[QueueReader]) -> None:
        """Note the pulls."""
        self.groups.append(group)
        self.in_flight += len(group.requests)

    def send(self) -> None:
        """Count the calls."""
        self.sends += 1

    def drain(self, until: float) -> list[Any]:
        """Return the deliveries that the test has given."""
        self.until = until
        delivered, self.deliveries = self.deliveries, []
        self.in_flight -= len(delivered)
        return delivered

    def answer(self, count: int, body_bytes: int) -> None:
        """Deliver responses with bodies of this size to the oldest pulls."""
        pulls = [(group, request) for group in self.groups for request in group.requests]
        for group, request in pulls[:count]:
            numbers = {"nextBeginOffset": request.end, "minOffset": 0, "maxOffset": 10**6, "suggestWhichBrokerId": 0}
            fields = {name: str(value) for name, value in numbers.items()}
            outcome = read_outcome(Command(0, fields=fields, body=bytes(body_bytes), flag=RESPONSE_FLAG))
            self.deliveries.append((group, request, outcome))


def _window(readers: int, depth: int | None = None) -> tuple[Window, _Port]:
    """Return a window of readers whose queues never exceed a limit, and its port."""
    brokers = brokers_of({MASTER: ScriptedQueue(10**6, lambda _: True)}, ScriptedLinks())
    settings = PullSettings(depth=depth, limits=FlowLimits(10**9, 10**6, 10**9))
    made = [QueueReader(QueueRange(QUEUE, 0, 10**6), brokers, settings, Told()) for _ in range(readers)]
    port = _Port()
    return Window(made, cast(Any, port), settings, clock=lambda: 100.0), port


def test_readers_take_turns_of_four_pulls_until_32_are_in_flight() -> None:
    """A window begins with a depth of 32, and gives each reader four pulls per turn."""
    window, port = _window(3)
    window.fill()

    assert [len(group.requests) for group in port.groups] == [4] * 8
    assert len({id(group.reader) for group in port.groups[:3]}) == 3
    assert (window.in_flight, port.sends) == (32, 1)


def test_a_window_is_filled_again_when_a_quarter_of_it_is_free() -> None:
    """With 7 of 32 pulls answered nothing is sent; with 8 answered, the window is filled again."""
    window, port = _window(1, depth=32)
    window.fill()
    port.in_flight -= 7
    window.fill()
    assert port.sends == 1

    port.in_flight -= 1
    window.fill()
    assert (port.sends, port.in_flight) == (2, 32)


@pytest.mark.parametrize(
    ("body_bytes", "depth"), [(2**20, 32), (2**18, 32), (2**17, 64), (2**16, 128), (2**15, 256), (2**10, 256)]
)
def test_eight_mebibytes_are_kept_in_flight(body_bytes: int, depth: int) -> None:
    """The depth is 8 MiB divided by the size of responses, 32 at least and 256 at most."""
    window, port = _window(1)
    window.fill()
    port.answer(32, body_bytes)
    window.drain(200.0)
    window.fill()

    assert window.in_flight == depth


def test_a_depth_of_the_user_stays() -> None:
    """If the user has set the depth, the size of responses does not change it."""
    window, port = _window(1, depth=8)
    window.fill()
    assert window.in_flight == 8
    port.answer(8, 2**10)
    window.drain(200.0)
    window.fill()

    assert window.in_flight == 8


def test_a_pull_that_is_not_answered_fails_after_10_s() -> None:
    """The timeout of a pull is 10 s by default."""
    now = 100.0
    port: RemotingPort[str] = RemotingPort(
        ClusterSettings((MASTER.address,)), cast(Any, _Wire()), PullSettings(), clock=lambda: now
    )
    port.connect(MASTER.address)
    port.submit(PullGroup("reader", QUEUE, MASTER, [PullRequest(0, 1)]))
    now = 109.75
    assert port.drain(now) == []

    now = 110.0
    [(_, _, error)] = port.drain(now)
    assert isinstance(error, RequestTimeout) and "within 10 s" in str(error)
