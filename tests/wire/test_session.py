"""Test `wire.session`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_rocketmq.errors import (
    FrameTooLarge,
    LocalProtocolError,
    MalformedFrame,
    RemoteProtocolError,
    UnexpectedReply,
)
from pyspark_rocketmq.wire.codes import LanguageCode
from pyspark_rocketmq.wire.header import ONEWAY_FLAG, RESPONSE_FLAG, Command, HeaderType, PullResponse, encode_command
from pyspark_rocketmq.wire.session import Event, Request, Response, Session

from .frames import join_frame
from .recorded import RecordedCommand, recorded_commands
from .strategies import commands


def reply_to(opaque: int, code: int = 0) -> bytes:
    return encode_command(Command(code, opaque, flag=RESPONSE_FLAG))


def directions() -> list[list[RecordedCommand]]:
    """Return the recorded commands of each connection and direction, one list for each."""
    found = defaultdict(list)
    for recorded in recorded_commands():
        found[recorded.file, recorded.connection, recorded.to_server].append(recorded)
    return list(found.values())


def listener(said: Iterable[RecordedCommand]) -> Session:
    """Return a session that waits for all responses in `said`, the commands of its peer."""
    session = Session()
    session.pending.update((recorded.facts["opaque"], 0) for recorded in said if recorded.facts["flag"] & RESPONSE_FLAG)
    return session


def hear_whole(session: Session, stream: list[bytes]) -> list[Event]:
    return [event for frame in stream for event in session.receive(frame)]


def hear_glued(session: Session, stream: list[bytes]) -> list[Event]:
    return list(session.receive(b"".join(stream)))


def hear_byte_by_byte(session: Session, stream: list[bytes]) -> list[Event]:
    events: list[Event] = []
    for byte in b"".join(stream):
        session.space()[0] = byte
        events += session.received(1)
    return events


@pytest.mark.parametrize("hear", [hear_whole, hear_glued, hear_byte_by_byte])
def test_recorded_conversations_are_understood(hear: Callable[[Session, list[bytes]], list[Event]]) -> None:
    """For each recorded connection, a session yields all commands of its peer, however the bytes arrive."""
    for said in directions():
        events = hear(session := listener(said), [recorded.frame for recorded in said])

        assert [encode_command(event.command) for event in events] == [recorded.frame for recorded in said]
        assert [isinstance(event, Response) for event in events] == [
            bool(r.facts["flag"] & RESPONSE_FLAG) for r in said
        ]
        assert not session.pending
        session.end()


def test_answers_that_an_interrupted_caller_left_come_with_the_next_bytes() -> None:
    """If the caller stops after the first of several responses to pulls, the next call yields the others."""
    client = Session()
    asked = [client.request(11)[0] for _ in range(3)]
    names = ("suggestWhichBrokerId", "nextBeginOffset", "maxOffset", "minOffset")
    responses = [
        Command(0, opaque, dict.fromkeys(names, "7"), b"messages", "FOUND", RESPONSE_FLAG, LanguageCode.JAVA, 479)
        for opaque in asked
    ]
    events = client.receive(b"".join(map(encode_command, responses)))
    first = next(events)
    assert isinstance(first.command, PullResponse), "otherwise responses are cut one by one"
    events.close()  # type: ignore[attr-defined]  # it is a generator

    rest = list(client.receive(b""))
    assert [event.command.opaque for event in (first, *rest)] == asked and not client.pending


def test_answers_are_matched_by_opaque_in_any_order() -> None:
    """Responses that arrive in another order than their requests are matched by opaque."""
    client = Session()
    first, second = client.request(11)[0], client.request(12)[0]

    events = list(client.receive(reply_to(second, 5) + reply_to(first, 6)))

    assert [(event.command.opaque, event.command.code) for event in events] == [(second, 5), (first, 6)]
    assert client.pending == {}


@given(st.lists(commands().filter(lambda command: not command.flag & (RESPONSE_FLAG | ONEWAY_FLAG)), max_size=4))
def test_two_sessions_understand_each_other(asked: list[Command]) -> None:
    """A client's requests arrive at a server session, and each response arrives at its own request."""
    client, server = Session(), Session()
    said = [client.request(each.code, each.fields, bytes(each.body)) for each in asked]

    heard = list(server.receive(b"".join(data for _, data in said)))
    answered = [server.reply(event.command, Command(0, body=event.command.body)) for event in heard]

    assert all(isinstance(event, Request) for event in heard)
    replies = list(client.receive(b"".join(reversed(answered))))
    assert [reply.command.body for reply in reversed(replies)] == [each.body for each in asked]
    assert [reply.command.opaque for reply in reversed(replies)] == [opaque for opaque, _ in said]


