"""Inject faults into responses and into the cluster.

Faults of responses are *scripted*: they apply to a request code, at a broker, for a number of times. A request gets the
first matching fault with a limited number of times, else the first matching permanent one, else the normal response. If
a fault happened fewer times than scripted, the end of the stub's `with` block raises `FaultNotReached`, because a test
that relies on this fault has tested nothing. Faults of gRPC calls are scripted in the same way, at `PROXY`.

Faults of the cluster happen at once: a broker goes down, a slave lags, a queue is lost.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol, TypedDict, TypeVar, Unpack

from pyspark_rocketmq.errors import OptionError, RocketMQError
from pyspark_rocketmq.model import MessageQueue
from pyspark_rocketmq.wire.codes import RequestCode, ResponseCode
from pyspark_rocketmq.wire.header import Command

from .arguments import check_count, check_known, check_ms, suggest
from .requests import ReplyFault, response
from .state import Broker, Cluster

T = TypeVar("T")

NAME_SERVER = "name server"
PROXY = "proxy"
"""Name of the gRPC proxy, as a value of `at`.

`on` is then a method's name, and `answer` takes a code of RocketMQ's gRPC protocol, or a broker's code to translate.
"""
BUSY_REMARK = "[REJECTREQUEST]system busy, start flow control for a while"


class FaultTarget(TypedDict, total=False):
    """Keyword arguments of a fault: which requests it applies to, at which server, and how often."""

    on: RequestCode | str | None
    at: str | None
    times: int | None


class FaultNotReached(RocketMQError):
    """Raised if a scripted fault happened fewer times than scripted."""

    code = "FAULT_NOT_REACHED"


@dataclass(slots=True, eq=False)
class Fault:
    """One scripted fault: to which requests it applies, what it does to their responses, and how often."""

    what: str
    on: RequestCode | str | None
    """Request code or gRPC method to which the fault applies; None: all."""
    at: str | None
    """Name of a broker, `NAME_SERVER` or `PROXY`; None: all brokers."""
    remaining: int | None
    """Number of times that the fault will still happen; None: without limit."""
    reply_fault: ReplyFault | None = None
    make_response: Callable[[], Command] | None = None
    status: int | None = None
    """The code of a response that would have the code SUCCESS."""
    fired: int = field(default=0)
    """Number of times that the fault has happened."""

    def matches(self, server: str, request: int | str) -> bool:
        """Return whether the fault applies to this request (a code or gRPC method) at this server."""
        is_here = self.at == server if self.at else server not in (NAME_SERVER, PROXY)
        return is_here and self.on in (None, request)

    def __str__(self) -> str:
        times = "permanently" if self.remaining is None else f"{self.remaining} more times"
        request = self.on.name if isinstance(self.on, RequestCode) else self.on or "any request"
        return f"{self.what} on {request} at {self.at or 'any broker'}, {times}"


class FaultScript:
    """The scripted faults of a stub, in the order in which they were added."""

    def __init__(self) -> None:
        self._faults: list[Fault] = []

    def __len__(self) -> int:
        return len(self._faults)

    def add(self, fault: Fault) -> Fault:
        """Append a fault to the script and return it."""
        self._faults.append(fault)
        return fault

    def take(self, server: str, request: int | str) -> Fault | None:
        """Return the fault that applies to a request, and count it as happened; None if no fault applies."""
        fitting = [fault for fault in self._faults if fault.matches(server, request)]
        fault = next((fault for fault in fitting if fault.remaining is not None), fitting[0] if fitting else None)
        if fault is not None:
            self._count(fault)
        return fault

    def clear(self) -> None:
        """Remove all faults, whether they happened or not."""
        self._faults.clear()

    def check_reached(self) -> None:
        """Raise FaultNotReached if a fault happened fewer times than scripted."""
        missing = [str(fault) for fault in self._faults if fault.remaining is not None]
        if missing:
            raise FaultNotReached(
                f"scripted faults never happened: {'; '.join(missing)}",
                advice="provoke them in the test, or call faults.clear()",
            )

    def _count(self, fault: Fault) -> None:
        fault.fired += 1
        if fault.remaining is not None:
            fault.remaining -= 1
            if not fault.remaining:
                self._faults.remove(fault)


class StubControl(Protocol):
    """The methods of the stub that faults use: to run a function in its thread, and to accept or refuse connections."""

    def run(self, function: Callable[[], T]) -> T:
        """Run a function in the stub's thread and return its result."""

    def open(self, broker: Broker) -> None:
        """Accept connections to a broker."""

    def refuse(self, broker: Broker) -> None:
        """Refuse new connections to a broker."""

    def shut(self, broker: Broker) -> None:
        """Refuse new connections to a broker and end the open ones."""


