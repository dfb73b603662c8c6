import pytest

from dissectors.connections import in_flight_requests
from dissectors.connections.connection import Connection, is_plausible_request
from dissectors.connections.events import Direction, FramingLost, RequestReceived, ResponseReceived
from dissectors.connections.protocol_detection import PROXY_V2
from dissectors.hexdump import unhex
from dissectors.wire.encode import encode
from dissectors.wire.layout import layout
from tests.dissectors.connections.test_protocol_detection import POSTGRESQL_SSL_REQUEST, STREAMS, ZOOKEEPER_SESSION
from tests.dissectors.dialogue import (
    HEARTBEAT,
    REQUEST,
    RESPONSE,
    Dialogue,
    heartbeat,
    heartbeat_response,
    heartbeat_responses,
    heartbeats,
)
from tests.dissectors.story import story
from tests.kproxy.frames import request, response, with_length_prefix


def test_response_is_paired_with_its_request() -> None:
    dialogue = Dialogue()
    assert dialogue.client(heartbeat(7)) == ["> Heartbeat v0 #7 @0+24"]
    [request_event] = dialogue.events
    assert dialogue.server(heartbeat_response(7)) == ["< #7 to Heartbeat @0 @0+6"]
    [response_event] = dialogue.events
    assert isinstance(request_event, RequestReceived)
    assert isinstance(response_event, ResponseReceived)
    assert response_event.request is request_event
    assert (request_event.at, response_event.at) == (1, 2)
    assert request_event.message.body == HEARTBEAT
    assert response_event.message is not None
    assert response_event.message.body == {"error_code": 0}
    assert dialogue.close() == ["end, unanswered: none"]


def test_pipelined_requests_are_paired_in_order() -> None:
    dialogue = Dialogue()
    assert dialogue.client(heartbeats(1, 2, 3)) == [
        "> Heartbeat v0 #1 @0+24",
        "> Heartbeat v0 #2 @28+24",
        "> Heartbeat v0 #3 @56+24",
    ]
    assert dialogue.connection.in_flight == 3
    assert dialogue.server(heartbeat_responses(1, 2, 3)) == [
        "< #1 to Heartbeat @0 @0+6",
        "< #2 to Heartbeat @28 @10+6",
        "< #3 to Heartbeat @56 @20+6",
    ]
    assert dialogue.connection.in_flight == 0


def test_frames_may_arrive_in_pieces() -> None:
    dialogue = Dialogue()
    frame = heartbeat(1)
    assert dialogue.client(*(frame[index : index + 1] for index in range(len(frame) - 1))) == []
    assert dialogue.connection.buffered == 27
    assert dialogue.client(frame[-1:]) == ["> Heartbeat v0 #1 @0+24"]
    assert dialogue.connection.buffered == 0


def test_produce_without_acks_expects_no_response() -> None:
    dialogue = Dialogue()
    produce = request("Produce", 3, {"acks": 0, "topic_data": []}, correlation_id=1)
    assert dialogue.client(produce + heartbeat(2)) == [
        f"> Produce v3 #1 @0+{len(produce) - 4}, no response",
        f"> Heartbeat v0 #2 @{len(produce)}+24",
    ]
    assert dialogue.server(heartbeat_response(2)) == [f"< #2 to Heartbeat @{len(produce)} @0+6"]
    assert dialogue.close() == ["end, unanswered: none"]


def test_response_out_of_order_counts_the_requests_it_overtook() -> None:
    dialogue = Dialogue()
    dialogue.client(heartbeats(1, 2, 3))
    assert dialogue.server(heartbeat_responses(3, 1, 2)) == [
        "< #3 to Heartbeat @56 @0+6, 2 passed over",
        "< #1 to Heartbeat @0 @10+6",
        "< #2 to Heartbeat @28 @20+6",
    ]


def test_response_with_an_unknown_correlation_id_has_no_request() -> None:
    dialogue = Dialogue()
    dialogue.client(heartbeat(1))
    assert dialogue.server(heartbeat_responses(9, 1)) == ["< #9 to nobody @0+6", "< #1 to Heartbeat @0 @10+6"]


