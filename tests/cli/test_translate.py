"""Test the command `translate`: its tables, its ways to read options, and what it shows of secrets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pyspark_rocketmq.cli.exits import Exit
from pyspark_rocketmq.cli.translation.rules import Rule
from pyspark_rocketmq.cli.translation.translate import PRODUCTS, is_secret
from pyspark_rocketmq.options import parse_reader_options, parse_writer_options
from pyspark_rocketmq.options.keys import find_option
from tests.cli.fixtures import RunCommand

EVERY = [
    (f"{product.name} {use} {rule.names[0]}", rule, use)
    for product in PRODUCTS.values()
    for use, rules in (("S", product.reads), ("W", product.writes))
    for rule in rules
]
RULES = [pytest.param(rule, use, id=name) for name, rule, use in EVERY]
CONVERTING = [pytest.param(rule, use, id=name) for name, rule, use in EVERY if rule.convert]
VALUES = {
    "kafka.security.protocol": "SSL",
    "kafka.compression.type": "zstd",
    "assign": '{"orders": [0]}',
    "startingOffsetsByTimestamp": '{"orders": {"0": 5}}',
    "endingOffsetsByTimestamp": '{"orders": {"0": 5}}',
    "startingOffsets": "latest",
    "endingOffsets": "latest",
    "rocketmq.source.stop.offset.timestamp": "2026-01-31 00:00:00",
    "scanStartupMode": "earliest",
    "consumer.messages.orderly": "true",
    "startTime": "2026-01-31 00:00:00",
    "endTime": "2026-01-31 00:00:00",
    "rocketmq.source.startup.offset.date": "2026-01-31 00:00:00",
    "rocketmq.sink.delivery.guarantee": "AT_LEAST_ONCE",
    "consumer.offset.reset.to": "earliest",
    "rocketmq.source.offset.commit.auto": "false",
    "startMessageOffset": "-1",
}
"""Values of options that do not take a number."""


def translate(run: RunCommand, *words: str) -> Any:
    """Return the only job of a translation."""
    ran = run("translate", *words, "--json")
    assert (ran.code, ran.err) == (Exit.DONE, "")
    [job] = ran.document["jobs"]
    return job


def fates(job: Any) -> dict[str, str]:
    """Return the fate of each option."""
    return {note["theirs"]: note["fate"] for note in job["notes"]}


@pytest.mark.parametrize(("rule", "use"), RULES)
def test_every_rule_leads_to_an_option_or_tells_why_not(rule: Rule, use: str) -> None:
    """A rule names an option that is built and is for this use, or says why there is no counterpart."""
    if rule.ours is None:
        assert rule.note and rule.convert is None
        return
    found = find_option(rule.ours, use)
    assert found and found.option.name == rule.ours and not found.option.is_planned
    assert {use, "B"} & set(found.option.use) if use == "S" else use in found.option.use
    assert found.option.secret == rule.is_secret


@pytest.mark.parametrize(("rule", "use"), CONVERTING)
def test_every_conversion_makes_values_that_are_accepted(rule: Rule, use: str) -> None:
    """A converted value is accepted by the option that gets it."""
    assert rule.convert
    given = {"timezone": "GMT+8", "rocketmq.client.timezone": "Asia/Shanghai"}
    options = dict(rule.convert(VALUES.get(rule.names[0], "5000"), given))
    base = {"nameServer": "n:9876", "subscribe": "orders", "consumerGroup": "g"}

    if use == "W":
        parse_writer_options({"nameServer": "n:9876", "topic": "orders", **options}, env={})
    else:
        is_batch = any(name.startswith("ending") for name in options) or options.get("startingOffsetsByTimestamp")
        parse_reader_options({**base, **options}, stream=not is_batch, env={})


@pytest.mark.parametrize("product", PRODUCTS.values(), ids=lambda product: product.name)
def test_no_option_has_two_rules(product: Any) -> None:
    """Each name has one rule for reads and one for writes."""
    for rules in (product.reads, product.writes):
        names = [name.lower() for rule in rules for name in rule.names]
        assert sorted(set(names)) == sorted(names)


def test_a_read_from_kafka(run_command: RunCommand) -> None:
    """A read from Kafka keeps its columns, its topics and limits; offsets of partitions are left out with a reason."""
    job = translate(
        run_command,
        "kafka.bootstrap.servers=broker:9092",
        "subscribe=orders",
        'startingOffsets={"orders": {"0": 23}}',
        "maxOffsetsPerTrigger=1000",
        "kafka.group.id=billing",
        "kafka.max.poll.records=5000",
        "kafka.sasl.jaas.config=password=hidden",
        "kafka.fetch.min.bytes=1",
        "color=blue",
    )

    assert job["options"] == {
        "rowLayout": "kafka",
        "nameServer": "NAME_SERVER:9876",
        "subscribe": "orders",
        "maxOffsetsPerTrigger": "1000",
        "consumerGroup": "billing",
        "pullBatchSize": "1024",
    }
    assert fates(job) == {
        "kafka.bootstrap.servers": "translated",
        "subscribe": "same",
        "startingOffsets": "dropped",
        "maxOffsetsPerTrigger": "same",
        "kafka.group.id": "translated",
        "kafka.max.poll.records": "translated",
        "kafka.sasl.jaas.config": "dropped",
        "kafka.fetch.min.bytes": "dropped",
        "color": "unknown",
    }
    notes = {note["theirs"]: note for note in job["notes"]}
    assert "startingTimestamp" in notes["startingOffsets"]["note"]
    assert notes["kafka.sasl.jaas.config"]["value"] == notes["color"]["value"] == "***"
    assert '.option("pullBatchSize", "1024")' in job["program"]
    assert not any("to be settled" in remark for remark in job["remarks"])


def test_a_program_with_a_read_and_a_write(run_command: RunCommand, tmp_path: Path) -> None:
    """Reads and writes of a program are translated each; other formats are named, expressions stay."""
    (tmp_path / "job.py").write_text(
        '''
        orders = (spark.readStream
            .format("kafka")
            .option("kafka.bootstrap.servers", SERVERS)
            .option("subscribe", ",".join(topics))
            .option("startingOffsets", """earliest""")
            .options(failOnDataLoss=False, minPartitions="8")
            .load())
        orders.write.format("parquet").option("path", "/tmp/(x").save()
        (orders.writeStream.format("kafka").options(**{"kafka.bootstrap.servers": "b:9092", 'topic': 'sums'})
            .option("kafka.acks", "all").option("checkpointLocation", path).start())
        '''
    )
    ran = run_command("translate", "--file", "job.py", "--json")
    read, write = ran.document["jobs"]

    assert (read["use"], write["use"]) == ("readStream", "writeStream")
    assert read["options"] == {
        "rowLayout": "kafka",
        "nameServer": "NAME_SERVER:9876",
        "subscribe": '",".join(topics)',
        "startingOffsets": "earliest",
        "failOnDataLoss": "false",
        "minPartitions": "8",
    }
    assert '.option("subscribe", ",".join(topics))' in read["program"]
    assert write["options"] == {"nameServer": "NAME_SERVER:9876", "topic": "sums"}
    assert fates(write)["kafka.acks"] == "dropped"
    assert ran.document["skipped"] == ["parquet"]


def test_rocketmq_spark(run_command: RunCommand, tmp_path: Path) -> None:
    """Options of rocketmq-spark keep their offsets; both of its sets of names are known."""
    offsets = '{"orders":{"broker-a":{"0":23,"1":-1}}}'
    (tmp_path / "job.properties").write_text(
        f"# a job\nnameServer = n:9876\ntopic: orders\nsubExpression=new || paid\nstartingOffsets={offsets}\n"
    )
    job = translate(run_command, "--file", "job.properties", "--from", "rocketmq-spark")
    receiver = translate(run_command, "nameserver.addr=n:9876", "consumer.topic=orders", "spout.queue.size=5")

    assert job["options"] == {
        "nameServer": "n:9876",
        "subscribe": "orders",
        "tags": "new || paid",
        "startingOffsets": offsets,
    }
    assert receiver["product"] == "rocketmq-spark" and fates(receiver)["spout.queue.size"] == "dropped"


def test_rocketmq_flink(run_command: RunCommand, tmp_path: Path) -> None:
    """A table in Flink's SQL becomes a read; its times get their zone, its secret is not shown."""
    (tmp_path / "table.sql").write_text(
        """CREATE TABLE orders (id BIGINT) WITH (
          'connector' = 'rocketmq', 'topic' = 'orders;refunds', 'consumerGroup' = 'billing',
          'nameServerAddress' = 'n:9876', 'startTime' = '2026-01-31 08:00:00', 'timeZone' = 'GMT+8',
          'accessKey' = 'me', 'secretKey' = 'tell''nobody', 'fieldDelimiter' = ')');"""
    )
    ran = run_command("translate", "--file", "table.sql", "--json")
    [job] = ran.document["jobs"]

    assert (job["product"], fates(job)["fieldDelimiter"]) == ("rocketmq-flink", "dropped")
    assert job["options"] == {
        "subscribe": "orders,refunds",
        "consumerGroup": "billing",
        "nameServer": "n:9876",
        "startingTimestamp": "2026-01-31T08:00:00+08:00",
        "accessKey": "***",
        "secretKey": "***",
    }
    assert "nobody" not in ran.out and "credentialsFile" in job["program"]


