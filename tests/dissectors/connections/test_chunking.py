"""The events of a connection do not depend on how its streams are cut, and account for every byte."""

from dataclasses import dataclass, field
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from dissectors.connections.connection import Connection
from dissectors.connections.events import (
    BytesSkipped,
    ConnectionEnded,
    Direction,
    Event,
    FramingLost,
    ProxyHeaderReceived,
    RequestReceived,
    ResponseReceived,
)
from dissectors.connections.protocol_detection import PROXY_V2
from dissectors.messages.message import api_layouts
from dissectors.wire.encode import encode
from tests.dissectors.connections.test_protocol_detection import STREAMS
from tests.dissectors.story import story
from tests.kproxy.frames import framed, request, response
from tests.strategies import API_VERSIONS, damaged, values

REQUEST, RESPONSE = Direction.REQUEST, Direction.RESPONSE


@dataclass
class Dialogue:
    """What the two sides said, in order, and what of it was lost."""

    limits: dict[str, Any]
    turns: list[tuple[Direction, bytes | int]] = field(default_factory=list)

    def __repr__(self) -> str:
        turns = [
            f"{'<' if way else '>'} {said.hex(' ') if isinstance(said, bytes) else said}" for way, said in self.turns
        ]
        return f"{self.limits} " + ", ".join(turns)


@st.composite
def dialogues(draw: st.DrawFn) -> Dialogue:
    """Requests and responses with whatever may go wrong between them."""
    dialogue = Dialogue(
        draw(st.sampled_from([{}, {}, {"midstream": True}, {"max_decoded_bytes": 60}, {"max_frame_bytes": 200}]))
    )
    say = dialogue.turns.append
    if draw(st.booleans()):
        say(
            (
                REQUEST,
                draw(st.sampled_from([PROXY_V2 + b"\x21\x11\0\x03abc", b"PROXY UNKNOWN\r\n", b"PROXY" + b"x" * 200])),
            )
        )
    for correlation_id in range(draw(st.integers(1, 4))):
        kind = draw(st.sampled_from(["call"] * 8 + ["sasl", "lost", "foreign", "noise", "unasked"]))
        if kind == "call":
            key, version = draw(
                st.sampled_from([(0, 3), (3, 0), (12, 0), (12, 4), (18, 0)]) | st.sampled_from(API_VERSIONS)
            )
            known = api_layouts(key, version)
            assert known is not None
            header = {"request_api_key": key, "request_api_version": version, "correlation_id": correlation_id}
            asks = encode(known.request_header, header | {"client_id": "me"}) + encode(known.request, {})
            answers = encode(known.response_header, {"correlation_id": correlation_id}) + encode(
                known.response, draw(values(known.response))
            )
            say((REQUEST, framed(asks)))
            say(
                (RESPONSE, draw(damaged(st.just(framed(answers))) if draw(st.booleans()) else st.just(framed(answers))))
            )
        elif kind == "sasl":
            say((REQUEST, request("SaslHandshake", 0, {"mechanism": "PLAIN"}, correlation_id=correlation_id)))
            say((RESPONSE, response("SaslHandshake", 0, {}, correlation_id=correlation_id)))
            for _ in range(draw(st.integers(1, 2))):
                say((REQUEST, framed(draw(st.binary(max_size=20)))))
                say((RESPONSE, framed(draw(st.binary(max_size=20)))))
        elif kind == "lost":
            say((draw(st.sampled_from(Direction)), draw(st.integers(1, 40))))
        elif kind == "foreign":
            say((draw(st.sampled_from(Direction)), draw(st.sampled_from(STREAMS))[1]))
        elif kind == "noise":
            say((draw(st.sampled_from(Direction)), draw(st.binary(max_size=40))))
        else:
            say((RESPONSE, response("Heartbeat", 0, {}, correlation_id=77)))
    return dialogue


def tell(dialogue: Dialogue, cuts: list[int] | None = None) -> tuple[Connection, list[Event]]:
    """The events of a dialogue, each turn cut into pieces of these sizes in turn; whole without."""
    connection, events, count = Connection(**dialogue.limits), [], 0
    for direction, said in dialogue.turns:
        if isinstance(said, int):
            events += connection.lose_data(direction, said, at=0, reason="not captured")
            continue
        pos = 0
        while pos < len(said):
            size = cuts[count % len(cuts)] if cuts else len(said)
            count += 1
            events += connection.receive_data(direction, said[pos : pos + size], at=0)
            pos += size
    return connection, events + connection.close(at=0)


def fingerprints(events: list[Event]) -> list[tuple[object, ...]]:
    fingerprints: list[tuple[object, ...]] = []
    for line, event in zip(story(events), events, strict=True):
        message = event.message if isinstance(event, RequestReceived | ResponseReceived) else None
        fingerprints.append(
            (line, message and (message.frame, message.body, str(message.error), message.decode_warnings))
        )
    return fingerprints


@given(dialogues(), st.lists(st.integers(1, 30), min_size=1, max_size=8))
def test_events_do_not_depend_on_how_the_bytes_are_cut(told: Dialogue, cuts: list[int]) -> None:
    whole = fingerprints(tell(told)[1])
    assert fingerprints(tell(told, [1])[1]) == whole
    assert fingerprints(tell(told, cuts)[1]) == whole


def spans(events: list[Event], direction: Direction) -> list[tuple[int, int]]:
    """The bytes of one direction that each event accounts for."""
    made, proxied = [], 0
    for event in events:
        if isinstance(event, ConnectionEnded):
            break
        if isinstance(event, ProxyHeaderReceived):
            if direction is REQUEST:
                made.append((proxied, proxied + event.size))
                proxied += event.size
        elif isinstance(event, FramingLost):
            if event.direction is direction:
                made.append((event.offset, 1 << 62))
        else:
            way = getattr(event, "direction", REQUEST if isinstance(event, RequestReceived) else RESPONSE)
            if way is direction:
                made.append((event.offset, event.offset + event.size + (0 if isinstance(event, BytesSkipped) else 4)))
    return sorted(made)


@given(dialogues())
def test_events_account_for_every_byte(told: Dialogue) -> None:
    _, events = tell(told)
    ended = events[-1]
    assert isinstance(ended, ConnectionEnded)
    for direction in Direction:
        total = sum(said if isinstance(said, int) else len(said) for way, said in told.turns if way is direction)
        reached = 0
        for start, end in spans(events, direction):
            assert start <= reached, f"nothing is said of bytes {reached} to {start}"
            reached = max(reached, end)
        assert reached + ended.incomplete_frames[direction] >= total
    assert len(ended.unanswered) <= sum(isinstance(event, RequestReceived) for event in events)


@given(dialogues())
def test_every_response_answers_one_request(told: Dialogue) -> None:
    connection, events = tell(told)
    asked = [id(event) for event in events if isinstance(event, RequestReceived) and event.expects_response]
    answered = [id(event.request) for event in events if isinstance(event, ResponseReceived) and event.request]
    assert len(answered) == len(set(answered))
    assert set(answered) <= set(asked)
    assert connection.in_flight == 0


@given(st.lists(st.tuples(st.sampled_from(Direction), st.binary(max_size=60) | st.integers(0, 60))), st.booleans())
def test_any_bytes_give_events_and_no_exception(turns: list[tuple[Direction, bytes | int]], midstream: bool) -> None:
    _, events = tell(Dialogue({"midstream": midstream}, turns))
    assert isinstance(events[-1], ConnectionEnded)