def test_reused_correlation_id_matches_the_older_request_first() -> None:
    dialogue = Dialogue()
    dialogue.client(heartbeats(1, 5, 5))
    assert dialogue.server(heartbeat_responses(5, 1, 5, 5)) == [
        "< #5 to Heartbeat @28 @0+6, 1 passed over",
        "< #1 to Heartbeat @0 @10+6",
        "< #5 to Heartbeat @56 @20+6",
        "< #5 to nobody @30+6",
    ]


def test_close_reports_unanswered_requests_and_incomplete_frames() -> None:
    dialogue = Dialogue()
    dialogue.client(heartbeats(1, 2, 3), heartbeat(4)[:9])
    dialogue.server(heartbeat_responses(2), heartbeat_response(3)[:6])
    assert dialogue.close() == ["end, unanswered: #1 #3, half frames of (9, 6)"]
    assert dialogue.connection.in_flight == 0


def test_oldest_requests_are_forgotten_beyond_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_flight_requests, "MAX_IN_FLIGHT", 3)
    dialogue = Dialogue()
    dialogue.client(heartbeats(1, 2, 3, 4, 5))
    assert dialogue.connection.in_flight == 3
    assert dialogue.server(heartbeat_responses(1, 2, 3, 9)) == [
        "< #1 to nobody @0+6 (its request was not captured)",
        "< #2 to nobody @10+6 (its request was not captured)",
        "< #3 to Heartbeat @56 @20+6",
        "< #9 to nobody @30+6",
    ]
    assert dialogue.close() == ["end, unanswered: #4 #5"]


def test_request_above_the_schema_versions_is_paired_and_opaque() -> None:
    dialogue = Dialogue()
    assert dialogue.client(unhex("0000000c 000c 0063 00000007 0002 6d65")) == ["> Heartbeat v99 #7 @0+12"]
    assert dialogue.server(unhex("00000006 00000007 0000")) == ["< #7 to Heartbeat @0 @0+6"]
    [event] = dialogue.events
    assert isinstance(event, ResponseReceived)
    assert event.message is not None
    assert event.message.opaque == "Heartbeat v99 is not in the schemas, which end at v4"


def test_request_with_an_unknown_api_key_is_paired() -> None:
    dialogue = Dialogue()
    assert dialogue.client(unhex("0000000c 03e7 0000 00000007 0002 6d65")) == ["> API 999 v0 #7 @0+12"]
    assert dialogue.server(heartbeat_response(7)) == ["< #7 to API 999 @0 @0+6"]


def test_unsupported_version_of_api_versions_is_read_as_version_0() -> None:
    dialogue = Dialogue()
    dialogue.client(request("ApiVersions", 3, {"client_software_name": "x", "client_software_version": "1"}))
    dialogue.server(response("ApiVersions", 0, {"error_code": 35}))
    [event] = dialogue.events
    assert isinstance(event, ResponseReceived)
    assert event.message is not None
    assert (event.message.body, event.message.error) == ({"error_code": 35, "api_keys": []}, None)


# Streams of other protocols


@pytest.mark.parametrize(("protocol", "start"), STREAMS)
@pytest.mark.parametrize("direction", list(Direction))
def test_other_protocols_are_recognised_at_the_start_of_a_stream(
    protocol: str, start: bytes, direction: Direction
) -> None:
    connection = Connection()
    [event] = connection.receive_data(direction, start, at=7)
    assert isinstance(event, FramingLost)
    assert (event.direction, event.offset, event.at, event.protocol) == (direction, 0, 7, protocol)
    assert event.hint
    assert connection.receive_data(direction, start, at=8) == []
    assert story(connection.close(at=9)) == ["end, unanswered: none"]


def test_http_request_loses_framing_at_offset_0() -> None:
    dialogue = Dialogue()
    assert dialogue.client(b"GET / HTTP/1.1\r\n") == ["> lost @0: HTTP, length prefix says 1195725856 bytes"]


@pytest.mark.parametrize("start", [POSTGRESQL_SSL_REQUEST, ZOOKEEPER_SESSION])
def test_other_protocol_with_a_plausible_length_is_recognised(start: bytes) -> None:
    [line] = Dialogue().client(start)
    assert line.endswith(", its first bytes are no frame")


