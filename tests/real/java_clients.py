"""Drive the official Java clients from tests.

    with JavaClients("5.3.3", cluster.name_server) as clients:      # one JVM, ready within a second
        producer = clients.producer("group")
        sent = producer.call("send", message("orders", "hello", TAGS="red"))
        consumer = clients.push_consumer("readers", {"orders": "red"})
        assert consumer.wait_for(1)[0]["body"] == "hello"

Objects are named after the official classes, and settings after their setters; `call` takes any public method by its
official name, with messages, queues (`queue`), SQL selectors, callbacks (`CALLBACK`, whose outcome `call` returns) and
queue selectors (`SELECT` by index, `BY_HASH`, `BY_CHANCE`). `mqadmin` runs a command of the command line. The Java
side (`java/`) is compiled once for each release.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import shutil
import subprocess
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import IO, Any, cast

from .artefacts import CACHE, CONF, class_path, java_home_tool
from .processes import OPENED_MODULES, QUICK_START

Json = dict[str, Any]
SOURCES = Path(__file__).with_name("java")
CALL_SECONDS = 45
WAIT_SECONDS = 45

CALLBACK = {"callback": True}
SELECT = {"select": True}
BY_HASH = {"select": "SelectMessageQueueByHash"}
BY_CHANCE = {"select": "SelectMessageQueueByRandom"}

_SYSTEM_PROPERTIES = {
    "rocketmq.client.rebalance.waitInterval": "1000",
    "rocketmq.client.rebalance.minInterval": "500",
    "rocketmq.client.logLevel": "WARN",
}
_CLIENT_SETTINGS = {"heartbeatBrokerInterval": 5000, "pollNameServerInterval": 1000, "mqClientApiTimeout": 20_000}
_SEND_SETTINGS = {"sendMsgTimeout": 20_000}
_ADMIN_TIMEOUT_MS = 20_000


class JavaError(Exception):
    """An exception that a Java method raised: its class, its text and, if a broker sent it, the response code."""

    def __init__(self, error: Json) -> None:
        super().__init__(f"{error['type']}: {error['message']}")
        self.type = str(error["type"])
        self.code: int | None = error["code"]


def message(topic: str, body: str, **properties: str) -> Json:
    """Return a message as a JSON object for Java; TAGS, KEYS and DELAY may be among its properties."""
    return {"topic": topic, "body": body, "properties": properties}


def queue(topic: str, broker_name: str, queue_id: int) -> Json:
    """Return a message queue as a JSON object for Java."""
    return {"topic": topic, "brokerName": broker_name, "queueId": queue_id}


class JavaClients:
    """A JVM with official clients of one release, which are connected to one cluster."""

    def __init__(self, version: str, name_server: str, **properties: str) -> None:
        self.version = version
        self.name_server = name_server
        self._home = tempfile.TemporaryDirectory(prefix=f"rocketmq-client-{version}-")
        self._log = Path(self._home.name, "out.log")
        self._ids = itertools.count(1)
        self._answers: dict[int, SimpleQueue[Json]] = {}
        self._events: dict[str, list[Json]] = {}
        self._news = threading.Condition()
        self._objects: list[JavaObject] = []
        self._process = self._start(properties)
        self._reader = threading.Thread(target=self._read, args=(self._process.stdout,), daemon=True)
        self._reader.start()

    def __enter__(self) -> JavaClients:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Shut down all clients in order, and end the JVM."""
        if self._process.poll() is None:
            self.shutdown_all()
        self.kill()

    def kill(self) -> None:
        """End the JVM without a shutdown; brokers notice that its connections break."""
        self._process.kill()
        self._process.wait()
        self._reader.join(timeout=5)
        for pipe in (self._process.stdin, self._process.stdout):
            cast("IO[str]", pipe).close()
        self._home.cleanup()

    def shutdown_all(self) -> None:
        """Shut down all clients at the same time and forget them; a second call has no effect."""
        under_way = [self.begin(made, "shutdown") for made in self._objects]
        self._objects.clear()
        for wait in under_way:
            wait()

    @property
    def log_tail(self) -> str:
        """The last lines that the JVM wrote to its log."""
        return self._log.read_text(encoding="utf-8", errors="replace")[-4000:] if self._log.exists() else ""

    # --- objects -----------------------------------------------------------------------------------------------------

    def producer(self, group: str, *args: object, **settings: object) -> JavaObject:
        """Return a started DefaultMQProducer of this group."""
        return self.create("client.producer.DefaultMQProducer", group, *args, **{**_SEND_SETTINGS, **settings}).start()

    def transaction_producer(self, group: str, script: Mapping[str, Sequence[Json]]) -> JavaObject:
        """Return a started TransactionMQProducer.

        The script lists outcomes for each body: first that of the local transaction, then those of the broker's checks.
        """
        producer = self.create("client.producer.TransactionMQProducer", group, **_SEND_SETTINGS)
        producer.listen(script)
        return producer.start()

    def push_consumer(
        self,
        group: str,
        subscriptions: Mapping[str, str | Json],
        script: Mapping[str, Sequence[Json]] | None = None,
        *,
        orderly: bool = False,
        replier: JavaObject | None = None,
        credentials: Json | None = None,
        **settings: object,
    ) -> JavaObject:
        """Return a started DefaultMQPushConsumer, which reads from the beginning and reports all deliveries.

        The script lists outcomes for each body; without one every delivery succeeds.
        """
        defaults: Json = {"consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET", "persistConsumerOffsetInterval": 500}
        signing = [credentials, "AllocateMessageQueueAveragely"] if credentials else []
        consumer = self.create("client.consumer.DefaultMQPushConsumer", group, *signing, **{**defaults, **settings})
        for topic, expression in subscriptions.items():
            consumer.call("subscribe", topic, expression)
        consumer.listen(script or {}, orderly=orderly, replier=replier)
        return consumer.start()

    def lite_pull_consumer(self, group: str, **settings: object) -> JavaObject:
        """Return a DefaultLitePullConsumer that is neither subscribed nor started."""
        return self.create("client.consumer.DefaultLitePullConsumer", group, **settings)

    def pull_consumer(self, group: str) -> JavaObject:
        """Return a started DefaultMQPullConsumer of this group."""
        return self.create("client.consumer.DefaultMQPullConsumer", group).start()

    def admin(self) -> JavaObject:
        """Return a started DefaultMQAdminExt."""
        return self.create("tools.admin.DefaultMQAdminExt", _ADMIN_TIMEOUT_MS).start()

    def mqadmin(self, *words: str) -> str:
        """Run a command of mqadmin in the JVM; return its output."""
        return str(self.request(op="mqadmin", args=[*words, "-n", self.name_server]))

    def create(self, java_class: str, *args: object, **settings: object) -> JavaObject:
        """Create an object of a class below org.apache.rocketmq and apply these settings; return it."""
        name = f"{java_class.rpartition('.')[2]}-{next(self._ids)}"
        identity = {"namesrvAddr": self.name_server, "instanceName": name}
        given = {**_CLIENT_SETTINGS, **identity, **settings}
        self.request(op="create", object=name, args=list(args), settings=given, **{"class": java_class})
        made = JavaObject(self, name)
        self._objects.append(made)
        return made

    # --- requests and events -----------------------------------------------------------------------------------------

    def request(self, **request: object) -> Any:
        """Send a request to the JVM and return the result; raise `JavaError` if Java raised an exception."""
        return self._answer(self._send(request))

    def begin(self, target: JavaObject, method: str, *args: object) -> Callable[[], Any]:
        """Start a call of a method; return a function that waits for the call's result and returns it."""
        answer = self._send({"op": "call", "object": target.name, "method": method, "args": list(args)})
        return lambda: self._answer(answer)

    def events(self, name: str, event: str) -> list[Json]:
        """Return the events of one kind, such as deliveries, that an object has reported so far."""
        with self._news:
            return [line for line in self._events.get(name, []) if line["event"] == event]

    def wait(self, condition: Callable[[], bool], what: str, timeout_s: float = WAIT_SECONDS) -> None:
        """Wait until the condition, which reads events, is true; raise `AssertionError` at the timeout."""
        with self._news:
            if not self._news.wait_for(condition, timeout_s):
                raise AssertionError(f"not within {timeout_s} s: {what}\n{self.log_tail}")

    def _send(self, request: Mapping[str, object]) -> SimpleQueue[Json]:
        number = next(self._ids)
        answer = self._answers[number] = SimpleQueue()
        stdin = cast("IO[str]", self._process.stdin)
        stdin.write(json.dumps({"id": number, **request}) + "\n")
        stdin.flush()
        return answer

    def _answer(self, answer: SimpleQueue[Json]) -> Any:
        try:
            line = answer.get(timeout=CALL_SECONDS)
        except Empty:
            raise AssertionError(f"no answer within {CALL_SECONDS} s\n{self.log_tail}") from None
        if "error" in line:
            raise JavaError(line["error"])
        return line["result"]

    def _start(self, properties: Mapping[str, str]) -> subprocess.Popen[str]:
        home = self._home.name
        (Path(home) / "conf").mkdir()
        shutil.copy(CONF / "logback.xml", Path(home) / "conf" / "logback_tools.xml")  # mqadmin of 4.9 reads this file.
        logging = {"rmq.logback.configurationFile": str(CONF / "logback.xml"), "rocketmq.client.logRoot": home}
        places = {"user.home": home, "rocketmq.home.dir": home}
        given = {**_SYSTEM_PROPERTIES, **logging, **places, **properties}
        switches = [f"-D{name}={value}" for name, value in given.items()]
        java = [java_home_tool("java"), "-Xmx256m", *QUICK_START, *OPENED_MODULES, *switches]
        command = [*java, "-cp", f"{driver_classes(self.version)}:{class_path(self.version)}", "Driver"]
        with self._log.open("wb") as log:
            return subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                encoding="utf-8",
                cwd=home,
                start_new_session=True,
            )

    def _read(self, lines: IO[str]) -> None:
        for text in lines:
            line = json.loads(text)
            if "id" in line:
                self._answers.pop(line["id"]).put(line)
            else:
                with self._news:
                    self._events.setdefault(line["object"], []).append(line)
                    self._news.notify_all()
        for answer in list(self._answers.values()):
            answer.put({"error": {"type": "ProcessEnded", "message": self.log_tail, "code": None}})


