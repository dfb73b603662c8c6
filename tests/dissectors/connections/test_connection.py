import pytest

from dissectors.connections import connection as module
from dissectors.connections.connection import Connection, plausible_request
from dissectors.connections.events import Direction, FramingLost, RequestReceived, ResponseReceived
from dissectors.connections.protocol_detection import PROXY_V2
from dissectors.hexdump import unhex
from dissectors.wire.encode import encode
from dissectors.wire.layout import layout
from tests.dissectors.connections.test_protocol_detection import POSTGRESQL_SSL_REQUEST, STREAMS, ZOOKEEPER_SESSION
from tests.dissectors.dialogue import HEARTBEAT, REQUEST, RESPONSE, Talk, answer, answers, beats, heartbeat
from tests.dissectors.story import story
from tests.kproxy.frames import framed, request, response


def test_a_response_is_paired_with_its_request() -> None:
    talk = Talk()
    assert talk.client(heartbeat(7)) == ["> Heartbeat v0 #7 @0+24"]
    [asked] = talk.events
    assert talk.server(answer(7)) == ["< #7 to Heartbeat @0 @0+6"]
    [answered] = talk.events
    assert isinstance(asked, RequestReceived)
    assert isinstance(answered, ResponseReceived)
    assert answered.request is asked
    assert (asked.at, answered.at) == (1, 2)
    assert asked.message.body == HEARTBEAT
    assert answered.message is not None
    assert answered.message.body == {"error_code": 0}
    assert talk.close() == ["end, unanswered: none"]


def test_requests_may_be_pipelined() -> None:
    talk = Talk()
    assert talk.client(beats(1, 2, 3)) == [
        "> Heartbeat v0 #1 @0+24",
        "> Heartbeat v0 #2 @28+24",
        "> Heartbeat v0 #3 @56+24",
    ]
    assert talk.connection.in_flight == 3
    assert talk.server(answers(1, 2, 3)) == [
        "< #1 to Heartbeat @0 @0+6",
        "< #2 to Heartbeat @28 @10+6",
        "< #3 to Heartbeat @56 @20+6",
    ]
    assert talk.connection.in_flight == 0


def test_frames_may_come_in_pieces() -> None:
    talk = Talk()
    whole = heartbeat(1)
    assert talk.client(*(whole[at : at + 1] for at in range(len(whole) - 1))) == []
    assert talk.connection.buffered == 27
    assert talk.client(whole[-1:]) == ["> Heartbeat v0 #1 @0+24"]
    assert talk.connection.buffered == 0


def test_produce_without_acks_expects_no_response() -> None:
    talk = Talk()
    produce = request("Produce", 3, {"acks": 0, "topic_data": []}, correlation_id=1)
    assert talk.client(produce + heartbeat(2)) == [
        f"> Produce v3 #1 @0+{len(produce) - 4}, no response",
        f"> Heartbeat v0 #2 @{len(produce)}+24",
    ]
    assert talk.server(answer(2)) == [f"< #2 to Heartbeat @{len(produce)} @0+6"]
    assert talk.close() == ["end, unanswered: none"]


def test_a_response_out_of_order_says_how_many_it_passed_over() -> None:
    talk = Talk()
    talk.client(beats(1, 2, 3))
    assert talk.server(answers(3, 1, 2)) == [
        "< #3 to Heartbeat @56 @0+6, 2 passed over",
        "< #1 to Heartbeat @0 @10+6",
        "< #2 to Heartbeat @28 @20+6",
    ]


def test_a_response_that_nobody_asked_for_has_no_request() -> None:
    talk = Talk()
    talk.client(heartbeat(1))
    assert talk.server(answers(9, 1)) == ["< #9 to nobody @0+6", "< #1 to Heartbeat @0 @10+6"]


def test_an_id_that_is_used_twice_answers_the_older_request_first() -> None:
    talk = Talk()
    talk.client(beats(1, 5, 5))
    assert talk.server(answers(5, 1, 5, 5)) == [
        "< #5 to Heartbeat @28 @0+6, 1 passed over",
        "< #1 to Heartbeat @0 @10+6",
        "< #5 to Heartbeat @56 @20+6",
        "< #5 to nobody @30+6",
    ]


def test_the_end_names_what_was_never_answered_and_what_never_became_whole() -> None:
    talk = Talk()
    talk.client(beats(1, 2, 3), heartbeat(4)[:9])
    talk.server(answers(2), answer(3)[:6])
    assert talk.close() == ["end, unanswered: #1 #3, half frames of (9, 6)"]
    assert talk.connection.in_flight == 0