@pytest.mark.parametrize(
    ("prefix", "reason"),
    [
        ("06 40 00 01", "length prefix says 104857601 bytes"),
        ("ff ff ff ff", "length prefix says -1 bytes"),
        ("00 00 00 07", "length prefix says 7 bytes"),
    ],
)
def test_impossible_length_ends_decoding_of_its_direction(prefix: str, reason: str) -> None:
    dialogue = Dialogue()
    assert dialogue.client(heartbeat(1) + unhex(prefix) + heartbeat(2), heartbeat(3)) == [
        "> Heartbeat v0 #1 @0+24",
        f"> lost @28: unknown, {reason}",
    ]
    assert dialogue.server(heartbeat_response(1)) == ["< #1 to Heartbeat @0 @0+6"]


def test_response_may_be_as_short_as_its_correlation_id() -> None:
    dialogue = Dialogue()
    assert dialogue.server(unhex("00000004 00000009  00000003 000009")) == [
        "< #9 to nobody @0+4",
        "< lost @8: unknown, length prefix says 3 bytes",
    ]


def test_text_in_the_middle_of_a_stream_is_not_taken_for_a_protocol() -> None:
    dialogue = Dialogue()
    assert dialogue.client(heartbeat(1) + b"GET / HTTP/1.1\r\n")[1:] == [
        "> lost @28: unknown, length prefix says 1195725856 bytes"
    ]


@pytest.mark.parametrize(
    ("header", "version"),
    [
        (b"PROXY TCP4 10.0.0.1 10.0.0.2 5000 9092\r\n", 1),
        (PROXY_V2 + unhex("21 11 00 0c  0a000001 0a000002 1388 2384"), 2),
    ],
)
def test_proxy_header_before_the_first_frame_is_skipped(header: bytes, version: int) -> None:
    size = len(header)
    for cut in (1, 4, 8, 15, 16, 20, size, size + 2, size + 9):
        dialogue = Dialogue()
        stream = header + heartbeat(1)
        assert dialogue.client(stream[:cut], stream[cut:]) == [
            f"> PROXY v{version} of {size} bytes",
            f"> Heartbeat v0 #1 @{size}+24",
        ]


def test_unterminated_proxy_header_is_not_recognised() -> None:
    dialogue = Dialogue()
    assert dialogue.client(b"PROXY " + b"x" * 101) == ["> lost @0: unknown, length prefix says 1347571544 bytes"]


def test_other_protocol_after_a_proxy_header_is_recognised() -> None:
    dialogue = Dialogue()
    assert dialogue.client(b"PROXY UNKNOWN\r\nGET / HTTP/1.1\r\n") == [
        "> PROXY v1 of 15 bytes",
        "> lost @15: HTTP, length prefix says 1195725856 bytes",
    ]


# Frames that are not decoded completely


def test_frame_over_the_decoding_limit_is_matched_by_its_header_alone() -> None:
    dialogue = Dialogue(max_decoded_bytes=1000)
    produce = request("Produce", 3, {"acks": 0, "topic_data": [{"name": "x" * 2000}]}, correlation_id=1)
    metadata = request("Metadata", 1, {"topics": [{"name": "x" * 2000}]}, correlation_id=2)
    reason = "over the limit of 1000 bytes for decoding"
    for pieces in ([produce + metadata], [produce[:100], produce[100:700], produce[700:], metadata]):
        dialogue = Dialogue(max_decoded_bytes=1000)
        assert dialogue.client(*pieces, heartbeat(3)) == [
            f"> Produce v3 #1 @0+{len(produce) - 4}, no response ({reason})",
            f"> Metadata v1 #2 @{len(produce)}+{len(metadata) - 4} ({reason})",
            f"> Heartbeat v0 #3 @{len(produce) + len(metadata)}+24",
        ]
        assert dialogue.server(response("Metadata", 1, {}, correlation_id=2), heartbeat_response(3)) == [
            f"< #2 to Metadata @{len(produce)} @0+16",
            f"< #3 to Heartbeat @{len(produce) + len(metadata)} @20+6",
        ]


def test_head_of_a_frame_over_the_limit_is_no_longer_than_the_frame() -> None:
    dialogue = Dialogue(max_decoded_bytes=20)
    assert dialogue.client(heartbeats(1, 2)) == [
        "> Heartbeat v0 #1 @0+24 (over the limit of 20 bytes for decoding)",
        "> Heartbeat v0 #2 @28+24 (over the limit of 20 bytes for decoding)",
    ]
    assert all(isinstance(event, RequestReceived) and len(event.message.frame) == 28 for event in dialogue.events)


