"""Test that every command keeps the conventions: examples, help, JSON and its schema, exit codes, one-line errors.

The examples are the blocks of docs/command-line.md, and those at the head of docs/moving-here.md.
"""

from __future__ import annotations

import json
import shlex
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from broker_stub import StubCluster
from broker_stub.__main__ import _parser as stub_parser
from broker_stub.releases import RELEASES
from pyspark_rocketmq.cli.command import Command
from pyspark_rocketmq.cli.commands.stub import PARAMETERS
from pyspark_rocketmq.cli.connection import Wanted
from pyspark_rocketmq.cli.diagnosis import explain
from pyspark_rocketmq.cli.exits import MEANINGS, Exit
from pyspark_rocketmq.cli.screen import Screen
from pyspark_rocketmq.cli.session import Session
from pyspark_rocketmq.cli.table import SUMMARIES, find_command
from pyspark_rocketmq.errors import ConnectionLost
from tests.cli.fixtures import TOPIC, RunCommand, seed
from tests.net.test_greeting import http_server, reset, tls_server

ENDLESS = {"demo", "stub"}
"""Commands that run until they are ended; they have tests of their own."""
EXAMPLES = [
    pytest.param(name, line, id=line.removeprefix("pyspark-rocketmq "))
    for name in SUMMARIES
    for line in find_command(name).examples
    if name not in ENDLESS
]
CONNECTING = [name for name in SUMMARIES if find_command(name).connects]
REPORTING = {"doctor"}
"""Commands that report an unreachable cluster as their result."""


def words_of(line: str) -> list[str]:
    """Return the words of an example after the program's name."""
    program, *words = shlex.split(line)
    assert program == "pyspark-rocketmq"
    return words


def schema_of(run: RunCommand, name: str) -> Any:
    """Return the schema that a command prints; it is checked to be one."""
    ran = run(*name.split(), "--schema")
    assert ran.code == Exit.DONE
    jsonschema.Draft202012Validator.check_schema(ran.document)
    return ran.document


def first_example(command: Command[Any]) -> list[str]:
    """Return the words of a command's first example."""
    return words_of(command.examples[0])


@pytest.mark.parametrize(("name", "line"), EXAMPLES)
def test_examples_run(on_stub: RunCommand, name: str, line: str) -> None:
    """Each example in the help of a command succeeds, prints something, and complains of nothing."""
    ran = on_stub(*words_of(line))

    assert (ran.code, ran.err) == (Exit.DONE, "")
    assert ran.out.strip()


@pytest.mark.parametrize(("name", "line"), EXAMPLES)
def test_json_is_as_the_schema_says(on_stub: RunCommand, name: str, line: str) -> None:
    """With `--json` each example prints a document, a stream one per line; the schema of the command accepts each."""
    ran = on_stub(*words_of(line), "--json")
    lines = ran.out.splitlines()

    command = find_command(name)
    assert lines and (len(lines) == 1 or command.is_stream or command.streams_if)
    for each in lines:
        jsonschema.validate(json.loads(each), schema_of(on_stub, name))


@pytest.mark.parametrize("name", SUMMARIES)
def test_a_schema_needs_no_cluster_and_no_arguments(run_command: RunCommand, name: str) -> None:
    """`--schema` works without a cluster and without required arguments, and requires every member."""
    schema = schema_of(run_command, name)

    assert schema["title"] == f"{name} --json"
    assert schema["required"] == list(schema["properties"])


@pytest.mark.parametrize("name", SUMMARIES)
def test_help_has_all_parameters_and_examples(run_command: RunCommand, name: str) -> None:
    """The help of a command names its parameters and has its examples."""
    command = find_command(name)

    shown = run_command(*name.split(), "--help").out

    assert all(spelling in shown for each in command.parameters for spelling in each.spellings)
    assert command.examples and all(line in " ".join(shown.split()) for line in command.examples)


def test_help_lists_every_command_and_every_exit_code(run_command: RunCommand) -> None:
    """The help of the program names the first words of all commands, and all exit codes with their meanings."""
    shown = run_command("--help").out

    assert all(f"\n  {name.split()[0]} " in shown for name in SUMMARIES)
    assert all(f"{int(code)}  {meaning}" in shown for code, meaning in MEANINGS.items())
    assert set(MEANINGS) == set(Exit)


@pytest.mark.parametrize("name", [name for name in CONNECTING if name not in REPORTING])
def test_an_unreachable_cluster_is_one_line(run_command: RunCommand, refusing_address: str, name: str) -> None:
    """If nothing listens at the address, a command says so in one line with the code, and exits with 5."""
    ran = run_command(*first_example(find_command(name)), name_server=refusing_address)

    assert (ran.code, ran.out) == (Exit.UNREACHABLE, "")
    assert ran.err.startswith("[CONNECT] ") and ran.err.count("\n") == 1 and refusing_address in ran.err


