"""Test the remoting port: the frames of pulls, and the outcomes read from responses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_rocketmq.cluster.routes import BrokerEndpoint
from pyspark_rocketmq.cluster.settings import ClusterSettings
from pyspark_rocketmq.cluster.signing import Credentials
from pyspark_rocketmq.errors import MalformedFrame
from pyspark_rocketmq.model import Address, MessageQueue
from pyspark_rocketmq.net.settings import NetSettings
from pyspark_rocketmq.pull.port import PullGroup, PullOutcome, PullRequest, PullStatus
from pyspark_rocketmq.pull.remoting import RemotingPort, read_outcome
from pyspark_rocketmq.pull.settings import PullSettings
from pyspark_rocketmq.wire.codes import LanguageCode
from pyspark_rocketmq.wire.header import RESPONSE_FLAG, Command, HeaderType, decode_command, encode_command
from pyspark_rocketmq.wire.session import Writer

NOWHERE = Address("127.0.0.1", 1)
_offsets = st.integers(0, 2**63 - 1)
_bounds = st.integers(-1, 2**63 - 1)


def answer(numbers: tuple[int, int, int, int], code: int = 0, remark: str = "FOUND") -> Command:
    """Return a response to a pull; `numbers` are next, minimum and maximum offset, and the suggested broker's id."""
    following, minimum, maximum, broker_id = map(str, numbers)
    fields = {
        "suggestWhichBrokerId": broker_id,
        "nextBeginOffset": following,
        "maxOffset": maximum,
        "minOffset": minimum,
    }
    return Command(code, 7, fields, b"messages", remark, RESPONSE_FLAG, LanguageCode.JAVA)


@given(st.tuples(_offsets, _bounds, _bounds, st.integers(0, 9)), st.sampled_from([0, 0, 19, 20, 21]))
def test_an_answer_comes_to_the_same_however_it_was_read(numbers: tuple[int, int, int, int], code: int) -> None:
    """A decoded response and a command that was never encoded give the same outcome, for every status."""
    said = answer(numbers, code)
    received = decode_command(memoryview(encode_command(said)))

    assert (
        read_outcome(received) == read_outcome(said) == PullOutcome(PullStatus(code), *numbers, memoryview(b"messages"))
    )


def test_a_reset_shows_in_the_remark_of_a_move_alone() -> None:
    """The remark OFFSET_RESET means a reset only if the status is OFFSET_MOVED."""
    moved, found = (read_outcome(answer((5, 0, 9, 0), code, "OFFSET_RESET")) for code in (21, 0))

    assert (moved.was_reset, found.was_reset) == (True, False)


@pytest.mark.parametrize("fields", [None, {"nextBeginOffset": "x", "minOffset": "0", "maxOffset": "0"}])
def test_an_answer_without_offsets_is_malformed(fields: dict[str, str] | None) -> None:
    """If a response has no valid next offset, MalformedFrame is raised."""
    with pytest.raises(MalformedFrame, match="without usable offsets"):
        read_outcome(Command(0, fields=fields))


@pytest.mark.parametrize("code", [0, 19, 20, 21])
@pytest.mark.parametrize(("name", "smallest"), [("nextBeginOffset", 0), ("minOffset", -1), ("maxOffset", -1)])
def test_numbers_that_are_no_offsets_are_malformed(code: int, name: str, smallest: int) -> None:
    """If an offset is out of range, MalformedFrame is raised and names the field, for every status."""
    for number in (smallest - 1, 2**63, 10**30):
        said = answer((5, 0, 9, 0), code)
        assert said.fields is not None
        said.fields[name] = str(number)
        with pytest.raises(MalformedFrame, match=f"without usable offsets: {name} is '{number}'"):
            read_outcome(decode_command(memoryview(encode_command(said))))


# --- requests --------------------------------------------------------------------------------------------------------


class _Recorder:
    """A connection pool and its only connection in one object, which keeps the submitted frames."""

    is_open = True

    def __init__(self) -> None:
        self.frames: list[bytes | memoryview] = []

    def take(self, address: Address) -> _Recorder:
        """Return the connection."""
        return self

    def submit_as(self, code: int, count: int, write: Writer) -> Sequence[int]:
        """Keep the frames and return their opaques, which begin at 7."""
        opaques = range(7, 7 + count)
        self.frames += write(opaques)
        return opaques


def asked(settings: ClusterSettings) -> list[Command]:
    """Return the decoded frames of the first two pulls of the range `[98, 200)`."""
    recorder = _Recorder()
    port: RemotingPort[None] = RemotingPort(settings, cast(Any, recorder), PullSettings())
    requests = [PullRequest(98, 130), PullRequest(130, 162)]
    assert port.connect(NOWHERE)
    port.submit(PullGroup(None, MessageQueue("orders", "broker-a", 0), BrokerEndpoint(0, NOWHERE), requests))
    assert port.in_flight == 2
    return [decode_command(memoryview(frame)) for frame in recorder.frames]


def test_pulls_differ_in_what_they_ask_for_alone() -> None:
    """Pulls with a JSON or a binary header have the same fields, and differ only in their offset and opaque."""
    json, binary = (asked(ClusterSettings((NOWHERE,), net=NetSettings(header_type=kind))) for kind in HeaderType)

    assert [said.fields for said in json] == [said.fields for said in binary]
    assert [(said.code, said.opaque, said.flag) for said in json + binary] == [(11, 7, 0), (11, 8, 0)] * 2
    first, second = (said.fields or {} for said in json)
    assert (first["queueOffset"], second["queueOffset"], first["maxMsgNums"]) == ("98", "130", "32")
    assert first | {"queueOffset": "130"} == second


def test_each_pull_is_signed_for_itself() -> None:
    """If there are credentials, two pulls have different signatures, because a signature covers the offset."""
    plain = asked(ClusterSettings((NOWHERE,)))
    signed = asked(ClusterSettings((NOWHERE,), credentials=Credentials("me", "secret")))

    first, second = (said.fields or {} for said in signed)
    assert first["Signature"] != second["Signature"]
    assert (plain[0].fields or {}).items() <= first.items()