def test_more_requests_than_are_remembered_push_out_the_oldest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_IN_FLIGHT", 3)
    talk = Talk()
    talk.client(beats(1, 2, 3, 4, 5))
    assert talk.connection.in_flight == 3
    assert talk.server(answers(1, 2, 3, 9)) == [
        "< #1 to nobody @0+6 (its request was not captured)",
        "< #2 to nobody @10+6 (its request was not captured)",
        "< #3 to Heartbeat @56 @20+6",
        "< #9 to nobody @30+6",
    ]
    assert talk.close() == ["end, unanswered: #4 #5"]


def test_a_version_above_the_schemas_is_paired_and_opaque() -> None:
    talk = Talk()
    assert talk.client(unhex("0000000c 000c 0063 00000007 0002 6d65")) == ["> Heartbeat v99 #7 @0+12"]
    assert talk.server(unhex("00000006 00000007 0000")) == ["< #7 to Heartbeat @0 @0+6"]
    [event] = talk.events
    assert isinstance(event, ResponseReceived)
    assert event.message is not None
    assert event.message.opaque == "Heartbeat v99 is not in the schemas, which end at v4"


def test_an_unknown_api_key_is_paired_too() -> None:
    talk = Talk()
    assert talk.client(unhex("0000000c 03e7 0000 00000007 0002 6d65")) == ["> API 999 v0 #7 @0+12"]
    assert talk.server(answer(7)) == ["< #7 to API 999 @0 @0+6"]


def test_an_unsupported_version_of_api_versions_is_read_as_version_0() -> None:
    talk = Talk()
    talk.client(request("ApiVersions", 3, {"client_software_name": "x", "client_software_version": "1"}))
    talk.server(response("ApiVersions", 0, {"error_code": 35}))
    [event] = talk.events
    assert isinstance(event, ResponseReceived)
    assert event.message is not None
    assert (event.message.body, event.message.error) == ({"error_code": 35, "api_keys": []}, None)


# Streams that are no Kafka


@pytest.mark.parametrize(("protocol", "start"), STREAMS)
@pytest.mark.parametrize("direction", list(Direction))
def test_a_stream_that_is_no_kafka_is_named_at_its_first_byte(
    protocol: str, start: bytes, direction: Direction
) -> None:
    connection = Connection()
    [event] = connection.receive_data(direction, start, at=7)
    assert isinstance(event, FramingLost)
    assert (event.direction, event.offset, event.at, event.protocol) == (direction, 0, 7, protocol)
    assert event.hint
    assert connection.receive_data(direction, start, at=8) == []
    assert story(connection.close(at=9)) == ["end, unanswered: none"]


def test_http_on_the_kafka_port_loses_framing_at_its_first_byte() -> None:
    talk = Talk()
    assert talk.client(b"GET / HTTP/1.1\r\n") == ["> lost @0: HTTP, length prefix says 1195725856 bytes"]


@pytest.mark.parametrize("start", [POSTGRESQL_SSL_REQUEST, ZOOKEEPER_SESSION])
def test_a_length_that_could_be_one_is_not_to_blame(start: bytes) -> None:
    [said] = Talk().client(start)
    assert said.endswith(", its first bytes are no frame")


@pytest.mark.parametrize(
    ("prefix", "said"),
    [
        ("06 40 00 01", "length prefix says 104857601 bytes"),
        ("ff ff ff ff", "length prefix says -1 bytes"),
        ("00 00 00 07", "length prefix says 7 bytes"),
    ],
)
def test_a_length_that_cannot_be_one_ends_the_direction(prefix: str, said: str) -> None:
    talk = Talk()
    assert talk.client(heartbeat(1) + unhex(prefix) + heartbeat(2), heartbeat(3)) == [
        "> Heartbeat v0 #1 @0+24",
        f"> lost @28: unknown, {said}",
    ]
    assert talk.server(answer(1)) == ["< #1 to Heartbeat @0 @0+6"]


def test_a_response_may_be_as_short_as_its_correlation_id() -> None:
    talk = Talk()
    assert talk.server(unhex("00000004 00000009  00000003 000009")) == [
        "< #9 to nobody @0+4",
        "< lost @8: unknown, length prefix says 3 bytes",
    ]


def test_text_in_the_middle_of_a_stream_is_not_taken_for_a_protocol() -> None:
    talk = Talk()
    assert talk.client(heartbeat(1) + b"GET / HTTP/1.1\r\n")[1:] == [
        "> lost @28: unknown, length prefix says 1195725856 bytes"
    ]


@pytest.mark.parametrize(
    ("header", "version"),
    [
        (b"PROXY TCP4 10.0.0.1 10.0.0.2 5000 9092\r\n", 1),
        (PROXY_V2 + unhex("21 11 00 0c  0a000001 0a000002 1388 2384"), 2),
    ],
)
def test_a_proxy_header_before_the_first_frame_is_passed_over(header: bytes, version: int) -> None:
    size = len(header)
    for cut in (1, 4, 8, 15, 16, 20, size, size + 2, size + 9):
        talk = Talk()
        stream = header + heartbeat(1)
        assert talk.client(stream[:cut], stream[cut:]) == [
            f"> PROXY v{version} of {size} bytes",
            f"> Heartbeat v0 #1 @{size}+24",
        ]