class JavaObject:
    """An object in the JVM, such as a client, addressed by its name."""

    def __init__(self, clients: JavaClients, name: str) -> None:
        self.clients = clients
        self.name = name

    def call(self, method: str, *args: object) -> Any:
        """Call a public method of the object and return its result; raise `JavaError` for an exception."""
        return self.clients.request(op="call", object=self.name, method=method, args=list(args))

    def start(self) -> JavaObject:
        """Start the client and return it."""
        self.call("start")
        return self

    def shutdown(self) -> None:
        """Shut the client down in order."""
        self.call("shutdown")

    def listen(
        self, script: Mapping[str, Sequence[Json]], *, orderly: bool = False, replier: JavaObject | None = None
    ) -> None:
        """Register a listener that reports each call and returns the outcomes in the script."""
        answers: Json = {"script": {body: list(outcomes) for body, outcomes in script.items()}, "orderly": orderly}
        self.clients.request(op="listen", object=self.name, **answers, **({"replier": replier.name} if replier else {}))

    def held_queues(self, topic: str) -> set[int]:
        """Return the ids of a topic's queues that this push consumer holds now."""
        # Only the keys of the table, because its values change while Java serializes them.
        held = self.call("getDefaultMQPushConsumerImpl.getRebalanceImpl.getProcessQueueTable.keySet")
        return {int(queue["queueId"]) for queue in held if queue["topic"] == topic}

    @property
    def deliveries(self) -> list[Json]:
        """The deliveries to this consumer so far, in their order."""
        return self.clients.events(self.name, "delivery")

    @property
    def checks(self) -> list[Json]:
        """The checks of open transactions that this producer has received so far."""
        return self.clients.events(self.name, "check")

    @property
    def bodies(self) -> list[str]:
        """The bodies of all deliveries so far, in their order."""
        return [delivery["body"] for delivery in self.deliveries]

    def wait_for_bodies(self, *bodies: str) -> None:
        """Wait until these bodies were delivered, each as often as it is listed; other bodies do not matter."""
        wanted = Counter(bodies)
        self.clients.wait(lambda: wanted <= Counter(self.bodies), f"{wanted} to {self.name}: {self.bodies}")

    def wait_for(self, count: int) -> list[Json]:
        """Wait until `count` messages were delivered; return all deliveries."""
        self.clients.wait(lambda: len(self.deliveries) >= count, f"{count} deliveries to {self.name}: {self.bodies}")
        return self.deliveries


