"""Follow a member on a clock that a test advances, and note the requests that its servers get, with their times."""

from __future__ import annotations

import threading
from typing import Any, NamedTuple

from pyspark_rocketmq.client.consumer import Consumer
from pyspark_rocketmq.client.loop import Loop
from pyspark_rocketmq.wire.codes import RequestCode
from tests.client.fixtures import TIMEOUT_S, Group, ManualClock, queue


class Seen(NamedTuple):
    """One request that a server got."""

    at_s: float
    """The time since the timeline's beginning."""
    code: int
    fields: dict[str, str]
    body: bytes


class Timeline:
    """The time of one member, in which nothing happens by itself."""

    def __init__(self, group: Group) -> None:
        self.clock = ManualClock()
        self._began_s = self.clock.now_s()
        self.seen: list[Seen] = []
        self.member: Any = None
        group.stub.run(lambda: self._observe(group))

    def join(self, consumer: Consumer) -> None:
        """Follow this consumer, which uses the timeline's clock."""
        self.member = consumer._member
        self.settle()

    @property
    def now_s(self) -> float:
        """The time since the timeline's beginning."""
        return self.clock.now_s() - self._began_s

    def times(self, code: RequestCode, **fields: object) -> list[float]:
        """Return the times of the requests with this code and these header fields."""
        return [each.at_s for each in self.requests(code, **fields)]

    def requests(self, code: RequestCode, **fields: object) -> list[Seen]:
        """Return the requests with this code and these header fields."""
        wanted = {name: str(value) for name, value in fields.items()}
        return [each for each in tuple(self.seen) if each.code == code and wanted.items() <= each.fields.items()]

    def pass_s(self, seconds: float, step_s: float | None = None) -> None:
        """Advance the clock, by steps if given, and let the member do after each step what is due."""
        step_s = step_s or seconds
        for _ in range(round(seconds / step_s)):
            self.clock.advance(step_s)
            self.settle()

    def settle(self) -> None:
        """Wait until the member's loops have done what is due, and its servers have got all requests of them."""
        for loop in self._loops() * 2:
            self.wait_for_loop(loop)
        # All requests to a broker share a connection, so it has read the one-way ones once it answers this one.
        self.member.cluster.offsets.fetch_max([queue(0)])

    def wait_for_threads(self) -> None:
        """Wait until the member's only listener thread has run all commands; fail if the listener does not return."""
        for _ in range(2):
            done = threading.Event()
            self.member.sink._threads.submit(done.set)
            assert done.wait(TIMEOUT_S)

    def wait_for_loop(self, loop: Loop) -> None:
        """Wait until a loop has run what is due now."""
        done = threading.Event()
        loop.call_soon(done.set)
        for _ in range(int(TIMEOUT_S * 100)):
            if done.wait(0.01):
                return
            self.clock.advance(0.0)  # The loop may have begun to wait after the last change of the time.
        raise AssertionError(f"{loop!r} did not run what is due")

    def _loops(self) -> list[Loop]:
        member = self.member
        renewals = getattr(member.sink, "_renewals", None)
        running = [renewals] if renewals and renewals.thread.is_alive() else []
        return [member._heartbeats, *running, member.timer, member._pull_loop]

    def _observe(self, group: Group) -> None:
        for server_socket in (group.stub._name_server_socket, *group.stub._server_sockets.values()):
            dispatcher: Any = server_socket._dispatcher
            dispatcher.authorize = self._note

    def _note(self, _server: object, request: Any) -> None:
        command = request.command
        self.seen.append(Seen(self.now_s, command.code, dict(command.fields or {}), request.body))