@pytest.mark.parametrize("name", CONNECTING)
def test_without_a_cluster_it_says_how_to_name_one(run_command: RunCommand, name: str) -> None:
    """If no name server is named anywhere, a command says how to name one, and exits with 2."""
    ran = run_command(*first_example(find_command(name)))

    assert (ran.code, ran.out) == (Exit.USAGE, "")
    assert "[OPTION_MISSING]" in ran.err and "NAMESRV_ADDR" in ran.err and ran.err.count("\n") == 1


@pytest.mark.parametrize("words", [["topics", "show"], ["routes"]], ids=lambda words: " ".join(words))
def test_a_missing_topic_is_not_found(on_stub: RunCommand, words: list[str]) -> None:
    """A topic that does not exist is named in the error; the exit code is 3."""
    ran = on_stub(*words, "nowhere")

    assert ran.code == Exit.NOT_FOUND
    assert "[TOPIC_NOT_FOUND]" in ran.err and "nowhere" in ran.err


@pytest.mark.parametrize("words", [["groups", "show"], ["lag"]], ids=lambda words: " ".join(words))
def test_a_missing_group_is_not_found(on_stub: RunCommand, words: list[str]) -> None:
    """A group that no broker knows is named in the error, with the command that lists groups; the exit code is 3."""
    ran = on_stub(*words, "nobody")

    assert ran.code == Exit.NOT_FOUND
    assert "[NOT_FOUND]" in ran.err and "nobody" in ran.err and "groups list" in ran.err


def test_errors_are_json_if_results_are(on_stub: RunCommand) -> None:
    """With `--json` an error is an object on stderr, with the exit code."""
    ran = on_stub("routes", "nowhere", "--json")

    assert ran.out == ""
    assert ran.error == {
        "code": "TOPIC_NOT_FOUND",
        "what": "no name server knows the topic",
        "where": {"address": ran.error["where"]["address"], "request": "GET_ROUTEINFO_BY_TOPIC", "topic": "nowhere"},
        "advice": "create the topic, or check its name and nameServer",
        "exit": 3,
    }


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["lagg"], "No such command 'lagg'"),
        (["lag"], "Missing argument 'GROUP'"),
        (["lag", "g", "--max", "many"], "'many' is not a valid integer"),
        (["completion", "tcsh"], "'tcsh' is not one of"),
    ],
)
def test_wrong_usage_is_told(on_stub: RunCommand, words: list[str], complaint: str) -> None:
    """A wrong command line is explained on stderr, with `--json` as an object; the exit code is 2."""
    plain, as_json = on_stub(*words), on_stub(*words, "--json")

    assert (plain.code, plain.out) == (Exit.USAGE, "") and complaint in plain.err
    assert (as_json.code, as_json.error["code"], as_json.error["exit"]) == (Exit.USAGE, "USAGE", 2)
    assert complaint in as_json.error["what"]


def test_refused_requests_are_not_permitted(run_command: RunCommand) -> None:
    """A cluster that refuses the user's key gives exit code 4, and the error shows no secret."""
    with StubCluster(acl={"reader": "right-secret"}) as stub:
        ran = run_command(
            "topics", "list", "-o", "accessKey=reader", "-o", "secretKey=wrong-secret", name_server=stub.name_server
        )

    assert ran.code == Exit.NOT_PERMITTED
    assert "secretKey on the command line" in ran.err
    assert "wrong-secret" not in ran.err + ran.out


@pytest.mark.parametrize("name", [name for name in CONNECTING if name not in REPORTING])
def test_the_port_of_a_broker_is_recognised(run_command: RunCommand, cli_stub: StubCluster, name: str) -> None:
    """At the port of a broker, each command says that it is no name server, and exits with 5."""
    ran = run_command(*first_example(find_command(name)), name_server=cli_stub.broker_address())

    assert (ran.code, ran.out, ran.err.count("\n")) == (Exit.UNREACHABLE, "", 1)
    assert ran.err.startswith("[WRONG_SERVER] this is a broker, not a name server") and "9876" in ran.err


@pytest.mark.parametrize("name", [name for name in CONNECTING if name not in REPORTING])
def test_the_port_of_grpc_is_recognised(run_command: RunCommand, cli_stub: StubCluster, name: str) -> None:
    """At the gRPC port of a proxy, each command says what speaks there, and exits with 5."""
    pytest.importorskip("grpc")

    ran = run_command(*first_example(find_command(name)), "--json", name_server=str(cli_stub.endpoints))

    assert (ran.code, ran.out) == (Exit.UNREACHABLE, "")
    assert (ran.error["code"], ran.error["exit"]) == ("WRONG_SERVER", 5)
    assert "gRPC" in ran.error["what"] and "not 8081" in ran.error["advice"]


