"""Interceptors on both directions of a connection: what is shown to them, and what becomes of all other bytes."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from dissectors.connections.events import Direction
from dissectors.interception.intercepted_connection import InterceptedConnection
from dissectors.interception.intercepted_stream import Delivery, TooLarge
from dissectors.interception.interceptor import (
    FORWARD,
    Action,
    Answer,
    CloseConnection,
    Delay,
    Drop,
    Replace,
    RequestHeader,
)
from dissectors.schemas.codes import ApiKey
from tests.kproxy.frames import framed, request, response

REQUEST, RESPONSE = Direction.REQUEST, Direction.RESPONSE
HEARTBEAT, METADATA, PRODUCE = int(ApiKey.HEARTBEAT), int(ApiKey.METADATA), int(ApiKey.PRODUCE)


class Deciding:
    """Wants some APIs, and takes one decision about each frame of theirs."""

    answers = True

    def __init__(self, decide: Callable[[Direction, bytes, RequestHeader], Action], *api_keys: int) -> None:
        self.decide = decide
        self.api_keys = api_keys
        self.seen: list[tuple[Direction, bytes]] = []

    def wants(self, direction: Direction, api_key: int, api_version: int) -> bool:
        return api_key in self.api_keys

    def on_request(self, frame: bytes, header: RequestHeader) -> Action:
        self.seen.append((REQUEST, frame))
        return self.decide(REQUEST, frame, header)

    def on_response(self, frame: bytes, header: RequestHeader) -> Action:
        self.seen.append((RESPONSE, frame))
        return self.decide(RESPONSE, frame, header)


def only(direction: Direction, action: Action, *api_keys: int) -> Deciding:
    return Deciding(lambda way, frame, header: action if way is direction else FORWARD, *api_keys)


def sent(outputs: Iterable[Delivery], direction: Direction) -> bytes:
    return b"".join(output.sent for output in outputs if output.direction is direction)


def received(outputs: Iterable[Delivery], direction: Direction) -> bytes:
    return b"".join(output.received for output in outputs if output.direction is direction)


def heartbeat(number: int) -> bytes:
    return request("Heartbeat", 0, {"group_id": "g"}, correlation_id=number)


def metadata(number: int) -> bytes:
    return request("Metadata", 1, {"topics": None}, correlation_id=number)


def beat(number: int) -> bytes:
    return response("Heartbeat", 0, {}, correlation_id=number)


def brokers(number: int, host: str = "b") -> bytes:
    return response("Metadata", 1, {"brokers": [{"node_id": 1, "host": host, "port": 1}]}, correlation_id=number)


@st.composite
def conversations(draw: st.DrawFn) -> list[tuple[bytes, bytes]]:
    """Requests with their responses; sizes from a header alone to many times the chunks."""
    conversations = []
    for number in range(draw(st.integers(1, 8))):
        key = draw(st.sampled_from([METADATA, HEARTBEAT, int(ApiKey.FETCH), 9999]))
        padding = b"x" * draw(st.sampled_from([0, 1, 5, 300, 2000]))
        head = key.to_bytes(2, "big") + b"\0\1" + number.to_bytes(4, "big")
        conversations.append((framed(head + padding), framed(number.to_bytes(4, "big") + padding)))
    return conversations


def chunks(data: bytes, cuts: Sequence[int]) -> list[bytes]:
    places = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    return [data[start:stop] for start, stop in itertools.pairwise(places)]


@settings(deadline=None)
@given(conversations(), st.lists(st.integers(0, 10_000), max_size=12), st.lists(st.integers(0, 10_000), max_size=12))
def test_bytes_of_other_apis_are_the_same_however_they_are_cut(
    talk: list[tuple[bytes, bytes]], request_cuts: list[int], response_cuts: list[int]
) -> None:
    changed = b"\0\0\0\5other"
    deciding = only(RESPONSE, Replace(changed), METADATA)
    connection = InterceptedConnection([deciding])
    asked, answered = b"".join(ask for ask, _ in talk), b"".join(answer for _, answer in talk)
    outputs = []
    for chunk in chunks(asked, request_cuts):
        outputs += connection.receive_data(REQUEST, chunk)
    for chunk in chunks(answered, response_cuts):
        outputs += connection.receive_data(RESPONSE, chunk)
    assert sent(outputs, REQUEST) == asked
    is_metadata = [ask[4:6] == METADATA.to_bytes(2, "big") for ask, _ in talk]
    replies = zip(talk, is_metadata, strict=True)
    assert sent(outputs, RESPONSE) == b"".join(changed if wanted else answer for (_, answer), wanted in replies)
    assert received(outputs, REQUEST) == asked
    assert received(outputs, RESPONSE) == answered
    assert [frame for way, frame in deciding.seen if way is REQUEST] == [
        ask for (ask, _), wanted in zip(talk, is_metadata, strict=True) if wanted
    ]


class Frame(NamedTuple):
    """A request and its response, and what becomes of both."""

    request: bytes
    response: bytes  # empty if the server sends none
    on_request: Action
    on_response: Action


def produce(number: int, acks: int, padding: bytes = b"", version: int = 12) -> bytes:
    partition = {"index": 0, "records": padding}
    body = {"acks": acks, "topic_data": [{"name": "t", "partition_data": [partition]}]}
    return request("Produce", version, body, correlation_id=number)


@st.composite
def frames(draw: st.DrawFn, *, answers: bool) -> list[Frame]:
    """A conversation with pipelined requests, some without a response, and some that interceptors handle."""
    frames = []
    actions: list[Action] = [FORWARD, FORWARD, Delay(1.5), Drop(), Replace(b"\0\0\0\5other")]
    for number in range(draw(st.integers(1, 8))):
        key = draw(st.sampled_from([METADATA, HEARTBEAT, PRODUCE]))
        padding = b"x" * draw(st.sampled_from([0, 1, 300, 2000]))
        ask = framed(key.to_bytes(2, "big") + b"\0\1" + number.to_bytes(4, "big") + padding)
        reply = framed(number.to_bytes(4, "big") + padding)
        if key == PRODUCE:
            acks = draw(st.sampled_from([0, -1]))
            ask = produce(number, acks, padding)
            reply = reply if acks else b""
        on_request, on_response = FORWARD, FORWARD
        if key == METADATA:
            answer: list[Action] = [Answer(framed(b"made by an interceptor"))] if answers else []
            on_request, on_response = draw(st.sampled_from(actions + answer)), draw(st.sampled_from(actions))
        frames.append(Frame(ask, reply, on_request, on_response))
    return frames


def outcome(frame: bytes, action: Action) -> tuple[bytes, float]:
    """What is sent for a frame, and by how much it is delayed."""
    match action:
        case Replace(other):
            return other, 0.0
        case Delay(seconds):
            return frame, seconds
        case Drop() | Answer():
            return b"", 0.0
    return frame, 0.0


TAILS = [b"", b"\xff\xff\xff\xff" + bytes(30), b"\x16\x03\x01\x02\x00\x01\x00" + bytes(600), metadata(99)[:-1]]


@settings(max_examples=3 * settings().max_examples)
@given(st.data(), st.booleans(), st.booleans(), st.sampled_from(TAILS), st.integers(0, 3))
def test_each_frame_becomes_what_was_decided_however_the_bytes_are_cut(
    data: st.DataObject, answers: bool, only_responses: bool, tail: bytes, lag: int
) -> None:
    talk = data.draw(frames(answers=answers))
    cuts = st.lists(st.tuples(st.integers(0, 8), st.integers(0, 13) | st.integers(0, 3000)), max_size=8)

    def decide(direction: Direction, frame: bytes, header: RequestHeader) -> Action:
        asked = talk[header.correlation_id]
        return asked.on_request if direction is REQUEST else asked.on_response

    deciding = Deciding(decide, METADATA)
    deciding.answers = answers
    if only_responses:
        deciding.wants = lambda direction, key, version: direction is RESPONSE and key == METADATA  # type: ignore[method-assign]
        talk = [each._replace(on_request=FORWARD) for each in talk]
    connection = InterceptedConnection([deciding])
    outputs: list[Delivery] = []

    def feed(direction: Direction, *parts: bytes) -> None:
        starts = [0, *itertools.accumulate(map(len, parts))]  # cuts inside headers are the interesting ones
        places = [starts[index % len(starts)] + offset for index, offset in data.draw(cuts)]
        for chunk in chunks(b"".join(parts), places):
            outputs.extend(connection.receive_data(direction, chunk))

    responses = [each.response if outcome(each.request, each.on_request)[0] else b"" for each in talk]
    for number in range(0, len(talk), lag + 1):  # up to `lag` requests more are in flight when the server responds
        feed(REQUEST, *(each.request for each in talk[number : number + lag + 1]))
        feed(RESPONSE, *responses[number : number + lag + 1])
    feed(REQUEST, tail)
    outputs += connection.end(REQUEST)

    requests = [outcome(each.request, each.on_request) for each in talk]
    assert sent(outputs, REQUEST) == b"".join(frame for frame, _ in requests) + tail
    assert received(outputs, REQUEST) == b"".join(each.request for each in talk) + tail
    replies = [
        (each.on_request.frame, 0.0) if isinstance(each.on_request, Answer) else outcome(reply, each.on_response)
        for each, reply in zip(talk, responses, strict=True)
        if reply or isinstance(each.on_request, Answer)
    ]
    assert sent(outputs, RESPONSE) == b"".join(frame for frame, _ in replies)
    assert received(outputs, RESPONSE) == b"".join(responses)
    for direction, decided in ((REQUEST, requests), (RESPONSE, replies)):
        delays = [output.delay for output in outputs if output.direction is direction and output.delay]
        assert delays == [delay for _, delay in decided if delay]


def test_what_nobody_wants_is_not_held_back() -> None:
    connection = InterceptedConnection([only(RESPONSE, Drop(), METADATA)])
    frame = heartbeat(1)
    assert sent(connection.receive_data(REQUEST, frame[:20]), REQUEST) == frame[:20]
    assert sent(connection.receive_data(REQUEST, frame[20:]), REQUEST) == frame[20:]


def test_bytes_pass_as_they_came_without_a_copy() -> None:
    connection = InterceptedConnection([only(RESPONSE, Drop(), METADATA)])
    chunk = heartbeat(1) + heartbeat(2)
    (output,) = connection.receive_data(REQUEST, chunk)
    assert output.sent is output.received is chunk


def test_a_dropped_request_is_not_sent_and_its_number_not_expected() -> None:
    connection = InterceptedConnection([only(REQUEST, Drop(), METADATA)])
    outputs = connection.receive_data(REQUEST, metadata(1) + heartbeat(2))
    assert sent(outputs, REQUEST) == heartbeat(2)
    assert received(outputs, REQUEST) == metadata(1) + heartbeat(2)
    assert sent(connection.receive_data(RESPONSE, beat(2)), RESPONSE) == beat(2)


def test_an_answer_waits_for_the_responses_to_earlier_requests() -> None:
    connection = InterceptedConnection([only(REQUEST, Answer(brokers(2, "proxy")), METADATA)])
    outputs = connection.receive_data(REQUEST, heartbeat(1) + metadata(2) + heartbeat(3))
    assert sent(outputs, REQUEST) == heartbeat(1) + heartbeat(3)
    assert sent(outputs, RESPONSE) == b""
    outputs = connection.receive_data(RESPONSE, beat(1) + beat(3))
    assert sent(outputs, RESPONSE) == beat(1) + brokers(2, "proxy") + beat(3)


def test_an_answer_is_given_at_once_if_nothing_else_waits() -> None:
    connection = InterceptedConnection([only(REQUEST, Answer(brokers(1, "proxy")), METADATA)])
    assert sent(connection.receive_data(REQUEST, metadata(1)), RESPONSE) == brokers(1, "proxy")


def test_an_answer_never_stands_inside_a_response_that_is_under_way() -> None:
    connection = InterceptedConnection([only(REQUEST, Answer(brokers(2, "proxy")), METADATA)])
    connection.receive_data(REQUEST, heartbeat(1))
    outputs = connection.receive_data(RESPONSE, beat(1)[:9])
    outputs += connection.receive_data(REQUEST, metadata(2))
    outputs += connection.receive_data(RESPONSE, beat(1)[9:])
    assert sent(outputs, RESPONSE) == beat(1) + brokers(2, "proxy")


def test_an_answer_does_not_wait_for_a_produce_without_acks() -> None:
    connection = InterceptedConnection([only(REQUEST, Answer(brokers(2, "proxy")), METADATA)])
    quiet = request("Produce", 9, {"acks": 0}, correlation_id=1)
    assert sent(connection.receive_data(REQUEST, quiet + metadata(2)), RESPONSE) == brokers(2, "proxy")
    loud = request("Produce", 9, {"acks": 1}, correlation_id=3)
    assert sent(connection.receive_data(REQUEST, loud + metadata(2)), RESPONSE) == b""


def test_a_delay_holds_for_the_frame_and_its_place_is_kept() -> None:
    connection = InterceptedConnection([only(RESPONSE, Delay(1.5), METADATA)])
    connection.receive_data(REQUEST, heartbeat(1) + metadata(2) + heartbeat(3))
    outputs = connection.receive_data(RESPONSE, beat(1) + brokers(2) + beat(3))
    assert [(output.sent, output.delay) for output in outputs] == [(beat(1), 0.0), (brokers(2), 1.5), (beat(3), 0.0)]


def test_nothing_is_sent_after_a_close() -> None:
    connection = InterceptedConnection([only(RESPONSE, CloseConnection(), METADATA)])
    connection.receive_data(REQUEST, heartbeat(1) + metadata(2) + heartbeat(3))
    outputs = connection.receive_data(RESPONSE, beat(1) + brokers(2) + beat(3))
    assert sent(outputs, RESPONSE) == beat(1)
    assert [output.close for output in outputs] == [False, True]


def test_interceptors_see_what_those_before_them_let_pass() -> None:
    first, second = only(RESPONSE, Replace(brokers(1, "other")), METADATA), only(RESPONSE, FORWARD, METADATA)
    connection = InterceptedConnection([first, second])
    connection.receive_data(REQUEST, metadata(1))
    (output,) = connection.receive_data(RESPONSE, brokers(1))
    assert output == Delivery(RESPONSE, brokers(1), brokers(1, "other"))
    assert second.seen == [(REQUEST, metadata(1)), (RESPONSE, brokers(1, "other"))]


def test_a_frame_that_is_too_large_passes_and_is_reported() -> None:
    large: list[TooLarge] = []
    deciding = only(RESPONSE, Drop(), METADATA)
    connection = InterceptedConnection([deciding], max_held_bytes=30, report=large.append)
    connection.receive_data(REQUEST, metadata(1))
    frame = brokers(1, "h" * 100)
    assert sent(connection.receive_data(RESPONSE, frame[:50]), RESPONSE) == frame[:50]
    assert sent(connection.receive_data(RESPONSE, frame[50:]), RESPONSE) == frame[50:]
    assert [(event.direction, event.header.api_key, event.size) for event in large] == [(RESPONSE, 3, len(frame))]


def test_what_is_not_kafka_passes() -> None:
    connection = InterceptedConnection([only(REQUEST, Drop(), METADATA)])
    hello = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500)
    assert sent(connection.receive_data(REQUEST, hello[:7]), REQUEST) == hello[:7]
    assert sent(connection.receive_data(REQUEST, hello[7:]), REQUEST) == hello[7:]


def test_the_beginning_of_a_frame_passes_at_the_end_of_the_stream() -> None:
    connection = InterceptedConnection([only(REQUEST, Drop(), METADATA)])
    part = metadata(1)[:-1]
    assert connection.receive_data(REQUEST, part) == []
    assert sent(connection.end(REQUEST), REQUEST) == part
    assert connection.end(RESPONSE) == []


def test_sasl_tokens_that_are_no_requests_pass() -> None:
    connection = InterceptedConnection([only(RESPONSE, Drop(), METADATA)])
    tokens = framed(b"\0alice\0secret") + framed(b"") + framed(b"\0\3\0")
    assert sent(connection.receive_data(REQUEST, tokens), REQUEST) == tokens
    assert sent(connection.receive_data(RESPONSE, framed(b"") * 2), RESPONSE) == framed(b"") * 2


def test_requests_that_are_never_answered_take_bounded_memory() -> None:
    connection = InterceptedConnection([only(RESPONSE, Drop(), METADATA)])
    for number in range(20_000):
        connection.receive_data(REQUEST, heartbeat(number))
    assert len(connection._pending) == 10_000


def test_requests_whose_response_nobody_wants_are_not_remembered() -> None:
    deciding = only(RESPONSE, Replace(brokers(2, "proxy")), METADATA)
    deciding.answers = False
    connection = InterceptedConnection([deciding])
    connection.receive_data(REQUEST, heartbeat(1) + metadata(2) + heartbeat(3))
    assert len(connection._pending) == 1
    outputs = connection.receive_data(RESPONSE, beat(1) + brokers(2) + beat(3))
    assert sent(outputs, RESPONSE) == beat(1) + brokers(2, "proxy") + beat(3)
    assert len(connection._pending) == 0


def test_produce_without_acks_takes_little_memory() -> None:
    deciding = only(RESPONSE, Drop(), PRODUCE)
    deciding.wants = lambda direction, key, version: direction is RESPONSE and key == PRODUCE  # type: ignore[method-assign]
    deciding.answers = False
    connection = InterceptedConnection([deciding])
    for number in range(1000):
        connection.receive_data(REQUEST, produce(number, acks=0))
    assert len(connection._pending) <= 100
    for number in range(1000, 1300):
        connection.receive_data(REQUEST, produce(number, acks=1))
    for number in range(1000, 1300):
        assert sent(connection.receive_data(RESPONSE, framed(number.to_bytes(4, "big"))), RESPONSE) == b""
    assert len(connection._pending) == 0


def test_interceptors_are_asked_once_for_each_api_version() -> None:
    asked: list[tuple[Direction, int, int]] = []
    deciding = only(RESPONSE, FORWARD, METADATA)
    deciding.wants = lambda *question: asked.append(question) or False  # type: ignore[method-assign, func-returns-value]
    connection = InterceptedConnection([deciding])
    for number in range(3):
        connection.receive_data(REQUEST, heartbeat(number) + metadata(number + 10))
    assert asked == [(way, key, version) for key, version in ((HEARTBEAT, 0), (METADATA, 1)) for way in Direction]


@settings(deadline=None)
@given(conversations(), st.lists(st.integers(0, 10_000), max_size=12), st.integers(0, 20_000), st.integers(0, 20_000))
def test_what_was_sent_before_a_reset_is_the_beginning_of_what_would_have_been(
    talk: list[tuple[bytes, bytes]], cuts: list[int], requests_end: int, responses_end: int
) -> None:
    changed = b"\0\0\0\5other"
    connection = InterceptedConnection([only(RESPONSE, Replace(changed), METADATA), only(REQUEST, Drop(), HEARTBEAT)])
    asked = b"".join(ask for ask, _ in talk)[:requests_end]
    arrived = sum(1 for end in itertools.accumulate(len(ask) for ask, _ in talk) if end <= len(asked))
    answered = b"".join(answer for _, answer in talk[:arrived])[:responses_end]
    outputs = []
    for direction, data in ((REQUEST, asked), (RESPONSE, answered)):
        for chunk in chunks(data, cuts):
            outputs += connection.receive_data(direction, chunk)
    keys = [int.from_bytes(ask[4:6], "big") for ask, _ in talk]
    passing = (b"" if key == HEARTBEAT else ask for key, (ask, _) in zip(keys, talk, strict=True))
    replies = (changed if key == METADATA else answer for key, (_, answer) in zip(keys, talk, strict=True))
    assert b"".join(passing).startswith(sent(outputs, REQUEST))
    assert b"".join(replies).startswith(sent(outputs, RESPONSE))
    assert asked.startswith(received(outputs, REQUEST))
    assert answered.startswith(received(outputs, RESPONSE))
