"""Interceptors on both directions of a connection: which frames they see, and how all other bytes pass."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import pytest
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
from tests.kproxy.frames import request, response, with_length_prefix

REQUEST, RESPONSE = Direction.REQUEST, Direction.RESPONSE
HEARTBEAT, METADATA, PRODUCE = int(ApiKey.HEARTBEAT), int(ApiKey.METADATA), int(ApiKey.PRODUCE)


class RecordingInterceptor:
    """Wants the frames of some APIs, decides about each with a given function, and records them."""

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


def interceptor_for(direction: Direction, action: Action, *api_keys: int) -> RecordingInterceptor:
    return RecordingInterceptor(lambda way, frame, header: action if way is direction else FORWARD, *api_keys)


def sent_bytes(outputs: Iterable[Delivery], direction: Direction) -> bytes:
    return b"".join(output.sent for output in outputs if output.direction is direction)


def received_bytes(outputs: Iterable[Delivery], direction: Direction) -> bytes:
    return b"".join(output.received for output in outputs if output.direction is direction)


def heartbeat_request(number: int) -> bytes:
    return request("Heartbeat", 0, {"group_id": "g"}, correlation_id=number)


def metadata_request(number: int) -> bytes:
    return request("Metadata", 1, {"topics": None}, correlation_id=number)


def heartbeat_response(number: int) -> bytes:
    return response("Heartbeat", 0, {}, correlation_id=number)


def metadata_response(number: int, host: str = "b") -> bytes:
    return response("Metadata", 1, {"brokers": [{"node_id": 1, "host": host, "port": 1}]}, correlation_id=number)


@st.composite
def conversations(draw: st.DrawFn) -> list[tuple[bytes, bytes]]:
    """Draw requests with their responses, from a header alone to frames much longer than the chunks."""
    conversation = []
    for number in range(draw(st.integers(1, 8))):
        key = draw(st.sampled_from([METADATA, HEARTBEAT, int(ApiKey.FETCH), 9999]))
        padding = b"x" * draw(st.sampled_from([0, 1, 5, 300, 2000]))
        head = key.to_bytes(2, "big") + b"\0\1" + number.to_bytes(4, "big")
        conversation.append(
            (with_length_prefix(head + padding), with_length_prefix(number.to_bytes(4, "big") + padding))
        )
    return conversation


def chunks(data: bytes, cuts: Sequence[int]) -> list[bytes]:
    positions = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    return [data[start:stop] for start, stop in itertools.pairwise(positions)]


@pytest.mark.slow
@settings(deadline=None)
@given(conversations(), st.lists(st.integers(0, 10_000), max_size=12), st.lists(st.integers(0, 10_000), max_size=12))
def test_only_wanted_responses_are_replaced_however_the_streams_are_chunked(
    exchanges: list[tuple[bytes, bytes]], request_cuts: list[int], response_cuts: list[int]
) -> None:
    changed_frame = b"\0\0\0\5other"
    interceptor = interceptor_for(RESPONSE, Replace(changed_frame), METADATA)
    connection = InterceptedConnection([interceptor])
    requests, responses = (
        b"".join(request_frame for request_frame, _ in exchanges),
        b"".join(response_frame for _, response_frame in exchanges),
    )
    outputs = []
    for chunk in chunks(requests, request_cuts):
        outputs += connection.receive_data(REQUEST, chunk)
    for chunk in chunks(responses, response_cuts):
        outputs += connection.receive_data(RESPONSE, chunk)
    assert sent_bytes(outputs, REQUEST) == requests
    is_metadata = [request_frame[4:6] == METADATA.to_bytes(2, "big") for request_frame, _ in exchanges]
    expected = zip(exchanges, is_metadata, strict=True)
    assert sent_bytes(outputs, RESPONSE) == b"".join(
        changed_frame if is_wanted else response_frame for (_, response_frame), is_wanted in expected
    )
    assert received_bytes(outputs, REQUEST) == requests
    assert received_bytes(outputs, RESPONSE) == responses
    assert [frame for direction, frame in interceptor.seen if direction is REQUEST] == [
        request_frame for (request_frame, _), is_wanted in zip(exchanges, is_metadata, strict=True) if is_wanted
    ]


class PlannedExchange(NamedTuple):
    """A request and its response, and the action on each."""

    request: bytes
    response: bytes  # empty if the server sends none
    on_request: Action
    on_response: Action


def produce_request(number: int, acks: int, padding: bytes = b"", version: int = 12) -> bytes:
    partition = {"index": 0, "records": padding}
    body = {"acks": acks, "topic_data": [{"name": "t", "partition_data": [partition]}]}
    return request("Produce", version, body, correlation_id=number)


@st.composite
def exchanges(draw: st.DrawFn, *, answers: bool) -> list[PlannedExchange]:
    """Draw a conversation in which some requests have no response, and an interceptor handles some frames."""
    planned = []
    actions: list[Action] = [FORWARD, FORWARD, Delay(1.5), Drop(), Replace(b"\0\0\0\5other")]
    for number in range(draw(st.integers(1, 8))):
        key = draw(st.sampled_from([METADATA, HEARTBEAT, PRODUCE]))
        padding = b"x" * draw(st.sampled_from([0, 1, 300, 2000]))
        request_frame = with_length_prefix(key.to_bytes(2, "big") + b"\0\1" + number.to_bytes(4, "big") + padding)
        response_frame = with_length_prefix(number.to_bytes(4, "big") + padding)
        if key == PRODUCE:
            acks = draw(st.sampled_from([0, -1]))
            request_frame = produce_request(number, acks, padding)
            response_frame = response_frame if acks else b""
        on_request, on_response = FORWARD, FORWARD
        if key == METADATA:
            answers_by_interceptor: list[Action] = (
                [Answer(with_length_prefix(b"made by an interceptor"))] if answers else []
            )
            on_request, on_response = (
                draw(st.sampled_from(actions + answers_by_interceptor)),
                draw(st.sampled_from(actions)),
            )
        planned.append(PlannedExchange(request_frame, response_frame, on_request, on_response))
    return planned


def expected_delivery(frame: bytes, action: Action) -> tuple[bytes, float]:
    """Return the bytes sent for a frame, and their delay in seconds."""
    match action:
        case Replace(replacement):
            return replacement, 0.0
        case Delay(seconds):
            return frame, seconds
        case Drop() | Answer():
            return b"", 0.0
    return frame, 0.0


TAILS = [b"", b"\xff\xff\xff\xff" + bytes(30), b"\x16\x03\x01\x02\x00\x01\x00" + bytes(600), metadata_request(99)[:-1]]


@pytest.mark.slow
@settings(max_examples=3 * settings().max_examples)
@given(st.data(), st.booleans(), st.booleans(), st.sampled_from(TAILS), st.integers(0, 3))
def test_each_frame_gets_its_action_however_the_bytes_are_cut(
    data: st.DataObject, answers: bool, only_responses: bool, tail: bytes, lag: int
) -> None:
    planned = data.draw(exchanges(answers=answers))
    cuts = st.lists(st.tuples(st.integers(0, 8), st.integers(0, 13) | st.integers(0, 3000)), max_size=8)

    def decide(direction: Direction, frame: bytes, header: RequestHeader) -> Action:
        exchange = planned[header.correlation_id]
        return exchange.on_request if direction is REQUEST else exchange.on_response

    interceptor = RecordingInterceptor(decide, METADATA)
    interceptor.answers = answers
    if only_responses:
        interceptor.wants = lambda direction, key, version: direction is RESPONSE and key == METADATA  # type: ignore[method-assign]
        planned = [exchange._replace(on_request=FORWARD) for exchange in planned]
    connection = InterceptedConnection([interceptor])
    outputs: list[Delivery] = []

    def feed(direction: Direction, *parts: bytes) -> None:
        starts = [0, *itertools.accumulate(map(len, parts))]  # cuts inside headers are the interesting ones
        positions = [starts[index % len(starts)] + offset for index, offset in data.draw(cuts)]
        for chunk in chunks(b"".join(parts), positions):
            outputs.extend(connection.receive_data(direction, chunk))

    responses = [
        exchange.response if expected_delivery(exchange.request, exchange.on_request)[0] else b""
        for exchange in planned
    ]
    for number in range(0, len(planned), lag + 1):  # up to `lag` more requests are in flight when the server responds
        feed(REQUEST, *(exchange.request for exchange in planned[number : number + lag + 1]))
        feed(RESPONSE, *responses[number : number + lag + 1])
    feed(REQUEST, tail)
    outputs += connection.end(REQUEST)

    requests = [expected_delivery(exchange.request, exchange.on_request) for exchange in planned]
    assert sent_bytes(outputs, REQUEST) == b"".join(frame for frame, _ in requests) + tail
    assert received_bytes(outputs, REQUEST) == b"".join(exchange.request for exchange in planned) + tail
    replies = [
        (exchange.on_request.frame, 0.0)
        if isinstance(exchange.on_request, Answer)
        else expected_delivery(reply, exchange.on_response)
        for exchange, reply in zip(planned, responses, strict=True)
        if reply or isinstance(exchange.on_request, Answer)
    ]
    assert sent_bytes(outputs, RESPONSE) == b"".join(frame for frame, _ in replies)
    assert received_bytes(outputs, RESPONSE) == b"".join(responses)
    for direction, decisions in ((REQUEST, requests), (RESPONSE, replies)):
        delays = [output.delay for output in outputs if output.direction is direction and output.delay]
        assert delays == [delay for _, delay in decisions if delay]


def test_unwanted_frames_are_not_held_back() -> None:
    connection = InterceptedConnection([interceptor_for(RESPONSE, Drop(), METADATA)])
    frame = heartbeat_request(1)
    assert sent_bytes(connection.receive_data(REQUEST, frame[:20]), REQUEST) == frame[:20]
    assert sent_bytes(connection.receive_data(REQUEST, frame[20:]), REQUEST) == frame[20:]


def test_passing_bytes_are_not_copied() -> None:
    connection = InterceptedConnection([interceptor_for(RESPONSE, Drop(), METADATA)])
    chunk = heartbeat_request(1) + heartbeat_request(2)
    (output,) = connection.receive_data(REQUEST, chunk)
    assert output.sent is output.received is chunk


def test_dropped_request_is_not_sent_and_its_response_not_awaited() -> None:
    connection = InterceptedConnection([interceptor_for(REQUEST, Drop(), METADATA)])
    outputs = connection.receive_data(REQUEST, metadata_request(1) + heartbeat_request(2))
    assert sent_bytes(outputs, REQUEST) == heartbeat_request(2)
    assert received_bytes(outputs, REQUEST) == metadata_request(1) + heartbeat_request(2)
    assert sent_bytes(connection.receive_data(RESPONSE, heartbeat_response(2)), RESPONSE) == heartbeat_response(2)


def test_answer_waits_for_responses_to_earlier_requests() -> None:
    connection = InterceptedConnection([interceptor_for(REQUEST, Answer(metadata_response(2, "proxy")), METADATA)])
    outputs = connection.receive_data(REQUEST, heartbeat_request(1) + metadata_request(2) + heartbeat_request(3))
    assert sent_bytes(outputs, REQUEST) == heartbeat_request(1) + heartbeat_request(3)
    assert sent_bytes(outputs, RESPONSE) == b""
    outputs = connection.receive_data(RESPONSE, heartbeat_response(1) + heartbeat_response(3))
    assert sent_bytes(outputs, RESPONSE) == heartbeat_response(1) + metadata_response(2, "proxy") + heartbeat_response(
        3
    )


def test_answer_is_sent_at_once_if_no_response_is_due() -> None:
    connection = InterceptedConnection([interceptor_for(REQUEST, Answer(metadata_response(1, "proxy")), METADATA)])
    assert sent_bytes(connection.receive_data(REQUEST, metadata_request(1)), RESPONSE) == metadata_response(1, "proxy")


def test_answer_is_never_sent_inside_a_response() -> None:
    connection = InterceptedConnection([interceptor_for(REQUEST, Answer(metadata_response(2, "proxy")), METADATA)])
    connection.receive_data(REQUEST, heartbeat_request(1))
    outputs = connection.receive_data(RESPONSE, heartbeat_response(1)[:9])
    outputs += connection.receive_data(REQUEST, metadata_request(2))
    outputs += connection.receive_data(RESPONSE, heartbeat_response(1)[9:])
    assert sent_bytes(outputs, RESPONSE) == heartbeat_response(1) + metadata_response(2, "proxy")


def test_answer_does_not_wait_for_a_produce_without_acks() -> None:
    connection = InterceptedConnection([interceptor_for(REQUEST, Answer(metadata_response(2, "proxy")), METADATA)])
    without_acks = request("Produce", 9, {"acks": 0}, correlation_id=1)
    assert sent_bytes(
        connection.receive_data(REQUEST, without_acks + metadata_request(2)), RESPONSE
    ) == metadata_response(2, "proxy")
    with_acks = request("Produce", 9, {"acks": 1}, correlation_id=3)
    assert sent_bytes(connection.receive_data(REQUEST, with_acks + metadata_request(2)), RESPONSE) == b""


def test_delayed_frame_keeps_its_place_in_the_stream() -> None:
    connection = InterceptedConnection([interceptor_for(RESPONSE, Delay(1.5), METADATA)])
    connection.receive_data(REQUEST, heartbeat_request(1) + metadata_request(2) + heartbeat_request(3))
    outputs = connection.receive_data(RESPONSE, heartbeat_response(1) + metadata_response(2) + heartbeat_response(3))
    assert [(output.sent, output.delay) for output in outputs] == [
        (heartbeat_response(1), 0.0),
        (metadata_response(2), 1.5),
        (heartbeat_response(3), 0.0),
    ]


def test_nothing_is_sent_after_a_close() -> None:
    connection = InterceptedConnection([interceptor_for(RESPONSE, CloseConnection(), METADATA)])
    connection.receive_data(REQUEST, heartbeat_request(1) + metadata_request(2) + heartbeat_request(3))
    outputs = connection.receive_data(RESPONSE, heartbeat_response(1) + metadata_response(2) + heartbeat_response(3))
    assert sent_bytes(outputs, RESPONSE) == heartbeat_response(1)
    assert [output.close for output in outputs] == [False, True]


def test_interceptor_sees_frames_as_earlier_interceptors_changed_them() -> None:
    first, second = (
        interceptor_for(RESPONSE, Replace(metadata_response(1, "other")), METADATA),
        interceptor_for(RESPONSE, FORWARD, METADATA),
    )
    connection = InterceptedConnection([first, second])
    connection.receive_data(REQUEST, metadata_request(1))
    (output,) = connection.receive_data(RESPONSE, metadata_response(1))
    assert output == Delivery(RESPONSE, metadata_response(1), metadata_response(1, "other"))
    assert second.seen == [(REQUEST, metadata_request(1)), (RESPONSE, metadata_response(1, "other"))]


def test_too_large_frame_passes_and_is_reported() -> None:
    reports: list[TooLarge] = []
    interceptor = interceptor_for(RESPONSE, Drop(), METADATA)
    connection = InterceptedConnection([interceptor], max_held_bytes=30, report=reports.append)
    connection.receive_data(REQUEST, metadata_request(1))
    frame = metadata_response(1, "h" * 100)
    assert sent_bytes(connection.receive_data(RESPONSE, frame[:50]), RESPONSE) == frame[:50]
    assert sent_bytes(connection.receive_data(RESPONSE, frame[50:]), RESPONSE) == frame[50:]
    assert [(event.direction, event.header.api_key, event.size) for event in reports] == [(RESPONSE, 3, len(frame))]


def test_bytes_of_another_protocol_pass() -> None:
    connection = InterceptedConnection([interceptor_for(REQUEST, Drop(), METADATA)])
    hello = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500)
    assert sent_bytes(connection.receive_data(REQUEST, hello[:7]), REQUEST) == hello[:7]
    assert sent_bytes(connection.receive_data(REQUEST, hello[7:]), REQUEST) == hello[7:]


def test_incomplete_frame_passes_at_the_end_of_the_stream() -> None:
    connection = InterceptedConnection([interceptor_for(REQUEST, Drop(), METADATA)])
    incomplete = metadata_request(1)[:-1]
    assert connection.receive_data(REQUEST, incomplete) == []
    assert sent_bytes(connection.end(REQUEST), REQUEST) == incomplete
    assert connection.end(RESPONSE) == []


def test_raw_sasl_tokens_pass() -> None:
    connection = InterceptedConnection([interceptor_for(RESPONSE, Drop(), METADATA)])
    tokens = with_length_prefix(b"\0alice\0secret") + with_length_prefix(b"") + with_length_prefix(b"\0\3\0")
    assert sent_bytes(connection.receive_data(REQUEST, tokens), REQUEST) == tokens
    assert (
        sent_bytes(connection.receive_data(RESPONSE, with_length_prefix(b"") * 2), RESPONSE)
        == with_length_prefix(b"") * 2
    )


def test_unanswered_requests_take_bounded_memory() -> None:
    connection = InterceptedConnection([interceptor_for(RESPONSE, Drop(), METADATA)])
    for number in range(20_000):
        connection.receive_data(REQUEST, heartbeat_request(number))
    assert len(connection._pending) == 10_000


def test_requests_with_unwanted_responses_are_not_remembered() -> None:
    interceptor = interceptor_for(RESPONSE, Replace(metadata_response(2, "proxy")), METADATA)
    interceptor.answers = False
    connection = InterceptedConnection([interceptor])
    connection.receive_data(REQUEST, heartbeat_request(1) + metadata_request(2) + heartbeat_request(3))
    assert len(connection._pending) == 1
    outputs = connection.receive_data(RESPONSE, heartbeat_response(1) + metadata_response(2) + heartbeat_response(3))
    assert sent_bytes(outputs, RESPONSE) == heartbeat_response(1) + metadata_response(2, "proxy") + heartbeat_response(
        3
    )
    assert len(connection._pending) == 0


def test_produce_without_acks_takes_little_memory() -> None:
    interceptor = interceptor_for(RESPONSE, Drop(), PRODUCE)
    interceptor.wants = lambda direction, key, version: direction is RESPONSE and key == PRODUCE  # type: ignore[method-assign]
    interceptor.answers = False
    connection = InterceptedConnection([interceptor])
    for number in range(1000):
        connection.receive_data(REQUEST, produce_request(number, acks=0))
    assert len(connection._pending) <= 100
    for number in range(1000, 1300):
        connection.receive_data(REQUEST, produce_request(number, acks=1))
    for number in range(1000, 1300):
        assert (
            sent_bytes(connection.receive_data(RESPONSE, with_length_prefix(number.to_bytes(4, "big"))), RESPONSE)
            == b""
        )
    assert len(connection._pending) == 0


def test_interceptor_is_consulted_once_per_api_version() -> None:
    calls: list[tuple[Direction, int, int]] = []
    interceptor = interceptor_for(RESPONSE, FORWARD, METADATA)
    interceptor.wants = lambda *question: calls.append(question) or False  # type: ignore[method-assign, func-returns-value]
    connection = InterceptedConnection([interceptor])
    for number in range(3):
        connection.receive_data(REQUEST, heartbeat_request(number) + metadata_request(number + 10))
    assert calls == [
        (direction, key, version) for key, version in ((HEARTBEAT, 0), (METADATA, 1)) for direction in Direction
    ]


@settings(deadline=None)
@given(conversations(), st.lists(st.integers(0, 10_000), max_size=12), st.integers(0, 20_000), st.integers(0, 20_000))
def test_output_before_a_reset_is_a_prefix_of_the_whole_output(
    exchanges: list[tuple[bytes, bytes]], cuts: list[int], requests_end: int, responses_end: int
) -> None:
    changed_frame = b"\0\0\0\5other"
    connection = InterceptedConnection(
        [interceptor_for(RESPONSE, Replace(changed_frame), METADATA), interceptor_for(REQUEST, Drop(), HEARTBEAT)]
    )
    requests = b"".join(request_frame for request_frame, _ in exchanges)[:requests_end]
    request_count = sum(
        1 for end in itertools.accumulate(len(request_frame) for request_frame, _ in exchanges) if end <= len(requests)
    )
    responses = b"".join(response_frame for _, response_frame in exchanges[:request_count])[:responses_end]
    outputs = []
    for direction, data in ((REQUEST, requests), (RESPONSE, responses)):
        for chunk in chunks(data, cuts):
            outputs += connection.receive_data(direction, chunk)
    keys = [int.from_bytes(request_frame[4:6], "big") for request_frame, _ in exchanges]
    passing_requests = (
        b"" if key == HEARTBEAT else request_frame for key, (request_frame, _) in zip(keys, exchanges, strict=True)
    )
    expected_responses = (
        changed_frame if key == METADATA else response_frame
        for key, (_, response_frame) in zip(keys, exchanges, strict=True)
    )
    assert b"".join(passing_requests).startswith(sent_bytes(outputs, REQUEST))
    assert b"".join(expected_responses).startswith(sent_bytes(outputs, RESPONSE))
    assert requests.startswith(received_bytes(outputs, REQUEST))
    assert responses.startswith(received_bytes(outputs, RESPONSE))
