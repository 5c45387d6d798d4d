"""Every response code has an error class that keeps code and remark and gives advice."""

from __future__ import annotations

import pickle

import pytest

from pyspark_rocketmq import broker_errors
from pyspark_rocketmq.broker_errors import LEAVES, error_for
from pyspark_rocketmq.errors import BrokerError
from pyspark_rocketmq.wire.codes import ResponseCode
from tests.wire.exchanges import exchanges

CODES = [code for code in ResponseCode if code is not ResponseCode.SUCCESS]


@pytest.mark.parametrize("code", CODES, ids=lambda code: code.name)
def test_every_response_code_has_its_own_error(code: ResponseCode) -> None:
    """The error of each response code keeps its class, code and remark, also after pickling."""
    error = error_for(code, "because", topic="T", address="h:1")
    copy = pickle.loads(pickle.dumps(error))
    assert type(error) is LEAVES[code] and type(copy) is type(error) and str(copy) == str(error)
    assert (error.response_code, error.remark, error.code) == (code, "because", f"BROKER_{code.name}")
    assert str(error).startswith(f"[BROKER_{code.name}] response code {code.value}: because (address h:1, topic T)")


def test_an_unknown_code_is_kept() -> None:
    """If a response code is unknown, the error is a `BrokerError` that holds the code."""
    error = error_for(4711, None, group="g")
    assert type(error) is BrokerError and not error.retriable
    assert str(error) == "[BROKER] response code 4711: no remark (group g)"


def test_the_flags_say_what_to_do() -> None:
    """If a server is busy, its error is retriable; if a queue moved, a new route is needed; a refusal is final."""

    def flags(code: ResponseCode) -> tuple[bool, bool]:
        error = error_for(code, "")
        return error.retriable, error.refresh_routes

    assert flags(ResponseCode.SYSTEM_BUSY) == (True, False)
    assert flags(ResponseCode.TOPIC_NOT_EXIST) == (True, True)
    assert flags(ResponseCode.NO_PERMISSION) == (False, False)
    assert flags(ResponseCode.INVALID_PARAMETER) == (False, True)


def test_recorded_refusals_with_code_1_are_told_from_failures() -> None:
    """If code 1 has a recorded remark about a permanent cause, the error is final; with another one it is retriable."""
    recorded = {each.response.remark for each in exchanges() if each.response and each.response.code == 1}
    retried = {remark for remark in recorded if error_for(1, remark).retriable}
    assert all("not found" in remark or "not online" in remark for remark in retried)
    assert error_for(1, "store is shut down").retriable


def test_a_refused_key_names_the_options() -> None:
    """If access is refused, by either version of access control, the error names the options of both keys."""
    for error in (error_for(1, "org.apache.rocketmq.acl.common.AclException: no"), error_for(16, "no")):
        assert "accessKey and secretKey" in str(error) and not error.retriable


def test_a_group_without_members_is_told_by_its_remark() -> None:
    """If code 1 has the remark that a group has no members, the error class says so."""
    assert isinstance(error_for(1, "no consumer for this group, g"), broker_errors.GroupWithoutMembers)
