"""Writes are signed, encrypted and named as the options say, and show no credentials."""

from __future__ import annotations

import logging
import pickle
from pathlib import Path

import pytest

from broker_stub import TlsFiles
from pyspark_rocketmq.errors import RocketMQError
from tests.sink.fixtures import TOPIC, MakeTarget, frame, rows

PKI = Path(__file__).parents[1] / "net" / "pki"
KEY, SECRET = "visible-to-nobody-1", "visible-to-nobody-2"
KEYS = {"accessKey": KEY, "secretKey": SECRET}


@pytest.mark.parametrize("release", ["4.9.7", "5.3.3"])
def test_writes_are_signed(make_target: MakeTarget, release: str, caplog: pytest.LogCaptureFixture) -> None:
    """Batches and single sends pass access control of both kinds, and the most detailed logs show no credentials."""
    caplog.set_level(logging.DEBUG)
    target = make_target(acl={KEY: SECRET}, emulate=release)
    assert target.write(rows(40), KEYS).rows == target.write(rows(40), {**KEYS, "sendBatchSize": "1"}).rows == 40
    assert "visible-to-nobody" not in caplog.text + repr(target.plan(KEYS))


@pytest.mark.parametrize("options", [{}, {**KEYS, "secretKey": "visible-to-nobody-3"}])
def test_wrong_credentials_fail(make_target: MakeTarget, options: dict[str, str]) -> None:
    """Without credentials, or with wrong ones, nothing is written, whatever happens to bad rows; no secret is shown."""
    target = make_target(acl={KEY: SECRET})
    with pytest.raises(RocketMQError) as refused:
        target.write(rows(5), {**options, "onBadRow": "drop"})
    assert "visible-to-nobody" not in str(refused.value) and target.bodies() == []


def test_a_credentials_file_is_read_where_rows_are_sent(make_target: MakeTarget, tmp_path: Path) -> None:
    """With `credentialsFile` the plan that travels to executors has only the path, and each process reads the file."""
    target, file = make_target(acl={KEY: SECRET}), tmp_path / "keys"
    file.write_text(f"accessKey={KEY}\nsecretKey={SECRET}\n")
    options = {"credentialsFile": str(file)}
    plan = target.plan(options)
    assert b"visible-to-nobody" not in pickle.dumps(plan)
    assert target.write(rows(5), plan=plan).rows == 5


def test_writes_are_encrypted(make_target: MakeTarget) -> None:
    """With TLS rows are written if the server's certificate is trusted, else nothing is."""
    target = make_target(tls=TlsFiles(str(PKI / "server.pem"), str(PKI / "server.key")))
    trusting = {"useTLS": "true", "tlsTrustCertPath": str(PKI / "ca.pem")}
    assert target.write(rows(5), trusting).rows == 5
    with pytest.raises(RocketMQError, match="certificate"):
        target.write(rows(5), {"useTLS": "true", "sendTimeoutMs": "1000"})


def test_a_namespace_is_put_before_topics(make_target: MakeTarget) -> None:
    """With a namespace rows go to its topics, and the user's names stay in errors and dead letters."""
    target = make_target(topics={f"NS%{TOPIC}": 2, "NS%dead": 1, TOPIC: 1})
    dead = {"namespace": "NS", "onBadRow": "deadLetter", "deadLetterTopic": "dead"}
    target.write(frame(body=[b"good", b""]), dead)
    assert target.bodies(f"NS%{TOPIC}") == [b"good"] and target.bodies() == []
    [letter] = target.records("NS%dead")
    assert letter.properties["ORIGIN_TOPIC"] == TOPIC
    with pytest.raises(RocketMQError, match=r"topic orders\)"):
        target.write(frame(body=[b""]), {"namespace": "NS"})


def test_brokers_that_are_not_allowed_get_nothing(make_target: MakeTarget) -> None:
    """With `allowedBrokers` no broker at another address is connected to."""
    with pytest.raises(RocketMQError, match="ADDRESS_NOT_ALLOWED"):
        make_target().write(rows(5), {"allowedBrokers": "10.9.9.9"})