def test_options_as_json(run_command: RunCommand, tmp_path: Path) -> None:
    """A JSON object of options is read; what our own check complains of is told."""
    given = {"kafka.bootstrap.servers": "b:9092", "subscribe": "orders", "minPartitions": 0}
    (tmp_path / "options.json").write_text(json.dumps(given))

    job = translate(run_command, "--file", "options.json", "--use", "read")

    assert job["use"] == "read" and "spark.read.format" in job["program"]
    assert any("still to be settled: [OPTION_VALUE] minPartitions" in remark for remark in job["remarks"])


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ([], "give NAME=VALUE words, or --file"),
        (["subscribe=a", "--file", "x"], "give NAME=VALUE words, or --file"),
        (["tell-nobody"], "a word of another form"),
        (["--file", "nowhere"], "unreadable: No such file"),
        (["--file", "empty"], "no options"),
        (["--file", "broken.json"], "not standard JSON"),
        (["--file", "parquet.py"], "only formats of no connector known here: parquet"),
        (["color=blue"], "the options do not tell which connector they are of"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_usage_is_told(run_command: RunCommand, tmp_path: Path, words: list[str], complaint: str) -> None:
    """A command line or file without options is explained in one line, which shows no value."""
    (tmp_path / "empty").write_text("\n")
    (tmp_path / "broken.json").write_text('{"secretKey": "tell-nobody", }')
    (tmp_path / "parquet.py").write_text('spark.read.format("parquet").option("path", "/x").load()')

    ran = run_command("translate", *words)

    assert (ran.code, ran.out) == (Exit.USAGE, "") and complaint in ran.err
    assert ran.err.count("\n") == 1 and "tell-nobody" not in ran.err


def test_people_see_a_table_and_a_program(run_command: RunCommand) -> None:
    """Without `--json` each option is a row, followed by the program and the remarks."""
    out = run_command("translate", "kafka.bootstrap.servers=b:9092", "subscribe=orders").out

    assert "Spark's Kafka source and sink" in out and "nameServer=NAME_SERVER:9876" in out
    assert 'spark.readStream.format("rocketmq")\n    .option("rowLayout", "kafka")\n' in out
    assert "\n- a checkpoint of a Kafka query cannot go on here" in out


@pytest.mark.parametrize(
    "name", ["secretKey", "accessKey", "kafka.ssl.key.password", "kafka.sasl.jaas.config", "securityToken"]
)
def test_names_of_secrets_are_known(name: str) -> None:
    """A value is secret if its option's name says so."""
    assert is_secret(name)


def test_values_of_settings_that_no_table_names_are_not_shown(run_command: RunCommand) -> None:
    """The value of an option of which only the family is known may be a secret."""
    words = ["kafka.basic.auth.user.info=me:tell-nobody", "kafka.sasl.oauthbearer.passphrase=tell-nobody"]

    ran = run_command("translate", "kafka.bootstrap.servers=b:9092", "subscribe=orders", *words, "--json")

    assert ran.code == Exit.DONE and "tell-nobody" not in ran.out
    assert [note["value"] for note in ran.document["jobs"][0]["notes"]] == ["b:9092", "orders", "***", "***"]


def test_lines_of_a_key_are_not_shown(run_command: RunCommand, tmp_path: Path) -> None:
    """Lines of properties that are no option, such as those of a key, are told by their numbers only."""
    key = "A" * 64
    (tmp_path / "job.properties").write_text(
        f"\ufeffsubscribe=orders\nkafka.bootstrap.servers=\\\n  b:9092\n"
        f"kafka.ssl.keystore.key=-----BEGIN KEY-----\n{key}\ntell-nobody/+\n{key}==\n"
    )
    ran = run_command("translate", "--file", "job.properties", "--json")

    assert ran.code == Exit.DONE and "tell-nobody" not in ran.out and key not in ran.out
    [job] = ran.document["jobs"]
    assert job["options"]["subscribe"] == "orders" and fates(job)["kafka.bootstrap.servers"] == "translated"
    assert "options that are not spelt out are missing here: line 5, line 6" in job["remarks"]


@pytest.mark.parametrize("connector", ["rocketmq-flink", "rocketmq-spark"])
def test_a_start_for_queues_without_a_position_stays_one(run_command: RunCommand, connector: str) -> None:
    """`consumer.offset.reset.to` concerns new queues only, so the query goes on where the group stands."""
    words = ["--from", connector, "consumer.topic=orders", "consumer.group=billing", "nameserver.addr=n:9876"]
    if connector == "rocketmq-flink":
        words[-1] = "nameserver.address=n:9876"
    latest = translate(run_command, *words, "consumer.offset.reset.to=latest")
    by_time = translate(
        run_command, *words, "consumer.offset.reset.to=timestamp", "consumer.offset.from.timestamp=1800000000000"
    )
    silent = translate(run_command, *words)

    assert latest["options"].items() >= {"startingOffsets": "group", "startingOffsetsDefault": "latest"}.items()
    assert by_time["options"].items() >= {"startingOffsets": "group", "startingTimestamp": "1800000000000"}.items()
    for job in (latest, by_time):
        assert not any("to be settled" in remark or "no start is given" in remark for remark in job["remarks"])
    assert any("no start is given" in remark and "startingOffsets=group" in remark for remark in silent["remarks"])


def test_an_end_by_time_loses_nothing(run_command: RunCommand) -> None:
    """Of several ends of a topic the latest is taken, and of several starts the earliest; the notes say so."""
    words = [f'{name}OffsetsByTimestamp={{"orders": {{"0": 5, "1": 9}}}}' for name in ("starting", "ending")]
    job = translate(run_command, "kafka.bootstrap.servers=b:9092", "subscribe=orders", "--use", "read", *words)

    assert job["options"]["startingOffsetsByTimestamp"] == '{"orders": 5}'
    assert job["options"]["endingOffsetsByTimestamp"] == '{"orders": 9}'
    assert [note["note"].rpartition(", ")[2] for note in job["notes"][2:]] == ["the earliest", "the latest"]


def test_two_options_that_become_one_are_told(run_command: RunCommand) -> None:
    """If two options with different values become the same one, a remark names them."""
    words = ["kafka.request.timeout.ms=5000", "kafka.default.api.timeout.ms=9000"]
    job = translate(run_command, "kafka.bootstrap.servers=b:9092", "subscribe=orders", *words)

    assert job["options"]["mqClientApiTimeout"] == "9000"
    assert any("both become mqClientApiTimeout" in remark and words[0][:24] in remark for remark in job["remarks"])


def test_remarks_are_those_of_the_use(run_command: RunCommand) -> None:
    """A write is told about the order of rows with a key, and not about the columns of reads."""
    words = ["kafka.bootstrap.servers=b:9092", "topic=orders"]
    remarks = translate(run_command, *words, "--use", "write", "--from", "kafka")["remarks"]

    assert any("ordering=key" in remark for remark in remarks)
    assert not any("rowLayout" in remark or "checkpoint" in remark for remark in remarks)


def test_a_time_in_seconds_is_told(run_command: RunCommand) -> None:
    """A time that was given in seconds would be one of 1970, which a remark says."""
    words = ["kafka.bootstrap.servers=b:9092", "subscribe=orders", "startingTimestamp=1800000000"]
    seconds = translate(run_command, *words)["remarks"]
    milliseconds = translate(run_command, *words[:2], words[2] + "000")["remarks"]

    assert any("startingTimestamp=1800000000 is 1970-01-21" in remark for remark in seconds)
    assert not any("1970" in remark for remark in milliseconds)


def test_a_notebook_is_read(run_command: RunCommand, tmp_path: Path) -> None:
    """The cells of a notebook are one program; members of JSON that are null are not given."""
    cells = [
        {"cell_type": "markdown", "source": 'spark.read.format("x").option("a", "b")'},
        {"cell_type": "code", "source": ["%pip install x\n", 'df = spark.readStream.format("kafka")']},
        {"cell_type": "code", "source": 'df = df.option("subscribe", "orders").load()'},
    ]
    (tmp_path / "job.ipynb").write_text(json.dumps({"cells": cells}))
    (tmp_path / "job.json").write_text('{"kafka.bootstrap.servers": "b:9092", "subscribe": null, "assign": "{}"}')

    assert translate(run_command, "--file", "job.ipynb")["options"]["subscribe"] == "orders"
    assert "subscribe" not in translate(run_command, "--file", "job.json")["options"]