def test_the_peers_own_request_may_carry_our_opaque() -> None:
    """A request of the peer with the opaque of a pending request is a request, not a response."""
    client = Session()
    opaque, _ = client.request(34)

    events = list(client.receive(encode_command(Command(40, opaque, flag=ONEWAY_FLAG)) + reply_to(opaque)))

    assert [type(event) for event in events] == [Request, Response]
    assert events[0].command.is_oneway


def test_a_oneway_awaits_nothing() -> None:
    """A one-way request has its flag set, and the session does not wait for a response."""
    client, server = Session(), Session()

    (event,) = server.receive(client.oneway(35, {"group": "g"}))

    assert event.command.is_oneway
    assert client.pending == {}


def test_answers_to_given_up_requests_are_dropped_and_counted() -> None:
    """A response to a request that was given up, or was one-way, is dropped and counted."""
    client = Session()
    opaque, _ = client.request(11)
    client.oneway(35)
    client.forget(opaque)

    assert list(client.receive(reply_to(opaque) + reply_to(opaque + 1))) == []
    assert client.dropped_replies == 2
    assert "0 pending, 2 dropped, 0 buffered" in repr(client)


@pytest.mark.parametrize("opaque", [2, 0, -1, 2**31 - 1])
def test_an_answer_to_nothing_breaks_the_session(opaque: int) -> None:
    """A response whose opaque no request had breaks the session."""
    client = Session()
    client.request(11)

    with pytest.raises(UnexpectedReply, match=f"request {opaque}, which was never made"):
        list(client.receive(reply_to(opaque)))
    assert isinstance(client.broken, UnexpectedReply)


@pytest.mark.parametrize(
    ("data", "error"),
    [
        pytest.param(b"GET / HTTP/1.1\r\n", FrameTooLarge, id="another protocol"),
        pytest.param(b"\xff" * 200_000, FrameTooLarge, id="more than one chunk"),
        pytest.param(bytes(8), MalformedFrame, id="no header length"),
        pytest.param(join_frame(0, b"{}", b""), MalformedFrame, id="header without code"),
        pytest.param(join_frame(0, b"[]", b""), MalformedFrame, id="header that is no object"),
        pytest.param(join_frame(7, b"{}", b""), MalformedFrame, id="unknown header type"),
    ],
)
def test_a_broken_session_stays_broken(data: bytes, error: type[RemoteProtocolError]) -> None:
    """After an illegal frame, receiving raises the same error again, and sending raises `LocalProtocolError`."""
    client = Session()
    opaque, _ = client.request(11)

    with pytest.raises(error) as first:
        list(client.receive(data))

    with pytest.raises(error) as again:
        list(client.receive(reply_to(opaque)))
    assert again.value is first.value is client.broken
    with pytest.raises(LocalProtocolError, match=r"the session is broken: .*; open a new connection"):
        client.request(11)
    with pytest.raises(LocalProtocolError, match="the session is broken"):
        client.oneway(11)
    assert f"broken: [{error.code}]" in repr(client)


def test_what_arrived_before_the_damage_is_heard() -> None:
    """If a damaged frame follows a response, the session first yields the response, and then raises the error."""
    client = Session()
    opaque, _ = client.request(11)
    events = client.receive(reply_to(opaque) + bytes(8))

    assert next(events).command.opaque == opaque
    with pytest.raises(MalformedFrame):
        next(events)


