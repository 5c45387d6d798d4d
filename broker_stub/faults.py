"""What goes wrong on command?

Faults of answers are *scripted*: for which requests, at which broker, how often. A request is answered by the first
fault scripted for a number of times that fits it, else by the first that fits and lasts for ever, else as a broker
answers. What was scripted for a number of times and never came to pass is reported at the end of the stub's `with`
block, because a test that relies on it shows nothing. Calls of the gRPC door are befallen alike, at the place `PROXY`.

Faults of the cluster happen at once: a broker goes down, a slave falls behind, a queue is lost.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol, TypedDict, TypeVar, Unpack

from pyspark_rocketmq.errors import OptionError, RocketMQError
from pyspark_rocketmq.model import MessageQueue
from pyspark_rocketmq.wire.codes import RequestCode, ResponseCode
from pyspark_rocketmq.wire.header import Command

from .requests import ReplyFault, answer
from .state import Broker, Cluster

T = TypeVar("T")

NAME_SERVER = "name server"
PROXY = "proxy"
"""The gRPC door: there, `on` is a method's name, and codes are those of RocketMQ's gRPC protocol."""
BUSY_REMARK = "[REJECTREQUEST]system busy, start flow control for a while"


class FaultTarget(TypedDict, total=False):
    """Which requests a fault befalls, where, and how often."""

    on: RequestCode | str | None
    at: str | None
    times: int | None


class FaultNotReached(RocketMQError):
    """A scripted fault never happened."""

    code = "FAULT_NOT_REACHED"


@dataclass(slots=True, eq=False)
class Fault:
    """One scripted fault."""

    what: str
    on: RequestCode | str | None
    """The requests it is for; None: all."""
    at: str | None
    """The broker it is for, `NAME_SERVER` or `PROXY`; None: all brokers."""
    rest: int | None
    """How often it has still to happen; None: for ever."""
    reply_fault: ReplyFault | None = None
    make_answer: Callable[[], Command] | None = None
    fired: int = field(default=0)
    """How often it has happened."""

    def matches(self, place: str, asked: int | str) -> bool:
        """Whether it is for this request."""
        is_here = self.at == place if self.at else place not in (NAME_SERVER, PROXY)
        return is_here and self.on in (None, asked)

    def __str__(self) -> str:
        times = "for ever" if self.rest is None else f"{self.rest} more times"
        asked = self.on.name if isinstance(self.on, RequestCode) else self.on or "any request"
        return f"{self.what} on {asked} at {self.at or 'any broker'}, {times}"


class FaultScript:
    """The scripted faults of a stub, in the order they were scripted."""

    def __init__(self) -> None:
        self._faults: list[Fault] = []

    def __len__(self) -> int:
        return len(self._faults)

    def add(self, fault: Fault) -> Fault:
        """Script a fault."""
        self._faults.append(fault)
        return fault

    def take(self, place: str, asked: int | str) -> Fault | None:
        """The fault that befalls a request, if any."""
        fitting = [fault for fault in self._faults if fault.matches(place, asked)]
        fault = next((fault for fault in fitting if fault.rest is not None), fitting[0] if fitting else None)
        if fault is not None:
            self._count(fault)
        return fault

    def clear(self) -> None:
        """Forget all faults, reached or not."""
        self._faults.clear()

    def check_reached(self) -> None:
        """Raise if something scripted for a number of times did not happen as often."""
        missing = [str(fault) for fault in self._faults if fault.rest is not None]
        if missing:
            raise FaultNotReached(
                f"scripted, but never happened: {'; '.join(missing)}", advice="mend the test, or call faults.clear()"
            )

    def _count(self, fault: Fault) -> None:
        fault.fired += 1
        if fault.rest is not None:
            fault.rest -= 1
            if not fault.rest:
                self._faults.remove(fault)


class StubControl(Protocol):
    """The doors of the brokers, as far as faults act upon them."""

    def run(self, function: Callable[[], T]) -> T:
        """Carry out in the stub's thread."""

    def open(self, broker: Broker) -> None:
        """Let clients connect."""

    def refuse(self, broker: Broker) -> None:
        """Refuse new connections."""

    def shut(self, broker: Broker) -> None:
        """Refuse new connections and end the others."""


