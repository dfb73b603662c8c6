"""Connections with bytes that were not captured: where the next frame is found, and which responses a loss excuses."""

from __future__ import annotations

import tracemalloc

import pytest

from dissectors.connections import in_flight_requests
from dissectors.connections.connection import Connection
from dissectors.hexdump import unhex
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
from tests.kproxy.frames import request, response


def test_capture_that_starts_inside_a_frame_resumes_at_the_next_one() -> None:
    dialogue = Dialogue(midstream=True)
    assert dialogue.client(heartbeat(1)[9:] + heartbeat(2)) == [
        "> 19 bytes skipped @0: the capture starts in the middle of the stream",
        "> Heartbeat v0 #2 @19+24",
    ]
    assert dialogue.server(heartbeat_response(1)[3:] + heartbeat_response(2)) == [
        "< 7 bytes skipped @0: the capture starts in the middle of the stream",
        "< #2 to Heartbeat @19 @7+6",
    ]


def test_capture_that_starts_between_frames_skips_nothing() -> None:
    dialogue = Dialogue(midstream=True)
    assert dialogue.client(heartbeat(1)) == ["> Heartbeat v0 #1 @0+24"]
    assert dialogue.server(heartbeat_response(1)) == ["< #1 to Heartbeat @0 @0+6"]


def test_responses_to_requests_before_the_capture_are_skipped() -> None:
    dialogue = Dialogue(midstream=True)
    dialogue.client(heartbeat(3))
    assert dialogue.server(heartbeat_responses(1, 2, 3, 9)) == [
        "< 20 bytes skipped @0: the capture starts in the middle of the stream",
        "< #3 to Heartbeat @0 @20+6",
        "< #9 to nobody @30+6",
    ]


def test_search_that_finds_no_frame_is_reported_at_the_end() -> None:
    dialogue = Dialogue(midstream=True)
    assert dialogue.client(b"\xff" * 100, b"\xff" * 100) == []
    assert dialogue.connection.buffered == 0
    assert dialogue.close() == [
        "> 200 bytes skipped @0: the capture starts in the middle of the stream",
        "end, unanswered: none",
    ]


def test_loss_inside_a_frame_keeps_the_stream_in_sync() -> None:
    dialogue = Dialogue()
    stream = heartbeats(1, 2, 3)
    assert dialogue.client(stream[:40]) == ["> Heartbeat v0 #1 @0+24"]
    assert dialogue.lose(REQUEST, 10) == [
        "> 10 bytes skipped @40: not captured",
        "> Heartbeat v0 #2 @28+24 (10 bytes of it were lost)",
    ]
    assert dialogue.client(stream[50:]) == ["> Heartbeat v0 #3 @56+24"]
    assert dialogue.server(heartbeat_responses(1, 2, 3))[1] == "< #2 to Heartbeat @28 @10+6"


def test_rest_of_a_damaged_frame_may_be_lost_piece_by_piece() -> None:
    dialogue = Dialogue()
    stream = heartbeats(1, 2)
    dialogue.client(stream[:8])
    assert len(dialogue.lose(REQUEST, 5)) == 2
    assert dialogue.lose(REQUEST, 5) == ["> 5 bytes skipped @13: not captured"]
    assert dialogue.client(stream[18:20]) == []
    assert dialogue.lose(REQUEST, 8) == ["> 8 bytes skipped @20: not captured"]
    assert dialogue.client(stream[28:]) == ["> Heartbeat v0 #2 @28+24"]


def test_loss_beyond_the_end_of_a_frame_starts_a_search() -> None:
    dialogue = Dialogue()
    stream = heartbeats(1, 2, 3, 4)
    dialogue.client(stream[:40])
    assert dialogue.lose(REQUEST, 20) == [
        "> 20 bytes skipped @40: not captured",
        "> Heartbeat v0 #2 @28+24 (20 bytes of it were lost)",
    ]
    assert dialogue.client(stream[60:]) == [
        "> 24 bytes skipped @60: 20 bytes were lost",
        "> Heartbeat v0 #4 @84+24",
    ]