class Faults:
    """The stub's fault injector, for use from any thread.

    Methods for faults of responses take `on` (a request code or its name, at `PROXY` a method's name; default: all),
    `at` (a broker's name, `NAME_SERVER` or `PROXY`; default: all brokers) and `times` (default: once; None: permanent).
    They return the `Fault`, which counts how often it happened. Methods for faults of brokers apply to the broker
    processes with the given name and id; None stands for every name or id.
    """

    def __init__(self, cluster: Cluster, script: FaultScript, control: StubControl) -> None:
        self._cluster = cluster
        self._script = script
        self._control = control

    def __repr__(self) -> str:
        return f"<Faults, {len(self._script)} scripted>"

    def clear(self) -> None:
        """Remove all scripted faults, whether they happened or not."""
        self._control.run(self._script.clear)

    # --- faults of responses -----------------------------------------------------------------------------------------

    def answer(self, code: int, remark: str = "scripted", **when: Unpack[FaultTarget]) -> Fault:
        """Script a fault: respond with this response code and remark instead of carrying out the request."""
        check_count("code", code, 0)
        return self._add(f"answer {code}", when, make_response=lambda: response(code, {}, remark=remark))

    def busy(self, **when: Unpack[FaultTarget]) -> Fault:
        """Script a fault: respond that the broker is busy, instead of carrying out the request."""
        return self.answer(ResponseCode.SYSTEM_BUSY, BUSY_REMARK, **when)

    def flow_control(self, **when: Unpack[FaultTarget]) -> Fault:
        """Script a fault: respond that the client must slow down, instead of carrying out the request."""
        return self.answer(ResponseCode.FLOW_CONTROL, "flow control", **when)

    def status(self, code: int, **when: Unpack[FaultTarget]) -> Fault:
        """Script a fault: carry out the request, but respond with this code instead of SUCCESS.

        So a broker says, for example, that it has stored a message and its replica has not (`FLUSH_SLAVE_TIMEOUT`).
        """
        check_count("code", code, 0)
        return self._add(f"status {code}", _forbid_proxy(when), status=code)

    def delay(self, ms: int, **when: Unpack[FaultTarget]) -> Fault:
        """Script a fault: carry out the request at once, but send the response `ms` later, by the stub's clock."""
        check_ms("ms", ms)
        return self._add(f"delay by {ms} ms", when, ReplyFault(delay_ms=ms))

    def drop_reply(self, **when: Unpack[FaultTarget]) -> Fault:
        """Script a fault: carry out the request, but send no response."""
        return self._add("drop the reply", when, ReplyFault(drop=True))

    def cut_reply(self, **when: Unpack[FaultTarget]) -> Fault:
        """Script a fault: carry out the request, but send half of the response and close the connection.

        A gRPC call ends with UNAVAILABLE.
        """
        return self._add("cut the reply", when, ReplyFault(cut=True))

    def half_close(self, **when: Unpack[FaultTarget]) -> Fault:
        """Script a fault: carry out the request, but send nothing more on its connection; go on reading from it."""
        return self._add("half-close", _forbid_proxy(when), ReplyFault(half_close=True))

    def trickle(self, **when: Unpack[FaultTarget]) -> Fault:
        """Script a fault: carry out the request, but send the response one byte at a time."""
        return self._add("trickle the reply", _forbid_proxy(when), ReplyFault(trickle=True))

    def _add(
        self,
        what: str,
        when: FaultTarget,
        reply_fault: ReplyFault | None = None,
        make_response: Callable[[], Command] | None = None,
        status: int | None = None,
    ) -> Fault:
        check_known(f"a fault ({what})", when, FaultTarget.__annotations__)
        at, times = when.get("at"), when.get("times", 1)
        if times is not None:
            check_count("times", times, 1)
        if at not in (None, NAME_SERVER, PROXY):
            self._check_broker(at)
        fault = Fault(what, _find_request(when.get("on"), at), at, times, reply_fault, make_response, status)
        return self._control.run(lambda: self._script.add(fault))

    def _check_broker(self, name: str) -> None:
        """Raise `OptionError` unless a broker has this name."""
        known = self._control.run(lambda: sorted({broker.name for broker in self._cluster.brokers}))
        if name not in known:
            advice = suggest(str(name), [*known, NAME_SERVER, PROXY]) or f"it has {', '.join(known)}"
            raise OptionError("at", str(name), "the stub has no broker of this name", advice=advice)

    # --- faults of brokers -------------------------------------------------------------------------------------------

    def refuse(self, broker: str | None = None) -> None:
        """Refuse new connections to a broker and its slaves (None: to all) until `broker_up`; open connections stay."""
        self._act_on_brokers(broker, self._control.refuse)

    def broker_down(self, broker: str | None = None, broker_id: int | None = None) -> None:
        """Crash broker processes: close their sockets, remove them from routes, and drop their locks and members."""
        self._act_on_brokers(broker, self._take_down, broker_id)

    def broker_up(self, broker: str | None = None, broker_id: int | None = None) -> None:
        """Start crashed broker processes again at their old addresses, with their old messages and offsets."""
        self._act_on_brokers(broker, self._bring_up, broker_id)

    def forget_members(self, group: str, broker: str | None = None) -> None:
        """Make brokers forget the members of a group until their next heartbeats, as a restart does."""
        self._act_on_brokers(broker, lambda broker: broker.consumer_groups.forget(group))

    def slave_lag(self, messages: int, broker: str | None = None) -> None:
        """Make slaves lag behind their master by this number of messages in each queue."""
        self._act_on_brokers(broker, lambda broker: broker.set_lag(messages))

    def _act_on_brokers(self, name: str | None, act: Callable[[Broker], None], broker_id: int | None = None) -> None:
        def act_on_all() -> None:
            brokers = self._cluster.find_brokers(name, broker_id)
            if not brokers:
                raise OptionError("broker_id", str(broker_id), "no broker has it", advice="0 is a master, 1 a slave")
            for broker in brokers:
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
        """Remove the last queue of a topic, with its messages, at each master, or only at the master named `broker`."""
        self._control.run(lambda: self._require_topic(topic))
        self._act_on_brokers(broker, lambda broker: broker.remove_queue(topic))

    def _require_topic(self, topic: str) -> None:
        known = {config.topic_name for broker in self._cluster.brokers for config in broker.topics}
        if topic not in known:
            advice = suggest(topic, known) or "name a topic that exists"
            raise OptionError("topic", topic, "no broker has it, so it has no queue to lose", advice=advice)

    def clock_jump(self, ms: int) -> None:
        """Move the wall time forward by `ms`, or back if `ms` is negative; no timer becomes due by that."""
        check_ms("ms", ms, least=-math.inf)
        self._control.run(lambda: self._cluster.clock.jump(ms))

    def reset_offset(self, group: str, queue: MessageQueue, offset: int) -> None:
        """Reset a group's offset in a queue, as an administrator does."""

        def reset() -> None:
            self._cluster.broker(queue.broker_name).offsets.reset(group, queue.topic, queue.queue_id, offset)

        self._control.run(reset)


def _find_request(on: RequestCode | str | None, at: str | None) -> RequestCode | str | None:
    """Return the request code that a text names; raise OptionError if there is none. At the proxy, keep the text."""
    if not isinstance(on, int | str | None):
        raise OptionError("on", str(on), "does not name one request", advice="script a fault for each request")
    if not isinstance(on, str) or at == PROXY:
        return on
    if on not in RequestCode.__members__:
        advice = suggest(on.upper(), RequestCode.__members__) or "give the name of a code, for example PULL_MESSAGE"
        raise OptionError("on", on, "no such request", advice=advice)
    return RequestCode[on]


def _forbid_proxy(when: FaultTarget) -> FaultTarget:
    """Return the target of a fault that acts on bytes or statuses; raise OptionError if that is the gRPC proxy."""
    if when.get("at") == PROXY:
        advice = "use answer, delay, drop_reply or cut_reply"
        raise OptionError("at", PROXY, "the gRPC proxy sends whole messages and no statuses", advice=advice)
    return when
