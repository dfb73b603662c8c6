"""The messages from tap to inspector: they round-trip however the stream is cut."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dissectors.connections.events import Direction
from kproxy.proxy import tap_messages, tap_protocol

HELLO = tap_messages.Hello(1, "node-a", 77, [("127.0.0.1:9092", "kafka:9092")], 0, 2, 2**62, 0.1)
LISTENERS = tap_messages.ListenersChanged(2, [("127.0.0.1:9092", "kafka:9092"), ("[::1]:9093", "kafka:9093")])
RESUMED = tap_messages.Open(3, 2, "a:1", "b:2", "c:3", True, 5, ((2**40, 7, True), (0, 0, False)), True)
MESSAGES: list[tuple[bytes, tap_messages.Message]] = [
    (
        tap_protocol.encode_hello(HELLO),
        HELLO,
    ),
    (
        tap_protocol.encode_open(tap_messages.Open(2**40, 2, "a:1", "b:2", "c:3", False)),
        tap_messages.Open(2**40, 2, "a:1", "b:2", "c:3", False, None, None),
    ),
    (tap_protocol.encode_open(RESUMED), RESUMED),
    (tap_protocol.encode_listeners(LISTENERS), LISTENERS),
    (
        tap_protocol.encode_data_head(7, Direction.REQUEST, 3, 300) + 300 * b"x",
        tap_messages.TapData(7, Direction.REQUEST, 3, 300 * b"x"),
    ),
    (
        tap_protocol.encode_skipped(7, Direction.RESPONSE, 4, 2**31, b"\x80head"),
        tap_messages.TapSkipped(7, Direction.RESPONSE, 4, 2**31, b"\x80head"),
    ),
    (
        tap_protocol.encode_gap(tap_messages.TapGap(7, Direction.REQUEST, 5, 2**50, 2**33, True)),
        tap_messages.TapGap(7, Direction.REQUEST, 5, 2**50, 2**33, True),
    ),
    (tap_protocol.encode_end(7, Direction.RESPONSE, 6, "reset"), tap_messages.End(7, Direction.RESPONSE, 6, "reset")),
    (tap_protocol.encode_close(7, 7, "client", "fin", 10, 2**45), tap_messages.Close(7, 7, "client", "fin", 10, 2**45)),
    (tap_protocol.encode_missed(tap_messages.Missed(8, 3, 99, 4, True)), tap_messages.Missed(8, 3, 99, 4, True)),
    (tap_protocol.encode_bye(tap_messages.Bye(2**63, 1, 2, 3, 4, 5)), tap_messages.Bye(2**63, 1, 2, 3, 4, 5)),
]
STREAM = b"".join(encoded for encoded, _ in MESSAGES)


@given(st.lists(st.integers(0, len(STREAM))))
def test_messages_do_not_depend_on_how_the_stream_is_cut(cuts: list[int]) -> None:
    decoder = tap_protocol.TapDecoder()
    offsets = [0, *sorted(cuts), len(STREAM)]
    decoded = []
    for start, end in pairwise(offsets):
        decoded += decoder.receive_data(STREAM[start:end])
    assert decoded == [message for _, message in MESSAGES]


def test_decodes_directions_as_members_of_the_enum() -> None:
    decoder = tap_protocol.TapDecoder()
    decoder.receive_data(tap_protocol.encode_hello(HELLO))
    [message] = decoder.receive_data(tap_protocol.encode_end(1, Direction.RESPONSE, 0, "fin"))
    assert isinstance(message, tap_messages.End)
    assert message.direction is Direction.RESPONSE


def test_decodes_a_long_message_that_arrives_byte_by_byte() -> None:
    payload = 100_000 * b"x"
    decoder = tap_protocol.TapDecoder()
    decoder.receive_data(tap_protocol.encode_hello(HELLO))
    stream = tap_protocol.encode_data_head(1, Direction.REQUEST, 0, len(payload)) + payload
    decoded = [message for byte in stream for message in decoder.receive_data(bytes([byte]))]
    assert decoded == [tap_messages.TapData(1, Direction.REQUEST, 0, payload)]


def test_rejects_a_stream_of_an_unknown_version() -> None:
    with pytest.raises(ValueError, match="version 9, not 2"):
        tap_protocol.TapDecoder().receive_data(b"\x09")


def test_messages_do_not_change_when_the_buffer_is_reused() -> None:
    decoder = tap_protocol.TapDecoder()
    buffer = bytearray(STREAM)
    decoded = decoder.receive_data(memoryview(buffer)[:-20])
    buffer[:-20] = bytes(len(buffer) - 20)
    decoded += decoder.receive_data(memoryview(buffer)[-20:])
    assert decoded == [message for _, message in MESSAGES]
