"""Answers kept in a file are decoded as a task decodes them."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker_stub import StubBroker
from pyspark_rocketmq.errors import AnswerMismatch
from tests.bench import worker


@pytest.fixture
def kept(tmp_path: Path) -> str:
    """A file of the answers to pulls of 512 messages in two queues."""
    file = str(tmp_path / "answers")
    with StubBroker(topics={"bench": 2}) as stub:
        stub.fill("bench", 512, 100)
        assert worker.dump(stub.name_server, topic="bench", count=512, file=file)["messages"] == 512
    return file


@pytest.mark.parametrize("columns", ["all properties", "default", "no map"])
def test_kept_answers_are_decoded_again_and_again(kept: str, columns: str) -> None:
    """Each pass over the file gives all messages; so does copying alone."""
    assert worker.decode("", file=kept, count=1000, columns=columns)["messages"] == 1024
    assert worker.copy("", file=kept, count=512, size=100)["messages"] == 512


def test_claims_are_kept_with_answers(kept: str) -> None:
    """An answer of another queue than its claim is refused, so what a task checks is part of what is measured."""
    claims = Path(f"{kept}.claims")
    claims.write_text(claims.read_text().replace("0], 0, ", "1], 0, "))
    with pytest.raises(AnswerMismatch) as caught:
        worker.decode("", file=kept, count=512, columns="default")
    assert {"topic": "bench", "queue_id": 1}.items() <= caught.value.where.items()