def test_skipped_frame_is_paired_by_its_head() -> None:
    dialogue = Dialogue()
    dialogue.client(heartbeat(1))
    head = request("Metadata", 1, {"topics": [{"name": "x" * 2000}]}, correlation_id=2)[:64]
    events = dialogue.connection.skip_frame(REQUEST, head, 2030, at=5, reason="the inspector was behind")
    assert story(events) == ["> Metadata v1 #2 @28+2030 (the inspector was behind)"]
    assert dialogue.client(heartbeat(3)) == ["> Heartbeat v0 #3 @2062+24"]
    events = dialogue.connection.skip_frame(
        RESPONSE, heartbeat_response(1)[:8], 6, at=5, reason="the inspector was behind"
    )
    assert story(events) == ["< #1 to Heartbeat @0 @0+6 (the inspector was behind)"]
    assert dialogue.server(response("Metadata", 1, {}, correlation_id=2)) == ["< #2 to Metadata @28 @10+16"]


def test_skipped_frame_ends_the_search_for_a_frame() -> None:
    dialogue = Dialogue(midstream=True)
    dialogue.client(b"\xff" * 5)
    events = dialogue.connection.skip_frame(REQUEST, heartbeat(1)[:14], 24, at=5, reason="behind")
    assert story(events) == [
        "> 5 bytes skipped @0: the capture starts in the middle of the stream",
        "> Heartbeat v0 #1 @5+24 (behind)",
    ]
    assert dialogue.client(heartbeat(2)) == ["> Heartbeat v0 #2 @33+24"]


def test_skipped_frame_after_lost_framing_gives_no_event() -> None:
    dialogue = Dialogue()
    dialogue.client(b"GET / HTTP/1.1\r\n")
    assert dialogue.connection.skip_frame(REQUEST, heartbeat(1), 24, at=5, reason="behind") == []


# SASL tokens without a Kafka header (SaslHandshake v0)


def handshake(version: int, mechanism: str, error_code: int = 0) -> tuple[bytes, bytes]:
    return (
        request("SaslHandshake", version, {"mechanism": mechanism}, correlation_id=1),
        response("SaslHandshake", version, {"error_code": error_code, "mechanisms": [mechanism]}, correlation_id=1),
    )


def test_kafka_frames_may_follow_a_raw_plain_token() -> None:
    dialogue = Dialogue()
    handshake_request, handshake_response = handshake(0, "PLAIN")
    dialogue.client(handshake_request)
    dialogue.server(handshake_response)
    assert dialogue.client(with_length_prefix(b"\0alice\0secret")) == [f"> token @{len(handshake_request)}+13"]
    assert dialogue.server(with_length_prefix(b"")) == [f"< token @{len(handshake_response)}+0"]
    assert dialogue.client(heartbeat(2)) == [f"> Heartbeat v0 #2 @{len(handshake_request) + 17}+24"]
    assert dialogue.server(heartbeat_response(2)) == [
        f"< #2 to Heartbeat @{len(handshake_request) + 17} @{len(handshake_response) + 4}+6"
    ]


def test_raw_scram_tokens_are_recognised_in_both_directions() -> None:
    dialogue = Dialogue()
    handshake_request, handshake_response = handshake(0, "SCRAM-SHA-256")
    dialogue.client(handshake_request)
    dialogue.server(handshake_response)
    for client_token, server_token in (
        (b"n,,n=alice,r=abc", b"r=abcdef,s=c2FsdA==,i=4096"),
        (b"c=biws,r=abcdef,p=cHJvb2Y=", b"v=c2ln"),
    ):
        [line] = dialogue.client(with_length_prefix(client_token))
        assert line.startswith("> token @")
        [line] = dialogue.server(with_length_prefix(server_token))
        assert line.startswith("< token @")
    assert len(dialogue.client(heartbeat(2))) == 1
    assert dialogue.server(heartbeat_response(2))[0].startswith("< #2 to Heartbeat")


