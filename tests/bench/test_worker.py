"""Test that the worker of the benchmarks decodes stored responses as a Spark task does."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker_stub import StubBroker
from pyspark_rocketmq.errors import AnswerMismatch
from tests.bench import worker


@pytest.fixture
def answers_file(tmp_path: Path) -> str:
    """The path of a file with the responses to pulls of 512 messages in two queues."""
    file = str(tmp_path / "answers")
    with StubBroker(topics={"bench": 2}) as stub:
        stub.fill("bench", 512, 100)
        assert worker.dump(stub.name_server, topic="bench", count=512, file=file)["messages"] == 512
    return file


@pytest.mark.parametrize("columns", ["all properties", "default", "no map"])
def test_stored_responses_are_decoded_again_and_again(answers_file: str, columns: str) -> None:
    """Decoding repeats the file until enough messages are decoded; copying the file returns all its messages."""
    assert worker.decode("", file=answers_file, count=1000, columns=columns)["messages"] == 1024
    assert worker.copy("", file=answers_file, count=512, size=100)["messages"] == 512


def test_coverage_is_stored_with_responses(answers_file: str) -> None:
    """If the coverage file names another queue, decoding raises `AnswerMismatch`, as a task would."""
    coverage = Path(f"{answers_file}.coverage")
    coverage.write_text(coverage.read_text().replace("0], 0, ", "1], 0, "))
    with pytest.raises(AnswerMismatch) as caught:
        worker.decode("", file=answers_file, count=512, columns="default")
    assert {"topic": "bench", "queue_id": 1}.items() <= caught.value.where.items()