def test_a_proxy_header_that_never_ends_is_none() -> None:
    talk = Talk()
    assert talk.client(b"PROXY " + b"x" * 101) == ["> lost @0: unknown, length prefix says 1347571544 bytes"]


def test_no_kafka_behind_a_proxy_header_is_named_too() -> None:
    talk = Talk()
    assert talk.client(b"PROXY UNKNOWN\r\nGET / HTTP/1.1\r\n") == [
        "> PROXY v1 of 15 bytes",
        "> lost @15: HTTP, length prefix says 1195725856 bytes",
    ]


# Frames that are not decoded whole


def test_a_frame_over_the_limit_for_decoding_is_paired_by_its_head() -> None:
    talk = Talk(max_decoded_bytes=1000)
    produce = request("Produce", 3, {"acks": 0, "topic_data": [{"name": "x" * 2000}]}, correlation_id=1)
    metadata = request("Metadata", 1, {"topics": [{"name": "x" * 2000}]}, correlation_id=2)
    reason = "over the limit of 1000 bytes for decoding"
    for pieces in ([produce + metadata], [produce[:100], produce[100:700], produce[700:], metadata]):
        talk = Talk(max_decoded_bytes=1000)
        assert talk.client(*pieces, heartbeat(3)) == [
            f"> Produce v3 #1 @0+{len(produce) - 4}, no response ({reason})",
            f"> Metadata v1 #2 @{len(produce)}+{len(metadata) - 4} ({reason})",
            f"> Heartbeat v0 #3 @{len(produce) + len(metadata)}+24",
        ]
        assert talk.server(response("Metadata", 1, {}, correlation_id=2), answer(3)) == [
            f"< #2 to Metadata @{len(produce)} @0+16",
            f"< #3 to Heartbeat @{len(produce) + len(metadata)} @20+6",
        ]


def test_the_head_of_a_frame_over_the_limit_ends_with_the_frame() -> None:
    talk = Talk(max_decoded_bytes=20)
    assert talk.client(beats(1, 2)) == [
        "> Heartbeat v0 #1 @0+24 (over the limit of 20 bytes for decoding)",
        "> Heartbeat v0 #2 @28+24 (over the limit of 20 bytes for decoding)",
    ]
    assert all(isinstance(event, RequestReceived) and len(event.message.frame) == 28 for event in talk.events)


def test_a_frame_that_passed_by_is_paired_by_its_head() -> None:
    talk = Talk()
    talk.client(heartbeat(1))
    head = request("Metadata", 1, {"topics": [{"name": "x" * 2000}]}, correlation_id=2)[:64]
    said = talk.connection.skip_frame(REQUEST, head, 2030, at=5, reason="the inspector was behind")
    assert story(said) == ["> Metadata v1 #2 @28+2030 (the inspector was behind)"]
    assert talk.client(heartbeat(3)) == ["> Heartbeat v0 #3 @2062+24"]
    said = talk.connection.skip_frame(RESPONSE, answer(1)[:8], 6, at=5, reason="the inspector was behind")
    assert story(said) == ["< #1 to Heartbeat @0 @0+6 (the inspector was behind)"]
    assert talk.server(response("Metadata", 1, {}, correlation_id=2)) == ["< #2 to Metadata @28 @10+16"]


def test_a_frame_that_passed_by_ends_the_search_for_one() -> None:
    talk = Talk(midstream=True)
    talk.client(b"\xff" * 5)
    said = talk.connection.skip_frame(REQUEST, heartbeat(1)[:14], 24, at=5, reason="behind")
    assert story(said) == [
        "> 5 bytes skipped @0: the capture starts in the middle of the stream",
        "> Heartbeat v0 #1 @5+24 (behind)",
    ]
    assert talk.client(heartbeat(2)) == ["> Heartbeat v0 #2 @33+24"]


def test_a_frame_that_passed_by_after_framing_was_lost_says_nothing() -> None:
    talk = Talk()
    talk.client(b"GET / HTTP/1.1\r\n")
    assert talk.connection.skip_frame(REQUEST, heartbeat(1), 24, at=5, reason="behind") == []


# SASL before its tokens were framed


def handshake(version: int, mechanism: str, error_code: int = 0) -> tuple[bytes, bytes]:
    return (
        request("SaslHandshake", version, {"mechanism": mechanism}, correlation_id=1),
        response("SaslHandshake", version, {"error_code": error_code, "mechanisms": [mechanism]}, correlation_id=1),
    )