def test_loss_beyond_the_end_of_a_reported_frame_starts_a_search() -> None:
    dialogue = Dialogue()
    stream = heartbeats(1, 2, 3)
    dialogue.client(stream[:8])
    dialogue.lose(REQUEST, 10)
    assert dialogue.lose(REQUEST, 15) == ["> 15 bytes skipped @18: not captured"]
    assert dialogue.client(stream[33:])[-1] == "> Heartbeat v0 #3 @56+24"


def test_loss_between_frames_starts_a_search() -> None:
    dialogue = Dialogue()
    dialogue.client(heartbeats(1, 2))
    dialogue.server(heartbeat_response(1))
    assert dialogue.lose(RESPONSE, 4) == ["< 4 bytes skipped @10: not captured"]
    dialogue.client(heartbeat(3))
    assert dialogue.server(heartbeat_response(2)[4:] + heartbeat_response(3)) == [
        "< 6 bytes skipped @14: 4 bytes were lost",
        "< #3 to Heartbeat @56 @20+6",
    ]


def test_loss_inside_a_length_prefix_starts_a_search() -> None:
    dialogue = Dialogue()
    stream = heartbeats(1, 2, 3)
    dialogue.client(stream[:30])
    assert dialogue.lose(REQUEST, 5) == [
        "> 5 bytes skipped @30: not captured",
        "> 2 bytes skipped @28: 5 bytes were lost",
    ]
    assert dialogue.client(stream[35:])[-1] == "> Heartbeat v0 #3 @56+24"


def test_lost_and_skipped_bytes_of_a_search_are_reported_separately() -> None:
    dialogue = Dialogue(midstream=True)
    assert dialogue.client(b"\xff" * 50) == []
    assert dialogue.lose(REQUEST, 9) == [
        "> 9 bytes skipped @50: not captured",
        "> 50 bytes skipped @0: the capture starts in the middle of the stream",
    ]
    assert dialogue.client(b"\xff" * 3 + heartbeat(1)) == [
        "> 3 bytes skipped @59: the capture starts in the middle of the stream",
        "> Heartbeat v0 #1 @62+24",
    ]


def test_loss_of_whole_frames_keeps_the_stream_in_sync() -> None:
    dialogue = Dialogue()
    dialogue.client(heartbeat(1))
    assert dialogue.lose(REQUEST, 56, frames=2) == ["> 56 bytes skipped @28, 2 frames: not captured"]
    assert dialogue.client(heartbeat(4)) == ["> Heartbeat v0 #4 @84+24"]
    assert dialogue.server(heartbeat_responses(1, 2, 3, 4, 9)) == [
        "< #1 to Heartbeat @0 @0+6",
        "< #2 to nobody @10+6 (its request was not captured)",
        "< #3 to nobody @20+6 (its request was not captured)",
        "< #4 to Heartbeat @84 @30+6",
        "< #9 to nobody @40+6",
    ]


def test_loss_of_whole_frames_after_a_partial_one_keeps_the_stream_in_sync() -> None:
    dialogue = Dialogue()
    dialogue.client(heartbeats(1, 2)[:40])
    assert dialogue.lose(REQUEST, 44, frames=1) == [
        "> 44 bytes skipped @40, 1 frames: not captured",
        "> Heartbeat v0 #2 @28+24 (44 bytes of it were lost)",
    ]
    assert dialogue.client(heartbeat(4)) == ["> Heartbeat v0 #4 @84+24"]


def test_only_responses_to_lost_requests_are_attributed_to_the_loss() -> None:
    dialogue = Dialogue()
    dialogue.client(heartbeat(1))
    dialogue.lose(REQUEST, 28, frames=1)
    dialogue.client(heartbeat(3))
    assert dialogue.server(heartbeat_responses(1, 2, 3, 9)) == [
        "< #1 to Heartbeat @0 @0+6",
        "< #2 to nobody @10+6 (its request was not captured)",
        "< #3 to Heartbeat @56 @20+6",
        "< #9 to nobody @30+6",
    ]


