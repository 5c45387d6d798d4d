"""Who owns this queue now, and what do we do when that changes?

A request for a queue goes to the address that the topic's route names for its broker: to the master, or where any
copy will do, to a replica when there is no master. If the answer says that the route is old, the next attempt goes by a
new one. Requests for many queues leave in one burst per broker.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple, TypeVar, cast

from ..errors import NoBrokerAvailable, RocketMQError
from ..model import Address
from ..net.deadline import Deadline, in_turn
from ..wire.bodies import TopicConfig
from ..wire.commands import GetTopicConfigRequestHeader, RequestHeader
from .compaction import CompactedTopics
from .requests import Answer, Question, Requests
from .retrying import Retrying
from .route_table import RouteTable
from .routes import MASTER_ID, Place, Route

K = TypeVar("K", bound=Hashable)
Errors = tuple[type[RocketMQError], ...]


class Errand(NamedTuple):
    """A request for whichever process of a broker serves a topic now."""

    topic: str
    broker_name: str
    header: RequestHeader
    body: bytes = b""


class Brokers:
    """The brokers behind the routes."""

    def __init__(self, requests: Requests, routes: RouteTable) -> None:
        settings = requests.settings
        self.settings = settings
        self.requests = requests
        self.routes = routes
        self.compacted = CompactedTopics(self._fetch_topic_config)
        self._retrying = Retrying(settings.retries, settings.pause, patience_s=settings.patience_s)

    def __repr__(self) -> str:
        return f"<Brokers by {self.routes!r}>"

    # --- by route ----------------------------------------------------------------------------------------------------

    def ask(self, errand: Errand, *, any_copy: bool = False, deadline: Deadline | None = None) -> Answer:
        """Ask one broker, again if that may help."""
        return self.ask_all({None: errand}, any_copy=any_copy, deadline=deadline)[None]

    def ask_all(
        self,
        errands: Mapping[K, Errand],
        *,
        absent: Errors = (),
        any_copy: bool = False,
        deadline: Deadline | None = None,
    ) -> dict[K, Answer]:
        """Ask all at once; what fails is asked again if that may help. What fails with `absent` is left out."""
        outcomes: dict[K, Answer | None] = {}

        def attempt() -> None:
            missing = {key: errand for key, errand in errands.items() if key not in outcomes}
            failures = []
            for key, result in self.try_all(missing, any_copy=any_copy, deadline=deadline).items():
                if isinstance(result, Answer):
                    outcomes[key] = result
                elif isinstance(result, absent):
                    outcomes[key] = None
                else:
                    failures.append(result)
            if failures:
                raise next((error for error in failures if not error.retriable), failures[0])

        self._need_routes({errand.topic for errand in errands.values()}, deadline)
        self._retrying.run(attempt, deadline)
        return {key: answer for key in errands if (answer := outcomes[key])}

    def try_all(
        self, errands: Mapping[K, Errand], *, any_copy: bool = False, deadline: Deadline | None = None
    ) -> dict[K, Answer | RocketMQError]:
        """Ask all at once and once only; for each its answer, or the error in its place."""
        routes = {topic: self._try_route(topic, deadline) for topic in {errand.topic for errand in errands.values()}}
        placed = {key: _place(errand, routes[errand.topic], any_copy) for key, errand in errands.items()}
        questions = {key: question for key, question in placed.items() if isinstance(question, Question)}
        outcomes = self.requests.ask_all(tuple(questions.values()), deadline=deadline)
        answered = dict(zip(questions, outcomes, strict=True))
        results = {key: answered.get(key) or cast(RocketMQError, placed[key]) for key in errands}
        for key, result in results.items():
            self._learn(errands[key].topic, result)
        return results

    def ask_each(
        self,
        topic: str,
        header: RequestHeader,
        *,
        absent: Errors = (),
        any_copy: bool = False,
        deadline: Deadline | None = None,
    ) -> dict[str, Answer]:
        """Ask every broker that holds queues of a topic the same; answers by broker name."""
        errands = {name: Errand(topic, name, header) for name in self._names(topic, deadline)}
        return self.ask_all(errands, absent=absent, any_copy=any_copy, deadline=deadline)

    def ask_any(
        self, topic: str, header: RequestHeader, body: bytes = b"", *, deadline: Deadline | None = None
    ) -> Answer:
        """Ask the brokers that hold queues of a topic one after the other, until one answers."""
        self._need_routes([topic], deadline)
        return self._retrying.run(lambda: self._ask_around(topic, header, body, deadline), deadline)

    def tell(self, errand: Errand, *, deadline: Deadline | None = None) -> None:
        """Send a master something that wants no answer, again if that may help."""
        self._need_routes([errand.topic], deadline)
        self._retrying.run(lambda: self._tell(errand, deadline), deadline)

    # --- by address --------------------------------------------------------------------------------------------------

    def ask_at(
        self,
        address: Address,
        header: RequestHeader,
        body: bytes = b"",
        *,
        broker_name: str = "",
        deadline: Deadline | None = None,
    ) -> Answer:
        """Ask one process, again if that may help."""
        question = Question(address, header, body, broker_name)
        return self._retrying.run(lambda: self.requests.ask(question, deadline=deadline), deadline)

    # --- routes ------------------------------------------------------------------------------------------------------

    @contextmanager
    def watching(self, topic: str) -> Iterator[None]:
        """Learn from an error that passes whether the topic's route is old."""
        try:
            yield
        except RocketMQError as error:
            self._learn(topic, error)
            raise

    def _fetch_topic_config(self, topic: str, broker_name: str) -> TopicConfig:
        errand = Errand(topic, broker_name, GetTopicConfigRequestHeader(topic=topic))
        return self.ask(errand, any_copy=True).body(TopicConfig)

    def _names(self, topic: str, deadline: Deadline | None) -> list[str]:
        names = sorted(self.routes.route(topic, deadline).brokers)
        if not names:
            raise NoBrokerAvailable("no broker holds the topic now", advice="start one that does", topic=topic)
        return names

    def question(self, errand: Errand, *, any_copy: bool = False, deadline: Deadline | None = None) -> Question:
        """The errand as a question to one process: the master's, or with `any_copy` another's if there is none."""
        question = _place(errand, self.routes.route(errand.topic, deadline), any_copy)
        if isinstance(question, RocketMQError):
            raise question
        return question

    def _try_route(self, topic: str, deadline: Deadline | None) -> Route | RocketMQError:
        try:
            return self.routes.route(topic, deadline)
        except RocketMQError as error:
            return error

    def _need_routes(self, topics: Iterable[str], deadline: Deadline | None) -> None:
        """Fail now if there is no route: name servers have been asked again already."""
        for topic in topics:
            self.routes.route(topic, deadline)

    def _ask_around(self, topic: str, header: RequestHeader, body: bytes, deadline: Deadline | None) -> Answer:
        """Each broker has its share of the time, so that one that does not answer leaves some for the others."""
        failures, names = [], self._names(topic, deadline)
        for name, own_deadline in in_turn(deadline, names):
            errand = Errand(topic, name, header, body)
            [result] = self.try_all({name: errand}, any_copy=True, deadline=own_deadline).values()
            if isinstance(result, Answer):
                return result
            failures.append(result)
            if not result.retriable:
                break
        raise failures[-1]

    def _tell(self, errand: Errand, deadline: Deadline | None) -> None:
        with self.watching(errand.topic):
            self.requests.tell(self.question(errand, deadline=deadline), deadline)

    def _learn(self, topic: str, result: Answer | RocketMQError) -> None:
        if isinstance(result, RocketMQError) and result.refresh_routes:
            self.routes.expire(topic)


def _place(errand: Errand, route: Route | RocketMQError, any_copy: bool) -> Question | RocketMQError:
    """The errand as a question to one process, or why it cannot be one."""
    if isinstance(route, RocketMQError):
        return route
    _, broker_name, header, body = errand
    try:
        broker = route.broker(broker_name)
        place = broker.to_read() if any_copy else Place(MASTER_ID, broker.master())
    except RocketMQError as error:
        return error.locate(topic=errand.topic)
    return Question(place.address, header, body, broker_name, place.broker_id)
