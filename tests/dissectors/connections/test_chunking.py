"""The events of a connection do not depend on how its streams are cut, and account for every byte."""

from dataclasses import dataclass, field
from typing import Any

import pytest
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
from tests.kproxy.frames import request, response, with_length_prefix
from tests.strategies import API_VERSIONS, damaged, values

REQUEST, RESPONSE = Direction.REQUEST, Direction.RESPONSE


@dataclass
class Transcript:
    """The bytes that both sides sent, in order, and the losses between them."""

    limits: dict[str, Any]
    turns: list[tuple[Direction, bytes | int]] = field(default_factory=list)

    def __repr__(self) -> str:
        turns = [
            f"{'<' if direction else '>'} {sent.hex(' ') if isinstance(sent, bytes) else sent}"
            for direction, sent in self.turns
        ]
        return f"{self.limits} " + ", ".join(turns)


@st.composite
def transcripts(draw: st.DrawFn) -> Transcript:
    """Draw requests and responses with anything that may go wrong between them."""
    transcript = Transcript(
        draw(st.sampled_from([{}, {}, {"midstream": True}, {"max_decoded_bytes": 60}, {"max_frame_bytes": 200}]))
    )
    add_turn = transcript.turns.append
    if draw(st.booleans()):
        add_turn(
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
            layouts = api_layouts(key, version)
            assert layouts is not None
            header = {"request_api_key": key, "request_api_version": version, "correlation_id": correlation_id}
            request_bytes = encode(layouts.request_header, header | {"client_id": "me"}) + encode(layouts.request, {})
            response_bytes = encode(layouts.response_header, {"correlation_id": correlation_id}) + encode(
                layouts.response, draw(values(layouts.response))
            )
            add_turn((REQUEST, with_length_prefix(request_bytes)))
            add_turn(
                (
                    RESPONSE,
                    draw(
                        damaged(st.just(with_length_prefix(response_bytes)))
                        if draw(st.booleans())
                        else st.just(with_length_prefix(response_bytes))
                    ),
                )
            )
        elif kind == "sasl":
            add_turn((REQUEST, request("SaslHandshake", 0, {"mechanism": "PLAIN"}, correlation_id=correlation_id)))
            add_turn((RESPONSE, response("SaslHandshake", 0, {}, correlation_id=correlation_id)))
            for _ in range(draw(st.integers(1, 2))):
                add_turn((REQUEST, with_length_prefix(draw(st.binary(max_size=20)))))
                add_turn((RESPONSE, with_length_prefix(draw(st.binary(max_size=20)))))
        elif kind == "lost":
            add_turn((draw(st.sampled_from(Direction)), draw(st.integers(1, 40))))
        elif kind == "foreign":
            add_turn((draw(st.sampled_from(Direction)), draw(st.sampled_from(STREAMS))[1]))
        elif kind == "noise":
            add_turn((draw(st.sampled_from(Direction)), draw(st.binary(max_size=40))))
        else:
            add_turn((RESPONSE, response("Heartbeat", 0, {}, correlation_id=77)))
    return transcript


def replay(transcript: Transcript, cuts: list[int] | None = None) -> tuple[Connection, list[Event]]:
    """Replay a transcript, and return the connection and its events.

    Each turn is cut into pieces of the sizes in `cuts`, used in rotation; without `cuts`, it is sent whole.
    """
    connection, events, count = Connection(**transcript.limits), [], 0
    for direction, sent in transcript.turns:
        if isinstance(sent, int):
            events += connection.lose_data(direction, sent, at=0, reason="not captured")
            continue
        pos = 0
        while pos < len(sent):
            size = cuts[count % len(cuts)] if cuts else len(sent)
            count += 1
            events += connection.receive_data(direction, sent[pos : pos + size], at=0)
            pos += size
    return connection, events + connection.close(at=0)


def fingerprints(events: list[Event]) -> list[tuple[object, ...]]:
    event_prints: list[tuple[object, ...]] = []
    for line, event in zip(story(events), events, strict=True):
        message = event.message if isinstance(event, RequestReceived | ResponseReceived) else None
        event_prints.append(
            (line, message and (message.frame, message.body, str(message.error), message.decode_warnings))
        )
    return event_prints


@pytest.mark.slow
@given(transcripts(), st.lists(st.integers(1, 30), min_size=1, max_size=8))
def test_events_do_not_depend_on_how_the_bytes_are_cut(transcript: Transcript, cuts: list[int]) -> None:
    uncut = fingerprints(replay(transcript)[1])
    assert fingerprints(replay(transcript, [1])[1]) == uncut
    assert fingerprints(replay(transcript, cuts)[1]) == uncut


def accounted_spans(events: list[Event], direction: Direction) -> list[tuple[int, int]]:
    """Return the byte ranges of one direction that the events account for."""
    spans, proxy_header_bytes = [], 0
    for event in events:
        if isinstance(event, ConnectionEnded):
            break
        if isinstance(event, ProxyHeaderReceived):
            if direction is REQUEST:
                spans.append((proxy_header_bytes, proxy_header_bytes + event.size))
                proxy_header_bytes += event.size
        elif isinstance(event, FramingLost):
            if event.direction is direction:
                spans.append((event.offset, 1 << 62))
        else:
            event_direction = getattr(event, "direction", REQUEST if isinstance(event, RequestReceived) else RESPONSE)
            if event_direction is direction:
                spans.append((event.offset, event.offset + event.size + (0 if isinstance(event, BytesSkipped) else 4)))
    return sorted(spans)


@pytest.mark.slow
@given(transcripts())
def test_events_account_for_every_byte(transcript: Transcript) -> None:
    _, events = replay(transcript)
    last_event = events[-1]
    assert isinstance(last_event, ConnectionEnded)
    for direction in Direction:
        sent_bytes = sum(
            sent if isinstance(sent, int) else len(sent)
            for sent_direction, sent in transcript.turns
            if sent_direction is direction
        )
        accounted_end = 0
        for start, end in accounted_spans(events, direction):
            assert start <= accounted_end, f"no event accounts for bytes {accounted_end} to {start}"
            accounted_end = max(accounted_end, end)
        assert accounted_end + last_event.incomplete_frames[direction] >= sent_bytes
    assert len(last_event.unanswered) <= sum(isinstance(event, RequestReceived) for event in events)


@pytest.mark.slow
@given(transcripts())
def test_each_response_answers_at_most_one_request(transcript: Transcript) -> None:
    connection, events = replay(transcript)
    requests = [id(event) for event in events if isinstance(event, RequestReceived) and event.expects_response]
    answered_requests = [id(event.request) for event in events if isinstance(event, ResponseReceived) and event.request]
    assert len(answered_requests) == len(set(answered_requests))
    assert set(answered_requests) <= set(requests)
    assert connection.in_flight == 0


@given(st.lists(st.tuples(st.sampled_from(Direction), st.binary(max_size=60) | st.integers(0, 60))), st.booleans())
def test_arbitrary_bytes_never_raise_an_exception(turns: list[tuple[Direction, bytes | int]], midstream: bool) -> None:
    _, events = replay(Transcript({"midstream": midstream}, turns))
    assert isinstance(events[-1], ConnectionEnded)