def test_a_raw_plain_token_is_no_frame_and_kafka_follows() -> None:
    talk = Talk()
    ask, agree = handshake(0, "PLAIN")
    talk.client(ask)
    talk.server(agree)
    assert talk.client(framed(b"\0alice\0secret")) == [f"> token @{len(ask)}+13"]
    assert talk.server(framed(b"")) == [f"< token @{len(agree)}+0"]
    assert talk.client(heartbeat(2)) == [f"> Heartbeat v0 #2 @{len(ask) + 17}+24"]
    assert talk.server(answer(2)) == [f"< #2 to Heartbeat @{len(ask) + 17} @{len(agree) + 4}+6"]


def test_raw_scram_tokens_go_back_and_forth() -> None:
    talk = Talk()
    ask, agree = handshake(0, "SCRAM-SHA-256")
    talk.client(ask)
    talk.server(agree)
    for client, server in (
        (b"n,,n=alice,r=abc", b"r=abcdef,s=c2FsdA==,i=4096"),
        (b"c=biws,r=abcdef,p=cHJvb2Y=", b"v=c2ln"),
    ):
        [said] = talk.client(framed(client))
        assert said.startswith("> token @")
        [said] = talk.server(framed(server))
        assert said.startswith("< token @")
    assert len(talk.client(heartbeat(2))) == 1
    assert talk.server(answer(2))[0].startswith("< #2 to Heartbeat")


def test_a_token_is_none_before_its_handshake_or_after_one_with_frames() -> None:
    for version in (0, 1):
        talk = Talk()
        ask, agree = handshake(version, "PLAIN", error_code=33 if version == 0 else 0)
        talk.client(ask)
        talk.server(agree)
        [said] = talk.client(framed(b"\0alice\0secret"))
        assert "token" not in said


def test_a_token_stays_secret_if_the_answer_to_the_handshake_was_lost() -> None:
    talk = Talk()
    ask, agree = handshake(0, "PLAIN")
    talk.client(ask)
    talk.lose(RESPONSE, len(agree))
    assert talk.client(framed(b"\0alice\0secret")) == [f"> token @{len(ask)}+13"]


def test_kafka_may_follow_its_token_at_once() -> None:
    talk = Talk()
    ask, agree = handshake(0, "PLAIN")
    talk.client(ask)
    talk.server(agree)
    assert len(talk.client(framed(b"\0alice\0secret") + heartbeat(0))) == 2
    assert talk.server(framed(b"") + answer(0)) == [
        f"< token @{len(agree)}+0",
        f"< #0 to Heartbeat @{len(ask) + 17} @{len(agree) + 4}+6",
    ]
    assert talk.server(unhex("00000003 000000")) == [f"< lost @{len(agree) + 14}: unknown, length prefix says 3 bytes"]


def test_an_answer_after_a_token_whose_answer_was_lost_is_a_response() -> None:
    talk = Talk()
    ask, agree = handshake(0, "PLAIN")
    talk.client(ask)
    talk.server(agree)
    talk.client(framed(b"\0alice\0secret") + beats(2, 3))
    assert talk.server(answers(2, 9, 3)) == [
        f"< #2 to Heartbeat @{len(ask) + 17} @{len(agree)}+6",
        f"< #9 to nobody @{len(agree) + 10}+6",
        f"< #3 to Heartbeat @{len(ask) + 45} @{len(agree) + 20}+6",
    ]


# What a request looks like


@pytest.mark.parametrize(
    ("text", "why"),
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
def test_what_cannot_be_a_request_is_not_plausible(text: str, why: str) -> None:
    assert not plausible_request(unhex(text), 0), why


@pytest.mark.parametrize(
    "text",
    [
        "0000000a 000c 0000 00000001 ffff",
        "0000000c 000c 0000 00000001 0002 6d65",
        "0000000c 000c 000c 00000001 0002",
        "0000000a 0012 0003 7fffffff 0000",
    ],
)
def test_what_may_be_a_request_is_plausible(text: str) -> None:
    assert plausible_request(b"\xff" + unhex(text), 1)


def test_a_frame_that_is_nearly_a_request_is_a_token_after_the_handshake() -> None:
    talk = Talk()
    ask, agree = handshake(0, "PLAIN")
    talk.client(ask)
    talk.server(agree)
    trailing = framed(heartbeat(2)[4:] + b"\0")
    assert talk.client(trailing) == [f"> token @{len(ask)}+25"]


def test_the_header_of_a_request_is_encoded_as_it_is_looked_for() -> None:
    header = encode(layout("RequestHeader", 2), {"request_api_key": 12, "request_api_version": 4, "client_id": "me"})
    assert plausible_request(framed(header), 0)