def test_token_is_expected_only_after_an_accepted_handshake_of_version_0() -> None:
    for version in (0, 1):
        dialogue = Dialogue()
        handshake_request, handshake_response = handshake(version, "PLAIN", error_code=33 if version == 0 else 0)
        dialogue.client(handshake_request)
        dialogue.server(handshake_response)
        [line] = dialogue.client(with_length_prefix(b"\0alice\0secret"))
        assert "token" not in line


def test_token_stays_secret_if_the_handshake_response_was_lost() -> None:
    dialogue = Dialogue()
    handshake_request, handshake_response = handshake(0, "PLAIN")
    dialogue.client(handshake_request)
    dialogue.lose(RESPONSE, len(handshake_response))
    assert dialogue.client(with_length_prefix(b"\0alice\0secret")) == [f"> token @{len(handshake_request)}+13"]


def test_kafka_request_may_follow_a_token_immediately() -> None:
    dialogue = Dialogue()
    handshake_request, handshake_response = handshake(0, "PLAIN")
    dialogue.client(handshake_request)
    dialogue.server(handshake_response)
    assert len(dialogue.client(with_length_prefix(b"\0alice\0secret") + heartbeat(0))) == 2
    assert dialogue.server(with_length_prefix(b"") + heartbeat_response(0)) == [
        f"< token @{len(handshake_response)}+0",
        f"< #0 to Heartbeat @{len(handshake_request) + 17} @{len(handshake_response) + 4}+6",
    ]
    assert dialogue.server(unhex("00000003 000000")) == [
        f"< lost @{len(handshake_response) + 14}: unknown, length prefix says 3 bytes"
    ]


def test_responses_are_paired_when_the_token_response_was_lost() -> None:
    dialogue = Dialogue()
    handshake_request, handshake_response = handshake(0, "PLAIN")
    dialogue.client(handshake_request)
    dialogue.server(handshake_response)
    dialogue.client(with_length_prefix(b"\0alice\0secret") + heartbeats(2, 3))
    assert dialogue.server(heartbeat_responses(2, 9, 3)) == [
        f"< #2 to Heartbeat @{len(handshake_request) + 17} @{len(handshake_response)}+6",
        f"< #9 to nobody @{len(handshake_response) + 10}+6",
        f"< #3 to Heartbeat @{len(handshake_request) + 45} @{len(handshake_response) + 20}+6",
    ]


# Plausibility of request headers


@pytest.mark.parametrize(
    ("hex_text", "reason"),
    [
        ("00000007 000c 0000 00000001 ffff", "too short"),
        ("06400001 000c 0000 00000001 ffff", "too long"),
        ("0000000a 03e7 0000 00000001 ffff", "no such API"),
        ("0000000a 000c 000d 00000001 ffff", "version far above the schemas"),
        ("0000000a 000c 0000 ff000001 ffff", "negative correlation id"),
        ("0000000a 000c 0000 00000001 fffe", "client id of -2"),
        ("0000000a 000c 0000 00000001 0001", "client id over the end"),
        ("00000fff 000c 0000 00000001 0401", "client id of 1025"),
        ("0000000c 000c 0000 00000001 0002 6d07", "client id that is no text"),
    ],
)
def test_impossible_request_is_not_plausible(hex_text: str, reason: str) -> None:
    assert not is_plausible_request(unhex(hex_text), 0), reason


@pytest.mark.parametrize(
    "hex_text",
    [
        "0000000a 000c 0000 00000001 ffff",
        "0000000c 000c 0000 00000001 0002 6d65",
        "0000000c 000c 000c 00000001 0002",
        "0000000a 0012 0003 7fffffff 0000",
    ],
)
def test_possible_request_is_plausible(hex_text: str) -> None:
    assert is_plausible_request(b"\xff" + unhex(hex_text), 1)


def test_request_with_a_trailing_byte_is_a_token_after_the_handshake() -> None:
    dialogue = Dialogue()
    handshake_request, handshake_response = handshake(0, "PLAIN")
    dialogue.client(handshake_request)
    dialogue.server(handshake_response)
    frame = with_length_prefix(heartbeat(2)[4:] + b"\0")
    assert dialogue.client(frame) == [f"> token @{len(handshake_request)}+25"]


def test_encoded_request_header_is_plausible() -> None:
    header = encode(layout("RequestHeader", 2), {"request_api_key": 12, "request_api_version": 4, "client_id": "me"})
    assert is_plausible_request(with_length_prefix(header), 0)