def driver_classes(version: str) -> Path:
    """Return the directory of the Java side's classes for a release; compile them first if sources changed."""
    sources = sorted(SOURCES.glob("*.java"))
    stamp = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:16]
    target = CACHE / f"driver-{version}-{stamp}"
    if not target.exists():
        classes = class_path(version)
        with tempfile.TemporaryDirectory(dir=CACHE) as fresh:
            command = [java_home_tool("javac"), "-nowarn", "-cp", classes, "-d", f"{fresh}/classes", *map(str, sources)]
            done = subprocess.run(command, capture_output=True, text=True, timeout=120)
            assert done.returncode == 0, done.stderr
            _move_in(Path(fresh, "classes"), target)
    return target


def _move_in(source: Path, target: Path) -> None:
    """Rename a finished directory to its final name, unless a parallel run has done so first."""
    try:
        source.rename(target)
    except OSError:
        assert target.exists()


def eventually(condition: Callable[[], Any], what: str, timeout_s: float = WAIT_SECONDS) -> Any:
    """Call a function until its result is true, and return the result; a `JavaError` counts as false.

    Raise `AssertionError` at the timeout.
    """
    deadline = time.monotonic() + timeout_s
    last: object = None
    while time.monotonic() < deadline:
        try:
            if last := condition():
                return last
        except JavaError as error:
            last = error
        time.sleep(0.1)
    raise AssertionError(f"not within {timeout_s} s: {what}; last: {last}")