def test_an_end_inside_a_frame_is_malformed() -> None:
    """If the stream ends inside a frame, `end` raises `MalformedFrame`."""
    whole, cut = Session(), Session()
    data = whole.request(11)[1]
    list(cut.receive(data[:-1]))

    whole.end()
    with pytest.raises(MalformedFrame, match=f"ended inside a frame, after {len(data) - 1} bytes"):
        cut.end()
    assert isinstance(cut.broken, MalformedFrame)


def test_the_first_reason_is_kept() -> None:
    """If the stream of a broken session ends, `end` raises the first error again."""
    client = Session()
    with pytest.raises(FrameTooLarge):
        list(client.receive(b"\xff" * 10))

    with pytest.raises(FrameTooLarge):
        client.end()


def test_a_frame_too_large_to_receive_breaks_the_session() -> None:
    """A received frame above the limit breaks the session."""
    client = Session(max_frame_bytes=100)

    with pytest.raises(FrameTooLarge, match="the limit is 100; raise maxFrameSize"):
        list(client.receive(encode_command(Command(1, body=bytes(100)))))
    assert client.broken


def test_a_frame_too_large_to_send_is_refused_and_harms_nothing() -> None:
    """A request whose frame is above the limit raises an error and is not pending; the session stays usable."""
    client = Session(max_frame_bytes=200)

    with pytest.raises(FrameTooLarge, match="bytes to send, the limit is 200; send less"):
        client.request(1, body=bytes(200))
    assert client.pending == {}
    opaque, _ = client.request(1)
    assert [event.command.opaque for event in client.receive(reply_to(opaque))] == [opaque]


def test_one_frame_too_large_refuses_the_requests_beside_it() -> None:
    """If several requests are made together and one frame is above the limit, none of them is pending."""
    client = Session(max_frame_bytes=200)

    with pytest.raises(FrameTooLarge, match="a frame of 201 bytes to send"):
        client.request_as(11, 3, lambda opaques: [bytes(50), bytes(201), bytes(50)])
    assert client.pending == {}


def test_requests_made_together_have_opaques_in_a_row() -> None:
    """Requests made together have consecutive opaques; if the counter would overflow among them, they begin at 1."""
    client = Session()
    client._last_opaque = 2**31 - 3
    written = [
        client.request_as(11, count, lambda opaques: [b"%d " % opaque for opaque in opaques]) for count in (2, 3)
    ]

    assert [data for _, data in written] == [b"2147483646 2147483647 ", b"1 2 3 "]
    assert list(client.pending) == [2**31 - 2, 2**31 - 1, 1, 2, 3]


def test_requests_go_out_in_the_sessions_header_form() -> None:
    """A request is encoded in the header form of its session, and a response in the form that it states itself."""
    client, server = Session(header_type=HeaderType.ROCKETMQ), Session()

    (asked,) = server.receive(client.request(105, {"topic": "t"})[1])
    (told,) = client.receive(server.reply(asked.command, Command(0)))

    assert (asked.command.header_type, told.command.header_type) == (HeaderType.ROCKETMQ, HeaderType.JSON)
    assert asked.command.fields == {"topic": "t"}


def test_opaques_start_again_after_the_last() -> None:
    """After opaque 2**31 - 1 the next one is 1; then a response with any opaque is dropped and breaks nothing."""
    client = Session()
    client._last_opaque = 2**31 - 2

    assert [client.request(11)[0] for _ in range(3)] == [2**31 - 1, 1, 2]
    assert list(client.receive(reply_to(12345))) == []
    assert client.dropped_replies == 1


def test_answers_that_nobody_asked_for_are_told_from_late_ones() -> None:
    """If more responses arrive than requests were given up or one-way, the surplus is counted in `unasked`."""
    client = Session()
    opaque, _ = client.request(11)
    client.oneway(35)
    client.forget(opaque)
    client.forget(opaque)
    response = reply_to(opaque)

    assert list(client.receive(response * 2)) == [] and (client.dropped_replies, client.unasked) == (2, 0)
    assert list(client.receive(response * 3)) == [] and (client.dropped_replies, client.unasked) == (5, 3)