def test_http_and_tls_are_recognised(run_command: RunCommand) -> None:
    """At the port of an HTTP server, and at one for TLS, a command says what speaks there and what to set."""
    timeout = ("-o", "mqClientApiTimeout=300")
    with http_server() as address:
        http = run_command("routes", "orders", *timeout, name_server=str(address))
    with tls_server(reset) as address:
        tls = run_command("routes", "orders", *timeout, name_server=str(address))

    assert (http.code, tls.code) == (Exit.UNREACHABLE, Exit.UNREACHABLE)
    assert http.err.startswith("[WRONG_SERVER] this is an HTTP server")
    assert tls.err.startswith("[WRONG_SERVER] the server speaks TLS") and "useTLS=true" in tls.err


def test_a_server_that_is_not_recognised_leads_to_doctor(run_command: RunCommand, refusing_address: str) -> None:
    """An error of an unreachable server ends with the command that finds out more."""
    ran = run_command("topics", "list", name_server=refusing_address)

    assert ran.err.endswith("; pyspark-rocketmq doctor finds out more\n")


def test_the_way_back_outlives_a_diagnosis() -> None:
    """An error that names the command that takes a move back keeps it, whatever stands at the name server's address."""
    with http_server() as address, Session(Wanted(str(address)), Screen()) as session:
        undo = "go back with: pyspark-rocketmq offsets import billing undo.json --apply"
        moved = ConnectionLost("closed; some positions may have moved", advice=undo, address=str(address))
        explained = str(explain(moved, session))

    assert "some positions may have moved" in explained and explained.endswith(f"; {undo}")


@pytest.mark.parametrize("name", CONNECTING)
def test_a_silent_broker_does_not_hold_up_a_command(run_command: RunCommand, half_dead: StubCluster, name: str) -> None:
    """If one of two brokers accepts connections and never answers, a command ends soon, and as it is documented."""
    began = time.monotonic()

    words = ("-o", "mqClientApiTimeout=150", "-o", "connectTimeoutMillis=1s")
    ran = run_command(*first_example(find_command(name)), *words, name_server=half_dead.name_server)

    assert ran.code in MEANINGS and ran.out + ran.err
    assert "unexpected" not in ran.err and "Traceback" not in ran.err
    assert time.monotonic() - began < 3


@pytest.fixture(scope="module")
def half_dead() -> Iterator[StubCluster]:
    """A stub of two brokers, of which one never answers."""
    with StubCluster(2, topics={TOPIC: 2}) as stub:
        seed(stub)
        stub.faults.drop_reply(at="broker-b", times=None)
        yield stub


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[dev\n", "unreadable"),
        ('default = "dev"\n[dev]\nnameServer = "a:1"\nsekretKey = "tell-nobody"\n', "OPTION_UNKNOWN"),
        ('secretKey = "tell-nobody"\n', "stands outside of the profiles"),
    ],
)
def test_a_wrong_file_of_profiles_is_one_line(
    run_command: RunCommand, tmp_path: Path, text: str, complaint: str
) -> None:
    """An error in the file of profiles is one line without a secret, and exits with 2."""
    path = tmp_path / "config" / "pyspark-rocketmq" / "config.toml"
    path.parent.mkdir(parents=True)
    path.write_text(text)

    ran = run_command("topics", "list")

    assert (ran.code, ran.out, ran.err.count("\n")) == (Exit.USAGE, "", 1)
    assert complaint in ran.err and "tell-nobody" not in ran.err


@pytest.mark.parametrize(
    "words",
    [
        ["lag", "g", "secretKey=tell-nobody"],
        ["lag", "g", "unheard=tell-nobody=="],
        ["secretKey=tell-nobody"],
        ["lag", "g", "--max", "secretKey=tell-nobody"],
        ["lag", "g", "secretKey = tell-nobody"],
        ["lag", "g", "secretKey =tell-nobody = too"],
        ["lag -o secretKey=tell-nobody"],
        ["lag", "g", "useTLS=true secretKey=tell-nobody x=tell-nobody"],
        ["lag", "g", "-o", "useTLS=true", "-osecretKey=tell-nobody", "more", "secretKey=tell-nobody"],
    ],
)
def test_a_secret_at_the_wrong_place_is_not_repeated(on_stub: RunCommand, words: list[str]) -> None:
    """A forgotten `-o` gives an error without the value, in text and in JSON."""
    for ran in (on_stub(*words), on_stub(*words, "--json")):
        assert ran.code == Exit.USAGE and "=***" in ran.err and "tell-nobody" not in ran.err


