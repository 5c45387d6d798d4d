"""Test official clients with access control and with TLS, on a real broker and on the stub."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.real.java_clients import JavaClients, JavaError, Json, message
from tests.real.java_fixtures import OLD_CLIENT, ScenarioServer
from tests.real.servers import ACCESS_KEY, PKI, SECRET_KEY

pytestmark = pytest.mark.real

KEY = {"accessKey": ACCESS_KEY, "secretKey": SECRET_KEY}
WRONG_KEY = {"accessKey": ACCESS_KEY, "secretKey": "not the secret"}


@pytest.fixture(params=["5.3.3", OLD_CLIENT])
def signing_clients(request: pytest.FixtureRequest, guarded_java_server: ScenarioServer) -> Iterator[JavaClients]:
    """Official clients, connected to a server with access control."""
    with JavaClients(request.param, guarded_java_server.name_server) as clients:
        yield clients


def test_signed_clients_are_served(
    signing_clients: JavaClients, guarded_java_server: ScenarioServer, unique: str
) -> None:
    """With the right key a Java producer and push consumer work on a server with access control."""
    guarded_java_server.create_topic(unique)
    consumer = signing_clients.push_consumer(f"{unique}_readers", {unique: "*"}, credentials=KEY)

    result = signing_clients.producer(unique, KEY).call("send", message(unique, "signed"))

    assert result["sendStatus"] == "SEND_OK"
    assert consumer.wait_for(1)[0]["body"] == "signed"


@pytest.mark.parametrize("credentials", [[], [WRONG_KEY]], ids=["no key", "wrong key"])
def test_strangers_are_refused(
    signing_clients: JavaClients, guarded_java_server: ScenarioServer, unique: str, credentials: list[Json]
) -> None:
    """A send without a key, or with a wrong one, fails with code 16."""
    guarded_java_server.create_topic(unique)
    producer = signing_clients.producer(unique, *credentials)

    with pytest.raises(JavaError) as refused:
        producer.call("send", message(unique, "unwanted"))

    assert refused.value.code == 16


@pytest.mark.parametrize("version", ["5.3.3", OLD_CLIENT])
def test_encrypting_clients_are_served(encrypted_java_server: ScenarioServer, unique: str, version: str) -> None:
    """Java clients that trust the server's authority send and receive over TLS."""
    encrypted_java_server.create_topic(unique)
    trust = {"tls.enable": "true", "tls.test.mode.enable": "false", "tls.client.authServer": "true"}
    trust["tls.client.trustCertPath"] = str(PKI / "ca.pem")

    with JavaClients(version, encrypted_java_server.name_server, **trust) as clients:
        consumer = clients.push_consumer(f"{unique}_readers", {unique: "*"})
        result = clients.producer(unique).call("send", message(unique, "encrypted"))
        delivery = consumer.wait_for(1)[0]

    assert (result["sendStatus"], delivery["body"]) == ("SEND_OK", "encrypted")


def test_clients_that_trust_another_authority_stay_away(encrypted_java_server: ScenarioServer, unique: str) -> None:
    """A Java client that does not trust the server's authority cannot fetch a route."""
    encrypted_java_server.create_topic(unique)
    trust = {"tls.enable": "true", "tls.test.mode.enable": "false", "tls.client.authServer": "true"}
    trust["tls.client.trustCertPath"] = str(PKI / "client.pem")

    with JavaClients("5.3.3", encrypted_java_server.name_server, **trust) as clients:
        producer = clients.producer(unique)
        with pytest.raises(JavaError, match=r"send request to <.*> failed"):
            producer.call("send", message(unique, "unsent"))
