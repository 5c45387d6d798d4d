"""What a pull came to, however its answer was written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_rocketmq.errors import MalformedFrame
from pyspark_rocketmq.pull.outcome import Outcome, PullStatus, read_outcome
from pyspark_rocketmq.wire.codes import LanguageCode
from pyspark_rocketmq.wire.header import RESPONSE_FLAG, Command, decode_command, encode_command

_offsets = st.integers(0, 2**63 - 1)
_bounds = st.integers(-1, 2**63 - 1)


def answer(numbers: tuple[int, int, int, int], code: int = 0, remark: str = "FOUND") -> Command:
    """A broker's answer that says next, minimum and maximum offset, and which broker to ask."""
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
    """As brokers write it, read in short, and as a command that was never written."""
    said = answer(numbers, code)
    received = decode_command(memoryview(encode_command(said)))

    assert read_outcome(received) == read_outcome(said) == Outcome(PullStatus(code), *numbers, memoryview(b"messages"))


def test_a_reset_shows_in_the_remark_of_a_move_alone() -> None:
    """Any other answer with that remark is no reset."""
    moved, found = (read_outcome(answer((5, 0, 9, 0), code, "OFFSET_RESET")) for code in (21, 0))

    assert (moved.was_reset, found.was_reset) == (True, False)


@pytest.mark.parametrize("fields", [None, {"nextBeginOffset": "x", "minOffset": "0", "maxOffset": "0"}])
def test_an_answer_without_offsets_is_malformed(fields: dict[str, str] | None) -> None:
    """What does not say where to go on cannot be used."""
    with pytest.raises(MalformedFrame, match="without usable offsets"):
        read_outcome(Command(0, fields=fields))


@pytest.mark.parametrize("code", [0, 19, 20, 21])
@pytest.mark.parametrize(("name", "smallest"), [("nextBeginOffset", 0), ("minOffset", -1), ("maxOffset", -1)])
def test_numbers_that_are_no_offsets_are_malformed(code: int, name: str, smallest: int) -> None:
    """However the answer is written; the field is named."""
    for number in (smallest - 1, 2**63, 10**30):
        said = answer((5, 0, 9, 0), code)
        assert said.fields is not None
        said.fields[name] = str(number)
        with pytest.raises(MalformedFrame, match=f"without usable offsets: {name} is '{number}'"):
            read_outcome(decode_command(memoryview(encode_command(said))))