@pytest.mark.parametrize("words", [["topics", "show"], ["lag"], ["options"], ["explain"], ["send"]], ids=" ".join)
def test_a_secret_is_no_argument(run_command: RunCommand, refusing_address: str, words: list[str]) -> None:
    """With a forgotten `-o` a secret would travel as the name of a topic; it is refused before, and not repeated."""
    ran = run_command(*words, "secretKey=tell-nobody", name_server=refusing_address)

    assert ran.code == Exit.USAGE and "write -o before secretKey=" in ran.err and "tell-nobody" not in ran.err


def test_warnings_of_the_library_are_shown_once(on_stub: RunCommand, tmp_path: Path) -> None:
    """A warning that the library logs is told by the command: here, that others may write the credentials."""
    path = tmp_path / "credentials"
    path.write_text("accessKey=me\nsecretKey=tell-nobody\n")
    path.chmod(0o622)

    ran = on_stub("topics", "list", "-o", f"credentialsFile={path}")

    assert ran.code == Exit.DONE and "tell-nobody" not in ran.err
    assert ran.err.count("other users may write it") == 1


def test_with_json_every_line_on_stderr_is_json(run_command: RunCommand, refusing_address: str) -> None:
    """A warning is an object, too."""
    words = ("-o", "accessKey=me", "-o", "secretKey=tell-nobody", "--json")

    ran = run_command("topics", "list", *words, name_server=refusing_address)

    *warnings, error = map(json.loads, ran.err.splitlines())
    assert [list(each) for each in warnings] == [["warning"], ["warning"]]
    assert (error["code"], error["exit"]) == ("CONNECT", 5)


@pytest.mark.parametrize("missing", ["click", "rich"])
def test_a_missing_extra_is_one_line(run_command: RunCommand, monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    """Without the packages of the extra `cli` the program says how to install them."""
    monkeypatch.setitem(sys.modules, missing, None)

    ran, as_json = run_command("topics", "list"), run_command("topics", "list", "--json")

    assert (ran.code, ran.out, ran.err.count("\n")) == (Exit.FAILED, "", 1)
    assert missing in ran.err and "pip install 'pyspark-rocketmq[cli]'" in ran.err
    assert as_json.error["code"] == "EXTRA_MISSING"


@pytest.mark.parametrize("start", ["-2h", "-2H", "-1500ms"])
def test_times_in_the_past_are_no_options(on_stub: RunCommand, start: str) -> None:
    """A time that begins with a dash is a value, in upper and lower case."""
    assert on_stub("offsets", "at", start, "--topic", "orders").code == Exit.DONE


def test_a_time_that_is_none_is_told_as_it_was_written(on_stub: RunCommand) -> None:
    """Errors repeat such a value as the user wrote it, also one of a repeatable option or of a number."""
    as_time = on_stub("offsets", "at", "-1.5h", "--topic", "orders")
    as_topic = on_stub("offsets", "at", "-2h", "--topic", "-3h")
    as_number = on_stub("lag", "billing", "--max", "-4h")

    assert [each.code for each in (as_time, as_number)] == [Exit.USAGE, Exit.USAGE]
    assert "-1.5h" in as_time.err and "-3h" in as_topic.err and "'-4h' is not a valid integer" in as_number.err


def test_no_colours_and_no_folding_in_a_pipe(on_stub: RunCommand) -> None:
    """Without a terminal, lines have no escapes and no blanks at their ends, and each row is one line."""
    out = on_stub("options").out

    assert "\x1b" not in out
    assert [line for line in out.splitlines() if line != line.rstrip()] == []
    meaning = "Only for a query without checkpoint."
    assert max(map(len, out.splitlines())) > 300 and meaning in out


def test_results_have_no_secrets_and_arrays_are_never_null(on_stub: RunCommand) -> None:
    """A document has empty arrays, not nulls."""
    document = on_stub("groups", "show", "billing", "--json").document

    assert (document["members"], document["subscriptions"], document["troubles"]) == ([], [], [])


def test_the_stub_command_has_the_parameters_of_the_stub() -> None:
    """The command `stub` takes every option of `rocketmq-stub`."""
    options = {word for action in stub_parser()._actions for word in action.option_strings}

    assert {each.name for each in PARAMETERS} == options - {"-h", "--help"}
    [releases] = [each.choices for each in PARAMETERS if each.name == "--emulate"]
    assert set(releases) == set(RELEASES)


def test_the_version_is_shown(run_command: RunCommand) -> None:
    """`--version` prints the release."""
    from pyspark_rocketmq import __version__

    assert run_command("--version").out == f"pyspark-rocketmq {__version__}\n"


def test_documents_are_one_line_in_a_pipe(on_stub: RunCommand) -> None:
    """A program gets a document as one line."""
    out = on_stub("topics", "list", "--json").out

    assert out.count("\n") == 1 and json.loads(out)
