"""Scenarios of access control, for brokers that know one user; the world's options hold the user's credentials."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pyspark_rocketmq.broker_errors import CredentialsRefused, NoPermission
from pyspark_rocketmq.cluster.cluster import open_cluster
from pyspark_rocketmq.cluster.signing import Credentials
from pyspark_rocketmq.errors import BrokerError
from pyspark_rocketmq.model import MessageQueue
from tests.flows.reading import offsets_of, read_all, whole
from tests.flows.world import World, fresh


def right_key_is_served(world: World) -> None:
    """Check that requests signed with the user's key are served: sends, pulls, commits and locks."""
    queue, group = world.make_queue(), world.make_group()
    world.fill(queue, 50, TAGS="t")

    world.cluster.offsets.commit(group, {queue: 7})

    assert offsets_of(read_all(world.cluster, [whole(queue, 50)])) == {queue: list(range(50))}
    assert world.cluster.offsets.fetch_committed(group, [queue]) == {queue: 7}
    assert world.cluster.groups.lock(group, "me", [queue]).granted == {queue}


def signed_lookups_are_served(world: World) -> None:
    """Check that a signed query by unique key is served; some brokers do not sign one of its fields."""
    queue, unique_id = world.make_queue(), fresh("id")
    receipt = world.send(queue, b"me", KEYS="k", UNIQ_KEY=unique_id)
    messages = world.cluster.messages

    assert messages.view(receipt.message_id, queue.topic).body == b"me"
    assert len(messages.query_by_key(queue.topic, "k").messages) <= 1
    assert len(messages.query_by_unique_key(queue.topic, unique_id)) <= 1


def wrong_secret_is_refused(world: World) -> None:
    """Check that a request signed with a wrong secret fails; the error names topic and broker, and hides the secret."""
    queue = world.make_queue()
    right: Credentials = world.options["credentials"]

    error = _refusal(world, queue, Credentials(right.access_key, "not-the-secret"))

    assert "signature" in str(error).lower()
    assert f"topic {queue.topic}, broker {queue.broker_name}" in str(error)
    assert "not-the-secret" not in str(error)


def unknown_key_is_refused(world: World) -> None:
    """Check that a request of an unknown user fails with an error that names the user."""
    assert "stranger" in str(_refusal(world, world.make_queue(), Credentials("stranger", "s")))


def unsigned_request_is_refused(world: World) -> None:
    """Check that brokers refuse requests without credentials."""
    _refusal(world, world.make_queue(), None)


def _refusal(world: World, queue: MessageQueue, credentials: Credentials | None) -> BrokerError:
    """Check that brokers refuse requests with these credentials; return the error."""
    cluster = open_cluster(replace(world.settings, credentials=credentials))
    kind = world.by_version({"4.9": CredentialsRefused, "5": NoPermission})
    with pytest.raises(kind) as caught:
        cluster.offsets.fetch_max([queue])
    with pytest.raises(kind):
        list(read_all(cluster, [whole(queue, 1)]))
    return caught.value