class Faults:
    """What a test may have go wrong; to be called from any thread.

    Faults of answers take `on` (a request code; default any), `at` (a broker's name, `NAME_SERVER` or `PROXY`; default
    all brokers) and `times` (default once; None: for ever), and return the `Fault`, which counts how often it happened.
    """

    def __init__(self, cluster: Cluster, script: FaultScript, control: StubControl) -> None:
        self._cluster = cluster
        self._script = script
        self._control = control

    def __repr__(self) -> str:
        return f"<Faults, {len(self._script)} scripted>"

    def clear(self) -> None:
        """Forget what is scripted, reached or not."""
        self._control.run(self._script.clear)

    # --- faults of answers -------------------------------------------------------------------------------------------

    def answer(self, code: int, remark: str = "scripted", **when: Unpack[FaultTarget]) -> Fault:
        """Answer with a response code instead of carrying the request out."""
        return self._add(f"answer {code}", when, make_answer=lambda: answer(code, {}, remark=remark))

    def busy(self, **when: Unpack[FaultTarget]) -> Fault:
        """Answer that the broker is busy."""
        return self.answer(ResponseCode.SYSTEM_BUSY, BUSY_REMARK, **when)

    def flow_control(self, **when: Unpack[FaultTarget]) -> Fault:
        """Answer that the client must slow down."""
        return self.answer(ResponseCode.FLOW_CONTROL, "flow control", **when)

    def delay(self, ms: int, **when: Unpack[FaultTarget]) -> Fault:
        """Carry the request out at once, but answer late by the stub's clock."""
        return self._add(f"delay by {ms} ms", when, ReplyFault(delay_ms=ms))

    def drop_reply(self, **when: Unpack[FaultTarget]) -> Fault:
        """Carry the request out, but never answer."""
        return self._add("drop the reply", when, ReplyFault(drop=True))

    def cut_reply(self, **when: Unpack[FaultTarget]) -> Fault:
        """Send half of the answer, then close the connection; a call of the gRPC door ends with UNAVAILABLE."""
        return self._add("cut the reply", when, ReplyFault(cut=True))

    def half_close(self, **when: Unpack[FaultTarget]) -> Fault:
        """Say nothing more on the connection, but go on listening."""
        return self._add("half-close", _on_a_socket(when), ReplyFault(half_close=True))

    def trickle(self, **when: Unpack[FaultTarget]) -> Fault:
        """Answer one byte at a time."""
        return self._add("trickle the reply", _on_a_socket(when), ReplyFault(trickle=True))

    def _add(
        self,
        what: str,
        when: FaultTarget,
        reply_fault: ReplyFault | None = None,
        make_answer: Callable[[], Command] | None = None,
    ) -> Fault:
        fault = Fault(what, when.get("on"), when.get("at"), when.get("times", 1), reply_fault, make_answer)
        return self._control.run(lambda: self._script.add(fault))

    # --- faults of brokers -------------------------------------------------------------------------------------------

    def refuse(self, broker: str | None = None) -> None:
        """Refuse new connections; those there are stay. `broker_up` ends it."""
        self._each(broker, self._control.refuse)

    def broker_down(self, broker: str | None = None, broker_id: int | None = None) -> None:
        """Take a broker away, as a crash does: ports closed, out of the route, locks and members forgotten."""
        self._each(broker, self._take_down, broker_id)

    def broker_up(self, broker: str | None = None, broker_id: int | None = None) -> None:
        """Bring a broker back at its old address, with its old messages and offsets."""
        self._each(broker, self._bring_up, broker_id)

    def slave_lag(self, messages: int, broker: str | None = None) -> None:
        """Keep slaves so many messages behind in each queue."""
        self._each(broker, lambda broker: broker.set_lag(messages))

    def _each(self, name: str | None, act: Callable[[Broker], None], broker_id: int | None = None) -> None:
        def act_on_all() -> None:
            for broker in self._cluster.find_brokers(name, broker_id):
                act(broker)

        self._control.run(act_on_all)

    def _take_down(self, broker: Broker) -> None:
        broker.is_up = False
        self._control.shut(broker)
        broker.forget_clients()

    def _bring_up(self, broker: Broker) -> None:
        broker.is_up = True
        self._control.open(broker)

    # --- faults of data ----------------------------------------------------------------------------------------------

    def lose_queue(self, topic: str, broker: str | None = None) -> None:
        """Take the last queue of a topic away, with its messages."""
        self._each(broker, lambda broker: broker.remove_queue(topic))

    def clock_jump(self, ms: int) -> None:
        """Set the wall time forth or back; nothing becomes due by it."""
        self._control.run(lambda: self._cluster.clock.jump(ms))

    def reset_offset(self, group: str, queue: MessageQueue, offset: int) -> None:
        """Order a group to an offset of a queue, as an administrator does."""

        def reset() -> None:
            self._cluster.broker(queue.broker_name).offsets.reset(group, queue.topic, queue.queue_id, offset)

        self._control.run(reset)


def _on_a_socket(when: FaultTarget) -> FaultTarget:
    """What happens byte by byte cannot happen behind gRPC."""
    if when.get("at") == PROXY:
        advice = "use answer, delay, drop_reply or cut_reply"
        raise OptionError("at", PROXY, "no single bytes are seen there", advice=advice)
    return when