def test_requests_with_lost_responses_are_not_reported_as_unanswered() -> None:
    dialogue = Dialogue()
    dialogue.client(heartbeats(1, 2))
    dialogue.lose(RESPONSE, 20, frames=2)
    dialogue.client(heartbeats(3, 4, 5))
    assert dialogue.server(heartbeat_responses(5, 3)) == [
        "< #5 to Heartbeat @112 @20+6, 2 passed over",
        "< #3 to Heartbeat @56 @30+6",
    ]
    assert dialogue.close() == ["end, unanswered: #4"]


def test_loss_after_lost_framing_is_only_counted() -> None:
    dialogue = Dialogue()
    dialogue.client(b"GET / HTTP/1.1\r\n")
    assert dialogue.lose(REQUEST, 10) == ["> 10 bytes skipped @16: not captured"]
    assert dialogue.client(heartbeat(1)) == []


def test_after_a_loss_a_response_is_accepted_only_if_it_decodes() -> None:
    dialogue = Dialogue()
    metadata = request("Metadata", 0, {}, correlation_id=5)
    dialogue.client(metadata)
    dialogue.lose(RESPONSE, 100)
    lookalike = unhex("0000000a 00000005 7fffffff 0000")
    valid_response = response("Metadata", 0, {}, correlation_id=5)
    assert dialogue.server(lookalike + valid_response) == [
        "< 14 bytes skipped @100: 100 bytes were lost",
        "< #5 to Metadata @0 @114+12",
    ]


def test_after_a_loss_a_pending_response_is_forgotten_with_its_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_flight_requests, "MAX_IN_FLIGHT", 1)
    dialogue = Dialogue()
    dialogue.client(heartbeat(5))
    dialogue.lose(RESPONSE, 100)
    assert dialogue.server(heartbeat_response(5)[:9]) == []
    dialogue.client(heartbeat(6))
    assert dialogue.server(heartbeat_response(5)[9:] + heartbeat_response(6)) == [
        "< 10 bytes skipped @100: 100 bytes were lost",
        "< #6 to Heartbeat @28 @110+6",
    ]


def test_after_a_loss_a_long_response_is_accepted_by_its_correlation_id() -> None:
    dialogue = Dialogue()
    dialogue.client(heartbeat(5))
    dialogue.lose(RESPONSE, 100)
    assert dialogue.server(unhex("00 01 00 00 00 00 00 05"), bytes(65536 - 4)) == ["< #5 to Heartbeat @0 @100+65536"]


def test_length_above_the_limit_is_rejected_during_a_search() -> None:
    dialogue = Dialogue(midstream=True, max_frame_bytes=1000)
    too_long = request("Heartbeat", 0, HEARTBEAT | {"group_id": "g" * 2000}, correlation_id=1)
    assert dialogue.client(too_long + heartbeat(2))[-1] == f"> Heartbeat v0 #2 @{len(too_long)}+24"


def test_false_long_length_does_not_delay_later_frames() -> None:
    dialogue = Dialogue(midstream=True)
    false_frame = unhex("00 10 00 00  00 00 00 03  00 00 00 01  00 00")
    assert dialogue.client(false_frame, *(heartbeats(n) for n in range(4))) == [
        "> 14 bytes skipped @0: the capture starts in the middle of the stream",
        *(f"> Heartbeat v0 #{n} @{14 + 28 * n}+24" for n in range(4)),
    ]


def test_long_frame_is_accepted_once_no_other_is_found_in_it() -> None:
    dialogue = Dialogue(midstream=True)
    produce = request("Produce", 3, {"acks": 1, "topic_data": [{"name": "x" * 20_000}]}, correlation_id=9)
    assert dialogue.client(produce[:16_383]) == []
    assert dialogue.client(produce[16_383:] + heartbeat(10)) == [
        f"> Produce v3 #9 @0+{len(produce) - 4}",
        f"> Heartbeat v0 #10 @{len(produce)}+24",
    ]


@pytest.mark.slow
def test_search_needs_no_more_memory_than_a_frame() -> None:
    connection = Connection(midstream=True)
    noise = bytes(range(1, 256)) * 16
    tracemalloc.start()
    for _ in range(100):
        connection.receive_data(REQUEST, noise, at=0)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 100_000
